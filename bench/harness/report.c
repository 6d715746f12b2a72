#include "bench.h"

#include <math.h>
#include <stdarg.h>

void bench_log(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    fflush(stdout);
}

/* Microseconds with as many digits as carry meaning. */
static const char *us(char text[16], double ns) {
    double value = ns / 1000;
    snprintf(text, 16, value < 10 ? "%.3f" : value < 1000 ? "%.1f" : "%.0f", value);
    return text;
}

static const char *spread(char text[48], const double ratio[3]) {
    if (isnan(ratio[0]))
        snprintf(text, 48, "-");
    else
        snprintf(text, 48, "%.3g [%.3g..%.3g]", ratio[0], ratio[1], ratio[2]);
    return text;
}

static void print_contender(const bench_row *row, const bench_contender *contender) {
    char a[16], b[16], c[16], d[16], over[48], under[48];
    printf("%-44s %9s %9s %9s %9s  %-22s %-22s", contender->name, us(a, contender->p50), us(b, contender->p95), us(c, contender->p99),
           us(d, contender->least),
           contender->kind == BENCH_LIMIT && contender->limit_ratio[1] == contender->limit_ratio[2] ? "1"
                                                                                                    : spread(over, contender->limit_ratio),
           contender->kind == BENCH_MUSTER && contender->muster_ratio[1] == contender->muster_ratio[2]
               ? "1"
               : spread(under, contender->muster_ratio));
    if (row->items > 0) printf(" %10.0f", row->items / contender->p50 * 1e9);
    printf(" %6lld\n", (long long)contender->wrong);
}

static void print_target(const bench_row *row, const bench_target *target, const char *before) {
    double value;
    const char *reference = target->reference;
    if (!bench_target_value(row, target, &value, &reference)) {
        printf("%starget not measured: against %s\n", before, reference);
        return;
    }
    static const char *const words[] = {"median / %s at most", "p99 / p99 of %s at most", "median over %s, ns, at most",
                                        "median, ns, at most", "times the speed of %s, at least"};
    char what[160];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(what, sizeof what, words[target->measure], reference);
#pragma GCC diagnostic pop
    printf("%s%s: %s %.4g: %.4g\n", before, bench_target_met(target, value) ? "met   " : "MISSED", what, target->bound, value);
}

void bench_print(const bench_row *row) {
    printf("\n%s: %d rounds of %d calls", row->name, row->round_count, row->block.calls);
    if (row->block.pause_ns > 0) printf(", each after %.3g ms of other work", (double)row->block.pause_ns / 1e6);
    printf("\n%-44s %9s %9s %9s %9s  %-22s %-22s", "times in us", "p50", "p95", "p99", "min", "x limit [p10..p90]",
           "muster/this [p10..p90]");
    if (row->items > 0) printf(" %10s", row->items_name);
    printf(" %6s\n", "#wrong");
    for (int32_t i = 0; i < row->count; i++)
        if (!row->contenders[i].dropped) print_contender(row, &row->contenders[i]);
    bench_print_targets(row, "  ");
}

static void print_limit_fault(const bench_row *row, const char *before) {
    const bench_contender *faster = bench_limit_fault(row), *limit = bench_fastest(row, BENCH_LIMIT, NULL);
    if (faster) printf("%sFAULT of the limit: %s takes %.2f of its time (%s)\n", before, faster->name, faster->limit_ratio[0], limit->name);
}

void bench_print_targets(const bench_row *row, const char *before) {
    print_limit_fault(row, before);
    for (int32_t i = 0; i < row->target_count; i++) print_target(row, &row->targets[i], before);
    fflush(stdout);
}
