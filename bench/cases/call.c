/* mean(x @ y): a small, a middle and a large call that read their input once. */
#include "mean_call.h"
#include "mean_dot.h"
#include "process.h"

#include <stdlib.h>

static void add_limits(bench_row *row, bench_pair *pair, const bench_mean_call *call, int64_t n, int64_t k) {
    for (int32_t way = 0; way < 4; way++) {
        const bench_mean_dot_way how = {.threads = way < 2 ? 2 : 1, .unrolled = way % 2};
        char name[BENCH_NAME];
        snprintf(name, sizeof name, "fused loop, %s%s", how.threads == 2 ? "2 spinning threads" : "1 thread",
                 how.unrolled ? ", unrolled" : "");
        bench_mean_dot *limit = pair || how.threads == 1 ? bench_mean_dot_open(pair, how, call->x, call->y, n, k, call->expected) : NULL;
        if (limit)
            bench_add(row, BENCH_LIMIT, name, limit, bench_mean_dot_block, bench_mean_dot_close);
        else
            bench_log("not measured: the %s: %s", name, pair ? "no memory" : "only one core is allowed");
    }
}

static bool call_row(bench_row *row, int64_t n, int64_t k, const bench_options *options) {
    snprintf(row->name, sizeof row->name, "call: mean(x @ y), x %lld x %lld f32", (long long)n, (long long)k);
    if (!bench_wanted(options, row->name)) return true;
    bench_mean_call call, alone;
    bool ok = bench_mean_data(&call, n, k);
    bench_pair *pair = ok ? bench_pair_open() : NULL;
    if (ok) {
        char rows[24], columns[24];
        snprintf(rows, sizeof rows, "%lld", (long long)n);
        snprintf(columns, sizeof columns, "%lld", (long long)k);
        add_limits(row, pair, &call, n, k);
        alone = call;
        ok = bench_mean_open(&call, 2, n, k) && bench_mean_open(&alone, 1, n, k);
        if (ok) {
            bench_muster_add(row, "muster, 2 devices", &call, bench_mean_block);
            bench_add(row, BENCH_MUSTER, "muster, 1 device", &alone, bench_mean_block, NULL);
        }
        bench_add_python(row, "numpy", 2, (const char *const[]){"call", rows, columns, NULL});
        bench_add_python(row, "torch", 2, (const char *const[]){"call", rows, columns, NULL});
        ok = bench_run(row, options) && ok;
        ok = bench_mean_close(&alone) && ok;
        ok = bench_mean_close(&call) && ok;
    }
    bench_pair_close(pair);
    free(call.x);
    free(call.y);
    return ok;
}

bool bench_call(const bench_options *options) {
    bench_row small = {.block = {20, 200, 0}, .round_count = 100};
    bench_target_add(&small, BENCH_RATIO, "fused loop", 2);
    bool ok = call_row(&small, 100, 10, options);
    bench_row middle = {.block = {3, 30, 0}, .round_count = 80};
    bench_target_add(&middle, BENCH_RATIO, "fused loop", 1.15);
    ok = call_row(&middle, 10000, 100, options) && ok;
    bench_row large = {.block = {1, 5, 0}, .round_count = 30};
    bench_target_add(&large, BENCH_RATIO, "fused loop", 1.08);
    return call_row(&large, 1000000, 100, options) && ok;
}
