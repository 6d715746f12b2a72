#include "graph_inside.h"

const char *const inside_machines[MACHINES] = {"host:1", "host:2", "host:3", "discrete:2", "host:1,discrete:1"};

void inside_fill(float x[ROWS][K], float w[K][M], float b[M]) {
    for (int32_t i = 0; i < ROWS; i++)
        for (int32_t k = 0; k < K; k++) x[i][k] = (float)((7 * i + 3 * k) % 11 - 5);
    for (int32_t k = 0; k < K * M; k++) (&w[0][0])[k] = (float)((5 * k) % 9 - 4) / 8;
    for (int32_t m = 0; m < M; m++) b[m] = (float)(m - 1) / 4;
}

muster_graph *inside_graph(muster_runtime *runtime, const char *name) {
    muster_graph *graph;
    assert_ok(muster_graph_create(runtime, name, &graph));
    return graph;
}

muster_function *inside_compile_with(muster_graph *graph, muster_graph_options options) {
    muster_function *function;
    assert_ok(muster_graph_compile(graph, &options, &function));
    assert_ok(muster_graph_destroy(graph));
    return function;
}

muster_graph_options inside_per_worker(void) {
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    return options;
}

muster_function *inside_compile(muster_graph *graph) { return inside_compile_with(graph, inside_per_worker()); }

muster_expr *inside_rows(muster_graph *graph, int64_t columns) {
    return muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, columns), MUSTER_SCATTER);
}

muster_function *inside_outer(muster_runtime *runtime, muster_body body, void *user) {
    muster_function *function;
    assert_ok(muster_function_create(runtime, "outer", body, user, &function));
    assert_ok(muster_function_input(function, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    return function;
}

muster_variable *inside_variable(muster_runtime *runtime, const char *name, muster_tensor value) {
    muster_variable *variable;
    assert_ok(muster_variable_create(runtime, name, value, &variable));
    return variable;
}

/* A layer, its loss, a gradient, and dropout. */
muster_function *inside_layer(muster_runtime *runtime, muster_variable *weights, muster_variable *bias, muster_graph_options options) {
    muster_graph *graph = inside_graph(runtime, "layer");
    muster_expr *in = inside_rows(graph, K), *gradient;
    muster_expr *step = muster_graph_input(graph, "step", MUSTER_I64, MUSTER_SCALAR, MUSTER_BROADCAST);
    muster_expr *from = muster_graph_parameter(graph, weights);
    (void)muster_graph_parameter(graph, bias);
    muster_expr *y = muster_expr_name(muster_expr_parse(graph, "tanh(x @ w + b)"), "y");
    muster_expr *loss = muster_expr_parse(graph, "sum(y * y) / 3", "y", y);
    muster_expr *dropped =
        apply(graph, "dropout", (muster_expr *[]){in, step}, 2, ATTRIBUTES({.name = "p", .number = 0.4}, {.name = "seed", .integer = 9}));
    assert_ok(muster_gradient(loss, &from, 1, &gradient));
    assert_ok(muster_graph_output(graph, "y", y, MUSTER_GATHER));
    assert_ok(muster_graph_output(graph, "loss", loss, MUSTER_SUM));
    assert_ok(muster_graph_output(graph, "gradient", gradient, MUSTER_SUM));
    assert_ok(muster_graph_output(graph, "dropped", dropped, MUSTER_GATHER));
    return inside_compile_with(graph, options);
}

void inside_operator(muster_runtime *runtime, const char *name, muster_operator_body body, void *user) {
    static const char *const operands[] = {"x", NULL};
    const muster_operator_backend bodies[] = {{NULL, body}};
    muster_operator_options options;
    muster_operator *made;
    muster_operator_options_init(&options);
    options.operands = operands;
    options.bodies = bodies;
    options.body_count = 1;
    options.user = user;
    assert_ok(muster_operator_create(runtime, name, &options, &made));
}

muster_status inside_run_one(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    return muster_worker_run(worker, *(muster_function **)user, in, 1, out, 1);
}

muster_status inside_run_whole(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    return muster_worker_run(worker, user, in, 2, out, INSIDE_OUTPUTS);
}
