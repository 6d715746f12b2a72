/* resnet50.c: training steps of ResNet-50 v1.5 (He and others, arXiv 1512.03385; the stride is in
 * the 3 x 3 convolution) on synthetic images, on all devices; SGD with momentum.
 *   resnet50 [--batch N] [--steps N] [--size N] [--classes N] [--limit MB] [--dump FILE]
 * --size: of the images. --limit: of the intermediate values on each device, some of which are then
 * computed again. --dump: the last step's expressions, their memory and times. */
#include <sys/resource.h>

#include "muster/nodes.h"

#include "model.h"

static const muster_initialiser_options he = {.struct_size = sizeof he, .kind = MUSTER_INITIALISER_HE_NORMAL};
/* Small weights of the last layer: at first all classes are nearly as probable. */
static const muster_initialiser_options small = {.struct_size = sizeof small, .kind = MUSTER_INITIALISER_NORMAL, .deviation = 0.01};
static const muster_initialiser_options zero = {.struct_size = sizeof zero};
static const muster_initialiser_options one = {.struct_size = sizeof one, .value = 1};

/* A convolution without bias, since the normalisation behind it has one; `size` is odd, and the
 * padding keeps the extents but for the stride. */
static muster_expr *convolution(model *m, const char *layer, muster_expr *x, int64_t channels, int64_t size, int64_t stride) {
    muster_expr *w = model_parameter(m, layer, "weight", he, MUSTER_SHAPE(channels, muster_expr_size(x, 1), size, size));
    return muster_expr_convolution(x, w, NULL, MUSTER_LIST(stride, stride, stride), MUSTER_LIST(padding, size / 2, size / 2));
}

/* Batch normalisation by the statistics of all rows of all devices. The running statistics, which
 * an evaluation would use, are variables that two updates keep. */
static muster_expr *norm(model *m, const char *layer, muster_expr *x) {
    const int64_t channels = muster_expr_size(x, 1);
    muster_variable *means = model_variable(m, layer, "mean", zero, MUSTER_SHAPE(channels));
    muster_variable *variances = model_variable(m, layer, "variance", one, MUSTER_SHAPE(channels));
    muster_expr *mean = muster_graph_parameter(m->graph, means), *variance = muster_graph_parameter(m->graph, variances);
    muster_expr *scale = model_parameter(m, layer, "scale", one, MUSTER_SHAPE(channels));
    muster_expr *bias = model_parameter(m, layer, "bias", zero, MUSTER_SHAPE(channels));
    (void)muster_graph_update(m->graph, means, muster_expr_batch_norm_mean(x, mean, 0.1), MUSTER_AUTO);
    (void)muster_graph_update(m->graph, variances, muster_expr_batch_norm_variance(x, mean, variance, 0.1, .ddof = 1), MUSTER_AUTO);
    return muster_expr_batch_norm(x, mean, variance, scale, bias, 1e-5, .training = 1);
}

/* Three convolutions, 1 x 1, 3 x 3 and 1 x 1, to which x is added, through a convolution of its own
 * where the shape changes. */
static muster_expr *block(model *m, int stage, int number, muster_expr *x, int64_t width, int64_t stride) {
    char names[8][32];
    static const char *const parts[8] = {"conv1", "norm1", "conv2", "norm2", "conv3", "norm3", "shortcut", "shortcut_norm"};
    for (int i = 0; i < 8; i++) snprintf(names[i], sizeof names[i], "stage%d.block%d.%s", stage + 1, number + 1, parts[i]);
    muster_expr *h = muster_expr_relu(norm(m, names[1], convolution(m, names[0], x, width, 1, 1)));
    h = muster_expr_relu(norm(m, names[3], convolution(m, names[2], h, width, 3, stride)));
    h = norm(m, names[5], convolution(m, names[4], h, 4 * width, 1, 1));
    if (number == 0) x = norm(m, names[7], convolution(m, names[6], x, 4 * width, 1, stride));
    return muster_expr_relu(muster_expr_add(h, x));
}

/* The logits of images (rows, 3, size, size). */
static muster_expr *network(model *m, muster_expr *images, int64_t classes) {
    static const int blocks[] = {3, 4, 6, 3};
    muster_expr *h = muster_expr_relu(norm(m, "norm", convolution(m, "conv", images, 64, 7, 2)));
    h = muster_expr_max_pool(h, MUSTER_SHAPE(3, 3), MUSTER_LIST(stride, 2, 2), MUSTER_LIST(padding, 1, 1));
    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < blocks[stage]; i++) h = block(m, stage, i, h, 64 << stage, i == 0 && stage > 0 ? 2 : 1);
    h = muster_expr_reshape(muster_expr_global_average_pool(h), MUSTER_SHAPE(MUSTER_ROWS, MUSTER_INFER));
    muster_expr *w = model_parameter(m, "dense", "weight", small, MUSTER_SHAPE(muster_expr_size(h, 1), classes));
    muster_expr *b = model_parameter(m, "dense", "bias", zero, MUSTER_SHAPE(classes));
    return muster_expr_add(muster_expr_matmul(h, w), b);
}

static muster_function *compile_step(model *m, int64_t batch, int64_t size, int64_t classes, int64_t limit, int timed) {
    muster_expr *images = muster_graph_input(m->graph, "images", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 3, size, size), MUSTER_SCATTER);
    muster_expr *labels = muster_graph_input(m->graph, "labels", MUSTER_I32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    muster_expr *loss = muster_expr_mean(muster_expr_cross_entropy(network(m, images, classes), labels, MUSTER_NONE));
    muster_rule_options rule;
    muster_rule_options_init(&rule);
    rule.learning_rate = 0.1 * (double)batch / 256; /* Goyal and others, arXiv 1706.02677 */
    rule.momentum = 0.9;
    rule.weight_decay = 1e-4;
    (void)muster_gradient(loss, m->parameters, m->count, m->gradients);
    (void)muster_graph_minimise(m->graph, m->parameters, m->gradients, m->count, MUSTER_MOMENTUM, &rule);
    (void)muster_graph_output(m->graph, "loss", loss, MUSTER_AUTO);
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.rows = batch;
    options.memory_limit = limit * 1000000;
    options.step_times = timed;
    return model_compile(m, &options);
}

int main(int argc, char **argv) {
    const char *dump = NULL;
    int64_t batch = 8, steps = 5, size = 224, classes = 1000, limit = 0;
    model_options(argc, argv,
                  (model_option[]){{"batch", &batch, NULL},
                                   {"steps", &steps, NULL},
                                   {"size", &size, NULL},
                                   {"classes", &classes, NULL},
                                   {"limit", &limit, NULL},
                                   {"dump", NULL, &dump},
                                   {NULL, NULL, NULL}});
    muster_runtime *rt = sample_open(NULL);
    model m = model_open(rt, "resnet50.step");
    double begin = model_seconds();
    muster_function *step = compile_step(&m, batch, size, classes, limit, dump != NULL);
    printf("%" PRId64 " parameters, %d devices, compiled in %.2f s\n", m.elements, muster_runtime_size(rt), model_seconds() - begin);
    EXPECT(m.elements == 23508032 + 2049 * classes);

    float *images = malloc((size_t)(batch * 3 * size * size) * sizeof *images), first = 0, loss = 0;
    int32_t *labels = malloc((size_t)batch * sizeof *labels);
    EXPECT(images && labels);
    model_draw(images, batch * 3 * size * size);
    for (int64_t i = 0; i < batch; i++) labels[i] = (int32_t)(i * 37 % classes);
    const muster_tensor in[] = {muster_f32(images, batch, 3, size, size), muster_i32(labels, batch)}, out[] = {muster_f32(&loss)};
    for (int64_t i = 0; i < steps; i++) {
        begin = model_seconds();
        CHECK(muster_function_call(step, in, 2, out, 1, NULL));
        printf("step %" PRId64 ": loss %.4f, %.2f images/s\n", i + 1, (double)loss, (double)batch / (model_seconds() - begin));
        fflush(stdout);
        if (i == 0) first = loss;
    }
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    muster_graph_memory memory;
    muster_graph_memory_init(&memory);
    CHECK(muster_graph_function_memory(step, muster_runtime_first_rank(rt, muster_runtime_process(rt)), &memory));
    printf("intermediate values %.1f MB, beside them %.1f MB, %d steps compute values again\n", (double)memory.block_bytes / 1e6,
           (double)memory.workspace_bytes / 1e6, memory.repeated_steps);
    printf("loss %s, memory at most %ld MB\n", loss < first ? "fell" : "did not fall", used.ru_maxrss / 1024);
    if (dump) CHECK(muster_graph_dump_function(step, dump, MUSTER_DUMP_TEXT));
    CHECK(muster_runtime_close(rt));
    free(images);
    free(labels);
    return 0;
}
