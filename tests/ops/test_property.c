/* Every operation on random shapes and random layouts, strides 0 and broadcasting included, against
 * plain loops. Whatever lies between the elements of a result keeps what it held. */
#include "base_check.h"
#include "device_far.h"
#include "op_impl.h"
#include "ops_fixture.h"

#include <math.h>

enum { MOST = 2000 }; /* elements of a tensor */

/* ---- shapes and results ---- */

typedef struct shape {
    int32_t ndim;
    int64_t size[MUSTER_MAX_DIMS];
} shape;

static int64_t random_size(int64_t below) { return ops_random(12) == 0 ? 0 : 1 + ops_random(below); }

/* Up to 4 axes of up to 5; now and then a single long one. */
static shape random_shape(void) {
    shape s = {.ndim = (int32_t)ops_random(5)};
    for (int32_t d = 0; d < s.ndim; d++) s.size[d] = random_size(5);
    if (s.ndim == 1 && ops_random(2)) s.size[0] = 1 + ops_random(MOST);
    return s;
}

/* A shape that repeats into `s`. */
static shape random_repeated(const shape *s) {
    shape x = {.ndim = ops_random(2) ? s->ndim : (int32_t)ops_random(s->ndim + 1)};
    for (int32_t d = 0; d < x.ndim; d++) x.size[d] = ops_random(4) == 0 ? 1 : s->size[d + s->ndim - x.ndim];
    return x;
}

static ops_pair input(muster_worker *w, muster_dtype dtype, shape s) { return ops_view(w, dtype, s.ndim, s.size, true); }
static ops_pair output(muster_worker *w, muster_dtype dtype, shape s) { return ops_view(w, dtype, s.ndim, s.size, false); }
static ops_pair vector(muster_worker *w, muster_dtype dtype, int64_t n, bool repeats) { return ops_view(w, dtype, 1, &n, repeats); }
static ops_pair matrix(muster_worker *w, muster_dtype dtype, int64_t n, int64_t k, bool repeats) {
    return ops_view(w, dtype, 2, (const int64_t[]){n, k}, repeats);
}
static ops_pair scalar(muster_worker *w, muster_dtype dtype) { return ops_view(w, dtype, 0, NULL, false); }
static double at(const ops_pair *p, int64_t i, int64_t j) { return ops_element(p->host, p->host.ndim, (const int64_t[]){i, j}); }

static void *place(muster_tensor tensor, const int64_t *index) {
    int64_t offset = 0;
    for (int32_t d = 0; d < tensor.ndim; d++) offset += index[d] * tensor.strides[d];
    return (char *)muster_tensor_address(tensor) + offset * muster_dtype_size(tensor.dtype);
}

/* An operation that does not read its result must not mind what lies there. */
static void fill_with_nan(muster_worker *w, ops_pair *p) {
    for (int64_t i = 0; i < p->host_storage.shape[0]; i++) {
        const double nan = NAN;
        mst_convert(p->host.dtype, place(p->host_storage, &i), MUSTER_F64, &nan, 1);
    }
    ops_send(w, p);
}

/* `value` as the dtype holds it; integers keep their low bits. Those of 64 bits only wrap below 0:
 * what is beyond 2^53 has lost its low bits already. */
static double held(muster_dtype dtype, double value) {
    if (mst_dtype_is_float(dtype) || dtype == MUSTER_BOOL) {
        uint64_t bits = 0;
        mst_convert(dtype, &bits, MUSTER_F64, &value, 1);
        mst_convert(MUSTER_F64, &value, dtype, &bits, 1);
        return value;
    }
    const int64_t size = muster_dtype_size(dtype);
    if (size == 8) return ops_is_unsigned(dtype) && value < 0 ? value + 0x1p64 : value;
    const double range = ldexp(1, 8 * (int)size), low = ops_is_unsigned(dtype) ? 0 : -range / 2;
    const double above = fmod(value - low, range);
    return (above < 0 ? above + range : above) + low;
}

/* The result on the device is `expected`, in row-major order, and nothing else in its storage has
 * changed. */
static void check(muster_worker *w, const ops_pair *y, const double *expected, double tolerance) {
    static char before[MOST * 64];
    const size_t bytes = (size_t)mst_tensor_bytes(y->host_storage);
    int64_t index[MUSTER_MAX_DIMS] = {0}, i = 0;
    assert_true(bytes <= sizeof before);
    memcpy(before, y->host_storage.data, bytes);
    ops_fetch(w, y);
    if (muster_tensor_count(y->host) > 0) {
        do {
            void *element = place(y->host, index);
            ops_assert_near(ops_element(y->host, y->host.ndim, index), held(y->host.dtype, expected[i++]), tolerance);
            memcpy(element, before + ((char *)element - (char *)y->host_storage.data), (size_t)muster_dtype_size(y->host.dtype));
        } while (ops_next(y->host.ndim, y->host.shape, index));
    }
    assert_memory_equal(y->host_storage.data, before, bytes);
}

static double results[MOST * 64];

/* results[i] = EXPRESSION for every element of y, whose index is `index`. */
#define FOR_EVERY(y, EXPRESSION)                                    \
    do {                                                            \
        int64_t index[MUSTER_MAX_DIMS] = {0}, result_ = 0;          \
        if (muster_tensor_count((y).host) > 0) do                   \
                results[result_++] = (EXPRESSION);                  \
            while (ops_next((y).host.ndim, (y).host.shape, index)); \
    } while (0)
#define OF(p) ops_element((p).host, y.host.ndim, index)

static muster_dtype any_float(void) { return MUSTER_F16 + (muster_dtype)ops_random(4); }
static muster_dtype blas_dtype(void) { return MUSTER_F32 + (muster_dtype)ops_random(2); }
static muster_dtype any_dtype(void) { return 1 + (muster_dtype)ops_random(MST_DTYPE_COUNT - 1); }

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

static bool unary_exists(muster_unary op, muster_dtype dtype) {
    if (dtype == MUSTER_BOOL || mst_dtype_is_float(dtype)) return dtype != MUSTER_BOOL;
    return op == MUSTER_ABS || op == MUSTER_SQUARE || op == MUSTER_RELU || (op == MUSTER_NEG && !ops_is_unsigned(dtype));
}

static void unary(muster_worker *w) {
    muster_unary op = 1 + (muster_unary)ops_random(MUSTER_RECIPROCAL);
    muster_dtype dtype = any_dtype();
    shape s = random_shape();
    ops_pair y = output(w, dtype, s), x = ops_random(4) ? input(w, dtype, random_repeated(&s)) : y;
    if (!unary_exists(op, dtype)) return;
    FOR_EVERY(y, plain_unary(op, OF(x)));
    assert_ok(muster_unary_op(w, op, x.device, y.device));
    check(w, &y, results, ops_precision(dtype));
}

static double plain_binary(muster_binary op, bool integer, double a, double b) {
    switch (op) {
    case MUSTER_ADD:
        return a + b;
    case MUSTER_SUB:
        return a - b;
    case MUSTER_MUL:
        return a * b;
    case MUSTER_DIV:
        return !integer ? a / b : b == 0 ? 0 : trunc(a / b);
    case MUSTER_MAXIMUM:
        return a > b ? a : b;
    default:
        return a < b ? a : b;
    }
}

static void binary(muster_worker *w) {
    muster_binary op = 1 + (muster_binary)ops_random(MUSTER_MINIMUM);
    muster_dtype dtype = 1 + (muster_dtype)ops_random(MUSTER_BOOL - 1);
    shape s = random_shape();
    ops_pair y = output(w, dtype, s), a = ops_random(4) ? input(w, dtype, random_repeated(&s)) : y,
             b = ops_random(4) ? input(w, dtype, random_repeated(&s)) : y;
    FOR_EVERY(y, plain_binary(op, !mst_dtype_is_float(dtype), OF(a), OF(b)));
    assert_ok(muster_binary_op(w, op, a.device, b.device, y.device));
    check(w, &y, results, ops_precision(dtype));
}

static void fill(muster_worker *w) {
    muster_dtype dtype = any_dtype();
    double value = (double)ops_random(4);
    ops_pair y = output(w, dtype, random_shape());
    FOR_EVERY(y, dtype == MUSTER_BOOL ? value != 0 : value);
    assert_ok(muster_fill(w, value, y.device));
    check(w, &y, results, 0);
}

static double plain_convert(muster_dtype to, double value) {
    if (to == MUSTER_BOOL) return value != 0;
    return ops_is_unsigned(to) && value < 0 ? 0 : value;
}

static void copy(muster_worker *w) {
    muster_dtype to = any_dtype(), from = ops_random(3) ? any_dtype() : to;
    shape s = random_shape();
    ops_pair y = output(w, to, s), x = input(w, from, random_repeated(&s));
    FOR_EVERY(y, plain_convert(to, OF(x)));
    assert_ok(muster_copy(w, x.device, y.device));
    check(w, &y, results, 0);
}

static void scale_add(muster_worker *w) {
    bool axpy = ops_random(2);
    muster_dtype dtype = axpy ? blas_dtype() : any_float();
    double alpha = (double)ops_random(5) - 2, beta = axpy ? 1 : (double)ops_random(3);
    shape s = random_shape();
    ops_pair y = output(w, dtype, s), x = ops_random(4) ? input(w, dtype, s) : y;
    if (beta == 0 && x.host.data != y.host.data) fill_with_nan(w, &y);
    FOR_EVERY(y, alpha * OF(x) + (beta == 0 ? 0 : beta * OF(y)));
    assert_ok(axpy ? muster_axpy(w, alpha, x.device, y.device) : muster_scale_add(w, alpha, x.device, beta, y.device));
    check(w, &y, results, ops_precision(dtype));
}

static void bias_relu(muster_worker *w) {
    muster_dtype dtype = any_float();
    int64_t n = random_size(9), k = random_size(40);
    ops_pair y = matrix(w, dtype, n, k, false), x = ops_random(4) ? matrix(w, dtype, n, k, true) : y, bias = vector(w, dtype, k, true);
    FOR_EVERY(y, fmax(OF(x) + OF(bias), 0));
    assert_ok(muster_bias_relu(w, x.device, bias.device, y.device));
    check(w, &y, results, ops_precision(dtype));
}

static void relu_gradient(muster_worker *w) {
    muster_dtype dtype = any_float();
    shape s = random_shape();
    /* y: dx */
    ops_pair y = output(w, dtype, s), dy = ops_random(4) ? input(w, dtype, s) : y, forward = input(w, dtype, s);
    FOR_EVERY(y, OF(forward) > 0 ? OF(dy) : 0);
    assert_ok(muster_relu_gradient(w, forward.device, dy.device, y.device));
    check(w, &y, results, 0);
}

/* ---- products ---- */

static double dot_of(const ops_pair *a, int64_t i, const ops_pair *b, int64_t j) {
    double sum = 0;
    for (int64_t l = 0; l < a->host.shape[1]; l++) sum += at(a, i, l) * at(b, l, j);
    return sum;
}

static void gemm(muster_worker *w) {
    muster_dtype dtype = blas_dtype();
    int64_t m = random_size(9), n = random_size(9), k = random_size(20);
    double alpha = (double)ops_random(5) - 2, beta = (double)ops_random(3);
    ops_pair a = matrix(w, dtype, m, k, true), b = matrix(w, dtype, k, n, true), y = matrix(w, dtype, m, n, false);
    mst_gemm_limit = ops_random(2) ? INT32_MAX : 2 + ops_random(5);
    if (beta == 0) fill_with_nan(w, &y);
    FOR_EVERY(y, alpha * dot_of(&a, index[0], &b, index[1]) + (beta == 0 ? 0 : beta * OF(y)));
    if (mst_blas_get()->sgemm) {
        assert_ok(muster_gemm(w, alpha, a.device, b.device, beta, y.device));
        check(w, &y, results, ops_precision(dtype));
    } else {
        assert_refused(muster_gemm(w, alpha, a.device, b.device, beta, y.device), MUSTER_UNAVAILABLE, "muster_gemm");
    }
    mst_gemm_limit = INT32_MAX; /* after check, which waited for the device */
}

static void gemv(muster_worker *w) {
    bool tall = ops_random(4) == 0; /* more rows than are summed side by side */
    muster_dtype dtype = blas_dtype();
    int64_t n = tall ? 500 + ops_random(50) : random_size(12), k = tall ? random_size(3) : random_size(40);
    double alpha = (double)ops_random(5) - 2, beta = (double)ops_random(3);
    ops_pair a = matrix(w, dtype, n, k, true), x = vector(w, dtype, k, true), y = vector(w, dtype, n, false);
    if (beta == 0) fill_with_nan(w, &y);
    FOR_EVERY(y, alpha * dot_of(&a, index[0], &x, 0) + (beta == 0 ? 0 : beta * OF(y)));
    assert_ok(muster_gemv(w, alpha, a.device, x.device, beta, y.device));
    check(w, &y, results, ops_precision(dtype));
}

static void dot(muster_worker *w) {
    muster_dtype dtype = blas_dtype();
    int64_t n = ops_random(2) ? random_size(40) : ops_random(MOST);
    ops_pair a = vector(w, dtype, n, true), b = ops_random(4) ? vector(w, dtype, n, true) : a, y = scalar(w, dtype);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += at(&a, i, 0) * at(&b, i, 0);
    assert_ok(muster_dot(w, a.device, b.device, y.device));
    check(w, &y, &sum, ops_precision(dtype));
}

/* ---- reductions ---- */

/* Integers in 64 bits, of which the low ones are kept; floats in double. */
static double plain_reduce(muster_reduction op, const ops_pair *x, int32_t axis, const int64_t *result) {
    int64_t index[MUSTER_MAX_DIMS] = {0}, length = 0;
    uint64_t whole = op == MUSTER_PROD;
    double sum = op == MUSTER_PROD ? 1 : op == MUSTER_MAX ? -INFINITY : op == MUSTER_MIN ? INFINITY : 0;
    for (int32_t d = 0; d < x->host.ndim; d++)
        if (axis >= 0 && d != axis) index[d] = result[d < axis ? d : d - 1];
    if (axis >= 0 ? x->host.shape[axis] == 0 : muster_tensor_count(x->host) == 0) return sum;
    do {
        double value = ops_element(x->host, x->host.ndim, index);
        uint64_t bits = (uint64_t)(int64_t)value;
        whole = op == MUSTER_PROD ? whole * bits : whole + bits;
        sum = op == MUSTER_PROD ? sum * value : op == MUSTER_MAX ? fmax(sum, value) : op == MUSTER_MIN ? fmin(sum, value) : sum + value;
        length++;
    } while (axis >= 0 ? ++index[axis] < x->host.shape[axis] : ops_next(x->host.ndim, x->host.shape, index));
    if (op == MUSTER_AVG) return sum / (double)length;
    bool wraps = (op == MUSTER_SUM || op == MUSTER_PROD) && !mst_dtype_is_float(x->host.dtype) && x->host.dtype != MUSTER_BOOL;
    if (!wraps) return sum;
    int64_t size = muster_dtype_size(x->host.dtype);
    if (size == 8) return ops_is_unsigned(x->host.dtype) ? (double)whole : (double)(int64_t)whole;
    return (double)(whole % ((uint64_t)1 << 8 * size));
}

static void reduce(muster_worker *w) {
    muster_reduction op = 1 + (muster_reduction)ops_random(MUSTER_AVG);
    muster_dtype dtype = any_dtype();
    shape s = random_shape(), rest = {0};
    int32_t axis = (int32_t)ops_random(s.ndim + 1) - 1;
    int64_t length = 1;
    for (int32_t d = 0; d < s.ndim; d++) {
        if (axis >= 0 && d != axis)
            rest.size[rest.ndim++] = s.size[d];
        else
            length *= s.size[d];
    }
    ops_pair x = input(w, dtype, s), y = output(w, dtype, rest);
    if (ops_refused(op, dtype)) return;
    if (length == 0 && op != MUSTER_SUM && op != MUSTER_PROD) {
        assert_refused(muster_reduce(w, op, x.device, axis, y.device), MUSTER_INVALID_ARGUMENT, "expected at least one element");
        return;
    }
    FOR_EVERY(y, plain_reduce(op, &x, axis, index));
    assert_ok(muster_reduce(w, op, x.device, axis, y.device));
    check(w, &y, results, mst_dtype_is_float(dtype) ? ops_precision(dtype) : 1e-15);
}

static void argmax(muster_worker *w) {
    muster_dtype dtype = any_dtype();
    int64_t n = random_size(9), k = 1 + ops_random(30);
    ops_pair x = matrix(w, dtype, n, k, true), y = vector(w, MUSTER_I64, n, false);
    for (int64_t i = 0; i < n; i++) {
        int64_t best = 0;
        for (int64_t j = 1; j < k; j++)
            if (at(&x, i, j) > at(&x, i, best)) best = j;
        results[i] = (double)best;
    }
    assert_ok(muster_argmax(w, x.device, y.device));
    check(w, &y, results, 0);
}

/* ---- softmax cross-entropy, random numbers ---- */

static ops_pair labels_below(muster_worker *w, int64_t n, int64_t k) {
    static const muster_dtype dtypes[] = {MUSTER_U8, MUSTER_I32, MUSTER_I64};
    ops_pair labels = vector(w, dtypes[ops_random(3)], n, true);
    for (int64_t i = 0; i < labels.host_storage.shape[0]; i++) {
        double label = (double)ops_random(k);
        mst_convert(labels.host.dtype, place(labels.host_storage, &i), MUSTER_F64, &label, 1);
    }
    ops_send(w, &labels);
    return labels;
}

static void softmax(muster_worker *w) {
    muster_dtype dtype = blas_dtype();
    int64_t n = random_size(9), k = 1 + ops_random(20), hits = 0;
    bool in_place = ops_random(4) == 0;
    ops_pair gradient = matrix(w, dtype, n, k, false), z = in_place ? gradient : matrix(w, dtype, n, k, true),
             labels = labels_below(w, n, k);
    ops_pair loss = scalar(w, dtype), correct = scalar(w, MUSTER_I64);
    double total = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t best = 0, label = (int64_t)at(&labels, i, 0);
        double sum = 0;
        for (int64_t j = 0; j < k; j++) sum += exp(at(&z, i, j));
        for (int64_t j = 1; j < k; j++)
            if (at(&z, i, j) > at(&z, i, best)) best = j;
        for (int64_t j = 0; j < k; j++) results[i * k + j] = 0.5 * (exp(at(&z, i, j)) / sum - (j == label));
        total += log(sum) - at(&z, i, label);
        hits += best == label;
    }
    assert_ok(muster_softmax_cross_entropy(w, z.device, labels.device, 0.5, loss.device, gradient.device, correct.device));
    check(w, &loss, &total, 1e-5);
    check(w, &gradient, results, 1e-5);
    check(w, &correct, &(double){(double)hits}, 0);
}

static void random_numbers(muster_worker *w) {
    muster_dtype dtype = blas_dtype();
    uint64_t first = (uint64_t)ops_random(1000);
    bool normal = ops_random(2);
    ops_pair y = output(w, dtype, random_shape());
    int64_t count = muster_tensor_count(y.host);
    ops_pair plain = ops_make(w, dtype, count);
    for (int i = 0; i < 2; i++) {
        muster_tensor to = i ? y.device : plain.device;
        assert_ok(normal ? muster_random_normal(w, 7, first, 1, 2, to) : muster_random_uniform(w, 7, first, to));
    }
    ops_fetch(w, &plain);
    for (int64_t i = 0; i < count; i++) results[i] = at(&plain, i, 0);
    check(w, &y, results, 0);
}

/* ---- running them ---- */

typedef struct repetition {
    void (*operation)(muster_worker *w);
    int rounds;
} repetition;

static muster_status repeat(muster_worker *w, void *argument) {
    const repetition *r = argument;
    for (int i = 0; i < r->rounds; i++) r->operation(w);
    return MUSTER_OK;
}

/* The scratch memory of the tensors is given back after each piece. */
static void on_every_device(void (*operation)(muster_worker *w)) {
    enum { PIECE = 100 };
    repetition r = {operation, PIECE};
    for (int rounds = ops_rounds(2 * PIECE, 20 * PIECE); rounds > 0; rounds -= PIECE) {
        assert_ok(ops_run_on("host", repeat, &r));
        assert_ok(ops_run_on("far", repeat, &r));
    }
}

#define TEST(operation)                          \
    static void test_##operation(void **state) { \
        (void)state;                             \
        on_every_device(operation);              \
    }
TEST(unary)
TEST(binary)
TEST(fill)
TEST(copy)
TEST(scale_add)
TEST(bias_relu)
TEST(relu_gradient)
TEST(gemm)
TEST(gemv)
TEST(dot)
TEST(reduce)
TEST(argmax)
TEST(softmax)
TEST(random_numbers)

int main(void) {
    if (mst_far_register() != MUSTER_OK || mst_blas_open(false) != MUSTER_OK) return 1;
    ops_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unary),         cmocka_unit_test(test_binary),         cmocka_unit_test(test_fill),
        cmocka_unit_test(test_copy),          cmocka_unit_test(test_scale_add),      cmocka_unit_test(test_bias_relu),
        cmocka_unit_test(test_relu_gradient), cmocka_unit_test(test_gemm),           cmocka_unit_test(test_gemv),
        cmocka_unit_test(test_dot),           cmocka_unit_test(test_reduce),         cmocka_unit_test(test_argmax),
        cmocka_unit_test(test_softmax),       cmocka_unit_test(test_random_numbers),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    mst_blas_close();
    return failed;
}
