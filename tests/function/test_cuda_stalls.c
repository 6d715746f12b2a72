/* GPUs whose queues stand still for good: at a moment when nobody waits for them, and beside GPUs
 * that do not. */
#include "base_check.h"
#include "cuda/cuda_impl.h"
#include "sim.h"

#include "base_pace.h"
#include "muster/communicator.h"
#include "muster/function.h"
#include "muster/ops.h"
#include "muster/runtime.h"
#include "pool_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 1 << 20, MILLISECOND = 1000000, CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_OPERATING_SYSTEM = 304 };
enum { CUDA_ERROR_MPS_RPC_FAILURE = 806, CUDA_ERROR_UNKNOWN = 999 };

static int begin(void **state) {
    (void)state;
    muster_sim_reset(&(muster_sim_options){.devices = 2, .memory = 256 << 20});
    mst_cuda_forget_lost();
    return 0;
}

/* What the machine has been told to stall goes on first. */
static int end(void **state) {
    char notice[MST_MESSAGE_SIZE];
    (void)state;
    muster_sim_inject_clear();
    while (mst_cuda_take_notice(notice)) continue;
    muster_sim_reset(NULL);
    mst_cuda_forget_lost();
    return 0;
}

static muster_runtime *open_runtime(const char *devices) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = devices;
    options.warn_after_ns = -1;
    options.logical_shards = -1;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static muster_status sum_all(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, in[1], in[1]));
    return muster_sum(w, in[0], out[0]);
}

static muster_function *describe(muster_runtime *runtime) {
    muster_function *f;
    assert_ok(muster_function_create(runtime, "f", sum_all, NULL, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_input(f, "y", MUSTER_F32, 1, MUSTER_BROADCAST));
    assert_ok(muster_function_output(f, "sum", MUSTER_F32, 0, MUSTER_SUM));
    return f;
}

/* fail_after_ns: 0: the runtime's, which is long enough for any machine. */
static muster_status call(muster_function *f, const float *x, int64_t rows, int64_t fail_after_ns) {
    float sum = 0;
    muster_call_options options;
    muster_call_options_init(&options);
    options.fail_after_ns = fail_after_ns;
    return muster_function_call(f, (muster_tensor[]){muster_f32(x, rows), muster_f32(x, rows)}, 2, (muster_tensor[]){muster_f32(&sum)}, 1,
                                &options);
}

/* The larger call first finds memory, for one input after the other; it must not wait for the
 * device there, where no deadline watches. */
static void a_queue_that_stands_still_between_calls_fails_the_next(void **state) {
    (void)state;
    muster_runtime *runtime = open_runtime("cuda:1");
    muster_function *f = describe(runtime);
    float *x = calloc(ROWS, sizeof *x);
    assert_non_null(x);
    assert_ok(call(f, x, 16, 0));
    muster_sim_inject_queue_stall("cuMemAlloc_v2", 1, 0);
    assert_refused(call(f, x, ROWS, test_patience(1000 * MILLISECOND)), MUSTER_TIMEOUT, "s for its device cuda:0");
    assert_int_equal(muster_sim_injected(), 1);
    assert_refused(call(f, x, ROWS, 0), MUSTER_DEVICE_LOST, "has not come back from an earlier call");
    assert_ok(muster_runtime_close(runtime));
    free(x);
}

/* When the queue goes on after all, it works on memory of the other GPU. */
static void what_a_device_given_up_may_still_use_is_kept(void **state) {
    (void)state;
    char notice[MST_MESSAGE_SIZE];
    bool lost = false, kept = false;
    const float x[16] = {0};
    setenv("MUSTER_COLLECTIVE_ALGORITHM", "nccl", 1); /* which can be broken off on the GPU that stands not still */
    muster_runtime *runtime = open_runtime("cuda:2");
    muster_function *f = describe(runtime);
    assert_ok(call(f, x, 16, 0));
    muster_sim_inject_queue_stall("ncclAllReduce", 1, 0);
    assert_refused(call(f, x, 16, test_patience(1000 * MILLISECOND)), MUSTER_TIMEOUT, "s for its device cuda:");
    assert_ok(muster_runtime_close(runtime));
    unsetenv("MUSTER_COLLECTIVE_ALGORITHM");
    while (mst_cuda_take_notice(notice)) {
        lost |= strstr(notice, "is closed, but it is lost: its memory and handles are kept") != NULL;
        kept |=
            strstr(notice,
                   "is closed, but another device, which may still use its memory, does not end: its memory and handles are kept") != NULL;
    }
    assert_true(lost && kept);
    assert_string_equal(muster_sim_hazards(), "");
}

static muster_status copy_and_wait(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)out, (void)user;
    mst_device *device = w->device;
    void *pinned = NULL;
    assert_ok(device->host_memory->allocate(device, 16, &pinned));
    muster_sim_inject_queue_stall("cuMemcpyDtoHAsync_v2", 1, 50);
    muster_sim_inject("cuEventQuery", 1, CUDA_ERROR_INVALID_VALUE);
    assert_ok(device->memory->copy_out(device, pinned, muster_tensor_address(in[0]), 16));
    const muster_status status = mst_worker_sync(w);
    device->host_memory->release(device, pinned); /* the machine reports it if the copy has not ended */
    return status;
}

/* The driver refuses a call of the wait while a copy is still in the queue. */
static void a_wait_that_fails_comes_back_when_the_copy_has_ended(void **state) {
    (void)state;
    const float x[16] = {0};
    muster_runtime *runtime = open_runtime("cuda:1");
    muster_function *f;
    assert_ok(muster_function_create(runtime, "f", copy_and_wait, NULL, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_refused(muster_function_call(f, (muster_tensor[]){muster_f32(x, 16)}, 1, NULL, 0, NULL), MUSTER_SYSTEM, "cuEventQuery");
    assert_int_equal(muster_sim_injected(), 2);
    assert_string_equal(muster_sim_hazards(), "");
    assert_ok(muster_runtime_close(runtime));
}

/* ---- a driver that never says again what its GPU is doing ---- */

typedef struct silence {
    const char *symbol; /* that fails from the wait on; NULL: all of the driver */
    int code;
    muster_status status; /* of the call, and its words */
    const char *words;
} silence;

static const silence silences[] = {
    {"cuEventQuery", CUDA_ERROR_OPERATING_SYSTEM, MUSTER_SYSTEM, "cuEventQuery"},
    {"cuEventQuery", CUDA_ERROR_UNKNOWN, MUSTER_SYSTEM, "cuEventQuery"},
    {"cuEventQuery", CUDA_ERROR_MPS_RPC_FAILURE, MUSTER_DEVICE_LOST, "CUDA_ERROR_MPS_RPC_FAILURE"},
    {NULL, CUDA_ERROR_UNKNOWN, MUSTER_DEVICE_LOST, "(999: the driver knows no more); the next 2 queries of its stream say the same"},
};

/* The copy stays in the queue for longer than the test runs. Memory that is freed all the same, the
 * machine reports. */
static muster_status copy_into_silence(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const silence *s = user;
    (void)out;
    mst_device *device = w->device;
    void *pinned = NULL;
    assert_ok(device->host_memory->allocate(device, 16, &pinned));
    muster_sim_inject_queue_stall("cuMemcpyDtoHAsync_v2", 1, 10000);
    assert_ok(device->memory->copy_out(device, pinned, muster_tensor_address(in[0]), 16));
    muster_sim_inject_for_ever(s->symbol, 1, s->code);
    const muster_status status = mst_worker_sync(w);
    device->host_memory->release(device, pinned);
    return status;
}

static void what_a_gpu_in_an_unknown_state_may_write_is_kept(void **state) {
    const float x[16] = {0};
    int cases = 0;
    setenv("MUSTER_COLLECTIVE_ALGORITHM", "p2p", 1); /* NCCL's end waits some seconds for such a GPU */
    for (size_t i = 0; i < sizeof silences / sizeof *silences; i++, cases++) {
        begin(state);
        muster_runtime *runtime = open_runtime("cuda:2");
        muster_function *f;
        assert_ok(muster_function_create(runtime, "f", copy_into_silence, (void *)&silences[i], &f));
        assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
        assert_refused(muster_function_call_single(f, (muster_tensor[]){muster_f32(x, 16)}, 1, NULL, 0, NULL), silences[i].status,
                       silences[i].words);
        muster_sim_end_for_ever(); /* the driver is well again: too late */
        assert_refused(muster_function_call_single(f, (muster_tensor[]){muster_f32(x, 16)}, 1, NULL, 0, NULL), MUSTER_DEVICE_LOST,
                       "cuda:0");
        assert_ok(muster_runtime_close(runtime));
        assert_int_equal(muster_sim_calls("cuMemFree_v2"), 0); /* of either GPU, which the work may write, too */
        assert_int_equal(muster_sim_calls("cuMemFreeHost"), 0);
        assert_string_equal(muster_sim_hazards(), "");
        end(state);
    }
    assert_int_equal(cases, 4);
    unsetenv("MUSTER_COLLECTIVE_ALGORITHM");
}

int main(void) {
    setenv("MUSTER_CACHE_DIR", "off", 1);
    setenv("MUSTER_DEVICE_MEMORY", "1048576", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_queue_that_stands_still_between_calls_fails_the_next, begin, end),
        cmocka_unit_test_setup_teardown(what_a_device_given_up_may_still_use_is_kept, begin, end),
        cmocka_unit_test_setup_teardown(a_wait_that_fails_comes_back_when_the_copy_has_ended, begin, end),
        cmocka_unit_test(what_a_gpu_in_an_unknown_state_may_write_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
