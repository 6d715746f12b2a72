/* The fused reduction and update: with every algorithm the parameters go the way that separate
 * operations would take, on every number of ranks. */
#include "base_check.h"
#include "collectives_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 70001, STEPS = 3 };

/* Whole numbers and powers of two: every order and every rounding gives the same. */
static double gradient_at(int32_t rank, int32_t step, int64_t i) { return (double)((i * 7 + rank * 3 + step) % 16 - 8); }

typedef struct training {
    muster_dtype dtype;
    int64_t count;
} training;

static muster_status write_numbers(muster_worker *w, muster_tensor to, const double *values, void *host) {
    mst_convert(to.dtype, host, MUSTER_F64, values, muster_tensor_count(to));
    return muster_worker_write(w, muster_tensor_make(to.dtype, host, 1, to.shape), to);
}

static muster_status step(muster_worker *w, int32_t number, muster_tensor g, muster_tensor v, muster_tensor p, double *values, void *host) {
    for (int64_t i = 0; i < g.shape[0]; i++) values[i] = gradient_at(muster_worker_rank(w), number, i);
    MUSTER_TRY(write_numbers(w, g, values, host));
    return muster_worker_all_reduce_momentum(w, NULL, -0.5, g, 0.5, v, p);
}

static muster_status train(muster_worker *w, void *argument) {
    training *t = argument;
    muster_tensor g, v;
    MUSTER_TRY(muster_worker_scratch(w, t->dtype, 1, &t->count, &g));
    MUSTER_TRY(muster_worker_scratch(w, t->dtype, 1, &t->count, &v));
    muster_tensor p;
    MUSTER_TRY(muster_worker_scratch(w, t->dtype, 1, &t->count, &p));
    double *values = calloc((size_t)t->count + 1, sizeof *values);
    void *host = malloc((size_t)t->count * 8 + 8);
    muster_status status = write_numbers(w, v, values, host);
    if (status == MUSTER_OK) status = write_numbers(w, p, values, host);
    for (int32_t s = 0; s < STEPS && status == MUSTER_OK; s++) status = step(w, s, g, v, p, values, host);
    if (status == MUSTER_OK) status = muster_worker_read(w, p, muster_tensor_make(t->dtype, host, 1, &t->count));
    if (status == MUSTER_OK) {
        mst_convert(MUSTER_F64, values, t->dtype, host, t->count);
        for (int64_t i = 0; i < t->count; i++) {
            double velocity = 0, parameter = 0;
            for (int32_t s = 0; s < STEPS; s++) {
                double sum = 0;
                for (int32_t r = 0; r < muster_worker_size(w); r++) sum += gradient_at(r, s, i);
                velocity = 0.5 * velocity - 0.5 * sum;
                parameter += velocity;
            }
            if (values[i] == parameter) continue;
            status = mst_error(MUSTER_USER, "element %lld is %g, expected %g", (long long)i, values[i], parameter);
            break;
        }
    }
    free(host);
    free(values);
    return status;
}

static void every_algorithm_takes_the_steps_of_separate_operations(void **state) {
    (void)state;
    static const char *const algorithms[] = {NULL, "reference", "inline", "direct"};
    static const int32_t groups[][2] = {{1, 0}, {2, 0}, {3, 0}, {5, 0}, {0, 1}, {0, 2}, {2, 1}};
    static const muster_dtype dtypes[] = {MUSTER_F32, MUSTER_F64, MUSTER_F16, MUSTER_BF16};
    static const int64_t counts[] = {0, 1, 100, COUNT};
    for (size_t a = 0; a < 4; a++) {
        for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
            collectives_pool c;
            collectives_open_with(&c, groups[g][0], groups[g][1], algorithms[a], 60LL * 1000000000);
            for (size_t d = 0; d < 4; d++) {
                for (size_t n = 0; n < 4; n++) assert_ok(collectives_run(&c, train, &(training){dtypes[d], counts[n]}));
            }
            collectives_close(&c);
        }
    }
}

static muster_status with_beta(muster_worker *w, double beta) {
    int64_t count = 4;
    mst_worker_scratch_rewind(w);
    muster_tensor g, v, p;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &g));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &v));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &p));
    return muster_worker_all_reduce_momentum(w, NULL, 1, g, beta, v, p);
}

static muster_status different_betas(muster_worker *w, void *argument) {
    (void)argument;
    return with_beta(w, muster_worker_rank(w) == 0 ? 0.25 : 0.5);
}

static void different_betas_are_found(void **state) {
    (void)state;
    collectives_pool c;
    collectives_open(&c, 2, 0);
    assert_refused(collectives_run(&c, different_betas, NULL), MUSTER_INVALID_ARGUMENT,
                   "collective mismatch: rank 1 called all_reduce_momentum sum of 4 f32, alpha 1, beta 0.5, rank 0 called "
                   "all_reduce_momentum sum of 4 f32, "
                   "alpha 1, beta 0.25");
    collectives_close(&c);
}

/* After which every rank goes on, and fills the place where the others may be reading its beta. */
static muster_status betas_again(muster_worker *w, void *argument) {
    for (int32_t i = 0; i < 200; i++) {
        assert_refused(different_betas(w, argument), MUSTER_INVALID_ARGUMENT,
                       "collective mismatch: rank 1 called all_reduce_momentum sum of 4 f32, alpha 1, beta 0.5, rank 0 called");
        assert_non_null(strstr(muster_last_error(), "beta 0.25"));
        MUSTER_TRY(with_beta(w, i));
    }
    return MUSTER_OK;
}

static void a_mismatch_is_told_with_both_betas_whatever_comes_after(void **state) {
    (void)state;
    collectives_pool c;
    collectives_open(&c, 3, 0);
    assert_ok(collectives_run(&c, betas_again, NULL));
    collectives_close(&c);
}

static muster_status refusals(muster_worker *w, void *argument) {
    (void)argument;
    int64_t count = 4, more = 5;
    muster_tensor g, v, p;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &g));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &v));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &p));
    muster_tensor longer, whole;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &more, &longer));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_I32, 1, &count, &whole));
    assert_refused(muster_worker_all_reduce_momentum(w, NULL, 1, g, 0.9, longer, p), MUSTER_SHAPE_MISMATCH,
                   "velocity: expected 4 elements as the parameter, received 5");
    assert_refused(muster_worker_all_reduce_momentum(w, NULL, 1, g, 0.9, g, p), MUSTER_INVALID_ARGUMENT, "received an overlap");
    assert_refused(muster_worker_all_reduce_momentum(w, NULL, 1, g, 0.9, p, p), MUSTER_INVALID_ARGUMENT, "received an overlap");
    assert_refused(muster_worker_all_reduce_momentum(w, NULL, 1, whole, 0.9, whole, whole), MUSTER_INVALID_ARGUMENT, "received an overlap");
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    assert_refused(muster_worker_all_reduce_momentum(w, NULL, 1, g, 0.9, v, p), MUSTER_BAD_STATE, "expected no open group");
    return muster_worker_group_end(w, NULL);
}

static muster_status argument_names(muster_worker *w, void *argument) {
    (void)argument;
    int64_t count = 4;
    muster_tensor x, y, z;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &x));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &y));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &z));
    muster_tensor other;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F64, 1, &count, &other));
    muster_tensor none = muster_tensor_none();
#define AXPY "muster_worker_all_reduce_axpy: "
#define MOMENTUM "muster_worker_all_reduce_momentum: "
    assert_refused(muster_worker_all_reduce_axpy(w, NULL, 1, none, y), MUSTER_INVALID_ARGUMENT, AXPY "gradient: ");
    assert_refused(muster_worker_all_reduce_axpy(w, NULL, 1, x, none), MUSTER_INVALID_ARGUMENT, AXPY "parameter: ");
    assert_refused(muster_worker_all_reduce_axpy(w, NULL, 1, x, other), MUSTER_DTYPE_MISMATCH,
                   AXPY "parameter: expected dtype f32 as the gradient, received f64");
    assert_refused(muster_worker_all_reduce_axpy(w, NULL, 1, x, x), MUSTER_INVALID_ARGUMENT,
                   AXPY "parameter: expected the gradient's memory");
    assert_refused(muster_worker_all_reduce_momentum(w, NULL, 1, none, 1, y, z), MUSTER_INVALID_ARGUMENT, MOMENTUM "gradient: ");
    assert_refused(muster_worker_all_reduce_momentum(w, NULL, 1, x, 1, none, z), MUSTER_INVALID_ARGUMENT, MOMENTUM "velocity: ");
    assert_refused(muster_worker_all_reduce_momentum(w, NULL, 1, x, 1, y, none), MUSTER_INVALID_ARGUMENT, MOMENTUM "parameter: ");
    assert_refused(muster_worker_all_reduce_momentum(w, NULL, 1, x, 1, y, other), MUSTER_DTYPE_MISMATCH,
                   MOMENTUM "parameter: expected dtype f32 as the velocity");
    assert_refused(muster_worker_all_reduce_momentum(w, NULL, 1, other, 1, y, z), MUSTER_DTYPE_MISMATCH,
                   MOMENTUM "parameter: expected dtype f64 as the gradient");
    assert_refused(muster_worker_all_reduce_momentum(w, NULL, 1, x, 1, x, z), MUSTER_INVALID_ARGUMENT,
                   MOMENTUM "velocity: expected the gradient's memory");
    assert_refused(muster_worker_all_reduce_momentum(w, NULL, 1, x, 1, z, z), MUSTER_INVALID_ARGUMENT,
                   MOMENTUM "parameter: expected the velocity's memory");
    return MUSTER_OK;
}

static void messages_say_the_names_of_the_arguments(void **state) {
    (void)state;
    collectives_pool c;
    collectives_open(&c, 1, 0);
    assert_ok(collectives_run(&c, argument_names, NULL));
    collectives_close(&c);
}

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    collectives_pool c;
    collectives_open(&c, 1, 0);
    assert_ok(collectives_run(&c, refusals, NULL));
    collectives_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_takes_the_steps_of_separate_operations),
        cmocka_unit_test(different_betas_are_found),
        cmocka_unit_test(a_mismatch_is_told_with_both_betas_whatever_comes_after),
        cmocka_unit_test(messages_say_the_names_of_the_arguments),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
