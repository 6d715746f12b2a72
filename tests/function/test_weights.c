/* Averages by weight over slices and workers, at their limits; slices that have no rows. */
#include "function_fixture.h"

typedef struct setting {
    double weight;        /* set by the body; negative: left alone */
    int64_t update_until; /* the update is written in the slices before this one */
    muster_variable *variable;
} setting;

static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const setting *s = user;
    if (s->weight >= 0) MUSTER_TRY(muster_worker_set_weight(w, s->weight));
    if (s->variable && muster_worker_slice(w) < s->update_until) {
        muster_tensor update;
        MUSTER_TRY(muster_worker_update(w, s->variable, &update));
        MUSTER_TRY(muster_fill(w, muster_worker_rows(w) ? 10 : -99, update));
    }
    return muster_worker_rows(w) ? muster_mean(w, in[0], out[0]) : MUSTER_OK;
}

static muster_function *make(muster_runtime *runtime, setting *s) {
    muster_function *f;
    assert_ok(muster_function_create(runtime, "mean", body, s, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_AVG));
    return f;
}

static muster_status call(muster_function *f, float value, int64_t rows, int64_t slices, float *y) {
    float x[16];
    muster_call_options options;
    muster_call_options_init(&options);
    options.slices = slices;
    for (int i = 0; i < 16; i++) x[i] = value;
    return muster_function_call(f, (muster_tensor[]){muster_f32(x, rows)}, 1, (muster_tensor[]){muster_f32(y)}, 1, &options);
}

static void an_average_does_not_overflow_in_any_number_of_slices(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        setting s = {.weight = -1};
        muster_runtime *runtime = fixture_open(backend, 2);
        muster_function *f = make(runtime, &s);
        for (int64_t slices = 1; slices <= 5; slices++) {
            float y;
            assert_ok(call(f, 3e38f, 11, slices, &y));
            assert_true(y > 2.9999e38f && y < 3.0001e38f);
        }
        fixture_close(runtime);
    }
}

static void the_size_of_equal_weights_does_not_matter(void **unused) {
    (void)unused;
    const double weights[] = {1e-300, 1e-50, 1e-43, 1, 1e39, 1e300};
    for_each_backend(backend) {
        setting s;
        muster_runtime *runtime = fixture_open(backend, 2);
        muster_function *f = make(runtime, &s);
        for (int i = 0; i < 6; i++) {
            for (int64_t slices = 1; slices <= 3; slices++) {
                float y;
                s = (setting){.weight = weights[i]};
                assert_ok(call(f, 3, 8, slices, &y));
                assert_float_equal(y, 3, 1e-5);
            }
        }
        fixture_close(runtime);
    }
}

/* ---- weights that differ ---- */

enum { WORKERS = 4, SLICES = 3, ROWS = 24 };
/* By worker and slice; one is 0. */
static const double differing[WORKERS][SLICES] = {{1, 7, 2}, {0.5, 3, 11}, {5, 0, 4}, {2, 9, 0.25}};

static muster_status weighted_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const int64_t slices = *(const int64_t *)user;
    const double *weights = differing[muster_worker_rank(w)];
    /* in one slice a worker has the weight of the first slice */
    MUSTER_TRY(muster_worker_set_weight(w, weights[slices == 1 ? 0 : muster_worker_slice(w)]));
    return muster_mean(w, in[0], out[0]);
}

/* Row i is i * i, so each worker and each slice has another mean. */
static double weighted_mean(int64_t slices) {
    double sum = 0, weights = 0;
    for (int64_t part = 0, rows = ROWS / WORKERS / slices; part < WORKERS * slices; part++) {
        const double weight = differing[part / slices][part % slices];
        double mean = 0;
        for (int64_t i = part * rows; i < (part + 1) * rows; i++) mean += (double)(i * i) / (double)rows;
        sum += weight * mean;
        weights += weight;
    }
    return sum / weights;
}

static void each_worker_and_slice_counts_by_its_own_weight(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        for (int64_t slices = 1; slices <= SLICES; slices += SLICES - 1) {
            muster_runtime *runtime = fixture_open(backend, WORKERS);
            muster_call_options options;
            muster_function *f;
            float x[ROWS], y;
            for (int i = 0; i < ROWS; i++) x[i] = (float)(i * i);
            muster_call_options_init(&options);
            options.slices = slices;
            assert_ok(muster_function_create(runtime, "weighted", weighted_body, &slices, &f));
            assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
            assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_AVG));
            assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, ROWS)}, 1, (muster_tensor[]){muster_f32(&y)}, 1, &options));
            assert_float_equal(y, weighted_mean(slices), 1e-3);
            fixture_close(runtime);
        }
    }
}

static void weights_whose_sum_overflows_or_is_zero_are_refused(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        setting s = {.weight = 1e308};
        muster_runtime *runtime = fixture_open(backend, 4);
        muster_function *f = make(runtime, &s);
        float y;
        assert_refused(call(f, 3, 8, 1, &y), MUSTER_INVALID_ARGUMENT, "weights overflows");
        assert_refused(call(f, 3, 16, 4, &y), MUSTER_INVALID_ARGUMENT, "weights overflows");
        s.weight = 0;
        assert_refused(call(f, 3, 8, 1, &y), MUSTER_INVALID_ARGUMENT, "there is nothing to average");
        s.weight = -1;
        assert_ok(call(f, 3, 8, 1, &y));
        fixture_close(runtime);
    }
}

/* The value of a scalar variable that began as 1, after one call with 2 rows on one device in
 * `slices` slices. */
static float updated(const char *backend, muster_collect_mode mode, setting s, int64_t slices) {
    muster_runtime *runtime = fixture_open(backend, 1);
    float start = 1, y, value;
    assert_ok(muster_variable_create(runtime, "v", muster_f32(&start), &s.variable));
    muster_function *f;
    assert_ok(muster_function_create(runtime, "mean", body, &s, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM));
    assert_ok(muster_function_update(f, s.variable, mode));
    assert_ok(muster_function_set_runs_without_rows(f, 1));
    assert_ok(call(f, 3, 2, slices, &y));
    assert_ok(muster_variable_get(s.variable, 0, muster_f32(&value)));
    fixture_close(runtime);
    return value;
}

static void an_averaged_update_counts_the_slices_that_wrote_it(void **unused) {
    (void)unused;
    for_each_backend(backend) assert_float_equal(updated(backend, MUSTER_AVG, (setting){.weight = -1, .update_until = 1}, 2), 10, 1e-5);
}

static void an_averaged_update_of_no_weight_keeps_the_value(void **unused) {
    (void)unused;
    for_each_backend(backend) for (int64_t slices = 1; slices <= 2; slices++)
        assert_float_equal(updated(backend, MUSTER_AVG, (setting){.weight = 0, .update_until = 9}, slices), 1, 0);
}

static void a_slice_without_rows_leaves_nothing_in_an_update(void **unused) {
    (void)unused;
    /* rows in slices 1 and 3 of 4; the last write of all is that of slice 2, which has none */
    for_each_backend(backend) assert_float_equal(updated(backend, MUSTER_MASTER, (setting){.weight = -1, .update_until = 3}, 4), 10, 0);
}

static muster_status sum_variable(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in;
    muster_tensor user_replica;
    MUSTER_TRY(muster_worker_variable(w, user, &user_replica));
    return muster_sum(w, user_replica, out[0]);
}

static void slices_cover_every_row_of_a_sliceable_variable(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 2);
        muster_variable *v;
        muster_function *f;
        float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1}, x[2] = {0}, y;
        muster_call_options options;
        muster_call_options_init(&options);
        assert_ok(muster_variable_create(runtime, "v", muster_f32(ones, 8), &v));
        assert_ok(muster_function_create(runtime, "f", sum_variable, v, &f));
        assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
        assert_ok(muster_function_variable(f, v, MUSTER_USE_READ_SLICEABLE));
        assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM));
        for (options.slices = 1; options.slices <= 4; options.slices++) {
            assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, 2)}, 1, (muster_tensor[]){muster_f32(&y)}, 1, &options));
            assert_float_equal(y, 16, 0);
        }
        fixture_close(runtime);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_average_does_not_overflow_in_any_number_of_slices),
        cmocka_unit_test(the_size_of_equal_weights_does_not_matter),
        cmocka_unit_test(each_worker_and_slice_counts_by_its_own_weight),
        cmocka_unit_test(weights_whose_sum_overflows_or_is_zero_are_refused),
        cmocka_unit_test(an_averaged_update_counts_the_slices_that_wrote_it),
        cmocka_unit_test(an_averaged_update_of_no_weight_keeps_the_value),
        cmocka_unit_test(a_slice_without_rows_leaves_nothing_in_an_update),
        cmocka_unit_test(slices_cover_every_row_of_a_sliceable_variable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
