#include "nodes_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    int32_t op;
    const char *name;
} messages[] = {
    {NODES_LATENCY, "latency"}, {NODES_BANDWIDTH, "bandwidth"}, {NODES_BOTH_WAYS, "bidirectional_bandwidth"},
    {NODES_BARRIER, "barrier"}, {NODES_CALL, "empty call"},     {NODES_EXCHANGE, "exchange"},
};
enum { MESSAGES = sizeof messages / sizeof *messages };

const char *bench_nodes_op_name(int32_t op) {
    for (int32_t i = 0; i < MESSAGES; i++)
        if (messages[i].op == op) return messages[i].name;
    return collective_name(op);
}

int32_t bench_nodes_op_find(const char *name) {
    for (int32_t i = 0; i < MESSAGES; i++)
        if (strcmp(messages[i].name, name) == 0) return messages[i].op;
    return collective_find(name);
}

bool bench_nodes_is_stream(int32_t op) { return op == NODES_BANDWIDTH || op == NODES_BOTH_WAYS; }

void bench_nodes_heading(int32_t op, int32_t processes, int32_t devices) {
    bench_log(
        "\n# %s, %d processes x %d devices. us: avg, min, max of the processes' means, p50, p95, p99 of single operations (the process "
        "that "
        "takes longest);\n# x lim: this / the fastest bare wire, m/this: Muster / this, medians of the rounds' ratios. #wrong: elements.",
        bench_nodes_op_name(op), processes, devices);
    bench_log("#%11s %9s %9s %9s %9s %9s %9s %9s %7s %7s %6s  %s", "size", "avg", "min", "max", "p50", "p95", "p99", "MB/s", "x lim",
              "m/this", "#wrong", "program");
}

static double median(const double *values, int32_t count) {
    double copy[BENCH_NODES_ROUNDS];
    memcpy(copy, values, (size_t)count * sizeof *copy);
    bench_sort(copy, count);
    return bench_percentile(copy, count, 50);
}

static void number(int32_t width, double value) {
    char text[32];
    if (!isfinite(value))
        snprintf(text, sizeof text, "-");
    else
        snprintf(text, sizeof text, value < 9.995 ? "%.2f" : value < 99.95 ? "%.1f" : "%.0f", value);
    printf(" %*s", width, text);
}

static double rate(const bench_contender *contender, int32_t op, int64_t bytes) { /* bytes per ns */
    if (!bench_nodes_is_stream(op)) return (double)bytes / contender->typical;
    return (double)bytes * nodes_window(bytes) * (op == NODES_BOTH_WAYS ? 2 : 1) / contender->typical;
}

void bench_nodes_print(const bench_row *row, int32_t op, int64_t bytes) {
    for (int32_t i = 0; i < row->count; i++) {
        const bench_contender *contender = &row->contenders[i];
        const bench_nodes_contender *extra = contender->self;
        if (contender->dropped) continue;
        printf("%12lld", (long long)bytes);
        for (int32_t e = 0; e < 3; e++) number(9, median(extra->extra[e], extra->rounds) / 1000);
        number(9, contender->p50 / 1000);
        number(9, contender->p95 / 1000);
        number(9, contender->p99 / 1000);
        number(9, bytes > 0 ? rate(contender, op, bytes) * 1000 : NAN);
        number(7, contender->limit_ratio[0]);
        number(7, contender->muster_ratio[0]);
        printf(" %6lld  %s\n", (long long)contender->wrong, contender->name);
    }
    bench_print_targets(row, "  ");
}

/* ---- the list at the end ---- */

typedef struct line {
    int32_t number;
    char row[BENCH_NAME], reference[BENCH_NAME];
    double floor, bound, figure, ratio;
    bool met;
} line;
enum { LINES = 64 };
static line lines[LINES];
static int32_t line_count;

void bench_nodes_keep(const bench_row *row, int32_t number_of_row) {
    const bench_contender *muster = bench_fastest(row, BENCH_MUSTER, NULL);
    for (int32_t i = 0; i < row->target_count && line_count < LINES; i++) {
        const bench_target *target = &row->targets[i];
        line *kept = &lines[line_count];
        const char *reference = target->reference;
        if (!muster || !bench_target_value(row, target, &kept->ratio, &reference)) continue;
        kept->number = number_of_row;
        snprintf(kept->row, sizeof kept->row, "%s", row->name);
        snprintf(kept->reference, sizeof kept->reference, "%s", reference);
        for (int32_t c = 0; c < row->count; c++)
            if (strcmp(row->contenders[c].name, reference) == 0) kept->floor = row->contenders[c].typical;
        kept->bound = target->bound;
        kept->figure = muster->typical;
        kept->met = bench_target_met(target, kept->ratio);
        line_count++;
    }
}

void bench_nodes_print_kept(void) {
    bool there[8] = {false};
    int32_t met = 0;
    bench_log("\n# What is asked, by row of the list in bench/README.md. us. ratio: the median of the rounds' ratios of Muster to what it "
              "is measured against.");
    bench_log("#%3s %-50s %-34s %10s %8s %10s %8s", "row", "what", "against", "us", "at most", "Muster", "ratio");
    for (int32_t n = 1; n < 8; n++)
        for (int32_t i = 0; i < line_count; i++) {
            const line *kept = &lines[i];
            if (kept->number != n) continue;
            there[n] = true;
            met += kept->met;
            printf("%4d %-50s %-34s", n, kept->row, kept->reference);
            number(10, kept->floor / 1000);
            number(8, kept->bound);
            number(10, kept->figure / 1000);
            printf(" %8.3f  %s\n", kept->ratio, kept->met ? "met" : "MISSED");
        }
    bench_log("met: %d of %d", met, line_count);
    if (!there[5])
        bench_log("row 5 wants links of 1 Gbit/s: tests/net/hosts 2 --rate 1000 -- build/bench/muster-bench nodes --op all_reduce -b "
                  "16M -e 64M --mpi "
                  "openmpi (and with 4 and --ranks 4)");
    if (!there[7])
        bench_log(
            "row 7 wants a delay: tests/net/hosts 2 --delay 1 -- build/bench/muster-bench nodes --op all_reduce -b 4K -e 4K --mpi openmpi");
}

/* ---- the picture ---- */

static const struct {
    const char *label;
    bench_kind kind;
    const char *name;
} programs[BENCH_NODES_CURVES] = {
    {"muster", BENCH_MUSTER, NULL},
    {"bare wire", BENCH_LIMIT, NULL},
    {"OpenMPI, default", BENCH_PEER, "OpenMPI, default"},
    {"OpenMPI, tuned", BENCH_PEER, "OpenMPI, tuned"},
    {"MPICH", BENCH_PEER, "MPICH"},
    {"Gloo", BENCH_PEER, "Gloo"},
};

void bench_nodes_curves(bench_curve curves[BENCH_NODES_CURVES]) {
    for (int32_t i = 0; i < BENCH_NODES_CURVES; i++) curves[i] = (bench_curve){.name = programs[i].label};
}

void bench_nodes_point(const bench_row *row, const collective_job *job, bench_curve curves[BENCH_NODES_CURVES]) {
    const double factor = nodes_is_collective(job->op) ? collective_bus_factor(job->op, job->ranks) : 1;
    for (int32_t i = 0; i < BENCH_NODES_CURVES; i++) {
        const bench_contender *contender = bench_fastest(row, programs[i].kind, programs[i].name);
        bench_curve *curve = &curves[i];
        if (!contender || curve->count == BENCH_POINTS) continue;
        curve->x[curve->count] = (double)collective_job_bytes(job);
        curve->y[curve->count++] = rate(contender, job->op, collective_job_bytes(job)) * factor;
    }
}
