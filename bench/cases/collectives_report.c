#include "collectives_report.h"

#include <math.h>
#include <string.h>

/* A line of the table: of several contenders the fastest is meant. Those with a curve come
 * first. */
static const struct {
    const char *label;
    bench_kind kind;
    const char *name;
} programs[] = {
    {"muster", BENCH_MUSTER, NULL},
    {"limit", BENCH_LIMIT, NULL},
    {"OpenMPI, best", BENCH_PEER, "OpenMPI"},
    {"OpenMPI, default", BENCH_PEER, "OpenMPI, default"},
    {"Gloo", BENCH_PEER, "Gloo"},
    {"muster, again", BENCH_MUSTER_AGAIN, NULL},
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static const bench_contender *pick(const bench_row *row, int32_t program) {
    return bench_fastest(row, programs[program].kind, programs[program].name);
}

static double bandwidth(const collective_job *job, double ns) { return (double)collective_job_bytes(job) / ns; }

void bench_cell_heading(const collective_job *job, bool peers) {
    bench_log(
        "\n# %s, %d ranks%s. time: us, the median of the rounds' medians; algbw, busbw: GB/s; p50, p95, p99: us, over single operations;"
        "\n# x lim: this / limit and m/this: muster / this, medians of the rounds' ratios. #wrong: elements, checked after the last "
        "operation of"
        " each block.",
        collective_name(job->op), job->ranks, peers ? "" : ", no peers");
    bench_log("#%77s%34s%42s%42s", "out-of-place", "in-place", "out-of-place", "in-place");
    printf("#%11s %11s %6s %6s %5s", "size", "count", "type", "redop", "root");
    for (int32_t form = 0; form < 2; form++) printf("  %9s %7s %7s %6s", "time", "algbw", "busbw", "#wrong");
    for (int32_t form = 0; form < 2; form++) printf("  %8s %8s %8s %6s %6s", "p50", "p95", "p99", "x lim", "m/this");
    bench_log("  program");
}

static void number(int32_t width, double value) {
    char text[32];
    if (!isfinite(value))
        snprintf(text, sizeof text, "-");
    else
        snprintf(text, sizeof text, value < 9.995 ? "%.2f" : value < 99.95 ? "%.1f" : "%.0f", value);
    printf(" %*s", width, text);
}

static void print_rate(const collective_job *job, const bench_contender *contender) {
    double ns = contender ? contender->typical : NAN;
    printf(" ");
    number(9, ns / 1000);
    number(7, bandwidth(job, ns));
    number(7, bandwidth(job, ns) * collective_bus_factor(job->op, job->ranks));
    if (contender)
        printf(" %6lld", (long long)contender->wrong);
    else
        printf(" %6s", "-");
}

static void print_spread(const bench_contender *contender) {
    printf(" ");
    number(8, contender ? contender->p50 / 1000 : NAN);
    number(8, contender ? contender->p95 / 1000 : NAN);
    number(8, contender ? contender->p99 / 1000 : NAN);
    number(6, contender ? contender->limit_ratio[0] : NAN);
    number(6, contender ? contender->muster_ratio[0] : NAN);
}

/* What tells the contender from others of its kind: what follows the first comma. */
static const char *detail(const bench_contender *contender) {
    const char *comma = contender ? strstr(contender->name, ", ") : NULL;
    return comma ? comma + 2 : "-";
}

static void print_program(const bench_cell *cell, int32_t program) {
    const bench_contender *forms[2] = {pick(&cell->rows[0], program), pick(&cell->rows[1], program)};
    const collective_job *job = &cell->job;
    char root[16] = "-1";
    if (!forms[0] && !forms[1]) return;
    if (collective_rooted(job->op)) snprintf(root, sizeof root, "%d", job->root);
    printf("%12lld %11lld %6s %6s %5s", (long long)collective_job_bytes(job), (long long)collective_job_count(job), "float",
           collective_sums(job->op) ? "sum" : "none", root);
    for (int32_t form = 0; form < 2; form++) print_rate(job, forms[form]);
    for (int32_t form = 0; form < 2; form++) print_spread(forms[form]);
    printf("  %s", programs[program].label);
    bool several = programs[program].kind == BENCH_LIMIT || programs[program].kind == BENCH_PEER;
    if (several) printf(" (%s | %s)", detail(forms[0]), detail(forms[1]));
    printf("\n");
}

void bench_cell_print(const bench_cell *cell) {
    for (int32_t program = 0; program < PROGRAMS; program++) print_program(cell, program);
    bench_print_targets(&cell->rows[0], "#   out of place: ");
    bench_print_targets(&cell->rows[1], "#   in place:     ");
    fflush(stdout);
}

void bench_cell_curves(bench_curve curves[BENCH_CELL_CURVES]) {
    memset(curves, 0, BENCH_CELL_CURVES * sizeof *curves);
    for (int32_t program = 0; program < BENCH_CELL_CURVES; program++) curves[program].name = programs[program].label;
}

void bench_cell_point(const bench_cell *cell, int32_t form, bench_curve curves[BENCH_CELL_CURVES]) {
    for (int32_t program = 0; program < BENCH_CELL_CURVES; program++) {
        const bench_contender *contender = pick(&cell->rows[form], program);
        bench_curve *curve = &curves[program];
        if (!contender || cell->job.count == 0 || curve->count == BENCH_POINTS) continue;
        curve->x[curve->count] = (double)collective_job_bytes(&cell->job);
        curve->y[curve->count++] = bandwidth(&cell->job, contender->typical) * collective_bus_factor(cell->job.op, cell->job.ranks);
    }
}

void bench_cell_json(const collective_job *job, char *text, size_t size) {
    snprintf(
        text, size,
        ", \"op\": \"%s\", \"ranks\": %d, \"size\": %lld, \"count\": %lld, \"type\": \"float\", \"in_place\": %s, \"bus_factor\": %.6g",
        collective_name(job->op), job->ranks, (long long)collective_job_bytes(job), (long long)collective_job_count(job),
        job->in_place ? "true" : "false", collective_bus_factor(job->op, job->ranks));
}
