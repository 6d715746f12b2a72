/* muster_gradient_check where differences say little: operators that do not take f64, elements and
 * inner values that are infinite, losses that vary over less than the first step. */
#include "graph_fixture.h"
#include "muster/operator.h"

#include <math.h>

static muster_graph *graph_named(muster_runtime *runtime, const char *name) {
    muster_graph *graph;
    assert_ok(muster_graph_create(runtime, name, &graph));
    return graph;
}

static muster_gradient_check_options at_point(const muster_tensor *values, int32_t count) {
    muster_gradient_check_options options;
    muster_gradient_check_options_init(&options);
    options.values = values;
    options.value_count = count;
    return options;
}

static muster_expr *parse(muster_graph *graph, const char *text) {
    muster_expr *made = muster_expr_parse(graph, text);
    if (muster_expr_ndim(made) < 0) fail_msg("%s: %s", text, muster_last_error());
    return made;
}

/* ---- operators that take f32 only ---- */

static int32_t wide_bodies;

static muster_status cube_body(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                               void *user) {
    (void)worker;
    (void)node;
    (void)user;
    const float *x = muster_tensor_address(in[0]);
    float *y = muster_tensor_address(out[0]);
    wide_bodies += in[0].dtype != MUSTER_F32;
    for (int64_t i = 0; in[0].dtype == MUSTER_F32 && i < muster_tensor_count(in[0]); i++) y[i] = x[i] * x[i] * x[i];
    return MUSTER_OK;
}
static muster_status cube_gradient(const muster_operator_node *node, muster_expr *const *x, muster_expr *const *y, muster_expr *const *dy,
                                   muster_expr **dx, void *user) {
    (void)y;
    (void)user;
    dx[0] = muster_expr_parse(muster_operator_graph(node), "3 * x * x * dy", "x", x[0], "dy", dy[0]);
    return MUSTER_OK;
}
static muster_status rule_refuses(muster_operator_node *node, muster_expr *const *x, int32_t count, void *user) {
    (void)count;
    (void)user;
    if (muster_expr_dtype(x[0]) != MUSTER_F32) return muster_fail(MUSTER_DTYPE_MISMATCH, "x: expected f32");
    return muster_operator_result(node, 0, MUSTER_F32, 1, (const int64_t[]){muster_expr_size(x[0], 0)});
}
static muster_status rule_gives_f32(muster_operator_node *node, muster_expr *const *x, int32_t count, void *user) {
    (void)count;
    (void)user;
    return muster_operator_result(node, 0, MUSTER_F32, 1, (const int64_t[]){muster_expr_size(x[0], 0)});
}

/* The rule is asked, and the body never sees f64. */
static void a_rule_that_refuses_f64_is_asked(void **state) {
    static const struct {
        muster_operator_rule rule;
        const char *message;
    } rows[] = {
        {rule_refuses, "test.c:1: muster_gradient_check: loss: expected operators that take f64, in which the check computes, received "
                       "muster_expr_cube, which refuses it: muster_expr_cube: rule: x: expected f32"},
        {rule_gives_f32, "test.c:1: muster_gradient_check: loss: expected operators that take f64, in which the check computes, received "
                         "muster_expr_cube, whose rule then gives f32 as result 0, and not f64"},
    };
    static const char *const operands[] = {"x", NULL};
    static const muster_operator_backend body = {NULL, cube_body};
    int32_t refused = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++, refused++) {
        muster_operator_options options;
        muster_operator *made;
        muster_operator_options_init(&options);
        options.operands = operands;
        options.bodies = &body;
        options.body_count = 1;
        options.gradient = cube_gradient;
        options.rule = rows[i].rule;
        assert_ok(muster_operator_create(*state, "cube", &options, &made));
        muster_graph *graph = graph_named(*state, "ruled");
        muster_expr *x = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
        muster_expr *loss = APPLY(graph, "mean", APPLY(graph, "cube", x));
        assert_int_equal(muster_gradient_check(loss, NULL, 0, NULL, NULL), MUSTER_UNSUPPORTED);
        assert_string_equal(muster_last_error(), rows[i].message);
        assert_ok(muster_graph_status(graph));
        assert_ok(muster_graph_destroy(graph));
        assert_ok(muster_operator_destroy(made));
    }
    assert_int_equal(refused, 2);
    assert_int_equal(wide_bodies, 0);
}

/* ---- what is infinite ---- */

/* A mask with -infinity: the other elements are checked. If only some are looked at, those. */
static void infinite_elements_are_left_out(void **state) {
    muster_graph *graph = graph_named(*state, "mask");
    (void)muster_graph_input(graph, "m", MUSTER_F32, MUSTER_SHAPE(2, 4), MUSTER_BROADCAST);
    muster_expr *right = parse(graph, "sum(exp(m))"), *wrong = parse(graph, "sum(exp(m) + relu(m))");
    double m[2][4] = {{1, -INFINITY, 0.5, -INFINITY}, {-INFINITY, 2, -1, 0}}, worst = -1;
    const muster_tensor point = muster_f64(m, 2, 4);
    muster_gradient_check_options options = at_point(&point, 1);
    int32_t checked = 0;
    for (options.elements = 1; options.elements <= 10; options.elements++)
        for (options.seed = 0; options.seed < 5; options.seed++, checked++) {
            assert_ok(muster_gradient_check(right, NULL, 0, &options, &worst));
            assert_true(worst > 0 && worst < 0.1);
        }
    assert_int_equal(checked, 50);
    assert_refused(muster_gradient_check(wrong, NULL, 0, &options, NULL), MUSTER_INVALID_ARGUMENT,
                   "element (1, 3): expected 1.5, as differences say, received 1; 1 of 5 elements are wrong; the gradient of "
                   "muster_expr_relu is wrong by itself");
    for (int32_t i = 0; i < 8; i++) (&m[0][0])[i] = i ? -INFINITY : NAN;
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(1), MUSTER_BROADCAST);
    double one = 1;
    const muster_tensor both[] = {point, muster_f64(&one, 1)};
    options = at_point(both, 2);
    assert_refused(muster_gradient_check(parse(graph, "sum(where(isnan(m), 0, exp(m))) + sum(x)"), NULL, 0, &options, NULL),
                   MUSTER_INVALID_ARGUMENT,
                   "loss: gradient of input \"m\" (2, 4) f32: expected a finite element to check, received 8 that are infinite or NaN");
    assert_ok(muster_graph_destroy(graph));
}

/* The search for the operation goes past results that are infinite, and where 0 times infinity is
 * NaN: log is not blamed, maximum is. */
static void the_search_goes_past_infinite_values(void **state) {
    muster_graph *graph = graph_named(*state, "inner");
    (void)muster_graph_input(graph, "y", MUSTER_F64, MUSTER_SHAPE(2), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "b", MUSTER_BOOL, MUSTER_SHAPE(2), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "z", MUSTER_F64, MUSTER_SHAPE(2), MUSTER_BROADCAST);
    double y[2] = {0.5, 0.25}, z[2] = {0, 1};
    bool b[2] = {true, false};
    const muster_tensor point[] = {muster_f64(y, 2), muster_tensor_make(MUSTER_BOOL, b, MUSTER_SHAPE(2)), muster_f64(z, 2)};
    const muster_gradient_check_options options = at_point(point, 3);
    static const char *const texts[] = {"sum(exp(y + log(cast(b, f64)))) + sum(maximum(z, 0))",
                                        "sum(exp(log(where(b, y, 0)))) + sum(maximum(z, 0))",
                                        "sum(exp(-1 / where(b, y * y, 0))) + sum(maximum(z, 0))"};
    int32_t found = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++, found++)
        assert_refused(muster_gradient_check(parse(graph, texts[i]), (muster_expr *[]){parse(graph, "z")}, 1, &options, NULL),
                       MUSTER_INVALID_ARGUMENT,
                       "input \"z\" (2,) f64, element (0,): expected 0.5, as differences say, received 1; 1 of 2 elements are wrong; the "
                       "gradient of muster_expr_maximum is wrong by itself");
    assert_int_equal(found, 3);
    assert_ok(muster_graph_destroy(graph));
}

/* ---- steps ---- */

/* The first steps are as long as x is large, and the loss varies over 1: smaller steps are tried
 * while the differences differ. A wrong gradient stays wrong. */
static void large_elements_get_small_steps(void **state) {
    static const double sizes[] = {1e2, 1e3, 1e4, 1e5, 1e6};
    muster_graph *graph = graph_named(*state, "large");
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(1, 4), MUSTER_BROADCAST);
    muster_expr *right = parse(graph, "sum(sin(log_softmax(x, axis=1)))"), *sine = parse(graph, "sum(sin(x))");
    int32_t passed = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++, passed++) {
        double values[4];
        for (int32_t i = 0; i < 4; i++) values[i] = sizes[s] + i;
        const muster_tensor point = muster_f64(values, 1, 4);
        const muster_gradient_check_options options = at_point(&point, 1);
        assert_ok(muster_gradient_check(right, &x, 1, &options, NULL));
        assert_ok(muster_gradient_check(sine, &x, 1, &options, NULL));
    }
    assert_int_equal(passed, 5);
    double zero[4] = {1e4, 0, 1e4, 1e4};
    const muster_tensor point = muster_f64(zero, 1, 4);
    const muster_gradient_check_options options = at_point(&point, 1);
    assert_refused(muster_gradient_check(parse(graph, "sum(sin(x) + relu(x))"), &x, 1, &options, NULL), MUSTER_INVALID_ARGUMENT,
                   "element (0, 1): expected 1.5");
    assert_non_null(strstr(muster_last_error(), ", as differences say, received 1; 1 of 4 elements are wrong"));
    assert_ok(muster_graph_destroy(graph));
}

static int open_runtime(void **state) {
    *state = graph_runtime("host:1");
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_that_refuses_f64_is_asked),
        cmocka_unit_test(infinite_elements_are_left_out),
        cmocka_unit_test(the_search_goes_past_infinite_values),
        cmocka_unit_test(large_elements_get_small_steps),
    };
    return cmocka_run_group_tests(tests, open_runtime, graph_close);
}
