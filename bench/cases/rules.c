/* Every update rule: the exchange of the gradients of the demo's parameters on two devices, and
 * their update, which one pass makes (all_reduce_apply). A graph's gradients are products with a
 * single row on each device, so that each device has just written its own. The last that a worker
 * computes before the pass is the rate: an operator of the bench, in which the workers wait for each
 * other, and from which the time counts. It ends when the call returns. */
#include "rules.h"

#include "collective.h"
#include "mlp.h"
#include "muster_case.h"
#include "rule_limit.h"

#include <stdlib.h>
#include <string.h>

enum { DEVICES = 2, LAYERS = MLP_LAYERS, PARAMETERS = 2 * LAYERS };
static const int64_t shapes[LAYERS][2] = {{MLP_INPUTS, MLP_HIDDEN}, {MLP_HIDDEN, MLP_HIDDEN}, {MLP_HIDDEN, MLP_CLASSES}};
static const muster_update_rule numbers[BENCH_RULES] = {MUSTER_SGD,     MUSTER_MOMENTUM, MUSTER_NESTEROV, MUSTER_ADAGRAD,
                                                        MUSTER_RMSPROP, MUSTER_ADADELTA, MUSTER_ADAM,     MUSTER_ADAMAX};

typedef struct rule_run {
    bench_rule rule;
    muster_runtime *runtime;
    muster_variable *variables[PARAMETERS];
    muster_function *function;
    collective_session *session;
    uint64_t begin; /* of the latest call, in ticks */
    bench_rule_watch watch;
    float rate;
    float values[MLP_HIDDEN * MLP_HIDDEN];
} rule_run;
_Static_assert((int)MLP_INPUTS <= (int)MLP_HIDDEN, "the second layer is the largest");

/* ---- the graph ---- */

static muster_status start_body(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                                void *user) {
    rule_run *run = user;
    const collective_player player = {.session = run->session, .index = muster_worker_rank(worker), .players = DEVICES};
    (void)node;
    *(float *)muster_tensor_address(out[0]) = *(const float *)muster_tensor_address(in[0]);
    const uint64_t begin = collective_rendezvous(&player);
    if (player.index == 0) run->begin = begin;
    return MUSTER_OK;
}

static muster_status start_make(rule_run *run) {
    muster_operator_options options;
    muster_operator *made;
    muster_operator_options_init(&options);
    options.operands = (const char *const[]){"rate", NULL};
    options.bodies = &(muster_operator_backend){NULL, start_body};
    options.body_count = 1;
    options.user = run;
    return muster_operator_create(run->runtime, "start", &options, &made);
}

static muster_status variables_make(rule_run *run) {
    static const char *const names[PARAMETERS] = {"w0", "b0", "w1", "b1", "w2", "b2"};
    memset(run->values, 0, sizeof run->values);
    for (int32_t p = 0; p < PARAMETERS; p++) {
        const int64_t *shape = shapes[p / 2];
        const muster_tensor value = p % 2 ? muster_f32(run->values, shape[1]) : muster_f32(run->values, shape[0], shape[1]);
        MUSTER_TRY(muster_variable_create(run->runtime, names[p], value, &run->variables[p]));
    }
    return MUSTER_OK;
}

static muster_status graph_make(rule_run *run, muster_graph *graph) {
    static const char *const inputs[] = {"x0", "x1", "x2"}, *const deltas[] = {"d0", "d1", "d2"},
                             *const weights[] = {"transpose(x0) @ d0", "transpose(x1) @ d1", "transpose(x2) @ d2"},
                             *const biases[] = {"sum(d0, 0)", "sum(d1, 0)", "sum(d2, 0)"};
    muster_expr *p[PARAMETERS], *g[PARAMETERS];
    muster_rule_options options;
    for (int32_t l = 0; l < LAYERS; l++) {
        (void)muster_graph_input(graph, inputs[l], MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, shapes[l][0]), MUSTER_SCATTER);
        (void)muster_graph_input(graph, deltas[l], MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, shapes[l][1]), MUSTER_SCATTER);
        g[2 * l] = muster_expr_parse(graph, weights[l]);
        g[2 * l + 1] = muster_expr_parse(graph, biases[l]);
    }
    (void)muster_graph_input(graph, "rate", MUSTER_F32, MUSTER_SCALAR, MUSTER_BROADCAST);
    muster_rule_options_init(&options);
    options.rate = muster_expr_parse(graph, "start(rate)");
    for (int32_t i = 0; i < PARAMETERS; i++) p[i] = muster_graph_parameter(graph, run->variables[i]);
    MUSTER_TRY(muster_graph_minimise(graph, p, g, PARAMETERS, numbers[run->rule], &options));
    return muster_graph_compile(graph, NULL, &run->function);
}

static bool run_open(rule_run *run, bench_rule rule) {
    muster_graph *graph = NULL;
    memset(run, 0, sizeof *run);
    run->rule = rule;
    run->rate = (float)bench_rule_rate(rule);
    run->session = calloc(1, sizeof *run->session);
    run->runtime = run->session ? bench_muster_open(DEVICES) : NULL;
    if (!run->runtime) return false;
    collective_session_open(run->session, false);
    const bool ok = bench_muster_ok(start_make(run), "muster") && bench_muster_ok(variables_make(run), "muster") &&
                    bench_muster_ok(muster_graph_create(run->runtime, "rule", &graph), "muster") &&
                    bench_muster_ok(graph_make(run, graph), "muster");
    return (!graph || bench_muster_ok(muster_graph_destroy(graph), "muster")) && ok;
}

static bool run_close(rule_run *run) {
    const bool ok = !run->runtime || bench_muster_ok(muster_runtime_close(run->runtime), "muster");
    free(run->session);
    return ok;
}

/* ---- calls ---- */

static muster_status run_call(rule_run *run, double *ns) {
    float x[LAYERS][DEVICES * MLP_HIDDEN], d[LAYERS][DEVICES * MLP_HIDDEN];
    muster_tensor in[2 * LAYERS + 1];
    bench_rule_watch_step(&run->watch, run->rule);
    for (int32_t l = 0; l < LAYERS; l++) {
        const int64_t inputs = shapes[l][0], outputs = shapes[l][1];
        for (int64_t i = 0; i < DEVICES * inputs; i++) x[l][i] = 1;
        for (int64_t i = 0; i < DEVICES * outputs; i++) d[l][i] = bench_rule_gradient((int32_t)(i / outputs), run->watch.t, i % outputs);
        in[2 * l] = muster_f32(x[l], DEVICES, inputs);
        in[2 * l + 1] = muster_f32(d[l], DEVICES, outputs);
    }
    in[2 * LAYERS] = muster_f32(&run->rate);
    const muster_status status = muster_function_call(run->function, in, 2 * LAYERS + 1, NULL, 0, NULL);
    *ns = (double)(int64_t)(bench_ticks() - run->begin) * run->session->ns_per_tick;
    return status;
}

/* Wrong values in the replicas of both devices. */
static muster_status run_check(rule_run *run, int64_t *wrong) {
    for (int32_t p = 0; p < PARAMETERS; p++) {
        const int64_t rows = p % 2 ? 1 : shapes[p / 2][0], columns = shapes[p / 2][1];
        const muster_tensor value = p % 2 ? muster_f32(run->values, columns) : muster_f32(run->values, rows, columns);
        for (int32_t rank = 0; rank < DEVICES; rank++) {
            MUSTER_TRY(muster_variable_get(run->variables[p], rank, value));
            for (int64_t i = 0; i < rows * columns; i += 97) *wrong += !bench_rule_watch_agrees(&run->watch, i % columns, run->values[i]);
        }
    }
    return MUSTER_OK;
}

static bool run_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    rule_run *run = self;
    muster_status status = MUSTER_OK;
    double ignored;
    for (int32_t i = -block->warm; i < block->calls && status == MUSTER_OK; i++) status = run_call(run, i < 0 ? &ignored : &ns[i]);
    if (status == MUSTER_OK) status = run_check(run, wrong);
    return bench_muster_ok(status, "muster");
}

/* ---- rows ---- */

static bool rule_row(const bench_options *options, bench_rule rule) {
    static rule_run run;
    const int64_t count = mlp_parameter_count(), bytes = bench_rule_bytes(rule, count);
    bench_row row = {
        .block = {1, 6, 0}, .round_count = 40, .rest_ns = 3000000, .median = true, .items = (double)count, .items_name = "parameters/s"};
    char json[48];
    snprintf(row.name, sizeof row.name, "train: all_reduce_apply by %s, %lld parameters", bench_rule_name(rule), (long long)count);
    snprintf(json, sizeof json, ", \"floor_bytes\": %lld", (long long)bytes);
    row.json = json;
    if (!bench_wanted(options, row.name)) return true;
    bench_pair *pair = bench_pair_open();
    bench_rule_limit *plain = pair ? bench_rule_limit_open(pair, rule, count) : NULL;
    bench_rule_limit *streaming = pair ? bench_rule_limit_open(pair, rule, count) : NULL;
    bool ok = run_open(&run, rule);
    if (plain) bench_add(&row, BENCH_LIMIT, "limit, 2 threads, halves, written to both", plain, bench_rule_limit_block, NULL);
    if (streaming)
        bench_add(&row, BENCH_LIMIT, "limit, 2 threads, halves, written to both, streaming", streaming, bench_rule_limit_streaming_block,
                  NULL);
    if (ok) bench_muster_add(&row, "muster, the pass of a graph", &run, run_block);
    bench_target_add(&row, BENCH_RATIO, "limit", 1.2);
    ok = bench_run(&row, options) && ok;
    bench_log("  floor: %lld bytes", (long long)bytes);
    ok = run_close(&run) && ok;
    bench_rule_limit_close(streaming);
    bench_rule_limit_close(plain);
    bench_pair_close(pair);
    return ok;
}

bool bench_rules(const bench_options *options) {
    bool ok = true;
    for (bench_rule rule = 0; rule < BENCH_RULES; rule++) ok = rule_row(options, rule) && ok;
    return ok;
}
