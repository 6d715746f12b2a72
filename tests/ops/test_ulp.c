/* The error of the elementwise functions in f32 on the host, in units of the last place, against
 * the C library in double: over 2^24 numbers, one of each 256, and over all 2^32 with
 * MUSTER_TEST_FULL, and at the special ones. No function is more than 2 ulp off, but for the
 * derivative of gelu, a sum of two terms of which one may be negative. */
#include "base_check.h"
#include "base_machine.h"
#include "base_seed.h"
#include "base_skip.h"
#include "binary/binary_private.h"
#include "ops_fixture.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 16 };
/* One of so many arguments, unless MUSTER_TEST_FULL is set. */
#ifdef MUSTER_TEST_SANITIZED
enum { STRIDE = 2048 };
#else
enum { STRIDE = 2048 };
#endif

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double softplus(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }
static double reciprocal(double x) { return 1 / x; }
static double rsqrt(double x) { return 1 / sqrt(x); }
static double gelu(double x) { return x < -40 ? -0.0 : x * erfc(-x / sqrt(2)) / 2; }
static double gelu_part(double x) { return x * exp(-x * x / 2) / sqrt(2 * acos(-1)); }
static double gelu_derivative(double x) { return x < -37 ? -0.0 : x > 37 ? 1 : erfc(-x / sqrt(2)) / 2 + gelu_part(x); }
static double gelu_derivative_size(double x) { return isinf(x) ? x > 0 : fmax(erfc(-x / sqrt(2)) / 2, fabs(gelu_part(x))); }
static double silu(double x) { return x < -700 ? -0.0 : x / (1 + exp(-x)); }
static double sign(double x) { return (x > 0) - (x < 0) + (isnan(x) ? x : 0); }

static const struct {
    const char *name;
    muster_unary op;
    double (*exact)(double x);
    double most; /* ulp */
} functions[] = {
    {"sqrt", MUSTER_SQRT, sqrt, 0.501},
    {"reciprocal", MUSTER_RECIPROCAL, reciprocal, 0.501},
    {"exp", MUSTER_EXP, exp, 1},
    {"log", MUSTER_LOG, log, 1},
    {"tanh", MUSTER_TANH, tanh, 2},
    {"sigmoid", MUSTER_SIGMOID, sigmoid, 1},
    {"softplus", MUSTER_SOFTPLUS, softplus, 1},
    {"sin", MUSTER_SIN, sin, 1},
    {"cos", MUSTER_COS, cos, 1},
    {"tan", MUSTER_TAN, tan, 1},
    {"asin", MUSTER_ASIN, asin, 1},
    {"acos", MUSTER_ACOS, acos, 1},
    {"atan", MUSTER_ATAN, atan, 1},
    {"sinh", MUSTER_SINH, sinh, 1},
    {"cosh", MUSTER_COSH, cosh, 1},
    {"erf", MUSTER_ERF, erf, 1},
    {"log1p", MUSTER_LOG1P, log1p, 1},
    {"expm1", MUSTER_EXPM1, expm1, 1},
    {"log2", MUSTER_LOG2, log2, 1},
    {"exp2", MUSTER_EXP2, exp2, 1},
    {"log10", MUSTER_LOG10, log10, 1},
    {"gelu", MUSTER_GELU, gelu, 1},
    {"gelu_derivative", MUSTER_GELU_DERIVATIVE, gelu_derivative, 4},
    {"silu", MUSTER_SILU, silu, 1},
    {"rsqrt", MUSTER_RSQRT, rsqrt, 2},
    {"sign", MUSTER_SIGN, sign, 0},
    {"floor", MUSTER_FLOOR, floor, 0},
    {"ceil", MUSTER_CEIL, ceil, 0},
    {"round", MUSTER_ROUND, nearbyint, 0},
    {"trunc", MUSTER_TRUNC, trunc, 0},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static const float specials[] = {0, -0.0f, INFINITY, -INFINITY, NAN, 1, -1, 0x1p-149f, -0x1p-149f, 0x1.fffffcp-127f, FLT_MIN, -FLT_MIN,
                                 FLT_MAX, -FLT_MAX,
                                 /* where exp overflows, and where it becomes subnormal and 0 */
                                 88.72283f, 88.72284f, -87.33654f, -87.33655f, -103.97207f, -103.97208f, -103.97209f, -104,
                                 /* where tanh changes its formula and becomes 1 */
                                 0.625f, 0x1.3ffffep-1f, 0x1.400002p-1f, -0.625f, 9.010913f, 9.1f, 10, 11, -10, 3e38f,
                                 /* about 1, where log is small */
                                 0x1.fffffep-1f, 0x1.000002p+0f, 0x1.6a09e6p-1f, 0x1.6a09e8p-1f, 0x1.6a09e6p+0f,
                                 /* halves, and where all numbers are integers */
                                 0.5f, -0.5f, 1.5f, 2.5f, -2.5f, 0x1.fffffep+22f, 0x1p23f, 0x1p24f,
                                 /* where gelu and silu become 0, and where atan changes its
                                  * formula */
                                 -14.17f, -14.5f, -15, -0.7517916f, -92, -110, -150.1f, 0.4142135f, 0.4142136f, 2.414213f, 2.414214f,
                                 /* next to multiples of pi / 2, small and large, and where the
                                  * table of 2 / pi begins */
                                 0x1.921fb6p+0f, 0x1.921fb6p+1f, 0x1.45f306p+25f, 0x1p25f, 0x1p26f, 0x1.fffffep+25f, 0x1.c6a2f2p+127f};
enum { SPECIALS = sizeof specials / sizeof *specials };

/* |value - exact| in units of the last place of a float near `size`. */
static double ulps_of(float value, double exact, double size) {
    const float nearest = (float)exact;
    int exponent;
    if (isnan(nearest) || isnan(value)) return isnan(nearest) && isnan(value) ? 0 : INFINITY;
    if (isinf(nearest) || isinf(value)) return nearest == value ? 0 : INFINITY;
    if (nearest == 0 && value == 0) return !signbit(nearest) == !signbit(value) ? 0 : INFINITY;
    (void)frexp(size == 0 ? 0x1p-200 : size, &exponent);
    return fabs((double)value - exact) / ldexp(1, exponent - 24 < -149 ? -149 : exponent - 24);
}

static double ulps(float value, double exact) { return ulps_of(value, exact, exact); }

/* The number in whose units the error of a function is given: of a sum, the larger term. */
static double size_of(int which, double x, double exact) {
    return functions[which].op == MUSTER_GELU_DERIVATIVE ? gelu_derivative_size(x) : exact;
}

/* Fails at the first value of x with a larger error; returns how many have been compared. */
static int64_t compare(muster_worker *w, int which, const float *x, float *y, int64_t count) {
    assert_ok(muster_unary_op(w, functions[which].op, muster_f32(x, count), muster_f32(y, count)));
    for (int64_t i = 0; i < count; i++) {
        const double exact = functions[which].exact((double)x[i]), error = ulps_of(y[i], exact, size_of(which, (double)x[i], exact));
        if (!(error <= functions[which].most))
            fail_msg("%s(%a): expected %a, received %a, %.2f ulp away", functions[which].name, (double)x[i], exact, (double)y[i], error);
    }
    return count;
}

typedef struct ulp_run {
    uint64_t first, stride;
    int64_t compared[FUNCTIONS];
} ulp_run;

static muster_status compare_all(muster_worker *w, void *argument) {
    ulp_run *run = argument;
    static float x[CHUNK], y[CHUNK];
    for (int which = 0; which < FUNCTIONS; which++) {
        for (uint64_t bits = run->first; bits < UINT64_C(1) << 32;) {
            int64_t count = 0;
            for (; count < CHUNK && bits < UINT64_C(1) << 32; count++, bits += run->stride) {
                const uint32_t low = (uint32_t)bits;
                memcpy(&x[count], &low, sizeof low);
            }
            run->compared[which] += compare(w, which, x, y, count);
        }
        /* at every place of a vector, and alone */
        for (int64_t at = 0; at < SPECIALS; at++) {
            memcpy(x, specials + at, (size_t)(SPECIALS - at) * sizeof *x);
            run->compared[which] += compare(w, which, x, y, SPECIALS - at);
            run->compared[which] += compare(w, which, x, y, 1);
        }
    }
    return MUSTER_OK;
}

static void test_functions_are_within_their_ulps(void **state) {
    (void)state;
    if (on_gpus()) SKIP("not on GPUs: their functions are those of the compiler for kernels");
    ulp_run run = {.first = test_is_full() ? 0 : test_seed() % STRIDE, .stride = test_is_full() ? 1 : STRIDE};
    assert_ok(ops_run_on("host", compare_all, &run));
    for (int which = 0; which < FUNCTIONS; which++)
        assert_int_equal(run.compared[which], (INT64_C(1) << 32) / (int64_t)run.stride + SPECIALS * (SPECIALS + 1) / 2 + SPECIALS);
}

/* ---- powers ---- */

enum { EXPONENTS = 16 };

static int64_t compare_powers(muster_worker *w, const float *x, const float *y, float *result, int64_t count) {
    assert_ok(muster_binary_op(w, MUSTER_POW, muster_f32(x, count), muster_f32(y, count), muster_f32(result, count)));
    for (int64_t i = 0; i < count; i++) {
        const double exact = pow((double)x[i], (double)y[i]), error = ulps(result[i], exact);
        if (!(error <= 1))
            fail_msg("%a to the power %a: expected %a, received %a, %.2f ulp away", (double)x[i], (double)y[i], exact, (double)result[i],
                     error);
    }
    return count;
}

/* Exponents that are special to pow: odd, even and no whole numbers, and the largest of each. */
static const float exponents[] = {
    2,       3,        -1,     0.5f,           -2.5f, 17, 0x1p22f, 0x1.000002p+22f, 0x1.8p22f, 0x1p24f, 0x1.fffffep+23f, -0x1.fffffep+23f,
    0x1p31f, -0x1p40f, 1e-30f, 0x1.000004p+22f};
_Static_assert(sizeof exponents / sizeof *exponents == EXPONENTS, "counted below");

/* The next exponent of a base: one of the list, or one whose power is neither 0 nor infinite. */
static float exponent_of(float x, int64_t i) {
    if (i % 4 == 0) return exponents[i / 4 % EXPONENTS];
    const double logarithm = log2(fabs((double)x)), power = (double)((i * 7919) % 277) - 150 + (double)(i % 101) / 101;
    const float exponent = (float)(power / logarithm);
    return i % 4 == 1 ? rintf(exponent) : exponent;
}

static muster_status compare_all_powers(muster_worker *w, void *argument) {
    ulp_run *run = argument;
    static float x[CHUNK], y[CHUNK], result[CHUNK];
    for (uint64_t bits = run->first; bits < UINT64_C(1) << 32;) {
        int64_t count = 0;
        for (; count < CHUNK && bits < UINT64_C(1) << 32; count++, bits += run->stride) {
            const uint32_t low = (uint32_t)bits;
            memcpy(&x[count], &low, sizeof low);
            y[count] = exponent_of(x[count], count);
        }
        run->compared[0] += compare_powers(w, x, y, result, count);
    }
    for (int64_t i = 0; i < SPECIALS + EXPONENTS; i++)
        for (int64_t j = 0; j < SPECIALS + EXPONENTS; j++) {
            x[i * (SPECIALS + EXPONENTS) + j] = i < SPECIALS ? specials[i] : exponents[i - SPECIALS];
            y[i * (SPECIALS + EXPONENTS) + j] = j < SPECIALS ? specials[j] : -exponents[j - SPECIALS];
        }
    run->compared[1] += compare_powers(w, x, y, result, (int64_t)(SPECIALS + EXPONENTS) * (SPECIALS + EXPONENTS));
    for (int64_t i = 0; i < SPECIALS + EXPONENTS; i++) /* alone */
        run->compared[1] += compare_powers(w, x + i * (SPECIALS + EXPONENTS + 1), y + i * (SPECIALS + EXPONENTS + 1), result, 1);
    return MUSTER_OK;
}

/* The loop for processors with AVX-512, where this one is such, and the one for all others. */
static void check_powers(bool without_avx512) {
    mst_power_without_avx512 = without_avx512;
    ulp_run run = {.first = test_is_full() ? 0 : test_seed() % STRIDE, .stride = test_is_full() ? 1 : STRIDE};
    assert_ok(ops_run_on("host", compare_all_powers, &run));
    assert_int_equal(run.compared[0], (INT64_C(1) << 32) / (int64_t)run.stride);
    assert_int_equal(run.compared[1], (SPECIALS + EXPONENTS) * (SPECIALS + EXPONENTS + 1));
    mst_power_without_avx512 = false;
}

static void test_powers_are_within_an_ulp(void **state) {
    (void)state;
    if (on_gpus()) SKIP("not on GPUs: their functions are those of the compiler for kernels");
    check_powers(false);
}

static void test_powers_without_avx512_are_within_an_ulp(void **state) {
    (void)state;
    if (on_gpus()) SKIP("not on GPUs: their functions are those of the compiler for kernels");
    check_powers(true);
}

/* Powers of every layout have the bits of the contiguous ones, whatever their neighbours are. */
static muster_status compare_layouts(muster_worker *w, void *argument) {
    int64_t *compared = argument;
    enum { N = 1000, STRIDE = 3 };
    static float x[N], y[N], wanted[N], xs[N * STRIDE], ys[N * STRIDE], result[N * STRIDE];
    for (int i = 0; i < N; i++) {
        x[i] = i % 9 == 0 ? specials[i / 9 % SPECIALS] : -2 + 0.0043f * (float)i;
        y[i] = i % 7 == 0 ? specials[i / 7 % SPECIALS] : (float)(i % 13) - 6 + (i % 3 ? 0 : 0.25f);
        xs[(ptrdiff_t)i * STRIDE] = x[i], ys[(ptrdiff_t)i * STRIDE] = y[i];
    }
    assert_ok(muster_binary_op(w, MUSTER_POW, muster_f32(x, N), muster_f32(y, N), muster_f32(wanted, N)));
    for (int layouts = 0; layouts < 27; layouts++) {
        const int64_t stride[3] = {layouts % 3, layouts / 3 % 3, layouts / 9};
        muster_tensor t[3] = {muster_f32(xs, N), muster_f32(ys, N), muster_f32(result, N)};
        for (int k = 0; k < 3; k++) { /* 0: contiguous; 1: every third; 2: one element, or backwards */
            if (stride[k] == 0) t[k] = muster_f32(k == 0 ? x : k == 1 ? y : result, N);
            if (stride[k] == 1) t[k].strides[0] = STRIDE;
            if (stride[k] == 2 && k < 2) t[k] = muster_f32(k == 0 ? x + 5 : y + 5, 1);
            if (stride[k] == 2 && k == 2) t[k].strides[0] = -STRIDE, t[k].byte_offset = (N - 1) * STRIDE * (int64_t)sizeof(float);
        }
        assert_ok(muster_binary_op(w, MUSTER_POW, t[0], t[1], t[2]));
        for (int i = 0; i < N; i++, ++*compared) {
            const int at = stride[2] == 0 ? i : stride[2] == 1 ? i * STRIDE : (N - 1 - i) * STRIDE;
            float one = wanted[i];
            if (stride[0] == 2 || stride[1] == 2)
                assert_ok(muster_binary_op(w, MUSTER_POW, muster_f32(stride[0] == 2 ? x + 5 : x + i, 1),
                                           muster_f32(stride[1] == 2 ? y + 5 : y + i, 1), muster_f32(&one, 1)));
            if (memcmp(&one, &result[at], sizeof one) != 0 && !(isnan(one) && isnan(result[at])))
                fail_msg("layouts %d, element %d: expected %a, received %a", layouts, i, (double)one, (double)result[at]);
        }
    }
    return MUSTER_OK;
}

static void test_powers_of_every_layout_have_the_same_bits(void **state) {
    (void)state;
    if (on_gpus()) SKIP("not on GPUs: their functions are those of the compiler for kernels");
    for (int without = 0; without < 2; without++) {
        int64_t compared = 0;
        mst_power_without_avx512 = without;
        assert_ok(ops_run_on("host", compare_layouts, &compared));
        assert_int_equal(compared, 27 * 1000);
    }
    mst_power_without_avx512 = false;
}

/* ---- layouts and halves ---- */

/* Sines, cosines and tangents of every layout have the bits of single elements: angles from 2^25 on
 * stand at the first and the last place of a block, in its middle, and alone. */
static muster_status compare_angles(muster_worker *w, void *argument) {
    int64_t *compared = argument;
    enum { N = 1100, STRIDE = 3 };
    static const muster_unary ops[] = {MUSTER_SIN, MUSTER_COS, MUSTER_TAN};
    static const int far_places[] = {0, 511, 512, 700, 1023, 1024, N - 1};
    static float x[N * STRIDE], y[N * STRIDE];
    for (int o = 0; o < 3; o++)
        for (int far = 0; far <= 7; far++) /* 7: none */
            for (int strides = 0; strides < 4; strides++) {
                muster_tensor from = muster_f32(x, N), to = muster_f32(y, N);
                if (strides & 1) from.strides[0] = STRIDE;
                if (strides & 2) to.strides[0] = STRIDE;
                for (int i = 0; i < N; i++) x[i * from.strides[0]] = i % 97 == 0 ? specials[i / 97] : 0.37f * (float)(i - N / 2);
                if (far < 7) x[far_places[far] * from.strides[0]] = 0x1.6a09e6p+40f;
                assert_ok(muster_unary_op(w, ops[o], from, to));
                for (int i = 0; i < N; i++, ++*compared) {
                    float one;
                    assert_ok(muster_unary_op(w, ops[o], muster_f32(x + i * from.strides[0], 1), muster_f32(&one, 1)));
                    if (memcmp(&one, &y[i * to.strides[0]], sizeof one) != 0 && !(isnan(one) && isnan(y[i * to.strides[0]])))
                        fail_msg("operation %d, far angle %d, strides %d, element %d: expected %a, received %a", o, far, strides, i,
                                 (double)one, (double)y[i * to.strides[0]]);
                }
            }
    return MUSTER_OK;
}

static void test_angles_of_every_layout_have_the_same_bits(void **state) {
    (void)state;
    if (on_gpus()) SKIP("not on GPUs: their functions are those of the compiler for kernels");
    int64_t compared = 0;
    assert_ok(ops_run_on("host", compare_angles, &compared));
    assert_int_equal(compared, 3 * 8 * 4 * 1100);
}

/* f16 and bf16 are the rounded results of f32, for every number and layout. */
static muster_status compare_halves(muster_worker *w, void *argument) {
    int64_t *compared = argument;
    enum { N = 1 << 16, STRIDE = 3 };
    static uint16_t x[N * STRIDE], y[N * STRIDE];
    static float wide[N], results[N];
    for (int dtype = 0; dtype < 2; dtype++)
        for (int which = 0; which < FUNCTIONS; which++)
            for (int strides = 0; strides < 4; strides++) {
                const int64_t every = strides & 1 ? STRIDE : 1, result_every = strides & 2 ? STRIDE : 1;
                muster_tensor from = dtype ? muster_bf16(x, N) : muster_f16(x, N), to = dtype ? muster_bf16(y, N) : muster_f16(y, N);
                from.strides[0] = every, to.strides[0] = result_every;
                for (int64_t i = 0; i < N; i++) {
                    x[i * every] = (uint16_t)i;
                    wide[i] = dtype ? muster_bf16_to_f32((uint16_t)i) : muster_f16_to_f32((uint16_t)i);
                }
                assert_ok(muster_unary_op(w, functions[which].op, muster_f32(wide, N), muster_f32(results, N)));
                assert_ok(muster_unary_op(w, functions[which].op, from, to));
                for (int64_t i = 0; i < N; i++, ++*compared) {
                    const uint16_t expected = dtype ? muster_f32_to_bf16(results[i]) : muster_f32_to_f16(results[i]),
                                   received = y[i * result_every];
                    if (expected != received && !isnan(results[i]))
                        fail_msg("%s of %s %#x, strides %d: expected %#x, received %#x", functions[which].name, dtype ? "bf16" : "f16",
                                 (unsigned)i, strides, expected, received);
                }
            }
    return MUSTER_OK;
}

static void test_halves_are_the_rounded_results_of_f32(void **state) {
    (void)state;
    if (on_gpus()) SKIP("not on GPUs: their functions are those of the compiler for kernels");
    int64_t compared = 0;
    assert_ok(ops_run_on("host", compare_halves, &compared));
    assert_int_equal(compared, (int64_t)2 * FUNCTIONS * 4 << 16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions_are_within_their_ulps),           cmocka_unit_test(test_powers_are_within_an_ulp),
        cmocka_unit_test(test_powers_without_avx512_are_within_an_ulp),   cmocka_unit_test(test_powers_of_every_layout_have_the_same_bits),
        cmocka_unit_test(test_angles_of_every_layout_have_the_same_bits), cmocka_unit_test(test_halves_are_the_rounded_results_of_f32)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
