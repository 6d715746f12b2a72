/* muster_gradient_check: right gradients pass at drawn and at given points; a wrong gradient is
 * found, and the message names the element, the two values and the operation; what cannot be
 * checked is refused. The wrong gradients are those of operators made here. */
#include "graph_fixture.h"
#include "graph_private.h"
#include "muster/operator.h"

#include <math.h>

static muster_graph *graph_named(muster_runtime *runtime, const char *name) {
    muster_graph *graph;
    assert_ok(muster_graph_create(runtime, name, &graph));
    return graph;
}

/* ---- an operator with a wrong gradient ---- */

/* d tanh(x) = 1 - tanh(x)^2; here 1 - x^2, wrong but at 0. */
static void gradient_wrong(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    muster_expr *x = node->inputs[0], *one = mst_number(node->graph, node->type.dtype, 1);
    mst_gradient_add(gradients, node, 0,
                     MST_APPLY(node->graph, multiply, dy, MST_APPLY(node->graph, subtract, one, MST_APPLY(node->graph, square, x))));
}

static muster_expr *wrong_tanh(muster_expr *x, const char *where) {
    static mst_operator op;
    op = *mst_operators[MST_OPERATOR_tanh];
    op.gradient = gradient_wrong;
    op.name = "wrong_tanh";
    muster_expr **inputs = mst_arena_take(&x->graph->arena, sizeof *inputs);
    inputs[0] = x;
    mst_draft draft = {.graph = x->graph, .op = &op, .inputs = inputs, .count = 1, .types = {x->type}};
    x->graph->origin = (mst_origin){.where = where};
    muster_expr *made = mst_node_make(&draft);
    x->graph->origin = (mst_origin){0};
    return made;
}

/* ---- right gradients ---- */

/* mean(relu(x @ w + b)^2) of f32 inputs, a parameter and labels, whose rows nothing gives. */
static void a_right_gradient_passes(void **state) {
    muster_runtime *runtime = *state;
    muster_variable *variable;
    float weights[4][3];
    double worst = -1;
    for (int32_t i = 0; i < 12; i++) weights[i / 3][i % 3] = (float)((5 * i) % 7 - 3) / 4;
    assert_ok(muster_variable_create(runtime, "w", muster_f32(weights, 4, 3), &variable));
    muster_graph *graph = graph_named(runtime, "right");
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 4), MUSTER_SCATTER);
    muster_expr *labels = muster_graph_input(graph, "labels", MUSTER_U8, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    muster_expr *w = muster_graph_parameter(graph, variable);
    muster_expr *loss = APPLY(graph, "softmax_cross_entropy", APPLY(graph, "tanh", APPLY(graph, "matmul", x, w)), labels);
    const int32_t nodes = loss->graph->node_count;
    assert_ok(muster_gradient_check(loss, NULL, 0, NULL, &worst));
    assert_true(worst > 0 && worst < 0.01);
    assert_ok(muster_gradient_check(loss, &w, 1, NULL, NULL));
    assert_int_equal(loss->graph->node_count, nodes); /* the program's graph stays as it is */

    /* also once it is frozen, and at a given point, whose rows are strided f64 in place of f32 */
    muster_function *function;
    assert_ok(muster_graph_output(graph, "loss", loss, MUSTER_MASTER));
    muster_graph_options compiled;
    muster_graph_options_init(&compiled);
    compiled.meaning = MUSTER_PER_WORKER;
    assert_ok(muster_graph_compile(graph, &compiled, &function));
    double given[5][8];
    uint8_t classes[5] = {0, 1, 2, 1, 0};
    for (int32_t i = 0; i < 40; i++) given[i / 8][i % 8] = i % 8 < 4 ? (double)((3 * i) % 11 - 5) / 4 : NAN;
    const muster_tensor values[] = {muster_tensor_slice_axis(muster_f64(given, 5, 8), 1, 0, 4), muster_u8(classes, 5)};
    muster_gradient_check_options options;
    muster_gradient_check_options_init(&options);
    options.values = values;
    options.value_count = 2;
    assert_ok(muster_gradient_check(loss, NULL, 0, &options, &worst));
    assert_true(worst < 0.01);
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_variable_destroy(variable));
}

/* The limits of what is drawn, and named sizes: log at positive elements, matrices of one size. */
static void options_choose_the_point(void **state) {
    muster_graph *graph = graph_named(*state, "options");
    const int64_t n = muster_graph_size(graph, "n");
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F16, MUSTER_SHAPE(n, n), MUSTER_BROADCAST);
    muster_expr *loss = APPLY(graph, "mean", APPLY(graph, "log", APPLY(graph, "matmul", x, x)));
    muster_gradient_check_options options;
    muster_gradient_check_options_init(&options);
    options.low = 0.5;
    options.high = 2;
    for (int64_t size = 1; size <= 20; size += 19) {
        options.size = size;
        options.elements = size == 1 ? 0 : 7;
        options.seed = (uint64_t)size;
        assert_ok(muster_gradient_check(loss, &x, 1, &options, NULL));
    }
    options.low = -2;
    options.high = -1;
    options.size = 1;
    assert_ok(muster_gradient_check(loss, &x, 1, &options, NULL)); /* x x > 0 */
    muster_expr *nan = APPLY(graph, "sum", APPLY(graph, "log", x));
    assert_refused(muster_gradient_check(nan, &x, 1, &options, NULL), MUSTER_INVALID_ARGUMENT,
                   "loss: expected a finite value at the point");
    assert_ok(muster_graph_destroy(graph));
}

/* exp(40 x) is steep: a smaller step has to be tried. */
static void a_steep_loss_passes(void **state) {
    muster_graph *graph = graph_named(*state, "steep");
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(2), MUSTER_BROADCAST);
    muster_expr *loss = APPLY(graph, "sum", APPLY(graph, "exp", APPLY(graph, "multiply", x, muster_graph_number(graph, 40))));
    assert_ok(muster_gradient_check(loss, NULL, 0, NULL, NULL));
    assert_ok(muster_graph_destroy(graph));
}

/* ---- wrong ones ---- */

static void a_wrong_gradient_is_found(void **state) {
    muster_graph *graph = graph_named(*state, "wrong");
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(2, 3), MUSTER_BROADCAST);
    muster_expr *y = muster_graph_input(graph, "y", MUSTER_F32, MUSTER_SHAPE(3), MUSTER_BROADCAST);
    muster_expr *h = muster_expr_name(wrong_tanh(APPLY(graph, "multiply", x, y), "net.c:7"), "h");
    muster_expr *loss = APPLY(graph, "sum", APPLY(graph, "exp", APPLY(graph, "sin", h)));
    /* at x = (0 0 0; 0 0 1.5), y = 1 only element (1, 2) is wrong, and only with respect to x and
     * y */
    double values[2][3] = {{0}}, ones[3] = {1, 1, 1}, worst = 0;
    values[1][2] = 1.5;
    const double t = tanh(1.5), outer = exp(sin(t)) * cos(t), expected = outer * (1 - t * t), received = outer * (1 - 1.5 * 1.5);
    const muster_tensor point[] = {muster_f64(values, 2, 3), muster_f64(ones, 3)};
    muster_gradient_check_options options;
    muster_gradient_check_options_init(&options);
    options.values = point;
    options.value_count = 2;
    assert_int_equal(muster_gradient_check(loss, &x, 1, &options, &worst), MUSTER_INVALID_ARGUMENT);
    char message[512];
    snprintf(message, sizeof message,
             "test.c:1: muster_gradient_check: loss: gradient of input \"x\" (2, 3) f32, element (1, 2): expected %.8g", expected);
    message[strlen(message) - 2] = 0; /* the digits on which differences agree */
    if (!strstr(muster_last_error(), message)) fail_msg("%s", muster_last_error());
    snprintf(message, sizeof message,
             "received %.9g; 1 of 6 elements are wrong; the gradient of muster_expr_wrong_tanh \"h\" is wrong by itself (net.c:7)",
             received);
    if (!strstr(muster_last_error(), message)) fail_msg("%s", muster_last_error());
    assert_true(worst > 1000);
    values[1][2] = 0; /* where the wrong gradient is right */
    assert_ok(muster_gradient_check(loss, &x, 1, &options, &worst));
    assert_true(worst <= 1);
    assert_int_equal(muster_graph_status(graph), MUSTER_OK);
    assert_ok(muster_graph_destroy(graph));
}

/* Only one element of 400 is wrong: a check of 100 in other places does not see it, one of all
 * does; tolerances above the error accept it. */
static void elements_and_tolerances_are_as_given(void **state) {
    muster_graph *graph = graph_named(*state, "one of 400");
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(400), MUSTER_BROADCAST);
    muster_expr *loss = APPLY(graph, "sum", wrong_tanh(x, "net.c:7"));
    double values[400] = {0}, worst;
    values[399] = 0.1;
    const double truth = 1 - tanh(0.1) * tanh(0.1), error = fabs(1 - 0.01 - truth);
    const muster_tensor point = muster_f64(values, 400);
    muster_gradient_check_options options;
    muster_gradient_check_options_init(&options);
    options.values = &point;
    options.value_count = 1;
    options.elements = 1000000;
    assert_refused(muster_gradient_check(loss, &x, 1, &options, &worst), MUSTER_INVALID_ARGUMENT, "element (399,)");
    assert_true(fabs(worst / (error / (1e-6 * (1 + truth))) - 1) < 1e-3);
    options.absolute = 1.01 * error;
    assert_ok(muster_gradient_check(loss, &x, 1, &options, &worst));
    assert_true(fabs(worst * 1.01 - 1) < 1e-3);
    options.absolute = 0;
    options.relative = 1.01 * error / truth;
    assert_ok(muster_gradient_check(loss, &x, 1, &options, &worst));
    options.relative = 0.99 * error / truth;
    assert_int_equal(muster_gradient_check(loss, &x, 1, &options, &worst), MUSTER_INVALID_ARGUMENT);
    options.elements = 1;
    int32_t found = 0;
    for (options.seed = 0; options.seed < 50; options.seed++) found += muster_gradient_check(loss, &x, 1, &options, NULL) != MUSTER_OK;
    assert_true(found < 5);
    assert_ok(muster_graph_destroy(graph));
}

/* A kink: the loss is not differentiable at 0, and the message names relu. */
static void a_kink_is_named(void **state) {
    muster_graph *graph = graph_named(*state, "kink");
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(2), MUSTER_BROADCAST);
    muster_expr *loss = APPLY(graph, "sum", APPLY(graph, "relu", x));
    double values[2] = {1, 0};
    const muster_tensor point = muster_f64(values, 2);
    muster_gradient_check_options options;
    muster_gradient_check_options_init(&options);
    options.values = &point;
    options.value_count = 1;
    assert_refused(
        muster_gradient_check(loss, &x, 1, &options, NULL), MUSTER_INVALID_ARGUMENT,
        "element (1,): expected 0.5, as differences say, received 0; 1 of 2 elements are wrong; the gradient of muster_expr_relu is "
        "wrong by itself (test.c:1)");
    assert_ok(muster_graph_destroy(graph));
}

/* ---- what cannot be checked ---- */

static void what_cannot_be_checked_is_refused(void **state) {
    muster_graph *graph = graph_named(*state, "refused");
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(3), MUSTER_BROADCAST);
    muster_expr *n = muster_graph_input(graph, "n", MUSTER_I32, MUSTER_SHAPE(3), MUSTER_BROADCAST);
    muster_expr *other = muster_graph_input(graph, "other", MUSTER_F32, MUSTER_SHAPE(3), MUSTER_BROADCAST);
    muster_expr *loss = APPLY(graph, "sum", x), *square = APPLY(graph, "square", x);
    assert_refused(muster_gradient_check(loss, &n, 1, NULL, NULL), MUSTER_UNSUPPORTED,
                   "expressions[0]: expected a float dtype, received \"n\" (3,) i32");
    assert_refused(muster_gradient_check(loss, &square, 1, NULL, NULL), MUSTER_INVALID_ARGUMENT,
                   "expressions[0]: expected an input or a parameter, received muster_expr_square (3,) f32");
    assert_refused(muster_gradient_check(loss, &other, 1, NULL, NULL), MUSTER_INVALID_ARGUMENT,
                   "loss: expected one that depends on the expressions, received one that does not");
    assert_refused(
        muster_gradient_check(APPLY(graph, "sum", APPLY(graph, "stop_gradient", x)), &x, 1, NULL, NULL), MUSTER_UNSUPPORTED,
        "test.c:1: muster_gradient_check: loss: expected operations that differences can check, received muster_expr_stop_gradient");
    muster_expr *losses = muster_expr_parse(graph, "softmax_cross_entropy(expand_dims(x, 0), expand_dims(argmax(x), 0))", "x", x), *first;
    assert_ok(muster_gradient(APPLY(graph, "sum", losses), &x, 1, &first));
    assert_refused(muster_gradient_check(APPLY(graph, "sum", first), &x, 1, NULL, NULL), MUSTER_UNSUPPORTED,
                   "expected operations with a gradient, received muster_expr_softmax_cross_entropy");
    assert_int_equal(muster_graph_status(graph), MUSTER_OK); /* all of it in graphs of their own */

    /* an operation that each call draws anew */
    static mst_operator drawn;
    drawn = *mst_operators[MST_OPERATOR_tanh];
    drawn.flags |= MST_OPERATOR_UNIQUE;
    drawn.name = "drawn";
    mst_draft draft = {.graph = x->graph, .op = &drawn, .inputs = &x, .count = 1, .types = {x->type}};
    assert_refused(muster_gradient_check(APPLY(graph, "sum", mst_node_make(&draft)), &x, 1, NULL, NULL), MUSTER_UNSUPPORTED,
                   "received muster_expr_drawn, which each call draws anew");

    float wide[4] = {0};
    int32_t whole[3] = {0};
    muster_tensor point[] = {muster_f32(wide, 4), muster_i32(whole, 3), muster_f32(wide, 3)};
    muster_gradient_check_options options;
    muster_gradient_check_options_init(&options);
    options.values = point;
    options.value_count = 3;
    assert_refused(muster_gradient_check(loss, &x, 1, &options, NULL), MUSTER_SHAPE_MISMATCH, "values[0]: expected input \"x\" (3,) f32");
    point[0] = muster_i32(whole, 3);
    assert_refused(muster_gradient_check(loss, &x, 1, &options, NULL), MUSTER_DTYPE_MISMATCH,
                   "values[0]: expected floats for input \"x\", received i32");
    options.value_count = 2;
    assert_refused(muster_gradient_check(loss, &x, 1, &options, NULL), MUSTER_INVALID_ARGUMENT, "value_count: expected 3");
    assert_ok(muster_graph_destroy(graph));
}

/* Each allocation of a check fails once: the failure is said, and nothing is leaked. */
static void every_failed_allocation_is_said(void **state) {
    muster_graph *graph = graph_named(*state, "tight");
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(2), MUSTER_BROADCAST);
    muster_expr *right = APPLY(graph, "sum", APPLY(graph, "tanh", x)), *wrong = APPLY(graph, "sum", wrong_tanh(x, "net.c:7"));
    for (int32_t w = 0; w < 2; w++) {
        int32_t failed = 0;
        muster_status status = MUSTER_OUT_OF_MEMORY;
        const int64_t live = mst_memory_live();
        for (int64_t k = 1; status == MUSTER_OUT_OF_MEMORY; k++, failed++) {
            mst_memory_fail_at(k);
            status = muster_gradient_check(w ? wrong : right, &x, 1, NULL, NULL);
            mst_memory_fail_at(0);
        }
        assert_int_equal(status, w ? MUSTER_INVALID_ARGUMENT : MUSTER_OK);
        assert_true(failed > 40);
        assert_true(mst_memory_live() - live <= 8); /* what the runtime keeps for later calls */
    }
    assert_ok(muster_graph_destroy(graph));
}

static int open_two_devices(void **state) {
    *state = graph_runtime("host:2");
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_gradient_passes),
        cmocka_unit_test(options_choose_the_point),
        cmocka_unit_test(a_steep_loss_passes),
        cmocka_unit_test(a_wrong_gradient_is_found),
        cmocka_unit_test(elements_and_tolerances_are_as_given),
        cmocka_unit_test(a_kink_is_named),
        cmocka_unit_test(what_cannot_be_checked_is_refused),
        cmocka_unit_test(every_failed_allocation_is_said),
    };
    return cmocka_run_group_tests(tests, open_two_devices, graph_close);
}
