#include "network.h"

#include <math.h>

const char *const network_names[NETWORK_VALUES] = {"weight1", "bias1", "weight2", "bias2"};
const int32_t network_ndim[NETWORK_VALUES] = {2, 1, 2, 1};
const int64_t network_shape[NETWORK_VALUES][2] = {
    {NETWORK_INPUTS, NETWORK_HIDDEN}, {NETWORK_HIDDEN}, {NETWORK_HIDDEN, NETWORK_CLASSES}, {NETWORK_CLASSES}};

int64_t network_count(int32_t index) { return network_shape[index][0] * (network_ndim[index] == 2 ? network_shape[index][1] : 1); }

/* The inputs, and the logits; p becomes the parameters. Pixels are bytes, the network's inputs are
 * pixel / 255. */
static muster_expr *logits_of(muster_graph *graph, muster_variable *const *parameters, muster_expr *p[NETWORK_VALUES]) {
    (void)muster_graph_input(graph, "images", MUSTER_U8, MUSTER_SHAPE(MUSTER_ROWS, NETWORK_INPUTS), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "labels", MUSTER_U8, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    for (int32_t i = 0; i < NETWORK_VALUES; i++) p[i] = muster_graph_parameter(graph, parameters[i]);
    return muster_expr_parse(graph, "relu(cast(images, f32) * (1 / 255) @ weight1 + bias1) @ weight2 + bias2");
}

/* Compiles the graph, which keeps the first error of whatever was done to it, and ends it. */
static muster_status compile(muster_graph *graph, muster_function **function) {
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER; /* no worker waits for another */
    const muster_status compiled = muster_graph_compile(graph, &options, function), destroyed = muster_graph_destroy(graph);
    return compiled != MUSTER_OK ? compiled : destroyed;
}

static muster_status compile_gradient(network *n, muster_runtime *runtime, muster_variable *const *parameters) {
    muster_graph *graph;
    muster_expr *p[NETWORK_VALUES], *gradients[NETWORK_VALUES];
    MUSTER_TRY(muster_graph_create(runtime, "gradient", &graph));
    muster_expr *sum = muster_expr_parse(graph, "softmax_cross_entropy(z, labels)", "z", logits_of(graph, parameters, p));
    muster_expr *rows = muster_expr_sum(muster_expr_full(graph, MUSTER_SHAPE(MUSTER_ROWS), 1, MUSTER_F32));
    (void)muster_gradient(muster_expr_divide(sum, rows), p, NETWORK_VALUES, gradients);
    (void)muster_graph_output(graph, "loss", sum, MUSTER_SUM);
    for (int32_t i = 0; i < NETWORK_VALUES; i++) (void)muster_graph_output(graph, network_names[i], gradients[i], MUSTER_AUTO);
    return compile(graph, &n->gradient);
}

static muster_status compile_correct(network *n, muster_runtime *runtime, muster_variable *const *parameters) {
    muster_graph *graph;
    muster_expr *p[NETWORK_VALUES];
    MUSTER_TRY(muster_graph_create(runtime, "correct", &graph));
    muster_expr *sum = muster_expr_parse(graph, "softmax_cross_entropy(z, labels)", "z", logits_of(graph, parameters, p));
    (void)muster_graph_output(graph, "correct", muster_expr_result(sum, 2), MUSTER_SUM);
    return compile(graph, &n->correct);
}

muster_status network_compile(network *n, muster_runtime *runtime, muster_variable *const *parameters) {
    MUSTER_TRY(compile_gradient(n, runtime, parameters));
    return compile_correct(n, runtime, parameters);
}

/* He et al., "Delving deep into rectifiers" (2015), in its uniform form. The last layer has a tenth
 * of that, so that the first logits are near 0. */
void network_initial(int32_t index, uint64_t seed, float *values) {
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const double bound = network_ndim[index] == 1 ? 0 : (index == 0 ? 1 : 0.1) * sqrt(6.0 / (double)network_shape[index][0]);
    for (int64_t i = 0; i < network_count(index); i++) {
        uint32_t out[4], counter[4] = {(uint32_t)i, (uint32_t)(i >> 32), (uint32_t)index, 0};
        muster_philox4x32(counter, key, out);
        values[i] = (float)(bound * (2 * (double)out[0] / 4294967296.0 - 1));
    }
}
