/* What the project asks of itself between processes: the list of bench/README.md. */
#include "nodes_rows.h"

#include <stdlib.h>
#include <string.h>

static const int64_t KIB = 1024, MIB = 1024 * 1024;

/* ---- what is asked: rows 3, 5 and 7 of the list ---- */

static void ask_on_host(bench_row *row, int64_t bytes) {
    if (bytes < 4 * KIB) return;
    bench_target_add(row, BENCH_RATIO, "OpenMPI, default", bytes < 64 * KIB ? 1.5 : bytes < MIB ? 1.1 : bytes < 64 * MIB ? 0.9 : 0.8);
    if (bytes >= 64 * MIB) bench_target_add(row, BENCH_RATIO, "OpenMPI, tuned", 1.25);
    if (bytes == 4 * KIB) bench_target_add(row, BENCH_RATIO, "Gloo", 0.1);
}

/* Links with a delay, or narrow ones, are known by the bare wire. */
static int32_t ask_in_hosts(bench_row *row, int64_t bytes) {
    const bench_contender *wire = bench_fastest(row, BENCH_LIMIT, NULL);
    const bool late = wire && bytes == 4 * KIB && wire->typical >= 900000;
    const bool narrow = wire && bytes >= 16 * MIB && (double)bytes / wire->typical < 0.2;
    if (late || narrow) bench_target_add(row, BENCH_RATIO, wire->name, late ? 1.2 : 1.08);
    return late ? 7 : narrow ? 5 : 0;
}

int32_t bench_nodes_ask(bench_row *row, const bench_stage *on, const collective_job *job) {
    if (job->op != COLLECTIVE_ALL_REDUCE || on->devices > 1) return 0;
    if (bench_in_hosts()) return ask_in_hosts(row, collective_job_bytes(job));
    if (on->processes != 2) return 0;
    ask_on_host(row, collective_job_bytes(job));
    return 3;
}

/* ---- rows 1, 2, 4 and 6 of the list ---- */

static bool run_asked(bench_row *row, int32_t number, int32_t op, int64_t bytes, const bench_options *options) {
    bool ok = bench_measure_row(row, options);
    if (ok) {
        /* the empty call may take 1 us more than 1.5 times its floor */
        const bench_contender *limit = bench_fastest(row, BENCH_LIMIT, NULL);
        if (number == 2 && limit) bench_target_add(row, BENCH_RATIO, limit->name, 1.5 + 1000 / limit->typical);
        bench_json_row(row);
        bench_nodes_print(row, op, bytes);
        bench_nodes_keep(row, number);
    }
    return bench_close_row(row) && ok;
}

static bool run_calls(const bench_stage *on, bench_nodes_all *all, const bench_options *options) {
    const collective_job call = {.op = NODES_CALL, .ranks = on->processes},
                         two = {.op = NODES_EXCHANGE, .ranks = on->processes, .count = 32};
    bench_row *row = calloc(1, sizeof *row);
    if (!row) return false;
    *row = bench_nodes_row(options, all, 0);
    row->round_count = 31;
    snprintf(row->name, sizeof row->name, "empty call, %d processes", on->processes);
    if (!bench_wanted(options, row->name)) {
        free(row);
        return true;
    }
    bench_nodes_heading(NODES_CALL, on->processes, on->devices);
    snprintf(all->json, sizeof all->json, ", \"op\": \"empty call\", \"processes\": %d, \"devices\": %d", on->processes, on->devices);
    bench_nodes_add_muster(row, all, &on->launches[0], true, &call);
    if (on->processes == 1) {
        row->block.calls = 2000;
        bench_nodes_add(row, all, BENCH_LIMIT, "nodes=none", &on->launches[0], NODES_ALONE, call);
        bench_target_add(row, BENCH_RATIO, "nodes=none", 1.02);
    } else {
        bench_nodes_add(row, all, BENCH_LIMIT, "2 exchanges of 128 bytes", &on->launches[0], NODES_WIRE, two);
    }
    const bool ok = run_asked(row, on->processes == 1 ? 1 : 2, NODES_CALL, 0, options);
    free(row);
    return ok;
}

static bool run_call_stage(int32_t processes, const bench_options *options) {
    static bench_stage on;
    bench_nodes_all *all = calloc(1, sizeof *all);
    bench_options one = *options;
    one.no_peers = true;
    if (!one.mpi) one.mpi = "openmpi";
    const bool ok = all && bench_stage_open(&on, processes, 1, &one) && run_calls(&on, all, options);
    bench_stage_close(&on);
    free(all);
    return ok;
}

/* Two processes with two devices each, beside four ranks of MPI. */
static bool run_two_by_two(const bench_options *options) {
    static bench_stage on, four;
    const int64_t bytes = options->quick ? MIB : 64 * MIB;
    bench_nodes_all *all = calloc(1, sizeof *all);
    bench_row *row = calloc(1, sizeof *row);
    bench_options one = *options;
    one.no_peers = true;
    if (!one.mpi) one.mpi = "openmpi";
    bool ok = all && row && bench_stage_open(&on, 2, 2, &one) && bench_stage_open(&four, 4, 1, &one);
    if (ok) {
        const collective_job job = {.op = COLLECTIVE_ALL_REDUCE, .ranks = 4, .count = bytes / (int64_t)sizeof(float)};
        char name[BENCH_NAME];
        *row = bench_nodes_row(options, all, bytes);
        snprintf(row->name, sizeof row->name, "all_reduce, 2 processes x 2 devices, %lld bytes", (long long)bytes);
        bench_nodes_heading(COLLECTIVE_ALL_REDUCE, 2, 2);
        bench_nodes_add_muster(row, all, &on.launches[0], true, &job);
        snprintf(name, sizeof name, "%s, 4 processes", four.launches[0].mpi->name);
        bench_nodes_add(row, all, BENCH_PEER, name, &four.launches[0], NODES_MPI, job);
        bench_target_add(row, BENCH_RATIO, name, 0.5);
        ok = run_asked(row, 4, COLLECTIVE_ALL_REDUCE, bytes, options);
    }
    bench_stage_close(&four);
    bench_stage_close(&on);
    free(row);
    free(all);
    return ok;
}

bool bench_nodes_half(const bench_stage *on, const collective_job *job, const bench_options *options) {
    const int64_t bytes = collective_job_bytes(job);
    const bench_launch *launch = &on->launches[0];
    bench_nodes_all *all = calloc(1, sizeof *all);
    bench_row *row = calloc(1, sizeof *row);
    bool ok = all && row;
    if (ok) {
        *row = bench_nodes_row(options, all, bytes);
        snprintf(row->name, sizeof row->name, "all_reduce, f16 between %d processes, %lld bytes", on->processes, (long long)bytes);
        snprintf(all->json, sizeof all->json, ", \"op\": \"all_reduce, f16\", \"processes\": %d, \"devices\": %d, \"bytes\": %lld",
                 on->processes, on->devices, (long long)bytes);
        bench_nodes_add(row, all, BENCH_MUSTER, "muster, f16", launch, NODES_HALF, *job);
        bench_nodes_add(row, all, BENCH_MUSTER_AGAIN, "muster, f16, again", launch, NODES_HALF, *job);
        bench_nodes_add(row, all, BENCH_PEER, "muster, f32", launch, NODES_MUSTER, *job);
        bench_target_add(row, BENCH_RATIO, "muster, f32", 0.55);
        ok = run_asked(row, 6, COLLECTIVE_ALL_REDUCE, bytes, options);
    }
    free(row);
    free(all);
    return ok;
}

bool bench_nodes_asked(const bench_options *options) {
    bool ok = true;
    if (bench_wanted(options, "empty call, 1 processes")) ok = run_call_stage(1, options);
    if (bench_wanted(options, "empty call, 2 processes")) ok = run_call_stage(2, options) && ok;
    if (bench_wanted(options, "all_reduce, 2 processes x 2 devices")) ok = run_two_by_two(options) && ok;
    return ok;
}
