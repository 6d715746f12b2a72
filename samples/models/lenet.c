/* lenet.c: a convolutional network like LeNet on Fashion-MNIST, on all devices: two convolutions,
 * each with ReLU and pooling, and two dense layers; SGD with momentum.
 *   lenet [--batch N] [--epochs N] [--steps N] [--test N] [--data DIR] [--parameters FILE]
 * --test: the first images of the test set, by which it is evaluated. --parameters: a file for the
 * parameters at the end. MUSTER_DEVICES chooses the devices. */
#include "../fashion_mnist/idx.h"
#include "model.h"

enum { SIDE = 28, CLASSES = 10 };

/* He's deviation suits layers before a ReLU. */
static const muster_initialiser_options he = {.struct_size = sizeof he, .kind = MUSTER_INITIALISER_HE_NORMAL};
static const muster_initialiser_options zero = {.struct_size = sizeof zero};

/* A convolution of 5 x 5, ReLU, and the largest of each 2 x 2: (rows, c, h, w) becomes
 * (rows, channels, (h - 4) / 2, (w - 4) / 2). */
static muster_expr *convolution(model *m, const char *layer, muster_expr *x, int64_t channels) {
    muster_expr *w = model_parameter(m, layer, "weight", he, MUSTER_SHAPE(channels, muster_expr_size(x, 1), 5, 5));
    muster_expr *b = model_parameter(m, layer, "bias", zero, MUSTER_SHAPE(channels));
    return muster_expr_max_pool(muster_expr_relu(muster_expr_convolution(x, w, b)), MUSTER_SHAPE(2, 2));
}

static muster_expr *dense(model *m, const char *layer, muster_expr *x, int64_t units) {
    muster_expr *w = model_parameter(m, layer, "weight", he, MUSTER_SHAPE(muster_expr_size(x, 1), units));
    muster_expr *b = model_parameter(m, layer, "bias", zero, MUSTER_SHAPE(units));
    return muster_expr_add(muster_expr_matmul(x, w), b);
}

/* The logits (rows, CLASSES) of the images. */
static muster_expr *network(model *m) {
    (void)muster_graph_input(m->graph, "images", MUSTER_U8, MUSTER_SHAPE(MUSTER_ROWS, 1, SIDE, SIDE), MUSTER_SCATTER);
    muster_expr *h = muster_expr_parse(m->graph, "cast(images, f32) / 255");
    h = convolution(m, "conv1", h, 16);
    h = convolution(m, "conv2", h, 32);
    h = muster_expr_reshape(h, MUSTER_SHAPE(MUSTER_ROWS, MUSTER_INFER));
    h = muster_expr_relu(dense(m, "dense1", h, 500));
    return dense(m, "dense2", h, CLASSES);
}

static muster_function *compile_step(model *m, int64_t batch) {
    muster_expr *logits = network(m);
    muster_expr *labels = muster_graph_input(m->graph, "labels", MUSTER_U8, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    muster_expr *loss = muster_expr_mean(muster_expr_cross_entropy(logits, labels, MUSTER_NONE)); /* over the rows of all devices */
    muster_rule_options rule;
    muster_rule_options_init(&rule);
    rule.learning_rate = 0.02;
    rule.momentum = 0.9;
    (void)muster_gradient(loss, m->parameters, m->count, m->gradients);
    (void)muster_graph_minimise(m->graph, m->parameters, m->gradients, m->count, MUSTER_MOMENTUM, &rule);
    (void)muster_graph_output(m->graph, "loss", loss, MUSTER_AUTO);
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.rows = batch;
    return model_compile(m, &options);
}

/* The same network with the same variables, without updates. */
static muster_function *compile_evaluation(muster_runtime *rt) {
    model m = model_open(rt, "lenet.evaluation");
    muster_expr *logits = network(&m);
    muster_expr *labels = muster_graph_input(m.graph, "labels", MUSTER_U8, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    muster_expr *correct = muster_expr_result(muster_expr_softmax_cross_entropy(logits, labels), 2); /* the number of rows */
    (void)muster_graph_output(m.graph, "correct", correct, MUSTER_AUTO);
    return model_compile(&m, NULL);
}

static idx_set read_set(const char *folder, const char *name) {
    idx_set set;
    char message[IDX_MESSAGE];
    if (idx_read_set(folder, name, SIDE, SIDE, CLASSES, &set, message)) fprintf(stderr, "%s\n", message), exit(1);
    return set;
}

/* Calls the function with the selected rows. */
static void call(muster_function *f, const idx_set *set, muster_selection rows, muster_tensor result) {
    const muster_tensor in[] = {muster_u8(set->images.data, set->images.shape[0], 1, SIDE, SIDE),
                                muster_u8(set->labels.data, set->labels.shape[0])};
    muster_call_options options;
    muster_call_options_init(&options);
    options.batch = rows;
    CHECK(muster_function_call(f, in, 2, &result, 1, &options));
}

/* Another order of the rows for each epoch (Fisher and Yates). */
static void shuffle(int64_t *order, int64_t count, int64_t epoch) {
    for (int64_t i = 0; i < count; i++) order[i] = i;
    for (int64_t i = count - 1; i > 0; i--) {
        uint32_t random[4];
        muster_philox4x32((const uint32_t[]){(uint32_t)i, (uint32_t)epoch, 0, 0}, (const uint32_t[]){1, 0}, random);
        const int64_t j = (int64_t)(random[0] % (uint32_t)(i + 1)), swapped = order[i];
        order[i] = order[j];
        order[j] = swapped;
    }
}

static void train(muster_function *step, const idx_set *set, int64_t batch, int64_t steps) {
    const int64_t rows = set->images.shape[0], per_epoch = (rows + batch - 1) / batch;
    int64_t *order = malloc((size_t)rows * sizeof *order), done = 0;
    EXPECT(order != NULL);
    double sum = 0;
    const double begin = model_seconds();
    for (int64_t i = 0; i < steps; i++) {
        const int64_t at = i % per_epoch * batch, count = rows - at < batch ? rows - at : batch;
        float loss;
        if (at == 0) shuffle(order, rows, i / per_epoch);
        call(step, set, (muster_selection){.kind = MUSTER_SELECT_LIST, .indices = order + at, .index_count = count}, muster_f32(&loss));
        done += count;
        sum += (double)loss;
        if (i % 50 == 49 || i == steps - 1) {
            printf("step %" PRId64 ": loss %.4f, %.0f samples/s\n", i + 1, sum / (double)(i % 50 + 1),
                   (double)done / (model_seconds() - begin));
            sum = 0;
        }
    }
    free(order);
}

static double accuracy(muster_function *evaluation, const idx_set *set, int64_t rows) {
    enum { ROWS = 1000 }; /* at a time: their activations stay small */
    int64_t correct = 0, some = 0;
    for (int64_t row = 0; row < rows; row += ROWS) {
        const int64_t stop = rows - row < ROWS ? rows : row + ROWS;
        call(evaluation, set, (muster_selection){.kind = MUSTER_SELECT_RANGE, .start = row, .stop = stop}, muster_i64(&some));
        correct += some;
    }
    return (double)correct / (double)rows;
}

int main(int argc, char **argv) {
    const char *data = "/usr/share/datasets/fashion-mnist", *parameters = NULL;
    int64_t batch = 128, epochs = 1, steps = 0, tested = 10000;
    model_options(argc, argv,
                  (model_option[]){{"batch", &batch, NULL},
                                   {"epochs", &epochs, NULL},
                                   {"steps", &steps, NULL},
                                   {"test", &tested, NULL},
                                   {"data", NULL, &data},
                                   {"parameters", NULL, &parameters},
                                   {NULL, NULL, NULL}});
    idx_set training = read_set(data, "train"), test = read_set(data, "t10k");
    EXPECT(batch <= training.images.shape[0] && tested <= test.images.shape[0]);
    muster_runtime *rt = sample_open(NULL);
    model m = model_open(rt, "lenet.step");
    muster_function *step = compile_step(&m, batch), *evaluation = compile_evaluation(rt);
    printf("%" PRId64 " parameters, %d devices\n", m.elements, muster_runtime_size(rt));
    EXPECT(m.elements == 16 * 25 + 16 + 32 * 16 * 25 + 32 + 512 * 500 + 500 + 500 * 10 + 10);
    train(step, &training, batch, steps ? steps : epochs * ((training.images.shape[0] + batch - 1) / batch));
    printf("test accuracy: %.4f\n", accuracy(evaluation, &test, tested));
    if (parameters) model_write(&m, parameters);
    CHECK(muster_runtime_close(rt));
    idx_free_set(&training);
    idx_free_set(&test);
    return 0;
}
