/* Averages over the workers inside a body, each worker with its own weight, and the weights of a
 * call that the program can ask for. */
#include "function_fixture.h"
#include "muster/communicator.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { DEVICES = 3, ROWS = 13, WIDTH = 4 };

/* ---- inside a body ---- */

typedef struct setting {
    muster_dtype dtype;
    bool in_place, by_rows;
    double weights[DEVICES]; /* unless by_rows */
    muster_variable *v;      /* (WIDTH): the average, on every device */
} setting;

/* Row i has the value i in all columns. A worker averages its rows; one without weight brings
 * NaN. */
static muster_status average(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)out;
    const setting *s = user;
    const int32_t rank = muster_worker_rank(w);
    const int64_t width = WIDTH, rows = muster_worker_rows(w);
    const double weight = s->by_rows ? (double)rows : s->weights[rank];
    muster_tensor mean, input, result;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &width, &mean));
    MUSTER_TRY(muster_worker_scratch(w, s->dtype, 1, &width, &input));
    result = input;
    if (!s->in_place) MUSTER_TRY(muster_worker_scratch(w, s->dtype, 1, &width, &result));
    if (weight > 0)
        MUSTER_TRY(muster_reduce(w, MUSTER_AVG, in[0], 0, mean));
    else
        MUSTER_TRY(muster_fill(w, (double)NAN, mean));
    MUSTER_TRY(muster_copy(w, mean, input));
    MUSTER_TRY(muster_worker_all_reduce_weighted(w, NULL, weight, input, result));
    muster_tensor value_replica;
    MUSTER_TRY(muster_worker_variable(w, s->v, &value_replica));
    return muster_copy(w, result, value_replica);
}

static muster_function *make(muster_runtime *runtime, setting *s) {
    static const float zeros[WIDTH];
    muster_function *f;
    assert_ok(muster_variable_create(runtime, "v", muster_f32(zeros, WIDTH), &s->v));
    assert_ok(muster_function_create(runtime, "average", average, s, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    assert_ok(muster_function_variable(f, s->v, MUSTER_USE_READ_WRITE));
    assert_ok(muster_function_set_runs_without_rows(f, 1));
    return f;
}

static muster_status call(muster_function *f, int64_t rows) {
    float x[ROWS][WIDTH];
    for (int i = 0; i < ROWS * WIDTH; i++) x[i / WIDTH][i % WIDTH] = (float)(i / WIDTH);
    return muster_function_call(f, (muster_tensor[]){muster_f32(x, rows, WIDTH)}, 1, NULL, 0, NULL);
}

static void assert_value(muster_variable *v, double expected, double error) {
    for (int32_t r = 0; r < DEVICES; r++) {
        float got[WIDTH];
        assert_ok(muster_variable_get(v, r, muster_f32(got, WIDTH)));
        for (int i = 0; i < WIDTH; i++) assert_true(fabs(got[i] - expected) <= error);
    }
}

/* With rows as weights, the average of the workers' means is the mean of all rows, for every number
 * of rows, also fewer than workers. */
static void the_mean_of_uneven_shares(void **unused) {
    (void)unused;
    const muster_dtype dtypes[] = {MUSTER_F16, MUSTER_BF16, MUSTER_F32, MUSTER_F64};
    int cases = 0;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, DEVICES);
        setting s = {.by_rows = true};
        muster_function *f = make(runtime, &s);
        for (int d = 0; d < 4; d++) {
            for (int64_t rows = 1; rows <= ROWS; rows++, cases++) {
                s.dtype = dtypes[d];
                s.in_place = rows % 2;
                assert_ok(call(f, rows));
                assert_value(s.v, (double)(rows - 1) / 2, d < 2 ? 0.06 : 1e-5);
            }
        }
        fixture_close(runtime);
    }
    assert_int_equal(cases, 2 * 4 * ROWS);
}

static void weights_of_the_workers(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, DEVICES);
        setting s = {.dtype = MUSTER_F32, .weights = {0.5, 0, 1.5}};
        muster_function *f = make(runtime, &s);
        assert_ok(call(f, 6)); /* means 0.5, 2.5, 4.5 */
        assert_value(s.v, (0.5 * 0.5 + 1.5 * 4.5) / 2, 1e-6);
        const double total_zero[DEVICES] = {0}, overflow[DEVICES] = {1e308, 1e308, 1e308};
        memcpy(s.weights, total_zero, sizeof total_zero);
        assert_refused(call(f, 6), MUSTER_INVALID_ARGUMENT,
                       "muster_worker_all_reduce_weighted: the weights of all ranks are 0: there is nothing to average");
        assert_value(s.v, (0.5 * 0.5 + 1.5 * 4.5) / 2, 1e-6);
        memcpy(s.weights, overflow, sizeof overflow);
        assert_refused(call(f, 6), MUSTER_INVALID_ARGUMENT, "muster_worker_all_reduce_weighted: the sum of the weights overflows");
        s.weights[1] = -1;
        assert_refused(call(f, 6), MUSTER_INVALID_ARGUMENT, "weight: expected a finite number that is not negative, received -1");
        fixture_close(runtime);
    }
}

static muster_status misuse(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    const int64_t two = 2, one = 1;
    muster_tensor f, i, shorter, d;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &two, &f));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_I32, 1, &two, &i));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &one, &shorter));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F64, 1, &two, &d));
    switch (*(const int *)user) {
    case 0:
        return muster_worker_all_reduce_weighted(w, NULL, 1, i, i);
    case 1:
        return muster_worker_all_reduce_weighted(w, NULL, 1, f, d);
    case 2:
        return muster_worker_all_reduce_weighted(w, NULL, 1, f, shorter);
    case 3:
        MUSTER_TRY(muster_worker_group_begin(w, NULL));
        return muster_worker_all_reduce_weighted(w, NULL, 1, f, f);
    default:
        return muster_worker_all_reduce_weighted(NULL, NULL, 1, f, f);
    }
}

static void refused_arguments_of_a_worker(void **unused) {
    (void)unused;
    const struct {
        muster_status code;
        const char *text;
    } cases[] = {{MUSTER_UNSUPPORTED, "muster_worker_all_reduce_weighted: op: avg of i32 is refused"},
                 {MUSTER_DTYPE_MISMATCH, "muster_worker_all_reduce_weighted: output: expected dtype f32 as the input, received f64"},
                 {MUSTER_SHAPE_MISMATCH, "muster_worker_all_reduce_weighted: output: expected 2 elements as the input, received 1"},
                 {MUSTER_BAD_STATE, "muster_worker_all_reduce_weighted: communicator: expected no open group"},
                 {MUSTER_INVALID_ARGUMENT, "muster_worker_all_reduce_weighted: worker"}};
    muster_runtime *runtime = fixture_open("host", 2);
    for (int i = 0; i < 5; i++) {
        muster_function *f;
        assert_ok(muster_function_create(runtime, "misuse", misuse, &i, &f));
        assert_refused(muster_function_call(f, NULL, 0, NULL, 0, NULL), cases[i].code, cases[i].text);
        assert_ok(muster_function_destroy(f));
    }
    fixture_close(runtime);
}

/* ---- the weights of a call ---- */

static muster_status weigh(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    const double *factor = user;
    return *factor == 1 ? MUSTER_OK : muster_worker_set_weight(w, *factor * (double)muster_worker_rows(w));
}

static void assert_weights(muster_function *f, double first, double second, double third) {
    const double expected[DEVICES] = {first, second, third};
    double weights[DEVICES] = {-1, -1, -1};
    assert_ok(muster_function_weights(f, DEVICES, weights));
    for (int r = 0; r < DEVICES; r++) assert_true(weights[r] == expected[r]);
}

static void the_weights_of_a_call(void **unused) {
    (void)unused;
    static float x[16];
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, DEVICES);
        muster_function *f;
        muster_call_options options;
        double factor = 1, weights[DEVICES];
        const muster_tensor seven = muster_f32(x, 7), two = muster_f32(x, 2);
        muster_call_options_init(&options);
        assert_ok(muster_function_create(runtime, "weigh", weigh, &factor, &f));
        assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
        assert_weights(f, 0, 0, 0);
        for (int repeat = 0; repeat < 3; repeat++) { /* repeated calls go another way */
            assert_ok(muster_function_call(f, &seven, 1, NULL, 0, NULL));
            assert_weights(f, 2, 2, 3);
        }
        factor = 0.5;
        assert_ok(muster_function_call(f, &seven, 1, NULL, 0, NULL));
        assert_weights(f, 1, 1, 1.5);
        assert_ok(muster_function_call(f, &two, 1, NULL, 0, NULL)); /* rows floor(2 r / 3) */
        assert_weights(f, 0, 0.5, 0.5);
        options.slices = 2;
        assert_ok(muster_function_call(f, &seven, 1, NULL, 0, &options));
        assert_weights(f, 1, 1, 1.5);
        assert_ok(muster_function_call_single(f, &seven, 1, NULL, 0, NULL));
        assert_weights(f, 3.5, 0, 0);
        assert_refused(muster_function_weights(f, 2, weights), MUSTER_INVALID_ARGUMENT,
                       "muster_function_weights: count: function 'weigh': expected 3, received 2");
        assert_refused(muster_function_weights(f, 3, NULL), MUSTER_INVALID_ARGUMENT,
                       "weights: expected the address of the weights, received NULL");
        assert_refused(muster_function_weights(NULL, 3, weights), MUSTER_INVALID_ARGUMENT, "function");
        fixture_close(runtime);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mean_of_uneven_shares),
        cmocka_unit_test(weights_of_the_workers),
        cmocka_unit_test(refused_arguments_of_a_worker),
        cmocka_unit_test(the_weights_of_a_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
