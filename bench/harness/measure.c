#include "bench.h"

#include <stdlib.h>
#include <string.h>

void bench_add(bench_row *row, bench_kind kind, const char *name, void *self,
               bool (*block)(void *, const bench_block *, double *, int64_t *), void (*close)(void *)) {
    if (row->count == BENCH_CONTENDERS) {
        bench_log("not measured: %s: the row is full", name);
        if (close) close(self);
        return;
    }
    bench_contender *contender = &row->contenders[row->count++];
    memset(contender, 0, sizeof *contender);
    snprintf(contender->name, sizeof contender->name, "%s", name);
    contender->kind = kind;
    contender->self = self;
    contender->block = block;
    contender->close = close;
}

void bench_target_add(bench_row *row, bench_measure measure, const char *reference, double bound) {
    if (row->target_count == BENCH_TARGETS) return;
    bench_target *target = &row->targets[row->target_count++];
    target->measure = measure;
    snprintf(target->reference, sizeof target->reference, "%s", reference);
    target->bound = bound;
}

bool bench_wanted(const bench_options *options, const char *row_name) { return !options->row || strstr(row_name, options->row) != NULL; }

static bool reserve_samples(bench_row *row) {
    for (int32_t i = 0; i < row->count; i++) {
        bench_contender *contender = &row->contenders[i];
        contender->samples = calloc((size_t)row->round_count * (size_t)row->block.calls, sizeof(double));
        contender->rounds = calloc((size_t)row->round_count, sizeof(double));
        if (!contender->samples || !contender->rounds) return false;
    }
    return true;
}

/* Long enough for a waiter of the block before to fall asleep, so that it does not take the core of
 * the next contender. */
static void rest(const bench_row *row) { nanosleep(&(struct timespec){0, row->rest_ns > 0 ? row->rest_ns : 200000}, NULL); }

static void one_block(bench_row *row, bench_contender *contender, int32_t round, double *scratch) {
    if (contender->dropped) return;
    double *ns = contender->samples + (int64_t)round * row->block.calls;
    if (!contender->block(contender->self, &row->block, ns, &contender->wrong)) {
        bench_log("lost in round %d: %s", round, contender->name);
        contender->dropped = true;
        return;
    }
    memcpy(scratch, ns, (size_t)row->block.calls * sizeof(double));
    bench_sort(scratch, row->block.calls);
    contender->rounds[round] = row->median ? bench_percentile(scratch, row->block.calls, 50) : bench_typical(scratch, row->block.calls);
    rest(row);
}

static bool measure(bench_row *row) {
    double *scratch = calloc((size_t)row->block.calls, sizeof(double));
    bool ok = scratch != NULL && reserve_samples(row);
    /* The caller stays on one core, which the limits' and Muster's other threads do not use. Only
     * now: what was opened before saw all CPUs. */
    bench_pin(bench_cpu(0));
    int64_t ignored = 0;
    for (int32_t i = 0; ok && i < row->count; i++) { /* the first touch of everything does not count */
        bench_contender *contender = &row->contenders[i];
        contender->dropped = !contender->block(contender->self, &(bench_block){1, 1, 0}, contender->samples, &ignored);
        if (contender->dropped) bench_log("not measured: %s", contender->name);
    }
    for (int32_t round = 0; ok && round < row->round_count; round++)
        for (int32_t i = 0; i < row->count; i++) one_block(row, &row->contenders[(round + i) % row->count], round, scratch);
    bench_unpin();
    free(scratch);
    return ok;
}

bool bench_measure_row(bench_row *row, const bench_options *options) {
    if (options->rounds > 0)
        row->round_count = options->rounds;
    else if (options->quick)
        row->round_count = row->round_count / 10 > 5 ? row->round_count / 10 : 5;
    bool ok = measure(row);
    if (!ok) {
        bench_log("%s: out of memory", row->name);
        return false;
    }
    bench_analyse(row);
    bench_limits_count(row);
    return true;
}

bool bench_close_row(bench_row *row) {
    bool ok = true;
    for (int32_t i = row->count - 1; i >= 0; i--) {
        bench_contender *contender = &row->contenders[i];
        bool muster = contender->kind == BENCH_MUSTER || contender->kind == BENCH_MUSTER_AGAIN;
        if (muster && (contender->dropped || contender->wrong > 0)) ok = false;
        if (contender->close) contender->close(contender->self);
        free(contender->samples);
        free(contender->rounds);
    }
    row->count = 0;
    return ok;
}

bool bench_run(bench_row *row, const bench_options *options) {
    bool ok = bench_measure_row(row, options);
    if (ok) {
        bench_print(row);
        bench_json_row(row);
    }
    return bench_close_row(row) && ok;
}
