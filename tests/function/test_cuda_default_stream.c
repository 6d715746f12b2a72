/* Bodies that work in CUDA's default stream: unordered unless the function says otherwise, ordered,
 * and refused. */
#include "../device/cuda_fixture.h"
#include "base_skip.h"
#include "muster/cuda.h"
#include "muster/function.h"
#include "runtime_impl.h"

enum { BYTES = 4096, ROUNDS = 30, SPOILED = 0xEE };

/* For cases in which a program leaves the order out on purpose. */
#ifdef __SANITIZE_THREAD__
#define SKIP_WITHOUT_ORDER() SKIP("ThreadSanitizer sees, as it should, that nothing orders the work")
#else
#define SKIP_WITHOUT_ORDER() (void)0
#endif

static muster_runtime *open_runtime(const char *devices, int64_t longest_delay) {
    muster_runtime_options options;
    muster_runtime *runtime;
    new_machine(&(muster_sim_options){.devices = 2, .longest_delay = (int32_t)longest_delay, .seed = 5});
    muster_runtime_options_init(&options);
    options.devices = devices;
    options.warn_after_ns = -1;
    options.logical_shards = -1;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static void close_runtime(muster_runtime *runtime) {
    assert_ok(muster_runtime_close(runtime));
    check_machine();
}

/* What a body does with its rows, in the default stream. */
typedef struct work {
    bool after;      /* it orders the default stream itself */
    bool per_thread; /* it uses the thread's default stream (cudaStreamPerThread) */
    bool fails;      /* it fails in the end */
} work;

static mst_cu_address device_address(muster_tensor tensor) { return (mst_cu_address)(uintptr_t)muster_tensor_address(tensor); }

/* out = in: both tensors belong to the worker's stream. */
static muster_status copy_rows(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const work *job = user;
    void *stream = job->per_thread ? (void *)MST_CU_STREAM_PER_THREAD : NULL;
    if (job->after) MUSTER_TRY(muster_worker_cuda_before(w, stream));
    if (driver()->cuMemcpyDtoDAsync_v2(device_address(out[0]), device_address(in[0]), (size_t)muster_tensor_rows(in[0]), stream))
        return muster_fail(MUSTER_USER, "the copy was refused");
    if (job->after) MUSTER_TRY(muster_worker_cuda_after(w, stream));
    return job->fails ? muster_fail(MUSTER_USER, "it fails") : MUSTER_OK;
}

static muster_function *make(muster_runtime *runtime, const char *name, muster_default_stream mode, work *job) {
    muster_function *f;
    assert_ok(muster_function_create_with(runtime, name, &(muster_backend_body){"cuda", copy_rows}, 1, job, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_U8, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", MUSTER_U8, 1, MUSTER_GATHER));
    assert_ok(muster_function_set_default_stream(f, mode));
    return f;
}

static uint8_t x[BYTES], y[BYTES];

/* Every byte of x is `value`, and none of y. */
static muster_status call(muster_function *f, int value, int64_t slices) {
    muster_call_options options;
    muster_call_options_init(&options);
    options.slices = slices;
    memset(x, value, sizeof x);
    memset(y, value + 1, sizeof y);
    return muster_function_call(f, (muster_tensor[]){muster_u8(x, BYTES)}, 1, (muster_tensor[]){muster_u8(y, BYTES)}, 1, &options);
}

static muster_status call_single(muster_function *f, int value) {
    memset(x, value, sizeof x);
    memset(y, value + 1, sizeof y);
    return muster_function_call_single(f, (muster_tensor[]){muster_u8(x, BYTES)}, 1, (muster_tensor[]){muster_u8(y, BYTES)}, 1, NULL);
}

/* The order goes both ways: the copy reads the rows of this call, and the output is read after
 * it. */
static void ordered_work_sees_its_rows_and_is_collected(void **state) {
    (void)state;
    static const char *const devices[] = {"cuda@0", "cuda@0+1"}; /* virtual devices would share one default stream */
    int cases = 0;
    for (int d = 0; d < 2; d++) {
        muster_runtime *runtime = open_runtime(devices[d], 100);
        work ordered = {0}, itself = {.after = true}, thread_ordered = {.per_thread = true},
             thread_itself = {.after = true, .per_thread = true};
        muster_function *functions[] = {make(runtime, "ordered", MUSTER_DEFAULT_STREAM_ORDERED, &ordered),
                                        make(runtime, "itself", MUSTER_DEFAULT_STREAM_IGNORED, &itself),
                                        make(runtime, "thread_ordered", MUSTER_DEFAULT_STREAM_ORDERED, &thread_ordered),
                                        make(runtime, "thread_itself", MUSTER_DEFAULT_STREAM_IGNORED, &thread_itself)};
        for (int round = 0; round < ROUNDS; round++) {
            for (int i = 0; i < 4; i++, cases++) {
                assert_ok(call(functions[i], 4 * round + i, 1 + round % 3));
                assert_memory_equal(x, y, sizeof x);
            }
        }
        close_runtime(runtime);
    }
    assert_int_equal(cases, 2 * ROUNDS * 4);
}

/* Lets the default stream of the first GPU stand still until the machine is released: it waits for
 * work of the second GPU, whose queues stand still. */
typedef struct holding {
    mst_device *devices[2];
    mst_cu_stream stream;
    mst_cu_event event;
    mst_cu_address memory;
} holding;

static holding begin_holding(const muster_runtime *runtime) {
    holding h = {.devices = {runtime->devices[0], runtime->devices[1]}};
    assert_ok(h.devices[1]->queue->enter(h.devices[1]));
    assert_int_equal(driver()->cuStreamCreate(&h.stream, MST_CU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(driver()->cuEventCreate(&h.event, MST_CU_EVENT_DISABLE_TIMING), 0);
    assert_int_equal(driver()->cuMemAlloc_v2(&h.memory, BYTES), 0);
    h.devices[1]->queue->leave(h.devices[1]);
    return h;
}

static void hold(const holding *h) {
    assert_ok(h->devices[1]->queue->enter(h->devices[1]));
    muster_sim_inject_queue_stall("cuMemsetD8Async", 1, 0);
    assert_int_equal(driver()->cuMemsetD8Async(h->memory, 1, BYTES, h->stream), 0);
    assert_int_equal(driver()->cuEventRecord(h->event, h->stream), 0);
    h->devices[1]->queue->leave(h->devices[1]);
    assert_ok(h->devices[0]->queue->enter(h->devices[0]));
    assert_int_equal(driver()->cuStreamWaitEvent(NULL, h->event, 0), 0);
    h->devices[0]->queue->leave(h->devices[0]);
}

static void end_holding(holding *h) {
    assert_ok(h->devices[1]->queue->enter(h->devices[1]));
    assert_int_equal(driver()->cuStreamSynchronize(h->stream), 0);
    assert_int_equal(driver()->cuMemFree_v2(h->memory), 0);
    assert_int_equal(driver()->cuEventDestroy_v2(h->event), 0);
    assert_int_equal(driver()->cuStreamDestroy_v2(h->stream), 0);
    h->devices[1]->queue->leave(h->devices[1]);
}

/* Lets the default stream of the first GPU end what it holds. */
static void go_on(const holding *h) {
    muster_sim_release();
    assert_ok(h->devices[0]->queue->enter(h->devices[0]));
    assert_int_equal(driver()->cuStreamSynchronize(NULL), 0);
    h->devices[0]->queue->leave(h->devices[0]);
}

static void work_that_is_ignored_is_not_waited_for(void **state) {
    (void)state;
    SKIP_WITHOUT_ORDER();
    muster_runtime *runtime = open_runtime("cuda@0+1", 0);
    holding h = begin_holding(runtime);
    work job = {0};
    muster_function *f = make(runtime, "ignored", MUSTER_DEFAULT_STREAM_IGNORED, &job);
    assert_ok(call(f, 3, 1)); /* the memory of the output has other values */
    go_on(&h);
    hold(&h);
    assert_ok(call_single(f, 7));
    assert_memory_not_equal(x, y, sizeof x);
    go_on(&h);
    end_holding(&h);
    close_runtime(runtime);
}

static void work_that_is_left_behind_is_refused(void **state) {
    (void)state;
    SKIP_WITHOUT_ORDER();
    muster_runtime *runtime = open_runtime("cuda@0+1", 0);
    holding h = begin_holding(runtime);
    work left = {0}, awaited = {.after = true}, failing = {.fails = true};
    muster_function *f = make(runtime, "left", MUSTER_DEFAULT_STREAM_REFUSED, &left),
                    *g = make(runtime, "awaited", MUSTER_DEFAULT_STREAM_REFUSED, &awaited),
                    *e = make(runtime, "failing", MUSTER_DEFAULT_STREAM_REFUSED, &failing);
    hold(&h);
    assert_refused(call_single(f, 7), MUSTER_BAD_STATE, "function 'left': the body left work in CUDA's default stream of cuda:0");
    assert_refused(call_single(e, 7), MUSTER_USER, "function 'failing': it fails");
    go_on(&h);
    for (int round = 0; round < ROUNDS; round++) {
        assert_ok(call(g, round, 1)); /* the next calls go on */
        assert_memory_equal(x, y, sizeof x);
    }
    hold(&h); /* that a body has waited counts for its own call alone */
    assert_refused(call_single(f, 7), MUSTER_BAD_STATE, "function 'left': the body left work in CUDA's default stream of cuda:0");
    go_on(&h);
    end_holding(&h);
    close_runtime(runtime);
}

static void a_failing_body_is_ordered_too(void **state) {
    (void)state;
    muster_runtime *runtime = open_runtime("cuda@0", 100);
    work failing = {.fails = true}, good = {0};
    muster_function *f = make(runtime, "failing", MUSTER_DEFAULT_STREAM_ORDERED, &failing),
                    *g = make(runtime, "good", MUSTER_DEFAULT_STREAM_ORDERED, &good);
    for (int round = 0; round < ROUNDS; round++) {
        assert_refused(call(f, round, 1), MUSTER_USER, "function 'failing': it fails");
        assert_ok(call(g, round + 100, 1));
        assert_memory_equal(x, y, sizeof x);
    }
    close_runtime(runtime);
}

/* Fails after it has given the default stream work on its output; else out = in, in the worker's
 * own stream. */
static muster_status spoil_and_fail(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const work *job = user;
    if (!job->fails) return muster_copy(w, in[0], out[0]);
    for (int i = 0; i < ROUNDS; i++)
        if (driver()->cuMemsetD8Async(device_address(out[0]), SPOILED, (size_t)muster_tensor_rows(out[0]), NULL))
            return muster_fail(MUSTER_USER, "the memset was refused");
    return muster_fail(MUSTER_USER, "it fails");
}

static void what_a_failed_body_began_ends_before_the_next(void **state) {
    (void)state;
    muster_runtime *runtime = open_runtime("cuda@0", 100);
    work job = {0};
    muster_function *f;
    assert_ok(muster_function_create_with(runtime, "spoil", &(muster_backend_body){"cuda", spoil_and_fail}, 1, &job, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_U8, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", MUSTER_U8, 1, MUSTER_GATHER));
    assert_ok(muster_function_set_default_stream(f, MUSTER_DEFAULT_STREAM_ORDERED));
    for (int round = 0; round < ROUNDS; round++) {
        job.fails = true;
        assert_refused(call(f, round, 1), MUSTER_USER, "it fails");
        job.fails = false;
        assert_ok(call(f, round, 1));
        assert_memory_equal(x, y, sizeof x);
    }
    close_runtime(runtime);
}

static muster_status on_host(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    return muster_copy(w, in[0], out[0]);
}

static void other_devices_and_other_modes(void **state) {
    (void)state;
    muster_runtime *runtime = open_runtime("host:2", 0);
    for (muster_default_stream mode = MUSTER_DEFAULT_STREAM_IGNORED; mode <= MUSTER_DEFAULT_STREAM_REFUSED; mode++) {
        muster_function *f;
        assert_ok(muster_function_create(runtime, "host", on_host, NULL, &f));
        assert_ok(muster_function_input(f, "x", MUSTER_U8, 1, MUSTER_SCATTER));
        assert_ok(muster_function_output(f, "y", MUSTER_U8, 1, MUSTER_GATHER));
        assert_ok(muster_function_set_default_stream(f, mode));
        assert_refused(
            muster_function_set_default_stream(f, 3), MUSTER_INVALID_ARGUMENT,
            "muster_function_set_default_stream: mode: expected MUSTER_DEFAULT_STREAM_IGNORED, _ORDERED or _REFUSED, received 3");
        assert_refused(muster_function_set_default_stream(f, -1), MUSTER_INVALID_ARGUMENT, "received -1");
        for (int round = 0; round < 3; round++) {
            assert_ok(call(f, round, 1));
            assert_memory_equal(x, y, sizeof x);
        }
        assert_refused(muster_function_set_default_stream(f, mode), MUSTER_BAD_STATE, "has been called");
        assert_ok(muster_function_destroy(f));
    }
    assert_refused(muster_function_set_default_stream(NULL, 0), MUSTER_INVALID_ARGUMENT, "function");
    assert_ok(muster_runtime_close(runtime));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordered_work_sees_its_rows_and_is_collected),   cmocka_unit_test(work_that_is_ignored_is_not_waited_for),
        cmocka_unit_test(work_that_is_left_behind_is_refused),           cmocka_unit_test(a_failing_body_is_ordered_too),
        cmocka_unit_test(what_a_failed_body_began_ends_before_the_next), cmocka_unit_test(other_devices_and_other_modes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
