/* What ChainerMN calls allreduce_grad_dtype: gradients travel between processes as halves, on 1 to
 * 4 ranks in every layout, by each name of a communicator. */
#include "collectives_wire.h"
#include "function_ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What MUSTER_WIRE_DTYPE says in the test that runs now. */
static muster_dtype wire;

static void run_with(muster_dtype dtype, ranks_body body) {
    wire = dtype;
    if (dtype) setenv("MUSTER_WIRE_DTYPE", muster_dtype_name(dtype), 1);
    ranks_run(body);
    unsetenv("MUSTER_WIRE_DTYPE");
}

static bool is_one_process(void) { return ranks_current_layout()->processes == 1; }

/* ---- the dtype that travels ---- */

/* Two parameters of a model: all of f32, all of f16, and f16 with f32. */
enum { MODELS = 3, PARAMETERS = 2, ELEMENTS = 20 };
static const muster_dtype models[MODELS][PARAMETERS] = {{MUSTER_F32, MUSTER_F32}, {MUSTER_F16, MUSTER_F16}, {MUSTER_F16, MUSTER_F32}};
static int32_t model;

/* Such that f32 and each half give other averages. */
static double gradient_of(muster_dtype dtype, int32_t rank, int64_t i) {
    return wire_rounded(dtype, 1 + ldexp((double)((i * 7 + rank * rank * 5) % 23), dtype == MUSTER_F16 ? -10 : -13));
}

/* In one process nothing travels: what is not rounded on its way is near enough. */
static double mean_of(muster_dtype dtype, int64_t i) {
    const ranks_layout *layout = ranks_current_layout();
    const char *name = ranks_current_name();
    double sum = 0;
    for (int32_t r = 0; r < layout->ranks; r++) sum += gradient_of(dtype, r, i);
    if (is_one_process()) return wire_rounded(dtype, sum / layout->ranks);
    wire_element e = {.processes = layout->processes, .dtype = dtype, .average = true};
    e.wire = wire == MUSTER_DTYPE_NONE ? MUSTER_F32 : wire;
    e.apart = name && (!strcmp(name, "naive") || !strcmp(name, "flat"));
    memcpy(e.each, layout->each, sizeof layout->each);
    for (int32_t r = 0; r < layout->ranks; r++) e.values[r] = gradient_of(dtype, r, i);
    return wire_result(&e);
}

static muster_status average_model(muster_worker *worker, int32_t rank, int32_t size) {
    const int64_t shape[] = {ELEMENTS};
    (void)size;
    for (int32_t together = 0; together < 2; together++) {
        muster_tensor x[PARAMETERS];
        for (int32_t k = 0; k < PARAMETERS; k++) {
            double values[ELEMENTS];
            for (int64_t i = 0; i < ELEMENTS; i++) values[i] = gradient_of(models[model][k], rank, i);
            MUSTER_TRY(ranks_given(worker, models[model][k], 1, shape, values, &x[k]));
        }
        if (together) MUSTER_TRY(muster_worker_group_begin(worker, NULL));
        for (int32_t k = 0; k < PARAMETERS; k++) MUSTER_TRY(muster_worker_all_reduce(worker, NULL, MUSTER_AVG, x[k], x[k]));
        if (together) MUSTER_TRY(muster_worker_group_end(worker, NULL));
        for (int32_t k = 0; k < PARAMETERS; k++) {
            double expected[ELEMENTS];
            for (int64_t i = 0; i < ELEMENTS; i++) expected[i] = mean_of(models[model][k], i);
            MUSTER_TRY((is_one_process() ? ranks_expect_means : ranks_expect)(worker, x[k], expected, k ? "b" : "W"));
        }
    }
    return MUSTER_OK;
}

/* Without a wire dtype halves travel in f32, too, in which they are summed: so do those of
 * ChainerMN's communicators, but for pure_nccl. */
static void test_gradients_travel_in_the_dtype_that_is_asked_for(void **state) {
    static const muster_dtype wires[] = {MUSTER_DTYPE_NONE, MUSTER_F16, MUSTER_F32, MUSTER_BF16};
    int32_t cells = 0;
    (void)state;
    for (model = 0; model < MODELS; model++)
        for (size_t w = 0; w < sizeof wires / sizeof *wires; w++, cells++) run_with(wires[w], average_model);
    assert_int_equal(cells, 12);
}

/* The values above tell the cells apart: else the test would not see which dtype travels. */
static void test_the_averages_tell_which_dtype_travels(void **state) {
    static const ranks_layout two_by_two = {2, 4, {2, 2}};
    const muster_dtype travelling[] = {MUSTER_F32, MUSTER_F16, MUSTER_BF16};
    int32_t different = 0;
    (void)state;
    for (int32_t d = MUSTER_F16; d <= MUSTER_F32; d += 2)
        for (int32_t a = 0; a < 3; a++)
            for (int32_t b = 0; b < a; b++) {
                bool differs = false;
                for (int64_t i = 0; i < ELEMENTS; i++) {
                    wire_element e = {.processes = 2, .each = {2, 2}, .dtype = (muster_dtype)d, .average = true};
                    for (int32_t r = 0; r < two_by_two.ranks; r++) e.values[r] = gradient_of(e.dtype, r, i);
                    e.wire = travelling[a];
                    const double one = wire_result(&e);
                    e.wire = travelling[b];
                    differs |= one != wire_result(&e);
                }
                different += differs;
            }
    assert_int_equal(different, 6);
}

/* ---- large and small gradients ---- */

static muster_status average_extremes(muster_worker *worker, int32_t rank, int32_t size) {
    const int64_t shape[] = {2};
    /* f16 holds the first, but not twice it, and the second, but not half of it */
    const double extremes[] = {40000, ldexp(1, -24)};
    muster_tensor x, y;
    if (is_one_process()) return MUSTER_OK;
    MUSTER_TRY(ranks_given(worker, MUSTER_F32, 1, shape, extremes, &x));
    MUSTER_TRY(muster_worker_all_reduce(worker, NULL, MUSTER_AVG, x, x));
    MUSTER_TRY(ranks_expect(worker, x, extremes, "the mean"));
    /* All of the weight on one rank, then spread unequally. */
    for (int32_t heavy = 0; heavy < size; heavy++) {
        MUSTER_TRY(ranks_given(worker, MUSTER_F32, 1, shape, extremes, &y));
        MUSTER_TRY(muster_worker_all_reduce_weighted(worker, NULL, rank == heavy ? 3 : 0, y, y));
        MUSTER_TRY(ranks_expect(worker, y, extremes, "the mean of one rank"));
    }
    MUSTER_TRY(ranks_given(worker, MUSTER_F32, 1, shape, extremes, &y));
    MUSTER_TRY(muster_worker_all_reduce_weighted(worker, NULL, rank + 0.5, y, y));
    return ranks_expect(worker, y, extremes, "the weighted mean");
}

static void test_means_neither_overflow_nor_vanish(void **state) {
    (void)state;
    run_with(MUSTER_F16, average_extremes);
}

static muster_status sum_too_much(muster_worker *worker, int32_t rank, int32_t size) {
    const int64_t shape[] = {3};
    muster_tensor x;
    (void)rank;
    MUSTER_TRY(ranks_filled(worker, MUSTER_F32, 1, shape, 40000, &x));
    if (is_one_process()) {
        MUSTER_TRY(muster_worker_all_reduce(worker, NULL, MUSTER_SUM, x, x));
        return ranks_expect_all(worker, x, 40000.0 * size, "the sum in one process");
    }
    const muster_status status = muster_worker_all_reduce(worker, NULL, MUSTER_SUM, x, x);
    if (status == MUSTER_OVERFLOW && strstr(muster_last_error(), "received f32 infinite in element 0 of 3, though the inputs"))
        return MUSTER_OK;
    return muster_fail(MUSTER_USER, "expected OVERFLOW of a sum that f16 cannot hold");
}

static void test_a_sum_that_f16_cannot_hold_is_refused_where_it_is_checked(void **state) {
    (void)state;
    setenv("MUSTER_CHECK", "1", 1);
    run_with(MUSTER_F16, sum_too_much);
    unsetenv("MUSTER_CHECK");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_travel_in_the_dtype_that_is_asked_for),
        cmocka_unit_test(test_the_averages_tell_which_dtype_travels),
        cmocka_unit_test(test_means_neither_overflow_nor_vanish),
        cmocka_unit_test(test_a_sum_that_f16_cannot_hold_is_refused_where_it_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
