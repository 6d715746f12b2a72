/* Functions that are called again with outputs and variables of other shapes and strides: what a
 * worker keeps of earlier calls must not be used for them. And outputs that are reshaped. */
#include "graph_fixture.h"

#include <math.h>

enum { ROWS = 3, COLUMNS = 4, GUARD = 64 };

/* y = 2 x, and s = the sums of the rows of x. */
static muster_function *doubles(muster_runtime *runtime) {
    muster_graph *graph;
    muster_function *function;
    assert_ok(muster_graph_create(runtime, "doubles", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER);
    assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "x + x"), MUSTER_GATHER));
    assert_ok(muster_graph_output(graph, "s", muster_expr_parse(graph, "sum(x, axis=1)"), MUSTER_GATHER));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    return function;
}

static void fill(double x[ROWS][COLUMNS], double shift) {
    for (int32_t i = 0; i < ROWS; i++)
        for (int32_t c = 0; c < COLUMNS; c++) x[i][c] = (double)(i * COLUMNS + c) + shift;
}

/* An output of another size than the value's is refused in the first call and after a good one, and
 * nothing is written. */
static void outputs_of_other_shapes_are_refused(void **state) {
    int32_t refused = 0;
    for (int32_t good_before = 0; good_before <= 1; good_before++) {
        muster_function *function = doubles(*state);
        double x[ROWS][COLUMNS], y[ROWS * COLUMNS + GUARD], s[ROWS];
        fill(x, 0);
        const muster_tensor in = muster_f64(x, ROWS, COLUMNS);
        if (good_before) {
            const muster_tensor out[] = {muster_f64(y, ROWS, COLUMNS), muster_f64(s, ROWS)};
            assert_ok(muster_function_call(function, &in, 1, out, 2, NULL));
        }
        for (int64_t columns = 0; columns <= 2 * COLUMNS; columns++) {
            for (int32_t i = 0; i < ROWS * COLUMNS + GUARD; i++) y[i] = -1;
            const muster_tensor out[] = {muster_f64(y, ROWS, columns), muster_f64(s, ROWS)};
            if (columns == COLUMNS) continue;
            assert_refused(muster_function_call(function, &in, 1, out, 2, NULL), MUSTER_SHAPE_MISMATCH,
                           "output \"y\": expected shape (3, 4), received (3, ");
            for (int32_t i = 0; i < ROWS * COLUMNS + GUARD; i++) assert_true(y[i] == -1);
            refused++;
        }
        assert_ok(muster_function_destroy(function));
    }
    assert_int_equal(refused, 2 * 2 * COLUMNS);
}

/* Views of one block: rows, columns and their gaps, transposed and reversed; more of them than the
 * layouts that a worker keeps, each several times. */
static void outputs_have_the_strides_of_their_call(void **state) {
    enum { PITCH = 6, PITCHES = 3, ROUNDS = 3 };
    muster_function *function = doubles(*state);
    int32_t compared = 0;
    for (int32_t round = 0; round < ROUNDS; round++)
        for (int32_t kind = 0; kind < 4 * PITCHES; kind++) {
            static double block[PITCH * PITCH * 2], s[2 * ROWS];
            double x[ROWS][COLUMNS];
            fill(x, kind + 100 * round);
            const int64_t pitch = COLUMNS + kind / 4, step = kind & 1 ? -1 : 1;
            muster_tensor y = muster_f64(block, ROWS, COLUMNS), sums = muster_f64(s, ROWS);
            y.strides[0] = kind & 2 ? step : pitch, y.strides[1] = kind & 2 ? pitch : step;
            y.byte_offset = step < 0 ? (int64_t)sizeof(double) * (kind & 2 ? ROWS - 1 : COLUMNS - 1) : 0;
            sums.strides[0] = 1 + (kind & 1);
            for (int32_t i = 0; i < PITCH * PITCH * 2; i++) block[i] = -1;
            const muster_tensor in = muster_f64(x, ROWS, COLUMNS),
                                out[] = {kind % 5 ? y : muster_tensor_none(), kind % 3 ? sums : muster_tensor_none()};
            assert_ok(muster_function_call(function, &in, 1, out, 2, NULL));
            int32_t written = 0;
            for (int32_t i = 0; i < PITCH * PITCH * 2; i++) written += block[i] != -1;
            assert_int_equal(written, kind % 5 ? ROWS * COLUMNS : 0);
            for (int32_t i = 0; i < ROWS; i++) {
                double sum = 0;
                for (int32_t c = 0; c < COLUMNS; c++, compared++) {
                    const double *at = (const double *)muster_tensor_address(y) + i * y.strides[0] + c * y.strides[1];
                    if (kind % 5) assert_true(*at == 2 * x[i][c]);
                    sum += x[i][c];
                }
                if (kind % 3) assert_true(s[i * sums.strides[0]] == sum);
            }
        }
    assert_int_equal(compared, ROUNDS * 4 * PITCHES * ROWS * COLUMNS);
    assert_ok(muster_function_destroy(function));
}

/* A variable that the function only writes may get another shape between two calls. */
static void an_update_of_another_shape_is_refused(void **state) {
    muster_runtime *runtime = *state;
    muster_variable *w;
    muster_graph *graph;
    muster_function *function;
    double start[2 * COLUMNS] = {0}, x[ROWS][COLUMNS], got[2 * COLUMNS];
    int32_t refused = 0;
    fill(x, 0);
    const muster_tensor in = muster_f64(x, ROWS, COLUMNS);
    assert_ok(muster_variable_create(runtime, "w", muster_f64(start, COLUMNS), &w));
    assert_ok(muster_graph_create(runtime, "sums", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER);
    assert_ok(muster_graph_update(graph, w, muster_expr_parse(graph, "sum(x, axis=0)"), MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    for (int64_t columns = 1; columns <= 2 * COLUMNS; columns++) {
        assert_ok(muster_variable_set(w, 0, muster_f64(start, COLUMNS)));
        assert_ok(muster_function_call(function, &in, 1, NULL, 0, NULL));
        assert_ok(muster_variable_get(w, 0, muster_f64(got, COLUMNS)));
        for (int32_t c = 0; c < COLUMNS; c++) assert_true(got[c] == x[0][c] + x[1][c] + x[2][c]);
        if (columns == COLUMNS) continue;
        assert_ok(muster_variable_set(w, 0, muster_f64(start, columns)));
        assert_refused(muster_function_call(function, &in, 1, NULL, 0, NULL), MUSTER_SHAPE_MISMATCH,
                       "new value of \"w\": expected shape (4,), received (");
        assert_ok(muster_variable_get(w, 0, muster_f64(got, columns)));
        for (int64_t c = 0; c < columns; c++) assert_true(got[c] == 0);
        refused++;
    }
    assert_int_equal(refused, 2 * COLUMNS - 1);
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_variable_destroy(w));
}

/* ---- reshaped outputs ---- */

/* Element e of the outputs of a case below. */
static double transposed(const double *x, int64_t e) { return x[e % ROWS * COLUMNS + e / ROWS]; }
static double transposed_twice(const double *x, int64_t e) { return 2 * transposed(x, e); }
static double repeated(const double *x, int64_t e) { return x[e / 2]; }
static double more(const double *x, int64_t e) { return x[e] + 1; }
static double more_of_row(const double *x, int64_t e) { return x[COLUMNS + e] + 1; }
static double much_more(const double *x, int64_t e) { return x[e] + 2; }

typedef struct reshaped {
    const char *text[2];
    double (*value[2])(const double *x, int64_t e);
    int64_t count;
    bool no_block; /* nothing is computed but in the outputs */
} reshaped;

static void reshaped_case(muster_runtime *runtime, const reshaped *c) {
    double x[ROWS * COLUMNS], y[2][2 * ROWS * COLUMNS + 1];
    muster_graph *graph;
    muster_function *function;
    muster_graph_memory memory;
    assert_ok(muster_graph_create(runtime, "reshaped", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(ROWS, COLUMNS), MUSTER_BROADCAST);
    for (int32_t o = 0; o < 2 && c->text[o]; o++)
        assert_ok(muster_graph_output(graph, o ? "b" : "a", muster_expr_parse(graph, c->text[o]), MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    for (int32_t call = 0; call < 2; call++) {
        for (int32_t e = 0; e < ROWS * COLUMNS; e++) x[e] = 10 * call + e;
        for (int32_t e = 0; e <= 2 * ROWS * COLUMNS; e++) y[0][e] = y[1][e] = -1;
        const muster_tensor in = muster_f64(x, ROWS, COLUMNS), out[] = {muster_f64(y[0], c->count), muster_f64(y[1], c->count)};
        assert_ok(muster_function_call(function, &in, 1, out, c->text[1] ? 2 : 1, NULL));
        for (int32_t o = 0; o < 2 && c->text[o]; o++)
            for (int64_t e = 0; e <= c->count; e++) assert_true(y[o][e] == (e < c->count ? c->value[o](x, e) : -1));
    }
    muster_graph_memory_init(&memory);
    assert_ok(muster_graph_function_memory(function, 0, &memory));
    assert_true((memory.block_bytes == 0) == c->no_block);
    assert_ok(muster_function_destroy(function));
}

/* A reshape that copies does so into the output. One that is a view of another value must not give
 * the output's memory to it. */
static void reshaped_outputs_are_written_once(void **state) {
    enum { N = ROWS * COLUMNS };
    static const reshaped cases[] = {
        {{"ravel(x.T)"}, {transposed}, N, true},
        {{"ravel(repeat(x, 2, axis=1))"}, {repeated}, 2 * N, true},
        {{"ravel(x.T)", "ravel(x.T)"}, {transposed, transposed}, N, true},
        {{"ravel(x.T)", "ravel(x.T) * 2"}, {transposed, transposed_twice}, N, true},
        {{"ravel(x.T) * 2", "ravel(x.T)"}, {transposed_twice, transposed}, N, true},
        {{"ravel(x + 1)"}, {more}, N, false},
        {{"ravel((x + 1)[1])"}, {more_of_row}, COLUMNS, false},
        {{"ravel(x + 1)", "ravel(x + 1 + 1)"}, {more, much_more}, N, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) reshaped_case(*state, &cases[i]);
    assert_int_equal(sizeof cases / sizeof *cases, 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_of_other_shapes_are_refused),
        cmocka_unit_test(outputs_have_the_strides_of_their_call),
        cmocka_unit_test(an_update_of_another_shape_is_refused),
        cmocka_unit_test(reshaped_outputs_are_written_once),
    };
    return cmocka_run_group_tests(tests, graph_open, graph_close);
}
