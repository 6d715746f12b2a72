/* Layers of networks on two devices: beside the products that they cannot do without, beside
 * oneDNN's LSTM, and beside PyTorch. Gradients are computed for a given gradient of the result. */
#include "muster_case.h"
#ifdef BENCH_ONEDNN
#include "onednn_lstm.h"
#endif
#include "process.h"
#include "products.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PORTS = 4, PARAMETERS = 12 };

/* ---- a layer ---- */

typedef struct array {
    const char *name;
    int32_t ndim;
    int64_t shape[4]; /* of an input the first is the rows */
    double scale;
} array;

typedef struct layer_kind {
    const char *text; /* of the result y, whose gradient is the input g */
    array inputs[PORTS], parameters[PARAMETERS];
    int32_t wanted_inputs; /* so many of the first inputs have gradients, as they do in a network */
    bool gradient;
} layer_kind;

typedef struct layer {
    muster_runtime *runtime;
    muster_function *function;
    muster_tensor in[PORTS], out[PARAMETERS + 1];
    float *memory[PORTS + PARAMETERS], loss;
    int32_t inputs, outputs;
} layer;

static int64_t count_of(const array *a) {
    int64_t count = 1;
    for (int32_t d = 0; d < a->ndim; d++) count *= a->shape[d];
    return count;
}

static float *numbers(const array *a, uint32_t seed) {
    const int64_t count = count_of(a);
    float *made = malloc((size_t)count * sizeof *made);
    uint32_t random = seed;
    for (int64_t i = 0; made && i < count; i++)
        made[i] = (float)a->scale * ((float)((random = random * 1664525 + 1013904223) >> 8) / (float)(1 << 23) - 1);
    return made;
}

static bool input_make(layer *l, muster_graph *graph, const array *a) {
    int64_t shape[4];
    float *memory = l->memory[l->inputs] = numbers(a, 17 + (uint32_t)l->inputs);
    if (!memory) return bench_log("not measured: no memory"), false;
    memcpy(shape, a->shape, sizeof shape);
    l->in[l->inputs++] = muster_tensor_make(MUSTER_F32, memory, a->ndim, a->shape);
    shape[0] = MUSTER_ROWS;
    (void)muster_graph_input(graph, a->name, MUSTER_F32, a->ndim, shape, MUSTER_SCATTER);
    return true;
}

static muster_expr *parameter_make(layer *l, muster_graph *graph, const array *a) {
    muster_variable *variable = NULL;
    float *values = numbers(a, 99);
    const bool ok = values && bench_muster_ok(muster_variable_create(l->runtime, a->name,
                                                                     muster_tensor_make(MUSTER_F32, values, a->ndim, a->shape), &variable),
                                              "muster");
    free(values);
    return ok ? muster_graph_parameter(graph, variable) : NULL;
}

/* The gradients of parameters are outputs; those of inputs, which a network hands on, count as the
 * sum of their squares. */
static muster_status gradients_make(layer *l, muster_graph *graph, const layer_kind *kind, muster_expr *loss, muster_expr **p,
                                    int32_t parameters) {
    muster_expr *wanted[PORTS + PARAMETERS], *d[PORTS + PARAMETERS], *handed = NULL;
    const int32_t inputs = kind->wanted_inputs;
    for (int32_t i = 0; i < inputs; i++) wanted[i] = muster_expr_parse(graph, kind->inputs[i].name);
    for (int32_t i = 0; i < parameters; i++) wanted[inputs + i] = p[i];
    MUSTER_TRY(muster_gradient(loss, wanted, inputs + parameters, d));
    for (int32_t i = 0; i < inputs; i++) {
        muster_expr *sum = muster_expr_sum(muster_expr_square(d[i]));
        handed = handed ? muster_expr_add(handed, sum) : sum;
    }
    if (handed) loss = muster_expr_add(loss, handed);
    for (int32_t i = 0; i < parameters; i++) {
        const array *a = &kind->parameters[i];
        char name[64];
        snprintf(name, sizeof name, "d%s", a->name);
        float *memory = l->memory[PORTS + i] = malloc((size_t)count_of(a) * sizeof *memory);
        if (!memory) return MUSTER_OUT_OF_MEMORY;
        l->out[l->outputs++] = muster_tensor_make(MUSTER_F32, memory, a->ndim, a->shape);
        MUSTER_TRY(muster_graph_output(graph, name, d[inputs + i], MUSTER_AUTO));
    }
    l->out[l->outputs++] = muster_f32(&l->loss);
    return muster_graph_output(graph, "loss", loss, MUSTER_AUTO);
}

static muster_status graph_make(layer *l, muster_graph *graph, const layer_kind *kind) {
    muster_expr *p[PARAMETERS];
    int32_t parameters = 0;
    for (int32_t i = 0; i < PORTS && kind->inputs[i].name; i++)
        if (!input_make(l, graph, &kind->inputs[i])) return MUSTER_OUT_OF_MEMORY;
    for (; parameters < PARAMETERS && kind->parameters[parameters].name; parameters++)
        if (!(p[parameters] = parameter_make(l, graph, &kind->parameters[parameters]))) return MUSTER_OUT_OF_MEMORY;
    muster_expr *y = muster_expr_parse(graph, kind->text);
    muster_expr *loss = muster_expr_parse(graph, "sum(y * g)", "y", y);
    if (kind->gradient)
        MUSTER_TRY(gradients_make(l, graph, kind, loss, p, parameters));
    else {
        l->out[l->outputs++] = muster_f32(&l->loss);
        MUSTER_TRY(muster_graph_output(graph, "loss", loss, MUSTER_AUTO));
    }
    return muster_graph_compile(graph, NULL, &l->function);
}

static bool layer_open(layer *l, const layer_kind *kind) {
    muster_graph *graph = NULL;
    memset(l, 0, sizeof *l);
    l->runtime = bench_muster_open(2);
    if (!l->runtime) return false;
    const bool ok = bench_muster_ok(muster_graph_create(l->runtime, "layer", &graph), "muster") &&
                    bench_muster_ok(graph_make(l, graph, kind), "muster");
    return bench_muster_ok(muster_graph_destroy(graph), "muster") && ok;
}

static bool layer_close(layer *l) {
    const bool ok = !l->runtime || bench_muster_ok(muster_runtime_close(l->runtime), "muster");
    for (int32_t i = 0; i < PORTS + PARAMETERS; i++) free(l->memory[i]);
    return ok;
}

static bool layer_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    layer *l = self;
    muster_status status = MUSTER_OK;
    l->loss = NAN;
    BENCH_TIME(block, ns, status = status ? status : muster_function_call(l->function, l->in, l->inputs, l->out, l->outputs, NULL));
    *wrong += !isfinite(l->loss);
    return bench_muster_ok(status, "muster");
}

/* ---- rows ---- */

typedef struct layer_row {
    const char *name, *peer; /* the peer's case */
    layer_kind kind;
    bench_product products[16]; /* of each of two threads */
    double of_products;         /* the target: the products' time over Muster's, at least; 0: none */
} layer_row;

enum { T = 32, B = 64, H = 256 };              /* the LSTM */
enum { N = 512, D = 64, HEADS = 8, ROWS = 8 }; /* attention */
enum { TIME = 128, WIDTH = 256, BLOCK_HEADS = 4, BLOCK_ROWS = 16, TOKENS = BLOCK_ROWS * TIME / 2 };

#define LSTM(with_gradient)                                                                                                        \
    {                                                                                                                              \
        .text = "lstm(x, w, r, b)", .inputs = {{"x", 3, {B, T, H}, 1}, {"g", 3, {B, T, H}, 1}},                                    \
        .parameters = {{"w", 2, {4 * H, H}, 0.0625}, {"r", 2, {4 * H, H}, 0.0625}, {"b", 1, {4 * H}, 0.0625}}, .wanted_inputs = 1, \
        .gradient = (with_gradient)                                                                                                \
    }
#define STEP_OF_LSTM \
    { B / 2, 4 * H, H, T, BENCH_B_TURNED | BENCH_SAME_B | BENCH_SAME_C }
#define INPUTS_OF_LSTM \
    { B *T / 2, 4 * H, H, 1, BENCH_B_TURNED | BENCH_SAME_B }
#define ATTENTION(with_gradient)                        \
    {                                                   \
        .text = "attention(q, k, v)",                   \
        .inputs = {{"q", 4, {ROWS, HEADS, N, D}, 1},    \
                   {"k", 4, {ROWS, HEADS, N, D}, 1},    \
                   {"v", 4, {ROWS, HEADS, N, D}, 1},    \
                   {"g", 4, {ROWS, HEADS, N, D}, 1}},   \
        .wanted_inputs = 3, .gradient = (with_gradient) \
    }
enum { HALF = ROWS * HEADS / 2, BLOCK_HALF = BLOCK_ROWS * BLOCK_HEADS / 2 }; /* matrices of a thread */
#define SCORES(m, times) \
    { m, m, D, times, BENCH_B_TURNED | BENCH_SAME_C } /* q k^T; dy v^T */
#define OF_QUERIES(m, times) \
    { m, D, m, times, BENCH_SAME_A } /* p v; ds k */
#define OF_KEYS(m, times) \
    { m, D, m, times, BENCH_A_TURNED | BENCH_SAME_A } /* p^T dy; ds^T q */
/* A dense layer of the block forwards, and its two gradients. */
#define DENSE(in, out) \
    {TOKENS, out, in, 1, 0}, {TOKENS, in, out, 1, BENCH_B_TURNED}, { in, out, TOKENS, 1, BENCH_A_TURNED }

static const char block_text[] = "n1 = layer_norm(x, s1, o1);"
                                 "a = transpose(reshape(n1 @ wa + ba, [rows, 128, 3, 4, 64]), [2, 0, 3, 1, 4]);"
                                 "seen = attention(a[0], a[1], a[2], causal=1);"
                                 "m = x + reshape(transpose(seen, [0, 2, 1, 3]), [rows, 128, 256]) @ wm + bm;"
                                 "m + gelu(layer_norm(m, s2, o2) @ we + be) @ wc + bc";
#define BLOCK                                                                                                           \
    {                                                                                                                   \
        .text = block_text, .inputs = {{"x", 3, {BLOCK_ROWS, TIME, WIDTH}, 1}, {"g", 3, {BLOCK_ROWS, TIME, WIDTH}, 1}}, \
        .parameters = {{"s1", 1, {WIDTH}, 1},                                                                           \
                       {"o1", 1, {WIDTH}, 1},                                                                           \
                       {"wa", 2, {WIDTH, 3 * WIDTH}, 0.0625},                                                           \
                       {"ba", 1, {3 * WIDTH}, 0.0625},                                                                  \
                       {"wm", 2, {WIDTH, WIDTH}, 0.0625},                                                               \
                       {"bm", 1, {WIDTH}, 0.0625},                                                                      \
                       {"s2", 1, {WIDTH}, 1},                                                                           \
                       {"o2", 1, {WIDTH}, 1},                                                                           \
                       {"we", 2, {WIDTH, 4 * WIDTH}, 0.0625},                                                           \
                       {"be", 1, {4 * WIDTH}, 0.0625},                                                                  \
                       {"wc", 2, {4 * WIDTH, WIDTH}, 0.0625},                                                           \
                       {"bc", 1, {WIDTH}, 0.0625}},                                                                     \
        .wanted_inputs = 1, .gradient = true                                                                            \
    }

static const layer_row rows[] = {
    {"networks: LSTM 256 to 256, T 32, B 64, forward, 2 devices", "lstm_forward", LSTM(false), {INPUTS_OF_LSTM, STEP_OF_LSTM}, 0},
    {"networks: LSTM 256 to 256, T 32, B 64, forward and gradient, 2 devices",
     "lstm",
     LSTM(true),
     {INPUTS_OF_LSTM,
      STEP_OF_LSTM,
      {B / 2, H, 4 * H, T, BENCH_SAME_B | BENCH_SAME_C},
      {B * T / 2, H, 4 * H, 1, 0},
      {4 * H, H, B *T / 2, 2, BENCH_A_TURNED}},
     0},
    {"networks: attention, 64 heads of 512 x 64, forward, 2 devices",
     "attention_forward",
     ATTENTION(false),
     {SCORES(N, HALF), OF_QUERIES(N, HALF)},
     0},
    {"networks: attention, 64 heads of 512 x 64, forward and gradient, 2 devices",
     "attention",
     ATTENTION(true),
     {SCORES(N, 3 * HALF), OF_QUERIES(N, 2 * HALF), OF_KEYS(N, 2 * HALF)},
     0},
    {"networks: a block of the transformer, width 256, T 128, B 16, with gradient, 2 devices",
     "block",
     BLOCK,
     {DENSE(WIDTH, 3 * WIDTH), DENSE(WIDTH, WIDTH), DENSE(WIDTH, 4 * WIDTH), DENSE(4 * WIDTH, WIDTH), SCORES(TIME, 3 * BLOCK_HALF),
      OF_QUERIES(TIME, 2 * BLOCK_HALF), OF_KEYS(TIME, 2 * BLOCK_HALF)},
     0.85},
};

static void add_limits(bench_row *row, const layer_row *its, bench_pair *pair) {
    const bool lstm = strncmp(its->peer, "lstm", 4) == 0;
    bench_products *products = pair ? bench_products_open(pair, its->products) : NULL;
    if (products)
        bench_add(row, lstm ? BENCH_PEER : BENCH_LIMIT, "the products alone", products, bench_products_block, bench_products_close);
    if (its->of_products > 0) bench_target_add(row, BENCH_SPEEDUP, "the products alone", its->of_products);
#ifdef BENCH_ONEDNN
    bench_onednn_lstm *onednn = pair && lstm ? bench_onednn_lstm_open(pair, B, T, H, H, its->kind.gradient) : NULL;
    if (onednn) bench_add(row, BENCH_LIMIT, "oneDNN's LSTM", onednn, bench_onednn_lstm_block, bench_onednn_lstm_close);
#endif
    if (lstm) bench_target_add(row, BENCH_SPEEDUP, "oneDNN's LSTM", 0.8);
}

static bool row_run(const bench_options *options, const layer_row *its) {
    static layer l;
    bench_row row = {.block = {1, 4, 0}, .round_count = 24};
    snprintf(row.name, sizeof row.name, "%s", its->name);
    if (!bench_wanted(options, row.name)) return true;
    bench_pair *pair = bench_pair_open();
    bool ok = layer_open(&l, &its->kind);
    if (ok) {
        add_limits(&row, its, pair);
        bench_muster_add(&row, "muster", &l, layer_block);
        if (!options->no_peers) bench_add_python(&row, "torch", 2, (const char *const[]){"network", its->peer, NULL});
        bench_target_add(&row, BENCH_SPEEDUP, "PyTorch", 1);
        ok = bench_run(&row, options);
    }
    if (pair) bench_pair_close(pair);
    return layer_close(&l) && ok;
}

bool bench_networks(const bench_options *options) {
    bool ok = true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) ok = row_run(options, &rows[i]) && ok;
    return ok;
}
