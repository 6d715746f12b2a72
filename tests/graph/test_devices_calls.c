/* Calls of graphs with one meaning on several devices that are not whole: slices, and the master
 * alone; and of those whose variables are split otherwise now. */
#include "graph_fixture.h"

#include <math.h>

enum { N = 13, COLUMNS = 3, SINGLES = 4 };

static muster_function *make(muster_runtime *runtime, muster_variable *w, const char *text, bool updates) {
    muster_graph *graph;
    muster_function *function;
    assert_ok(muster_graph_create(runtime, text, &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER);
    (void)muster_graph_parameter(graph, w);
    assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, text), MUSTER_AUTO));
    if (updates) assert_ok(muster_graph_update(graph, w, muster_expr_parse(graph, "w + sum(x, 0)"), MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    return function;
}

static void fill(double x[N][COLUMNS]) {
    for (int32_t i = 0; i < N * COLUMNS; i++) x[i / COLUMNS][i % COLUMNS] = (double)((i * 7) % 11 - 5) / 8;
}

static muster_status call(muster_function *function, bool single, int64_t slices, double *y, int64_t rows) {
    double x[N][COLUMNS];
    muster_call_options options;
    muster_call_options_init(&options);
    options.slices = slices;
    fill(x);
    const muster_tensor in = muster_f64(x, N, COLUMNS), out = rows ? muster_f64(y, N, COLUMNS) : muster_f64(y);
    return (single ? muster_function_call_single : muster_function_call)(function, &in, 1, &out, 1, &options);
}

static const char *const machines[] = {"host:1", "host:2", "host:4"};
enum { MACHINES = 3 };

/* Values of single rows do not mind slices; those that rows exchange do. */
static void slices_are_refused_where_rows_meet(void **state) {
    int32_t checked = 0;
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++) {
        muster_runtime *runtime = graph_runtime(machines[m]);
        double start[COLUMNS] = {2, -3, 0.5}, y[N][COLUMNS], z[N][COLUMNS];
        muster_variable *w;
        assert_ok(muster_variable_create(runtime, "w", muster_f64(start, COLUMNS), &w));
        muster_function *rowwise = make(runtime, w, "tanh(x * w) + softmax(x, 1)", false), *sum = make(runtime, w, "sum(x * w)", false),
                        *normal = make(runtime, w, "x - mean(x, 0)", false), *training = make(runtime, w, "x * w", true);
        muster_function *own = make(runtime, w, "batch_norm(x, w, w, training=1, per_device=1)", false);
        (void)make(runtime, w, "batch_norm(min(reshape(x, [rows, 1, 3]), 0), w, w, training=1, per_device=1)", false);
        assert_ok(call(own, false, 1, &y[0][0], N));
        if (m) assert_refused(call(own, false, 2, &y[0][0], N), MUSTER_UNSUPPORTED, "slices: expected 1");
        assert_ok(call(rowwise, false, 0, &y[0][0], N));
        for (int64_t slices = 1; slices <= 5; slices++, checked++) {
            assert_ok(call(rowwise, false, slices, &z[0][0], N));
            assert_memory_equal(y, z, sizeof y);
        }
        assert_refused(call(sum, false, 2, &y[0][0], 0), MUSTER_UNSUPPORTED, "slices: expected 1");
        assert_refused(call(sum, false, 2, &y[0][0], 0), MUSTER_UNSUPPORTED, "micro_batches");
        if (m) assert_refused(call(normal, false, 2, &y[0][0], N), MUSTER_UNSUPPORTED, "slices: expected 1");
        assert_refused(call(training, false, 3, &y[0][0], N), MUSTER_UNSUPPORTED, "received 3");
        assert_ok(call(normal, false, 1, &y[0][0], N));
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(checked, MACHINES * 5);
}

/* The master computes what all devices would. */
static void the_master_alone_gives_the_same_values_and_updates_nothing(void **state) {
    static const char *const texts[SINGLES] = {"x - mean(x, 0)", "x * w", "sort(x.T).T", "softmax(x @ x.T, 1) @ x"};
    int32_t checked = 0;
    (void)state;
    for (int32_t m = 0; m < MACHINES; m++) {
        muster_runtime *runtime = graph_runtime(machines[m]);
        double start[COLUMNS] = {2, -3, 0.5}, y[N][COLUMNS], z[N][COLUMNS], sums[2];
        muster_variable *w;
        assert_ok(muster_variable_create(runtime, "w", muster_f64(start, COLUMNS), &w));
        for (int32_t t = 0; t < SINGLES; t++, checked++) {
            muster_function *f = make(runtime, w, texts[t], false);
            assert_ok(call(f, false, 0, &y[0][0], N));
            assert_ok(call(f, true, 0, &z[0][0], N));
            for (int32_t i = 0; i < N; i++)
                for (int32_t k = 0; k < COLUMNS; k++) assert_true(fabs(y[i][k] - z[i][k]) <= 1e-13 * (1 + fabs(y[i][k])));
            assert_ok(call(f, false, 0, &y[0][0], N));
        }
        muster_function *sum = make(runtime, w, "sum(x * w)", false), *training = make(runtime, w, "sum(x)", true);
        assert_ok(call(sum, false, 0, &sums[0], 0));
        assert_ok(call(sum, true, 0, &sums[1], 0));
        assert_true(fabs(sums[0] - sums[1]) <= 1e-13 * (1 + fabs(sums[0])));
        if (m) {
            assert_refused(call(training, true, 0, sums, 0), MUSTER_UNSUPPORTED,
                           "muster_function_call_single: expected a graph without updates");
            for (int32_t r = 0; r < muster_runtime_size(runtime); r++) {
                double got[COLUMNS];
                assert_ok(muster_variable_get(w, r, muster_f64(got, COLUMNS)));
                assert_memory_equal(got, start, sizeof got);
            }
        }
        assert_ok(call(training, false, 0, sums, 0));
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(checked, MACHINES * SINGLES);
}

/* The message says how the variable lay and how it lies now, since the parts' shapes do not: the
 * whole of a joined variable has the shape that is expected. A part that has come back is served
 * again. */
static void a_variable_that_is_split_otherwise_now_is_refused_by_how_it_lies(void **state) {
    double start[COLUMNS] = {2, -3, 0.5}, y[N][COLUMNS];
    muster_runtime *runtime = graph_runtime("host:2");
    muster_variable *w;
    (void)state;
    assert_ok(muster_variable_create(runtime, "w", muster_f64(start, COLUMNS), &w));
    muster_function *whole = make(runtime, w, "x * w", false);
    assert_ok(muster_variable_split(w, 0));
    muster_function *parts = make(runtime, w, "x * w * 1.5", false);
    assert_refused(
        call(whole, false, 0, &y[0][0], N), MUSTER_SHAPE_MISMATCH,
        "variable \"w\": expected one that is not split, as when the graph was compiled, received one that is split along axis 0");
    assert_ok(call(parts, false, 0, &y[0][0], N));
    assert_ok(muster_variable_join(w));
    assert_refused(
        call(parts, false, 0, &y[0][0], N), MUSTER_SHAPE_MISMATCH,
        "variable \"w\": expected one that is split along axis 0, as when the graph was compiled, received one that is not split");
    assert_ok(call(whole, false, 0, &y[0][0], N));
    assert_ok(muster_runtime_close(runtime));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_are_refused_where_rows_meet),
        cmocka_unit_test(the_master_alone_gives_the_same_values_and_updates_nothing),
        cmocka_unit_test(a_variable_that_is_split_otherwise_now_is_refused_by_how_it_lies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
