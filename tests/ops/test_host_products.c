/* Divisions of floats whose quotients are simple, and products of one row and one column, on the
 * host: on both sides of each bound. */
#include "base_check.h"
#include "base_skip.h"
#include "half_impl.h"
#include "op_impl.h"
#include "ops_fixture.h"

#include <math.h>
#include <string.h>

static int64_t cases;

static void put(muster_dtype dtype, void *to, double value) { mst_convert(dtype, to, MUSTER_F64, &value, 1); }
static double get(muster_dtype dtype, const void *from) {
    double value;
    mst_convert(MUSTER_F64, &value, dtype, from, 1);
    return value;
}

/* ---- x // y and x % y, as in Python ---- */

static double remainder_of(double a, double b) {
    const double rest = fmod(a, b);
    return rest == 0 ? copysign(0, b) : (rest < 0) != (b < 0) ? rest + b : rest;
}

static double quotient_of(double a, double b) {
    if (b == 0) return a / b;
    const double rest = fmod(a, b), truncated = rint((a - rest) / b),
                 quotient = rest != 0 && (rest < 0) != (b < 0) ? truncated - 1 : truncated;
    return quotient == 0 ? copysign(0, a / b) : quotient;
}

static double special(void) {
    static const double numbers[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 0x1p-149, -0x1p-130, 0x1p-126, 3e38, -3e38, 1, -3};
    return numbers[ops_random(12)];
}

/* Multiples of b and their neighbours; quotients about 2^25, 2^26 and 2^27, the largest that are
 * simple, and others. */
static void operands(muster_dtype dtype, bool any, void *a, void *b) {
    const double divisor = ldexp((double)(1 + ops_random(2000)), (int)ops_random(12) - 9) * (ops_random(2) ? 1 : -1);
    const int bits = ops_random(3) ? (int)ops_random(27) : 25 + (int)ops_random(3);
    put(dtype, b, any && ops_random(4) == 0 ? special() : divisor);
    put(dtype, a, any && ops_random(4) == 0 ? special() : get(dtype, b) * rint(ldexp((double)ops_random(1 << 20) - (1 << 19), bits - 19)));
    if (ops_random(3) && get(dtype, a) == get(dtype, a)) {
        uint64_t element = 0;
        memcpy(&element, a, (size_t)muster_dtype_size(dtype));
        element += (uint64_t)ops_random(5) - 2;
        memcpy(a, &element, (size_t)muster_dtype_size(dtype));
    }
}

static bool right(muster_dtype dtype, const void *received, double a, double b, bool remainder) {
    uint64_t expected = 0, bits = 0;
    put(dtype, &expected, remainder ? remainder_of(a, b) : quotient_of(a, b));
    memcpy(&bits, received, (size_t)muster_dtype_size(dtype));
    const double e = get(dtype, &expected), r = get(dtype, received);
    return bits == expected || (e != e && r != r);
}

static void division_case(muster_worker *w, muster_dtype dtype, int64_t n, int64_t step, bool one, bool any) {
    static unsigned char a[8 * 2200], b[8 * 2200], y[8 * 2200];
    const int64_t size = muster_dtype_size(dtype);
    for (int64_t i = 0; i < n * step; i++) operands(dtype, any, a + i * size, b + i * size);
    muster_tensor x = muster_tensor_make(dtype, a, 1, &n), by = muster_tensor_make(dtype, b, one ? 0 : 1, &n),
                  to = muster_tensor_make(dtype, y, 1, &n);
    x.strides[0] = to.strides[0] = step;
    if (!one) by.strides[0] = step;
    for (int remainder = 0; remainder < 2; remainder++) {
        assert_ok(muster_binary_op(w, remainder ? MUSTER_REMAINDER : MUSTER_FLOOR_DIVIDE, x, by, to));
        for (int64_t i = 0; i < n; i++) {
            const double p = get(dtype, a + i * step * size), q = get(dtype, b + (one ? 0 : i * step * size));
            if (!right(dtype, y + i * step * size, p, q, remainder))
                fail_msg("%s: %a %s %a is %a", muster_dtype_name(dtype), p, remainder ? "%" : "//", q, get(dtype, y + i * step * size));
        }
        cases++;
    }
}

static muster_status divide_all(muster_worker *w, void *argument) {
    static const muster_dtype dtypes[] = {MUSTER_F16, MUSTER_BF16, MUSTER_F32, MUSTER_F64};
    static const int64_t counts[] = {0, 1, 511, 512, 513, 1030};
    (void)argument;
    for (int d = 0; d < 4; d++)
        for (int c = 0; c < 6; c++)
            for (int k = 0; k < 8; k++)
                for (int again = 0; again < (k & 2 ? 10 : 2); again++) division_case(w, dtypes[d], counts[c], 1 + (k & 1), k & 2, k & 4);
    return MUSTER_OK;
}

static void test_quotients_and_remainders_are_those_of_python(void **state) {
    (void)state;
    cases = 0;
    assert_ok(ops_run_on("host", divide_all, NULL));
    assert_int_equal(cases, 4 * 6 * (4 * 10 + 4 * 2) * 2);
}

/* Multiples of one divisor by less than 2^bits, and their neighbours; numbers near 0. */
static void remainder_case(muster_worker *w, muster_dtype dtype, double given, int bits) {
    enum { N = 1030 };
    static unsigned char a[8 * N], y[8 * N], divisor[8];
    const int64_t size = muster_dtype_size(dtype), n = N;
    put(dtype, divisor, given);
    const double b = get(dtype, divisor);
    for (int64_t i = 0; i < N; i++) {
        const double most = ldexp(1, bits), multiple = b * rint(most * (double)(ops_random(1 << 20) - (1 << 19)) / (1 << 19));
        const double small = b * ldexp((double)(ops_random(64) - 32), -6 * (int)ops_random(30));
        put(dtype, a + i * size, ops_random(8) ? multiple : ops_random(4) ? small : ops_random(2) ? 0.0 : -0.0);
        uint64_t element = 0;
        memcpy(&element, a + i * size, (size_t)size);
        if (element << (64 - 8 * size) << 1) element += (uint64_t)ops_random(5) - 2; /* 0 has no neighbours in its bits */
        memcpy(a + i * size, &element, (size_t)size);
    }
    const muster_tensor x = muster_tensor_make(dtype, a, 1, &n), to = muster_tensor_make(dtype, y, 1, &n);
    assert_ok(muster_binary_op(w, MUSTER_REMAINDER, x, muster_tensor_make(dtype, divisor, 0, NULL), to));
    for (int64_t i = 0; i < N; i++)
        if (!right(dtype, y + i * size, get(dtype, a + i * size), b, true))
            fail_msg("%s: %a %% %a is %a", muster_dtype_name(dtype), get(dtype, a + i * size), b, get(dtype, y + i * size));
    cases++;
}

/* Divisors of 1 to 12 bits, from the least to the largest; those of 9 bits and of exponents up to
 * 125 have a loop in float, with quotients of 15 bits at most. Here they have 1 to 16. */
static muster_status remainders_all(muster_worker *w, void *argument) {
    static const muster_dtype dtypes[] = {MUSTER_F16, MUSTER_BF16, MUSTER_F32};
    static const int exponents[] = {-126, -125, -100, -20, -6, 0, 1, 5, 20, 100, 125, 126}, quotients[] = {1, 8, 14, 15, 16};
    (void)argument;
    for (int d = 0; d < 3; d++)
        for (int bits = 1; bits <= 12; bits++)
            for (int e = 0; e < 12; e++)
                for (int q = 0; q < 5; q++)
                    for (int sign = -1; sign <= 1; sign += 2)
                        remainder_case(w, dtypes[d], sign * ldexp((1 << bits) - 1, exponents[e] - bits + 1), quotients[q]);
    return MUSTER_OK;
}

static void test_remainders_by_one_divisor_are_those_of_python(void **state) {
    (void)state;
    cases = 0;
    assert_ok(ops_run_on("host", remainders_all, NULL));
    assert_int_equal(cases, 3 * 12 * 12 * 5 * 2);
}

/* ---- products of one row and one column ---- */

static void product_case(muster_worker *w, muster_dtype dtype, int64_t batch, int64_t k, int64_t step, double beta) {
    static double a[5 * 2100 * 2], b[5 * 2100 * 2], c[5];
    const int64_t size = muster_dtype_size(dtype);
    for (int64_t i = 0; i < batch * k * step; i++) {
        put(dtype, (char *)a + i * size, (double)(ops_random(2001) - 1000) / 64);
        put(dtype, (char *)b + i * size, (double)(ops_random(2001) - 1000) / 64);
    }
    muster_tensor x = muster_tensor_make(dtype, a, 3, (const int64_t[]){batch, 1, k}),
                  y = muster_tensor_make(dtype, b, 3, (const int64_t[]){batch, k, 1}),
                  z = muster_tensor_make(dtype, c, 3, (const int64_t[]){batch, 1, 1});
    x.strides[0] = y.strides[0] = k * step;
    x.strides[2] = y.strides[1] = step;
    for (int64_t i = 0; i < batch; i++) put(dtype, (char *)c + i * size, (double)i + 1);
    assert_ok(muster_gemm_batched(w, 0.5, x, y, beta, z));
    for (int64_t i = 0; i < batch; i++) {
        double sum = 0, most = 0;
        for (int64_t j = 0; j < k; j++) {
            const double part = get(dtype, (char *)a + (i * k + j) * step * size) * get(dtype, (char *)b + (i * k + j) * step * size);
            sum += part;
            most += fabs(part);
        }
        const double expected = 0.5 * sum + beta * (double)(i + 1), tolerance = (dtype == MUSTER_F32 ? 1e-6 : 1e-14) * (1 + most);
        assert_true(fabs(get(dtype, (char *)c + i * size) - expected) <= tolerance);
    }
    cases++;
}

static muster_status multiply_all(muster_worker *w, void *argument) {
    static const int64_t lengths[] = {1, 15, 16, 17, 2047, 2048, 2049};
    (void)argument;
    for (int d = 0; d < 2; d++)
        for (int l = 0; l < 7; l++)
            for (int64_t batch = 1; batch <= 5; batch += 2)
                for (int k = 0; k < 4; k++) product_case(w, d ? MUSTER_F64 : MUSTER_F32, batch, lengths[l], 1 + k % 2, k / 2 ? -2 : 0);
    return MUSTER_OK;
}

static void test_products_of_one_row_and_one_column(void **state) {
    (void)state;
    if (!mst_blas_get()->sgemm) SKIP("there is no BLAS here: it has the products that are compared");
    cases = 0;
    assert_ok(ops_run_on("host", multiply_all, NULL));
    assert_int_equal(cases, 2 * 7 * 3 * 4);
}

int main(void) {
    if (mst_blas_open(false) != MUSTER_OK) return 1;
    ops_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quotients_and_remainders_are_those_of_python),
        cmocka_unit_test(test_remainders_by_one_divisor_are_those_of_python),
        cmocka_unit_test(test_products_of_one_row_and_one_column),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    mst_blas_close();
    return failed;
}
