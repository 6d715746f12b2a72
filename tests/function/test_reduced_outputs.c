/* Large outputs of GPUs, which the devices reduce before one copy to the host: the results are
 * those of the host's fold, for every reduction, dtype, share of rows, number of slices and
 * place. */
#include "base_machine.h"
#include "call_private.h"
#include "convert_impl.h"
#include "device_discrete.h"
#include "function_fixture.h"
#include "output_private.h"

#include "muster/ops.h"
#include "muster/variable.h"

#include <math.h>
#include <string.h>

enum { SIZE = 4, COLUMNS = 37, ROWS_MAX = 13, ELEMENT_MAX = 8 };

/* Where the test runs on GPUs, host:4 are four GPUs and discrete:4 four virtual devices of one GPU:
 * these reduce. Host devices, devices beside host devices and discrete ones, which cannot read each
 * other's memory, do not. */
static const char *const devices[] = {"host:4", "discrete:4", "host:2,discrete:2"};
enum { DEVICES = 3 };
static bool devices_reduce(int d) { return d < 2 && on_gpus(); }

static muster_runtime *open_runtime(const char *text, int shards) {
    muster_runtime_options options;
    muster_runtime *runtime;
    assert_ok(mst_discrete_register());
    muster_runtime_options_init(&options);
    options.devices = text;
    options.logical_shards = shards ? shards : -1;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static int begin_test(void **state) {
    static int64_t usual;
    *state = &usual;
    usual = mst_reduced_saved_bytes_instead;
    return 0;
}
static int end_test(void **state) {
    mst_reduced_saved_bytes_instead = *(int64_t *)*state;
    return 0;
}
enum { REDUCE_ALL = 0 };
#define FOLD_ALL INT64_MAX

/* Which way was the last call's output collected? Where devices reduced, a transport between them
 * served the collective. */
static void assert_way(const muster_function *f, bool reduced) {
    assert_int_equal(f->plan.reduced[0], reduced);
    assert_int_equal(f->plan.reduces, reduced);
    if (!reduced) return;
    const char *served = f->object.runtime->communicator->members[0].served_transport;
    assert_non_null(served);
    if (strcmp(served, "p2p") != 0 && strcmp(served, "nccl") != 0) fail_msg("%s served", served);
}

/* ---- every dtype and reduction ---- */

typedef struct kind {
    muster_dtype dtype;
    muster_reduction op;
} kind;

static muster_status reduce_rows(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    return muster_reduce(w, *(muster_reduction *)user, in[0], 0, out[0]);
}

static bool is_float(muster_dtype dtype) {
    return dtype == MUSTER_F16 || dtype == MUSTER_BF16 || dtype == MUSTER_F32 || dtype == MUSTER_F64;
}

static bool is_defined(kind k) {
    if (k.op == MUSTER_AVG) return is_float(k.dtype);
    return k.dtype != MUSTER_BOOL || k.op != MUSTER_SUM;
}

/* Small whole numbers, so that sums and products are exact in every dtype, and in any order. */
static double value_at(kind k, int64_t row, int64_t column) {
    const int n = (int)((row * 5 + column * 3 + row * column) % 7);
    const bool is_signed =
        is_float(k.dtype) || k.dtype == MUSTER_I8 || k.dtype == MUSTER_I16 || k.dtype == MUSTER_I32 || k.dtype == MUSTER_I64;
    if (k.dtype == MUSTER_BOOL) return n < 3;
    if (k.op == MUSTER_PROD) return n == 0 ? 2 : n == 1 && is_signed ? -1 : 1;
    return is_signed ? n - 3 : n;
}

static double expected_at(kind k, int64_t rows, int64_t column) {
    double result = value_at(k, 0, column);
    for (int64_t r = 1; r < rows; r++) {
        const double x = value_at(k, r, column);
        if (k.op == MUSTER_SUM || k.op == MUSTER_AVG) result += x;
        if (k.op == MUSTER_PROD) result *= x;
        if (k.op == MUSTER_MAX && x > result) result = x;
        if (k.op == MUSTER_MIN && x < result) result = x;
    }
    return k.op == MUSTER_AVG ? result / (double)rows : result;
}

/* Averages are rounded: the weight, the product and each sum, in the dtype that they have. */
static double tolerance(kind k) {
    if (k.op != MUSTER_AVG) return 0;
    return k.dtype == MUSTER_F16 ? 0x1p-8 : k.dtype == MUSTER_BF16 ? 0x1p-5 : k.dtype == MUSTER_F32 ? 0x1p-20 : 0x1p-48;
}

typedef enum { IN_HOST_MEMORY, STRIDED_IN_HOST_MEMORY, ON_DEVICE_0, ON_LAST_DEVICE, STRIDED_ON_DEVICE_1, PLACES } place;

/* The tensor of an output at a place. A strided one is every second element of its base. What
 * several processes pass is in host memory, since each has devices of its own only. */
static muster_tensor place_output(muster_runtime *runtime, place p, muster_dtype dtype, void *memory, muster_tensor *base) {
    static const char *const names[] = {"0", "1", "2", "3"};
    if (processes_count() > 1) p = p % 2 ? STRIDED_IN_HOST_MEMORY : IN_HOST_MEMORY;
    const bool strided = p == STRIDED_IN_HOST_MEMORY || p == STRIDED_ON_DEVICE_1;
    const int64_t count = strided ? 2 * COLUMNS : COLUMNS;
    memset(memory, 0x11, (size_t)(count * muster_dtype_size(dtype)));
    *base = muster_tensor_make(dtype, memory, 1, &count);
    if (p == ON_DEVICE_0 || p == ON_LAST_DEVICE || p == STRIDED_ON_DEVICE_1)
        assert_ok(muster_runtime_tensor_create(runtime,
                                               names[p == ON_DEVICE_0      ? 0
                                                     : p == ON_LAST_DEVICE ? SIZE - 1
                                                                           : 1],
                                               dtype, 1, &count, base));
    muster_tensor output = *base;
    if (strided) output.shape[0] = COLUMNS, output.strides[0] = 2;
    return output;
}

static double taken(muster_dtype dtype, const char *memory, int64_t index) {
    double value;
    mst_convert(MUSTER_F64, &value, dtype, memory + index * muster_dtype_size(dtype), 1);
    return value;
}

typedef struct run {
    kind k;
    int64_t rows, slices;
    place p;
    bool async;
} run;

static void call(muster_runtime *runtime, muster_function *f, const run *r, double *results) {
    char x[ROWS_MAX * COLUMNS * ELEMENT_MAX], y[2 * COLUMNS * ELEMENT_MAX];
    const int64_t shape[] = {r->rows, COLUMNS}, size = muster_dtype_size(r->k.dtype);
    muster_call_options options;
    muster_tensor base;
    muster_call_options_init(&options);
    options.slices = r->slices;
    for (int64_t i = 0; i < r->rows * COLUMNS; i++) {
        const double value = value_at(r->k, i / COLUMNS, i % COLUMNS);
        mst_convert(r->k.dtype, x + i * size, MUSTER_F64, &value, 1);
    }
    const muster_tensor in = muster_tensor_make(r->k.dtype, x, 2, shape), out = place_output(runtime, r->p, r->k.dtype, y, &base);
    if (r->async) {
        muster_pending *pending;
        assert_ok(muster_function_call_async(f, &in, 1, &out, 1, &options, &pending));
        assert_ok(muster_pending_wait(&pending));
    } else {
        assert_ok(muster_function_call(f, &in, 1, &out, 1, &options));
    }
    if (base.device != MUSTER_DEVICE_HOST) {
        muster_tensor host = base;
        host.device = MUSTER_DEVICE_HOST, host.data = y, host.byte_offset = 0, memset(host.reserved, 0, sizeof host.reserved);
        assert_ok(muster_runtime_tensor_copy(runtime, base, host));
        assert_ok(muster_runtime_tensor_destroy(runtime, base));
    }
    for (int64_t i = 0; i < COLUMNS; i++) results[i] = taken(r->k.dtype, y, out.strides[0] * i);
}

static void check(muster_runtime *runtime, muster_function *f, const run *r, bool devices_can) {
    double folded[COLUMNS], reduced[COLUMNS];
    mst_reduced_saved_bytes_instead = FOLD_ALL;
    call(runtime, f, r, folded);
    assert_way(f, false);
    mst_reduced_saved_bytes_instead = REDUCE_ALL;
    call(runtime, f, r, reduced);
    assert_way(f, devices_can && r->rows > 1);
    for (int64_t i = 0; i < COLUMNS; i++) {
        const double expected = expected_at(r->k, r->rows, i), limit = tolerance(r->k);
        if (fabs(folded[i] - expected) <= limit && fabs(reduced[i] - expected) <= limit) continue;
        fail_msg("%s %d, %d rows, %d slices, place %d, element %d: expected %g, folded %g, reduced %g", muster_dtype_name(r->k.dtype),
                 (int)r->k.op, (int)r->rows, (int)r->slices, (int)r->p, (int)i, expected, folded[i], reduced[i]);
    }
}

static void every_dtype_and_reduction_gives_what_the_host_folds(void **state) {
    (void)state;
    static const int64_t row_counts[] = {13, 4, 3, 2, 1}; /* uneven; even; one, two, three empty shares */
    int kinds = 0, cases = 0, with[PLACES] = {0};
    for (int d = 0; d < DEVICES; d++) {
        muster_runtime *runtime = open_runtime(devices[d], 0);
        for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
            for (muster_reduction op = MUSTER_SUM; op <= MUSTER_AVG; op++) {
                muster_function *f;
                const kind k = {dtype, op};
                if (!is_defined(k)) continue;
                kinds++;
                assert_ok(muster_function_create(runtime, "f", reduce_rows, &op, &f));
                assert_ok(muster_function_input(f, "x", dtype, 2, MUSTER_SCATTER));
                assert_ok(muster_function_output(f, "y", dtype, 1, op));
                for (int i = 0; i < 10; i++, cases++) {
                    const run r = {k, row_counts[i % 5], i < 5 ? 1 : 3, (place)((i + kinds) % PLACES), cases % 3 == 0};
                    with[r.p]++;
                    check(runtime, f, &r, devices_reduce(d));
                }
                assert_ok(muster_function_destroy(f));
            }
        fixture_close(runtime);
    }
    assert_int_equal(kinds, DEVICES * (4 * 5 + 7 * 4 + 3));
    assert_int_equal(cases, kinds * 10);
    for (int p = 0; p < PLACES; p++) assert_int_equal(with[p], cases / PLACES);
}

/* ---- extremes of value ---- */

typedef struct extremes {
    float value[SIZE];
    double weight[SIZE];
} extremes;

static muster_status write_value(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const extremes *e = user;
    const int32_t rank = muster_worker_rank(w);
    (void)in;
    MUSTER_TRY(muster_worker_set_weight(w, e->weight[rank]));
    return muster_fill(w, e->value[rank], out[0]);
}

static muster_status call_extremes(muster_function *f, float *y) {
    for (int i = 0; i < COLUMNS; i++) y[i] = 77;
    return muster_function_call(f, NULL, 0, (muster_tensor[]){muster_f32(y, COLUMNS)}, 1, NULL);
}

/* Sums of products with weights are rounded in another order. */
static bool same_value(float a, float b, bool averaged) {
    if ((isnan(a) && isnan(b)) || a == b) return true;
    return averaged && isfinite(a) && fabsf(a - b) <= fabsf(a) * 0x1p-21f;
}

static void weights_and_values_at_their_limits_do_as_in_the_fold(void **state) {
    (void)state;
    const float huge = 3e38f;
    static const muster_reduction ops[] = {MUSTER_AVG, MUSTER_MAX, MUSTER_MIN, MUSTER_SUM};
    const extremes cases[] = {
        {{1, NAN, 3, 5}, {1, 0, 1, 2}},              /* a weight of 0: its NaN is ignored */
        {{1, NAN, 3, 5}, {1, 1, 1, 1}},              /* else it gets through */
        {{huge, huge, huge, huge}, {1, 2, 3, 4}},    /* no average overflows */
        {{INFINITY, 1, 2, 3}, {1, 1, 1, 1}},         /* nor is infinity lost */
        {{INFINITY, -INFINITY, 2, 3}, {1, 1, 1, 1}}, /* NaN */
        {{-INFINITY, -INFINITY, -INFINITY, -INFINITY}, {1e-300, 1e-300, 1e-300, 1e-300}},
        {{7, INFINITY, INFINITY, INFINITY}, {1e300, 0, 0, 0}}, /* one weight of four */
    };
    int count = 0;
    for (int d = 0; d < DEVICES; d++) {
        muster_runtime *runtime = open_runtime(devices[d], 0);
        for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
            extremes e;
            muster_function *f;
            assert_ok(muster_function_create(runtime, "f", write_value, &e, &f));
            assert_ok(muster_function_output(f, "y", MUSTER_F32, 1, ops[o]));
            for (size_t c = 0; c < sizeof cases / sizeof *cases; c++, count++) {
                float folded[COLUMNS], reduced[COLUMNS];
                e = cases[c];
                mst_reduced_saved_bytes_instead = FOLD_ALL;
                assert_ok(call_extremes(f, folded));
                assert_way(f, false);
                mst_reduced_saved_bytes_instead = REDUCE_ALL;
                assert_ok(call_extremes(f, reduced));
                assert_way(f, devices_reduce(d));
                for (int i = 0; i < COLUMNS; i++)
                    if (!same_value(folded[i], reduced[i], ops[o] == MUSTER_AVG))
                        fail_msg("reduction %d, case %d: folded %.9g, reduced %.9g", (int)ops[o], (int)c, (double)folded[i],
                                 (double)reduced[i]);
                if (o == 0 && c == 0) assert_true(fabsf(reduced[COLUMNS - 1] - 3.5f) < 1e-6f);
                if (o == 0 && c == 6) assert_true(reduced[COLUMNS - 1] == 7);
            }
            assert_ok(muster_function_destroy(f));
        }
        fixture_close(runtime);
    }
    assert_int_equal(count, DEVICES * 4 * 7);
}

static void weights_without_a_sum_are_refused_and_nothing_is_written(void **state) {
    (void)state;
    static const struct {
        extremes e;
        const char *message;
    } cases[] = {
        {{{1, 2, 3, 4}, {0, 0, 0, 0}}, "output 'y' of function 'f': the weights of all workers are 0: there is nothing to average"},
        {{{1, 2, 3, 4}, {1e308, 1e308, 0, 0}}, "output 'y' of function 'f': the sum of the workers' weights overflows"},
    };
    mst_reduced_saved_bytes_instead = REDUCE_ALL;
    for (int d = 0; d < DEVICES; d++) {
        extremes e;
        muster_function *f;
        float y[COLUMNS];
        muster_runtime *runtime = open_runtime(devices[d], 0);
        assert_ok(muster_function_create(runtime, "f", write_value, &e, &f));
        assert_ok(muster_function_output(f, "y", MUSTER_F32, 1, MUSTER_AVG));
        for (int c = 0; c < 2; c++) {
            e = cases[c].e;
            assert_refused(call_extremes(f, y), MUSTER_INVALID_ARGUMENT, cases[c].message);
            assert_int_equal(f->plan.reduced[0], devices_reduce(d));
            if (devices_reduce(d)) /* no rank has entered the collective: the last one is the end of the bodies */
                assert_string_equal(runtime->communicator->members[0].served_transport, "staged");
            for (int i = 0; i < COLUMNS; i++) assert_true(y[i] == 77);
        }
        e = (extremes){{1, 2, 3, 4}, {1, 1, 1, 1}};
        assert_ok(call_extremes(f, y));
        assert_true(y[COLUMNS - 1] == 2.5f);
        fixture_close(runtime);
    }
}

/* ---- which way ---- */

/* On 4 devices an output of B bytes saves 3 B; where only 3 of them contribute, 2 B. */
static void outputs_are_reduced_from_a_size_on(void **state) {
    (void)state;
    const int64_t threshold = 256 << 10; /* of lib/device/thresholds.def */
    static uint8_t x[SIZE * (1 << 18)], y[1 << 18];
    muster_reduction op = MUSTER_SUM;
    memset(x, 1, sizeof x);
    for (int d = 0; d < DEVICES; d++) {
        muster_function *f;
        muster_runtime *runtime = open_runtime(devices[d], 0);
        assert_ok(muster_function_create(runtime, "f", reduce_rows, &op, &f));
        assert_ok(muster_function_input(f, "x", MUSTER_U8, 2, MUSTER_SCATTER));
        assert_ok(muster_function_output(f, "y", MUSTER_U8, 1, MUSTER_SUM));
        for (int64_t rows = 1; rows <= SIZE; rows++) {
            /* the fewest bytes that save the threshold */
            const int64_t least = rows == 1 ? 1 << 18 : (threshold + rows - 2) / (rows - 1);
            for (int64_t count = least - 1; count <= least; count++) {
                const muster_tensor in = muster_tensor_make(MUSTER_U8, x, 2, (int64_t[]){rows, count});
                const muster_tensor out = muster_tensor_make(MUSTER_U8, y, 1, &count);
                assert_ok(muster_function_call(f, &in, 1, &out, 1, NULL));
                assert_way(f, devices_reduce(d) && rows > 1 && count == least);
                for (int64_t i = 0; i < count; i++) assert_true(y[i] == rows);
            }
        }
        fixture_close(runtime);
    }
}

/* The same bits on 1, 2 and 4 devices, as the host folds the logical shards in their order. */
static void the_reproducible_mode_folds(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, SIZE};
    float x[ROWS_MAX * COLUMNS], y[3][COLUMNS];
    uint64_t seed = fixture_seed();
    for (int i = 0; i < ROWS_MAX * COLUMNS; i++) x[i] = (float)fixture_random(&seed, 1000000) * 1e-3f - 499.7f;
    mst_reduced_saved_bytes_instead = REDUCE_ALL;
    for_each_backend(backend) for (int together = 0; together < 2; together++) for (muster_reduction op = MUSTER_SUM; op <= MUSTER_AVG;
                                                                                    op++) {
        for (int s = 0; s < 3; s++) {
            muster_function *f;
            muster_runtime *runtime = fixture_open_shards(backend, sizes[s], 8);
            assert_ok(muster_function_create(runtime, "f", reduce_rows, &op, &f));
            assert_ok(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
            assert_ok(muster_function_output(f, "y", MUSTER_F32, 1, op));
            assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, ROWS_MAX, COLUMNS)}, 1,
                                           (muster_tensor[]){muster_f32(y[s], COLUMNS)}, 1, NULL));
            assert_way(f, false);
            fixture_close(runtime);
        }
        for (int s = 1; s < 3; s++) assert_memory_equal(y[s], y[0], sizeof y[0]);
    }
}

/* ---- beside other outputs ---- */

static muster_status write_all(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    muster_tensor sum;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, out[0].shape, &sum));
    MUSTER_TRY(muster_reduce(w, MUSTER_SUM, in[0], 0, sum));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, sum, sum)); /* a collective of the body's own before */
    MUSTER_TRY(muster_reduce(w, MUSTER_SUM, in[0], 0, out[0]));
    MUSTER_TRY(muster_copy(w, in[0], out[1]));
    if (out[2].dtype) MUSTER_TRY(muster_reduce(w, MUSTER_MAX, in[0], 0, out[2]));
    return muster_copy(w, sum, out[3]);
}

/* Sums reduced, rows gathered, an output that nobody wants, the master's; single calls, which have
 * one device, and calls after prepare. */
static void other_outputs_and_single_calls_stay_as_they_are(void **state) {
    (void)state;
    float x[ROWS_MAX * COLUMNS], y[COLUMNS], rows[ROWS_MAX * COLUMNS], first[COLUMNS];
    const kind k = {MUSTER_F32, MUSTER_SUM};
    for (int i = 0; i < ROWS_MAX * COLUMNS; i++) x[i] = (float)value_at(k, i / COLUMNS, i % COLUMNS);
    mst_reduced_saved_bytes_instead = REDUCE_ALL;
    for (int d = 0; d < DEVICES; d++) {
        muster_function *f;
        muster_runtime *runtime = open_runtime(devices[d], 0);
        assert_ok(muster_function_create(runtime, "f", write_all, NULL, &f));
        assert_ok(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
        assert_ok(muster_function_output(f, "y", MUSTER_F32, 1, MUSTER_SUM));
        assert_ok(muster_function_output(f, "rows", MUSTER_F32, 2, MUSTER_GATHER));
        assert_ok(muster_function_output(f, "highest", MUSTER_F32, 1, MUSTER_MAX));
        assert_ok(muster_function_output(f, "first", MUSTER_F32, 1, MUSTER_MASTER));
        const muster_tensor in[] = {muster_f32(x, ROWS_MAX, COLUMNS)};
        const muster_tensor out[] = {muster_f32(y, COLUMNS), muster_f32(rows, ROWS_MAX, COLUMNS), muster_tensor_none(),
                                     muster_f32(first, COLUMNS)};
        for (int kind_of_call = 0; kind_of_call < 4; kind_of_call++) {
            memset(y, 0, sizeof y), memset(rows, 0, sizeof rows), memset(first, 0, sizeof first);
            if (kind_of_call == 1) assert_ok(muster_function_call_single(f, in, 1, out, 4, NULL));
            if (kind_of_call == 2) assert_ok(muster_function_prepare(f, in, 1, out, 4, NULL));
            if (kind_of_call != 1) assert_ok(muster_function_call(f, in, 1, out, 4, NULL));
            assert_way(f, devices_reduce(d) && kind_of_call != 1);
            for (int i = 1; i < 4; i++) assert_false(f->plan.reduced[i]);
            assert_memory_equal(rows, x, sizeof x);
            for (int i = 0; i < COLUMNS; i++) assert_true(y[i] == expected_at(k, ROWS_MAX, i) && first[i] == y[i]);
        }
        fixture_close(runtime);
    }
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin_test, end_test)
    const struct CMUnitTest tests[] = {
        CASE(every_dtype_and_reduction_gives_what_the_host_folds),
        CASE(weights_and_values_at_their_limits_do_as_in_the_fold),
        CASE(weights_without_a_sum_are_refused_and_nothing_is_written),
        CASE(outputs_are_reduced_from_a_size_on),
        CASE(the_reproducible_mode_folds),
        CASE(other_outputs_and_single_calls_stay_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
