/* Programs with many threads, fibers or coroutines give them small stacks. Every public call works
 * on a stack of 64 KiB. */
#include "embedding.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* PAINT fills the stack, so that the deepest call can be read off afterwards. */
#ifdef MUSTER_TEST_SANITIZED /* sanitizers make frames several times larger */
enum { STACK = 1 << 20, PAINT = 0xA5 };
#else
enum { STACK = 64 << 10, PAINT = 0xA5 };
#endif

/* How much stack the code of other libraries needs is not known here: it has threads of its own.
 * Libraries that were opened, on all threads and on those with a small stack, and threads that were
 * started with a large one. */
enum { LARGE_STACK = 8 << 20, DEVICES = 3 };
static _Atomic int opened, opened_here, large;
static _Thread_local bool here;

#ifndef MUSTER_TEST_SANITIZED /* which have a function of their own in its place */
void *dlopen(const char *path, int flags) {
    void *(*open)(const char *path, int flags);
    *(void **)&open = dlsym(RTLD_NEXT, "dlopen");
    opened++;
    opened_here += here;
    return open(path, flags);
}

typedef int (*create_function)(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument);

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*start)(void *), void *restrict argument) {
    create_function create;
    size_t bytes = 0;
    *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
    if (attributes) pthread_attr_getstacksize(attributes, &bytes);
    large += bytes >= LARGE_STACK;
    return create(thread, attributes, start, argument);
}
#endif

typedef struct step {
    const char *name;
    void (*run)(embedded *e);
} step;

typedef struct visit {
    const step *step;
    embedded *embedded;
} visit;

static void *visit_main(void *argument) {
    visit *v = argument;
    here = true;
    v->step->run(v->embedded);
    return NULL;
}

/* Runs the step on a stack of its own; below it lies a page that cannot be touched. Returns the
 * bytes that were used. */
static size_t run_small(const step *step, embedded *e) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *memory = mmap(NULL, STACK + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *stack = memory + page;
    pthread_attr_t attributes;
    pthread_t thread;
    visit v = {step, e};
    size_t untouched = 0;
    assert_true(memory != MAP_FAILED && mprotect(memory, page, PROT_NONE) == 0);
    memset(stack, PAINT, STACK);
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstack(&attributes, stack, STACK), 0);
    assert_int_equal(pthread_create(&thread, &attributes, visit_main, &v), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    while (untouched < STACK && stack[untouched] == PAINT) untouched++;
    munmap(memory, STACK + page);
    return STACK - untouched;
}

/* The first round opens the libraries, the second finds them open. */
static void test_every_call_fits_a_small_stack(void **state) {
    (void)state;
    static const step steps[] = {{"open", embedded_open},   {"call", embedded_call},     {"kernel", embedded_kernel},
                                 {"graph", embedded_graph}, {"server", embedded_server}, {"reports", embedded_reports},
                                 {"close", embedded_close}};
    embedded e = {.kernels = true};
    int ran = 0;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++, ran++) {
            const int before = large;
            printf("%s: %zu bytes of stack\n", steps[i].name, run_small(&steps[i], &e));
#ifndef MUSTER_TEST_SANITIZED
            if (steps[i].run == embedded_kernel) assert_true(large >= before + DEVICES); /* each compiles it */
#endif
            (void)before;
        }
    }
    assert_int_equal(ran, 14);
#ifndef MUSTER_TEST_SANITIZED
    assert_true(opened >= 2); /* of OpenBLAS and of the compiler of kernels */
#endif
    assert_int_equal(opened_here, 0);
}

int main(void) {
    setenv("MUSTER_CACHE_DIR", "off", 1); /* so that kernels are compiled */
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_call_fits_a_small_stack)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
