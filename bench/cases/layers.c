/* AlexNet's layers fc6 to fc8, trained on two devices: with their parameters split along columns,
 * and data parallel. */
#include "layers.h"

#include <stdlib.h>
#include <string.h>

enum { PARAMETERS = 6, BATCH = 128, IN = 9216, FC6 = 4096, FC7 = 4096, CLASSES = 1000 };
static const char *const names[PARAMETERS] = {"w6", "b6", "w7", "b7", "w8", "b8"};
static const int64_t shapes[PARAMETERS][2] = {{IN, FC6}, {1, FC6}, {FC6, FC7}, {1, FC7}, {FC7, CLASSES}, {1, CLASSES}};

typedef struct layers {
    muster_runtime *runtime;
    muster_variable *variables[PARAMETERS];
    muster_function *function;
    muster_tensor in[2];
    float *x, loss;
    uint8_t labels[BATCH];
} layers;

/* Numbers of a variance that keeps the activations' size. */
static float *numbers(int64_t count, float scale) {
    float *made = malloc((size_t)count * sizeof *made);
    uint32_t random = 12345;
    for (int64_t i = 0; made && i < count; i++)
        made[i] = scale * ((float)((random = random * 1664525 + 1013904223) >> 8) / (float)(1 << 23) - 1);
    return made;
}

static muster_status variable_make(layers *run, int32_t p) {
    const int64_t count = shapes[p][0] * shapes[p][1];
    const bool bias = p % 2;
    float *values = numbers(count, bias ? 0 : 1 / (float)(shapes[p][0] / 64));
    if (!values) return MUSTER_OUT_OF_MEMORY;
    const muster_tensor value = bias ? muster_f32(values, count) : muster_f32(values, shapes[p][0], shapes[p][1]);
    const muster_status status = muster_variable_create(run->runtime, names[p], value, &run->variables[p]);
    free(values);
    return status;
}

static muster_status graph_make(layers *run, muster_graph *graph, bool split) {
    muster_expr *p[PARAMETERS], *d[PARAMETERS];
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, IN), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "t", MUSTER_U8, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    for (int32_t i = 0; i < PARAMETERS; i++) {
        p[i] = muster_graph_parameter(graph, run->variables[i]);
        if (split) MUSTER_TRY(muster_graph_split(p[i], i % 2 ? 0 : 1));
    }
    muster_expr *loss =
        muster_expr_parse(graph, "h = relu(x @ w6 + b6); h7 = relu(h @ w7 + b7); softmax_cross_entropy(h7 @ w8 + b8, cast(t, i64))");
    MUSTER_TRY(muster_gradient(loss, p, PARAMETERS, d));
    MUSTER_TRY(muster_graph_minimise(graph, p, d, PARAMETERS, MUSTER_SGD, NULL));
    MUSTER_TRY(muster_graph_output(graph, "loss", loss, MUSTER_AUTO));
    return muster_graph_compile(graph, NULL, &run->function);
}

static bool layers_open(layers *run, bool split) {
    muster_graph *graph = NULL;
    memset(run, 0, sizeof *run);
    run->x = numbers((int64_t)BATCH * IN, 1);
    run->runtime = run->x ? bench_muster_open(2) : NULL;
    if (!run->runtime) return false;
    for (int32_t i = 0; i < BATCH; i++) run->labels[i] = (uint8_t)(i * 7);
    run->in[0] = muster_f32(run->x, BATCH, IN);
    run->in[1] = muster_u8(run->labels, BATCH);
    for (int32_t p = 0; p < PARAMETERS; p++)
        if (!bench_muster_ok(variable_make(run, p), "muster")) return false;
    const bool ok = bench_muster_ok(muster_graph_create(run->runtime, "layers", &graph), "muster") &&
                    bench_muster_ok(graph_make(run, graph, split), "muster");
    return bench_muster_ok(muster_graph_destroy(graph), "muster") && ok;
}

static bool layers_close(layers *run) {
    const bool ok = !run->runtime || bench_muster_ok(muster_runtime_close(run->runtime), "muster");
    free(run->x);
    return ok;
}

static bool layers_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    layers *run = self;
    const muster_tensor out = muster_f32(&run->loss);
    muster_status status = MUSTER_OK;
    BENCH_TIME(block, ns, status = status ? status : muster_function_call(run->function, run->in, 2, &out, 1, NULL));
    *wrong += !(run->loss > 0 && run->loss < 100);
    return bench_muster_ok(status, "muster");
}

bool bench_layers(const bench_options *options) {
    static layers split, replicated;
    bench_row row = {.name = "train: a step of fc6 to fc8 of AlexNet, batch 128, 2 devices",
                     .block = {1, 2, 0},
                     .round_count = 12,
                     .items = BATCH,
                     .items_name = "samples/s"};
    if (!bench_wanted(options, row.name)) return true;
    bool ok = layers_open(&split, true);
    ok = ok && layers_open(&replicated, false);
    if (ok) bench_muster_add(&row, "muster, split along columns", &split, layers_block);
    if (ok) bench_add(&row, BENCH_PEER, "muster, data parallel", &replicated, layers_block, NULL);
    bench_target_add(&row, BENCH_RATIO, "muster, data parallel", 0.95);
    ok = bench_run(&row, options) && ok;
    ok = layers_close(&split) && ok;
    return layers_close(&replicated) && ok;
}
