/* The reproducible mode beside its plain case: large and strided outputs, functions without inputs,
 * shards without rows, memory. */
#include "function_fixture.h"

#include "device_discrete.h"
#include "memory_impl.h"
#include "output_private.h"
#include "variable_impl.h"

#include <stdlib.h>
#include <string.h>

enum { SHARDS_MAX = 12, NUMBERS = 4 };

/* ---- outputs that all workers combine, and strided ones ---- */

enum { WIDE = 20001, WIDE_ROWS = 11 };

static muster_status wide_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    MUSTER_TRY(muster_reduce(w, MUSTER_SUM, in[0], 0, out[0]));
    MUSTER_TRY(muster_reduce(w, MUSTER_AVG, in[0], 0, out[1]));
    return muster_reduce(w, MUSTER_SUM, in[0], 0, out[2]);
}

typedef struct wide_result {
    uint16_t sum[WIDE], avg[WIDE], every_second[2 * WIDE];
} wide_result;

static void call_wide(muster_runtime *runtime, const uint16_t *x, wide_result *r) {
    muster_function *f;
    muster_tensor strided = muster_tensor_make(MUSTER_BF16, r->every_second, 1, (int64_t[]){WIDE});
    memset(r, 0, sizeof *r);
    strided.strides[0] = 2;
    assert_ok(muster_function_create(runtime, "wide", wide_body, NULL, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_BF16, 2, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "sum", MUSTER_BF16, 1, MUSTER_SUM));
    assert_ok(muster_function_output(f, "avg", MUSTER_BF16, 1, MUSTER_AVG));
    assert_ok(muster_function_output(f, "strided", MUSTER_BF16, 1, MUSTER_SUM));
    const muster_tensor outputs[] = {muster_tensor_make(MUSTER_BF16, r->sum, 1, (int64_t[]){WIDE}),
                                     muster_tensor_make(MUSTER_BF16, r->avg, 1, (int64_t[]){WIDE}), strided};
    assert_ok(muster_function_call(f, (muster_tensor[]){muster_tensor_make(MUSTER_BF16, (void *)x, 2, (int64_t[]){WIDE_ROWS, WIDE})}, 1,
                                   outputs, 3, NULL));
}

static void outputs_that_all_workers_combine_have_the_same_bits(void **unused) {
    (void)unused;
    static double values[WIDE_ROWS * WIDE];
    static uint16_t x[WIDE_ROWS * WIDE];
    static wide_result expected, received;
    uint64_t state = fixture_seed();
    for (int i = 0; i < WIDE_ROWS * WIDE; i++) values[i] = i % 3 ? (double)fixture_random(&state, 1000) * 1e-3 : i % 2 ? 1e5 : -1e5;
    mst_convert(MUSTER_BF16, x, MUSTER_F64, values, WIDE_ROWS * WIDE);
    for_each_backend(backend) {
        const int64_t usual = mst_reduced_saved_bytes_instead;
        muster_runtime *runtime = fixture_open_alone(backend, 8);
        mst_reduced_saved_bytes_instead = INT64_MAX; /* these bits are those of the host's fold, also on GPUs */
        call_wide(runtime, x, &expected);
        mst_reduced_saved_bytes_instead = usual;
        fixture_close(runtime);
        for (int devices = 1; devices <= 8; devices *= 2) {
            runtime = fixture_open_shards(backend, devices, 8);
            call_wide(runtime, x, &received);
            assert_memory_equal(&expected, &received, sizeof expected);
            fixture_close(runtime);
        }
    }
}

/* ---- functions without inputs ---- */

static muster_status draw_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    const int64_t shape[] = {1000};
    muster_tensor row, numbers;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, shape, &numbers));
    MUSTER_TRY(muster_random_normal(w, 3, (uint64_t)muster_worker_first_row(w) * 1000, 0, 1e4, numbers));
    MUSTER_TRY(muster_sum(w, numbers, out[0]));
    MUSTER_TRY(muster_sum(w, numbers, out[1]));
    MUSTER_TRY(muster_worker_output_rows(w, 2, 1, &row));
    int64_t numbers_of_shard[NUMBERS] = {muster_worker_shard(w), muster_worker_first_row(w), muster_worker_rows(w),
                                         muster_worker_total_rows(w)};
    return muster_worker_write(w, muster_tensor_make(MUSTER_I64, numbers_of_shard, 2, (int64_t[]){1, NUMBERS}), row);
}

typedef muster_status (*call_kind)(muster_function *function, const muster_tensor *inputs, int32_t input_count,
                                   const muster_tensor *outputs, int32_t output_count, const muster_call_options *options);

typedef struct drawn {
    float sum, avg;
    int64_t numbers[SHARDS_MAX][NUMBERS];
} drawn;

static void draw(muster_runtime *runtime, call_kind call, int shards, drawn *r) {
    muster_function *f;
    memset(r, 0, sizeof *r);
    assert_ok(muster_function_create(runtime, "draw", draw_body, NULL, &f));
    assert_ok(muster_function_set_shards_together(f, 0));
    assert_ok(muster_function_output(f, "sum", MUSTER_F32, 0, MUSTER_SUM));
    assert_ok(muster_function_output(f, "avg", MUSTER_F32, 0, MUSTER_AVG));
    assert_ok(muster_function_output(f, "numbers", MUSTER_I64, 2, MUSTER_GATHER));
    assert_ok(
        call(f, NULL, 0, (muster_tensor[]){muster_f32(&r->sum), muster_f32(&r->avg), muster_i64(r->numbers, shards, NUMBERS)}, 3, NULL));
    assert_ok(muster_function_destroy(f));
}

static void where_nothing_is_scattered_a_shard_is_one_row(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        for (size_t s = 0; s < 3; s++) {
            const int shards = (int[]){8, 6, 12}[s];
            drawn expected, received;
            muster_runtime *runtime = fixture_open_alone(backend, shards);
            draw(runtime, muster_function_call, shards, &expected);
            assert_memory_equal(expected.numbers[3], ((int64_t[]){3, 3, 1, shards}), sizeof expected.numbers[3]);
            fixture_close(runtime);
            for (int devices = 1; devices <= shards; devices++) {
                if (shards % devices) continue;
                runtime = fixture_open_shards(backend, devices, shards);
                draw(runtime, muster_function_call, shards, &received);
                assert_memory_equal(&expected, &received, sizeof expected);
                draw(runtime, muster_function_call_single, shards, &received);
                assert_memory_equal(&expected, &received, sizeof expected);
                fixture_close(runtime);
            }
        }
    }
}

/* ---- shards without rows ---- */

static muster_status count_runs(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    __atomic_fetch_add(&((int *)user)[muster_worker_shard(w)], 1, __ATOMIC_SEQ_CST);
    if (muster_worker_rows(w) == 0) return muster_fill(w, -1e30, out[0]); /* must not enter */
    return muster_sum(w, in[0], out[0]);
}

static void the_body_runs_once_for_each_shard_that_has_rows(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        for (int without_rows = 0; without_rows < 2; without_rows++) {
            muster_runtime *runtime = fixture_open_shards(backend, 2, 8);
            int runs[8] = {0};
            float x[3] = {1, 2, 4}, y = 0;
            muster_function *f;
            assert_ok(muster_function_create(runtime, "f", count_runs, runs, &f));
            assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
            assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM));
            assert_ok(muster_function_set_runs_without_rows(f, without_rows));
            assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, 3)}, 1, (muster_tensor[]){muster_f32(&y)}, 1, NULL));
            assert_float_equal(y, 7, 0);
            processes_merge(runs, sizeof runs);
            for (int s = 0; s < 8; s++) assert_int_equal(runs[s], without_rows || 3 * (s + 1) / 8 > 3 * s / 8);
            fixture_close(runtime);
        }
    }
}

static void the_edges_of_ranks_are_edges_of_shards(void **unused) {
    (void)unused;
    for (int64_t n = 0; n <= 200; n++)
        for (int32_t shards = 1; shards <= 24; shards++)
            for (int32_t devices = 1; devices <= shards; devices++)
                for (int32_t r = 0; shards % devices == 0 && r <= devices; r++)
                    assert_int_equal(mst_edge(n, devices, r), mst_edge(n, shards, r * (shards / devices)));
}

/* ---- memory and failures ---- */

/* Takes 1 MB of scratch in every run of the body: with 8 shards in 4 slices, 32 times. */
static muster_status greedy_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    void **block = user;
    muster_tensor scratch;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, (int64_t[]){1 << 18}, &scratch));
    if (muster_worker_shard(w) == 0 && muster_worker_slice(w) == 0) *block = scratch.data;
    if (scratch.data != *block) return muster_fail(MUSTER_USER, "the scratch memory of the run before is not free");
    MUSTER_TRY(muster_sum(w, in[0], out[0]));
    return muster_copy(w, in[0], out[1]);
}

static muster_status greedy_life(const char *backend, float *y) {
    char devices[32];
    void *block = NULL;
    float x[64], copied[64];
    muster_runtime_options options;
    muster_call_options slices;
    muster_runtime *runtime;
    muster_function *f;
    for (int i = 0; i < 64; i++) x[i] = 1;
    snprintf(devices, sizeof devices, "%s:1", backend);
    muster_runtime_options_init(&options);
    muster_call_options_init(&slices);
    options.devices = devices;
    options.logical_shards = 8;
    slices.slices = 4;
    MUSTER_TRY(muster_runtime_open(&options, &runtime));
    muster_status status = muster_function_create(runtime, "f", greedy_body, &block, &f);
    if (!status) status = muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER);
    if (!status) status = muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM);
    if (!status) status = muster_function_output(f, "copied", MUSTER_F32, 1, MUSTER_GATHER);
    const muster_tensor in = muster_f32(x, 64), out[] = {muster_f32(y), muster_f32(copied, 64)};
    int64_t before = 0;
    for (int i = 0; i < 6 && !status; i++) {
        if (i == 3) before = mst_memory_count();
        status = muster_function_call(f, &in, 1, out, 2, &slices);
    }
    if (!status && mst_memory_count() != before) status = muster_fail(MUSTER_USER, "a repeated call has allocated");
    const muster_status closed = muster_runtime_close(runtime);
    return status ? status : closed;
}

static void a_repeated_call_allocates_nothing_and_scratch_serves_every_run_again(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        float y = 0;
        assert_ok(mst_discrete_register());
        assert_ok(greedy_life(backend, &y));
        assert_float_equal(y, 64, 0);
    }
}

/* Without the cache: an image that cannot be read from it is compiled, and nothing fails. */
static void every_allocation_may_fail(void **unused) {
    (void)unused;
    setenv("MUSTER_CACHE_DIR", "off", 1);
    for_each_backend(backend) {
        float y = 0;
        assert_ok(greedy_life(backend, &y));
        const int64_t live = mst_memory_live(), start = mst_memory_count();
        assert_ok(greedy_life(backend, &y));
        const int64_t allocations = mst_memory_count() - start;
        int64_t refused = 0;
        for (int64_t k = 1; k <= allocations; k++) {
            mst_memory_fail_at(k);
            const muster_status status = greedy_life(backend, &y);
            mst_memory_fail_at(0);
            refused += status != MUSTER_OK; /* merging the blocks of scratch may fail and does no harm */
            assert_int_equal(mst_memory_live(), live);
            assert_int_equal(mst_discrete_live(), 0);
        }
        assert_true(refused >= allocations - 2);
        assert_ok(greedy_life(backend, &y));
        assert_float_equal(y, 64, 0);
    }
}

static muster_status failing_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    if (muster_worker_shard(w) == *(int *)user) return muster_fail(MUSTER_OUT_OF_RANGE, "the cat sat on this shard");
    return muster_sum(w, in[0], out[0]);
}

static void the_failure_of_any_shard_reaches_the_caller_and_the_next_call_is_right(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open_shards(backend, 2, 6);
        muster_function *f;
        int failing;
        float x[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, y = 0;
        const muster_tensor in = muster_f32(x, 12), out = muster_f32(&y);
        assert_ok(muster_function_create(runtime, "f", failing_body, &failing, &f));
        assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
        assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM));
        for (int shard = 0; shard < 6; shard++) {
            char expected[128];
            snprintf(expected, sizeof expected, "the cat sat on this shard; this body computes rows [%d, %d) of the call (rank %d)",
                     2 * shard, 2 * shard + 2, shard / 3);
            failing = shard;
            assert_refused(muster_function_call(f, &in, 1, &out, 1, NULL), MUSTER_OUT_OF_RANGE, expected);
            failing = -1;
            assert_ok(muster_function_call(f, &in, 1, &out, 1, NULL));
            assert_float_equal(y, 78, 0);
        }
        fixture_close(runtime);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_that_all_workers_combine_have_the_same_bits),
        cmocka_unit_test(where_nothing_is_scattered_a_shard_is_one_row),
        cmocka_unit_test(the_body_runs_once_for_each_shard_that_has_rows),
        cmocka_unit_test(the_edges_of_ranks_are_edges_of_shards),
        cmocka_unit_test(a_repeated_call_allocates_nothing_and_scratch_serves_every_run_again),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(the_failure_of_any_shard_reaches_the_caller_and_the_next_call_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
