/* transformer.c: a language model of bytes, trained on the licence texts of the machine, on all
 * devices: GPT-2's blocks of causal attention and a dense part, each behind a layer norm. Adam.
 *   transformer [--steps N] [--batch N] [--time N] [--width N] [--layers N] [--heads N]
 *               [--bytes N] [--data DIR]
 * --time: bytes that the model sees. --bytes: how many are generated at the end. */
#include "model.h"
#include "text.h"

typedef struct shape {
    int64_t time, width, layers, heads;
} shape;

static const muster_initialiser_options zero = {.struct_size = sizeof zero};
static const muster_initialiser_options one = {.struct_size = sizeof one, .value = 1};

/* GPT-2's normal distribution. */
static muster_initialiser_options normal(double deviation) {
    return (muster_initialiser_options){.struct_size = sizeof zero, .kind = MUSTER_INITIALISER_NORMAL, .deviation = deviation};
}

static muster_expr *norm(model *m, const char *layer, muster_expr *x) {
    muster_expr *scale = model_parameter(m, layer, "scale", one, MUSTER_SHAPE(muster_expr_size(x, -1)));
    muster_expr *bias = model_parameter(m, layer, "bias", zero, MUSTER_SHAPE(muster_expr_size(x, -1)));
    return muster_expr_layer_norm(x, scale, bias, -1, 1e-5);
}

/* (rows, time, inputs) becomes (rows, time, units). */
static muster_expr *dense(model *m, const char *layer, muster_expr *x, int64_t units, double deviation) {
    muster_expr *w = model_parameter(m, layer, "weight", normal(deviation), MUSTER_SHAPE(muster_expr_size(x, -1), units));
    muster_expr *b = model_parameter(m, layer, "bias", zero, MUSTER_SHAPE(units));
    return muster_expr_add(muster_expr_matmul(x, w), b);
}

/* Each byte looks at those before it, and at itself. */
static muster_expr *attention(model *m, const char *layer, muster_expr *x, const shape *s) {
    muster_expr *all = dense(m, layer, x, 3 * s->width, 0.02), *heads[3]; /* q, k and v, each (rows, heads, time, width / heads) */
    all = muster_expr_reshape(all, MUSTER_SHAPE(MUSTER_ROWS, s->time, 3, s->heads, s->width / s->heads));
    all = muster_expr_transpose(all, MUSTER_LIST(axes, 2, 0, 3, 1, 4));
    for (int i = 0; i < 3; i++) heads[i] = muster_expr_squeeze(muster_expr_split(all, 3, i), MUSTER_LIST(axis, 0));
    muster_expr *seen = muster_expr_attention(heads[0], heads[1], heads[2], NULL, 0, .causal = 1);
    return muster_expr_reshape(muster_expr_transpose(seen, MUSTER_LIST(axes, 0, 2, 1, 3)), MUSTER_SHAPE(MUSTER_ROWS, s->time, s->width));
}

static muster_expr *block(model *m, int64_t number, muster_expr *x, const shape *s) {
    static const char *const parts[] = {"norm1", "attention", "merge", "norm2", "expand", "contract"};
    char names[6][32];
    for (int i = 0; i < 6; i++) snprintf(names[i], sizeof names[i], "block%" PRId64 ".%s", number + 1, parts[i]);
    const double added = 0.02 / sqrt(2 * (double)s->layers); /* of what is added to x, 2 layers times */
    muster_expr *h = attention(m, names[1], norm(m, names[0], x), s);
    x = muster_expr_add(x, dense(m, names[2], h, s->width, added));
    h = muster_expr_gelu(dense(m, names[4], norm(m, names[3], x), 4 * s->width, 0.02));
    return muster_expr_add(x, dense(m, names[5], h, s->width, added));
}

/* The logits of the byte behind each of `bytes` (rows, time): (rows, time, BYTES). */
static muster_expr *network(model *m, muster_expr *bytes, const shape *s) {
    muster_expr *table = model_parameter(m, "bytes", "table", normal(0.02), MUSTER_SHAPE(BYTES, s->width));
    muster_expr *places = model_parameter(m, "places", "table", normal(0.01), MUSTER_SHAPE(s->time, s->width));
    muster_expr *h = muster_expr_add(muster_expr_embedding(table, bytes), places);
    for (int64_t i = 0; i < s->layers; i++) h = block(m, i, h, s);
    return muster_expr_matmul(norm(m, "norm", h), muster_expr_transpose(table)); /* the table serves both ends */
}

/* Inputs: rows of time + 1 bytes, and the rate. */
static muster_function *compile_step(model *m, const shape *s, int64_t batch) {
    (void)muster_graph_input(m->graph, "text", MUSTER_U8, MUSTER_SHAPE(MUSTER_ROWS, s->time + 1), MUSTER_SCATTER);
    muster_expr *logits = network(m, muster_expr_parse(m->graph, "text[:, :-1]"), s);
    muster_expr *loss = muster_expr_mean(muster_expr_cross_entropy(logits, muster_expr_parse(m->graph, "text[:, 1:]"), MUSTER_NONE));
    muster_rule_options rule;
    muster_rule_options_init(&rule);
    rule.rate = muster_graph_input(m->graph, "rate", MUSTER_F32, MUSTER_SCALAR, MUSTER_BROADCAST);
    rule.beta2 = 0.95;
    rule.clip_norm = 1;
    (void)muster_gradient(loss, m->parameters, m->count, m->gradients);
    (void)muster_graph_minimise(m->graph, m->parameters, m->gradients, m->count, MUSTER_ADAM, &rule);
    (void)muster_graph_output(m->graph, "loss", loss, MUSTER_AUTO);
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.rows = batch;
    return model_compile(m, &options);
}

static muster_function *compile_generation(muster_runtime *rt, const shape *s) {
    model m = model_open(rt, "transformer.generation");
    muster_expr *text = muster_graph_input(m.graph, "text", MUSTER_U8, MUSTER_SHAPE(MUSTER_ROWS, s->time), MUSTER_SCATTER);
    (void)muster_graph_output(m.graph, "p", muster_expr_softmax(network(&m, text, s), MUSTER_LIST(axis, -1)), MUSTER_AUTO);
    return model_compile(&m, NULL);
}

/* Each byte is drawn by the probabilities that the model gives it behind those before it. */
static void generate(muster_function *f, const shape *s, int64_t count) {
    char text[4096] = "The ";
    int64_t length = 4;
    float *p = malloc((size_t)(s->time * BYTES) * sizeof *p);
    EXPECT(p != NULL && count + length + s->time < (int64_t)sizeof text);
    for (; count > 0; count--, length++) {
        const int64_t first = length > s->time ? length - s->time : 0; /* what stands behind `length` changes nothing: causal */
        CHECK(muster_function_call(f, (const muster_tensor[]){muster_u8((uint8_t *)text + first, 1, s->time)}, 1,
                                   (const muster_tensor[]){muster_f32(p, 1, s->time, BYTES)}, 1, NULL));
        const float *here = p + (length - first - 1) * BYTES;
        text[length] = (char)text_byte(here, (uint32_t)length);
    }
    fwrite(text, 1, (size_t)length, stdout);
    printf("\n");
    free(p);
}

int main(int argc, char **argv) {
    const char *data = "/usr/share/common-licenses";
    shape s = {128, 128, 4, 4};
    int64_t batch = 16, steps = 500, bytes = 400, size;
    model_options(argc, argv,
                  (model_option[]){{"steps", &steps, NULL},
                                   {"batch", &batch, NULL},
                                   {"time", &s.time, NULL},
                                   {"width", &s.width, NULL},
                                   {"layers", &s.layers, NULL},
                                   {"heads", &s.heads, NULL},
                                   {"bytes", &bytes, NULL},
                                   {"data", NULL, &data},
                                   {NULL, NULL, NULL}});
    uint8_t *text = text_read(data, &size);
    if (size <= s.time || s.width % s.heads) fprintf(stderr, "%s: too little text, or heads that do not divide the width\n", data), exit(1);
    muster_runtime *rt = sample_open(NULL);
    model m = model_open(rt, "transformer.step");
    muster_function *step = compile_step(&m, &s, batch);
    printf("%" PRId64 " bytes of text, %" PRId64 " parameters, %d devices\n", size, m.elements, muster_runtime_size(rt));
    EXPECT(m.elements == s.layers * s.width * (12 * s.width + 13) + (BYTES + s.time + 2) * s.width);
    text_train(step, text, size, &(text_training){.batch = batch, .time = s.time, .steps = steps, .rate = 2e-3f, .warm_up = 20});
    generate(compile_generation(rt, &s), &s, bytes);
    CHECK(muster_runtime_close(rt));
    free(text);
    return 0;
}
