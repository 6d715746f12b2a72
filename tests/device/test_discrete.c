/* What makes the device discrete: the traps that it sets for code that treats every device as the
 * host. */
#include "base_check.h"
#include "device_discrete.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int open_discrete(void **state) {
    if (mst_discrete_register() != MUSTER_OK) return -1;
    const mst_device_table *table = mst_device_find("discrete");
    return table->open(table, "0", (mst_device **)state) == MUSTER_OK ? 0 : -1;
}

static int close_discrete(void **state) {
    mst_device *device = *state;
    device->table->close(device);
    return 0;
}

static void *allocate(mst_device *device, int64_t bytes) {
    void *address = NULL;
    assert_ok(device->memory->allocate(device, bytes, &address));
    return address;
}

/* The signal that ends a child which runs `action`, 0 if it lives on. */
static int signal_of(void (*action)(mst_device *device, void *block), mst_device *device, void *block) {
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGSEGV, SIG_DFL); /* not the handlers of a sanitizer or of cmocka */
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr)) _exit(2);
        action(device, block);
        _exit(0);
    }
    int status = 0;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void read_block(mst_device *device, void *block) {
    (void)device;
    (void)*(volatile char *)block;
}

static void write_block(mst_device *device, void *block) {
    (void)device;
    *(volatile char *)block = 1;
}

static void host_code_cannot_touch_its_memory(void **state) {
    mst_device *device = *state;
    void *block = allocate(device, 64);
    assert_int_equal(signal_of(read_block, device, block), SIGSEGV);
    assert_int_equal(signal_of(write_block, device, block), SIGSEGV);
    device->memory->release(device, block);
}

static void release_inside(mst_device *device, void *block) { device->memory->release(device, (char *)block + 64); }

static void a_wrong_release_aborts(void **state) {
    mst_device *device = *state;
    void *block = allocate(device, 256);
    assert_int_equal(signal_of(release_inside, device, block), SIGABRT);
    device->memory->release(device, block);
}

/* A gate that keeps the device's thread busy until the test opens it. */
typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
} gate;

static muster_status wait_at_gate(const void *parameters) {
    gate *g = *(gate *const *)parameters;
    pthread_mutex_lock(&g->lock);
    while (!g->open) pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
    return MUSTER_OK;
}

static void open_gate(gate *g) {
    pthread_mutex_lock(&g->lock);
    g->open = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static void copy_in_reads_host_memory_later(void **state) {
    mst_device *device = *state;
    gate g = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false}, *pointer = &g;
    int value = 1, result = 0;
    int *block = allocate(device, sizeof value);
    assert_ok(device->table->launch(device, wait_at_gate, &pointer, sizeof pointer, NULL, 0));
    assert_ok(device->memory->copy_in(device, block, &value, sizeof value));
    assert_ok(device->memory->copy_out(device, &result, block, sizeof result));
    value = 2; /* too early on any device with a queue: here it shows */
    open_gate(&g);
    assert_ok(device->table->synchronize(device));
    assert_int_equal(result, 2);
    device->memory->release(device, block);
}

static unsigned char first_byte_of(mst_device *device, const void *block) {
    unsigned char byte = 0;
    assert_ok(device->memory->copy_out(device, &byte, block, 1));
    assert_ok(device->table->synchronize(device));
    return byte;
}

static void new_memory_is_poisoned(void **state) {
    mst_device *device = *state;
    void *block = allocate(device, 64);
    char zero[64] = {0};
    assert_int_equal(first_byte_of(device, block), 0xCD);
    assert_ok(device->memory->copy_in(device, block, zero, sizeof zero));
    assert_ok(device->table->synchronize(device));
    device->memory->release(device, block);
    void *again = allocate(device, 64);
    assert_ptr_equal(again, block);
    assert_int_equal(first_byte_of(device, again), 0xCD);
    device->memory->release(device, again);
}

/* A kernel that was given one block and reads the one beside it, which is released. */
static muster_status read_released(const void *parameters) {
    const unsigned char *kept = *(const unsigned char *const *)parameters;
    return kept[128] == 0xDD ? MUSTER_OK : mst_error(MUSTER_USER, "the byte is %d", kept[128]);
}

static void released_memory_is_poisoned(void **state) {
    mst_device *device = *state;
    void *kept = allocate(device, 64), *gone = allocate(device, 64);
    const int32_t offset = 0;
    assert_int_equal((char *)gone - (char *)kept, 128);
    device->memory->release(device, gone);
    assert_ok(device->table->launch(device, read_released, &kept, sizeof kept, &offset, 1));
    assert_ok(device->table->synchronize(device));
    device->memory->release(device, kept);
}

static void addresses_that_are_not_its_own_are_refused(void **state) {
    mst_device *device = *state;
    char host[128];
    void *block = allocate(device, 100), *foreign = host;
    const int32_t offset = 0, outside = 4;
    assert_refused(device->memory->copy_in(device, host, host, 1), MUSTER_INTERNAL, "inside an allocated block");
    assert_refused(device->memory->copy_out(device, host, block, 101), MUSTER_INTERNAL, "101 bytes");
    assert_refused(device->memory->copy(device, block, host, 1), MUSTER_INTERNAL, "inside an allocated block");
    assert_refused(device->table->launch(device, read_released, &foreign, sizeof foreign, &offset, 1), MUSTER_INTERNAL, "address");
    assert_refused(device->table->launch(device, read_released, &block, sizeof block, &outside, 1), MUSTER_INTERNAL, "offset 4");
    device->memory->release(device, block);
}

static void parameters_that_are_too_long_are_refused(void **state) {
    mst_device *device = *state;
    static char parameters[MST_LAUNCH_MAX + 1];
    assert_refused(device->table->launch(device, read_released, parameters, sizeof parameters, NULL, 0), MUSTER_INTERNAL, "2049");
}

static void its_memory_has_an_end(void **state) {
    mst_device *device = *state;
    void *address = NULL, *most = allocate(device, 400 << 20);
    assert_refused(device->memory->allocate(device, 400 << 20, &address), MUSTER_OUT_OF_MEMORY, "discrete 0");
    device->memory->release(device, most);
}

#if !defined(__SANITIZE_THREAD__) /* ThreadSanitizer allows no new threads in a forked child */
static muster_status write_behind(const void *parameters) {
    (*(char *const *)parameters)[100] = 1;
    return MUSTER_OK;
}

static void overrun(mst_device *device, void *block) {
    const int32_t offset = 0;
    mst_device *own = NULL;
    /* the parent's device has no thread in this process */
    if (device->table->open(device->table, "7", &own) != MUSTER_OK) _exit(3);
    if (own->memory->allocate(own, 100, &block) != MUSTER_OK) _exit(3);
    if (own->table->launch(own, write_behind, &block, sizeof block, &offset, 1) != MUSTER_OK) _exit(3);
    if (own->table->synchronize(own) != MUSTER_OK) _exit(3);
    own->memory->release(own, block);
}

static void leak(mst_device *device, void *block) {
    mst_device *own = NULL;
    if (device->table->open(device->table, "7", &own) != MUSTER_OK) _exit(3);
    if (own->memory->allocate(own, 100, &block) != MUSTER_OK) _exit(3);
    own->table->close(own);
}

static void release_early(mst_device *device, void *block) {
    gate g = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false}, *pointer = &g;
    mst_device *own = NULL;
    if (device->table->open(device->table, "7", &own) != MUSTER_OK) _exit(3);
    if (own->memory->allocate(own, 100, &block) != MUSTER_OK) _exit(3);
    if (own->table->launch(own, wait_at_gate, &pointer, sizeof pointer, NULL, 0) != MUSTER_OK) _exit(3);
    own->memory->release(own, block);
}

static void *sync_elsewhere(void *argument) {
    mst_device *device = argument;
    (void)device->table->synchronize(device);
    return NULL;
}

static void issue_from_two_threads(mst_device *device, void *block) {
    gate g = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false}, *pointer = &g;
    mst_device *own = NULL;
    (void)block;
    pthread_t thread;
    if (device->table->open(device->table, "7", &own) != MUSTER_OK) _exit(3);
    if (own->table->launch(own, wait_at_gate, &pointer, sizeof pointer, NULL, 0) != MUSTER_OK) _exit(3);
    if (pthread_create(&thread, NULL, sync_elsewhere, own) != 0) _exit(3);
    (void)own->table->synchronize(own); /* whichever thread comes second aborts: the first never returns */
}

static void misuse_aborts(void **state) {
    mst_device *device = *state;
    assert_int_equal(signal_of(overrun, device, NULL), SIGABRT);
    assert_int_equal(signal_of(leak, device, NULL), SIGABRT);
    assert_int_equal(signal_of(release_early, device, NULL), SIGABRT);
    assert_int_equal(signal_of(issue_from_two_threads, device, NULL), SIGABRT);
}
#endif

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_discrete, close_discrete)
int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(host_code_cannot_touch_its_memory),
        CASE(a_wrong_release_aborts),
        CASE(copy_in_reads_host_memory_later),
        CASE(new_memory_is_poisoned),
        CASE(released_memory_is_poisoned),
        CASE(addresses_that_are_not_its_own_are_refused),
        CASE(parameters_that_are_too_long_are_refused),
        CASE(its_memory_has_an_end),
#if !defined(__SANITIZE_THREAD__)
        CASE(misuse_aborts),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
