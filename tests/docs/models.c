/* models.c: the code of docs/models.md. */
#include "docs.h"

#include <math.h>

enum { ROWS = 20, PARAMETERS = 16, BYTES = 256 };

static int is_shape(muster_expr *expression, const char *shape) {
    const int same = strcmp(muster_expr_shape(expression), shape) == 0;
    if (!same) fprintf(stderr, "expected %s, received %s\n", shape, muster_expr_shape(expression));
    return same;
}

static muster_runtime *runtime;
static muster_expr *parameters[PARAMETERS];
static int32_t count;

/* snippet: parameter */
static const muster_initialiser_options zeros = {.struct_size = sizeof zeros};
static const muster_initialiser_options ones = {.struct_size = sizeof ones, .value = 1};
static const muster_initialiser_options he = {.struct_size = sizeof he,
                                              .kind = MUSTER_INITIALISER_HE_NORMAL};
static const muster_initialiser_options normal = {
    .struct_size = sizeof normal, .kind = MUSTER_INITIALISER_NORMAL, .deviation = 0.02};

static muster_variable *variable(const char *name, muster_initialiser_options first, int32_t ndim,
                                 const int64_t *shape) {
    const float zero = 0; /* repeated, until the first values are drawn */
    const muster_tensor value = muster_tensor_broadcast(muster_f32(&zero), ndim, shape);
    muster_variable *v;
    if (muster_variable_find(runtime, name, &v) == MUSTER_OK) return v; /* of an earlier graph */
    check(muster_variable_create(runtime, name, value, &v));
    first.seed = (uint64_t)count; /* another seed for each parameter */
    check(muster_variable_initialise(v, &first));
    return v;
}

static muster_expr *parameter(muster_graph *g, const char *name, muster_initialiser_options first,
                              int32_t ndim, const int64_t *shape) {
    check(muster_graph_status(g)); /* the shape may hold the size of an expression that failed */
    muster_expr *p = muster_graph_parameter(g, variable(name, first, ndim, shape));
    return parameters[count++] = p;
}
/* end of snippet */

/* The loss of the first and of the last of some calls with the same inputs. */
static void train(muster_function *step, muster_tensor x, muster_tensor labels, double bound) {
    float loss = 0;
    for (int64_t i = 0; i < 100; i++) {
        const muster_tensor in[] = {x, labels, muster_i64(&i)};
        check(muster_function_call(step, in, 3, (muster_tensor[]){muster_f32(&loss)}, 1, NULL));
        if (i == 0) EXPECT((double)loss > 3 * bound); /* nearly that of equal probabilities */
    }
    EXPECT((double)loss < bound);
}

/* Squares of 8 x 8 in which another quarter is bright for each of 4 classes. */
static void images(void) {
    enum { CHANNELS = 6, UNITS = 16, CLASSES = 4 };
    static float pixels[ROWS][8][8];
    uint8_t classes[ROWS];
    for (int i = 0; i < ROWS; i++) {
        classes[i] = (uint8_t)(i % CLASSES);
        for (int y = 0; y < 8; y++)
            for (int x = 0; x < 8; x++)
                pixels[i][y][x] = (float)(2 * (y / 4) + x / 4 == i % CLASSES) +
                                  (float)((i + 3 * y + 5 * x) % 7) / 14;
    }
    muster_graph *g;
    muster_function *step;
    check(muster_graph_create(runtime, "images", &g));
    count = 0;
    /* snippet: inputs */
    muster_expr *x =
        muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 1, 8, 8), MUSTER_SCATTER);
    muster_expr *labels = /* u8, i32 or i64; from 0 to the number of classes - 1 */
        muster_graph_input(g, "labels", MUSTER_U8, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    /* end of snippet */
    /* snippet: convolution */
    muster_expr *w1 = parameter(g, "conv.weight", he, MUSTER_SHAPE(CHANNELS, 1, 3, 3));
    muster_expr *h = muster_expr_convolution(x, w1, NULL, MUSTER_LIST(padding, 1));
    /* end of snippet */
    EXPECT(is_shape(h, "(rows, 6, 8, 8)"));
    /* snippet: batch_norm */
    muster_variable *means = variable("norm.mean", zeros, MUSTER_SHAPE(CHANNELS));
    muster_variable *variances = variable("norm.variance", ones, MUSTER_SHAPE(CHANNELS));
    muster_expr *mean = muster_graph_parameter(g, means);
    muster_expr *variance = muster_graph_parameter(g, variances);
    muster_expr *scale = parameter(g, "norm.scale", ones, MUSTER_SHAPE(CHANNELS));
    muster_expr *bias = parameter(g, "norm.bias", zeros, MUSTER_SHAPE(CHANNELS));
    (void)muster_graph_update(g, means, muster_expr_batch_norm_mean(h, mean, 0.1), MUSTER_AUTO);
    (void)muster_graph_update(g, variances, muster_expr_batch_norm_variance(h, mean, variance, 0.1),
                              MUSTER_AUTO);
    h = muster_expr_batch_norm(h, mean, variance, scale, bias, 1e-5, .training = 1);
    /* end of snippet */
    /* snippet: pool */
    h = muster_expr_max_pool(muster_expr_relu(h), MUSTER_SHAPE(2, 2));
    h = muster_expr_reshape(h, MUSTER_SHAPE(MUSTER_ROWS, MUSTER_INFER));
    /* end of snippet */
    EXPECT(is_shape(h, "(rows, 96)"));
    /* snippet: dense */
    const int64_t inputs = muster_expr_size(h, -1);
    muster_expr *w2 = parameter(g, "dense.weight", he, MUSTER_SHAPE(inputs, UNITS));
    muster_expr *b2 = parameter(g, "dense.bias", zeros, MUSTER_SHAPE(UNITS));
    h = muster_expr_relu(muster_expr_add(muster_expr_matmul(h, w2), b2));
    /* end of snippet */
    /* snippet: dropout */
    muster_expr *calls =
        muster_graph_input(g, "calls", MUSTER_I64, MUSTER_SCALAR, MUSTER_BROADCAST);
    h = muster_expr_dropout(h, calls, 0.2, 1);
    /* end of snippet */
    muster_expr *w3 = parameter(g, "last.weight", normal, MUSTER_SHAPE(UNITS, CLASSES));
    muster_expr *logits = muster_expr_matmul(h, w3);
    /* snippet: loss */
    muster_expr *loss = muster_expr_mean(muster_expr_cross_entropy(logits, labels, MUSTER_NONE));
    muster_expr *gradients[PARAMETERS];
    muster_rule_options rule;
    muster_rule_options_init(&rule);
    rule.learning_rate = 0.01;
    (void)muster_gradient(loss, parameters, count, gradients);
    (void)muster_graph_minimise(g, parameters, gradients, count, MUSTER_ADAM, &rule);
    (void)muster_graph_output(g, "loss", loss, MUSTER_AUTO);
    /* end of snippet */
    /* snippet: limit */
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.memory_limit = 200000; /* bytes on each device */
    check(muster_graph_compile(g, &options, &step));
    /* end of snippet */
    check(muster_graph_destroy(g));
    train(step, muster_f32(pixels, ROWS, 1, 8, 8), muster_u8(classes, ROWS), 0.2);
    /* snippet: memory */
    muster_graph_memory memory;
    muster_graph_memory_init(&memory);
    const int32_t rank = muster_runtime_first_rank(runtime, muster_runtime_process(runtime));
    check(muster_graph_function_memory(step, rank, &memory)); /* one of this process's ranks */
    printf("rank %d: %lld bytes, %d steps compute values again\n", (int)rank,
           (long long)memory.block_bytes, (int)memory.repeated_steps);
    /* end of snippet */
    EXPECT(variable("norm.variance", ones, MUSTER_SHAPE(CHANNELS)) == variances);
    EXPECT(memory.block_bytes > 0 && memory.block_bytes <= options.memory_limit);
    float kept[CHANNELS];
    check(muster_variable_get_whole(variances, muster_f32(kept, CHANNELS)));
    for (int i = 0; i < CHANNELS; i++) EXPECT(kept[i] != 1 && kept[i] > 0);
}

/* Rows of bytes from 0 to 3; the label of each is the byte before it. A model that sees the byte
 * alone cannot know that: of four equally probable ones the loss is log 4 = 1.39. */
static void sequences(void) {
    enum { TIME = 6, HEADS = 2, WIDTH = 16, STATES = 4 };
    uint8_t text[ROWS][TIME], before[ROWS][TIME];
    for (uint32_t i = 0; i < ROWS; i++)
        for (uint32_t t = 0; t < TIME; t++) {
            text[i][t] = (uint8_t)((i * TIME + t + 1) * 2654435761u >> 30);
            before[i][t] = t ? text[i][t - 1] : 0;
        }
    muster_graph *g;
    muster_function *step;
    check(muster_graph_create(runtime, "sequences", &g));
    count = 0;
    muster_expr *bytes =
        muster_graph_input(g, "bytes", MUSTER_U8, MUSTER_SHAPE(MUSTER_ROWS, TIME), MUSTER_SCATTER);
    muster_expr *labels =
        muster_graph_input(g, "labels", MUSTER_U8, MUSTER_SHAPE(MUSTER_ROWS, TIME), MUSTER_SCATTER);
    (void)muster_graph_input(g, "calls", MUSTER_I64, MUSTER_SCALAR, MUSTER_BROADCAST);
    /* snippet: embedding */
    muster_expr *table = parameter(g, "table", normal, MUSTER_SHAPE(BYTES, WIDTH));
    muster_expr *places = parameter(g, "places", normal, MUSTER_SHAPE(TIME, WIDTH));
    muster_expr *x = muster_expr_add(muster_expr_embedding(table, bytes), places);
    /* end of snippet */
    EXPECT(is_shape(x, "(rows, 6, 16)"));
    /* snippet: layer_norm */
    muster_expr *scale = parameter(g, "scale", ones, MUSTER_SHAPE(WIDTH));
    muster_expr *bias = parameter(g, "bias", zeros, MUSTER_SHAPE(WIDTH));
    muster_expr *h = muster_expr_layer_norm(x, scale, bias, -1, 1e-5);
    /* end of snippet */
    /* snippet: attention */
    muster_expr *w = parameter(g, "qkv", he, MUSTER_SHAPE(WIDTH, 3 * WIDTH)), *heads[3];
    muster_expr *all = muster_expr_reshape(
        muster_expr_matmul(h, w), MUSTER_SHAPE(MUSTER_ROWS, TIME, 3, HEADS, WIDTH / HEADS));
    all = muster_expr_transpose(all, MUSTER_LIST(axes, 2, 0, 3, 1, 4));
    for (int i = 0; i < 3; i++) /* q, k and v, each (rows, heads, time, width / heads) */
        heads[i] = muster_expr_squeeze(muster_expr_split(all, 3, i), MUSTER_LIST(axis, 0));
    h = muster_expr_attention(heads[0], heads[1], heads[2], NULL, 0, .causal = 1);
    h = muster_expr_reshape(muster_expr_transpose(h, MUSTER_LIST(axes, 0, 2, 1, 3)),
                            MUSTER_SHAPE(MUSTER_ROWS, TIME, WIDTH));
    muster_expr *merge = parameter(g, "merge", he, MUSTER_SHAPE(WIDTH, WIDTH));
    x = muster_expr_add(x, muster_expr_matmul(h, merge)); /* a residual connection */
    /* end of snippet */
    EXPECT(is_shape(heads[2], "(rows, 2, 6, 8)") && is_shape(x, "(rows, 6, 16)"));
    const muster_initialiser_options small = {
        .struct_size = sizeof small, .kind = MUSTER_INITIALISER_UNIFORM, .low = -0.5, .high = 0.5};
    /* snippet: recurrent */
    muster_expr *wx = parameter(g, "wx", small, MUSTER_SHAPE(4 * STATES, WIDTH));
    muster_expr *wh = parameter(g, "wh", small, MUSTER_SHAPE(4 * STATES, STATES));
    muster_expr *gates = parameter(g, "gates", zeros, MUSTER_SHAPE(4 * STATES));
    muster_expr *y =
        muster_expr_lstm(x, wx, wh, gates, NULL, NULL, NULL); /* (rows, TIME, STATES) */
    muster_expr *last =
        muster_expr_result(y, 1); /* (rows, STATES): the state behind the last step */
    /* end of snippet */
    EXPECT(is_shape(y, "(rows, 6, 4)") && is_shape(last, "(rows, 4)"));
    /* snippet: tied */
    muster_expr *logits = muster_expr_matmul(x, muster_expr_transpose(table));
    /* end of snippet */
    muster_expr *loss = muster_expr_mean(muster_expr_cross_entropy(logits, labels, MUSTER_NONE));
    muster_expr *gradients[PARAMETERS];
    muster_rule_options rule;
    muster_rule_options_init(&rule);
    rule.learning_rate = 0.02;
    (void)muster_gradient(loss, parameters, count, gradients);
    (void)muster_graph_minimise(g, parameters, gradients, count, MUSTER_ADAM, &rule);
    (void)muster_graph_output(g, "loss", loss, MUSTER_AUTO);
    check(muster_graph_compile(g, NULL, &step));
    check(muster_graph_destroy(g));
    train(step, muster_u8(text, ROWS, TIME), muster_u8(before, ROWS, TIME), 0.5);
}

/* A layer that fails, and a parameter whose shape depends on its result: the program must end with
 * the message of the layer. */
static void wrong_layer(void) {
    muster_graph *g;
    check(muster_graph_create(runtime, "wrong", &g));
    muster_expr *x =
        muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 12, 8, 8), MUSTER_SCATTER);
    muster_expr *w = parameter(g, "wrong.weight", he, MUSTER_SHAPE(6, 3, 3, 3));
    muster_expr *h = muster_expr_convolution(x, w, NULL);
    (void)parameter(g, "next.weight", he, MUSTER_SHAPE(muster_expr_size(h, 1), 4));
}

int main(int argc, char **argv) {
    runtime = docs_open();
    if (argc == 2 && strcmp(argv[1], "wrong-layer") == 0) {
        wrong_layer();
        return 0;
    }
    images();
    sequences();
    check(muster_runtime_close(runtime));
    printf("two models have learnt\n");
    return 0;
}
