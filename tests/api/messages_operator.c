/* Rows of operator.h. Those of callbacks run in the rule and in the body of an operator. */
#include "messages.h"

static muster_status body_rows(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                               void *user) {
    muster_attribute value;
    (void)user;
    REFUSE(INVALID_ARGUMENT, "name", muster_operator_attribute_value, node, "none", &value);
    REFUSE(INVALID_ARGUMENT, "node", muster_operator_result, (muster_operator_node *)(uintptr_t)node, 0, MUSTER_F32, 0, NULL);
    GIVES(muster_operator_graph, !muster_operator_graph(node) && !muster_operator_graph(NULL));
    GIVES(muster_operator_state, !muster_operator_state(node) && !muster_operator_state(NULL));
    (void)muster_fail(MUSTER_USER, "the message of an earlier row");
    messages_refused("muster_operator_kernel", "name", MUSTER_INVALID_ARGUMENT,
                     muster_operator_kernel(node, "none") ? MUSTER_OK : MUSTER_INVALID_ARGUMENT);
    messages_refused("muster_operator_kernel", "name", MUSTER_INVALID_ARGUMENT,
                     muster_operator_kernel(node, NULL) ? MUSTER_OK : MUSTER_INVALID_ARGUMENT);
    messages_refused("muster_operator_kernel", "node", MUSTER_INVALID_ARGUMENT,
                     muster_operator_kernel(NULL, "none") ? MUSTER_OK : MUSTER_INVALID_ARGUMENT);
    return muster_copy(worker, in[0], out[0]);
}

static muster_status rule_rows(muster_operator_node *node, muster_expr *const *x, int32_t count, void *user) {
    static const int64_t two[] = {2}, unknown[] = {-2};
    muster_attribute value;
    (void)count;
    (void)user;
    REFUSE(INVALID_ARGUMENT, "node", muster_operator_attribute_value, NULL, "k", &value);
    REFUSE(INVALID_ARGUMENT, "name", muster_operator_attribute_value, node, NULL, &value);
    REFUSE(INVALID_ARGUMENT, "value", muster_operator_attribute_value, node, "k", NULL);
    REFUSE(INVALID_ARGUMENT, "node", muster_operator_result, NULL, 0, MUSTER_F32, 0, NULL);
    REFUSE(OUT_OF_RANGE, "index", muster_operator_result, node, 1, MUSTER_F32, 0, NULL);
    REFUSE(OUT_OF_RANGE, "index", muster_operator_result, node, -1, MUSTER_F32, 0, NULL);
    REFUSE(INVALID_ARGUMENT, "dtype", muster_operator_result, node, 0, MUSTER_DTYPE_NONE, 0, NULL);
    REFUSE(INVALID_ARGUMENT, "dtype", muster_operator_result, node, 0, 99, 0, NULL);
    REFUSE(OUT_OF_RANGE, "ndim", muster_operator_result, node, 0, MUSTER_F32, 9, two);
    REFUSE(OUT_OF_RANGE, "ndim", muster_operator_result, node, 0, MUSTER_F32, -1, two);
    REFUSE(INVALID_ARGUMENT, "shape", muster_operator_result, node, 0, MUSTER_F32, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "shape", muster_operator_result, node, 0, MUSTER_F32, 1, unknown);
    const int64_t shape[] = {muster_expr_size(x[0], 0)};
    return muster_operator_result(node, 0, muster_expr_dtype(x[0]), 1, shape);
}

static void call_operator(muster_runtime *runtime) {
    float in[2] = {1, 2}, out[2];
    muster_graph *graph;
    muster_function *function;
    const int64_t shape[] = {2};
    const muster_tensor given = muster_f32(in, 2), result = muster_f32(out, 2);
    assert_ok(muster_graph_create(runtime, "graph of an operator", &graph));
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F32, 1, shape, MUSTER_BROADCAST), *y;
    assert_ok(muster_expr_apply(graph, "rows_of_parts", &x, 1, NULL, NULL, &y));
    assert_ok(muster_graph_output(graph, "y", y, MUSTER_AUTO));
    assert_ok(muster_graph_compile(graph, NULL, &function));
    assert_ok(muster_function_call(function, &given, 1, &result, 1, NULL));
    assert_ok(muster_function_destroy(function));
    assert_ok(muster_graph_destroy(graph));
}

void messages_operators(void) {
    static const char *const operands[] = {"x", NULL};
    static const muster_operator_backend body = {NULL, body_rows};
    muster_runtime *runtime = messages_of.runtime;
    muster_operator_options options;
    muster_operator *made;
    muster_operator_options_init_sized(NULL, 8);
    GIVES(muster_operator_options_init_sized, true);
    muster_operator_options_init(&options);
    options.operands = operands;
    options.rule = rule_rows;
    options.bodies = &body;
    options.body_count = 1;
    REFUSE(INVALID_ARGUMENT, "runtime", muster_operator_create, NULL, "n", &options, &made);
    REFUSE(INVALID_ARGUMENT, "name", muster_operator_create, runtime, NULL, &options, &made);
    REFUSE(INVALID_ARGUMENT, "name", muster_operator_create, runtime, "sum", &options, &made);
    REFUSE(INVALID_ARGUMENT, "options", muster_operator_create, runtime, "n", NULL, &made);
    REFUSE(INVALID_ARGUMENT, "made", muster_operator_create, runtime, "n", &options, NULL);
    assert_ok(muster_operator_create(runtime, "rows_of_parts", &options, &made));
    call_operator(runtime);
    assert_ok(muster_operator_destroy(made));
    REFUSE(BAD_STATE, "operator", muster_operator_destroy, made);
    GIVES(muster_operator_destroy, muster_operator_destroy(NULL) == MUSTER_OK);
}
