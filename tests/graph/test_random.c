/* Random numbers and dropout in expressions: the numbers of a row do not depend on the number of
 * devices; each seed, step and operation draws its own; dropout keeps or drops whole elements, and
 * its gradient drops the same ones. */
#include "base_seed.h"
#include "graph_fixture.h"
#include "graph_private.h"

#include <math.h>
#include <string.h>

enum { ROWS = 23, COLUMNS = 5, MANY = 1 << 16 };

static muster_expr *uniform(muster_graph *graph, muster_expr *step, int64_t rows, int64_t columns, int64_t seed, muster_dtype dtype) {
    return apply(
        graph, "random_uniform", &step, 1,
        ATTRIBUTES({.name = "shape", LIST(rows, columns)}, {.name = "seed", .integer = seed}, {.name = "dtype", .integer = dtype}));
}

static muster_expr *dropout(muster_graph *graph, muster_expr *x, muster_expr *step, double p, int64_t seed) {
    return apply(graph, "dropout", (muster_expr *[]){x, step}, 2,
                 ATTRIBUTES({.name = "p", .number = p}, {.name = "seed", .integer = seed}));
}

/* ---- the same rows on every number of devices ---- */

enum { DRAWS = 5 };
typedef struct drawn {
    float uniform[ROWS * COLUMNS], bernoulli[ROWS * COLUMNS], dropout[ROWS * COLUMNS];
    double normal[ROWS * COLUMNS];
    float same[COLUMNS]; /* of a shape without rows */
} drawn;

static void draw(const char *devices, int64_t rows, int64_t step_value, drawn *d) {
    muster_runtime *runtime = graph_runtime(devices);
    muster_graph *graph;
    muster_function *function;
    muster_graph_options options;
    float x[ROWS * COLUMNS];
    for (int32_t i = 0; i < ROWS * COLUMNS; i++) x[i] = (float)(i + 1);
    assert_ok(muster_graph_create(runtime, "drawn", &graph));
    muster_expr *in = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER);
    muster_expr *step = muster_graph_input(graph, "step", MUSTER_I64, MUSTER_SCALAR, MUSTER_BROADCAST);
    const muster_attribute shape = {.name = "shape", LIST(MUSTER_ROWS, COLUMNS)}, seed = {.name = "seed", .integer = 9};
    assert_ok(muster_graph_output(graph, "u", uniform(graph, step, MUSTER_ROWS, COLUMNS, 9, MUSTER_F32), MUSTER_GATHER));
    assert_ok(muster_graph_output(
        graph, "n", apply(graph, "random_normal", &step, 1, ATTRIBUTES(shape, seed, {.name = "dtype", .integer = MUSTER_F64})),
        MUSTER_GATHER));
    assert_ok(muster_graph_output(graph, "b",
                                  apply(graph, "bernoulli", &step, 1,
                                        ATTRIBUTES(shape, {.name = "p", .number = 0.3}, seed, {.name = "dtype", .integer = MUSTER_F32})),
                                  MUSTER_GATHER));
    assert_ok(muster_graph_output(graph, "d", dropout(graph, in, step, 0.4, 9), MUSTER_GATHER));
    assert_ok(muster_graph_output(graph, "s", uniform(graph, step, 1, COLUMNS, 9, MUSTER_F32), MUSTER_MAX));
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    assert_ok(muster_graph_compile(graph, &options, &function));
    memset(d, 0, sizeof *d);
    const muster_tensor given[] = {muster_f32(x, rows, COLUMNS), muster_i64(&step_value)};
    const muster_tensor out[DRAWS] = {muster_f32(d->uniform, rows, COLUMNS), muster_f64(d->normal, rows, COLUMNS),
                                      muster_f32(d->bernoulli, rows, COLUMNS), muster_f32(d->dropout, rows, COLUMNS),
                                      rows ? muster_f32(d->same, 1, COLUMNS) : muster_tensor_none()};
    assert_ok(muster_function_call(function, given, 2, out, DRAWS, NULL));
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_runtime_close(runtime));
}

static void rows_have_the_same_numbers_on_every_number_of_devices(void **state) {
    static const char *const devices[] = {"host:1", "host:2", "host:4", "host:3", "host:5", "host:6", "host:7", "host:8"};
    static const int64_t row_counts[] = {ROWS, 3 /* one worker of 4 has none */, 0, 1, 2, 4, 5, 7, 8, 16, 22};
    const int32_t counts = test_is_full() ? 8 : 3, rows = test_is_full() ? 11 : 3;
    const int64_t step = 16 + (int64_t)test_seed();
    drawn one, other;
    int32_t compared = 0;
    (void)state;
    for (int32_t r = 0; r < rows; r++)
        for (int32_t d = 0; d < counts; d++, compared++) {
            draw(devices[d], row_counts[r], step, d ? &other : &one);
            if (d) assert_memory_equal(&one, &other, sizeof one);
        }
    assert_int_equal(compared, rows * counts);
    /* a step draws anew, each of the five */
    draw("host:1", ROWS, 17, &one);
    draw("host:1", ROWS, 18, &other);
    assert_memory_not_equal(one.uniform, other.uniform, sizeof one.uniform);
    assert_memory_not_equal(one.normal, other.normal, sizeof one.normal);
    assert_memory_not_equal(one.bernoulli, other.bernoulli, sizeof one.bernoulli);
    assert_memory_not_equal(one.dropout, other.dropout, sizeof one.dropout);
    assert_memory_not_equal(one.same, other.same, sizeof one.same);
    /* and rows differ from each other */
    for (int32_t r = 1; r < ROWS; r++) assert_memory_not_equal(one.uniform, one.uniform + r * COLUMNS, COLUMNS * sizeof(float));
}

/* ---- keys ---- */

static void equal_keys_are_one_expression_and_others_draw_anew(void **state) {
    muster_graph *graph, *twin;
    muster_function *function;
    assert_ok(muster_graph_create(*state, "keys", &graph));
    assert_ok(muster_graph_create(*state, "twin", &twin));
    muster_expr *step = muster_graph_input(graph, "step", MUSTER_I32, MUSTER_SCALAR, MUSTER_BROADCAST);
    muster_expr *first = uniform(graph, step, 2, 3, 1, MUSTER_F32), *second = uniform(graph, step, 2, 3, 1, MUSTER_F32);
    muster_expr *fixed = uniform(twin, muster_graph_number(twin, 5), 2, 3, 1, MUSTER_F32);
    assert_true(first != second); /* drawn by two operations */
    assert_int_not_equal(first->values[1].integer, second->values[1].integer);
    assert_int_equal(fixed->input_count, 0);
    assert_ok(muster_graph_output(graph, "first", first, MUSTER_AUTO));
    assert_ok(muster_graph_output(graph, "second", second, MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    float a[6], b[6], c[6];
    int32_t at = 5;
    const muster_tensor in = muster_tensor_make(MUSTER_I32, &at, 0, NULL), out[] = {muster_f32(a, 2, 3), muster_f32(b, 2, 3)};
    assert_ok(muster_function_call(function, &in, 1, out, 2, NULL));
    assert_memory_not_equal(a, b, sizeof a);
    /* the first operation of another graph, and the same step as a number: the same key */
    assert_ok(muster_graph_output(twin, "fixed", fixed, MUSTER_AUTO));
    assert_ok(muster_graph_compile(twin, NULL, &function));
    const muster_tensor same = muster_f32(c, 2, 3);
    assert_ok(muster_function_call(function, NULL, 0, &same, 1, NULL));
    assert_memory_equal(a, c, sizeof a);
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_graph_destroy(twin));
}

/* ---- distributions ---- */

/* The average and the variance of n numbers are within 5 standard deviations of what they are for
 * the distribution. */
static void check_moments(const double *x, double average, double variance, double fourth) {
    double sum = 0, squares = 0;
    for (int32_t i = 0; i < MANY; i++) sum += x[i];
    for (int32_t i = 0; i < MANY; i++) squares += (x[i] - sum / MANY) * (x[i] - sum / MANY);
    assert_true(fabs(sum / MANY - average) < 5 * sqrt(variance / MANY));
    assert_true(fabs(squares / MANY - variance) < 5 * sqrt((fourth - variance * variance) / MANY));
}

static void numbers_have_their_distribution(void **state) {
    static double u[MANY], n[MANY], b[MANY], d[MANY], x[MANY];
    muster_graph *graph;
    muster_function *function;
    assert_ok(muster_graph_create(*state, "moments", &graph));
    muster_expr *in = muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(MANY), MUSTER_BROADCAST);
    const char *texts[] = {"random_uniform(0, [65536], 3, f64)", "random_normal(0, [65536], 3, f64)", "bernoulli(0, [65536], 0.25, 3, f64)",
                           "dropout(x, 0, 0.25, seed=3)"};
    for (int32_t i = 0; i < 4; i++)
        assert_ok(muster_graph_output(graph, (const char *[]){"u", "n", "b", "d"}[i], muster_expr_parse(graph, texts[i]), MUSTER_AUTO));
    (void)in;
    assert_ok(muster_graph_compile(graph, NULL, &function));
    for (int32_t i = 0; i < MANY; i++) x[i] = 3;
    const muster_tensor given = muster_f64(x, MANY),
                        out[] = {muster_f64(u, MANY), muster_f64(n, MANY), muster_f64(b, MANY), muster_f64(d, MANY)};
    assert_ok(muster_function_call(function, &given, 1, out, 4, NULL));
    check_moments(u, 0.5, 1. / 12, 1. / 80);
    check_moments(n, 0, 1, 3);
    check_moments(b, 0.25, 0.1875, 0.25 * 0.75 * (1 - 3 * 0.1875));
    for (int32_t i = 0; i < MANY; i++) {
        assert_true(u[i] >= 0 && u[i] < 1);
        assert_true(b[i] == 0 || b[i] == 1);
        assert_true(d[i] == 0 || d[i] == 4);
        x[i] = d[i] == 0; /* dropped: with the probability 0.25 */
    }
    check_moments(x, 0.25, 0.1875, 0.25 * 0.75 * (1 - 3 * 0.1875));
    assert_ok(muster_graph_destroy(graph));
}

/* ---- gradients ---- */

/* d sum(dropout(x) w) / dx is w / (1 - p) where x was kept, and 0 where it was dropped: by the same
 * operation with the same key, so that nothing is kept for it. */
static void check_gradient(muster_runtime *runtime, double p) {
    enum { N = 64 };
    muster_graph *graph;
    muster_function *function;
    double x[N], w[N], y[N], dx[N];
    int64_t at = 3;
    int32_t dropped = 0;
    assert_ok(muster_graph_create(runtime, "gradient", &graph));
    muster_expr *in = muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(N), MUSTER_BROADCAST), *d;
    muster_expr *weights = muster_graph_input(graph, "w", MUSTER_F64, MUSTER_SHAPE(N), MUSTER_BROADCAST);
    muster_expr *step = muster_graph_input(graph, "step", MUSTER_I64, MUSTER_SCALAR, MUSTER_BROADCAST);
    muster_expr *kept = dropout(graph, in, step, p, 1);
    assert_ok(muster_gradient(APPLY(graph, "sum", APPLY(graph, "multiply", kept, weights)), &in, 1, &d));
    assert_true(d->op == kept->op && d->inputs[1] == kept->inputs[1] && d->values[1].integer == kept->values[1].integer);
    assert_ok(muster_graph_output(graph, "y", kept, MUSTER_AUTO));
    assert_ok(muster_graph_output(graph, "dx", d, MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    for (int32_t i = 0; i < N; i++) x[i] = i + 1, w[i] = 2 * i + 1;
    if (p > 0) x[7] = NAN, x[9] = INFINITY;
    const muster_tensor given[] = {muster_f64(x, N), muster_f64(w, N), muster_i64(&at)}, out[] = {muster_f64(y, N), muster_f64(dx, N)};
    assert_ok(muster_function_call(function, given, 3, out, 2, NULL));
    for (int32_t i = 0; i < N; i++) {
        const bool drop = y[i] == 0;
        dropped += drop;
        if (!drop && isfinite(x[i])) assert_true(fabs(y[i] - x[i] / (1 - p)) <= 1e-15 * y[i]);
        assert_true(drop ? dx[i] == 0 : fabs(dx[i] - w[i] / (1 - p)) <= 1e-15 * dx[i]);
    }
    assert_true(p == 0 ? dropped == 0 : p == 1 ? dropped == N : dropped > 10 && dropped < 54);
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_graph_destroy(graph));
}

static void gradients_drop_what_dropout_dropped(void **state) {
    check_gradient(*state, 0.5);
    check_gradient(*state, 0);
    check_gradient(*state, 1);
}

/* ---- refusals ---- */

static void wrong_arguments_are_refused(void **state) {
    static const struct {
        const char *text, *expected;
    } rows[] = {
        {"random_uniform(0.5, [3], 1, f32)", "step: expected an integer, received 0.5"},
        {"random_uniform(x, [3], 1, f32)", "step \"x\": expected i8, u8, i16, i32, i64, u32 or u64, received f32"},
        {"random_uniform(i, [3], 1, f32)", "step \"i\": expected 0 dimensions, received (3,)"},
        {"random_uniform(0, [3], 1, f16)", "dtype: expected f32 or f64, received f16"},
        {"random_uniform(0, [3, -1], 1, f32)", "shape: entry 1: expected a size, received MUSTER_INFER"},
        {"random_normal(0, [3, rows], 1, f32)", "expected rows in the first axis only, so that elements can be numbered"},
        {"bernoulli(0, [3], 1.5, 1, f32)", "p: expected a number from 0 to 1, received 1.5"},
        {"dropout(x, 0, -0.5, 1)", "p: expected a number from 0 to 1, received -0.5"},
        {"dropout(i, 0, 0.5, 1)", "x \"i\": expected f16, bf16, f32 or f64, received i64"},
        {"dropout(x.T, 0, 0.5, 1)", "expected rows in the first axis only"},
    };
    int32_t refused = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++, refused++) {
        muster_graph *graph;
        assert_ok(muster_graph_create(*state, "refused", &graph));
        (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 3), MUSTER_SCATTER);
        (void)muster_graph_input(graph, "i", MUSTER_I64, MUSTER_SHAPE(3), MUSTER_BROADCAST);
        assert_int_equal(muster_expr_ndim(muster_expr_parse(graph, rows[i].text)), -1);
        if (!strstr(muster_last_error(), rows[i].expected)) fail_msg("%s: %s", rows[i].text, muster_last_error());
        assert_ok(muster_graph_destroy(graph));
    }
    assert_int_equal(refused, 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_the_same_numbers_on_every_number_of_devices),
        cmocka_unit_test(equal_keys_are_one_expression_and_others_draw_anew),
        cmocka_unit_test(numbers_have_their_distribution),
        cmocka_unit_test(gradients_drop_what_dropout_dropped),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, graph_open, graph_close);
}
