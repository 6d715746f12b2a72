#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_sort(double *values, int64_t count) { qsort(values, (size_t)count, sizeof(double), compare); }

double bench_percentile(const double *sorted, int64_t count, double percent) {
    if (count <= 0) return NAN;
    int64_t index = (int64_t)ceil(percent / 100 * (double)count) - 1;
    return sorted[index < 0 ? 0 : index];
}

double bench_typical(const double *sorted, int64_t count) {
    int64_t outer = count / 20;
    if (outer == 0) return bench_percentile(sorted, count, 50);
    double sum = 0;
    for (int64_t i = outer; i < count - outer; i++) sum += sorted[i];
    return sum / (double)(count - 2 * outer);
}

const bench_contender *bench_fastest(const bench_row *row, bench_kind kind, const char *name) {
    const bench_contender *best = NULL;
    for (int32_t i = 0; i < row->count; i++) {
        const bench_contender *contender = &row->contenders[i];
        if (contender->kind != kind || contender->dropped || (name && strncmp(contender->name, name, strlen(name)) != 0)) continue;
        if (!best || contender->typical < best->typical) best = contender;
    }
    return best;
}

static double median_of_rounds(const bench_contender *contender, int32_t rounds) {
    double *all = calloc((size_t)rounds, sizeof(double)), median = NAN;
    if (!all) return median;
    memcpy(all, contender->rounds, (size_t)rounds * sizeof(double));
    bench_sort(all, rounds);
    median = bench_percentile(all, rounds, 50);
    free(all);
    return median;
}

/* The quotient of each round; the median of them and where the middle 80 % lie. */
static void paired(double out[3], const bench_contender *over, const bench_contender *under, int32_t rounds) {
    out[0] = out[1] = out[2] = NAN;
    double *quotients = over && under ? calloc((size_t)rounds, sizeof(double)) : NULL;
    if (!quotients) return;
    for (int32_t i = 0; i < rounds; i++) quotients[i] = over->rounds[i] / under->rounds[i];
    bench_sort(quotients, rounds);
    out[0] = bench_percentile(quotients, rounds, 50);
    out[1] = bench_percentile(quotients, rounds, 10);
    out[2] = bench_percentile(quotients, rounds, 90);
    free(quotients);
}

static void summarise(bench_contender *contender, const bench_row *row) {
    int64_t count = (int64_t)row->round_count * row->block.calls;
    bench_sort(contender->samples, count);
    contender->least = contender->samples[0];
    contender->p50 = bench_percentile(contender->samples, count, 50);
    contender->p95 = bench_percentile(contender->samples, count, 95);
    contender->p99 = bench_percentile(contender->samples, count, 99);
    contender->typical = median_of_rounds(contender, row->round_count);
}

void bench_analyse(bench_row *row) {
    for (int32_t i = 0; i < row->count; i++)
        if (!row->contenders[i].dropped) summarise(&row->contenders[i], row);
    const bench_contender *limit = bench_fastest(row, BENCH_LIMIT, NULL), *muster = bench_fastest(row, BENCH_MUSTER, NULL);
    for (int32_t i = 0; i < row->count; i++) {
        bench_contender *contender = &row->contenders[i];
        if (contender->dropped) continue;
        paired(contender->limit_ratio, contender, limit, row->round_count);
        paired(contender->muster_ratio, muster, contender, row->round_count);
    }
}

static int32_t rows_with_limits, faults;

static bool has_limit(const bench_row *row) { return bench_fastest(row, BENCH_LIMIT, NULL) != NULL; }

const bench_contender *bench_limit_fault(const bench_row *row) {
    const bench_contender *fastest = NULL;
    for (int32_t i = 0; i < row->count && has_limit(row); i++) {
        const bench_contender *contender = &row->contenders[i];
        if (contender->kind == BENCH_LIMIT || contender->dropped || !(contender->limit_ratio[0] < 1 - BENCH_LIMIT_SLACK)) continue;
        if (!fastest || contender->limit_ratio[0] < fastest->limit_ratio[0]) fastest = contender;
    }
    return fastest;
}

void bench_limits_count(const bench_row *row) {
    rows_with_limits += has_limit(row);
    faults += bench_limit_fault(row) != NULL;
}

int32_t bench_limits_print(void) {
    if (rows_with_limits > 0)
        bench_log("\nlimits at fault: %d of %d (something was more than %.0f %% below them)", faults, rows_with_limits,
                  BENCH_LIMIT_SLACK * 100);
    return faults;
}

/* The median over the rounds of what Muster takes longer. */
static double difference(const bench_contender *muster, const bench_contender *reference, int32_t rounds) {
    double *all = calloc((size_t)rounds, sizeof(double)), median = NAN;
    if (!all) return median;
    for (int32_t i = 0; i < rounds; i++) all[i] = muster->rounds[i] - reference->rounds[i];
    bench_sort(all, rounds);
    median = bench_percentile(all, rounds, 50);
    free(all);
    return median;
}

static double figure(const bench_target *target, const bench_contender *muster, const bench_contender *reference, int32_t rounds) {
    switch (target->measure) {
    case BENCH_RATIO:
        return reference->muster_ratio[0];
    case BENCH_RATIO_P99:
        return muster->p99 / reference->p99;
    case BENCH_DIFFERENCE_NS:
        return difference(muster, reference, rounds);
    case BENCH_MEDIAN_NS:
        return muster->p50;
    case BENCH_SPEEDUP:
        return 1 / reference->muster_ratio[0];
    }
    return NAN;
}

bool bench_target_value(const bench_row *row, const bench_target *target, double *value, const char **reference) {
    const bench_contender *muster = bench_fastest(row, BENCH_MUSTER, NULL), *best = NULL;
    if (!muster) return false;
    for (int32_t i = 0; i < row->count; i++) {
        const bench_contender *contender = &row->contenders[i];
        if (contender->dropped || strncmp(contender->name, target->reference, strlen(target->reference)) != 0) continue;
        if (!best || contender->typical < best->typical) best = contender;
    }
    if (!best) return false;
    *value = figure(target, muster, best, row->round_count);
    *reference = best->name;
    return true;
}

bool bench_target_met(const bench_target *target, double value) {
    return target->measure == BENCH_SPEEDUP ? value >= target->bound : value <= target->bound;
}
