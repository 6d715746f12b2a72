/* alexnet.c: training steps of AlexNet in one column (Krizhevsky, arXiv 1404.5997, as torchvision
 * has it) on synthetic images, on all devices; SGD with momentum, and dropout.
 *   alexnet [--batch N] [--steps N] [--classes N] [--normalise yes] [--split yes] [--dump FILE]
 * --normalise: the local response normalisation of the first paper. --split: each device has a part
 * of the weights of the two large dense layers, so that activations are exchanged in place of
 * gradients. --dump: the last step's expressions, their memory and times. */
#include <sys/resource.h>

#include "model.h"

enum { SIZE = 224, UNITS = 4096 };

/* Less than He's deviation: a pooling keeps the largest, so that what goes through it grows. */
static const muster_initialiser_options he = {.struct_size = sizeof he, .kind = MUSTER_INITIALISER_HE_NORMAL, .gain = 0.6};
/* Small weights of the last layer: at first all classes are nearly as probable. */
static const muster_initialiser_options small = {.struct_size = sizeof small, .kind = MUSTER_INITIALISER_NORMAL, .deviation = 0.01};
static const muster_initialiser_options zero = {.struct_size = sizeof zero};

static muster_expr *convolution(model *m, const char *layer, muster_expr *x, int64_t channels, int64_t size, int64_t stride) {
    muster_expr *w = model_parameter(m, layer, "weight", he, MUSTER_SHAPE(channels, muster_expr_size(x, 1), size, size));
    muster_expr *b = model_parameter(m, layer, "bias", zero, MUSTER_SHAPE(channels));
    const int64_t padding = size == 11 ? 2 : size / 2;
    return muster_expr_relu(muster_expr_convolution(x, w, b, MUSTER_LIST(stride, stride, stride), MUSTER_LIST(padding, padding, padding)));
}

/* The largest of each 3 x 3, at every second place. */
static muster_expr *pool(muster_expr *x) { return muster_expr_max_pool(x, MUSTER_SHAPE(3, 3), MUSTER_LIST(stride, 2, 2)); }

/* axis 1: each device has some of the units; axis 0: the weights of the units that it has; -1: all
 * weights. */
static muster_expr *dense(model *m, const char *layer, muster_expr *x, muster_initialiser_options initial, int64_t units, int32_t axis) {
    muster_expr *w = model_parameter(m, layer, "weight", initial, MUSTER_SHAPE(muster_expr_size(x, 1), units));
    muster_expr *b = model_parameter(m, layer, "bias", zero, MUSTER_SHAPE(units));
    if (axis >= 0) CHECK(muster_graph_split(w, axis));
    if (axis == 1) CHECK(muster_graph_split(b, 0));
    return muster_expr_add(muster_expr_matmul(x, w), b);
}

/* The logits of images (rows, 3, SIZE, SIZE). `step` counts the steps: dropout draws other elements
 * in each. */
static muster_expr *network(model *m, muster_expr *images, muster_expr *step, int64_t classes, int normalise, int split) {
    muster_expr *h = convolution(m, "conv1", images, 64, 11, 4);
    if (normalise) h = muster_expr_local_response_norm(h, 5, 1e-4 * 5, 0.75, 2);
    h = convolution(m, "conv2", pool(h), 192, 5, 1);
    if (normalise) h = muster_expr_local_response_norm(h, 5, 1e-4 * 5, 0.75, 2);
    h = convolution(m, "conv3", pool(h), 384, 3, 1);
    h = convolution(m, "conv4", h, 256, 3, 1);
    h = pool(convolution(m, "conv5", h, 256, 3, 1)); /* (rows, 256, 6, 6) */
    h = muster_expr_dropout(muster_expr_reshape(h, MUSTER_SHAPE(MUSTER_ROWS, MUSTER_INFER)), step, 0.5, 1);
    h = muster_expr_relu(dense(m, "dense1", h, he, UNITS, split ? 1 : -1));
    h = muster_expr_relu(dense(m, "dense2", muster_expr_dropout(h, step, 0.5, 1), he, UNITS, split ? 0 : -1));
    return dense(m, "dense3", h, small, classes, -1);
}

static muster_function *compile_step(model *m, int64_t batch, int64_t classes, int normalise, int split, int timed) {
    muster_expr *images = muster_graph_input(m->graph, "images", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 3, SIZE, SIZE), MUSTER_SCATTER);
    muster_expr *labels = muster_graph_input(m->graph, "labels", MUSTER_I32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    muster_expr *count = muster_graph_input(m->graph, "step", MUSTER_I64, MUSTER_SCALAR, MUSTER_BROADCAST);
    muster_expr *logits = network(m, images, count, classes, normalise, split);
    muster_expr *loss = muster_expr_mean(muster_expr_cross_entropy(logits, labels, MUSTER_NONE));
    muster_rule_options rule;
    muster_rule_options_init(&rule);
    rule.learning_rate = 0.01;
    rule.momentum = 0.9;
    rule.weight_decay = 5e-4;
    (void)muster_gradient(loss, m->parameters, m->count, m->gradients);
    (void)muster_graph_minimise(m->graph, m->parameters, m->gradients, m->count, MUSTER_MOMENTUM, &rule);
    (void)muster_graph_output(m->graph, "loss", loss, MUSTER_AUTO);
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.rows = batch;
    options.step_times = timed;
    return model_compile(m, &options);
}

int main(int argc, char **argv) {
    const char *dump = NULL, *normalise = NULL, *split = NULL;
    int64_t batch = 64, steps = 5, classes = 1000;
    model_options(argc, argv,
                  (model_option[]){{"batch", &batch, NULL},
                                   {"steps", &steps, NULL},
                                   {"classes", &classes, NULL},
                                   {"normalise", NULL, &normalise},
                                   {"split", NULL, &split},
                                   {"dump", NULL, &dump},
                                   {NULL, NULL, NULL}});
    muster_runtime *rt = sample_open(NULL);
    model m = model_open(rt, "alexnet.step");
    double begin = model_seconds();
    muster_function *step = compile_step(&m, batch, classes, normalise != NULL, split != NULL, dump != NULL);
    printf("%" PRId64 " parameters, %d devices, compiled in %.2f s\n", m.elements, muster_runtime_size(rt), model_seconds() - begin);
    EXPECT(m.elements == 57003840 + (UNITS + 1) * classes);

    float *images = malloc((size_t)(batch * 3 * SIZE * SIZE) * sizeof *images), first = 0, loss = 0;
    int32_t *labels = malloc((size_t)batch * sizeof *labels);
    EXPECT(images && labels);
    model_draw(images, batch * 3 * SIZE * SIZE);
    for (int64_t i = 0; i < batch; i++) labels[i] = (int32_t)(i * 37 % classes);
    for (int64_t i = 0; i < steps; i++) {
        const muster_tensor in[] = {muster_f32(images, batch, 3, SIZE, SIZE), muster_i32(labels, batch), muster_i64(&i)};
        begin = model_seconds();
        CHECK(muster_function_call(step, in, 3, (const muster_tensor[]){muster_f32(&loss)}, 1, NULL));
        printf("step %" PRId64 ": loss %.4f, %.2f images/s\n", i + 1, (double)loss, (double)batch / (model_seconds() - begin));
        fflush(stdout);
        if (i == 0) first = loss;
    }
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("loss %s, memory at most %ld MB\n", loss < first ? "fell" : "did not fall", used.ru_maxrss / 1024);
    if (dump) CHECK(muster_graph_dump_function(step, dump, MUSTER_DUMP_TEXT));
    CHECK(muster_runtime_close(rt));
    free(images);
    free(labels);
    return 0;
}
