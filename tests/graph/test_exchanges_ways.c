/* Exchanges that ways of operators save, read from the dump of a function: rows of a table that is
 * split between its rows, largest and smallest elements over rows, partial sums that pass through
 * conversions and selections. What is computed is compared with one device. */
#include "base_machine.h"
#include "base_skip.h"
#include "graph_fixture.h"
#include "muster/rule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 12, COLUMNS = 4, TABLE = 100, VALUES = 512 };

/* A parameter "w" (size, COLUMNS) of the dtype, and a loss of it, of x (rows, COLUMNS), and of t
 * (rows), which are indices into TABLE rows. */
typedef struct saving {
    const char *name, *loss, *output;
    muster_dtype dtype;
    int32_t size, split; /* split: an axis, or -1 */
    /* Of two workers: all bytes that each receives in exchanges and in the pass, and how many
     * exchanges there are of each kind. */
    int32_t reduced, scattered, gathered, exchanged, bytes;
} saving;

static const saving savings[] = {
    /* The indices, and the gradients of the rows, are gathered: 12 8 / 2 + 12 4 8 / 2. The rows are
     * summed in parts: 12 4 8 / 2. */
    {"rows of a split table", "sum(square(take(w, t)) * x)", "take(w, t)", MUSTER_F64, TABLE, 0, 0, 1, 2, 0, 48 + 192 + 192},
    /* The pass exchanges 2 (4 4 8) / 2 bytes for w; two vectors of 4 numbers, 2 (4 8) / 2 bytes
     * each. */
    {"the largest over rows", "sum(max(x @ w, 0))", "max(x @ w, 0)", MUSTER_F64, COLUMNS, -1, 2, 0, 0, 0, 128 + 2 * 32},
    {"the smallest over rows", "sum(min(x @ w, 0))", "min(x @ w, 0)", MUSTER_F64, COLUMNS, -1, 2, 0, 0, 0, 128 + 2 * 32},
    /* Nothing but the pass. */
    {"limited weights", "sum(square(x @ clip(w, -0.5, 0.5)))", "x", MUSTER_F64, COLUMNS, -1, 0, 0, 0, 0, 128},
    {"selected weights", "sum(square(x @ where(w > 0, w, w * w)))", "x", MUSTER_F64, COLUMNS, -1, 0, 0, 0, 0, 128},
    {"weights with more digits", "sum(square(cast(x, f32) @ cast(w, f32)))", "x", MUSTER_F64, COLUMNS, -1, 0, 0, 0, 0, 128},
    /* Sums in f64 are rounded to f32 once they are complete: 4 4 8 / 2. Then each worker updates a
     * part, and all gather the new value: 4 4 4 / 2. */
    {"weights with fewer digits", "sum(square(x @ cast(w, f64)))", "x", MUSTER_F32, COLUMNS, -1, 0, 1, 1, 0, 64 + 32},
};
enum { SAVINGS = sizeof savings / sizeof *savings };

static double number_at(int64_t i) { return sin(0.7 + 1.3 * (double)i + 0.1 * (double)(i % 7)); }

/* The new value of w, after two steps, and the output of the second. */
typedef struct trained {
    double values[VALUES];
    int32_t count;
    char *dump;
} trained;

static void keep_variable(trained *t, const saving *s, muster_variable *variable) {
    float narrow[TABLE * COLUMNS];
    double wide[TABLE * COLUMNS];
    if (s->dtype == MUSTER_F32)
        assert_ok(muster_variable_get_whole(variable, muster_f32(narrow, s->size, COLUMNS)));
    else
        assert_ok(muster_variable_get_whole(variable, muster_f64(wide, s->size, COLUMNS)));
    for (int32_t i = 0; i < s->size * COLUMNS; i++) t->values[t->count++] = s->dtype == MUSTER_F32 ? narrow[i] : wide[i];
}

static muster_function *train_make(muster_runtime *runtime, const saving *s, muster_variable **variable) {
    float narrow[TABLE * COLUMNS];
    double wide[TABLE * COLUMNS];
    muster_graph_options options;
    muster_function *function;
    muster_graph *graph;
    muster_expr *gradient;
    for (int32_t i = 0; i < s->size * COLUMNS; i++) narrow[i] = (float)(wide[i] = number_at(i));
    assert_ok(muster_variable_create(
        runtime, "w", s->dtype == MUSTER_F32 ? muster_f32(narrow, s->size, COLUMNS) : muster_f64(wide, s->size, COLUMNS), variable));
    if (s->split >= 0) assert_ok(muster_variable_split(*variable, s->split));
    assert_ok(muster_graph_create(runtime, s->name, &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "t", MUSTER_I64, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    muster_expr *w = muster_graph_parameter(graph, *variable);
    assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, s->output), MUSTER_AUTO));
    assert_ok(muster_gradient(muster_expr_parse(graph, s->loss), &w, 1, &gradient));
    assert_ok(muster_graph_minimise(graph, &w, &gradient, 1, MUSTER_SGD, NULL));
    muster_graph_options_init(&options);
    options.rows = ROWS;
    options.unfused = on_gpus();
    assert_ok(muster_graph_compile(graph, &options, &function));
    assert_ok(muster_graph_destroy(graph));
    return function;
}

static void train(const char *devices, const saving *s, int64_t rows, trained *t) {
    muster_runtime *runtime = graph_runtime(devices);
    muster_variable *variable;
    double x[ROWS * COLUMNS], y[ROWS * COLUMNS];
    int64_t labels[ROWS];
    muster_function *function = train_make(runtime, s, &variable);
    const bool by_row = strstr(s->output, "max") == NULL && strstr(s->output, "min") == NULL;
    for (int64_t i = 0; i < rows * COLUMNS; i++) x[i] = number_at(3 * i);
    for (int64_t i = 0; i < rows; i++) labels[i] = i * 37 % TABLE;
    t->count = 0;
    for (int32_t step = 0; step < 2; step++) {
        const muster_tensor in[] = {muster_f64(x, rows, COLUMNS), muster_i64(labels, rows)};
        const muster_tensor out = by_row ? muster_f64(y, rows, COLUMNS) : muster_f64(y, COLUMNS);
        assert_ok(muster_function_call(function, in, 2, &out, 1, NULL));
    }
    keep_variable(t, s, variable);
    for (int64_t i = 0; i < (by_row ? rows : 1) * COLUMNS; i++) t->values[t->count++] = y[i];
    t->dump = graph_dump_text(function);
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_variable_destroy(variable));
    assert_ok(muster_runtime_close(runtime));
}

static int32_t count_of(const char *text, const char *operation) {
    char beginning[64];
    int32_t count = 0;
    snprintf(beginning, sizeof beginning, "= %s(", operation);
    for (const char *at = text; (at = strstr(at, beginning)); at++) count++;
    return count;
}

static int32_t bytes_of(const char *text) {
    int32_t bytes = 0;
    for (const char *at = text; (at = strstr(at, "receives ")); at++)
        if (strncmp(at - 5, "each ", 5) != 0) bytes += atoi(at + strlen("receives "));
    return bytes;
}

static void exchanges_are_saved(void **state) {
    (void)state;
    for (int32_t i = 0; i < SAVINGS; i++) {
        const saving *s = &savings[i];
        trained t;
        train("host:2", s, ROWS, &t);
        const bool counted = count_of(t.dump, "all_reduce") == s->reduced && count_of(t.dump, "reduce_scatter") == s->scattered &&
                             count_of(t.dump, "all_gather") == s->gathered && count_of(t.dump, "all_to_all") == s->exchanged;
        /* unfused: the updates are steps, with other exchanges of at most as many bytes */
        if (on_gpus() ? bytes_of(t.dump) > s->bytes : !counted || bytes_of(t.dump) != s->bytes)
            fail_msg("%s: expected %d, %d, %d and %d exchanges, %d bytes, received %d bytes in\n%s", s->name, s->reduced, s->scattered,
                     s->gathered, s->exchanged, s->bytes, bytes_of(t.dump), t.dump);
        free(t.dump);
    }
}

static void compare(const saving *s, const char *devices, int64_t rows) {
    trained one, many;
    train("host:1", s, rows, &one);
    train(devices, s, rows, &many);
    const double limit = s->dtype == MUSTER_F32 || strstr(s->loss, "f32") ? 1e-5 : 1e-11;
    assert_int_equal(one.count, many.count);
    for (int32_t i = 0; i < one.count; i++) {
        const double a = one.values[i], b = many.values[i];
        if (!(fabs(a - b) <= limit * (1 + fabs(a))) && !(isnan(a) && isnan(b)))
            fail_msg("%s on %s, %d rows: value %d is %.17g, on one device %.17g", s->name, devices, (int)rows, (int)i, b, a);
    }
    free(one.dump);
    free(many.dump);
}

static void the_values_are_those_of_one_device(void **state) {
    static const char *const devices[] = {"host:2", "host:3", "host:8"};
    static const int64_t rows[] = {ROWS, 7, 1};
    (void)state;
    for (int32_t i = 0; i < SAVINGS; i++)
        for (int32_t n = 0; n < (on_gpus() ? 1 : 3); n++)
            for (int32_t r = 0; r < (on_gpus() ? 1 : 3); r++) compare(&savings[i], devices[n], rows[r]);
}

/* More workers than rows, and than rows of most parameters. */
static void thirty_three_workers_compute_what_one_device_does(void **state) {
    (void)state;
    if (on_gpus()) SKIP("the simulated machine has 8 GPUs");
    for (int32_t i = 0; i < SAVINGS; i++) compare(&savings[i], "host:33", ROWS);
}

/* ---- parts of eight axes ---- */

enum { AXES = 8, LONG = 5, EIGHT_ROWS = 7, EIGHT_VALUES = EIGHT_ROWS * 48 * LONG };

typedef struct eight {
    double w[48 * LONG], y[EIGHT_VALUES];
    int32_t count, outputs;
    char *dump;
} eight;

static double *numbers(int32_t count, int32_t step) {
    static double values[EIGHT_VALUES];
    for (int32_t i = 0; i < count; i++) values[i] = number_at((int64_t)step * i);
    return values;
}

static int32_t count_elements(const int64_t shape[AXES]) {
    int32_t count = 1;
    for (int32_t d = 0; d < AXES; d++) count *= (int32_t)shape[d];
    return count;
}

/* A parameter of eight axes, of which `axis` is split and has LONG elements. It meets values by
 * row, which become parts; or, summed, a product over the rows, whose sum each worker gets a part
 * of. That output is gathered. With logical shards the parameter is whole. */
static void eight_run(const char *devices, int32_t shards, int32_t axis, bool summed, eight *e) {
    int64_t shape[AXES] = {1, 2, 1, 3, 2, 1, 2, 2}, x_shape[AXES], w_shape[AXES] = {0};
    shape[axis] = LONG;
    memcpy(x_shape, shape, sizeof shape);
    memcpy(w_shape, &shape[summed], sizeof shape - (summed ? sizeof *shape : 0));
    if (summed) w_shape[AXES - 1] = 1;
    x_shape[0] = MUSTER_ROWS;
    muster_runtime_options runtime_options;
    muster_runtime *runtime;
    muster_variable *variable;
    muster_graph *graph;
    muster_function *function;
    muster_graph_options options;
    muster_expr *gradient;
    muster_runtime_options_init(&runtime_options);
    runtime_options.devices = devices;
    runtime_options.logical_shards = shards;
    assert_ok(muster_runtime_open(&runtime_options, &runtime));
    e->count = count_elements(w_shape);
    assert_ok(muster_variable_create(runtime, "w", muster_tensor_make(MUSTER_F64, numbers(e->count, 1), AXES, w_shape), &variable));
    assert_ok(muster_graph_create(runtime, "eight", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F64, AXES, x_shape, MUSTER_SCATTER);
    (void)muster_graph_input(graph, "t", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, 1), MUSTER_SCATTER);
    muster_expr *w = muster_graph_parameter(graph, variable);
    if (shards < 0) assert_ok(muster_graph_split(w, summed ? axis - 1 : axis));
    muster_expr *y = muster_expr_parse(graph, summed ? "tanh(einsum(x, t, subscripts=\"rabcdefg,ri->abcdefgi\") * w)" : "tanh(x * w)");
    assert_ok(muster_gradient(APPLY(graph, "mean", APPLY(graph, "square", y)), &w, 1, &gradient));
    assert_ok(muster_graph_minimise(graph, &w, &gradient, 1, MUSTER_SGD, NULL));
    assert_ok(muster_graph_output(graph, "y", y, MUSTER_AUTO));
    muster_graph_options_init(&options);
    options.rows = EIGHT_ROWS;
    options.unfused = on_gpus();
    assert_ok(muster_graph_compile(graph, &options, &function));
    assert_ok(muster_graph_destroy(graph));
    double t[EIGHT_ROWS] = {1, -0.5, 0.25, 2, 0.125, -1, 0.75};
    x_shape[0] = EIGHT_ROWS;
    e->outputs = (summed ? 1 : EIGHT_ROWS) * e->count;
    const muster_tensor in[] = {muster_tensor_make(MUSTER_F64, numbers(count_elements(x_shape), 3), AXES, x_shape),
                                muster_f64(t, EIGHT_ROWS, 1)};
    const muster_tensor out = muster_tensor_make(MUSTER_F64, e->y, AXES, summed ? w_shape : x_shape);
    for (int32_t step = 0; step < 2; step++) assert_ok(muster_function_call(function, in, 2, &out, 1, NULL));
    assert_ok(muster_variable_get_whole(variable, muster_tensor_make(MUSTER_F64, e->w, AXES, w_shape)));
    e->dump = graph_dump_text(function);
    assert_ok(muster_runtime_close(runtime));
}

static void parts_of_eight_axes_are_exchanged(void **state) {
    static eight one, many;
    static const char *const devices[] = {"host:2", "host:3", "host:8"};
    int32_t cases = 0, gathered = 0, scattered = 0, exchanged = 0;
    (void)state;
    for (int32_t axis = 1; axis < AXES; axis++)
        for (int32_t n = 0; n < (on_gpus() ? 1 : 3); n++)
            for (int32_t summed = 0; summed < 2; summed++, cases++) {
                eight_run("host:1", -1, axis, summed != 0, &one);
                eight_run(devices[n], -1, axis, summed != 0, &many);
                gathered += count_of(many.dump, "all_gather") > 0;
                scattered += count_of(many.dump, "reduce_scatter") > 0;
                exchanged += count_of(many.dump, "all_to_all") > 0;
                assert_int_equal(one.count, many.count);
                for (int32_t i = 0; i < one.count; i++) assert_true(fabs(one.w[i] - many.w[i]) <= 1e-11);
                for (int32_t i = 0; i < one.outputs; i++) assert_true(fabs(one.y[i] - many.y[i]) <= 1e-11);
                free(one.dump);
                free(many.dump);
            }
    assert_int_equal(cases, (AXES - 1) * (on_gpus() ? 1 : 3) * 2);
    if (gathered < cases / 2 || scattered < cases / 3 || exchanged < cases / 2)
        fail_msg("of %d cases %d gather, %d reduce and scatter, %d exchange parts", (int)cases, (int)gathered, (int)scattered,
                 (int)exchanged);
}

static void eight_values(const char *devices, int32_t shards, int32_t axis, bool summed, eight *e) {
    eight_run(devices, shards, axis, summed, e);
    free(e->dump);
}

/* A part of a sum over rows: that of the parts of the sum is smaller, and has eight axes. */
static void slice_run(const char *devices, double y[4 * LONG]) {
    const int64_t shape[AXES] = {MUSTER_ROWS, LONG, 1, 2, 1, 1, 2, 1}, of_all[AXES] = {EIGHT_ROWS, LONG, 1, 2, 1, 1, 2, 1},
                  of_y[AXES] = {1, 1, 1, 2, 1, 1, 2, 1};
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_graph *graph;
    muster_function *function;
    muster_runtime_options_init(&options);
    options.devices = devices;
    options.logical_shards = 6;
    assert_ok(muster_runtime_open(&options, &runtime));
    assert_ok(muster_graph_create(runtime, "slice", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F64, AXES, shape, MUSTER_SCATTER);
    assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "sum(x, 0, keepdims=1)[:, 3:4]"), MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    const muster_tensor in = muster_tensor_make(MUSTER_F64, numbers(EIGHT_ROWS * 4 * LONG, 3), AXES, of_all),
                        out = muster_tensor_make(MUSTER_F64, y, AXES, of_y);
    assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
    assert_ok(muster_runtime_close(runtime));
}

static void a_part_of_eight_axes_is_summed_in_the_reproducible_mode(void **state) {
    static const char *const devices[] = {"host:1", "host:2", "host:3"};
    double y[3][4 * LONG];
    (void)state;
    for (int32_t n = 0; n < 3; n++) slice_run(devices[n], y[n]);
    for (int32_t i = 0; i < 4; i++) {
        double sum = 0;
        for (int32_t r = 0; r < EIGHT_ROWS; r++) sum += number_at(3 * ((int64_t)r * 4 * LONG + 3 * 4 + i));
        assert_true(fabs(y[0][i] - sum) < 1e-12);
        assert_true(y[1][i] == y[0][i] && y[2][i] == y[0][i]);
    }
}

/* Sums over logical shards, which are kept apart along an axis of their own. */
static void eight_axes_have_the_bits_of_one_device_in_the_reproducible_mode(void **state) {
    static eight one, many;
    static const char *const devices[] = {"host:2", "host:3"};
    int32_t cases = 0;
    (void)state;
    for (int32_t axis = 1; axis < AXES; axis += 3)
        for (int32_t n = 0; n < 2; n++)
            for (int32_t summed = 0; summed < 2; summed++, cases++) {
                eight_values("host:1", 6, axis, summed != 0, &one);
                eight_values(devices[n], 6, axis, summed != 0, &many);
                assert_memory_equal(one.w, many.w, (size_t)one.count * sizeof *one.w);
                assert_memory_equal(one.y, many.y, (size_t)one.outputs * sizeof *one.y);
                eight_values("host:1", -1, axis, summed != 0, &many);
                for (int32_t i = 0; i < one.count; i++) assert_true(fabs(one.w[i] - many.w[i]) <= 1e-11);
            }
    assert_int_equal(cases, 3 * 2 * 2);
}

/* ---- equal elements, and NaN, on several devices ---- */

/* In a column the first of the equal extremes, or the first NaN, has the gradient. */
static void expect_first(const char *devices, const char *text, const double *x, int64_t rows, int64_t first) {
    muster_runtime *runtime = graph_runtime(devices);
    muster_graph *graph;
    muster_function *function;
    muster_graph_options options;
    double got[ROWS];
    assert_ok(muster_graph_create(runtime, "first", &graph));
    muster_expr *input = muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER), *gradient;
    assert_ok(muster_gradient(muster_expr_parse(graph, text), &input, 1, &gradient));
    assert_ok(muster_graph_output(graph, "d", gradient, MUSTER_AUTO));
    muster_graph_options_init(&options);
    options.unfused = on_gpus();
    assert_ok(muster_graph_compile(graph, &options, &function));
    double copy[ROWS];
    memcpy(copy, x, (size_t)rows * sizeof *x);
    const muster_tensor in = muster_f64(copy, rows), out = muster_f64(got, rows);
    assert_ok(muster_function_call(function, &in, 1, &out, 1, NULL));
    for (int64_t i = 0; i < rows; i++)
        if (got[i] != (i == first ? 3 : 0))
            fail_msg("%s on %s: gradient %d is %g, expected it at %d", text, devices, (int)i, got[i], (int)first);
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_runtime_close(runtime));
}

static void the_first_of_equals_has_the_gradient(void **state) {
    static const char *const devices[] = {"host:1", "host:2", "host:3", "host:8"};
    static const struct {
        double x[7];
        int64_t largest, smallest;
    } cases[] = {
        {{1, 5, 5, 2, 5, 1, 0}, 1, 6},
        {{4, 4, 4, 4, 4, 4, 4}, 0, 0},
        {{0, -1, 2, -1, 2, 2, -1}, 2, 1},
        {{1, 9, (double)NAN, 0, (double)NAN, -3, 9}, 2, 2},
        {{1, 2, 3, 4, 5, 6, (double)INFINITY}, 6, 0},
        {{(double)-INFINITY, (double)-INFINITY, 1, 1, 1, 1, 1}, 2, 0},
    };
    (void)state;
    for (int32_t n = 0; n < (on_gpus() ? 2 : 4); n++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            expect_first(devices[n], "3 * max(x)", cases[i].x, 7, cases[i].largest);
            expect_first(devices[n], "3 * min(x)", cases[i].x, 7, cases[i].smallest);
        }
}

/* An index outside of a split table is refused, and is not taken as one of another worker's rows.
 * */
static void indices_outside_are_refused(void **state) {
    (void)state;
    for (int32_t n = 1; n < 4; n++) {
        char devices[16];
        muster_variable *variable;
        double x[7 * COLUMNS] = {0}, y[7 * COLUMNS];
        snprintf(devices, sizeof devices, "host:%d", (int)n);
        muster_runtime *runtime = graph_runtime(devices);
        muster_function *function = train_make(runtime, &savings[0], &variable);
        for (int32_t wrong = 0; wrong < 14; wrong++) {
            int64_t labels[7] = {0, 99, 50, 49, 33, 66, 1};
            labels[wrong % 7] = wrong < 7 ? TABLE : -1;
            const muster_tensor in[] = {muster_f64(x, 7, COLUMNS), muster_i64(labels, 7)}, out = muster_f64(y, 7, COLUMNS);
            assert_refused(muster_function_call(function, in, 2, &out, 1, NULL), MUSTER_OUT_OF_RANGE,
                           wrong < 7 ? "expected indices in [0, 100), received 100" : "expected indices in [0, 100), received -1");
        }
        int64_t labels[7] = {0, 99, 50, 49, 33, 66, 1};
        const muster_tensor in[] = {muster_f64(x, 7, COLUMNS), muster_i64(labels, 7)}, out = muster_f64(y, 7, COLUMNS);
        assert_ok(muster_function_call(function, in, 2, &out, 1, NULL));
        for (int32_t i = 0; i < 7 * COLUMNS; i++) assert_true(fabs(y[i] - number_at(labels[i / COLUMNS] * COLUMNS + i % COLUMNS)) < 1e-12);
        assert_ok(muster_function_destroy(function));
        assert_ok(muster_variable_destroy(variable));
        assert_ok(muster_runtime_close(runtime));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exchanges_are_saved),
        cmocka_unit_test(the_values_are_those_of_one_device),
        cmocka_unit_test(thirty_three_workers_compute_what_one_device_does),
        cmocka_unit_test(parts_of_eight_axes_are_exchanged),
        cmocka_unit_test(a_part_of_eight_axes_is_summed_in_the_reproducible_mode),
        cmocka_unit_test(eight_axes_have_the_bits_of_one_device_in_the_reproducible_mode),
        cmocka_unit_test(the_first_of_equals_has_the_gradient),
        cmocka_unit_test(indices_outside_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
