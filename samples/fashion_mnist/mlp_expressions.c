/* The network as expressions. They mean one device with all rows; Muster derives the gradient,
 * shares the work out over the devices, and exchanges what these need. */
#include "mlp.h"

static const char *const names[MLP_VALUES] = {"weight1", "bias1", "weight2", "bias2", "weight3", "bias3"};

typedef struct network {
    muster_graph *graph;
    muster_expr *parameters[MLP_VALUES];
    muster_expr *sum, *mean; /* of the loss over the rows */
} network;

static muster_status network_open(const mlp *m, const char *name, network *n) {
    MUSTER_TRY(muster_graph_create(m->runtime, name, &n->graph));
    (void)muster_graph_input(n->graph, "images", MUSTER_U8, MUSTER_SHAPE(MUSTER_ROWS, MLP_INPUTS), MUSTER_SCATTER);
    (void)muster_graph_input(n->graph, "labels", MUSTER_U8, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    for (int i = 0; i < MLP_VALUES; i++) n->parameters[i] = muster_graph_parameter(n->graph, m->values[i]);
    n->sum = muster_expr_parse(n->graph, "h1 = relu(cast(images, f32) * (1 / 255) @ weight1 + bias1);"
                                         "h2 = relu(h1 @ weight2 + bias2);"
                                         "softmax_cross_entropy(h2 @ weight3 + bias3, labels)");
    n->mean = muster_expr_parse(n->graph, "sum / sum(full([rows], 1, f32))", "sum", n->sum);
    return MUSTER_OK; /* an error of an expression stays in the graph */
}

/* Compiles the graph, which has the first error of whatever was done to it, and ends it. */
static muster_status network_compile(network *n, muster_function **function) {
    const muster_status compiled = muster_graph_compile(n->graph, NULL, function), destroyed = muster_graph_destroy(n->graph);
    return compiled != MUSTER_OK ? compiled : destroyed;
}

static muster_status create_step(mlp *m) {
    network n;
    muster_expr *gradients[MLP_VALUES];
    muster_rule_options rule;
    MUSTER_TRY(network_open(m, "mlp.step", &n));
    muster_rule_options_init(&rule);
    rule.rate = muster_graph_input(n.graph, "rate", MUSTER_F32, MUSTER_SCALAR, MUSTER_BROADCAST);
    rule.momentum = m->options.momentum > 0 ? m->options.momentum : -1; /* -1: none, 0 would be the default */
    (void)muster_gradient(n.mean, n.parameters, MLP_VALUES, gradients);
    (void)muster_graph_minimise(n.graph, n.parameters, gradients, MLP_VALUES, MUSTER_MOMENTUM, &rule);
    (void)muster_graph_output(n.graph, "loss", n.mean, MUSTER_AUTO);
    return network_compile(&n, &m->step);
}

static muster_status create_gradient(mlp *m) {
    network n;
    muster_expr *gradients[MLP_VALUES];
    MUSTER_TRY(network_open(m, "mlp.gradient", &n));
    (void)muster_gradient(n.mean, n.parameters, MLP_VALUES, gradients);
    for (int i = 0; i < MLP_VALUES; i++) (void)muster_graph_output(n.graph, names[i], gradients[i], MUSTER_AUTO);
    return network_compile(&n, &m->gradient);
}

static muster_status create_evaluate(mlp *m) {
    network n;
    MUSTER_TRY(network_open(m, "mlp.evaluate", &n));
    (void)muster_graph_output(n.graph, "correct", muster_expr_result(n.sum, 2), MUSTER_AUTO);
    return network_compile(&n, &m->evaluate);
}

/* Weight and bias of each layer, views into a flat vector. */
static void cut_values(muster_tensor flat, muster_tensor values[MLP_VALUES]) {
    mlp_layer layers[MLP_LAYERS];
    mlp_cut_layers(flat, layers);
    for (int l = 0; l < MLP_LAYERS; l++) {
        values[2 * l] = layers[l].weight;
        values[2 * l + 1] = layers[l].bias;
    }
}

/* Each device has some of the units of the first layer: columns of its weight and the biases of
 * these, and the rows of the second weight that these units are multiplied with. What the devices
 * exchange are then activations, and no gradients of these weights (neon's hybrid of data-parallel
 * and model-parallel layers). */
static muster_status split_layers(const mlp *m) {
    MUSTER_TRY(muster_variable_split(m->values[0], 1));
    MUSTER_TRY(muster_variable_split(m->values[1], 0));
    return muster_variable_split(m->values[2], 0);
}

muster_status mlp_expressions_create(mlp *m, muster_tensor initial) {
    muster_tensor values[MLP_VALUES];
    cut_values(initial, values);
    for (int i = 0; i < MLP_VALUES; i++) MUSTER_TRY(muster_variable_create(m->runtime, names[i], values[i], &m->values[i]));
    if (m->options.split) MUSTER_TRY(split_layers(m));
    MUSTER_TRY(create_step(m));
    MUSTER_TRY(create_gradient(m));
    return create_evaluate(m);
}

muster_status mlp_expressions_step(mlp *m, muster_tensor images, muster_tensor labels, const muster_call_options *options, float *loss) {
    float rate = (float)m->options.learning_rate;
    const muster_tensor in[] = {images, labels, muster_f32(&rate)}, out[] = {muster_f32(loss)};
    return muster_function_call(m->step, in, 3, out, 1, options);
}

muster_status mlp_expressions_gradient(mlp *m, muster_tensor images, muster_tensor labels, const muster_call_options *options,
                                       muster_tensor gradient) {
    const muster_tensor in[] = {images, labels};
    muster_tensor values[MLP_VALUES];
    cut_values(gradient, values);
    return muster_function_call(m->gradient, in, 2, values, MLP_VALUES, options);
}

muster_status mlp_expressions_parameters(mlp *m, muster_tensor values) {
    muster_tensor parts[MLP_VALUES];
    cut_values(values, parts);
    for (int i = 0; i < MLP_VALUES; i++) MUSTER_TRY(muster_variable_get_whole(m->values[i], parts[i]));
    return MUSTER_OK;
}

muster_status mlp_expressions_accuracy(mlp *m, muster_tensor images, muster_tensor labels, double *accuracy) {
    const int64_t rows = images.shape[0], at_once = (int64_t)MLP_EVALUATE_ROWS * muster_runtime_size(m->runtime);
    const muster_tensor in[] = {images, labels};
    int64_t correct = 0, some = 0;
    muster_call_options options;
    muster_call_options_init(&options);
    for (int64_t row = 0; row < rows; row += at_once) {
        options.batch = (muster_selection){.kind = MUSTER_SELECT_RANGE, .start = row, .stop = rows - row < at_once ? rows : row + at_once};
        MUSTER_TRY(muster_function_call(m->evaluate, in, 2, (muster_tensor[]){muster_i64(&some)}, 1, &options));
        correct += some;
    }
    *accuracy = (double)correct / (double)rows;
    return MUSTER_OK;
}
