/* Pooling of expressions: which elements have the gradient, gradients of both orders against
 * differences, shapes, nodes and wrong programs. tests/nn/test_pooling.c has the computations
 * themselves, fixtures.py NumPy's numbers; pooling on several devices is in the tables of
 * test_distribution and test_devices_operators. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_fixture.h"
#include "graph_private.h"

#include <math.h>

enum { ELEMENTS = 16 };

static muster_function *compile(muster_graph *graph) {
    muster_function *function;
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.unfused = on_gpus(); /* the simulated machine would compile a program for each group */
    assert_ok(muster_graph_compile(graph, &options, &function));
    assert_ok(muster_graph_destroy(graph));
    return function;
}

/* ---- which elements have the gradient ---- */

/* y and dx of a text of x (1, 1, count) or (1, 1, rows, columns), with dy = 1, 2, 3 ... */
static void pool(muster_runtime *runtime, const char *text, int64_t rows, int64_t columns, double *x, double *y, double *dx) {
    muster_graph *graph;
    const int64_t shape[] = {1, 1, rows ? rows : columns, columns}, count = (rows ? rows : 1) * columns;
    assert_ok(muster_graph_create(runtime, "pool", &graph));
    muster_expr *in = muster_graph_input(graph, "x", MUSTER_F64, rows ? 4 : 3, shape, MUSTER_BROADCAST), *d;
    muster_expr *made = APPLY(graph, "ravel", muster_expr_parse(graph, text)), *of = made;
    if (muster_expr_ndim(made) < 0) fail_msg("%s: %s", text, muster_last_error());
    const int64_t places = mst_dim_constant(graph->graph, made->type.dims[0]);
    muster_expr *dy = apply(graph, "arange", NULL, 0,
                            ATTRIBUTES({.name = "shape", LIST(places)}, {.name = "start", .number = 1}, {.name = "increment", .number = 1},
                                       {.name = "dtype", .integer = MUSTER_F64}));
    assert_ok(muster_gradient(APPLY(graph, "sum", APPLY(graph, "multiply", of, dy)), &in, 1, &d));
    assert_ok(muster_graph_output(graph, "y", made, MUSTER_AUTO));
    assert_ok(muster_graph_output(graph, "dx", APPLY(graph, "ravel", d), MUSTER_AUTO));
    muster_function *function = compile(graph);
    const muster_tensor given = muster_tensor_make(MUSTER_F64, x, rows ? 4 : 3, shape);
    const muster_tensor out[] = {muster_f64(y, places), muster_f64(dx, count)};
    assert_ok(muster_function_call(function, &given, 1, out, 2, NULL));
    assert_ok(muster_function_destroy(function));
}

static void the_first_of_the_largest_has_the_gradient(void **state) {
    const double nan = (double)NAN, inf = (double)INFINITY;
    const struct {
        const char *text;
        int64_t rows, columns;
        double x[ELEMENTS], y[ELEMENTS], dx[ELEMENTS];
    } cases[] = {
        {"max_pool(x, 2)", 0, 6, {1, 1, 2, 3, 5, 4}, {1, 3, 5}, {1, 0, 0, 2, 3, 0}},
        {"max_pool(x, 3, stride=1)", 0, 5, {0, 2, 2, 2, 1}, {2, 2, 2}, {0, 3, 3, 0, 0}},
        {"max_pool(x, 2, stride=1)", 2, 3, {1, 1, 1, 1, 1, 1}, {1, 1}, {1, 2, 0, 0, 0, 0}},
        {"max_pool(x, 2, stride=1)", 3, 2, {0, 7, 7, 0, 0, 7}, {7, 7}, {0, 1, 2, 0, 0, 0}},
        {"max_pool(x, 3)", 0, 6, {1, nan, nan, 4, 5, nan}, {nan, nan}, {0, 1, 0, 0, 0, 2}},
        {"max_pool(x, 2, padding=1)", 0, 4, {-5, -inf, -inf, -inf}, {-5, -inf, -inf}, {1, 2, 0, 3}},
        {"max_pool(x, 3, stride=1, padding=1)", 0, 3, {inf, inf, -1}, {inf, inf, inf}, {3, 3, 0}},
        {"max_pool(x, 2, stride=1, dilation=2)", 0, 4, {3, 9, 3, 1}, {3, 9}, {1, 2, 0, 0}},
        {"max_pool(x, 2, ceil_mode=1)", 0, 5, {1, 2, 4, 4, -3}, {2, 4, -3}, {0, 1, 2, 0, 3}},
        {"average_pool(x, 2, padding=1)", 0, 4, {2, 4, 6, 8}, {1, 5, 4}, {0.5, 1, 1, 1.5}},
        {"average_pool(x, 2, padding=1, exclude_padding=1)", 0, 4, {2, 4, 6, 8}, {2, 5, 8}, {1, 1, 1, 3}},
        {"average_pool(x, 4, stride=2, padding=1, ceil_mode=1)", 0, 5, {4, 4, 4, 4, 4}, {3, 4, 8 / 3.}, {0.25, 0.75, 0.75, 1.5, 1.5}},
        {"l2_pool(x, 2)", 0, 4, {0, 0, 3, -4}, {0, 5}, {0, 0, 1.2, -1.6}},
        {"l2_pool(x, 2, ceil_mode=1)", 0, 3, {3, 4, -6}, {5, 6}, {0.6, 0.8, -2}},
        {"cast(l2_pool(cast(x, f16), 2), f64)", 0, 2, {0, 300}, {300}, {0, 1}},        /* the square is no half */
        {"cast(l2_pool(cast(x, bf16), 2), f64)", 0, 2, {0, 0x1p70}, {0x1p70}, {0, 1}}, /* the square is no float */
        {"global_max_pool(x)", 2, 2, {1, 8, 8, 3}, {8}, {0, 1, 0, 0}},
        {"global_average_pool(x)", 2, 2, {1, 8, 8, 3}, {5}, {0.25, 0.25, 0.25, 0.25}},
    };
    int32_t compared = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++, compared++) {
        double x[ELEMENTS], y[ELEMENTS] = {0}, dx[ELEMENTS] = {0};
        memcpy(x, cases[i].x, sizeof x);
        pool(*state, cases[i].text, cases[i].rows, cases[i].columns, x, y, dx);
        for (int32_t e = 0; e < ELEMENTS; e++) {
            const double of_y = cases[i].y[e], of_dx = cases[i].dx[e];
            if (!(isnan(of_y) ? isnan(y[e]) : y[e] == of_y || fabs(y[e] - of_y) < 1e-14))
                fail_msg("%s: y, element %d: expected %g, received %g", cases[i].text, (int)e, of_y, y[e]);
            if (!(fabs(dx[e] - of_dx) < 1e-14))
                fail_msg("%s: dx, element %d: expected %g, received %g", cases[i].text, (int)e, of_dx, dx[e]);
        }
    }
    assert_int_equal(compared, 18);
}

/* ---- differences ---- */

static void gradients_of_three_orders_are_those_of_differences(void **state) {
    static const struct {
        const char *text;
        int64_t x[5];
        int32_t ndim;
    } cases[] = {
        {"max_pool(x, [2, 3], stride=[1, 2], padding=[1, 0, 0, 1])", {2, 1, 3, 4}, 4},
        {"max_pool(x, 2, stride=1, dilation=2, ceil_mode=1)", {1, 2, 5}, 3},
        {"average_pool(x, [3, 2], stride=2, padding=1, ceil_mode=1)", {1, 2, 4, 3}, 4},
        {"average_pool(x, 2, padding=[0, 1, 1], exclude_padding=1)", {1, 1, 2, 3, 2}, 5},
        {"l2_pool(x, 3, stride=2, padding=1)", {2, 1, 5}, 3},
    };
    int32_t checked = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int32_t order = 1; order <= 3; order++, checked++) {
            muster_graph *graph;
            muster_gradient_check_options options;
            assert_ok(muster_graph_create(*state, "differences", &graph));
            muster_expr *x = muster_graph_input(graph, "x", MUSTER_F64, cases[i].ndim, cases[i].x, MUSTER_BROADCAST), *d;
            muster_expr *loss = muster_expr_parse(graph, "sum(sin(y))", "y", muster_expr_parse(graph, cases[i].text, "x", x));
            for (int32_t o = 1; o < order; o++) {
                assert_ok(muster_gradient(loss, &x, 1, &d));
                loss = muster_expr_parse(graph, "sum(d * sin(d))", "d", d);
            }
            muster_gradient_check_options_init(&options);
            if (muster_gradient_check(loss, &x, 1, &options, NULL) != MUSTER_OK)
                fail_msg("%s, order %d: %s", cases[i].text, (int)order, muster_last_error());
            assert_ok(muster_graph_destroy(graph));
        }
    assert_int_equal(checked, 15);
}

/* ---- shapes ---- */

static void shapes_are_those_of_the_window(void **state) {
    static const struct {
        const char *text, *shape;
    } cases[] = {
        {"max_pool(x, 2)", "(rows, 3, 4, 3)"},
        {"max_pool(x, [3, 2])", "(rows, 3, 2, 3)"},
        {"max_pool(x, 3, stride=2, padding=1)", "(rows, 3, 4, 3)"},
        {"max_pool(x, 3, stride=2, padding=[1, 0, 0, 1])", "(rows, 3, 4, 3)"},
        {"max_pool(x, 3, ceil_mode=1)", "(rows, 3, 3, 2)"},
        {"max_pool(x, [8, 6])", "(rows, 3, 1, 1)"},
        {"max_pool(x, 2, stride=1, dilation=[7, 5])", "(rows, 3, 1, 1)"},
        {"max_pool(x, 9, stride=1, padding=4)", "(rows, 3, 8, 6)"},
        {"max_pool(x, 2, stride=3, padding=1, ceil_mode=1)", "(rows, 3, 3, 3)"},
        {"average_pool(x, 2, stride=[1, 2])", "(rows, 3, 7, 3)"},
        {"average_pool(x, 1)", "(rows, 3, 8, 6)"},
        {"l2_pool(x, 5, 5)", "(rows, 3, 1, 1)"},
        {"global_max_pool(x)", "(rows, 3, 1, 1)"},
        {"global_average_pool(t)", "(rows, 3, 1)"},
        {"max_pool(t, 3, stride=1, padding=1)", "(rows, 3, time)"},
        {"average_pool(t, 2, stride=1, padding=[0, 1])", "(rows, 3, time)"},
        {"average_pool(t, 1, dilation=5)", "(rows, 3, time)"},
        {"max_pool(f, 2, stride=3, dilation=6, padding=3)", "(rows, 3, 2)"}, /* the second window begins where f does */
    };
    muster_graph *graph;
    int32_t compared = 0;
    assert_ok(muster_graph_create(*state, "shapes", &graph));
    const int64_t time = muster_graph_size(graph, "time");
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 3, 8, 6), MUSTER_SCATTER);
    muster_expr *t = muster_graph_input(graph, "t", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 3, time), MUSTER_SCATTER);
    muster_expr *f = muster_graph_input(graph, "f", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 3, 4), MUSTER_SCATTER);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++, compared++) {
        muster_expr *y = muster_expr_parse(graph, cases[i].text, "x", x, "t", t, "f", f);
        if (muster_expr_ndim(y) < 0) fail_msg("%s: %s", cases[i].text, muster_last_error());
        if (strcmp(muster_expr_shape(y), cases[i].shape) != 0)
            fail_msg("%s: expected %s, received %s", cases[i].text, cases[i].shape, muster_expr_shape(y));
    }
    assert_int_equal(compared, 18);
    assert_ok(muster_graph_destroy(graph));
}

/* A gradient with respect to x keeps an extent that only a call knows. */
static void extents_that_a_call_knows_are_pooled(void **state) {
    static const char *const texts[] = {"max_pool(t, 3, stride=1, padding=1)", "average_pool(t, 3, stride=1, padding=1)"};
    static const double y[2][4] = {{5, 5, 7, 7}, {4 / 3., 2, 14 / 3., 3}}, dx[2][4] = {{0, 2, 0, 2}, {2 / 3., 1, 1, 2 / 3.}};
    for (int32_t i = 0; i < 2; i++) {
        muster_graph *graph;
        muster_expr *d;
        double x[] = {-1, 5, 2, 7}, received[2][4] = {{0}};
        assert_ok(muster_graph_create(*state, "time", &graph));
        const int64_t time = muster_graph_size(graph, "time");
        muster_expr *t = muster_graph_input(graph, "t", MUSTER_F64, MUSTER_SHAPE(1, 1, time), MUSTER_BROADCAST);
        muster_expr *pooled = muster_expr_parse(graph, texts[i]);
        assert_ok(muster_gradient(APPLY(graph, "sum", pooled), &t, 1, &d));
        assert_ok(muster_graph_output(graph, "y", pooled, MUSTER_AUTO));
        assert_ok(muster_graph_output(graph, "dx", d, MUSTER_AUTO));
        muster_function *function = compile(graph);
        const muster_tensor in = muster_f64(x, 1, 1, 4), out[] = {muster_f64(received[0], 1, 1, 4), muster_f64(received[1], 1, 1, 4)};
        assert_ok(muster_function_call(function, &in, 1, out, 2, NULL));
        assert_ok(muster_function_destroy(function));
        for (int32_t e = 0; e < 4; e++)
            if (fabs(received[0][e] - y[i][e]) > 1e-14 || fabs(received[1][e] - dx[i][e]) > 1e-14)
                fail_msg("%s, element %d: received %g and %g", texts[i], (int)e, received[0][e], received[1][e]);
    }
}

static void attributes_that_say_the_same_make_one_node(void **state) {
    static const char *const texts[] = {
        "average_pool(x, 2)", "average_pool(x, [2, 2])", "average_pool(x, 2, stride=2)",
        "average_pool(x, 2, stride=[2, 2], padding=[0, 0, 0, 0], dilation=1, ceil_mode=0, exclude_padding=0)"};
    static const char *const others[] = {"average_pool(x, 2, stride=1)", "average_pool(x, 2, exclude_padding=1)",
                                         "average_pool(x, 2, ceil_mode=1)", "average_pool(x, 2, padding=[0, 0, 0, 1])", "max_pool(x, 2)"};
    muster_graph *graph;
    assert_ok(muster_graph_create(*state, "one", &graph));
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(2, 3, 8, 6), MUSTER_BROADCAST), *first = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        muster_expr *y = muster_expr_parse(graph, texts[i], "x", x);
        if (!first) first = y;
        assert_int_equal(muster_expr_ndim(y), 4);
        assert_ptr_equal(y, first);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        muster_expr *y = muster_expr_parse(graph, others[i], "x", x);
        assert_int_equal(muster_expr_ndim(y), 4);
        assert_ptr_not_equal(y, first);
    }
    assert_ok(muster_graph_destroy(graph));
}

/* ---- wrong programs ---- */

static void wrong_programs_get_messages(void **state) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"max_pool(x)", "muster_expr_max_pool: size: expected"},
        {"max_pool(s, 2)", "muster_expr_max_pool: x \"s\": expected images, channels and 1 to 3 extents, received (3, 4)"},
        {"max_pool(h, 2)", "muster_expr_max_pool: x \"h\": expected images, channels and 1 to 3 extents, received (1, 1, 2, 2, 2, 2)"},
        {"average_pool(n, 2)", "muster_expr_average_pool: x \"n\": expected f16, bf16, f32 or f64, received i32"},
        {"max_pool(x, [1, 2, 3])", "muster_expr_max_pool: size: expected 1 or 2 entries, received 3"},
        {"max_pool(x, 0)", "muster_expr_max_pool: size: expected numbers from 1 to 2^31 - 1, received 0"},
        {"max_pool(x, 2, stride=0)", "muster_expr_max_pool: stride: expected numbers from 1 to 2^31 - 1, received 0"},
        {"max_pool(x, 2, padding=-1)", "muster_expr_max_pool: padding: expected numbers from 0 to 2^31 - 1, received -1"},
        {"max_pool(x, 2, padding=[1, 2, 3])", "muster_expr_max_pool: padding: expected 0, 1, 2 or 4 entries, received 3"},
        {"max_pool(x, 2, dilation=0)", "muster_expr_max_pool: dilation: expected numbers from 1 to 2^31 - 1, received 0"},
        {"max_pool(x, 2, padding=2)",
         "muster_expr_max_pool: padding: expected at most half of the 2 elements that the window spans in axis 2, received 2"},
        {"average_pool(x, 3, padding=[0, 0, 0, 2])",
         "muster_expr_average_pool: padding: expected at most half of the 3 elements that the window spans in axis 3, received 2"},
        {"max_pool(x, 2, dilation=2, padding=2)",
         "muster_expr_max_pool: padding: expected at most half of the 3 elements that the window spans in axis 2, received 2"},
        {"max_pool(x, [9, 1])",
         "muster_expr_max_pool: size: expected a window that fits into x \"x\" (2, 3, 8, 6) f32 with its padding, received 9 in axis 2"},
        {"l2_pool(x, 7)",
         "muster_expr_l2_pool: size: expected a window that fits into x \"x\" (2, 3, 8, 6) f32 with its padding, received 7 in axis 3"},
        {"max_pool(x, [65536, 32768])", "muster_expr_max_pool: size: expected a window of at most 2^31 - 1 elements, received more"},
        {"max_pool(o, 2, dilation=4, padding=2)",
         "muster_expr_max_pool: padding: expected an element of x \"o\" (1, 1, 1) f32 in each window, received 2 in axis 2, where one has "
         "none"},
        {"max_pool(f, 2, stride=2, dilation=6, padding=3)", /* the second window steps over all of f */
         "muster_expr_max_pool: padding: expected an element of x \"f\" (1, 1, 4) f32 in each window, received 3 in axis 2, where one has "
         "none"},
        {"average_pool(e, 2, padding=1)", "muster_expr_average_pool: padding: expected an element of x \"e\" (1, 1, 0) f32 in each window"},
        {"max_pool(t, 2)",
         "muster_expr_max_pool: x \"t\": expected a known extent in axis 2, unless stride is 1 and padding leaves it as it is, received"},
        {"max_pool(t, 3, stride=1, dilation=2, padding=2)",
         "muster_expr_max_pool: x \"t\": expected a known extent in axis 2, where dilation is not 1, received"},
        {"global_max_pool(s)", "muster_expr_global_max_pool: x \"s\": expected images, channels and 1 extent or more, received (3, 4)"},
        {"global_average_pool(n)", "muster_expr_global_average_pool: x \"n\": expected f16, bf16, f32 or f64, received i32"},
    };
    int32_t wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++, wrong++) {
        muster_graph *graph;
        assert_ok(muster_graph_create(*state, "wrong", &graph));
        const int64_t time = muster_graph_size(graph, "time");
        muster_expr *x = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(2, 3, 8, 6), MUSTER_BROADCAST);
        muster_expr *s = muster_graph_input(graph, "s", MUSTER_F32, MUSTER_SHAPE(3, 4), MUSTER_BROADCAST);
        muster_expr *n = muster_graph_input(graph, "n", MUSTER_I32, MUSTER_SHAPE(2, 3, 8, 6), MUSTER_BROADCAST);
        muster_expr *t = muster_graph_input(graph, "t", MUSTER_F32, MUSTER_SHAPE(2, 3, time), MUSTER_BROADCAST);
        muster_expr *o = muster_graph_input(graph, "o", MUSTER_F32, MUSTER_SHAPE(1, 1, 1), MUSTER_BROADCAST);
        muster_expr *e = muster_graph_input(graph, "e", MUSTER_F32, MUSTER_SHAPE(1, 1, 0), MUSTER_BROADCAST);
        muster_expr *f = muster_graph_input(graph, "f", MUSTER_F32, MUSTER_SHAPE(1, 1, 4), MUSTER_BROADCAST);
        muster_expr *h = muster_graph_input(graph, "h", MUSTER_F32, MUSTER_SHAPE(1, 1, 2, 2, 2, 2), MUSTER_BROADCAST);
        muster_expr *y = muster_expr_parse(graph, cases[i].text, "x", x, "s", s, "n", n, "t", t, "o", o, "e", e, "f", f, "h", h);
        if (muster_expr_ndim(y) != -1) fail_msg("%s: it is not refused", cases[i].text);
        if (!strstr(muster_last_error(), cases[i].message))
            fail_msg("%s:\n  expected: %s\n  received: %s", cases[i].text, cases[i].message, muster_last_error());
        assert_ok(muster_graph_destroy(graph));
    }
    assert_int_equal(wrong, 23);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_of_the_largest_has_the_gradient),
        cmocka_unit_test(gradients_of_three_orders_are_those_of_differences),
        cmocka_unit_test(shapes_are_those_of_the_window),
        cmocka_unit_test(extents_that_a_call_knows_are_pooled),
        cmocka_unit_test(attributes_that_say_the_same_make_one_node),
        cmocka_unit_test(wrong_programs_get_messages),
    };
    return cmocka_run_group_tests(tests, graph_open, graph_close);
}
