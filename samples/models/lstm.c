/* lstm.c: a language model of bytes, trained on the licence texts of the machine, on all devices:
 * layers of LSTM. The text that it generates goes through the model byte by byte: the states behind
 * one byte are those before the next. Adam.
 *   lstm [--steps N] [--batch N] [--time N] [--width N] [--layers N] [--bytes N] [--data DIR]
 * --time: bytes of a row. --width: of a byte and of a state. --bytes: how many are generated. */
#include "model.h"
#include "text.h"

enum { LAYERS_MOST = 8, STATES_MOST = 2 * LAYERS_MOST };

typedef struct shape {
    int64_t time, width, layers;
} shape;

static const muster_initialiser_options zero = {.struct_size = sizeof zero};

static muster_initialiser_options uniform(double bound) {
    return (muster_initialiser_options){.struct_size = sizeof zero, .kind = MUSTER_INITIALISER_UNIFORM, .low = -bound, .high = bound};
}

/* Layer `number` over x (rows, time, width), from the states (rows, width), or from 0 without
 * them. */
static muster_expr *layer(model *m, int64_t number, muster_expr *x, const shape *s, muster_expr *h, muster_expr *c) {
    char name[32];
    const int64_t width = s->width;
    const double bound = 1 / sqrt((double)width);
    snprintf(name, sizeof name, "layer%" PRId64, number + 1);
    muster_expr *w = model_parameter(m, name, "w", uniform(bound), MUSTER_SHAPE(4 * width, width));
    muster_expr *r = model_parameter(m, name, "r", uniform(bound), MUSTER_SHAPE(4 * width, width));
    muster_expr *bias = model_parameter(m, name, "bias", zero, MUSTER_SHAPE(4 * width));
    return muster_expr_lstm(x, w, r, bias, h, c, NULL);
}

/* The logits of the byte behind each of `bytes` (rows, time). states: h and c of each layer, which
 * become those at the end; NULL: they begin with 0. */
static muster_expr *network(model *m, muster_expr *bytes, const shape *s, muster_expr **states) {
    muster_expr *table = model_parameter(m, "bytes", "table", uniform(0.1), MUSTER_SHAPE(BYTES, s->width));
    muster_expr *x = muster_expr_embedding(table, bytes);
    for (int64_t i = 0; i < s->layers; i++) {
        x = layer(m, i, x, s, states ? states[2 * i] : NULL, states ? states[2 * i + 1] : NULL);
        if (!states) continue;
        states[2 * i] = muster_expr_result(x, 1);
        states[2 * i + 1] = muster_expr_result(x, 2);
    }
    muster_expr *w = model_parameter(m, "last", "weight", uniform(0.1), MUSTER_SHAPE(s->width, BYTES));
    muster_expr *bias = model_parameter(m, "last", "bias", zero, MUSTER_SHAPE(BYTES));
    return muster_expr_add(muster_expr_matmul(x, w), bias);
}

/* Inputs: rows of time + 1 bytes, and the rate. */
static muster_function *compile_step(model *m, const shape *s, int64_t batch) {
    (void)muster_graph_input(m->graph, "text", MUSTER_U8, MUSTER_SHAPE(MUSTER_ROWS, s->time + 1), MUSTER_SCATTER);
    muster_expr *logits = network(m, muster_expr_parse(m->graph, "text[:, :-1]"), s, NULL);
    muster_expr *loss = muster_expr_mean(muster_expr_cross_entropy(logits, muster_expr_parse(m->graph, "text[:, 1:]"), MUSTER_NONE));
    muster_rule_options rule;
    muster_rule_options_init(&rule);
    rule.rate = muster_graph_input(m->graph, "rate", MUSTER_F32, MUSTER_SCALAR, MUSTER_BROADCAST);
    rule.clip_norm = 1;
    (void)muster_gradient(loss, m->parameters, m->count, m->gradients);
    (void)muster_graph_minimise(m->graph, m->parameters, m->gradients, m->count, MUSTER_ADAM, &rule);
    (void)muster_graph_output(m->graph, "loss", loss, MUSTER_AUTO);
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.rows = batch;
    return model_compile(m, &options);
}

/* From one byte of one text, and the states: the probabilities of the next byte, and the states
 * behind it. */
static muster_function *compile_generation(muster_runtime *rt, const shape *s) {
    model m = model_open(rt, "lstm.generation");
    muster_expr *states[STATES_MOST];
    char name[32];
    muster_expr *text = muster_graph_input(m.graph, "text", MUSTER_U8, MUSTER_SHAPE(1, 1), MUSTER_BROADCAST);
    for (int64_t i = 0; i < 2 * s->layers; i++) {
        snprintf(name, sizeof name, "state%" PRId64, i);
        states[i] = muster_graph_input(m.graph, name, MUSTER_F32, MUSTER_SHAPE(1, s->width), MUSTER_BROADCAST);
    }
    (void)muster_graph_output(m.graph, "p", muster_expr_softmax(network(&m, text, s, states), MUSTER_LIST(axis, -1)), MUSTER_AUTO);
    for (int64_t i = 0; i < 2 * s->layers; i++) {
        snprintf(name, sizeof name, "state%" PRId64, i);
        (void)muster_graph_output(m.graph, name, states[i], MUSTER_AUTO);
    }
    return model_compile(&m, NULL);
}

static void generate(muster_function *f, const shape *s, int64_t count) {
    static const char begin[] = "The ";
    const int64_t count_of_states = 2 * s->layers, numbers = count_of_states * s->width;
    float p[BYTES], *states = calloc((size_t)(2 * numbers), sizeof *states); /* before and behind a byte, in turn */
    muster_tensor in[1 + STATES_MOST], out[1 + STATES_MOST];
    uint8_t byte;
    EXPECT(states != NULL);
    in[0] = muster_u8(&byte, 1, 1);
    out[0] = muster_f32(p, 1, 1, BYTES);
    for (int64_t i = 0; i < count; i++) {
        float *before = states + i % 2 * numbers, *behind = states + (i + 1) % 2 * numbers;
        for (int64_t k = 0; k < count_of_states; k++) {
            in[1 + k] = muster_f32(before + k * s->width, 1, s->width);
            out[1 + k] = muster_f32(behind + k * s->width, 1, s->width);
        }
        byte = i < (int64_t)sizeof begin - 1 ? (uint8_t)begin[i] : (uint8_t)text_byte(p, (uint32_t)i);
        putchar(byte);
        CHECK(muster_function_call(f, in, (int32_t)(1 + count_of_states), out, (int32_t)(1 + count_of_states), NULL));
    }
    printf("\n");
    free(states);
}

int main(int argc, char **argv) {
    const char *data = "/usr/share/common-licenses";
    shape s = {64, 256, 2};
    int64_t batch = 32, steps = 500, bytes = 400, size;
    model_options(argc, argv,
                  (model_option[]){{"steps", &steps, NULL},
                                   {"batch", &batch, NULL},
                                   {"time", &s.time, NULL},
                                   {"width", &s.width, NULL},
                                   {"layers", &s.layers, NULL},
                                   {"bytes", &bytes, NULL},
                                   {"data", NULL, &data},
                                   {NULL, NULL, NULL}});
    uint8_t *text = text_read(data, &size);
    if (size <= s.time || s.layers > LAYERS_MOST)
        fprintf(stderr, "%s: too little text, or more than %d layers\n", data, LAYERS_MOST), exit(1);
    muster_runtime *rt = sample_open(NULL);
    model m = model_open(rt, "lstm.step");
    muster_function *step = compile_step(&m, &s, batch);
    printf("%" PRId64 " bytes of text, %" PRId64 " parameters, %d devices\n", size, m.elements, muster_runtime_size(rt));
    EXPECT(m.elements == s.layers * 4 * s.width * (2 * s.width + 1) + BYTES * (2 * s.width + 1));
    text_train(step, text, size, &(text_training){.batch = batch, .time = s.time, .steps = steps, .rate = 4e-3f});
    generate(compile_generation(rt, &s), &s, bytes);
    CHECK(muster_runtime_close(rt));
    free(text);
    return 0;
}
