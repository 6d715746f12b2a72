/* Functions that read a variable without rows: what their bodies see, before and after the rows are
 * scattered. */
#include "function_fixture.h"
#include "memory_impl.h"

enum { DEVICES = 3, ROWS = 7 };

typedef struct seen {
    muster_variable *v;
    int32_t runs[DEVICES];  /* how often the body ran there */
    int64_t rows[DEVICES];  /* rows of the view */
    double weight[DEVICES]; /* the worker's weight */
} seen;

/* y = the mean of the view, 0 where it has no rows. */
static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in;
    seen *s = user;
    const int32_t rank = muster_worker_rank(w);
    muster_tensor view;
    MUSTER_TRY(muster_worker_variable(w, s->v, &view));
    s->runs[rank]++;
    s->rows[rank] = muster_tensor_rows(view);
    s->weight[rank] = muster_worker_weight(w);
    return s->rows[rank] > 0 ? muster_mean(w, view, out[0]) : muster_fill(w, 0, out[0]);
}

static muster_function *make(muster_runtime *runtime, seen *s, muster_variable_use use, muster_collect_mode mode) {
    muster_function *f;
    assert_ok(muster_function_create(runtime, "reads", body, s, &f));
    assert_ok(muster_function_variable(f, s->v, use));
    assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, mode));
    return f;
}

static muster_status call(muster_function *f, seen *s, float *y) {
    *s = (seen){.v = s->v};
    const muster_status status = muster_function_call(f, NULL, 0, (muster_tensor[]){muster_f32(y)}, 1, NULL);
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    processes_merge(s->runs, sizeof s->runs);
    processes_merge(s->rows, sizeof s->rows);
    processes_merge(s->weight, sizeof s->weight);
    return status == MUSTER_OK ? status : mst_error_restore(status, message);
}

static void scatter_rows(muster_variable *v, int64_t rows) {
    float x[ROWS];
    for (int i = 0; i < ROWS; i++) x[i] = (float)(i * i);
    assert_ok(muster_variables_scatter(&v, (muster_tensor[]){muster_f32(x, rows)}, 1, NULL));
}

/* A variable that is only read has no say in the rows: every body runs, with a view of 0 rows. */
static void a_body_sees_no_rows(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, DEVICES);
        seen s;
        float y = -1;
        assert_ok(muster_variable_create_empty(runtime, "v", MUSTER_F32, 1, NULL, &s.v));
        muster_function *f = make(runtime, &s, MUSTER_USE_READ, MUSTER_SUM);
        assert_ok(call(f, &s, &y));
        assert_true(y == 0);
        for (int r = 0; r < DEVICES; r++) assert_true(s.runs[r] == 1 && s.rows[r] == 0);
        scatter_rows(s.v, ROWS); /* 2, 2, 3 rows */
        assert_ok(call(f, &s, &y));
        for (int r = 0; r < DEVICES; r++) assert_true(s.runs[r] == 1 && s.rows[r] == (r < 2 ? 2 : 3));
        const double expected = (0 + 1) / 2.0 + (4 + 9) / 2.0 + (16 + 25 + 36) / 3.0;
        assert_float_equal(y, expected, 1e-4);
        fixture_close(runtime);
    }
}

/* The rows of a sliceable variable are the rows of the call. */
static void the_rows_of_a_sliceable_variable_are_those_of_the_call(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, DEVICES);
        seen s;
        float y = -1;
        assert_ok(muster_variable_create_empty(runtime, "v", MUSTER_F32, 1, NULL, &s.v));
        muster_function *f = make(runtime, &s, MUSTER_USE_READ_SLICEABLE, MUSTER_AVG);
        assert_refused(call(f, &s, &y), MUSTER_UNSUPPORTED, "the avg over no rows is refused");
        for (int r = 0; r < DEVICES; r++) assert_int_equal(s.runs[r], 0);
        scatter_rows(s.v, 2); /* 0, 1, 1 rows: one device still has none */
        assert_ok(call(f, &s, &y));
        assert_true(s.runs[0] == 0 && s.runs[1] == 1 && s.runs[2] == 1);
        assert_true(s.weight[1] == 1 && s.weight[2] == 1);
        assert_float_equal(y, 0.5, 1e-6);
        scatter_rows(s.v, ROWS);
        assert_ok(call(f, &s, &y));
        for (int r = 0; r < DEVICES; r++) assert_true(s.runs[r] == 1 && s.weight[r] == (r < 2 ? 2 : 3));
        assert_float_equal(y, (0 + 1 + 4 + 9 + 16 + 25 + 36) / 7.0, 1e-5);
        scatter_rows(s.v, 0);
        assert_refused(call(f, &s, &y), MUSTER_UNSUPPORTED, "the avg over no rows is refused");
        fixture_close(runtime);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_sees_no_rows),
        cmocka_unit_test(the_rows_of_a_sliceable_variable_are_those_of_the_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
