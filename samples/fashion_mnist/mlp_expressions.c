/* The training step of the network as expressions: the gradient is derived, not written. */
#include "mlp.h"

#include <stdlib.h>

/* The parts of a flat vector, as mlp.h describes it: weight and bias of each layer in turn. */
static void cut_layers(muster_expr *flat, muster_expr *parts[2 * MLP_LAYERS]) {
    for (int l = 0; l < MLP_LAYERS; l++) {
        const mlp_layer layer = mlp_layer_of(l);
        const int64_t bias = layer.begin + layer.inputs * layer.outputs;
        muster_expr *weight = muster_expr_slice(flat, MUSTER_LIST(start, layer.begin), MUSTER_LIST(stop, bias));
        parts[2 * l] = muster_expr_reshape(weight, MUSTER_SHAPE(layer.inputs, layer.outputs));
        parts[2 * l + 1] = muster_expr_slice(flat, MUSTER_LIST(start, bias), MUSTER_LIST(stop, bias + layer.outputs));
    }
}

static muster_expr *join_layers(muster_expr *const parts[2 * MLP_LAYERS]) {
    muster_expr *flat[2 * MLP_LAYERS];
    for (int i = 0; i < 2 * MLP_LAYERS; i++) flat[i] = muster_expr_reshape(parts[i], MUSTER_SHAPE(MUSTER_INFER));
    return muster_expr_concatenate(flat, 2 * MLP_LAYERS);
}

/* The average of the loss over the rows. */
static muster_expr *loss_of(muster_graph *graph, muster_expr *images, muster_expr *labels, muster_expr *const parts[2 * MLP_LAYERS]) {
    muster_expr *h = muster_expr_multiply(muster_expr_cast(images, MUSTER_F32), muster_graph_number(graph, 1.0 / 255));
    for (int l = 0; l < MLP_LAYERS; l++) {
        h = muster_expr_add(muster_expr_matmul(h, parts[2 * l]), parts[2 * l + 1]);
        if (l + 1 < MLP_LAYERS) h = muster_expr_relu(h);
    }
    muster_expr *rows = muster_expr_sum(muster_expr_full(graph, MUSTER_SHAPE(MUSTER_ROWS), 1, MUSTER_F32));
    return muster_expr_divide(muster_expr_softmax_cross_entropy(h, labels), rows);
}

static void describe(const mlp *m, muster_graph *graph) {
    muster_expr *images = muster_graph_input(graph, "images", MUSTER_U8, MUSTER_SHAPE(MUSTER_ROWS, MLP_INPUTS), MUSTER_SCATTER);
    muster_expr *labels = muster_graph_input(graph, "labels", MUSTER_U8, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    muster_expr *rate = muster_graph_input(graph, "rate", MUSTER_F32, MUSTER_SCALAR, MUSTER_BROADCAST);
    muster_expr *p = muster_graph_parameter(graph, m->parameters), *v = muster_graph_parameter(graph, m->momentum);
    muster_expr *parts[2 * MLP_LAYERS], *gradients[2 * MLP_LAYERS];
    cut_layers(p, parts);
    muster_expr *loss = loss_of(graph, images, labels, parts);
    (void)muster_gradient(loss, parts, 2 * MLP_LAYERS, gradients);
    /* v = m v - lr (gradient); p = p + v */
    muster_expr *kept = muster_expr_multiply(v, muster_graph_number(graph, m->options.momentum));
    muster_expr *velocity = muster_expr_subtract(kept, muster_expr_multiply(rate, join_layers(gradients)));
    (void)muster_graph_update(graph, m->momentum, velocity, MUSTER_AUTO);
    (void)muster_graph_update(graph, m->parameters, muster_expr_add(p, velocity), MUSTER_AUTO);
    (void)muster_graph_output(graph, "loss", loss, MUSTER_AUTO);
}

muster_status mlp_create_expressions(mlp *m) {
    muster_graph *graph;
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.meaning = muster_runtime_size(m->runtime) == 1 ? MUSTER_ONE_DEVICE : MUSTER_PER_WORKER;
    MUSTER_TRY(muster_graph_create(m->runtime, "mlp.step", &graph));
    describe(m, graph); /* compile returns the first error of all this */
    const muster_status compiled = muster_graph_compile(graph, &options, &m->step);
    const muster_status destroyed = muster_graph_destroy(graph);
    return compiled != MUSTER_OK ? compiled : destroyed;
}

/* Each device has updated its own replicas by the gradient of its own rows. Their average, weighted
 * by rows, is what one device would have computed from all rows. */
static muster_status average_replicas(mlp *m) {
    const int32_t devices = muster_runtime_size(m->runtime);
    if (devices == 1) return MUSTER_OK;
    double *weights = calloc((size_t)devices, sizeof *weights);
    if (!weights) return MUSTER_OUT_OF_MEMORY;
    muster_status status = muster_function_weights(m->step, devices, weights);
    if (status == MUSTER_OK)
        status = muster_variables_all_reduce_weighted((muster_variable *[]){m->parameters, m->momentum}, 2, weights, devices);
    free(weights);
    return status;
}

muster_status mlp_step_expressions(mlp *m, muster_tensor images, muster_tensor labels, const muster_call_options *options, float *loss) {
    float rate = (float)m->options.learning_rate;
    const muster_tensor in[] = {images, labels, muster_f32(&rate)}, out[] = {muster_f32(loss)};
    MUSTER_TRY(muster_function_call(m->step, in, 3, out, 1, options));
    return average_replicas(m);
}
