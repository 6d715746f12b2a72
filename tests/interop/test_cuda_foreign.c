/* Another library on the worker's GPU: its stream and the worker's are ordered by events, its
 * memory becomes a tensor. With the argument "unordered" the program leaves the order out, for
 * ThreadSanitizer to report, which knows what order the machine's streams have. */
#include "muster/cuda.h"

#include "../device/cuda_fixture.h"
#include "base_skip.h"
#include "pool_impl.h"

#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 4096, ROUNDS = 20 };

static void ignore(void *user, muster_log_level level, const char *line) { (void)user, (void)level, (void)line; }

typedef struct machine {
    mst_device *devices[2];
    mst_pool *pool;
} machine;

static machine begin(const char *first, const char *second) {
    new_machine(&(muster_sim_options){.devices = 2, .longest_delay = 100, .seed = 11});
    machine m = {.devices = {opened(first), opened(second)}};
    const mst_pool_options options = {.warn_after_ns = -1, .fail_after_ns = -1, .dedicated_rank0 = true, .log = ignore};
    assert_ok(mst_pool_create(&options, m.devices, 2, &m.pool));
    return m;
}

static void end(machine *m) {
    mst_pool_destroy(m->pool);
    for (int i = 0; i < 2; i++) closed(m->devices[i]);
    check_machine();
}

/* What the other library has: a stream and memory, both of the GPU of the device. */
typedef struct library {
    const mst_cuda_api *api;
    mst_device *device;
    mst_cu_stream stream;
    mst_cu_address memory;
} library;

static library begin_library(mst_device *device) {
    library l = {.api = driver(), .device = device};
    assert_ok(device->queue->enter(device));
    assert_int_equal(l.api->cuStreamCreate(&l.stream, MST_CU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(l.api->cuMemAlloc_v2(&l.memory, BYTES), 0);
    device->queue->leave(device);
    return l;
}

static void end_library(library *l) {
    assert_ok(l->device->queue->enter(l->device));
    assert_int_equal(l->api->cuStreamSynchronize(l->stream), 0);
    assert_int_equal(l->api->cuMemFree_v2(l->memory), 0);
    assert_int_equal(l->api->cuStreamDestroy_v2(l->stream), 0);
    l->device->queue->leave(l->device);
}

static muster_status must(mst_cu_result result, const char *what) { return result == 0 ? MUSTER_OK : muster_fail(MUSTER_USER, what); }
#define MUST(call) MUSTER_TRY(must(call, #call))

/* ---- both ways ---- */

typedef struct exchange {
    library libraries[2];
    bool default_stream, unordered;
} exchange;

static muster_status wait_for(muster_worker *worker, const exchange *e, mst_cu_stream stream) {
    return e->unordered ? MUSTER_OK : muster_worker_cuda_after(worker, stream);
}

static muster_status let_wait(muster_worker *worker, const exchange *e, mst_cu_stream stream) {
    return e->unordered ? MUSTER_OK : muster_worker_cuda_before(worker, stream);
}

/* The library fills its memory; the worker copies that to its own; the library copies it back to
 * the second half of its memory, which the worker brings out. */
static muster_status pass_it_on(muster_worker *worker, void *argument) {
    const exchange *e = argument;
    const library *l = &e->libraries[worker->rank];
    const mst_device_table *table = worker->device->table;
    const mst_cu_stream stream = e->default_stream ? NULL : l->stream;
    unsigned char out[BYTES / 2];
    void *own;
    MUSTER_TRY(mst_worker_scratch_bytes(worker, BYTES / 2, &own));
    for (int round = 1; round <= ROUNDS; round++) {
        MUST(l->api->cuMemsetD8Async(l->memory, (unsigned char)round, BYTES / 2, stream));
        MUSTER_TRY(wait_for(worker, e, stream));
        MUSTER_TRY(table->memory->copy(worker->device, own, (void *)(uintptr_t)l->memory, BYTES / 2));
        MUSTER_TRY(let_wait(worker, e, stream));
        MUST(l->api->cuMemcpyDtoDAsync_v2(l->memory + BYTES / 2, (mst_cu_address)(uintptr_t)own, BYTES / 2, stream));
        MUSTER_TRY(wait_for(worker, e, stream));
        MUSTER_TRY(table->memory->copy_out(worker->device, out, (char *)(uintptr_t)l->memory + BYTES / 2, BYTES / 2));
        MUSTER_TRY(mst_worker_sync(worker));
        for (int i = 0; i < BYTES / 2 && !e->unordered; i++) {
            if (out[i] != round) return mst_error(MUSTER_USER, "byte %d of round %d is %d", i, round, out[i]);
        }
    }
    if (e->unordered) MUST(l->api->cuStreamSynchronize(stream));
    return MUSTER_OK;
}

static void exchange_on(const char *first, const char *second, bool default_stream) {
    machine m = begin(first, second);
    exchange e = {.libraries = {begin_library(m.devices[0]), begin_library(m.devices[1])}, .default_stream = default_stream};
    assert_ok(mst_pool_run(m.pool, pass_it_on, &e));
    for (int i = 0; i < 2; i++) end_library(&e.libraries[i]);
    end(&m);
}

static void two_streams_pass_memory_on_in_order(void **state) {
    (void)state;
    exchange_on("0", "1", false);
}

static void virtual_devices_do_it_each_for_itself(void **state) {
    (void)state;
    exchange_on("1", "1", false);
}

static void the_default_stream_is_one_too(void **state) {
    (void)state;
    exchange_on("0", "1", true);
}

/* ---- nobody waits in the host, and the order is there ---- */

typedef struct holding {
    library here, there; /* there: of another GPU, whose queues stand still */
    mst_cu_event event;
    bool ordered, was_done;
} holding;

/* The library's stream waits for an event that does not come until the machine is released. */
static muster_status hold(const holding *h) {
    MUSTER_TRY(h->there.device->queue->enter(h->there.device));
    muster_sim_inject_queue_stall("cuMemsetD8Async", 1, 0);
    MUST(h->there.api->cuMemsetD8Async(h->there.memory, 1, BYTES, h->there.stream));
    MUST(h->there.api->cuEventRecord(h->event, h->there.stream));
    h->there.device->queue->leave(h->there.device);
    MUST(h->here.api->cuStreamWaitEvent(h->here.stream, h->event, 0));
    return must(h->here.api->cuMemsetD8Async(h->here.memory, 2, BYTES, h->here.stream), "the library's work");
}

static muster_status go_on_while_held(muster_worker *worker, void *argument) {
    holding *h = argument;
    unsigned char value = 0;
    void *own;
    MUSTER_TRY(mst_worker_scratch_bytes(worker, BYTES, &own));
    MUSTER_TRY(hold(h));
    const uint64_t waits = muster_sim_waits();
    if (h->ordered) MUSTER_TRY(muster_worker_cuda_after(worker, h->here.stream));
    if (muster_sim_waits() != waits) return muster_fail(MUSTER_USER, "the host waited");
    if (!h->ordered) return mst_worker_sync(worker); /* comes back although the library's stream is held */
    MUSTER_TRY(worker->device->memory->copy_out(worker->device, &value, (void *)(uintptr_t)h->here.memory, 1));
    MUSTER_TRY(worker->device->queue->poll(worker->device, &h->was_done));
    muster_sim_release();
    MUSTER_TRY(mst_worker_sync(worker));
    return value == 2 ? MUSTER_OK : mst_error(MUSTER_USER, "%d came out", value);
}

static void go_on(bool ordered) {
    machine m = begin("0", "1");
    holding h = {.here = begin_library(m.devices[0]), .there = begin_library(m.devices[1]), .ordered = ordered};
    assert_ok(m.devices[1]->queue->enter(m.devices[1]));
    assert_int_equal(h.there.api->cuEventCreate(&h.event, MST_CU_EVENT_DISABLE_TIMING), 0);
    assert_ok(mst_pool_run_single(m.pool, go_on_while_held, &h));
    assert_false(h.was_done);
    muster_sim_release();
    end_library(&h.here);
    end_library(&h.there);
    assert_int_equal(h.there.api->cuEventDestroy_v2(h.event), 0);
    m.devices[1]->queue->leave(m.devices[1]);
    end(&m);
}

static void the_worker_comes_after_what_the_stream_holds(void **state) {
    (void)state;
    go_on(true);
}

static void without_order_it_does_not(void **state) {
    (void)state;
    go_on(false);
}

/* ---- memory ---- */

static muster_status wrap(muster_worker *worker, void *argument) {
    const library *l = argument;
    void *memory = (void *)(uintptr_t)l->memory, *own;
    const int64_t shape[] = {8, BYTES / 64};
    unsigned char in[BYTES / 8], out[BYTES / 8];
    muster_tensor tensor;
    MUSTER_TRY(muster_worker_cuda_tensor(worker, memory, MUSTER_F64, 2, shape, &tensor));
    if (tensor.data != memory || tensor.device != worker->rank || tensor.strides[0] != BYTES / 64)
        return muster_fail(MUSTER_USER, "another tensor");
    MUSTER_TRY(mst_worker_scratch_bytes(worker, BYTES, &own));
    for (int i = 0; i < BYTES / 8; i++) in[i] = pattern_at(i, 1);
    tensor = muster_tensor_slice(tensor, 3, 4);
    MUSTER_TRY(worker->device->memory->copy_in(worker->device, muster_tensor_address(tensor), in, BYTES / 8));
    MUSTER_TRY(worker->device->memory->copy_out(worker->device, out, (char *)memory + 3 * BYTES / 8, BYTES / 8));
    MUSTER_TRY(mst_worker_sync(worker));
    return memcmp(in, out, sizeof in) == 0 ? MUSTER_OK : muster_fail(MUSTER_USER, "other bytes came out");
}

static void memory_of_the_library_becomes_a_tensor(void **state) {
    (void)state;
    machine m = begin("0", "1");
    library l = begin_library(m.devices[0]);
    assert_ok(mst_pool_run_single(m.pool, wrap, &l));
    end_library(&l);
    end(&m);
}

static bool refused(muster_status status, muster_status expected, const char *text) {
    if (status == expected && strstr(muster_last_error(), text)) return true;
    print_message("%s: \"%s\" lacks \"%s\"\n", muster_status_name(status), muster_last_error(), text);
    return false;
}
#define REFUSED(call, expected, text)                                                                     \
    do {                                                                                                  \
        if (!refused(call, expected, text)) return muster_fail(MUSTER_USER, "it was not refused: " text); \
    } while (0)

typedef struct strange {
    library here, there;
    void *locked;
} strange;

static muster_status wrap_what_is_strange(muster_worker *worker, void *argument) {
    const strange *s = argument;
    void *here = (void *)(uintptr_t)s->here.memory, *there = (void *)(uintptr_t)s->there.memory;
    const int64_t all[] = {BYTES}, more[] = {3 << 20}, none[] = {0}, huge[] = {INT64_MAX, 2};
    unsigned char local[16];
    muster_tensor tensor;
    REFUSED(muster_worker_cuda_tensor(worker, there, MUSTER_U8, 1, all, &tensor), MUSTER_INVALID_ARGUMENT,
            "muster_worker_cuda_tensor: address: expected memory of cuda:0, received memory of cuda:1 at ");
    if (tensor.dtype != MUSTER_DTYPE_NONE) return muster_fail(MUSTER_USER, "a tensor came");
    REFUSED(muster_worker_cuda_tensor(worker, local, MUSTER_U8, 1, all, &tensor), MUSTER_INVALID_ARGUMENT,
            "whose first byte the driver does not know");
    REFUSED(muster_worker_cuda_tensor(worker, here, MUSTER_U8, 1, more, &tensor), MUSTER_INVALID_ARGUMENT,
            "whose last byte the driver does not know");
    REFUSED(muster_worker_cuda_tensor(worker, s->locked, MUSTER_U8, 1, all, &tensor), MUSTER_INVALID_ARGUMENT,
            "received page-locked host memory at ");
    REFUSED(muster_worker_cuda_tensor(worker, here, MUSTER_DTYPE_NONE, 1, all, &tensor), MUSTER_INVALID_ARGUMENT,
            "dtype: expected an element type, received none");
    REFUSED(muster_worker_cuda_tensor(worker, here, 77, 1, all, &tensor), MUSTER_INVALID_ARGUMENT,
            "expected a known dtype, received number 77");
    REFUSED(muster_worker_cuda_tensor(worker, here, MUSTER_U8, 2, huge, &tensor), MUSTER_OVERFLOW, "expected a size that fits 64 bits");
    REFUSED(muster_worker_cuda_tensor(worker, NULL, MUSTER_U8, 1, all, &tensor), MUSTER_INVALID_ARGUMENT, "received NULL");
    REFUSED(muster_worker_cuda_tensor(worker, (char *)here + 2, MUSTER_F32, 1, (const int64_t[]){4}, &tensor), MUSTER_INVALID_ARGUMENT,
            "aligned to 4 bytes");
    REFUSED(muster_worker_cuda_tensor(worker, here, MUSTER_U8, 1, all, NULL), MUSTER_INVALID_ARGUMENT,
            "tensor: expected the address of a tensor, received NULL");
    REFUSED(muster_worker_cuda_tensor(NULL, here, MUSTER_U8, 1, all, &tensor), MUSTER_INVALID_ARGUMENT,
            "worker: expected the worker of the running function");
    MUSTER_TRY(muster_worker_cuda_tensor(worker, NULL, MUSTER_U8, 1, none, &tensor));
    REFUSED(muster_worker_cuda_after(worker, s->there.stream), MUSTER_INVALID_ARGUMENT,
            "muster_worker_cuda_after: stream: expected one of the primary context of cuda:0, received one of another context");
    REFUSED(muster_worker_cuda_before(worker, s->there.stream), MUSTER_INVALID_ARGUMENT,
            "muster_worker_cuda_before: stream: expected one of the primary context");
    REFUSED(muster_worker_cuda_before(NULL, s->here.stream), MUSTER_INVALID_ARGUMENT,
            "worker: expected the worker of the running function, received NULL");
    return muster_worker_cuda_after(worker, muster_worker_cuda_stream(worker)); /* itself: nothing to do */
}

static void memory_and_streams_of_elsewhere_are_refused(void **state) {
    (void)state;
    machine m = begin("0", "1");
    strange s = {.here = begin_library(m.devices[0]), .there = begin_library(m.devices[1])};
    assert_ok(m.devices[0]->queue->enter(m.devices[0]));
    assert_int_equal(s.here.api->cuMemHostAlloc(&s.locked, BYTES, MST_CU_HOST_ALLOC_PORTABLE), 0);
    assert_ok(mst_pool_run_single(m.pool, wrap_what_is_strange, &s));
    assert_int_equal(s.here.api->cuMemFreeHost(s.locked), 0);
    m.devices[0]->queue->leave(m.devices[0]);
    end_library(&s.here);
    end_library(&s.there);
    end(&m);
}

static void outside_bodies_all_is_refused(void **state) {
    (void)state;
    machine m = begin("0", "1");
    muster_worker *worker = mst_pool_worker(m.pool, 0);
    muster_tensor tensor;
    assert_refused(muster_worker_cuda_after(worker, NULL), MUSTER_BAD_STATE, "expected to be called by its own thread while its body runs");
    assert_refused(muster_worker_cuda_before(worker, NULL), MUSTER_BAD_STATE, "muster_worker_cuda_before");
    assert_refused(muster_worker_cuda_tensor(worker, NULL, MUSTER_F32, 1, (const int64_t[]){0}, &tensor), MUSTER_BAD_STATE,
                   "muster_worker_cuda_tensor");
    end(&m);
}

static muster_status ask_on_host(muster_worker *worker, void *argument) {
    (void)argument;
    muster_tensor tensor;
    REFUSED(muster_worker_cuda_after(worker, NULL), MUSTER_UNSUPPORTED,
            "worker: expected one whose device is a GPU, received rank 0 on host cpu 0");
    REFUSED(muster_worker_cuda_before(worker, NULL), MUSTER_UNSUPPORTED, "whose device is a GPU");
    REFUSED(muster_worker_cuda_tensor(worker, &tensor, MUSTER_U8, 0, NULL, &tensor), MUSTER_UNSUPPORTED, "whose device is a GPU");
    return MUSTER_OK;
}

static void a_worker_without_a_gpu_says_so(void **state) {
    (void)state;
    mst_device *host = NULL;
    mst_pool *pool = NULL;
    const mst_pool_options options = {.warn_after_ns = -1, .fail_after_ns = -1, .log = ignore};
    assert_ok(mst_host_device_table.open(&mst_host_device_table, "0", &host));
    assert_ok(mst_pool_create(&options, &host, 1, &pool));
    assert_ok(mst_pool_run(pool, ask_on_host, NULL));
    mst_pool_destroy(pool);
    host->table->close(host);
}

/* ---- a program that forgets the order ---- */

static int run_unordered(void) {
    machine m = begin("0", "0");
    exchange e = {.libraries = {begin_library(m.devices[0]), begin_library(m.devices[1])}, .unordered = true};
    const muster_status status = mst_pool_run(m.pool, pass_it_on, &e);
    for (int i = 0; i < 2; i++) end_library(&e.libraries[i]);
    end(&m);
    return status == MUSTER_OK ? 0 : 1;
}

static void a_program_that_leaves_the_order_out_is_reported(void **state) {
    (void)state;
    enum { REPORTED = 66 }; /* the exit code of ThreadSanitizer where it has reported something */
#ifndef __SANITIZE_THREAD__
    SKIP("only ThreadSanitizer knows of order");
#endif
    const pid_t child = fork();
    if (child == 0) {
        setenv("TSAN_OPTIONS", "exitcode=66", 1);
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        execl("/proc/self/exe", "interop_test_cuda_foreign", "unordered", NULL);
        _exit(1);
    }
    int outcome;
    waitpid(child, &outcome, 0);
    assert_true(WIFEXITED(outcome));
    assert_int_equal(WEXITSTATUS(outcome), REPORTED);
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "unordered") == 0) return run_unordered();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_streams_pass_memory_on_in_order),
        cmocka_unit_test(virtual_devices_do_it_each_for_itself),
        cmocka_unit_test(the_default_stream_is_one_too),
        cmocka_unit_test(the_worker_comes_after_what_the_stream_holds),
        cmocka_unit_test(without_order_it_does_not),
        cmocka_unit_test(memory_of_the_library_becomes_a_tensor),
        cmocka_unit_test(memory_and_streams_of_elsewhere_are_refused),
        cmocka_unit_test(outside_bodies_all_is_refused),
        cmocka_unit_test(a_worker_without_a_gpu_says_so),
        cmocka_unit_test(a_program_that_leaves_the_order_out_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
