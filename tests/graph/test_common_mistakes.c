/* Mistakes that users of NumPy, JAX and PyTorch make: the whole sentence of each, which says what
 * is meant here. */
#include "graph_fixture.h"

/* m (4, 5), n (6, 5), e (0, 3), w (3, 16), r (4, 16), x (2, 3, 3), s (), bias (16). */
static muster_graph *graph_open_with(muster_runtime *runtime) {
    muster_graph *graph;
    assert_ok(muster_graph_create(runtime, "g", &graph));
    (void)muster_graph_input(graph, "m", MUSTER_F32, MUSTER_SHAPE(4, 5), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "n", MUSTER_F32, MUSTER_SHAPE(6, 5), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "e", MUSTER_F32, MUSTER_SHAPE(0, 3), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "w", MUSTER_F32, MUSTER_SHAPE(3, 16), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "r", MUSTER_F32, MUSTER_SHAPE(4, 16), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(2, 3, 3), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "s", MUSTER_F32, 0, NULL, MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "bias", MUSTER_F32, MUSTER_SHAPE(16), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "labels", MUSTER_I32, MUSTER_SHAPE(4), MUSTER_BROADCAST);
    return graph;
}

#define PLACE(text, column) "\"" text "\", column " column ": "
#define PARSE(text, column) "muster_expr_parse: " PLACE(text, column)

static void texts_say_what_is_meant(void **state) {
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"einsum('ij,jk->ik', m)",
         PLACE("einsum('ij,jk->ik', m)", "1") "muster_expr_einsum: expected 2 operands for these subscripts, received 1"},
        {"einsum('ij->ji', m, n)",
         PLACE("einsum('ij->ji', m, n)", "1") "muster_expr_einsum: expected 1 operand for these subscripts, received 2"},
        {"einsum('ij,jk->ik', m, n)", PLACE("einsum('ij,jk->ik', m, n)", "1") "muster_expr_einsum: x[1] \"n\": expected size 5 for \"j\", "
                                                                              "received (6, 5)"},
        {"einsum('i,ij->j', n, m)", PLACE("einsum('i,ij->j', n, m)", "1") "muster_expr_einsum: x[0] \"n\": expected 1 dimension, one for "
                                                                          "each letter, received (6, 5)"},
        {"lstm(x, w, r, bias)",
         PLACE("lstm(x, w, r, bias)", "1") "muster_expr_lstm: r \"r\": expected (4 h, h) for h states, received (4, 16)"},
        {"gru(x, w, r, bias)",
         PLACE("gru(x, w, r, bias)", "1") "muster_expr_gru: r \"r\": expected (3 h, h) for h states, received (4, 16)"},
        {"rnn(x, w, r, bias)", PLACE("rnn(x, w, r, bias)", "1") "muster_expr_rnn: r \"r\": expected (h, h) for h states, received (4, 16)"},
        {"cast(m, float32)", PARSE("cast(m, float32)", "9") "expected a dtype, such as f32, received \"float32\""},
        {"cast(m, int64)", PARSE("cast(m, int64)", "9") "expected a dtype, such as f32, received \"int64\""},
        {"sort(s)", PLACE("sort(s)", "1") "muster_expr_sort: x \"s\": expected 1 dimension or more, received ()"},
        {"argsort(s)", PLACE("argsort(s)", "1") "muster_expr_argsort: x \"s\": expected 1 dimension or more, received ()"},
        {"argmax(e, 0)",
         PLACE("argmax(e, 0)", "1") "muster_expr_argmax: x \"e\": expected at least one element along axis 0, received (0, 3)"},
        {"argmin(e)", PLACE("argmin(e)", "1") "muster_expr_argmin: x \"e\": expected at least one element along axis 0, received (0, 3)"},
        {"fabs(m)", PARSE("fabs(m)", "1") "unknown operation \"fabs\": did you mean absolute?"},
        {"realu(m)", PARSE("realu(m)", "1") "unknown operation \"realu\": did you mean relu?"},
        {"concat(m, n)", PARSE("concat(m, n)", "1") "unknown operation \"concat\": did you mean concatenate?"},
        {"neg(m)", PARSE("neg(m)", "1") "unknown operation \"neg\": did you mean negative?"},
        {"soft_max(m)", PARSE("soft_max(m)", "1") "unknown operation \"soft_max\": did you mean softmax?"},
        {"nothing(m)", PARSE("nothing(m)", "1") "unknown operation \"nothing\""},
        {"q(m)", PARSE("q(m)", "1") "unknown operation \"q\""},
    };
    int32_t refused = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++, refused++) {
        muster_graph *graph = graph_open_with(*state);
        assert_int_equal(muster_expr_ndim(muster_expr_parse(graph, rows[i].text)), -1);
        assert_string_equal(muster_last_error(), rows[i].message);
        assert_ok(muster_graph_destroy(graph));
    }
    assert_int_equal(refused, 20);
}

static void an_unknown_operation_is_suggested_in_calls(void **state) {
    muster_graph *graph = graph_open_with(*state);
    muster_expr *m = muster_expr_parse(graph, "m"), *made;
    assert_int_equal(muster_expr_apply(graph, "fabs", &m, 1, NULL, "net.c:3", &made), MUSTER_INVALID_ARGUMENT);
    assert_string_equal(muster_last_error(), "net.c:3: muster_expr_apply: operation: expected one of docs/expressions.md or an operator of "
                                             "the runtime, received \"fabs\": did you mean absolute?");
    assert_ok(muster_graph_destroy(graph));
}

static void a_second_derivative_names_the_operation_that_has_one(void **state) {
    muster_graph *graph = graph_open_with(*state);
    muster_expr *m = muster_expr_parse(graph, "m"), *labels = muster_expr_parse(graph, "labels"), *first, *second;
    muster_expr *loss = muster_expr_name(APPLY(graph, "softmax_cross_entropy", m, labels), "loss");
    assert_ok(muster_gradient(loss, &m, 1, &first));
    assert_int_equal(muster_gradient(APPLY(graph, "sum", APPLY(graph, "square", first)), &m, 1, &second), MUSTER_UNSUPPORTED);
    assert_string_equal(muster_last_error(),
                        "test.c:1: muster_gradient: loss: expected operations with a gradient, received muster_expr_softmax_cross_entropy "
                        "\"loss\": only the first of its results has one; for second derivatives write sum(cross_entropy(logits, labels))");
    assert_ok(muster_graph_destroy(graph));
}

/* Only the call knows the size; the matrix that is searched may be x turned, whose shape is not
 * shown. */
static void a_call_without_elements_shows_no_turned_shape(void **state) {
    muster_graph *graph;
    muster_function *function;
    assert_ok(muster_graph_create(*state, "empty", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(muster_graph_size(graph, "n"), 3), MUSTER_BROADCAST);
    assert_ok(muster_graph_output(graph, "y", muster_expr_parse(graph, "argmax(x, 0)"), MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_graph_destroy(graph));
    int64_t index[3];
    float x[1];
    const muster_tensor in = muster_f32(x, 0, 3), out = muster_i64(index, 3);
    assert_refused(muster_function_call(function, &in, 1, &out, 1, NULL), MUSTER_INVALID_ARGUMENT,
                   "muster_expr_argmax: x: expected at least one element along the axis, received none");
    assert_ok(muster_function_destroy(function));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_say_what_is_meant),
        cmocka_unit_test(an_unknown_operation_is_suggested_in_calls),
        cmocka_unit_test(a_second_derivative_names_the_operation_that_has_one),
        cmocka_unit_test(a_call_without_elements_shows_no_turned_shape),
    };
    return cmocka_run_group_tests(tests, graph_open, graph_close);
}
