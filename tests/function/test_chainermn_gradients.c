/* What ChainerMN's communicators do with the parameters and gradients of a model, on 1 to 4 ranks
 * in every layout: broadcasts, means, gradients that are missing, infinite, or large halves. */
#include "function_ranks.h"

#include <math.h>
#include <stdlib.h>

/* Rank r has the values r, r + 1 and r + 2 in them. */
enum { MODEL = 3 };
static const int64_t shape_a[] = {3, 2}, shape_b[] = {4, 3}, shape_c[] = {5};
static const muster_dtype floats[] = {MUSTER_F16, MUSTER_F32, MUSTER_F64};
enum { FLOATS = sizeof floats / sizeof *floats };

static muster_status make_model(muster_worker *worker, muster_dtype dtype, int32_t rank, muster_tensor model[MODEL]) {
    MUSTER_TRY(ranks_filled(worker, dtype, 2, shape_a, rank, &model[0]));
    MUSTER_TRY(ranks_filled(worker, dtype, 2, shape_b, rank + 1, &model[1]));
    return ranks_filled(worker, dtype, 1, shape_c, rank + 2, &model[2]);
}

typedef muster_status (*expectation)(muster_worker *worker, muster_tensor tensor, double value, const char *what);
static muster_status expect_model(muster_worker *worker, const muster_tensor model[MODEL], double a, expectation expect) {
    MUSTER_TRY(expect(worker, model[0], a, "a"));
    MUSTER_TRY(expect(worker, model[1], a + 1, "b"));
    return expect(worker, model[2], a + 2, "c");
}

/* The mean of the first `count` tensors, each alone or all in one group. */
static muster_status mean(muster_worker *worker, const muster_tensor *tensors, int32_t count, bool together) {
    if (together) MUSTER_TRY(muster_worker_group_begin(worker, NULL));
    for (int32_t i = 0; i < count; i++) MUSTER_TRY(muster_worker_all_reduce(worker, NULL, MUSTER_AVG, tensors[i], tensors[i]));
    return together ? muster_worker_group_end(worker, NULL) : MUSTER_OK;
}

static double base_of(int32_t size) { return (size - 1) / 2.0; }

/* ---- means ---- */

static muster_status average_gradients(muster_worker *worker, int32_t rank, int32_t size) {
    for (int32_t i = 0; i < FLOATS; i++)
        for (int32_t together = 0; together < 2; together++)
            for (int32_t repeat = 0; repeat < 2; repeat++) {
                muster_tensor model[MODEL];
                MUSTER_TRY(make_model(worker, floats[i], rank, model));
                MUSTER_TRY(mean(worker, model, MODEL, together));
                MUSTER_TRY(expect_model(worker, model, base_of(size), ranks_expect_mean));
            }
    return MUSTER_OK;
}

static void test_gradients_are_averaged_over_the_ranks(void **state) {
    (void)state;
    ranks_run(average_gradients);
}

static muster_status broadcast_parameters(muster_worker *worker, int32_t rank, int32_t size) {
    (void)size;
    for (int32_t i = 0; i < FLOATS; i++)
        for (int32_t together = 0; together < 2; together++) {
            muster_tensor model[MODEL];
            MUSTER_TRY(make_model(worker, floats[i], rank, model));
            if (together) MUSTER_TRY(muster_worker_group_begin(worker, NULL));
            for (int32_t k = 0; k < MODEL; k++) MUSTER_TRY(muster_worker_broadcast(worker, NULL, 0, model[k], model[k]));
            if (together) MUSTER_TRY(muster_worker_group_end(worker, NULL));
            MUSTER_TRY(expect_model(worker, model, 0, ranks_expect_all));
        }
    return MUSTER_OK;
}

static void test_parameters_of_rank_0_reach_all(void **state) {
    (void)state;
    ranks_run(broadcast_parameters);
}

/* ---- gradients that are missing ---- */

static muster_status average_without_c(muster_worker *worker, int32_t rank, int32_t size) {
    for (int32_t together = 0; together < 2; together++) {
        muster_tensor model[MODEL];
        MUSTER_TRY(make_model(worker, MUSTER_F32, rank, model));
        MUSTER_TRY(mean(worker, model, MODEL - 1, together));
        MUSTER_TRY(ranks_expect_mean(worker, model[0], base_of(size), "a"));
        MUSTER_TRY(ranks_expect_mean(worker, model[1], base_of(size) + 1, "b"));
        MUSTER_TRY(ranks_expect_all(worker, model[2], rank + 2, "c, which is not averaged"));
    }
    return MUSTER_OK;
}

static void test_a_gradient_that_no_rank_has_is_left_alone(void **state) {
    (void)state;
    ranks_run(average_without_c);
}

static muster_status average_zeros_where_c_is_missing(muster_worker *worker, int32_t rank, int32_t size) {
    static const double golden[RANKS_MOST] = {2, 1, 2, 1.5}; /* by the number of ranks */
    for (int32_t together = 0; together < 2; together++) {
        muster_tensor model[MODEL];
        MUSTER_TRY(make_model(worker, MUSTER_F32, rank, model));
        if (rank % 2) MUSTER_TRY(muster_fill(worker, 0, model[2]));
        MUSTER_TRY(mean(worker, model, MODEL, together));
        MUSTER_TRY(ranks_expect_mean(worker, model[0], base_of(size), "a"));
        MUSTER_TRY(ranks_expect_mean(worker, model[1], base_of(size) + 1, "b"));
        MUSTER_TRY(ranks_expect_mean(worker, model[2], golden[size - 1], "c, which even ranks have"));
    }
    return MUSTER_OK;
}

static void test_zeros_take_the_place_of_missing_gradients(void **state) {
    (void)state;
    ranks_run(average_zeros_where_c_is_missing);
}

/* Odd ranks have no gradient of c, and put two tensors into the group. */
static muster_status average_c_on_even_ranks(muster_worker *worker, int32_t rank, int32_t size) {
    muster_tensor model[MODEL];
    (void)size;
    MUSTER_TRY(make_model(worker, MUSTER_F32, rank, model));
    return mean(worker, model, rank % 2 ? MODEL - 1 : MODEL, true);
}

static void test_a_gradient_that_one_rank_lacks_is_refused_on_all(void **state) {
    (void)state;
    ranks_refused(average_c_on_even_ranks, MUSTER_INVALID_ARGUMENT, "called group of 2, rank 0");
}

/* The same, each tensor alone: rank 1 has a gradient of another shape. */
static muster_status average_other_shapes(muster_worker *worker, int32_t rank, int32_t size) {
    const int64_t other[] = {4};
    muster_tensor c;
    (void)size;
    MUSTER_TRY(ranks_filled(worker, MUSTER_F32, 1, rank == 1 ? other : shape_c, rank, &c));
    return mean(worker, &c, 1, false);
}

static void test_gradients_of_other_shapes_are_refused_on_all(void **state) {
    (void)state;
    ranks_refused(average_other_shapes, MUSTER_INVALID_ARGUMENT, "called all_reduce avg of 4 f32, rank 0");
}

/* ---- large halves ---- */

static muster_status average_large_halves(muster_worker *worker, int32_t rank, int32_t size) {
    (void)rank, (void)size;
    for (int32_t together = 0; together < 2; together++) {
        muster_tensor x;
        MUSTER_TRY(ranks_filled(worker, MUSTER_F16, 2, shape_b, 40000, &x));
        const double held = 40000; /* a half holds it, but not twice it */
        MUSTER_TRY(mean(worker, &x, 1, together));
        MUSTER_TRY(ranks_expect_all(worker, x, held, "the mean"));
    }
    return MUSTER_OK;
}

static void test_the_mean_of_large_halves_does_not_overflow(void **state) {
    (void)state;
    ranks_run(average_large_halves);
}

/* ---- numbers that are not finite ---- */

/* In one element of the last of three tensors, on one rank. */
static double bad_number;
static int32_t bad_rank, bad_together;

static muster_status average_a_bad_number(muster_worker *worker, int32_t rank, int32_t size) {
    muster_tensor model[MODEL];
    MUSTER_TRY(make_model(worker, MUSTER_F32, rank, model));
    if (rank == bad_rank % size) MUSTER_TRY(muster_fill(worker, bad_number, muster_tensor_slice(model[2], 3, 4)));
    return mean(worker, model, MODEL, bad_together);
}

static void test_a_gradient_that_is_not_finite_is_refused_on_all_where_it_is_checked(void **state) {
    static const char *const texts[] = {"received f32 NaN in element 3 of 5 (rank ", "received f32 infinite in element 3 of 5 (rank "};
    char text[160];
    int cases = 0;
    (void)state;
    setenv("MUSTER_CHECK", "1", 1);
    for (int32_t infinite = 0; infinite < 2; infinite++)
        for (bad_together = 0; bad_together < 2; bad_together++)
            for (bad_rank = 0; bad_rank < 2; bad_rank++, cases++) {
                bad_number = infinite ? -INFINITY : NAN;
                snprintf(text, sizeof text, "muster_worker_all_reduce: input: expected finite numbers (MUSTER_CHECK=1), %s%d)",
                         texts[infinite], (int)bad_rank);
                ranks_refused(average_a_bad_number, MUSTER_INVALID_ARGUMENT, text);
            }
    unsetenv("MUSTER_CHECK");
    assert_int_equal(cases, 8);
}

static muster_status average_without_checks(muster_worker *worker, int32_t rank, int32_t size) {
    muster_tensor x, finite;
    MUSTER_TRY(ranks_filled(worker, MUSTER_F32, 1, shape_c, rank == size - 1 ? NAN : 1, &x));
    MUSTER_TRY(mean(worker, &x, 1, false));
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_BOOL, 1, shape_c, &finite));
    MUSTER_TRY(muster_predicate_op(worker, MUSTER_ISNAN, x, finite));
    return ranks_expect_all(worker, finite, 1, "is it NaN?");
}

static void test_a_gradient_that_is_not_finite_spreads_where_it_is_not_checked(void **state) {
    (void)state;
    ranks_run(average_without_checks);
}

static muster_status sum_large_numbers(muster_worker *worker, int32_t rank, int32_t size) {
    muster_tensor x;
    (void)rank, (void)size;
    MUSTER_TRY(ranks_filled(worker, MUSTER_F16, 1, shape_c, 40000, &x));
    return muster_worker_all_reduce(worker, NULL, MUSTER_SUM, x, x);
}

static muster_status sum_finite_numbers(muster_worker *worker, int32_t rank, int32_t size) {
    MUSTER_TRY(average_gradients(worker, rank, size));
    muster_tensor x;
    MUSTER_TRY(ranks_filled(worker, MUSTER_F32, 1, shape_c, rank ? -INFINITY : 3, &x)); /* a maximum may have these */
    MUSTER_TRY(muster_worker_all_reduce(worker, NULL, MUSTER_MAX, x, x));
    return ranks_expect_all(worker, x, 3, "the maximum");
}

static void test_a_sum_that_overflows_is_refused_on_all_where_it_is_checked(void **state) {
    (void)state;
    setenv("MUSTER_CHECK", "1", 1);
    ranks_refused(sum_large_numbers, MUSTER_OVERFLOW,
                  "muster_worker_all_reduce: output: expected finite numbers (MUSTER_CHECK=1), received f16 infinite in element 0 of 5, "
                  "though the inputs of all ranks are finite");
    ranks_run(sum_finite_numbers);
    unsetenv("MUSTER_CHECK");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_are_averaged_over_the_ranks),
        cmocka_unit_test(test_parameters_of_rank_0_reach_all),
        cmocka_unit_test(test_a_gradient_that_no_rank_has_is_left_alone),
        cmocka_unit_test(test_zeros_take_the_place_of_missing_gradients),
        cmocka_unit_test(test_a_gradient_that_one_rank_lacks_is_refused_on_all),
        cmocka_unit_test(test_gradients_of_other_shapes_are_refused_on_all),
        cmocka_unit_test(test_a_gradient_that_is_not_finite_is_refused_on_all_where_it_is_checked),
        cmocka_unit_test(test_a_gradient_that_is_not_finite_spreads_where_it_is_not_checked),
        cmocka_unit_test(test_a_sum_that_overflows_is_refused_on_all_where_it_is_checked),
        cmocka_unit_test(test_the_mean_of_large_halves_does_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
