/* The demo's training step, on made-up images of Fashion-MNIST's shape; and the part of it in which
 * the devices combine their gradients. */
#include "collective_limit.h"
#include "collectives_muster.h"
#include "gemm.h"
#include "layers.h"
#include "process.h"
#include "rules.h"
#include "training.h"

#include <math.h>
#include <string.h>

static bool step_row(const bench_options *options) {
    static bench_training run, hand;
    bench_row row = {.block = {1, 4, 0}, .round_count = 40, .items = BENCH_BATCH, .items_name = "samples/s"};
    snprintf(row.name, sizeof row.name, "train: a step of the demo, batch %d", BENCH_BATCH);
    if (!bench_wanted(options, row.name)) return true;
    bench_pair *pair = bench_pair_open();
    bool ok = bench_training_open(&run, 2, true);
    ok = bench_training_open(&hand, 2, false) && ok;
    bench_gemm *limit = pair ? bench_gemm_open(pair, BENCH_BATCH, MLP_INPUTS, MLP_HIDDEN, MLP_CLASSES) : NULL;
    if (limit) bench_add(&row, BENCH_LIMIT, "the 8 matrix products alone, OpenBLAS", limit, bench_gemm_block, bench_gemm_close);
    if (ok) bench_muster_add(&row, "muster, 2 devices", &run, bench_training_block);
    if (ok) bench_add(&row, BENCH_PEER, "muster, hand-written body", &hand, bench_training_block, NULL);
    bench_add_python(&row, "torch", 2, (const char *const[]){"train", "784", "800", "10", "500", "0", NULL});
    bench_add_python(&row, "torch", 2, (const char *const[]){"train", "784", "800", "10", "500", "1", NULL});
    bench_target_add(&row, BENCH_SPEEDUP, "PyTorch", 1);
    bench_target_add(&row, BENCH_SPEEDUP, "muster, hand-written", 0.98);
    bench_target_add(&row, BENCH_SPEEDUP, "the 8 matrix products", 0.88);
    ok = bench_run(&row, options) && ok;
    ok = bench_training_close(&hand) && ok;
    ok = bench_training_close(&run) && ok;
    bench_pair_close(pair);
    return ok;
}

/* With or without momentum: what is measured, and the vectors that have to cross to memory or from
 * it at least. */
typedef struct update_kind {
    int32_t op;
    const char *name, *fused, *parts, *floor;
    int32_t vectors;
} update_kind;

static const update_kind plain_update = {COLLECTIVE_UPDATE,
                                         "all-reduce plus update",
                                         "muster, all_reduce_axpy",
                                         "muster, all_reduce, then axpy",
                                         "both gradients and one set of parameters read, both sets written",
                                         5};
static const update_kind momentum_update = {
    COLLECTIVE_MOMENTUM,
    "all-reduce plus momentum",
    "muster, all_reduce_momentum",
    "muster, all_reduce, scale_add, then axpy",
    "both gradients, one set of parameters and one of momenta read, both sets of parameters and one of momenta written",
    7};

enum { LIMIT_WAYS = 4 };
static void add_limits(bench_row *row, bench_limit_collective *memory, const collective_job *job,
                       bench_limit_contender limits[LIMIT_WAYS]) {
    for (int32_t way = 0; way < bench_limit_ways(job) && way < LIMIT_WAYS; way++) {
        char name[BENCH_NAME] = "limit, 2 threads, ";
        limits[way] = (bench_limit_contender){memory, *job};
        limits[way].job.variant = way;
        bench_limit_way(job, way, name + strlen(name), sizeof name - strlen(name));
        bench_add(row, BENCH_LIMIT, name, &limits[way], bench_limit_collective_block, NULL);
    }
}

/* parameters += rate * (sum of the gradients), on both devices, or the same with momentum. The
 * limit moves just what the floor says. */
static bool update_row(const bench_options *options, const update_kind *kind) {
    collective_job job = {.op = kind->op, .ranks = 2, .count = mlp_parameter_count()};
    bench_row row = {.block = {1, 6, 0},
                     .round_count = 40,
                     .rest_ns = 3000000,
                     .median = true,
                     .items = (double)job.count,
                     .items_name = "parameters/s"};
    char json[48];
    int64_t floor = kind->vectors * collective_job_bytes(&job);
    snprintf(row.name, sizeof row.name, "train: %s of the demo, %lld parameters", kind->name, (long long)job.count);
    snprintf(json, sizeof json, ", \"floor_bytes\": %lld", (long long)floor);
    row.json = json;
    if (!bench_wanted(options, row.name)) return true;
    bench_pair *pair = bench_pair_open();
    bench_limit_collective *memory = pair ? bench_limit_collective_open(pair, job.ranks, job.count) : NULL;
    bench_muster_collectives *muster = bench_muster_collectives_open(job.ranks);
    bench_limit_contender limits[LIMIT_WAYS];
    bench_muster_contender fused = {muster, job}, parts = {muster, job};
    parts.job.variant = 1;
    if (memory)
        add_limits(&row, memory, &job, limits);
    else
        bench_log("not measured: the limit: %s", pair ? "no memory" : "only one core is allowed");
    if (muster) bench_muster_add(&row, kind->fused, &fused, bench_muster_collective_block);
    if (muster) bench_add(&row, BENCH_PEER, kind->parts, &parts, bench_muster_collective_block, NULL);
    bench_target_add(&row, BENCH_RATIO, "limit", 1.2);
    bool ok = bench_run(&row, options) && muster;
    bench_log("  floor: %lld bytes: %s", (long long)floor, kind->floor);
    ok = bench_muster_collectives_close(muster) && ok;
    bench_limit_collective_close(memory);
    bench_pair_close(pair);
    return ok;
}

bool bench_train(const bench_options *options) {
    bool ok = step_row(options);
    ok = update_row(options, &plain_update) && ok;
    ok = update_row(options, &momentum_update) && ok;
    ok = bench_rules(options) && ok;
    return bench_layers(options) && ok;
}
