/* A program waits for its signals in a thread of its own, with sigwait. That works only if every
 * thread of the library, and of the libraries that it opens, blocks them. */
#include "embedding.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static const int signals[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD, SIGALRM, SIGPROF, SIGIO};
enum { SIGNALS = sizeof signals / sizeof *signals };

/* Threads that the library has started, and those of them that began with a signal of the program
 * unblocked. Some end before the test can look at them. */
static _Atomic int started, started_open;

#ifndef MUSTER_TEST_SANITIZED /* which have a function of their own in its place */
typedef int (*create_function)(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument);

/* In place of the C library's: a new thread begins with the mask of the one that creates it. */
int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*start)(void *), void *restrict argument) {
    create_function create;
    sigset_t blocked;
    bool open = pthread_sigmask(SIG_SETMASK, NULL, &blocked) != 0;
    *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
    for (int i = 0; i < SIGNALS; i++) open |= !sigismember(&blocked, signals[i]);
    started++;
    started_open += open;
    return create(thread, attributes, start, argument);
}
#endif

/* The blocked signals of one thread of this process: bit n - 1 is signal n. */
static uint64_t blocked_signals(const char *thread) {
    char path[64], line[256];
    unsigned long long blocked = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/status", thread);
    FILE *file = fopen(path, "r");
    if (!file) return ~0ULL; /* it has ended meanwhile */
    while (!found && fgets(line, sizeof line, file)) found = sscanf(line, "SigBlk: %llx", &blocked) == 1;
    fclose(file);
    assert_true(found);
    return blocked;
}

/* Checks all threads but this one; returns their number. */
static int check_threads(void) {
    DIR *folder = opendir("/proc/self/task");
    int threads = 0;
    assert_non_null(folder);
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == (int)syscall(SYS_gettid)) continue;
        const uint64_t blocked = blocked_signals(entry->d_name);
        threads++;
        for (int i = 0; i < SIGNALS; i++) {
            if (!(blocked >> (signals[i] - 1) & 1)) fail_msg("a thread does not block signal %d", signals[i]);
        }
    }
    closedir(folder);
    return threads;
}

/* Kernels are compiled by two threads beside the caller's, which end with that. */
static void check_kernel(embedded *e) {
    const int before = started;
    embedded_kernel(e);
#ifndef MUSTER_TEST_SANITIZED
    assert_true(started >= before + 2);
#endif
    (void)before;
}

static void check_server(embedded *e) {
    enum { THREADS = 2 };
    const int before = check_threads();
    float value = 1;
    muster_server *server;
    muster_server_options options;
    muster_server_options_init(&options);
    options.progress = THREADS;
    assert_ok(muster_server_create(e->runtime, "with threads", (muster_tensor[]){muster_f32(&value, 1)}, 1, &options, &server));
    assert_true(check_threads() >= before + THREADS);
    assert_ok(muster_server_destroy(server));
    embedded_server(e);
}

/* OpenBLAS ends its threads at fork, and starts them anew for the next setting of their number. */
static void fork_once(void) {
    const pid_t child = fork();
    int ended;
    if (child == 0) _exit(0);
    assert_true(child > 0 && waitpid(child, &ended, 0) == child && ended == 0);
}

/* OpenBLAS starts three threads beside the caller's, whatever the number of CPUs. */
static void test_every_thread_blocks_signals(void **state) {
    (void)state;
    embedded e = {.kernels = true};
    setenv("OPENBLAS_NUM_THREADS", "4", 1);
    embedded_open(&e);
    embedded_call(&e);
    check_kernel(&e);
    const int threads = check_threads();
    printf("%d threads\n", threads);
    assert_true(threads >= 2 + 3);
    check_server(&e);
    fork_once();
    embedded_close(&e);
    assert_true(check_threads() <= threads - 3); /* those of OpenBLAS end with the last runtime */
    assert_int_equal(started_open, 0);
}

/* The caller's own mask stays as it was. */
static void test_the_callers_signals_stay(void **state) {
    (void)state;
    sigset_t before, after;
    embedded e = {.kernels = true};
    sigemptyset(&before);
    sigaddset(&before, SIGUSR2);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    embedded_open(&e);
    embedded_call(&e);
    embedded_kernel(&e);
    embedded_server(&e);
    embedded_close(&e);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    for (int i = 1; i < 32; i++) assert_int_equal(sigismember(&after, i), i == SIGUSR2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_thread_blocks_signals), cmocka_unit_test(test_the_callers_signals_stay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
