/* The discrete device: the traps that it sets for code that treats every device as the host, and
 * its failures. */
#include "base_check.h"
#include "device_contract.h"
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

static muster_status wait_at_gate(void *user) {
    gate *g = user;
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
    gate g = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    int value = 1, result = 0;
    int *block = allocate(device, sizeof value);
    assert_ok(mst_discrete_call(device, wait_at_gate, &g));
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

/* A kernel that was given one block and reads on into the next one, which is released. */
static void released_memory_is_poisoned(void **state) {
    mst_device *device = *state;
    enum { FLOATS = 33, LAST = 32 };
    float copies[FLOATS];
    unsigned char stale[sizeof(float)];
    void *copy = allocate(device, sizeof copies), *kept = allocate(device, 64), *gone = allocate(device, 64);
    assert_int_equal((char *)gone - (char *)kept, LAST * (int)sizeof(float));
    device->memory->release(device, gone);
    assert_ok(contract_launch_scale(device, copy, kept, FLOATS, 1));
    assert_ok(device->memory->copy_out(device, copies, copy, sizeof copies));
    assert_ok(device->table->synchronize(device));
    memset(stale, 0xDD, sizeof stale);
    assert_memory_equal(&copies[LAST], stale, sizeof stale);
    device->memory->release(device, kept);
    device->memory->release(device, copy);
}

static void addresses_that_are_not_its_own_are_refused(void **state) {
    mst_device *device = *state;
    char host[128];
    void *block = allocate(device, 100);
    assert_refused(device->memory->copy_in(device, host, host, 1), MUSTER_INTERNAL, "inside an allocated block");
    assert_refused(device->memory->copy_out(device, host, block, 101), MUSTER_INTERNAL, "101 bytes");
    assert_refused(device->memory->copy(device, block, host, 1), MUSTER_INTERNAL, "inside an allocated block");
    device->memory->release(device, block);
}

/* Like a GPU's, its kernels use an address only when they run. */
static void a_kernel_that_uses_a_wrong_address_fails(void **state) {
    mst_device *device = *state;
    char host[128];
    char *block = allocate(device, 100), *released = allocate(device, 100);
    device->memory->release(device, released);
    void *const wrong[] = {host, released, block + 100, block + 120};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_ok(contract_launch_scale(device, wrong[i], block, 1, 1));
        assert_refused(device->table->synchronize(device), MUSTER_INTERNAL,
                       "discrete 0: the kernel contract_scale: address: expected one inside an allocated block of this device");
        assert_ok(contract_launch_scale(device, block, wrong[i], 1, 1));
        assert_refused(device->table->synchronize(device), MUSTER_INTERNAL, "the kernel contract_scale: address");
    }
    assert_ok(contract_launch_scale(device, block, block + 96, 1, 1));
    assert_ok(device->table->synchronize(device));
    device->memory->release(device, block);
}

static void a_matrix_product_outside_its_memory_is_refused(void **state) {
    mst_device *device = *state;
    void *block = allocate(device, 6 * sizeof(float));
    mst_gemm gemm = {.dtype = MUSTER_F32, .m = 2, .n = 3, .k = 1, .lda = 1, .ldb = 3, .ldc = 3, .alpha = 1, .a = block, .b = block};
    gemm.c = block;
    assert_ok(device->code->gemm(device, &gemm));
    gemm.ldc = 4;
    assert_refused(device->code->gemm(device, &gemm), MUSTER_INTERNAL, "expected 28 bytes inside an allocated block");
    assert_ok(device->table->synchronize(device));
    device->memory->release(device, block);
}

static mst_code_kernel unknown = {.name = "contract_nothing"};

static void a_kernel_of_no_source_is_refused(void **state) {
    mst_device *device = *state;
    char parameters[8] = {0};
    assert_refused(device->code->launch(device, &unknown, 1, parameters, sizeof parameters), MUSTER_INTERNAL,
                   "the kernel contract_nothing: expected one that was there when the device opened, received one of no source");
}

/* ---- failures ---- */

static muster_status refuse(void *user) { return mst_error(MUSTER_USER, "the function refused %d", *(const int *)user); }

/* At the next synchronize: the first failure, with its message, in the issuing thread, and only
 * once. */
static void the_first_failure_is_told_once(void **state) {
    mst_device *device = *state;
    mst_error(MUSTER_OK, "stale");
    int first = 41, second = 42;
    assert_ok(mst_discrete_call(device, refuse, &first));
    assert_ok(mst_discrete_call(device, refuse, &second));
    assert_int_equal(device->table->synchronize(device), MUSTER_USER);
    assert_string_equal(muster_last_error(), "the function refused 41");
    assert_ok(device->table->synchronize(device));
}

static void it_works_again_after_a_failure(void **state) {
    mst_device *device = *state;
    int number = 1, in = 77, out = 0;
    assert_ok(mst_discrete_call(device, refuse, &number));
    assert_int_equal(device->table->synchronize(device), MUSTER_USER);
    int *block = allocate(device, sizeof in);
    assert_ok(device->memory->copy_in(device, block, &in, sizeof in));
    assert_ok(device->memory->copy_out(device, &out, block, sizeof out));
    assert_ok(device->table->synchronize(device));
    assert_int_equal(out, 77);
    device->memory->release(device, block);
}

static void its_memory_has_an_end(void **state) {
    mst_device *device = *state;
    void *address = NULL, *most = allocate(device, 400 << 20);
    assert_refused(device->memory->allocate(device, 400 << 20, &address), MUSTER_OUT_OF_MEMORY, "discrete 0");
    device->memory->release(device, most);
}

#if !defined(__SANITIZE_THREAD__) /* ThreadSanitizer allows no new threads in a forked child */
static void overrun(mst_device *device, void *block) {
    mst_device *opened = NULL;
    /* the parent's device has no thread in this process */
    if (device->table->open(device->table, "7", &opened) != MUSTER_OK) _exit(3);
    if (opened->memory->allocate(opened, 100, &block) != MUSTER_OK) _exit(3);
    if (contract_launch_scale(opened, block, block, 26, 0) != MUSTER_OK) _exit(3); /* 104 bytes */
    if (opened->table->synchronize(opened) != MUSTER_OK) _exit(3);
    opened->memory->release(opened, block);
}

static void leak(mst_device *device, void *block) {
    mst_device *opened = NULL;
    if (device->table->open(device->table, "7", &opened) != MUSTER_OK) _exit(3);
    if (opened->memory->allocate(opened, 100, &block) != MUSTER_OK) _exit(3);
    opened->table->close(opened);
}

static void release_early(mst_device *device, void *block) {
    gate g = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    mst_device *opened = NULL;
    if (device->table->open(device->table, "7", &opened) != MUSTER_OK) _exit(3);
    if (opened->memory->allocate(opened, 100, &block) != MUSTER_OK) _exit(3);
    if (mst_discrete_call(opened, wait_at_gate, &g) != MUSTER_OK) _exit(3);
    opened->memory->release(opened, block);
}

static void *sync_elsewhere(void *argument) {
    mst_device *device = argument;
    (void)device->table->synchronize(device);
    return NULL;
}

static void issue_from_two_threads(mst_device *device, void *block) {
    gate g = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    mst_device *opened = NULL;
    (void)block;
    pthread_t thread;
    if (device->table->open(device->table, "7", &opened) != MUSTER_OK) _exit(3);
    if (mst_discrete_call(opened, wait_at_gate, &g) != MUSTER_OK) _exit(3);
    if (pthread_create(&thread, NULL, sync_elsewhere, opened) != 0) _exit(3);
    (void)opened->table->synchronize(opened); /* whichever thread comes second aborts: the first never returns */
}

static void parameters_of_another_kernel(mst_device *device, void *block) {
    mst_device *opened = NULL;
    if (device->table->open(device->table, "7", &opened) != MUSTER_OK) _exit(3);
    (void)opened->code->launch(opened, &contract_scale_kernel, 1, &block, sizeof block);
}

static void misuse_aborts(void **state) {
    mst_device *device = *state;
    assert_int_equal(signal_of(overrun, device, NULL), SIGABRT);
    assert_int_equal(signal_of(leak, device, NULL), SIGABRT);
    assert_int_equal(signal_of(parameters_of_another_kernel, device, NULL), SIGABRT);
    assert_int_equal(signal_of(release_early, device, NULL), SIGABRT);
    assert_int_equal(signal_of(issue_from_two_threads, device, NULL), SIGABRT);
}
#endif

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_discrete, close_discrete)
int main(void) {
    contract_add();
    const struct CMUnitTest tests[] = {
        CASE(host_code_cannot_touch_its_memory),
        CASE(a_wrong_release_aborts),
        CASE(copy_in_reads_host_memory_later),
        CASE(new_memory_is_poisoned),
        CASE(released_memory_is_poisoned),
        CASE(addresses_that_are_not_its_own_are_refused),
        CASE(a_kernel_that_uses_a_wrong_address_fails),
        CASE(a_matrix_product_outside_its_memory_is_refused),
        CASE(a_kernel_of_no_source_is_refused),
        CASE(the_first_failure_is_told_once),
        CASE(it_works_again_after_a_failure),
        CASE(its_memory_has_an_end),
#if !defined(__SANITIZE_THREAD__)
        CASE(misuse_aborts),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
