/* mean(x @ y) as a call. */
#include "mean_call.h"
#include "mean_dot.h"

#include <stdlib.h>
#include <sys/mman.h>

static muster_status mean_of_products(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    muster_tensor products;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, 1, in[0].shape, &products));
    MUSTER_TRY(muster_gemv(worker, 1, in[0], in[1], 0, products));
    return muster_mean(worker, products, out[0]);
}

bool bench_mean_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    bench_mean_call *call = self;
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

bool bench_mean_data(bench_mean_call *call, int64_t n, int64_t k) {
    *call = (bench_mean_call){.x = make_array(n * k, 7919, 17, 16), .y = make_array(k, 31, 11, 8)};
    if (!call->x || !call->y) {
        bench_log("not measured: no memory for %lld x %lld numbers", (long long)n, (long long)k);
        return false;
    }
    call->expected = expected_mean(call->x, call->y, n, k);
    return true;
}

static bool open_runtime(bench_mean_call *call, int32_t devices, int64_t n, int64_t k) {
    call->runtime = bench_muster_open(devices);
    call->inputs[0] = muster_f32(call->x, n, k);
    call->inputs[1] = muster_f32(call->y, k);
    call->outputs[0] = muster_f32(&call->result);
    return call->runtime != NULL;
}

bool bench_mean_open(bench_mean_call *call, int32_t devices, int64_t n, int64_t k) {
    return open_runtime(call, devices, n, k) &&
           bench_muster_ok(muster_function_create(call->runtime, "mean of products", mean_of_products, NULL, &call->function), "muster") &&
           bench_muster_ok(muster_function_input(call->function, "x", MUSTER_F32, 2, MUSTER_SCATTER), "muster") &&
           bench_muster_ok(muster_function_input(call->function, "y", MUSTER_F32, 1, MUSTER_BROADCAST), "muster") &&
           bench_muster_ok(muster_function_output(call->function, "r", MUSTER_F32, 0, MUSTER_AVG), "muster");
}

bool bench_mean_open_expression(bench_mean_call *call, int32_t devices, int64_t n, int64_t k) {
    muster_graph *graph;
    muster_graph_options options;
    if (!open_runtime(call, devices, n, k) || !bench_muster_ok(muster_graph_create(call->runtime, "mean of products", &graph), "muster"))
        return false;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, k), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "y", MUSTER_F32, MUSTER_SHAPE(k), MUSTER_BROADCAST);
    (void)muster_graph_output(graph, "r", muster_expr_parse(graph, "mean(x @ y)"), MUSTER_AUTO);
    const bool ok = bench_muster_ok(muster_graph_compile(graph, &options, &call->function), "muster");
    return bench_muster_ok(muster_graph_destroy(graph), "muster") && ok;
}

bool bench_mean_close(bench_mean_call *call) { return !call->runtime || bench_muster_ok(muster_runtime_close(call->runtime), "muster"); }
