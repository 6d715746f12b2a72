/* Who takes part in a row. */
#include "nodes_rows.h"

#include <string.h>

void bench_nodes_add(bench_row *row, bench_nodes_all *all, bench_kind kind, const char *name, const bench_launch *launch, nodes_way way,
                     collective_job job) {
    if (all->count == BENCH_CONTENDERS) return;
    bench_nodes_contender *contender = &all->at[all->count++];
    *contender = (bench_nodes_contender){.launch = launch, .request = {.way = way, .job = job}};
    bench_add(row, kind, name, contender, bench_nodes_block, NULL);
}

static bool is_tuned(const bench_launch *launch) { return strcmp(launch->tuning, "default") != 0; }

void bench_nodes_add_muster(bench_row *row, bench_nodes_all *all, const bench_launch *launch, bool first, const collective_job *job) {
    char name[BENCH_NAME];
    collective_job mine = *job;
    mine.ranks = launch->processes * launch->devices;
    snprintf(name, sizeof name, "muster over %s", launch->mpi->name);
    bench_nodes_add(row, all, first ? BENCH_MUSTER : BENCH_PEER, name, launch, NODES_MUSTER, mine);
    if (!first) return;
    snprintf(name, sizeof name, "muster over %s, again", launch->mpi->name);
    bench_nodes_add(row, all, BENCH_MUSTER_AGAIN, name, launch, NODES_MUSTER, mine);
}

/* The bare wire: the same messages, or the floor of a collective. What is small goes to all at
 * once. */
static void add_wire(bench_row *row, bench_nodes_all *all, const bench_launch *launch, const collective_job *job) {
    char name[BENCH_NAME];
    collective_job floor = *job;
    if (nodes_is_collective(job->op)) floor.op += NODES_FLOOR;
    snprintf(name, sizeof name, "wire of %s", launch->mpi->name);
    bench_nodes_add(row, all, BENCH_LIMIT, name, launch, NODES_WIRE, floor);
    if (job->op != COLLECTIVE_ALL_REDUCE || collective_job_bytes(job) > 65536) return;
    floor.op = NODES_EXCHANGE;
    floor.variant = 1;
    snprintf(name, sizeof name, "wire of %s, one exchange", launch->mpi->name);
    bench_nodes_add(row, all, BENCH_LIMIT, name, launch, NODES_WIRE, floor);
}

static const struct {
    int32_t op, algorithm;
    const char *name;
} schedules[] = {
    /* the numbers of mst_move_algorithm */
    {COLLECTIVE_ALL_REDUCE, 1, "gather"},       {COLLECTIVE_ALL_REDUCE, 2, "exchange"}, {COLLECTIVE_ALL_REDUCE, 3, "chain"},
    {COLLECTIVE_ALL_REDUCE, 4, "mpi"},          {COLLECTIVE_BROADCAST, 5, "tree"},      {COLLECTIVE_BROADCAST, 4, "mpi"},
    {COLLECTIVE_ALL_GATHER, 6, "ring"},         {COLLECTIVE_ALL_GATHER, 7, "bruck"},    {COLLECTIVE_ALL_GATHER, 4, "mpi"},
    {COLLECTIVE_REDUCE_SCATTER, 2, "exchange"}, {COLLECTIVE_REDUCE_SCATTER, 4, "mpi"},  {COLLECTIVE_ALL_TO_ALL, 8, "direct"},
};

static void add_schedules(bench_row *row, bench_nodes_all *all, const bench_launch *launch, const collective_job *job) {
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        char name[BENCH_NAME];
        collective_job one = *job;
        if (schedules[i].op != job->op) continue;
        one.variant = schedules[i].algorithm;
        snprintf(name, sizeof name, "schedule %s on %s", schedules[i].name, launch->mpi->name);
        bench_nodes_add(row, all, BENCH_PEER, name, launch, NODES_SCHEDULE, one);
    }
}

static void add_peers(bench_row *row, bench_nodes_all *all, const bench_launch *launch, bool first, const collective_job *job) {
    static const char *const ways[] = {"ring", "bcube"};
    char name[BENCH_NAME];
    snprintf(name, sizeof name, "%s, %s%s", launch->mpi->name, is_tuned(launch) ? "tuned: " : "", launch->tuning);
    bench_nodes_add(row, all, BENCH_PEER, name, launch, NODES_MPI, *job);
#ifdef BENCH_GLOO
    const bool gloo = job->op == COLLECTIVE_ALL_REDUCE || job->op == COLLECTIVE_BROADCAST || job->op == COLLECTIVE_ALL_GATHER ||
                      job->op == COLLECTIVE_ALL_TO_ALL || job->op == NODES_BARRIER;
    for (int32_t way = 0; first && gloo && way < (job->op == COLLECTIVE_ALL_REDUCE ? 2 : 1); way++) {
        collective_job one = *job;
        one.variant = way;
        snprintf(name, sizeof name, "Gloo%s%s", job->op == COLLECTIVE_ALL_REDUCE ? ", " : "",
                 job->op == COLLECTIVE_ALL_REDUCE ? ways[way] : "");
        bench_nodes_add(row, all, BENCH_PEER, name, launch, NODES_GLOO, one);
    }
#else
    (void)first, (void)ways;
#endif
}

void bench_nodes_add_all(bench_row *row, bench_nodes_all *all, const bench_stage *on, const collective_job *job,
                         const bench_options *options) {
    bool first = true;
    for (int32_t i = 0; i < on->count; i++) {
        const bench_launch *launch = &on->launches[i];
        if (!is_tuned(launch)) {
            bench_nodes_add_muster(row, all, launch, first, job);
            if (!options->no_peers || first) add_wire(row, all, launch, job);
            if (options->schedules) add_schedules(row, all, launch, job);
        } else if (job->op != COLLECTIVE_ALL_REDUCE) {
            continue;
        }
        if (!options->no_peers) add_peers(row, all, launch, first, job);
        first = false;
    }
}
