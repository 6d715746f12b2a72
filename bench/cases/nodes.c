/* Muster between processes beside the bare wire, each MPI's own functions, and Gloo. Each launch is
 * a contender's home: muster-bench-nodes under mpirun (nodes/nodes_play.h). */
#include "nodes_rows.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_OPS = 16, MOST_SIZES = 32, MOST_PROCESSES = 8 };
static const int64_t KIB = 1024, MIB = 1024 * 1024;
static const int64_t usual_sizes[] = {4, 4096, 65536, 1048576, 16777216, 67108864};

/* ---- rows ---- */

/* Operations of one block: short ones often, so that a block lasts some milliseconds. */
static bench_block block_of(const bench_options *options, int64_t bytes) {
    const int64_t least = bench_in_hosts() ? 1 : 4, most = options->quick ? 20 : 200;
    int64_t calls = bytes > 0 ? 16 * MIB / bytes : most;
    calls = calls < least ? least : calls > most ? most : calls;
    bench_block block = {bytes < 4 * MIB ? 5 : bench_in_hosts() ? 0 : 1, (int32_t)calls, 0};
    if (options->warm >= 0) block.warm = options->warm;
    if (options->calls > 0) block.calls = options->calls;
    return block;
}

bench_row bench_nodes_row(const bench_options *options, const bench_nodes_all *all, int64_t moved) {
    return (bench_row){.block = block_of(options, moved),
                       .round_count = moved < 16 * MIB ? 9 : 5,
                       .rest_ns = 3000000,
                       .median = true,
                       .json = all->json,
                       .items = moved > 0 ? (double)moved : 0,
                       .items_name = "bytes/s"};
}

static bool run_size(const bench_stage *on, collective_job job, bench_curve *curves, const bench_options *options) {
    bench_nodes_all *all = calloc(1, sizeof *all);
    bench_row *row = calloc(1, sizeof *row);
    if (!all || !row) return false;
    const int64_t bytes = collective_job_bytes(&job), moved = bench_nodes_is_stream(job.op) ? bytes * nodes_window(bytes) : bytes;
    *row = bench_nodes_row(options, all, moved);
    snprintf(all->json, sizeof all->json, ", \"op\": \"%s\", \"processes\": %d, \"devices\": %d, \"bytes\": %lld",
             bench_nodes_op_name(job.op), on->processes, on->devices, (long long)bytes);
    snprintf(row->name, sizeof row->name, "%s, %d processes, %lld bytes", bench_nodes_op_name(job.op), on->processes, (long long)bytes);
    bench_nodes_add_all(row, all, on, &job, options);
    bool ok = bench_measure_row(row, options);
    int32_t number = 0;
    if (ok) {
        number = bench_nodes_ask(row, on, &job);
        bench_json_row(row);
        bench_nodes_print(row, job.op, bytes);
        bench_nodes_keep(row, number);
        if (bytes > 0) bench_nodes_point(row, &job, curves);
    }
    ok = bench_close_row(row) && ok;
    free(row);
    free(all);
    return number == 5 ? bench_nodes_half(on, &job, options) && ok : ok;
}

static int32_t sizes_of(const bench_options *options, int32_t op, int64_t sizes[MOST_SIZES]) {
    int32_t count = 0;
    if (op == NODES_BARRIER) {
        sizes[0] = 0;
        return 1;
    }
    if (options->begin > 0 || options->end > 0 || options->factor > 1) {
        const double begin = options->begin > 0 ? (double)options->begin : 4,
                     end = options->end > 0 ? (double)options->end : (double)(64 * MIB);
        for (double bytes = begin; bytes <= end && count<MOST_SIZES; bytes *= options->factor> 1 ? options->factor : 4)
            sizes[count++] = (int64_t)bytes;
        return count;
    }
    for (size_t i = 0; i < sizeof usual_sizes / sizeof *usual_sizes; i++)
        if (!options->quick || usual_sizes[i] <= 64 * KIB) sizes[count++] = usual_sizes[i];
    return count;
}

static void title_of(char title[BENCH_NAME], int32_t op, int32_t processes) {
    snprintf(title, BENCH_NAME, "%s, %d processes", bench_nodes_op_name(op), processes);
}

static bool run_operation(const bench_stage *on, int32_t op, bench_plot *plot, const bench_options *options) {
    int64_t sizes[MOST_SIZES];
    char title[BENCH_NAME];
    bench_curve *curves = calloc(BENCH_NODES_CURVES, sizeof *curves);
    bool ok = curves != NULL;
    title_of(title, op, on->processes);
    if (!ok || !bench_wanted(options, title)) {
        free(curves);
        return ok;
    }
    bench_nodes_curves(curves);
    bench_nodes_heading(op, on->processes, on->devices);
    const int32_t count = sizes_of(options, op, sizes), ranks = on->processes * on->devices;
    for (int32_t i = 0; i < count; i++) {
        collective_job job = {.op = op, .ranks = on->processes, .count = sizes[i] / (int64_t)sizeof(float)};
        const bool parts = nodes_is_collective(op) && collective_job_count(&job) != job.count;
        if (parts) job.count = job.count < ranks ? ranks : job.count / ranks * ranks;
        ok = run_size(on, job, curves, options) && ok;
    }
    if (plot && op != NODES_BARRIER && !bench_plot_panel(plot, title, curves, BENCH_NODES_CURVES))
        bench_log("not drawn: %s: too many panels", title);
    free(curves);
    return ok;
}

/* ---- stages ---- */

static bool is_mpi_wanted(const bench_options *options, const bench_mpi *mpi) {
    return !options->mpi || strstr(options->mpi, mpi->library);
}

static void open_launch(bench_stage *on, const bench_mpi *mpi, const char *tuning) {
    if (on->count < BENCH_LAUNCHES && bench_launch_open(&on->launches[on->count], mpi, on->processes, on->devices, tuning)) on->count++;
}

bool bench_stage_open(bench_stage *on, int32_t processes, int32_t devices, const bench_options *options) {
    *on = (bench_stage){.processes = processes, .devices = devices};
    for (int32_t i = 0; i < bench_mpi_count; i++)
        if (is_mpi_wanted(options, &bench_mpis[i])) open_launch(on, &bench_mpis[i], NULL);
    if (on->count > 0 && strcmp(on->launches[0].mpi->library, "openmpi") == 0 && !options->no_peers && devices == 1) {
        open_launch(on, &bench_mpis[0], "ring");
        open_launch(on, &bench_mpis[0], "segmented ring");
    }
    if (on->count == 0)
        bench_log("nodes: no MPI of this machine starts (Debian: openmpi-bin and libopenmpi-dev, or mpich and libmpich-dev)");
    return on->count > 0;
}

void bench_stage_close(bench_stage *on) {
    for (int32_t i = on->count - 1; i >= 0; i--) bench_launch_close(&on->launches[i]);
}

/* ---- the case ---- */

static int32_t read_ops(const char *list, int32_t ops[MOST_OPS]) {
    static const int32_t usual[] = {NODES_LATENCY,        NODES_BANDWIDTH,       NODES_BOTH_WAYS,           COLLECTIVE_ALL_REDUCE,
                                    COLLECTIVE_BROADCAST, COLLECTIVE_ALL_GATHER, COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_ALL_TO_ALL,
                                    NODES_BARRIER};
    int32_t count = 0;
    if (!list)
        for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) ops[count++] = usual[i];
    char *copy = list ? strdup(list) : NULL, *rest = NULL;
    for (char *name = copy ? strtok_r(copy, ",", &rest) : NULL; name && count >= 0; name = strtok_r(NULL, ",", &rest)) {
        const int32_t op = bench_nodes_op_find(name);
        if (op < 0 || op >= NODES_CALL || collective_updates(op) || count == MOST_OPS)
            count = -1;
        else
            ops[count++] = op;
    }
    free(copy);
    return count;
}

static int32_t read_processes(const char *list, int32_t processes[MOST_PROCESSES]) {
    int32_t count = 0;
    for (const char *at = list; *at && count < MOST_PROCESSES;) {
        char *end;
        const long number = strtol(at, &end, 10);
        if (end == at || number < 2 || number > COLLECTIVE_RANKS || (*end && *end != ',')) return -1;
        processes[count++] = (int32_t)number;
        at = *end ? end + 1 : end;
    }
    return count;
}

static bool wants_any(const int32_t *ops, int32_t count, int32_t processes, const bench_options *options) {
    char title[BENCH_NAME];
    for (int32_t i = 0; i < count; i++) {
        title_of(title, ops[i], processes);
        if (bench_wanted(options, title)) return true;
    }
    return false;
}

bool bench_nodes(const bench_options *options) {
    int32_t ops[MOST_OPS], processes[MOST_PROCESSES];
    const int32_t op_count = read_ops(options->ops, ops), count = read_processes(options->ranks ? options->ranks : "2", processes);
    if (op_count <= 0 || count <= 0 || options->calls > COLLECTIVE_CALLS) {
        bench_log("nodes: expected -n at most %d, --ranks (processes) of 2 to %d, --op of latency,bandwidth,all_reduce and the like",
                  COLLECTIVE_CALLS, COLLECTIVE_RANKS);
        return false;
    }
    if (bench_is_launched()) {
        bench_log("nodes: this is a process of a launch; type it without mpirun: the bench starts launches itself");
        return false;
    }
    bench_plot *plot = options->plot ? bench_plot_open(bench_machine(), "bytes", "bus bandwidth, GB/s") : NULL;
    bool ok = true;
    for (int32_t i = 0; i < count; i++) {
        static bench_stage on;
        if (!wants_any(ops, op_count, processes[i], options)) continue;
        const bool opened = bench_stage_open(&on, processes[i], 1, options);
        for (int32_t o = 0; opened && o < op_count; o++) ok = run_operation(&on, ops[o], plot, options) && ok;
        bench_stage_close(&on);
        ok = ok && opened;
    }
    if (ok && !options->ops && !bench_in_hosts()) ok = bench_nodes_asked(options);
    bench_nodes_print_kept();
    if (!bench_plot_close(plot, options->plot)) {
        bench_log("nodes: %s: could not be written", options->plot);
        ok = false;
    }
    return ok;
}
