#include "graph_network.h"
#include "muster/operator.h"

#include <math.h>
#include <stdlib.h>

static const int64_t widths[NETWORK_PARAMETERS][2] = {{NETWORK_IN, NETWORK_HIDDEN}, {1, NETWORK_HIDDEN}, {NETWORK_HIDDEN, NETWORK_OUT}};
int32_t network_fails_at, network_applied;
int64_t network_memory_fails_at;

/* Computes row by row, in order on one device. */
static muster_status pass_on(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                             void *user) {
    (void)node, (void)user;
    if (network_fails_at && ++network_applied == network_fails_at) return muster_fail(MUSTER_OUT_OF_RANGE, "the cat sat on the keys");
    return muster_copy(worker, in[0], out[0]);
}

static muster_status pass_on_gradient(const muster_operator_node *node, muster_expr *const *x, muster_expr *const *y,
                                      muster_expr *const *dy, muster_expr **dx, void *user) {
    (void)node, (void)x, (void)y, (void)user;
    dx[0] = dy[0];
    return MUSTER_OK;
}

static muster_runtime *open_runtime(const char *devices) {
    static const muster_operator_backend bodies[] = {{NULL, pass_on}};
    static const char *const operands[] = {"x", NULL};
    muster_runtime *runtime = graph_runtime(devices);
    muster_operator_options options;
    muster_operator *made;
    muster_operator_options_init(&options);
    options.operands = operands;
    options.bodies = bodies;
    options.body_count = 1;
    options.gradient = pass_on_gradient;
    options.distribution = MUSTER_OPERATOR_ROWWISE;
    assert_ok(muster_operator_create(runtime, "pass_on", &options, &made));
    return runtime;
}

static double start_at(int32_t i) { return (double)((i * 37 + 11) % 101 - 50) / 200; }

static void parameters_make(network *net) {
    static const char *const names[NETWORK_PARAMETERS] = {"w", "b", "v"};
    double start[NETWORK_IN * NETWORK_HIDDEN];
    for (int32_t i = 0; i < NETWORK_IN * NETWORK_HIDDEN; i++) start[i] = start_at(i);
    for (int32_t p = 0; p < NETWORK_PARAMETERS; p++)
        assert_ok(muster_variable_create(net->runtime, names[p], muster_f64(start, widths[p][0], widths[p][1]), &net->parameters[p]));
}

muster_status network_open(network *net, const char *devices, muster_update_rule rule, double clip, const muster_graph_options *options) {
    muster_graph *g;
    muster_rule_options how;
    net->runtime = open_runtime(devices);
    parameters_make(net);
    assert_ok(muster_graph_create(net->runtime, "network", &g));
    (void)muster_graph_input(g, "x", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, NETWORK_IN), MUSTER_SCATTER);
    (void)muster_graph_input(g, "t", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, NETWORK_OUT), MUSTER_SCATTER);
    muster_expr *p[NETWORK_PARAMETERS], *d[NETWORK_PARAMETERS];
    for (int32_t i = 0; i < NETWORK_PARAMETERS; i++) p[i] = muster_graph_parameter(g, net->parameters[i]);
    muster_expr *h = muster_expr_parse(g, "tanh(x @ w + b)");
    h = muster_expr_parse(g, "dropout(h, 0, p=0.25, seed=5)", "h", APPLY(g, "pass_on", h));
    muster_expr *y = muster_expr_parse(g, "relu(tanh(h) * 2 - 0.1) @ v", "h", h);
    muster_expr *loss = muster_expr_parse(g, "mean((y - t) ** 2)", "y", y);
    assert_ok(muster_gradient(loss, p, NETWORK_PARAMETERS, d));
    muster_rule_options_init(&how);
    how.clip_norm = clip;
    assert_ok(muster_graph_minimise(g, p, d, NETWORK_PARAMETERS, rule, &how));
    assert_ok(muster_graph_output(g, "loss", loss, MUSTER_AUTO));
    assert_ok(muster_graph_output(g, "y", y, MUSTER_AUTO));
    assert_ok(muster_graph_output(g, "largest", muster_expr_parse(g, "max(y, 0)", "y", y), MUSTER_AUTO));
    mst_memory_fail_at(network_memory_fails_at);
    const muster_status status = muster_graph_compile(g, options, &net->function);
    mst_memory_fail_at(0);
    assert_ok(muster_graph_destroy(g));
    return status;
}

muster_status network_call(const network *net, int64_t rows, network_results *r) {
    double *x = malloc(NETWORK_ROWS * (NETWORK_IN + NETWORK_OUT) * sizeof *x), *t = x + NETWORK_ROWS * NETWORK_IN;
    assert_non_null(x);
    for (int32_t i = 0; i < NETWORK_ROWS * NETWORK_IN; i++) x[i] = (double)((i * 31 + 7) % 97 - 48) / 40;
    for (int32_t i = 0; i < NETWORK_ROWS * NETWORK_OUT; i++) t[i] = (double)((i * 13 + 5) % 23 - 11) / 20;
    memset(r, 0, sizeof *r);
    const muster_tensor in[] = {muster_f64(x, rows, NETWORK_IN), muster_f64(t, rows, NETWORK_OUT)};
    const muster_tensor out[] = {muster_f64(&r->loss), muster_f64(r->y, rows, NETWORK_OUT), muster_f64(r->largest, NETWORK_OUT)};
    const muster_status status = muster_function_call(net->function, in, 2, out, 3, NULL);
    free(x);
    return status;
}

void network_parameters(const network *net, int32_t rank, network_results *r) {
    for (int32_t p = 0; p < NETWORK_PARAMETERS; p++)
        assert_ok(muster_variable_get(net->parameters[p], rank, muster_f64(r->parameters[p], widths[p][0], widths[p][1])));
}

double network_distance(const network_results *a, const network_results *b) {
    const double *x = (const double *)a, *y = (const double *)b;
    double largest = 0;
    for (size_t i = 0; i < sizeof *a / sizeof *x; i++)
        if (!(fabs(x[i] - y[i]) <= largest)) largest = fabs(x[i] - y[i]);
    return largest;
}
