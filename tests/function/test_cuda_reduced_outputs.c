/* Outputs that GPUs reduce: the bytes that are copied to host memory, the transport that serves,
 * and what is left in the caller's memory when something fails on the way. */
#include "base_check.h"
#include "call_private.h"
#include "cuda/cuda_impl.h"
#include "nccl/nccl_api_private.h"
#include "output_private.h"
#include "sim.h"

#include "muster/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* COUNT f32 are more than the 256 KiB from which NCCL reduces. */
enum { GPUS = 4, COUNT = 70000, SMALL = 4000, CUDA_ERROR_INVALID_VALUE = 1 };

static int64_t usual_threshold;

static int begin(void **state) {
    (void)state;
    usual_threshold = mst_reduced_saved_bytes_instead;
    return 0;
}

static int end(void **state) {
    char notice[MST_MESSAGE_SIZE];
    (void)state;
    mst_reduced_saved_bytes_instead = usual_threshold;
    muster_sim_inject_clear();
    while (mst_cuda_take_notice(notice)) continue;
    muster_sim_reset(NULL);
    mst_cuda_forget_lost();
    return 0;
}

static void no_log(void *user, muster_log_level level, const char *line) { (void)user, (void)level, (void)line; }

static muster_runtime *open_machine(const char *devices, bool peers) {
    muster_runtime_options options;
    muster_runtime *runtime;
    char notice[MST_MESSAGE_SIZE];
    while (mst_cuda_take_notice(notice)) continue;
    muster_sim_reset(&(muster_sim_options){.devices = GPUS, .no_peers = !peers, .longest_delay = 20, .delay_one_of = 8});
    mst_cuda_forget_lost();
    muster_runtime_options_init(&options);
    options.devices = devices;
    options.logical_shards = -1;
    options.log = no_log;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static void close_machine(muster_runtime *runtime) {
    assert_ok(muster_runtime_close(runtime));
    if (muster_sim_hazard_count()) fail_msg("hazards:\n%s", muster_sim_hazards());
    if (muster_sim_check_leaks()) fail_msg("leaks:\n%s", muster_sim_hazards());
}

/* Every rank writes rank + 1, in each slice. */
static muster_status write_rank(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    return muster_fill(w, muster_worker_rank(w) + 1, out[0]);
}

static muster_function *describe(muster_runtime *runtime, muster_dtype dtype, muster_collect_mode mode) {
    muster_function *f;
    assert_ok(muster_function_create(runtime, "f", write_rank, NULL, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_U8, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", dtype, 1, mode));
    return f;
}

static muster_status call(muster_function *f, int64_t rows, int64_t slices, muster_tensor y) {
    static const uint8_t x[16];
    muster_call_options options;
    muster_call_options_init(&options);
    options.slices = slices;
    return muster_function_call(f, (muster_tensor[]){muster_tensor_make(MUSTER_U8, (void *)x, 1, &rows)}, 1, &y, 1, &options);
}

/* ---- bytes ---- */

typedef struct copied {
    muster_dtype dtype;
    muster_collect_mode mode;
    int64_t rows, slices, element, parts, part_element; /* bytes of a result, and of what the fold copies */
} copied;

/* The fold copies the part of every rank that contributes; the devices copy the result, or nothing
 * where it stays on a device. */
static void only_the_result_is_copied_to_host_memory(void **state) {
    (void)state;
    static const copied cases[] = {{MUSTER_F32, MUSTER_SUM, 4, 1, 4, 4, 4},  {MUSTER_F32, MUSTER_SUM, 3, 1, 4, 3, 4},
                                   {MUSTER_F32, MUSTER_AVG, 2, 1, 4, 2, 4},  {MUSTER_F16, MUSTER_AVG, 4, 1, 2, 4, 2},
                                   {MUSTER_F16, MUSTER_SUM, 12, 3, 2, 4, 4}, {MUSTER_I64, MUSTER_MAX, 4, 1, 8, 4, 8},
                                   {MUSTER_BF16, MUSTER_AVG, 8, 2, 2, 4, 4}, {MUSTER_BOOL, MUSTER_MIN, 4, 1, 1, 4, 1}};
    static const char *const machines[] = {"cuda:4", "cuda@0+0+0+0"};
    char *y = malloc(COUNT * 8);
    int count = 0;
    for (int m = 0; m < 2; m++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            const copied *p = &cases[c];
            const int64_t elements = COUNT;
            muster_tensor there;
            muster_runtime *runtime = open_machine(machines[m], true);
            muster_function *f = describe(runtime, p->dtype, p->mode);
            const muster_tensor here = muster_tensor_make(p->dtype, y, 1, &elements);
            assert_ok(muster_runtime_tensor_create(runtime, "3", p->dtype, 1, &elements, &there));
            const int64_t folded = p->parts * p->part_element * COUNT;
            const struct {
                muster_tensor y;
                bool reduced;
                int64_t bytes;
            } ways[] = {{here, false, folded}, {here, true, p->element * COUNT}, {there, false, folded}, {there, true, 0}};
            for (int w = 0; w < 4; w++, count++) {
                mst_reduced_saved_bytes_instead = ways[w].reduced ? 0 : INT64_MAX;
                const uint64_t before = muster_sim_bytes_to_host();
                assert_ok(call(f, p->rows, p->slices, ways[w].y));
                assert_int_equal(f->plan.reduced[0], ways[w].reduced);
                assert_int_equal(muster_sim_bytes_to_host() - before, ways[w].bytes);
            }
            close_machine(runtime);
        }
    assert_int_equal(count, 2 * 8 * 4);
    free(y);
}

/* ---- the transport ---- */

static void the_communicator_says_which_transport_reduces(void **state) {
    (void)state;
    static const struct {
        const char *devices;
        bool peers;
        muster_dtype dtype;
        muster_collect_mode mode;
        int64_t count;
        const char *server; /* NULL: the host folds */
    } cases[] = {
        {"cuda:4", true, MUSTER_F32, MUSTER_SUM, COUNT, "nccl"},
        {"cuda:4", true, MUSTER_F32, MUSTER_AVG, COUNT, "nccl"}, /* the products are summed */
        {"cuda:4", true, MUSTER_F32, MUSTER_MAX, COUNT, "p2p"},  /* NCCL may lose a NaN */
        {"cuda:4", true, MUSTER_F32, MUSTER_SUM, SMALL, "p2p"},
        {"cuda@0+0+0+0", true, MUSTER_F32, MUSTER_SUM, COUNT, "p2p"},
        {"cuda:4", false, MUSTER_F32, MUSTER_SUM, COUNT, "nccl"},
        {"cuda:4", false, MUSTER_F32, MUSTER_MAX, COUNT, NULL},
        {"cuda:4", false, MUSTER_F32, MUSTER_SUM, SMALL, NULL},
        {"cuda@0+0+0,host:1", true, MUSTER_F32, MUSTER_SUM, COUNT, NULL},
    };
    float *y = malloc(COUNT * sizeof *y);
    mst_reduced_saved_bytes_instead = 0;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        muster_runtime *runtime = open_machine(cases[c].devices, cases[c].peers);
        muster_function *f = describe(runtime, cases[c].dtype, cases[c].mode);
        const double expected = cases[c].mode == MUSTER_SUM ? 10 : cases[c].mode == MUSTER_MAX ? 4 : 2.5;
        assert_ok(call(f, GPUS, 1, muster_f32(y, cases[c].count)));
        assert_int_equal(f->plan.reduced[0], cases[c].server != NULL);
        if (cases[c].server) assert_string_equal(runtime->communicator->members[0].served_transport, cases[c].server);
        for (int64_t i = 0; i < cases[c].count; i++) assert_true(y[i] == (float)expected);
        close_machine(runtime);
    }
    free(y);
}

/* ---- failures ---- */

typedef enum { FAILS, LOSES_ITS_DEVICE } failure;

static void fill_bytes(float *y) { memset(y, 0x5A, COUNT * sizeof *y); }
static bool is_untouched(const float *y) {
    for (int64_t i = 0; i < COUNT; i++)
        if (memcmp(&y[i], "\x5A\x5A\x5A\x5A", 4) != 0) return false;
    return true;
}
static bool is_right(const float *y) {
    for (int64_t i = 0; i < COUNT; i++)
        if (y[i] != 10) return false;
    return true;
}

/* The kth call of the symbol in a call of the function. False: it has fewer calls of it. */
static bool fail_at(const char *devices, const char *symbol, uint64_t kth, failure how, float *y, int *failed) {
    muster_runtime *runtime = open_machine(devices, true);
    muster_function *f = describe(runtime, MUSTER_F32, MUSTER_SUM);
    fill_bytes(y);
    assert_ok(call(f, GPUS, 1, muster_f32(y, COUNT)));
    assert_true(is_right(y) && f->plan.reduced[0]);
    fill_bytes(y);
    if (how == FAILS)
        muster_sim_inject(symbol, kth, strncmp(symbol, "nccl", 4) == 0 ? (int)MST_NCCL_INTERNAL_ERROR : CUDA_ERROR_INVALID_VALUE);
    else
        muster_sim_inject_lost(symbol, kth);
    const muster_status status = call(f, GPUS, 1, muster_f32(y, COUNT));
    const bool reached = muster_sim_injected() > 0;
    if (status == MUSTER_OK) {
        if (!is_right(y)) fail_msg("%s: call %d of %s: the result is wrong", devices, (int)kth, symbol);
    } else {
        (*failed)++;
        if (!is_untouched(y)) fail_msg("%s: call %d of %s: %s, and the output was written", devices, (int)kth, symbol, muster_last_error());
        if (!strstr(muster_last_error(), "(rank ") || !strstr(muster_last_error(), "cuda:") || !strstr(muster_last_error(), " received "))
            fail_msg("%s: call %d of %s: no clear error: %s", devices, (int)kth, symbol, muster_last_error());
    }
    muster_sim_inject_clear();
    if (how == FAILS && status != MUSTER_OK) {
        const muster_status next = call(f, GPUS, 1, muster_f32(y, COUNT));
        if (next == MUSTER_OK && !is_right(y)) fail_msg("%s: the call after the failure is wrong", devices);
    }
    assert_ok(muster_runtime_close(runtime));
    return reached;
}

static void a_failed_call_leaves_the_output_as_it_was(void **state) {
    (void)state;
    static const struct {
        const char *devices, *symbol;
    } cases[] = {{"cuda:4", "ncclReduce"},           {"cuda:4", "cuMemcpyDtoHAsync_v2"},       {"cuda:4", "ncclGroupEnd"},
                 {"cuda@0+0+0+0", "cuLaunchKernel"}, {"cuda@0+0+0+0", "cuMemcpyDtoHAsync_v2"}, {"cuda@0+0+0+0", "cuStreamWaitEvent"}};
    float *y = malloc(COUNT * sizeof *y);
    mst_reduced_saved_bytes_instead = 0;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (failure how = FAILS; how <= LOSES_ITS_DEVICE; how++) {
            int failed = 0, kth = 1;
            while (fail_at(cases[c].devices, cases[c].symbol, (uint64_t)kth, how, y, &failed)) kth++;
            assert_true(kth > 1);
            assert_int_equal(failed, kth - 1);
        }
    free(y);
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(only_the_result_is_copied_to_host_memory),
        CASE(the_communicator_says_which_transport_reduces),
        CASE(a_failed_call_leaves_the_output_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
