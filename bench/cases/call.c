/* mean(x @ y): a small, a middle and a large call that read their input once. */
#include "mean_dot.h"
#include "muster_case.h"
#include "process.h"

#include <stdlib.h>
#include <sys/mman.h>

typedef struct mean_call {
    muster_runtime *runtime;
    muster_function *function;
    muster_tensor inputs[2], outputs[1];
    float *x, *y, result;
    double expected;
} mean_call;

static muster_status mean_of_products(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    muster_tensor products = muster_worker_scratch(worker, MUSTER_F32, 1, in[0].shape);
    MUSTER_TRY(muster_gemv(worker, 1, in[0], in[1], 0, products));
    return muster_mean(worker, products, out[0]);
}

static bool mean_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    mean_call *call = self;
    muster_status status = MUSTER_OK;
    BENCH_TIME(block, ns, {
        status |= muster_function_call(call->function, call->inputs, 2, call->outputs, 1, NULL);
        *wrong += !bench_mean_dot_right(call->result, call->expected);
    });
    return bench_muster_ok(status, "muster");
}

static float *make_array(int64_t count, int64_t step, int64_t period, float divisor) {
    size_t huge = 2 << 20, bytes = ((size_t)count * sizeof(float) + huge - 1) / huge * huge;
    float *array = aligned_alloc(huge, bytes);
    if (!array) return NULL;
    madvise(array, bytes, MADV_HUGEPAGE); /* as NumPy does for its arrays */
    for (int64_t i = 0; i < count; i++) array[i] = (float)(i * step % period) / divisor;
    return array;
}

static double expected_mean(const float *x, const float *y, int64_t n, int64_t k) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j++) sum += (double)x[i * k + j] * y[j];
    return sum / (double)n;
}

static bool describe(mean_call *call, int32_t devices, int64_t n, int64_t k) {
    call->runtime = bench_muster_open(devices);
    if (!call->runtime) return false;
    call->inputs[0] = muster_f32(call->x, n, k);
    call->inputs[1] = muster_f32(call->y, k);
    call->outputs[0] = muster_f32(&call->result);
    return bench_muster_ok(muster_function_create(call->runtime, "mean of products", mean_of_products, NULL, &call->function), "muster") &&
           bench_muster_ok(muster_function_input(call->function, "x", MUSTER_F32, 2, MUSTER_SCATTER), "muster") &&
           bench_muster_ok(muster_function_input(call->function, "y", MUSTER_F32, 1, MUSTER_BROADCAST), "muster") &&
           bench_muster_ok(muster_function_output(call->function, "r", MUSTER_F32, 0, MUSTER_AVG), "muster");
}

static void add_limits(bench_row *row, bench_pair *pair, const mean_call *call, int64_t n, int64_t k) {
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
    mean_call call = {.x = make_array(n * k, 7919, 17, 16), .y = make_array(k, 31, 11, 8)}, alone;
    bool ok = call.x && call.y;
    if (!ok) bench_log("call: no memory for %lld x %lld numbers", (long long)n, (long long)k);
    bench_pair *pair = ok ? bench_pair_open() : NULL;
    if (ok) {
        char rows[24], columns[24];
        snprintf(rows, sizeof rows, "%lld", (long long)n);
        snprintf(columns, sizeof columns, "%lld", (long long)k);
        call.expected = expected_mean(call.x, call.y, n, k);
        add_limits(row, pair, &call, n, k);
        alone = call;
        ok = describe(&call, 2, n, k) && describe(&alone, 1, n, k);
        if (ok) {
            bench_muster_add(row, "muster, 2 devices", &call, mean_block);
            bench_add(row, BENCH_MUSTER, "muster, 1 device", &alone, mean_block, NULL);
        }
        bench_add_python(row, "numpy", 2, (const char *const[]){"call", rows, columns, NULL});
        bench_add_python(row, "torch", 2, (const char *const[]){"call", rows, columns, NULL});
        ok = bench_run(row, options) && ok;
        if (alone.runtime) ok = bench_muster_ok(muster_runtime_close(alone.runtime), "muster") && ok;
        if (call.runtime) ok = bench_muster_ok(muster_runtime_close(call.runtime), "muster") && ok;
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
