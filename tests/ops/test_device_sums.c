/* Sums, averages and products of f16, bf16 and f32 by device code, where single precision alone
 * would be wrong: terms that cancel, that overflow, that are subnormal, infinite or not a number.
 * The exact results are known from how the terms are made. */
#include "base_check.h"
#include "device_discrete.h"
#include "op_impl.h"
#include "ops_fixture.h"
#include "squares_impl.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* On both sides of the bounds of a group of terms (8), of what a block takes at once (2048), and of
 * a chunk (32, 64, 4096). */
static const int64_t lengths[] = {1, 2, 7, 8, 9, 16, 17, 31, 32, 33, 63, 64, 65, 2047, 2048, 2049, 4095, 4096, 4097, 6146, 8193};
enum { LENGTHS = sizeof lengths / sizeof *lengths, EVEN_LENGTHS = 8, MOST = 8193, COLUMNS = 40 };

/* How the terms of a sum lie: one result, its terms beside each other; 40 results beside each
 * other; one result, two terms and a gap in turn. Each has a loop of its own in the device code. */
enum { ONE, BESIDE, GAPS, LAYOUTS };

static float terms[MOST];
static int64_t compared;

static muster_tensor place(muster_worker *w, muster_dtype dtype, int layout, int64_t n) {
    static float spread[MOST * COLUMNS];
    const int64_t count = layout == ONE ? n : layout == BESIDE ? n * COLUMNS : n / 2 * 3;
    for (int64_t i = 0; i < count; i++)
        spread[i] = layout == ONE ? terms[i] : layout == BESIDE ? terms[i / COLUMNS] : i % 3 == 2 ? NAN : terms[i / 3 * 2 + i % 3];
    muster_tensor wide, x;
    assert_ok(muster_worker_scratch(w, MUSTER_F32, 1, &count, &wide));
    assert_ok(muster_worker_scratch(w, dtype, 1, &count, &x));
    assert_ok(muster_worker_write(w, muster_f32(spread, count), wide));
    assert_ok(muster_copy(w, wide, x));
    if (layout == ONE) return x;
    if (layout == BESIDE) return muster_tensor_reshape(x, 2, (const int64_t[]){n, COLUMNS});
    return muster_tensor_slice_axis(muster_tensor_reshape(x, 2, (const int64_t[]){n / 2, 3}), 1, 0, 2);
}

/* The result over the first n terms; all results of BESIDE must be the same. */
static float reduced(muster_worker *w, muster_dtype dtype, muster_reduction op, int layout, int64_t n) {
    float results[COLUMNS];
    const int64_t count = layout == BESIDE ? COLUMNS : 1;
    const int32_t ndim = layout == BESIDE;
    const muster_tensor x = place(w, dtype, layout, n);
    muster_tensor y, wide;
    assert_ok(muster_worker_scratch(w, dtype, ndim, &count, &y));
    assert_ok(muster_worker_scratch(w, MUSTER_F32, ndim, &count, &wide));
    assert_ok(muster_reduce(w, op, x, layout == BESIDE ? 0 : -1, y));
    assert_ok(muster_copy(w, y, wide));
    assert_ok(muster_worker_read(w, wide, muster_tensor_make(MUSTER_F32, results, ndim, &count)));
    for (int64_t i = 1; i < count; i++) assert_memory_equal(&results[i], &results[0], sizeof *results);
    compared++;
    return results[0];
}

static void assert_value(float received, float exact) {
    if (received != exact) fail_msg("expected %.9g, received %.9g", (double)exact, (double)received);
}

static double magnitudes(int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += fabs((double)terms[i]);
    return sum;
}

/* The rounding of the result, and 2^-40 of the magnitudes that cancel. */
static void assert_sum(float received, double exact, int64_t n, int layout) {
    const double error = fabs((double)received - exact), most = fabs(exact) * 0x1p-23 + magnitudes(n) * 0x1p-40;
    if (!(error <= most))
        fail_msg("sum of %lld terms in layout %d: expected %.17g within %.3g, received %.17g", (long long)n, layout, exact, most,
                 (double)received);
}

/* Pairs of terms of very different sizes that cancel, in a random order; small whole numbers
 * stay. */
static double make_cancelling_terms(int64_t n) {
    double left = 0;
    for (int64_t i = 0; i + 1 < n; i += 2) {
        terms[i] = ldexpf((float)(ops_random(1 << 24) + 1), (int)ops_random(40) - 30);
        terms[i + 1] = -terms[i];
        if (i % 16) continue;
        terms[i + 1] = (float)(ops_random(7) - 3);
        terms[i] = 0;
        left += (double)terms[i + 1];
    }
    if (n % 2) left += (double)(terms[n - 1] = 5);
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = ops_random(i + 1);
        const float kept = terms[i];
        terms[i] = terms[j];
        terms[j] = kept;
    }
    return left;
}

static muster_status sum_cancelling_terms(muster_worker *w, void *argument) {
    (void)argument;
    for (int layout = 0; layout < LAYOUTS; layout++)
        for (int i = 0; i < LENGTHS; i++) {
            const int64_t n = lengths[i];
            if (layout == GAPS && n % 2) continue;
            const double exact = make_cancelling_terms(n);
            assert_sum(reduced(w, MUSTER_F32, MUSTER_SUM, layout, n), exact, n, layout);
            assert_sum(reduced(w, MUSTER_F32, MUSTER_AVG, layout, n) * (float)n, exact, n, layout);
        }
    return MUSTER_OK;
}

/* Each term once: whole numbers whose sum every one of the dtypes holds. */
static muster_status count_terms(muster_worker *w, void *argument) {
    static const muster_dtype dtypes[] = {MUSTER_F16, MUSTER_BF16, MUSTER_F32, MUSTER_F64, MUSTER_I32, MUSTER_U8};
    (void)argument;
    for (int d = 0; d < 6; d++)
        for (int layout = 0; layout < LAYOUTS; layout++)
            for (int i = 0; i < LENGTHS; i++) {
                const int64_t n = lengths[i];
                if (layout == GAPS && n % 2) continue;
                for (int64_t at = 0; at < n; at++) terms[at] = 0;
                terms[0] += 64;
                terms[n / 2] += 16;
                terms[n - 1] += 3;
                assert_value(reduced(w, dtypes[d], MUSTER_SUM, layout, n), 83);
            }
    return MUSTER_OK;
}

/* Terms whose sums f32 does not hold, though it holds the result. */
static muster_status sum_large_terms(muster_worker *w, void *argument) {
    (void)argument;
    for (int layout = 0; layout < LAYOUTS; layout++)
        for (int i = 0; i < LENGTHS; i++) {
            const int64_t n = lengths[i];
            if (layout == GAPS && n % 2) continue;
            for (int64_t at = 0; at < n; at++) terms[at] = FLT_MAX;
            assert_value(reduced(w, MUSTER_F32, MUSTER_AVG, layout, n), FLT_MAX);
            const float most = muster_bf16_to_f32(0x7f7f);
            for (int64_t at = 0; at < n; at++) terms[at] = -most;
            assert_value(reduced(w, MUSTER_BF16, MUSTER_AVG, layout, n), -most);
            for (int64_t at = 0; at < n; at++) terms[at] = 65504;
            assert_value(reduced(w, MUSTER_F16, MUSTER_AVG, layout, n), 65504);
            for (int64_t at = 0; at < n; at++) terms[at] = at < n / 2 ? FLT_MAX : at < n / 2 * 2 ? -FLT_MAX : 0;
            assert_value(reduced(w, MUSTER_F32, MUSTER_SUM, layout, n), 0);
        }
    return MUSTER_OK;
}

static muster_status sum_subnormal_terms(muster_worker *w, void *argument) {
    (void)argument;
    for (int layout = 0; layout < LAYOUTS; layout++)
        for (int i = 0; i < LENGTHS; i++) {
            const int64_t n = lengths[i];
            if (layout == GAPS && n % 2) continue;
            for (int64_t at = 0; at < n; at++) terms[at] = at % 2 ? 0x1p-149f : 0x1p-140f;
            const float exact = (float)((double)(n - n / 2) * 0x1p-140 + (double)(n / 2) * 0x1p-149);
            assert_value(reduced(w, MUSTER_F32, MUSTER_SUM, layout, n), exact);
        }
    return MUSTER_OK;
}

/* What is not finite stays so; products and the largest and smallest pass single precision's
 * bounds. */
static muster_status reduce_special_terms(muster_worker *w, void *argument) {
    static const muster_dtype dtypes[] = {MUSTER_F16, MUSTER_BF16, MUSTER_F32};
    (void)argument;
    for (int d = 0; d < 3; d++)
        for (int layout = 0; layout < LAYOUTS; layout++)
            for (int i = 0; i < LENGTHS; i++) {
                const int64_t n = lengths[i];
                const muster_dtype dtype = dtypes[d];
                if (n < 2 || (layout == GAPS && n % 2)) continue;
                for (int64_t at = 0; at < n; at++) terms[at] = 1;
                terms[n - 1] = INFINITY;
                assert_true(reduced(w, dtype, MUSTER_SUM, layout, n) == INFINITY);
                assert_true(reduced(w, dtype, MUSTER_MAX, layout, n) == INFINITY);
                assert_value(reduced(w, dtype, MUSTER_MIN, layout, n), 1);
                terms[0] = -INFINITY;
                assert_true(isnan(reduced(w, dtype, MUSTER_SUM, layout, n)));
                assert_true(reduced(w, dtype, MUSTER_MIN, layout, n) == -INFINITY);
                assert_true(reduced(w, dtype, MUSTER_PROD, layout, n) == -INFINITY);
                terms[n / 2] = NAN;
                for (muster_reduction op = MUSTER_SUM; op <= MUSTER_AVG; op++) assert_true(isnan(reduced(w, dtype, op, layout, n)));
            }
    return MUSTER_OK;
}

/* The factors are so far apart that their products are within f64 alone. */
static muster_status multiply_large_and_small_factors(muster_worker *w, void *argument) {
    (void)argument;
    for (int layout = 0; layout < LAYOUTS; layout++)
        for (int i = 0; i < 7; i++) {
            const int64_t n = lengths[i];
            if (layout == GAPS && n % 2) continue;
            double exact = 1;
            for (int64_t at = 0; at < n; at++) exact *= (double)(terms[at] = at % 4 < 2 ? 0x1p100f : 0x1p-100f);
            assert_value(reduced(w, MUSTER_F32, MUSTER_PROD, layout, n), (float)exact);
        }
    return MUSTER_OK;
}

static float dot(muster_worker *w, const float *x, const float *y, int64_t n) {
    float result;
    muster_tensor a, b;
    assert_ok(muster_worker_scratch(w, MUSTER_F32, 1, &n, &a));
    assert_ok(muster_worker_scratch(w, MUSTER_F32, 1, &n, &b));
    muster_tensor product;
    assert_ok(muster_worker_scratch(w, MUSTER_F32, 0, NULL, &product));
    assert_ok(muster_worker_write(w, muster_tensor_make(MUSTER_F32, (void *)(uintptr_t)x, 1, &n), a));
    assert_ok(muster_worker_write(w, muster_tensor_make(MUSTER_F32, (void *)(uintptr_t)y, 1, &n), b));
    assert_ok(muster_dot(w, a, b, product));
    assert_ok(muster_worker_read(w, product, muster_f32(&result)));
    compared++;
    return result;
}

/* The products of two factors of 24 bits have 48 bits, all of which have to cancel. */
static muster_status multiply_cancelling_vectors(muster_worker *w, void *argument) {
    static float x[MOST], y[MOST];
    (void)argument;
    for (int i = 0; i < LENGTHS; i++) {
        const int64_t n = lengths[i];
        double exact = 0;
        for (int64_t at = 0; at < n; at++) {
            const bool second = at >= (n + 1) / 2;
            x[at] = second ? x[n - 1 - at] : (float)(1 + 2 * ops_random(1 << 23));
            y[at] = second ? -y[n - 1 - at] : (float)(1 + 2 * ops_random(1 << 23));
            if (at % 16 == 3 && !second) y[at] = 0, x[at] = 1;
            terms[at] = x[at] * y[at];
        }
        if (n % 2) exact = (double)x[n / 2] * (double)y[n / 2];
        assert_sum(dot(w, x, y, n), exact, n, ONE);
        for (int64_t at = 0; at < n; at++) x[at] = 0x1p127f, y[at] = at < n / 2 ? 0x1p127f : at < n / 2 * 2 ? -0x1p127f : 0;
        assert_value(dot(w, x, y, n), 0);
        for (int64_t at = 0; at < n; at++) x[at] = 1, y[at] = 0;
        y[0] += 64, y[n / 2] += 16, y[n - 1] += 3;
        assert_value(dot(w, x, y, n), 83);
    }
    return MUSTER_OK;
}

/* Squares, and what their rounding loses, that f32 does not have, or only as subnormal numbers. */
static muster_status square_small_terms(muster_worker *w, void *argument) {
    static const int exponents[] = {-149, -126, -75, -70, -63, -60, -52, -50, -49};
    static float x[MOST];
    (void)argument;
    for (int e = 0; e < 9; e++)
        for (int i = 0; i < LENGTHS; i++) {
            const int64_t n = lengths[i];
            double exact = 0, received;
            for (int64_t at = 0; at < n; at++) {
                x[at] = ldexpf((float)(2 * ops_random(1 << 22) + 1) * (at % 2 ? 1 : -1),
                               exponents[e] < -126 ? exponents[e] : exponents[e] - 22);
                exact += (double)x[at] * (double)x[at];
            }
            muster_tensor all, result;
            MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &n, &all));
            MUSTER_TRY(muster_worker_scratch(w, MUSTER_F64, 0, NULL, &result));
            assert_ok(muster_worker_write(w, muster_f32(x, n), all));
            assert_ok(mst_squares_launch(w, &all, &result));
            assert_ok(muster_worker_read(w, result, muster_f64(&received)));
            if (!(fabs(received - exact) <= exact * 0x1p-40))
                fail_msg("%lld squares of about 2^%d: expected %.17g, received %.17g", (long long)n, 2 * exponents[e], exact, received);
            compared++;
        }
    return MUSTER_OK;
}

/* Equal logits: the loss is the logarithm of the number of classes. */
static muster_status loss_of_equal_logits(muster_worker *w, void *argument) {
    static float logits[MOST];
    static int32_t label;
    (void)argument;
    for (int i = 0; i < LENGTHS; i++) {
        const int64_t k = lengths[i];
        float loss;
        for (int64_t j = 0; j < k; j++) logits[j] = -3;
        label = (int32_t)(k - 1);
        muster_tensor z;
        MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 2, (const int64_t[]){1, k}, &z));
        muster_tensor of_row;
        MUSTER_TRY(muster_worker_scratch(w, MUSTER_I32, 1, (const int64_t[]){1}, &of_row));
        muster_tensor result;
        MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 0, NULL, &result));
        assert_ok(muster_worker_write(w, muster_f32(logits, 1, k), z));
        assert_ok(muster_worker_write(w, muster_i32(&label, 1), of_row));
        assert_ok(muster_softmax_cross_entropy(w, z, of_row, 1, result, muster_tensor_none(), muster_tensor_none()));
        assert_ok(muster_worker_read(w, result, muster_f32(&loss)));
        ops_assert_near((double)loss, log((double)k), 1e-6);
        compared++;
    }
    return MUSTER_OK;
}

static void run(mst_task body, int64_t results) {
    compared = 0;
    assert_ok(ops_run_on("discrete", body, NULL));
    assert_int_equal(compared, results);
}

/* Lengths of all layouts. */
enum { PLACES = 2 * LENGTHS + EVEN_LENGTHS };

#define TEST(name, body, results)           \
    static void test_##name(void **state) { \
        (void)state;                        \
        run(body, results);                 \
    }
TEST(terms_that_cancel_leave_the_exact_rest, sum_cancelling_terms, PLACES * 2)
TEST(every_term_is_summed_once, count_terms, PLACES * 6)
TEST(sums_beyond_single_precision_are_held, sum_large_terms, PLACES * 4)
TEST(subnormal_terms_are_not_flushed, sum_subnormal_terms, PLACES)
TEST(infinities_and_nan_stay, reduce_special_terms, (PLACES - 2) * 3 * 11)
TEST(products_pass_the_bounds_of_single_precision, multiply_large_and_small_factors, 7 + 7 + 3)
TEST(dot_products_that_cancel_leave_the_exact_rest, multiply_cancelling_vectors, LENGTHS * 3)
TEST(squares_of_small_terms_are_held, square_small_terms, 9 * LENGTHS)
TEST(a_loss_sums_all_classes, loss_of_equal_logits, LENGTHS)

int main(void) {
    if (mst_discrete_register() != MUSTER_OK) return 1;
    ops_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_terms_that_cancel_leave_the_exact_rest),
        cmocka_unit_test(test_every_term_is_summed_once),
        cmocka_unit_test(test_sums_beyond_single_precision_are_held),
        cmocka_unit_test(test_subnormal_terms_are_not_flushed),
        cmocka_unit_test(test_infinities_and_nan_stay),
        cmocka_unit_test(test_products_pass_the_bounds_of_single_precision),
        cmocka_unit_test(test_dot_products_that_cancel_leave_the_exact_rest),
        cmocka_unit_test(test_squares_of_small_terms_are_held),
        cmocka_unit_test(test_a_loss_sums_all_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
