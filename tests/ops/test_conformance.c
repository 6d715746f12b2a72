/* Every row of the registry on every device against plain loops, over dtypes and strided views;
 * kernels of the device code; refusals. The cases of a row are in tests/ops/oracle/<name>.c. */
#include "base_check.h"
#include "device_discrete.h"
#include "ops_oracle.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the rows of the registry ---- */

static uint32_t dtypes_on(const muster_worker *w, const mst_op_row *o) {
    return o->code_dtypes && !mst_device_is_host(w->device) ? o->code_dtypes : o->dtypes;
}

static muster_status run_cases(muster_worker *w, void *row) {
    const mst_op_row *o = row;
    const ops_oracle *oracle = ops_oracle_find(o->id);
    char text[128];
    uint32_t dtypes;
    (void)ops_counted_cases(o->id, &dtypes);
    oracle->cases(w, o);
    const int64_t counted = ops_counted_cases(o->id, &dtypes);
    if (counted != oracle->case_count)
        fail_msg("tests/ops/oracle/%s.c: case_count: expected the number of cases that were counted, %lld, received %lld", o->name,
                 (long long)counted, (long long)oracle->case_count);
    if (dtypes != dtypes_on(w, o)) fail_msg("tests/ops/oracle/%s.c has cases of %s only", o->name, mst_dtypes_text(text, dtypes));
    return MUSTER_OK;
}

static void test_row(void **state) {
    mst_op_row *o = *state;
    const ops_oracle *oracle = ops_oracle_find(o->id);
    if (!oracle || !oracle->cases || oracle->case_count == 0)
        fail_msg("the operation %s has no cases: see ops_oracle in tests/support/ops_oracle.h", o->name);
    if (ops_first_backend() == 0) assert_ok(ops_run_on("host", run_cases, o));
    assert_ok(ops_run_on("discrete", run_cases, o));
}

/* ---- kernels ---- */

static bool has_kernel(const mst_op_row *o, const char *name) {
    for (int32_t i = 0; i < o->code_count; i++)
        if (strcmp(o->code[i].name, name) == 0) return true;
    return false;
}

/* The cases of the rows above show that the kernels compile and support the dtypes of the row: on
 * the discrete test device, and on GPUs in ops/test_conformance@cuda. */
static void test_every_row_has_its_kernels(void **state) {
    (void)state;
    assert_ok(mst_code_add(&mst_ops_code));
    for (int32_t i = 0; i < MST_OPERATIONS; i++) {
        const mst_op_row *o = mst_operations[i];
        /* gemm and gemm_batched have the matrix product of the device, axpy the kernel of
         * scale_add, and eye that of fill */
        const bool of_another =
            i == MST_OPERATION_gemm || i == MST_OPERATION_gemm_batched || i == MST_OPERATION_axpy || i == MST_OPERATION_eye;
        assert_true((o->code_count == 0) == of_another);
        for (int32_t k = 0; k < o->code_count; k++)
            if (mst_code_kernel_find(o->code[k].name) < 0) fail_msg("%s: no kernel source defines %s", o->name, o->code[k].name);
    }
}

static void test_every_kernel_has_a_row(void **state) {
    static const char *const of_no_operation[] = {"mst_gather", "mst_indices", "mst_accumulate", "mst_update"};
    (void)state;
    const mst_code_sources *ops = &mst_ops_code;
    int32_t count = 0;
    for (int32_t f = 0; f < ops->family_count; f++)
        for (int32_t k = 0; k < ops->families[f].kernel_count; k++, count++) {
            const char *name = ops->families[f].kernels[k];
            bool known = false;
            for (int32_t i = 0; i < 4; i++) known |= strcmp(name, of_no_operation[i]) == 0;
            for (int32_t i = 0; i < MST_OPERATIONS; i++) known |= has_kernel(mst_operations[i], name);
            if (!known) fail_msg("no row of the registry has the kernel %s", name);
        }
    assert_true(count > MST_OPERATIONS / 2);
}

/* ---- special values ---- */

#define ON_EVERY_DEVICE(body)                                                    \
    static void test_##body(void **state) {                                      \
        (void)state;                                                             \
        if (ops_first_backend() == 0) assert_ok(ops_run_on("host", body, NULL)); \
        assert_ok(ops_run_on("discrete", body, NULL));                           \
    }

static muster_status integers_wrap(muster_worker *w, void *argument) {
    (void)argument;
    if (!mst_device_is_host(w->device)) return MUSTER_OK; /* the loops are the same */
    int32_t a = INT32_MIN, b = -1, y = 5;
    assert_ok(muster_binary_op(w, MUSTER_DIV, muster_i32(&a), muster_i32(&b), muster_i32(&y)));
    assert_int_equal(y, INT32_MIN);
    assert_ok(muster_binary_op(w, MUSTER_FLOOR_DIVIDE, muster_i32(&a), muster_i32(&b), muster_i32(&y)));
    assert_int_equal(y, INT32_MIN);
    assert_ok(muster_binary_op(w, MUSTER_REMAINDER, muster_i32(&a), muster_i32(&b), muster_i32(&y)));
    assert_int_equal(y, 0);
    assert_ok(muster_binary_op(w, MUSTER_FMOD, muster_i32(&a), muster_i32(&b), muster_i32(&y)));
    assert_int_equal(y, 0);
    assert_ok(muster_binary_op(w, MUSTER_ADD, muster_i32(&a), muster_i32(&b), muster_i32(&y)));
    assert_int_equal(y, INT32_MAX);
    assert_ok(muster_unary_op(w, MUSTER_NEG, muster_i32(&a), muster_i32(&y)));
    assert_int_equal(y, INT32_MIN);
    uint8_t p = 1, q = 2, r = 0;
    assert_ok(muster_binary_op(w, MUSTER_SUB, muster_u8(&p), muster_u8(&q), muster_u8(&r)));
    assert_int_equal(r, 255);
    int8_t many[300];
    memset(many, 1, sizeof many);
    int8_t sum;
    assert_ok(muster_sum(w, muster_tensor_make(MUSTER_I8, many, 1, (int64_t[]){300}), muster_tensor_make(MUSTER_I8, &sum, 0, NULL)));
    assert_int_equal(sum, 44);
    return MUSTER_OK;
}

static muster_status reduce_of_nothing(muster_worker *w, void *argument) {
    (void)argument;
    ops_pair x = ops_laid_out(w, MUSTER_F32, 2, 0, 3, 0), y = ops_laid_out(w, MUSTER_F32, 1, 3, 0, 0),
             s = ops_laid_out(w, MUSTER_F32, 0, 0, 0, 0);
    assert_ok(muster_reduce(w, MUSTER_SUM, x.device, 0, y.device));
    assert_ok(muster_reduce(w, MUSTER_PROD, x.device, -1, s.device));
    ops_fetch(w, &y);
    ops_fetch(w, &s);
    assert_true(ops_at(&y, 1, 0) == 0 && ops_at(&s, 0, 0) == 1);
    assert_refused(muster_reduce(w, MUSTER_MAX, x.device, 0, y.device), MUSTER_INVALID_ARGUMENT,
                   "muster_reduce: x: expected at least one element to take the max of, received shape (0, 3)");
    assert_refused(muster_mean(w, x.device, s.device), MUSTER_INVALID_ARGUMENT, "muster_mean: x: expected at least one element");
    static const int32_t no_axes[] = {2, INT32_MAX, -2, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        char expected[128];
        snprintf(expected, sizeof expected, "muster_reduce: axis: expected -1 (all) or an axis of x below 2, received %d", (int)no_axes[i]);
        assert_refused(muster_reduce(w, MUSTER_SUM, x.device, no_axes[i], y.device), MUSTER_OUT_OF_RANGE, expected);
        assert_refused(muster_reduce(w, MUSTER_SUM, x.device, no_axes[i], s.device), MUSTER_OUT_OF_RANGE, expected);
    }
    return MUSTER_OK;
}

/* max and min of an axis, of the other axis and of everything are NaN exactly where a value is, and
 * else the best value, at each place of a row that is longer than the lanes of the loop. */
static muster_status nan_in_max_and_min(muster_worker *w, void *argument) {
    enum { ROWS = 3, COLUMNS = 75 };
    (void)argument;
    for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++)
        for (muster_reduction op = MUSTER_MAX; op <= MUSTER_MIN; op++)
            for (int64_t at = 0; at < COLUMNS; at++) {
                const double best = op == MUSTER_MAX ? 9 : -9, nan = NAN;
                ops_pair x = ops_laid_out(w, dtype, 2, ROWS, COLUMNS, 0), rows = ops_laid_out(w, dtype, 1, ROWS, 0, 0),
                         columns = ops_laid_out(w, dtype, 1, COLUMNS, 0, 0), all = ops_laid_out(w, dtype, 0, 0, 0, 0);
                mst_convert(dtype, ops_place_of(x.host, (const int64_t[]){0, at}), MUSTER_F64, &best, 1);
                mst_convert(dtype, ops_place_of(x.host, (const int64_t[]){1, at}), MUSTER_F64, &nan, 1);
                ops_send(w, &x);
                assert_ok(muster_reduce(w, op, x.device, 1, rows.device));
                assert_ok(muster_reduce(w, op, x.device, 0, columns.device));
                assert_ok(muster_reduce(w, op, x.device, -1, all.device));
                ops_fetch(w, &rows);
                ops_fetch(w, &columns);
                ops_fetch(w, &all);
                assert_true(ops_at(&rows, 0, 0) == best && isnan(ops_at(&rows, 1, 0)) && !isnan(ops_at(&rows, 2, 0)));
                assert_true(isnan(ops_at(&all, 0, 0)));
                for (int64_t j = 0; j < COLUMNS; j++) assert_int_equal(isnan(ops_at(&columns, j, 0)) != 0, j == at);
            }
    return MUSTER_OK;
}

static void fill_alike(muster_worker *w, ops_pair *x, muster_dtype dtype, int64_t rows, int64_t columns, double value) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) mst_convert(dtype, ops_place_of(x->host, (const int64_t[]){i, j}), MUSTER_F64, &value, 1);
    ops_send(w, x);
}

/* Sums, products, averages and running sums in the dtype in which they accumulate; no other one. */
static muster_status results_of_wider_dtypes(muster_worker *w, void *argument) {
    enum { ROWS = 2, COLUMNS = 75 };
    int32_t taken = 0;
    (void)argument;
    for (muster_dtype from = MUSTER_F16; from <= MUSTER_BOOL; from++)
        for (muster_dtype to = MUSTER_F16; to <= MUSTER_BOOL; to++) {
            const bool is_float = mst_dtype_is_float(from), is_unsigned = from == MUSTER_U8 || from == MUSTER_U32 || from == MUSTER_U64;
            const bool wide =
                is_float ? mst_dtype_is_float(to) && mst_dtype_upcasts(from, to) : to == (is_unsigned ? MUSTER_U64 : MUSTER_I64);
            if (from == to) continue;
            ops_pair x = ops_laid_out(w, from, 2, ROWS, COLUMNS, 0), y = ops_laid_out(w, to, 1, ROWS, 0, 0),
                     sums = ops_laid_out(w, to, 2, ROWS, COLUMNS, 0);
            if (!wide) {
                assert_refused(muster_reduce(w, MUSTER_MAX, x.device, 1, y.device), MUSTER_DTYPE_MISMATCH, "muster_reduce: y: expected");
                assert_true(muster_reduce(w, MUSTER_SUM, x.device, 1, y.device) != MUSTER_OK);
                assert_true(muster_cumsum(w, x.device, 1, sums.device) != MUSTER_OK);
                continue;
            }
            const double each = from == MUSTER_BOOL ? 1 : 120;
            fill_alike(w, &x, from, ROWS, COLUMNS, each);
            assert_ok(muster_reduce(w, MUSTER_SUM, x.device, 1, y.device));
            ops_fetch(w, &y);
            assert_true(ops_at(&y, 0, 0) == COLUMNS * each && ops_at(&y, 1, 0) == COLUMNS * each);
            assert_ok(muster_cumsum(w, x.device, 1, sums.device));
            ops_fetch(w, &sums);
            for (int64_t j = 0; j < COLUMNS; j++) assert_true(ops_at(&sums, 1, j) == (double)(j + 1) * each);
            if (is_float) assert_ok(muster_reduce(w, MUSTER_AVG, x.device, 1, y.device));
            ops_fetch(w, &y);
            if (is_float) assert_true(ops_at(&y, 1, 0) == each);
            fill_alike(w, &x, from, ROWS, 15, 2);
            const double one = 1;
            for (int64_t i = 0; i < ROWS; i++)
                for (int64_t j = 15; j < COLUMNS; j++)
                    mst_convert(from, ops_place_of(x.host, (const int64_t[]){i, j}), MUSTER_F64, &one, 1);
            ops_send(w, &x);
            assert_ok(muster_reduce_axes(w, MUSTER_PROD, x.device, 2, y.device));
            ops_fetch(w, &y);
            assert_true(ops_at(&y, 1, 0) == (from == MUSTER_BOOL ? 1 : 32768));
            taken++;
        }
    /* f16 and bf16 in f32 and f64, f32 in f64; i8, i16, i32, bool, u8, u32 */
    assert_int_equal(taken, 5 + 6);
    return MUSTER_OK;
}

static muster_status combine(muster_worker *w, void *argument) {
    (void)argument;
    for (int dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (int op = MUSTER_SUM; op <= MUSTER_AVG; op++) {
            ops_pair v = ops_laid_out(w, dtype, 1, 9, 0, 0), a = ops_laid_out(w, mst_dtype_compute(dtype), 1, 9, 0, 0);
            if (ops_refused(op, dtype)) {
                assert_refused(mst_reduction_check(op, dtype, "f"), MUSTER_UNSUPPORTED, "f: ");
                continue;
            }
            assert_ok(mst_worker_accumulate(w, op, dtype, a.device.data, v.device.data, 9, 0.5, true));
            assert_ok(mst_worker_accumulate(w, op, dtype, a.device.data, v.device.data, 9, 0.5, false));
            ops_fetch(w, &a);
            for (int64_t i = 0; i < 9; i++) {
                double value = ops_at(&v, i, 0), expected = op == MUSTER_SUM ? 2 * value : op == MUSTER_PROD ? value * value : value;
                assert_true(ops_at(&a, i, 0) == expected);
            }
            double identity[1];
            mst_reduction_identity(op, a.host.dtype, identity, 1);
            muster_tensor one = muster_tensor_make(a.host.dtype, identity, 0, NULL);
            mst_reduction_accumulate(op, dtype, identity, v.host.data, 1, 1, false);
            assert_true(ops_element(one, 0, NULL) == ops_at(&v, 0, 0));
        }
    return MUSTER_OK;
}

/* Rows whose logits are so large or so small that exp of them overflows or is 0. The expected
 * values follow from the largest logits alone: all others are at least 1000 below. */
static void softmax_of_far_logits(muster_worker *w, muster_dtype dtype, int64_t k) {
    enum { ROWS = 4 };
    ops_pair z = ops_laid_out(w, dtype, 2, ROWS, k, 0), g = ops_laid_out(w, dtype, 2, ROWS, k, 0),
             labels = ops_laid_out(w, MUSTER_I64, 1, ROWS, 0, 0), loss = ops_laid_out(w, dtype, 0, 0, 0, 0);
    const double largest[ROWS] = {1000, 1000, -1000, 0}, others[ROWS] = {-1000, 0, -1000, -1000};
    const int64_t label[ROWS] = {k - 1, 0, 1, k - 1};
    const double losses[ROWS] = {2000, 0, log((double)k), 1000};
    for (int64_t i = 0; i < ROWS; i++) {
        *(int64_t *)ops_place_of(labels.host, &i) = label[i];
        for (int64_t j = 0; j < k; j++)
            mst_convert(dtype, ops_place_of(z.host, (const int64_t[]){i, j}), MUSTER_F64, j == 0 ? &largest[i] : &others[i], 1);
    }
    ops_send(w, &z);
    ops_send(w, &labels);
    assert_ok(muster_softmax_cross_entropy(w, z.device, labels.device, 2, loss.device, g.device, muster_tensor_none()));
    ops_fetch(w, &loss);
    ops_fetch(w, &g);
    ops_assert_near(ops_at(&loss, 0, 0), losses[0] + losses[1] + losses[2] + losses[3], ops_tightest(dtype));
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < k; j++) {
            const double probability = largest[i] == others[i] ? 1 / (double)k : j == 0;
            ops_assert_near(ops_at(&g, i, j), 2 * (probability - (j == label[i])), ops_tightest(dtype));
        }
}

static muster_status far_logits(muster_worker *w, void *argument) {
    (void)argument;
    for (muster_dtype dtype = MUSTER_F32; dtype <= MUSTER_F64; dtype++) {
        softmax_of_far_logits(w, dtype, 5);   /* on devices one thread per row */
        softmax_of_far_logits(w, dtype, 100); /* and one block */
    }
    return MUSTER_OK;
}

/* A label just outside of [0, k) on either side, in the first row or in the last. */
static muster_status labels_at_the_bounds(muster_worker *w, void *argument) {
    static const muster_dtype dtypes[] = {MUSTER_U8, MUSTER_I32, MUSTER_I64};
    const int64_t sizes[] = {4, 100}, lowest[] = {0, INT32_MIN, INT64_MIN}, highest[] = {UINT8_MAX, INT32_MAX, INT64_MAX};
    int *refused = argument;
    for (int d = 0; d < 3; d++)
        for (int s = 0; s < 2; s++) {
            const int64_t k = sizes[s], values[] = {0, k - 1, k, highest[d], -1, lowest[d]};
            for (int v = 0; v < (d == 0 ? 4 : 6); v++)
                for (int64_t row = 0; row < 3; row += 2) {
                    ops_pair z = ops_laid_out(w, MUSTER_F32, 2, 3, k, 0), labels = ops_laid_out(w, dtypes[d], 1, 3, 0, 0),
                             loss = ops_laid_out(w, MUSTER_F32, 0, 0, 0, 0);
                    memset(labels.host_storage.data, 0, (size_t)mst_tensor_bytes(labels.host_storage));
                    mst_convert(dtypes[d], ops_place_of(labels.host, &row), MUSTER_I64, &values[v], 1);
                    ops_send(w, &labels);
                    muster_status status = muster_softmax_cross_entropy(w, z.device, labels.device, 1, loss.device, muster_tensor_none(),
                                                                        muster_tensor_none());
                    if (values[v] >= 0 && values[v] < k) {
                        assert_ok(status);
                        continue;
                    }
                    char expected[160];
                    snprintf(expected, sizeof expected, "labels: expected labels in [0, %lld), received %lld in row %lld", (long long)k,
                             (long long)values[v], (long long)row);
                    assert_refused(status, MUSTER_OUT_OF_RANGE, expected);
                    ++*refused;
                }
        }
    return MUSTER_OK;
}

static void test_labels_at_the_bounds(void **state) {
    (void)state;
    static const char *const backends[] = {"host", "discrete"};
    for (int b = 0; b < 2; b++) {
        int refused = 0;
        assert_ok(ops_run_on(backends[b], labels_at_the_bounds, &refused));
        assert_int_equal(refused, (2 + 4 + 4) * 2 * 2);
    }
}

static muster_status bad_label(muster_worker *w, void *argument) {
    (void)argument;
    ops_pair z = ops_laid_out(w, MUSTER_F32, 2, 3, 4, 0), labels = ops_laid_out(w, MUSTER_U8, 1, 3, 0, 0),
             loss = ops_laid_out(w, MUSTER_F32, 0, 0, 0, 0);
    assert_ok(muster_fill(w, 4, labels.device));
    return muster_softmax_cross_entropy(w, z.device, labels.device, 1, loss.device, muster_tensor_none(), muster_tensor_none());
}

static void test_a_label_out_of_range_ends_the_call(void **state) {
    (void)state;
    assert_refused(ops_run_on("host", bad_label, NULL), MUSTER_OUT_OF_RANGE, "labels: expected labels in [0, 4), received 4 in row 0");
    assert_refused(ops_run_on("discrete", bad_label, NULL), MUSTER_OUT_OF_RANGE, "labels: expected labels in [0, 4), received 4 in row 0");
}

/* ---- random numbers ---- */
static void test_philox_published_vectors(void **state) {
    (void)state;
    static const uint32_t rows[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        muster_philox4x32(rows[i], rows[i] + 4, out);
        assert_memory_equal(out, rows[i] + 6, sizeof out);
    }
}

/* ---- refusals ---- */
static muster_status refusals(muster_worker *w, void *argument) {
    (void)argument;
    ops_pair a = ops_laid_out(w, MUSTER_F32, 2, 3, 4, 0), x = ops_laid_out(w, MUSTER_F32, 1, 4, 0, 0),
             y = ops_laid_out(w, MUSTER_F32, 1, 3, 0, 0), d = ops_laid_out(w, MUSTER_F64, 1, 3, 0, 0);
    ops_pair half = ops_laid_out(w, MUSTER_F16, 2, 3, 4, 0);
    assert_refused(muster_gemv(NULL, 1, a.device, x.device, 0, y.device), MUSTER_INVALID_ARGUMENT,
                   "muster_gemv: worker: expected the worker of the running function, received NULL");
    assert_refused(muster_gemv(w, 1, a.device, muster_tensor_none(), 0, y.device), MUSTER_INVALID_ARGUMENT,
                   "muster_gemv: x: expected a tensor, received none");
    assert_refused(muster_gemv(w, 1, a.device, x.device, 0, x.device), MUSTER_SHAPE_MISMATCH,
                   "muster_gemv: y: expected shape (3,), received (4,)");
    assert_refused(muster_gemv(w, 1, a.device, x.device, 0, d.device), MUSTER_DTYPE_MISMATCH,
                   "muster_gemv: y: expected the dtype of a, f32, received f64");
    assert_refused(muster_gemv(w, 1, half.device, x.device, 0, y.device), MUSTER_UNSUPPORTED,
                   "muster_gemv: a: expected f32 or f64, received f16");
    assert_refused(muster_gemv(w, 1, x.device, x.device, 0, y.device), MUSTER_SHAPE_MISMATCH, "muster_gemv: a: expected 2 dimensions");
    assert_refused(muster_axpy(w, 1, x.device, y.device), MUSTER_SHAPE_MISMATCH, "muster_axpy: x: expected the shape of y");
    assert_refused(muster_copy(w, y.device, x.device), MUSTER_SHAPE_MISMATCH,
                   "muster_copy: x: expected a shape that broadcasts to that of y");
    const int32_t no_ops[] = {0, -1, INT32_MIN, INT32_MAX};
    for (int i = 0; i < 4; i++) {
        assert_refused(muster_unary_op(w, no_ops[i], x.device, x.device), MUSTER_INVALID_ARGUMENT, "muster_unary_op: op:");
        assert_refused(muster_binary_op(w, no_ops[i], x.device, x.device, x.device), MUSTER_INVALID_ARGUMENT, "muster_binary_op: op:");
        assert_refused(muster_reduce(w, no_ops[i], x.device, -1, y.device), MUSTER_INVALID_ARGUMENT, "muster_reduce: op:");
    }
    assert_refused(muster_unary_op(w, MUSTER_GELU_DERIVATIVE + 1, x.device, x.device), MUSTER_INVALID_ARGUMENT, "muster_unary_op: op:");
    assert_refused(muster_binary_op(w, MUSTER_RIGHT_SHIFT + 1, x.device, x.device, x.device), MUSTER_INVALID_ARGUMENT,
                   "muster_binary_op: op:");
    assert_refused(muster_reduce(w, MUSTER_AVG + 1, x.device, -1, y.device), MUSTER_INVALID_ARGUMENT, "muster_reduce: op:");
    assert_refused(muster_random_normal(w, 1, 0, 0, -0x1p-1074, x.device), MUSTER_INVALID_ARGUMENT, "muster_random_normal: deviation:");
    assert_refused(muster_random_normal(w, 1, 0, 0, INFINITY, x.device), MUSTER_INVALID_ARGUMENT, "muster_random_normal: deviation:");
    assert_refused(muster_random_normal(w, 1, 0, 0, NAN, x.device), MUSTER_INVALID_ARGUMENT, "muster_random_normal: deviation:");
    assert_refused(muster_random_normal(w, 1, 0, -INFINITY, 1, x.device), MUSTER_INVALID_ARGUMENT, "muster_random_normal: deviation:");
    assert_refused(mst_reduction_check(MUSTER_AVG, MUSTER_I32, "muster_function_output"), MUSTER_UNSUPPORTED,
                   "muster_function_output: op: avg of i32 is refused: expected a float dtype, received i32: an integer average is not "
                   "exact; use sum and divide");
    if (!mst_device_is_host(w->device)) assert_refused(muster_fill(w, 0, x.host), MUSTER_INVALID_ARGUMENT, "received host memory");
    if (!mst_blas_get()->sgemm)
        assert_refused(muster_gemm(w, 1, a.device, a.device, 0, a.device), MUSTER_SHAPE_MISMATCH,
                       "muster_gemm: b: expected shape (4, 4), received (3, 4)");
    muster_tensor none;
    const muster_status failed = muster_worker_scratch(w, MUSTER_F32, 1, (int64_t[]){-1}, &none);
    assert_int_equal(failed, MUSTER_INVALID_ARGUMENT);
    assert_int_equal(muster_fill(w, 0, none), failed);
    return MUSTER_OK;
}

static muster_status no_blas(muster_worker *w, void *argument) {
    (void)argument;
    ops_pair a = ops_laid_out(w, MUSTER_F32, 2, 3, 3, 0), c = ops_laid_out(w, MUSTER_F32, 2, 3, 3, 0);
    if (mst_blas_get()->sgemm || !mst_device_is_host(w->device)) return MUSTER_OK; /* device code has a product of its own */
    assert_refused(muster_gemm(w, 1, a.device, a.device, 0, c.device), MUSTER_UNAVAILABLE, "libopenblas0-pthread");
    return MUSTER_OK;
}

ON_EVERY_DEVICE(integers_wrap)
ON_EVERY_DEVICE(reduce_of_nothing)
ON_EVERY_DEVICE(nan_in_max_and_min)
ON_EVERY_DEVICE(results_of_wider_dtypes)
ON_EVERY_DEVICE(combine)
ON_EVERY_DEVICE(far_logits)
ON_EVERY_DEVICE(refusals)
ON_EVERY_DEVICE(no_blas)

int main(void) {
    if (mst_discrete_register() != MUSTER_OK) return 1;
    const struct CMUnitTest others[] = {
        cmocka_unit_test(test_no_blas),
        cmocka_unit_test(test_every_row_has_its_kernels),
        cmocka_unit_test(test_every_kernel_has_a_row),
        cmocka_unit_test(test_integers_wrap),
        cmocka_unit_test(test_reduce_of_nothing),
        cmocka_unit_test(test_nan_in_max_and_min),
        cmocka_unit_test(test_results_of_wider_dtypes),
        cmocka_unit_test(test_combine),
        cmocka_unit_test(test_far_logits),
        cmocka_unit_test(test_labels_at_the_bounds),
        cmocka_unit_test(test_a_label_out_of_range_ends_the_call),
        cmocka_unit_test(test_philox_published_vectors),
        cmocka_unit_test(test_refusals),
    };
    enum { OTHERS = sizeof others / sizeof *others };
    struct CMUnitTest tests[OTHERS + MST_OPERATIONS];
    memcpy(tests, others, sizeof others);
    for (int32_t i = 0; i < MST_OPERATIONS; i++)
        tests[OTHERS + i] = (struct CMUnitTest){
            .name = mst_operations[i]->name, .test_func = test_row, .initial_state = (void *)(uintptr_t)mst_operations[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
