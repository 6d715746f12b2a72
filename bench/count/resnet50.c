#include "resnet50.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST = 320, CLASSES = 1000, SIDE = 224, STEP_SIDE = 64 };

typedef struct network {
    muster_runtime *runtime;
    muster_graph *graph;
    muster_variable *variables[MOST]; /* in the order of their first use */
    int32_t made, used;
    muster_expr *parameters[MOST], *gradients[MOST];
    int32_t count;
} network;

static void check(muster_status status) {
    if (status == MUSTER_OK) return;
    fprintf(stderr, "muster-bench-count: %s\n", muster_last_error());
    exit(1);
}

/* The next variable. Every graph uses them in the same order. */
static muster_expr *variable(network *n, int32_t ndim, const int64_t *shape, muster_variable **found) {
    static const float zero;
    char name[16];
    if (n->used == n->made) {
        snprintf(name, sizeof name, "v%d", (int)n->made);
        check(muster_variable_create(n->runtime, name, muster_tensor_broadcast(muster_f32((float *)(uintptr_t)&zero), ndim, shape),
                                     &n->variables[n->made++]));
    }
    if (found) *found = n->variables[n->used];
    return muster_graph_parameter(n->graph, n->variables[n->used++]);
}

static muster_expr *parameter(network *n, int32_t ndim, const int64_t *shape) {
    return n->parameters[n->count++] = variable(n, ndim, shape, NULL);
}

static muster_expr *convolution(network *n, muster_expr *x, int64_t channels, int64_t size, int64_t stride) {
    muster_expr *w = parameter(n, MUSTER_SHAPE(channels, muster_expr_size(x, 1), size, size));
    return muster_expr_convolution(x, w, NULL, MUSTER_LIST(stride, stride, stride), MUSTER_LIST(padding, size / 2, size / 2));
}

static muster_expr *norm(network *n, muster_expr *x) {
    const int64_t channels = muster_expr_size(x, 1);
    muster_variable *means, *variances;
    muster_expr *mean = variable(n, MUSTER_SHAPE(channels), &means), *variance = variable(n, MUSTER_SHAPE(channels), &variances);
    muster_expr *scale = parameter(n, MUSTER_SHAPE(channels)), *bias = parameter(n, MUSTER_SHAPE(channels));
    check(muster_graph_update(n->graph, means, muster_expr_batch_norm_mean(x, mean, 0.1), MUSTER_AUTO));
    check(muster_graph_update(n->graph, variances, muster_expr_batch_norm_variance(x, mean, variance, 0.1, .ddof = 1), MUSTER_AUTO));
    return muster_expr_batch_norm(x, mean, variance, scale, bias, 1e-5, .training = 1);
}

static muster_expr *block(network *n, muster_expr *x, int64_t width, int64_t stride, int first) {
    muster_expr *h = muster_expr_relu(norm(n, convolution(n, x, width, 1, 1)));
    h = muster_expr_relu(norm(n, convolution(n, h, width, 3, stride)));
    h = norm(n, convolution(n, h, 4 * width, 1, 1));
    if (first) x = norm(n, convolution(n, x, 4 * width, 1, stride));
    return muster_expr_relu(muster_expr_add(h, x));
}

static muster_expr *logits(network *n, muster_expr *images) {
    static const int blocks[] = {3, 4, 6, 3};
    muster_expr *h = muster_expr_relu(norm(n, convolution(n, images, 64, 7, 2)));
    h = muster_expr_max_pool(h, MUSTER_SHAPE(3, 3), MUSTER_LIST(stride, 2, 2), MUSTER_LIST(padding, 1, 1));
    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < blocks[stage]; i++) h = block(n, h, 64 << stage, i == 0 && stage > 0 ? 2 : 1, i == 0);
    h = muster_expr_reshape(muster_expr_global_average_pool(h), MUSTER_SHAPE(MUSTER_ROWS, MUSTER_INFER));
    muster_expr *w = parameter(n, MUSTER_SHAPE(muster_expr_size(h, 1), CLASSES)), *b = parameter(n, MUSTER_SHAPE(CLASSES));
    return muster_expr_add(muster_expr_matmul(h, w), b);
}

static muster_function *compile(network *n, int64_t side) {
    muster_function *function;
    muster_rule_options rule;
    n->count = n->used = 0;
    check(muster_graph_create(n->runtime, "resnet50", &n->graph));
    muster_expr *images = muster_graph_input(n->graph, "images", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 3, side, side), MUSTER_SCATTER);
    muster_expr *labels = muster_graph_input(n->graph, "labels", MUSTER_I32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    muster_expr *loss = muster_expr_mean(muster_expr_cross_entropy(logits(n, images), labels, MUSTER_NONE));
    muster_rule_options_init(&rule);
    rule.learning_rate = 0.1;
    check(muster_gradient(loss, n->parameters, n->count, n->gradients));
    check(muster_graph_minimise(n->graph, n->parameters, n->gradients, n->count, MUSTER_SGD, &rule));
    check(muster_graph_output(n->graph, "loss", loss, MUSTER_AUTO));
    check(muster_graph_compile(n->graph, NULL, &function));
    check(muster_graph_destroy(n->graph));
    return function;
}

static network *network_make(muster_runtime *runtime) {
    network *n = calloc(1, sizeof *n);
    if (!n) exit(1);
    n->runtime = runtime;
    return n;
}

void count_compile_resnet50(muster_runtime *runtime, long times) {
    network *n = network_make(runtime);
    for (long i = 0; i < times; i++) check(muster_function_destroy(compile(n, SIDE)));
    free(n);
}

void count_step_resnet50(muster_runtime *runtime, long times) {
    static float image[3][STEP_SIDE][STEP_SIDE], loss;
    static int32_t label;
    network *n = network_make(runtime);
    muster_function *function = compile(n, STEP_SIDE);
    const muster_tensor in[] = {muster_f32(image, 1, 3, STEP_SIDE, STEP_SIDE), muster_i32(&label, 1)}, out = muster_f32(&loss);
    for (long i = 0; i < times; i++) check(muster_function_call(function, in, 2, &out, 1, NULL));
    check(muster_function_destroy(function));
    free(n);
}
