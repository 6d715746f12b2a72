/* Every update rule: the exchange of gradients, of as many parameters as the demo has, on two
 * devices, and their update, which one pass makes (all_reduce_apply). The gradient is a product
 * with a single row on each device, so that each device has just written its own. The last that a
 * worker computes before the pass is the rate: an operator of the bench, in which the workers wait
 * for each other, and from which the time counts. It ends when the call returns. All parameters are
 * one variable: of several the rate would not be the last. */
#include "rules.h"

#include "collective.h"
#include "mlp.h"
#include "muster_case.h"
#include "rule_limit.h"

#include <stdlib.h>
#include <string.h>

enum { DEVICES = 2, ROWS = 10 };
static const muster_update_rule numbers[BENCH_RULES] = {MUSTER_SGD,     MUSTER_MOMENTUM, MUSTER_NESTEROV, MUSTER_ADAGRAD,
                                                        MUSTER_RMSPROP, MUSTER_ADADELTA, MUSTER_ADAM,     MUSTER_ADAMAX};

typedef struct rule_run {
    bench_rule rule;
    muster_runtime *runtime;
    muster_variable *parameters; /* (ROWS, columns) */
    muster_function *function;
    collective_session *session;
    uint64_t begin; /* of the latest call, in ticks */
    bench_rule_watch watch;
    int64_t columns;
    float rate, x[DEVICES * ROWS];
    float *d[2], *values; /* d: (DEVICES, columns) of even and of odd steps; values: room for the parameters */
} rule_run;

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

static muster_status graph_make(rule_run *run, muster_graph *graph) {
    muster_rule_options options;
    muster_rule_options_init(&options);
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, ROWS), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "d", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, run->columns), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "rate", MUSTER_F32, MUSTER_SCALAR, MUSTER_BROADCAST);
    options.rate = muster_expr_parse(graph, "start(rate)");
    muster_expr *p = muster_graph_parameter(graph, run->parameters), *g = muster_expr_parse(graph, "transpose(x) @ d");
    MUSTER_TRY(muster_graph_minimise(graph, &p, &g, 1, numbers[run->rule], &options));
    return muster_graph_compile(graph, NULL, &run->function);
}

static bool arrays_make(rule_run *run) {
    run->columns = mlp_parameter_count() / ROWS;
    run->values = calloc((size_t)(ROWS * run->columns), sizeof *run->values);
    for (int32_t i = 0; i < DEVICES * ROWS; i++) run->x[i] = 1;
    for (int32_t odd = 0; odd < 2; odd++) {
        run->d[odd] = malloc((size_t)(DEVICES * run->columns) * sizeof *run->d[odd]);
        for (int64_t i = 0; run->d[odd] && i < DEVICES * run->columns; i++)
            run->d[odd][i] = bench_rule_gradient((int32_t)(i / run->columns), odd, i % run->columns);
    }
    return run->values && run->d[0] && run->d[1];
}

static bool run_open(rule_run *run, bench_rule rule) {
    muster_graph *graph = NULL;
    memset(run, 0, sizeof *run);
    run->rule = rule;
    run->rate = (float)bench_rule_rate(rule);
    run->session = calloc(1, sizeof *run->session);
    run->runtime = arrays_make(run) && run->session ? bench_muster_open(DEVICES) : NULL;
    if (!run->runtime) return false;
    collective_session_open(run->session, false);
    const bool ok =
        bench_muster_ok(start_make(run), "muster") &&
        bench_muster_ok(muster_variable_create(run->runtime, "w", muster_f32(run->values, ROWS, run->columns), &run->parameters),
                        "muster") &&
        bench_muster_ok(muster_graph_create(run->runtime, "rule", &graph), "muster") && bench_muster_ok(graph_make(run, graph), "muster");
    return (!graph || bench_muster_ok(muster_graph_destroy(graph), "muster")) && ok;
}

static bool run_close(rule_run *run) {
    const bool ok = !run->runtime || bench_muster_ok(muster_runtime_close(run->runtime), "muster");
    free(run->session);
    free(run->values);
    free(run->d[0]);
    free(run->d[1]);
    return ok;
}

/* ---- calls ---- */

static muster_status run_call(rule_run *run, double *ns) {
    bench_rule_watch_step(&run->watch, run->rule);
    const muster_tensor in[] = {muster_f32(run->x, DEVICES, ROWS), muster_f32(run->d[run->watch.t % 2], DEVICES, run->columns),
                                muster_f32(&run->rate)};
    const muster_status status = muster_function_call(run->function, in, 3, NULL, 0, NULL);
    *ns = (double)(int64_t)(bench_ticks() - run->begin) * run->session->ns_per_tick;
    return status;
}

/* Wrong values in the replicas of both devices. */
static muster_status run_check(rule_run *run, int64_t *wrong) {
    for (int32_t rank = 0; rank < DEVICES; rank++) {
        MUSTER_TRY(muster_variable_get(run->parameters, rank, muster_f32(run->values, ROWS, run->columns)));
        for (int64_t i = 0; i < ROWS * run->columns; i += 97)
            *wrong += !bench_rule_watch_agrees(&run->watch, i % run->columns, run->values[i]);
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
