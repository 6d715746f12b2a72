/* Special values of the operations with two operands, and the errors of atan2 and hypot in f32 on
 * the host. */
#include "base_check.h"
#include "base_machine.h"
#include "base_skip.h"
#include "device_discrete.h"
#include "ops_fixture.h"
#include "ops_oracle.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Quotients and remainders of every combination of signs, at 0 and at infinity, as NumPy 1.24
 * prints them. Zeros have signs. */
static muster_status division_rules(muster_worker *w, void *argument) {
    static const struct {
        double a, b, floor_divide, remainder, fmod;
        bool integers;
    } rows[] = {{7, 3, 2, 1, 1, true},
                {-7, 3, -3, 2, -1, true},
                {7, -3, -3, -2, 1, true},
                {-7, -3, 2, -1, -1, true},
                {6, -3, -2, -0.0, 0, true},
                {0, -3, -0.0, -0.0, 0, true},
                {127, -1, -127, -0.0, 0, true},
                {5, INFINITY, 0, 5, 5, false},
                {-5, INFINITY, -1, INFINITY, -5, false},
                {5, -INFINITY, -1, -INFINITY, 5, false},
                {INFINITY, 2, NAN, NAN, NAN, false},
                {1, 0, INFINITY, NAN, NAN, false},
                {-1, 0, -INFINITY, NAN, NAN, false},
                {0, 0, NAN, NAN, NAN, false},
                {2.5, 0.5, 5, 0, 0, false},
                {-2.5, 2, -2, 1.5, -0.5, false}};
    static const muster_binary ops[] = {MUSTER_FLOOR_DIVIDE, MUSTER_REMAINDER, MUSTER_FMOD};
    int *compared = argument;
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            if (dtype == MUSTER_BOOL || (!mst_dtype_is_float(dtype) && (!rows[i].integers || ops_is_unsigned(dtype)))) continue;
            const double expected[] = {rows[i].floor_divide, rows[i].remainder, rows[i].fmod};
            for (int k = 0; k < 3; k++) {
                ops_pair a = ops_laid_out(w, dtype, 0, 0, 0, 0), b = ops_laid_out(w, dtype, 0, 0, 0, 0),
                         y = ops_laid_out(w, dtype, 0, 0, 0, 0);
                assert_ok(muster_fill(w, rows[i].a, a.device));
                assert_ok(muster_fill(w, rows[i].b, b.device));
                assert_ok(muster_binary_op(w, ops[k], a.device, b.device, y.device));
                ops_fetch(w, &y);
                const double received = ops_at(&y, 0, 0);
                if (!(isnan(expected[k]) ? isnan(received) : received == expected[k]) ||
                    (mst_dtype_is_float(dtype) && expected[k] == 0 && !signbit(received) != !signbit(expected[k])))
                    fail_msg("%s, %g and %g, function %d: expected %g, received %g", muster_dtype_name(dtype), rows[i].a, rows[i].b, k,
                             expected[k], received);
                ++*compared;
            }
        }
    return MUSTER_OK;
}

/* Shifts by less than 0, by as many bits as there are, and by more, as NumPy 2.4 computes them. */
static muster_status shift_rules(muster_worker *w, void *argument) {
    static const struct {
        muster_dtype dtype;
        int64_t a, by, left, right;
    } rows[] = {{MUSTER_I8, -128, 1, 0, -64},
                {MUSTER_I8, 3, 6, -64, 0},
                {MUSTER_I8, -5, 7, -128, -1},
                {MUSTER_I8, -5, 8, 0, -1},
                {MUSTER_I8, 5, -1, 0, 0},
                {MUSTER_I8, -5, -1, 0, -1},
                {MUSTER_U8, 255, 1, 254, 127},
                {MUSTER_U8, 255, 7, 128, 1},
                {MUSTER_U8, 255, 8, 0, 0},
                {MUSTER_I16, -2, 15, 0, -1},
                {MUSTER_I16, 1, 15, -32768, 0},
                {MUSTER_I32, 1, 31, INT32_MIN, 0},
                {MUSTER_I32, INT32_MIN, 31, 0, -1},
                {MUSTER_I32, INT32_MIN, 32, 0, -1},
                {MUSTER_I32, INT32_MAX, INT32_MIN, 0, 0},
                {MUSTER_U32, UINT32_MAX, 31, 0x80000000, 1},
                {MUSTER_U32, UINT32_MAX, 32, 0, 0},
                {MUSTER_I64, 1, 63, INT64_MIN, 0},
                {MUSTER_I64, INT64_MIN, 63, 0, -1},
                {MUSTER_I64, INT64_MIN, 64, 0, -1},
                {MUSTER_I64, -9, 1, -18, -5},
                {MUSTER_U64, -1, 63, INT64_MIN, 1},
                {MUSTER_U64, -1, 64, 0, 0},
                {MUSTER_U64, -1, -1, 0, 0}};
    int *compared = argument;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int right = 0; right < 2; right++) {
            ops_pair x[3];
            for (int k = 0; k < 3; k++) x[k] = ops_laid_out(w, rows[i].dtype, 0, 0, 0, 0);
            const size_t size = (size_t)muster_dtype_size(rows[i].dtype);
            const int64_t values[] = {rows[i].a, rows[i].by};
            for (int k = 0; k < 2; k++) {
                memcpy(muster_tensor_address(x[k].host), &values[k], size);
                ops_send(w, &x[k]);
            }
            assert_ok(muster_binary_op(w, right ? MUSTER_RIGHT_SHIFT : MUSTER_LEFT_SHIFT, x[0].device, x[1].device, x[2].device));
            ops_fetch(w, &x[2]);
            if (memcmp(muster_tensor_address(x[2].host), right ? &rows[i].right : &rows[i].left, size) != 0)
                fail_msg("%s, %lld shifted by %lld to the %s", muster_dtype_name(rows[i].dtype), (long long)rows[i].a,
                         (long long)rows[i].by, right ? "right" : "left");
            ++*compared;
        }
    return MUSTER_OK;
}

static void test_shift_rules(void **state) {
    (void)state;
    static const char *const backends[] = {"host", "discrete"};
    for (int b = 0; b < 2; b++) {
        int compared = 0;
        assert_ok(ops_run_on(backends[b], shift_rules, &compared));
        assert_int_equal(compared, 24 * 2);
    }
}

static void test_division_rules(void **state) {
    (void)state;
    static const char *const backends[] = {"host", "discrete"};
    for (int b = 0; b < 2; b++) {
        int compared = 0;
        assert_ok(ops_run_on(backends[b], division_rules, &compared));
        assert_int_equal(compared, (4 * 16 + 4 * 7) * 3);
    }
}

/* ---- atan2 and hypot ---- */

enum { SPECIALS = 16, RANDOM = 1 << 16 };
static const float specials[SPECIALS] = {0,        -0.0f,   1,        -1,         INFINITY,  -INFINITY, NAN,      0x1p-149f,
                                         -FLT_MIN, FLT_MAX, -FLT_MAX, 0.4142135f, 2.414214f, 0x1p-100f, 0x1p100f, -3};

/* |value - exact| in units of the last place of a float near `exact`. */
static double two_operands_ulps(float value, long double exact) {
    const float nearest = (float)exact;
    int exponent;
    if (isnan(nearest) || isnan(value)) return isnan(nearest) && isnan(value) ? 0 : INFINITY;
    if (isinf(nearest) || isinf(value)) return nearest == value ? 0 : INFINITY;
    if (nearest == 0 && value == 0) return !signbit(nearest) == !signbit(value) ? 0 : INFINITY;
    (void)frexpl(exact, &exponent);
    return (double)(fabsl((long double)value - exact) / ldexpl(1, exponent - 24 < -149 ? -149 : exponent - 24));
}

static int64_t compare_pairs(muster_worker *w, const float *a, const float *b, int64_t count) {
    static float y[RANDOM];
    for (int k = 0; k < 2; k++) {
        assert_ok(muster_binary_op(w, k ? MUSTER_HYPOT : MUSTER_ATAN2, muster_f32(a, count), muster_f32(b, count), muster_f32(y, count)));
        for (int64_t i = 0; i < count; i++) {
            const long double p = (long double)a[i], q = (long double)b[i];
            const double error = two_operands_ulps(y[i], k ? hypotl(p, q) : atan2l(p, q));
            if (!(error <= 1))
                fail_msg("%s(%a, %a): received %a, %.2f ulp away", k ? "hypot" : "atan2", (double)a[i], (double)b[i], (double)y[i], error);
        }
    }
    return count;
}

static muster_status angles_and_lengths(muster_worker *w, void *argument) {
    static float a[RANDOM], b[RANDOM];
    int64_t *compared = argument;
    for (int i = 0; i < SPECIALS * SPECIALS; i++) a[i] = specials[i / SPECIALS], b[i] = specials[i % SPECIALS];
    *compared += compare_pairs(w, a, b, SPECIALS * SPECIALS);
    for (int rounds = 0; rounds < 4; rounds++) { /* any bits; then numbers of about the same size */
        for (int i = 0; i < RANDOM; i++) {
            const uint32_t bits = (uint32_t)ops_random(INT64_C(1) << 32), other = (uint32_t)ops_random(INT64_C(1) << 32);
            const uint32_t near = (bits & 0x7f800000u) ^ (other & 0x80ffffffu);
            memcpy(&a[i], &bits, sizeof bits);
            memcpy(&b[i], rounds % 2 ? &near : &other, sizeof other);
        }
        *compared += compare_pairs(w, a, b, RANDOM);
    }
    return MUSTER_OK;
}

static void test_angles_and_lengths_are_within_an_ulp(void **state) {
    (void)state;
    if (on_gpus()) SKIP("not on GPUs: their functions are those of the compiler for kernels");
    int64_t compared = 0;
    assert_ok(ops_run_on("host", angles_and_lengths, &compared));
    assert_int_equal(compared, SPECIALS * SPECIALS + 4 * RANDOM);
}

int main(void) {
    if (mst_discrete_register() != MUSTER_OK) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_division_rules),
        cmocka_unit_test(test_shift_rules),
        cmocka_unit_test(test_angles_and_lengths_are_within_an_ulp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
