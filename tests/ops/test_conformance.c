/* Every operation on every device against plain loops, over dtypes and strided views, and what it
 * refuses. */
#include "base_check.h"
#include "device_discrete.h"
#include "op_impl.h"
#include "ops_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYOUTS = 3 };

/* Small whole numbers, of which even halves hold the results; f64 at its own precision. */
static double tightest(muster_dtype dtype) { return dtype == MUSTER_F64 ? 1e-12 : 1e-6; }

static double get(muster_tensor t, int64_t i, int64_t j) {
    double value = 0;
    int64_t at = (t.ndim > 0 ? i * t.strides[0] : 0) + (t.ndim > 1 ? j * t.strides[1] : 0);
    mst_convert(MUSTER_F64, &value, t.dtype, (char *)muster_tensor_address(t) + at * muster_dtype_size(t.dtype), 1);
    return value;
}

/* layout 0: rows; 1: transposed; 2: backwards, every second element. */
static ops_pair make(muster_worker *w, muster_dtype dtype, int32_t ndim, int64_t rows, int64_t columns, int layout) {
    int64_t shape[2] = {rows, columns}, storage = 1;
    for (int32_t d = 0; d < ndim; d++) storage *= 2 * shape[d] + 1;
    ops_pair p = ops_make(w, dtype, storage);
    p.host = muster_tensor_make(dtype, p.host_storage.data, ndim, shape);
    if (layout == 1 && ndim == 2) p.host.strides[0] = 1, p.host.strides[1] = rows;
    if (layout == 2)
        for (int32_t d = 0; d < ndim; d++) {
            p.host.byte_offset += 2 * p.host.strides[d] * (shape[d] > 0 ? shape[d] - 1 : 0) * muster_dtype_size(dtype);
            p.host.strides[d] *= -2;
        }
    if (layout == 2 && ndim == 2) { /* rows farther apart than twice their length */
        p.host.strides[0] = -(2 * columns + 1);
        p.host.byte_offset =
            ((rows > 0 ? rows - 1 : 0) * (2 * columns + 1) + (columns > 0 ? 2 * (columns - 1) : 0)) * muster_dtype_size(dtype);
    }
    ops_place(&p);
    return p;
}

#define ON_EVERY_DEVICE(body)                          \
    static void test_##body(void **state) {            \
        (void)state;                                   \
        assert_ok(ops_run_on("host", body, NULL));     \
        assert_ok(ops_run_on("discrete", body, NULL)); \
    }

/* ---- BLAS ---- */
static void one_product(muster_worker *w, muster_dtype dtype, int64_t m, int64_t n, int64_t k, int layouts, double beta) {
    ops_pair a = make(w, dtype, 2, m, k, layouts % 3), b = make(w, dtype, 2, k, n, layouts / 3 % 3),
             c = make(w, dtype, 2, m, n, layouts / 9);
    double expected[64];
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++) sum += get(a.host, i, l) * get(b.host, l, j);
            expected[i * n + j] = 2 * sum + beta * get(c.host, i, j);
        }
    assert_ok(muster_gemm(w, 2, a.device, b.device, beta, c.device));
    ops_fetch(w, &c);
    const double tolerance = dtype == MUSTER_F32 || dtype == MUSTER_F64 ? tightest(dtype) : ops_precision(dtype);
    for (int64_t i = 0; i < m * n; i++) ops_assert_near(get(c.host, i / n, i % n), expected[i], tolerance);
}

/* The halves are for GPUs, which sum them in f32. */
static muster_status gemm_of_halves(muster_worker *w, void *argument) {
    (void)argument;
    const bool gpu = strcmp(w->device->table->backend, "cuda") == 0;
    for (int layouts = 0; layouts < 27 && gpu; layouts++) {
        one_product(w, MUSTER_F16, 5, 3, 4, layouts, 0);
        one_product(w, MUSTER_BF16, 3, 2, 7, layouts, -1);
    }
    ops_pair a = make(w, MUSTER_BF16, 2, 3, 3, 0), c = make(w, MUSTER_BF16, 2, 3, 3, 0);
    if (mst_device_is_host(w->device))
        assert_refused(muster_gemm(w, 1, a.device, a.device, 0, c.device), MUSTER_UNSUPPORTED,
                       "muster_gemm: a: expected f32 or f64, received bf16");
    return MUSTER_OK;
}

static muster_status gemm(muster_worker *w, void *argument) {
    (void)argument;
    assert_ok(mst_blas_open(false));
    for (int limit = 0; limit < 2; limit++) {
        mst_gemm_limit = limit ? 2 : INT32_MAX;
        for (int layouts = 0; layouts < 27; layouts++) {
            one_product(w, MUSTER_F32, 5, 3, 4, layouts, 0);
            one_product(w, MUSTER_F64, 3, 1, 7, layouts, -1);
            one_product(w, MUSTER_F64, 1, 4, 0, layouts, 3);
            one_product(w, MUSTER_F32, 0, 4, 2, layouts, 3);
        }
    }
    mst_gemm_limit = INT32_MAX;
    mst_blas_close();
    return MUSTER_OK;
}

static muster_status gemv(muster_worker *w, void *argument) {
    (void)argument;
    static const int64_t sizes[][2] = {{0, 3}, {1, 1}, {3, 0}, {9, 10}, {5, 3}, {4, 8}, {13, 17}};
    for (int dtype = MUSTER_F32; dtype <= MUSTER_F64; dtype++)
        for (int s = 0; s < 7; s++)
            for (int layouts = 0; layouts < 27; layouts++) {
                int64_t n = sizes[s][0], k = sizes[s][1];
                double beta = layouts % 2;
                ops_pair a = make(w, dtype, 2, n, k, layouts % 3), x = make(w, dtype, 1, k, 0, layouts / 3 % 3),
                         y = make(w, dtype, 1, n, 0, layouts / 9);
                double expected[16];
                for (int64_t i = 0; i < n; i++) {
                    expected[i] = beta * get(y.host, i, 0);
                    for (int64_t j = 0; j < k; j++) expected[i] += 3 * get(a.host, i, j) * get(x.host, j, 0);
                }
                assert_ok(muster_gemv(w, 3, a.device, x.device, beta, y.device));
                ops_fetch(w, &y);
                for (int64_t i = 0; i < n; i++) ops_assert_near(get(y.host, i, 0), expected[i], tightest(dtype));
            }
    return MUSTER_OK;
}

static muster_status axpy_dot_scale_add(muster_worker *w, void *argument) {
    (void)argument;
    for (int dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++)
        for (int layouts = 0; layouts < 9; layouts++)
            for (int64_t n = 0; n < 40; n += 13) {
                ops_pair x = make(w, dtype, 1, n, 0, layouts % 3), y = make(w, dtype, 1, n, 0, layouts / 3), r = make(w, dtype, 0, 0, 0, 0);
                double dot = 0, expected[40];
                for (int64_t i = 0; i < n; i++) {
                    dot += get(x.host, i, 0) * get(y.host, i, 0);
                    expected[i] = 2 * (get(y.host, i, 0) + 3 * get(x.host, i, 0)) + get(x.host, i, 0);
                }
                bool blas = dtype == MUSTER_F32 || dtype == MUSTER_F64;
                if (blas) {
                    assert_ok(muster_dot(w, x.device, y.device, r.device));
                    assert_ok(muster_axpy(w, 3, x.device, y.device));
                    ops_fetch(w, &r);
                    ops_assert_near(get(r.host, 0, 0), dot, tightest(dtype));
                } else {
                    assert_refused(muster_axpy(w, 3, x.device, y.device), MUSTER_UNSUPPORTED, "muster_axpy: x: expected f32 or f64");
                    assert_ok(muster_scale_add(w, 3, x.device, 1, y.device));
                }
                assert_ok(muster_scale_add(w, 1, x.device, 2, y.device));
                ops_fetch(w, &y);
                for (int64_t i = 0; i < n; i++) ops_assert_near(get(y.host, i, 0), expected[i], tightest(dtype));
            }
    return MUSTER_OK;
}

/* ---- elementwise ---- */
static double plain_unary(muster_unary op, double v) {
    switch (op) {
    case MUSTER_NEG:
        return -v;
    case MUSTER_ABS:
        return fabs(v);
    case MUSTER_SQUARE:
        return v * v;
    case MUSTER_SQRT:
        return sqrt(v);
    case MUSTER_EXP:
        return exp(v);
    case MUSTER_LOG:
        return log(v);
    case MUSTER_TANH:
        return tanh(v);
    case MUSTER_SIGMOID:
        return 1 / (1 + exp(-v));
    case MUSTER_RELU:
        return v > 0 ? v : 0;
    default:
        return 1 / v;
    }
}

static muster_status unary(muster_worker *w, void *argument) {
    (void)argument;
    for (int dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (int op = MUSTER_NEG; op <= MUSTER_RECIPROCAL; op++)
            for (int layouts = 0; layouts < 9; layouts++) {
                ops_pair x = make(w, dtype, 2, 4, 5, layouts % 3), y = make(w, dtype, 2, 4, 5, layouts / 3);
                bool is_unsigned = ops_is_unsigned(dtype);
                bool any = op == MUSTER_ABS || op == MUSTER_SQUARE || op == MUSTER_RELU || (op == MUSTER_NEG && !is_unsigned);
                if (dtype == MUSTER_BOOL || !(any || mst_dtype_is_float(dtype))) {
                    assert_refused(muster_unary_op(w, op, x.device, y.device), MUSTER_UNSUPPORTED, "muster_unary_op: x: expected");
                    continue;
                }
                assert_ok(muster_unary_op(w, op, x.device, y.device));
                ops_fetch(w, &y);
                for (int64_t i = 0; i < 20; i++) {
                    double value = get(y.host, i / 5, i % 5), expected = plain_unary(op, get(x.host, i / 5, i % 5));
                    ops_assert_near(value, expected, ops_precision(dtype));
                }
            }
    return MUSTER_OK;
}

static double plain_binary(muster_binary op, double a, double b) {
    switch (op) {
    case MUSTER_ADD:
        return a + b;
    case MUSTER_SUB:
        return a - b;
    case MUSTER_MUL:
        return a * b;
    case MUSTER_DIV:
        return a / b;
    case MUSTER_MAXIMUM:
        return a > b ? a : b;
    default:
        return a < b ? a : b;
    }
}

static muster_status binary(muster_worker *w, void *argument) {
    (void)argument;
    for (int dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (int op = MUSTER_ADD; op <= MUSTER_MINIMUM; op++)
            for (int layouts = 0; layouts < 27; layouts++) {
                ops_pair a = make(w, dtype, 2, 4, 5, layouts % 3), b = make(w, dtype, 1, layouts % 2 ? 5 : 1, 0, layouts / 3 % 3),
                         y = make(w, dtype, 2, 4, 5, layouts / 9);
                if (dtype == MUSTER_BOOL) {
                    assert_refused(muster_binary_op(w, op, a.device, b.device, y.device), MUSTER_UNSUPPORTED,
                                   "a: expected a number dtype, received bool");
                    continue;
                }
                assert_ok(muster_binary_op(w, op, a.device, b.device, y.device));
                ops_fetch(w, &y);
                for (int64_t i = 0; i < 20; i++) {
                    double p = get(a.host, i / 5, i % 5), q = get(b.host, layouts % 2 ? i % 5 : 0, 0), value = get(y.host, i / 5, i % 5);
                    double expected = plain_binary(op, p, q);
                    bool integer = !mst_dtype_is_float(dtype), is_unsigned = ops_is_unsigned(dtype);
                    if (integer && op == MUSTER_DIV) expected = q == 0 ? 0 : trunc(p / q);
                    if (is_unsigned && op == MUSTER_SUB && expected < 0) continue; /* wrapping has its own test */
                    ops_assert_near(value, expected, ops_precision(dtype));
                }
            }
    return MUSTER_OK;
}

static muster_status integers_wrap(muster_worker *w, void *argument) {
    (void)argument;
    if (!mst_device_is_host(w->device)) return MUSTER_OK; /* the loops are the same */
    int32_t a = INT32_MIN, b = -1, y = 5;
    assert_ok(muster_binary_op(w, MUSTER_DIV, muster_i32(&a), muster_i32(&b), muster_i32(&y)));
    assert_int_equal(y, INT32_MIN);
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

static muster_status fill_and_copy(muster_worker *w, void *argument) {
    (void)argument;
    for (int from = 1; from < MST_DTYPE_COUNT; from++)
        for (int to = 1; to < MST_DTYPE_COUNT; to++)
            for (int layouts = 0; layouts < 9; layouts++) {
                ops_pair x = make(w, from, layouts % 2 + 1, layouts % 2 ? 3 : 5, 5, layouts % 3), y = make(w, to, 2, 3, 5, layouts / 3);
                assert_ok(muster_fill(w, 1, y.device));
                ops_fetch(w, &y);
                for (int64_t i = 0; i < 15; i++) assert_true(get(y.host, i / 5, i % 5) == 1);
                assert_ok(muster_copy(w, x.device, y.device));
                ops_fetch(w, &y);
                for (int64_t i = 0; i < 15; i++) {
                    double expected = layouts % 2 ? get(x.host, i / 5, i % 5) : get(x.host, i % 5, 0);
                    if (to == MUSTER_BOOL) expected = expected != 0;
                    if ((to == MUSTER_U8 || to == MUSTER_U32 || to == MUSTER_U64) && expected < 0) expected = 0;
                    ops_assert_near(get(y.host, i / 5, i % 5), expected, 0);
                }
            }
    return MUSTER_OK;
}

static muster_status bias_relu(muster_worker *w, void *argument) {
    (void)argument;
    for (int dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++)
        for (int layouts = 0; layouts < 27; layouts++) {
            ops_pair x = make(w, dtype, 2, 4, 6, layouts % 3), bias = make(w, dtype, 1, 6, 0, layouts / 3 % 3),
                     y = make(w, dtype, 2, 4, 6, layouts / 9);
            assert_ok(muster_bias_relu(w, x.device, bias.device, y.device));
            assert_ok(muster_relu_gradient(w, y.device, x.device, x.device));
            ops_fetch(w, &y);
            ops_pair before = x;
            char copy[4096];
            memcpy(copy, x.host_storage.data, (size_t)mst_tensor_bytes(x.host_storage));
            before.host.data = copy;
            ops_fetch(w, &x);
            for (int64_t i = 0; i < 24; i++) {
                double sum = get(before.host, i / 6, i % 6) + get(bias.host, i % 6, 0);
                assert_true(get(y.host, i / 6, i % 6) == (sum > 0 ? sum : 0));
                assert_true(get(x.host, i / 6, i % 6) == (sum > 0 ? get(before.host, i / 6, i % 6) : 0));
            }
        }
    return MUSTER_OK;
}

/* ---- reductions ---- */
static double plain_reduce(muster_reduction op, double a, double v) {
    return op == MUSTER_PROD ? a * v : op == MUSTER_MAX ? fmax(a, v) : op == MUSTER_MIN ? fmin(a, v) : a + v;
}

static muster_status reduce(muster_worker *w, void *argument) {
    (void)argument;
    for (int dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (int op = MUSTER_SUM; op <= MUSTER_AVG; op++)
            for (int layout = 0; layout < LAYOUTS; layout++)
                for (int axis = -1; axis < 2; axis++) {
                    ops_pair x = make(w, dtype, 2, 2, 3, layout), y = make(w, dtype, axis < 0 ? 0 : 1, axis == 0 ? 3 : 2, 0, layout);
                    if (ops_refused(op, dtype)) {
                        assert_refused(muster_reduce(w, op, x.device, axis, y.device), MUSTER_UNSUPPORTED, "is refused");
                        continue;
                    }
                    assert_ok(muster_reduce(w, op, x.device, axis, y.device));
                    ops_fetch(w, &y);
                    for (int64_t r = 0; r < (axis < 0 ? 1 : axis == 0 ? 3 : 2); r++) {
                        double expected = op == MUSTER_PROD ? 1 : op == MUSTER_MAX ? -INFINITY : op == MUSTER_MIN ? INFINITY : 0;
                        for (int64_t i = 0; i < 6; i++)
                            if (axis < 0 || (axis == 0 ? i % 3 : i / 3) == r)
                                expected = plain_reduce(op, expected, get(x.host, i / 3, i % 3));
                        if (op == MUSTER_AVG) expected /= axis < 0 ? 6 : axis == 0 ? 2 : 3;
                        if (dtype == MUSTER_I8 || dtype == MUSTER_U8) { /* products wrap */
                            int64_t whole = (int64_t)expected & 255;
                            expected = (double)(dtype == MUSTER_I8 && whole > 127 ? whole - 256 : whole);
                        }
                        ops_assert_near(get(y.host, r, 0), expected, ops_precision(dtype));
                    }
                }
    return MUSTER_OK;
}

static muster_status reduce_of_nothing(muster_worker *w, void *argument) {
    (void)argument;
    ops_pair x = make(w, MUSTER_F32, 2, 0, 3, 0), y = make(w, MUSTER_F32, 1, 3, 0, 0), s = make(w, MUSTER_F32, 0, 0, 0, 0);
    assert_ok(muster_reduce(w, MUSTER_SUM, x.device, 0, y.device));
    assert_ok(muster_reduce(w, MUSTER_PROD, x.device, -1, s.device));
    ops_fetch(w, &y);
    ops_fetch(w, &s);
    assert_true(get(y.host, 1, 0) == 0 && get(s.host, 0, 0) == 1);
    assert_refused(muster_reduce(w, MUSTER_MAX, x.device, 0, y.device), MUSTER_INVALID_ARGUMENT,
                   "muster_reduce: x: expected at least one element to take the max of, received shape (0, 3)");
    assert_refused(muster_mean(w, x.device, s.device), MUSTER_INVALID_ARGUMENT, "muster_mean: x: expected at least one element");
    assert_refused(muster_reduce(w, MUSTER_SUM, x.device, 2, y.device), MUSTER_OUT_OF_RANGE, "muster_reduce: axis:");
    return MUSTER_OK;
}

static muster_status combine(muster_worker *w, void *argument) {
    (void)argument;
    for (int dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (int op = MUSTER_SUM; op <= MUSTER_AVG; op++) {
            ops_pair v = make(w, dtype, 1, 9, 0, 0), a = make(w, mst_dtype_compute(dtype), 1, 9, 0, 0);
            if (ops_refused(op, dtype)) {
                assert_refused(mst_reduction_check(op, dtype, "f"), MUSTER_UNSUPPORTED, "f: ");
                continue;
            }
            assert_ok(mst_worker_accumulate(w, op, dtype, a.device.data, v.device.data, 9, 0.5, true));
            assert_ok(mst_worker_accumulate(w, op, dtype, a.device.data, v.device.data, 9, 0.5, false));
            ops_fetch(w, &a);
            for (int64_t i = 0; i < 9; i++) {
                double value = get(v.host, i, 0), expected = op == MUSTER_SUM ? 2 * value : op == MUSTER_PROD ? value * value : value;
                assert_true(get(a.host, i, 0) == expected);
            }
            double identity[1];
            mst_reduction_identity(op, a.host.dtype, identity, 1);
            muster_tensor one = muster_tensor_make(a.host.dtype, identity, 0, NULL);
            mst_reduction_accumulate(op, dtype, identity, v.host.data, 1, 1, false);
            assert_true(get(one, 0, 0) == get(v.host, 0, 0));
        }
    return MUSTER_OK;
}

static muster_status argmax(muster_worker *w, void *argument) {
    (void)argument;
    for (int dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (int layout = 0; layout < LAYOUTS; layout++) {
            ops_pair x = make(w, dtype, 2, 4, 5, layout), index = make(w, MUSTER_I64, 1, 4, 0, layout);
            assert_ok(muster_argmax(w, x.device, index.device));
            ops_fetch(w, &index);
            for (int64_t i = 0; i < 4; i++) {
                int64_t best = 0;
                for (int64_t j = 1; j < 5; j++)
                    if (get(x.host, i, j) > get(x.host, i, best)) best = j;
                assert_int_equal(get(index.host, i, 0), best);
            }
        }
    ops_pair x = make(w, MUSTER_F32, 2, 4, 0, 0), index = make(w, MUSTER_I64, 1, 4, 0, 0);
    assert_refused(muster_argmax(w, x.device, index.device), MUSTER_INVALID_ARGUMENT,
                   "expected at least one column, received shape (4, 0)");
    return MUSTER_OK;
}

/* ---- softmax cross-entropy ---- */
static muster_status softmax(muster_worker *w, void *argument) {
    (void)argument;
    static const muster_dtype label_dtypes[] = {MUSTER_U8, MUSTER_I32, MUSTER_I64};
    for (int dtype = MUSTER_F32; dtype <= MUSTER_F64; dtype++)
        for (int layout = 0; layout < LAYOUTS; layout++) {
            ops_pair z = make(w, dtype, 2, 6, 7, layout), g = make(w, dtype, 2, 6, 7, (layout + 1) % 3),
                     labels = make(w, label_dtypes[layout], 1, 6, 0, layout);
            ops_pair loss = make(w, dtype, 0, 0, 0, 0), correct = make(w, MUSTER_I64, 0, 0, 0, 0);
            assert_ok(muster_unary_op(w, MUSTER_ABS, labels.device, labels.device));
            ops_fetch(w, &labels);
            double expected = 0, hits = 0;
            assert_ok(muster_softmax_cross_entropy(w, z.device, labels.device, 0.25, loss.device, g.device, correct.device));
            ops_fetch(w, &g);
            for (int64_t i = 0; i < 6; i++) {
                double sum = 0;
                int64_t label = (int64_t)get(labels.host, i, 0), best = 0;
                for (int64_t j = 0; j < 7; j++) sum += exp(get(z.host, i, j));
                for (int64_t j = 1; j < 7; j++)
                    if (get(z.host, i, j) > get(z.host, i, best)) best = j;
                for (int64_t j = 0; j < 7; j++)
                    ops_assert_near(get(g.host, i, j), 0.25 * (exp(get(z.host, i, j)) / sum - (j == label)), tightest(dtype));
                expected += log(sum) - get(z.host, i, label);
                hits += best == label;
            }
            ops_fetch(w, &loss);
            ops_fetch(w, &correct);
            ops_assert_near(get(loss.host, 0, 0), expected, tightest(dtype));
            assert_true(get(correct.host, 0, 0) == hits);
            assert_ok(muster_softmax_cross_entropy(w, z.device, labels.device, 0.25, loss.device, z.device, muster_tensor_none()));
            ops_fetch(w, &z);
            for (int64_t i = 0; i < 42; i++) ops_assert_near(get(z.host, i / 7, i % 7), get(g.host, i / 7, i % 7), tightest(dtype));
        }
    return MUSTER_OK;
}

static muster_status bad_label(muster_worker *w, void *argument) {
    (void)argument;
    ops_pair z = make(w, MUSTER_F32, 2, 3, 4, 0), labels = make(w, MUSTER_U8, 1, 3, 0, 0), loss = make(w, MUSTER_F32, 0, 0, 0, 0);
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

static muster_status random_numbers(muster_worker *w, void *argument) {
    (void)argument;
    for (int dtype = MUSTER_F32; dtype <= MUSTER_F64; dtype++)
        for (int normal = 0; normal < 2; normal++) {
            ops_pair all = make(w, dtype, 2, 6, 5, 0), part = make(w, dtype, 2, 3, 5, 2);
            for (int i = 0; i < 2; i++) {
                muster_tensor y = i ? part.device : all.device;
                if (normal)
                    assert_ok(muster_random_normal(w, 42, i ? 15 : 0, 1, 2, y));
                else
                    assert_ok(muster_random_uniform(w, 42, i ? 15 : 0, y));
            }
            ops_fetch(w, &all);
            ops_fetch(w, &part);
            for (int64_t i = 0; i < 15; i++) assert_true(get(part.host, i / 5, i % 5) == get(all.host, 3 + i / 5, i % 5));
            uint32_t block[4];
            muster_philox4x32((const uint32_t[]){0, 0, 0, 0}, (const uint32_t[]){42, 0}, block);
            if (!normal && dtype == MUSTER_F32) assert_true(get(all.host, 0, 3) == (block[3] >> 8) * 0x1p-24);
            if (!normal && dtype == MUSTER_F64)
                assert_true(get(all.host, 0, 1) == (double)(((uint64_t)block[3] << 32 | block[2]) >> 11) * 0x1p-53);
        }
    return MUSTER_OK;
}

/* ---- refusals ---- */
static muster_status refusals(muster_worker *w, void *argument) {
    (void)argument;
    ops_pair a = make(w, MUSTER_F32, 2, 3, 4, 0), x = make(w, MUSTER_F32, 1, 4, 0, 0), y = make(w, MUSTER_F32, 1, 3, 0, 0),
             d = make(w, MUSTER_F64, 1, 3, 0, 0);
    ops_pair half = make(w, MUSTER_F16, 2, 3, 4, 0);
    assert_refused(muster_gemv(NULL, 1, a.device, x.device, 0, y.device), MUSTER_INVALID_ARGUMENT,
                   "muster_gemv: worker: expected the worker of a running function, received NULL");
    assert_refused(muster_gemv(w, 1, a.device, muster_tensor_none(), 0, y.device), MUSTER_INVALID_ARGUMENT,
                   "muster_gemv: x: expected a tensor, received no tensor");
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
    assert_refused(muster_unary_op(w, 99, x.device, x.device), MUSTER_INVALID_ARGUMENT, "muster_unary_op: op:");
    assert_refused(muster_binary_op(w, 0, x.device, x.device, x.device), MUSTER_INVALID_ARGUMENT, "muster_binary_op: op:");
    assert_refused(muster_reduce(w, 9, x.device, -1, y.device), MUSTER_INVALID_ARGUMENT, "muster_reduce: op:");
    assert_refused(muster_random_normal(w, 1, 0, 0, -1, x.device), MUSTER_INVALID_ARGUMENT, "muster_random_normal: deviation:");
    assert_refused(mst_reduction_check(MUSTER_AVG, MUSTER_I32, "muster_function_output"), MUSTER_UNSUPPORTED,
                   "muster_function_output: avg of i32 is refused: an integer average is not exact; use sum and divide");
    if (!mst_device_is_host(w->device)) assert_refused(muster_fill(w, 0, x.host), MUSTER_INVALID_ARGUMENT, "received host memory");
    if (!mst_blas_get()->sgemm)
        assert_refused(muster_gemm(w, 1, a.device, a.device, 0, a.device), MUSTER_SHAPE_MISMATCH,
                       "muster_gemm: b: expected shape (4, 4), received (3, 4)");
    muster_tensor none = muster_worker_scratch(w, MUSTER_F32, 1, (int64_t[]){-1});
    assert_int_equal(muster_fill(w, 0, none), w->scratch_status);
    assert_int_not_equal(w->scratch_status, MUSTER_OK);
    return MUSTER_OK;
}

static muster_status no_blas(muster_worker *w, void *argument) {
    (void)argument;
    ops_pair a = make(w, MUSTER_F32, 2, 3, 3, 0), c = make(w, MUSTER_F32, 2, 3, 3, 0);
    if (mst_blas_get()->sgemm || mst_op_by_code(w)) return MUSTER_OK; /* device code has a product of its own */
    assert_refused(muster_gemm(w, 1, a.device, a.device, 0, c.device), MUSTER_UNAVAILABLE, "libopenblas0-pthread");
    return MUSTER_OK;
}

ON_EVERY_DEVICE(gemm)
ON_EVERY_DEVICE(gemm_of_halves)
ON_EVERY_DEVICE(gemv)
ON_EVERY_DEVICE(axpy_dot_scale_add)
ON_EVERY_DEVICE(unary)
ON_EVERY_DEVICE(binary)
ON_EVERY_DEVICE(integers_wrap)
ON_EVERY_DEVICE(fill_and_copy)
ON_EVERY_DEVICE(bias_relu)
ON_EVERY_DEVICE(reduce)
ON_EVERY_DEVICE(reduce_of_nothing)
ON_EVERY_DEVICE(combine)
ON_EVERY_DEVICE(argmax)
ON_EVERY_DEVICE(softmax)
ON_EVERY_DEVICE(random_numbers)
ON_EVERY_DEVICE(refusals)
ON_EVERY_DEVICE(no_blas)

int main(void) {
    if (mst_discrete_register() != MUSTER_OK) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_blas),
        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_gemm_of_halves),
        cmocka_unit_test(test_gemv),
        cmocka_unit_test(test_axpy_dot_scale_add),
        cmocka_unit_test(test_unary),
        cmocka_unit_test(test_binary),
        cmocka_unit_test(test_integers_wrap),
        cmocka_unit_test(test_fill_and_copy),
        cmocka_unit_test(test_bias_relu),
        cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_reduce_of_nothing),
        cmocka_unit_test(test_combine),
        cmocka_unit_test(test_argmax),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_a_label_out_of_range_ends_the_call),
        cmocka_unit_test(test_philox_published_vectors),
        cmocka_unit_test(test_random_numbers),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
