/* Expressions: beside the functions that a program would write by hand, beside bare fused loops,
 * and beside the libraries that compile or run such expressions. All on one core, but for one
 * row. */
#include "chain.h"
#include "mean_call.h"
#include "process.h"
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const char by_hand[] = "hand-written";

/* ---- mean(x @ y) ---- */

static bool mean_row(bench_row *row, int64_t n, int64_t k, const bench_options *options) {
    snprintf(row->name, sizeof row->name, "graph: mean(x @ y), x %lld x %lld f32", (long long)n, (long long)k);
    if (!bench_wanted(options, row->name)) return true;
    bench_mean_call expression, hand = {0};
    bool ok = bench_mean_data(&expression, n, k);
    if (ok) {
        hand = expression;
        ok = bench_mean_open_expression(&expression, 1, n, k) && bench_mean_open(&hand, 1, n, k);
        if (ok) bench_muster_add(row, "expression", &expression, bench_mean_block);
        if (ok) bench_add(row, BENCH_PEER, "hand-written function", &hand, bench_mean_block, NULL);
        bench_target_add(row, BENCH_RATIO, by_hand, 1.1);
        ok = bench_run(row, options) && ok;
        ok = bench_mean_close(&hand) && ok;
        ok = bench_mean_close(&expression) && ok;
    }
    free(expression.x);
    free(expression.y);
    return ok;
}

/* ---- the demo's training step ---- */

static bool step_row(const bench_options *options, int32_t devices) {
    static bench_training expressions, hand;
    bench_row row = {.block = {1, 4, 0}, .round_count = 40, .items = BENCH_BATCH, .items_name = "samples/s"};
    snprintf(row.name, sizeof row.name, "graph: a step of the demo, batch %d, %d device%s", BENCH_BATCH, devices, devices == 1 ? "" : "s");
    if (!bench_wanted(options, row.name)) return true;
    bool ok = bench_training_open(&expressions, devices, true);
    ok = bench_training_open(&hand, devices, false) && ok;
    if (ok) {
        bench_muster_add(&row, "expressions", &expressions, bench_training_block);
        bench_add(&row, BENCH_PEER, "hand-written body", &hand, bench_training_block, NULL);
        bench_target_add(&row, BENCH_SPEEDUP, by_hand, devices == 1 ? 0.97 : 0.98);
        ok = bench_run(&row, options);
    }
    ok = bench_training_close(&hand) && ok;
    return bench_training_close(&expressions) && ok;
}

/* ---- chains of operations ---- */

typedef struct chain_kind {
    const char *name, *text;
    int32_t length; /* of the fused loop; 0: none */
    double at_1_mib, at_64_mib;
} chain_kind;
static const chain_kind chains[] = {{"2", "x * y + x", 2, 2, 1.15},
                                    {"4", "maximum(x * y + x, y) - x", 4, 3, 1.15},
                                    {"8", "(absolute((maximum(x * y + x, y) - x) * y) + y) * 0.5", 8, 4, 1.4},
                                    {"exp", "exp(x)", 0, 0, 0},
                                    {"tanh", "tanh(x)", 0, 0, 0},
                                    {"log", "log(x)", 0, 0, 0}};
enum { CHAINS = sizeof chains / sizeof *chains };

typedef struct chain_call {
    const chain_kind *kind;
    muster_runtime *runtime;
    muster_function *function;
    float *x, *y, *z;
    int64_t n;
} chain_call;

static double chain_right(const chain_call *call, int64_t i) {
    const float x = call->x[i], y = call->y[i];
    if (call->kind->length) return bench_chain_value(call->kind->length, x, y);
    return strcmp(call->kind->name, "exp") == 0 ? exp(x) : strcmp(call->kind->name, "tanh") == 0 ? tanh(x) : log(x);
}

static bool chain_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    const chain_call *call = self;
    const muster_tensor in[] = {muster_f32(call->x, call->n), muster_f32(call->y, call->n)}, out = muster_f32(call->z, call->n);
    muster_status status = MUSTER_OK;
    memset(call->z, 0xff, 64);
    BENCH_TIME(block, ns, status |= muster_function_call(call->function, in, 2, &out, 1, NULL));
    for (int64_t i = 0; i < call->n; i = i ? 2 * i + 1 : 1) *wrong += !(fabs(call->z[i] - chain_right(call, i)) <= 1e-5);
    return bench_muster_ok(status, "muster");
}

static float *chain_array(int64_t count, int64_t step) {
    const size_t huge = 2 << 20, bytes = ((size_t)count * sizeof(float) + huge - 1) / huge * huge;
    float *array = aligned_alloc(huge, bytes);
    if (!array) return NULL;
    madvise(array, bytes, MADV_HUGEPAGE); /* as NumPy does for its arrays */
    for (int64_t i = 0; i < count; i++) array[i] = (float)(i * step % 101 + 50) / 100;
    return array;
}

static bool chain_open(chain_call *call) {
    muster_graph *graph;
    call->x = chain_array(call->n, 7919);
    call->y = chain_array(call->n, 31);
    call->z = chain_array(call->n, 1);
    if (!call->x || !call->y || !call->z) return bench_log("not measured: no memory"), false;
    call->runtime = bench_muster_open(1);
    if (!call->runtime || !bench_muster_ok(muster_graph_create(call->runtime, "chain", &graph), "muster")) return false;
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "y", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    (void)muster_graph_output(graph, "z", muster_expr_parse(graph, call->kind->text), MUSTER_AUTO);
    const bool ok = bench_muster_ok(muster_graph_compile(graph, NULL, &call->function), "muster");
    return bench_muster_ok(muster_graph_destroy(graph), "muster") && ok;
}

static bool chain_close(chain_call *call) {
    const bool ok = !call->runtime || bench_muster_ok(muster_runtime_close(call->runtime), "muster");
    free(call->x);
    free(call->y);
    free(call->z);
    return ok;
}

static void chain_targets(bench_row *row, const chain_kind *kind, bool large) {
    if (kind->length) {
        bench_target_add(row, BENCH_RATIO, "fused loop", large ? kind->at_64_mib : kind->at_1_mib);
        if (large) bench_target_add(row, BENCH_SPEEDUP, "JAX", 0.9);
    } else {
        bench_target_add(row, BENCH_SPEEDUP, "JAX", 0.8);
        bench_target_add(row, BENCH_SPEEDUP, "PyTorch", 0.8);
    }
    bench_target_add(row, BENCH_SPEEDUP, "NumPy", 1);
}

static bool chain_row(const bench_options *options, const chain_kind *kind, int64_t mib) {
    chain_call call = {.kind = kind, .n = mib * 1024 * 1024 / (int64_t)sizeof(float)};
    bench_row row = {
        .block = {1, mib > 1 ? 3 : 20, 0}, .round_count = mib > 1 ? 20 : 60, .items = (double)call.n, .items_name = "elements/s"};
    snprintf(row.name, sizeof row.name, "graph: %s, %lld MiB f32", kind->text, (long long)mib);
    if (!bench_wanted(options, row.name)) return true;
    bool ok = chain_open(&call);
    if (ok) {
        char count[24];
        snprintf(count, sizeof count, "%lld", (long long)call.n);
        bench_chain *limit = kind->length ? bench_chain_open(kind->length, call.x, call.y, call.z, call.n) : NULL;
        if (limit) bench_add(&row, BENCH_LIMIT, "fused loop, 1 thread", limit, bench_chain_block, bench_chain_close);
        bench_muster_add(&row, "expression", &call, chain_block);
        static const char *const libraries[] = {"numpy", "jax", "torch"};
        for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
            if (!options->no_peers) bench_add_python(&row, libraries[i], 1, (const char *const[]){"chain", kind->name, count, NULL});
        chain_targets(&row, kind, mib > 1);
        ok = bench_run(&row, options);
    }
    return chain_close(&call) && ok;
}

bool bench_graph(const bench_options *options) {
    bench_row small = {.block = {20, 200, 0}, .round_count = 100}, middle = {.block = {3, 30, 0}, .round_count = 80},
              large = {.block = {1, 5, 0}, .round_count = 60};
    bool ok = mean_row(&small, 100, 10, options);
    ok = mean_row(&middle, 2000, 100, options) && ok;
    ok = mean_row(&large, 20000, 100, options) && ok;
    for (int32_t devices = 1; devices <= 2; devices++) ok = step_row(options, devices) && ok;
    for (int32_t mib = 1; mib <= 64; mib += 63)
        for (int32_t c = 0; c < CHAINS; c++) ok = chain_row(options, &chains[c], mib) && ok;
    return ok;
}
