/* Every collective over a range of sizes, out of place and in place, beside the limit, OpenMPI and
 * Gloo. */
#include "collective_limit.h"
#include "collectives_muster.h"
#include "collectives_report.h"
#include "mpi_gloo.h"

#include <stdlib.h>
#include <string.h>

enum { LIMIT_WAYS = 12, MOST_OPS = COLLECTIVE_UPDATE, MOST_RANK_LISTS = 8 };
static const int64_t KIB = 1024, MIB = 1024 * 1024;

/* All programs for one number of ranks. */
typedef struct stage {
    int32_t ranks, peer_count;
    bench_pair *pair;
    bench_limit_collective *limit;
    bench_muster_collectives *muster;
    bench_collective_peer peers[BENCH_COLLECTIVE_PEERS];
} stage;

typedef struct contenders {
    bench_limit_contender limits[LIMIT_WAYS];
    bench_muster_contender muster;
    bench_peer_contender peers[BENCH_CONTENDERS];
    char json[256];
} contenders;

static void add_limits(bench_row *row, stage *on, const collective_job *job, contenders *all) {
    for (int32_t way = 0; on->limit && way < bench_limit_ways(job) && way < LIMIT_WAYS; way++) {
        char name[BENCH_NAME] = "limit, ";
        all->limits[way] = (bench_limit_contender){on->limit, *job};
        all->limits[way].job.variant = way;
        bench_limit_way(job, way, name + strlen(name), sizeof name - strlen(name));
        bench_add(row, BENCH_LIMIT, name, &all->limits[way], bench_limit_collective_block, NULL);
    }
}

static void add_peers(bench_row *row, stage *on, const collective_job *job, contenders *all) {
    int32_t used = 0;
    for (int32_t i = 0; i < on->peer_count; i++) {
        const bench_collective_peer *peer = &on->peers[i];
        for (int32_t way = 0; way < bench_collective_ways(peer, job) && used < BENCH_CONTENDERS; way++) {
            bench_peer_contender *contender = &all->peers[used++];
            *contender = (bench_peer_contender){peer, *job};
            contender->job.variant = way;
            char name[BENCH_NAME];
            snprintf(name, sizeof name, "%.60s%s", peer->name, bench_collective_way(peer, &contender->job));
            bench_add(row, BENCH_PEER, name, contender, bench_collective_peer_block, NULL);
        }
    }
}

/* What is expected of Muster: [0] at most so many times the limit, [1] at least so many times the
 * speed of OpenMPI; 0: nothing. On two ranks more than twice OpenMPI's speed is asked for only
 * where the limit leaves so much room. */
static void add_targets(bench_row *row, const collective_job *job) {
    const bench_contender *limit = bench_fastest(row, BENCH_LIMIT, NULL), *peer = bench_fastest(row, BENCH_PEER, "OpenMPI");
    bool sums = job->op == COLLECTIVE_ALL_REDUCE || job->op == COLLECTIVE_REDUCE_SCATTER;
    bool named = sums || job->op == COLLECTIVE_BROADCAST || job->op == COLLECTIVE_ALL_GATHER;
    int64_t bytes = collective_job_bytes(job);
    double over_limit = 0, speedup = 1;
    if (bytes < 4 * KIB) return;
    if (job->ranks == 2 && named) {
        over_limit = bytes < MIB ? 1.8 : bytes < 16 * MIB ? 1.25 : 1.1;
        if (sums && limit && peer && peer->typical / limit->typical >= 2 * over_limit) speedup = 2;
    } else if (job->ranks == 4) {
        if (sums && bytes >= 64 * KIB) speedup = 3;
        if (job->op == COLLECTIVE_BROADCAST && bytes >= MIB) speedup = 2;
        if (job->op == COLLECTIVE_ALL_GATHER && bytes >= MIB) over_limit = 1.25;
    }
    if (over_limit > 0) bench_target_add(row, BENCH_RATIO, "limit", over_limit);
    if (peer) bench_target_add(row, BENCH_SPEEDUP, "OpenMPI", speedup);
}

/* Operations of one block: short ones often, so that a block lasts some milliseconds. */
static bench_block block_of(const bench_options *options, int64_t bytes) {
    int64_t calls = bytes > 0 ? 16 * MIB / bytes : 200;
    calls = calls < 4 ? 4 : calls > 200 ? 200 : calls;
    bench_block block = {bytes < 4 * MIB ? 5 : 1, (int32_t)calls, 0};
    if (options->warm >= 0) block.warm = options->warm;
    if (options->calls > 0) block.calls = options->calls;
    return block;
}

static const char *const form_names[2] = {"out of place", "in place"};

static bool measure(stage *on, bench_cell *cell, int32_t form, contenders *all, const bench_options *options) {
    bench_row *row = &cell->rows[form];
    collective_job job = cell->job;
    job.in_place = form;
    int64_t bytes = collective_job_bytes(&job);
    *row = (bench_row){.block = block_of(options, bytes),
                       .round_count = bytes < 16 * MIB ? 9 : 5,
                       .rest_ns = 3000000,
                       .median = true,
                       .json = all->json,
                       .items = (double)bytes,
                       .items_name = "bytes/s"};
    snprintf(row->name, sizeof row->name, "%s, %d ranks, %lld bytes, %s", collective_name(job.op), job.ranks, (long long)bytes,
             form_names[form]);
    bench_cell_json(&job, all->json, sizeof all->json);
    all->muster = (bench_muster_contender){on->muster, job};
    bench_muster_add(row, "muster", &all->muster, bench_muster_collective_block);
    add_limits(row, on, &job, all);
    add_peers(row, on, &job, all);
    if (!bench_measure_row(row, options)) return false;
    add_targets(row, &job);
    bench_json_row(row);
    return true;
}

/* What is drawn: out of place, and in place. */
typedef struct form_curves {
    bench_curve forms[2][BENCH_CELL_CURVES];
} form_curves;

/* One size of one operation. */
static bool run_cell(stage *on, const collective_job *job, form_curves *curves, const bench_options *options) {
    bench_cell *cell = calloc(1, sizeof *cell);
    contenders *all = calloc(2, sizeof *all);
    bool ok = cell && all;
    if (ok) {
        cell->job = *job;
        for (int32_t form = 0; form < 2; form++) ok = measure(on, cell, form, &all[form], options) && ok;
        bench_cell_print(cell);
        for (int32_t form = 0; form < 2; form++) bench_cell_point(cell, form, curves->forms[form]);
        for (int32_t form = 0; form < 2; form++) ok = bench_close_row(&cell->rows[form]) && ok;
    }
    free(all);
    free(cell);
    return ok;
}

static collective_job job_of(int32_t op, int32_t ranks, int64_t bytes) {
    collective_job job = {.op = op, .ranks = ranks, .count = bytes / (int64_t)sizeof(float)};
    if (collective_job_count(&job) != job.count) job.count = job.count / ranks * ranks;
    return job;
}

static void draw(bench_plot *plot, int32_t op, int32_t ranks, const form_curves *curves) {
    for (int32_t form = 0; form < 2; form++) {
        char title[BENCH_NAME];
        snprintf(title, sizeof title, "%s, %d ranks, %s", collective_name(op), ranks, form_names[form]);
        if (!bench_plot_panel(plot, title, curves->forms[form], BENCH_CELL_CURVES)) bench_log("not drawn: %s: too many panels", title);
    }
}

static bool run_operation(stage *on, int32_t op, bench_plot *plot, const bench_options *options) {
    form_curves *curves = calloc(1, sizeof *curves);
    bool ok = curves != NULL;
    collective_job job = job_of(op, on->ranks, options->begin);
    char name[BENCH_NAME];
    snprintf(name, sizeof name, "%s, %d ranks", collective_name(op), on->ranks);
    if (!ok || !bench_wanted(options, name)) {
        free(curves);
        return ok;
    }
    for (int32_t form = 0; form < 2; form++) bench_cell_curves(curves->forms[form]);
    bench_cell_heading(&job, on->peer_count > 0);
    for (double bytes = (double)options->begin; bytes <= (double)options->end; bytes *= options->factor) {
        job = job_of(op, on->ranks, (int64_t)bytes);
        ok = run_cell(on, &job, curves, options) && ok;
    }
    if (plot) draw(plot, op, on->ranks, curves);
    free(curves);
    return ok;
}

static bool close_stage(stage *on) {
    bench_collective_peers_close(on->peers, on->peer_count);
    bool ok = bench_muster_collectives_close(on->muster);
    bench_limit_collective_close(on->limit);
    bench_pair_close(on->pair);
    return ok;
}

static bool open_stage(stage *on, int32_t ranks, const bench_options *options) {
    *on = (stage){.ranks = ranks};
    on->pair = bench_pair_open();
    on->limit = on->pair ? bench_limit_collective_open(on->pair, ranks, options->end / (int64_t)sizeof(float)) : NULL;
    if (!on->limit) bench_log("not measured: the limit, %d ranks: %s", ranks, on->pair ? "no memory" : "only one core is allowed");
    on->muster = bench_muster_collectives_open(ranks);
    if (on->muster && !options->no_peers) on->peer_count = bench_collective_peers_open(ranks, on->peers);
    return on->muster != NULL;
}

/* The operations of a list such as "all_reduce,broadcast"; NULL: all of nccl-tests. -1: one of them
 * is none. */
static int32_t read_ops(const char *list, int32_t ops[MOST_OPS]) {
    int32_t count = 0;
    if (!list)
        for (int32_t op = 0; op < COLLECTIVE_UPDATE; op++) ops[count++] = op;
    char *copy = list ? strdup(list) : NULL, *rest = NULL;
    for (char *name = copy ? strtok_r(copy, ",", &rest) : NULL; name && count >= 0; name = strtok_r(NULL, ",", &rest)) {
        int32_t op = collective_find(name);
        if (op < 0 || collective_updates(op) || count == MOST_OPS)
            count = -1;
        else
            ops[count++] = op;
    }
    free(copy);
    return count;
}

static int32_t read_ranks(const char *list, int32_t ranks[MOST_RANK_LISTS]) {
    int32_t count = 0;
    for (const char *at = list; *at && count >= 0 && count < MOST_RANK_LISTS;) {
        char *end;
        long number = strtol(at, &end, 10);
        if (end == at || number < 2 || number > COLLECTIVE_RANKS || (*end && *end != ',')) return -1;
        ranks[count++] = (int32_t)number;
        at = *end ? end + 1 : end;
    }
    return count;
}

bool bench_collectives(const bench_options *given) {
    bench_options options = *given;
    if (options.begin <= 0) options.begin = 4 * KIB;
    if (options.end <= 0) options.end = options.begin > 64 * MIB ? options.begin : 64 * MIB;
    if (options.factor <= 1) options.factor = 4;
    int32_t ops[MOST_OPS], ranks[MOST_RANK_LISTS];
    int32_t op_count = read_ops(options.ops, ops), rank_count = read_ranks(options.ranks ? options.ranks : "2,4", ranks);
    if (op_count <= 0 || rank_count <= 0 || options.begin > options.end || options.calls > COLLECTIVE_CALLS) {
        bench_log("collectives: expected -b at most -e, -n at most %d, --ranks of 2 to %d, --op of all_reduce and the like",
                  COLLECTIVE_CALLS, COLLECTIVE_RANKS);
        return false;
    }
    bench_plot *plot = options.plot ? bench_plot_open(bench_machine(), "bytes", "bus bandwidth, GB/s") : NULL;
    bool ok = !options.plot || plot;
    for (int32_t r = 0; r < rank_count; r++) {
        static stage on;
        bool opened = open_stage(&on, ranks[r], &options);
        for (int32_t i = 0; opened && i < op_count; i++) ok = run_operation(&on, ops[i], plot, &options) && ok;
        ok = close_stage(&on) && opened && ok;
    }
    if (!bench_plot_close(plot, options.plot)) {
        bench_log("collectives: %s: could not be written", options.plot);
        ok = false;
    }
    return ok;
}
