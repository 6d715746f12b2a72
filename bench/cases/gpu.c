/* One GPU: what a call, a scatter, a matrix product and an all-reduce between virtual devices cost
 * beside the bare driver and cuBLAS. On the simulated machine of the tests it
 * only shows that the case runs: sizes are small, every line says so, and no target is judged. */
#include "gpu.h"
#include "muster_case.h"
#include "parallel_copy.h"

#include <stdlib.h>
#include <string.h>

typedef struct sizes {
    int64_t scatter, large, small, queued, reduce; /* bytes; n; n; products in a call; bytes */
} sizes;
static const sizes real_sizes = {256 << 20, 8192, 512, 1000, 256 << 20}, small_sizes = {1 << 20, 64, 32, 10, 1 << 16};

typedef struct gpu_case {
    bench_gpu *gpu;
    const bench_options *options;
    sizes size;
    bool simulated;
} gpu_case;

typedef struct gpu_call {
    muster_runtime *runtime;
    muster_function *function;
    muster_tensor input;
    muster_variable *variables[3];
    int32_t times; /* in one call */
} gpu_call;

/* ---- Muster's side ---- */

static muster_runtime *open_devices(const char *devices) {
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = devices;
    muster_runtime *runtime = NULL;
    return bench_muster_ok(muster_runtime_open(&options, &runtime), "muster") ? runtime : NULL;
}

static muster_status nothing(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)worker, (void)in, (void)out, (void)user;
    return MUSTER_OK;
}

static muster_status multiply(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    const gpu_call *call = user;
    muster_tensor a, b, c;
    MUSTER_TRY(muster_worker_variable(worker, call->variables[0], &a));
    MUSTER_TRY(muster_worker_variable(worker, call->variables[1], &b));
    MUSTER_TRY(muster_worker_variable(worker, call->variables[2], &c));
    for (int32_t i = 0; i < call->times; i++) MUSTER_TRY(muster_gemm(worker, 1, a, b, 0, c));
    return MUSTER_OK;
}

static muster_status all_reduce(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    const gpu_call *call = user;
    muster_tensor x, y;
    MUSTER_TRY(muster_worker_variable(worker, call->variables[0], &x));
    MUSTER_TRY(muster_worker_variable(worker, call->variables[1], &y));
    for (int32_t i = 0; i < call->times; i++) MUSTER_TRY(muster_worker_all_reduce(worker, NULL, MUSTER_SUM, x, y));
    return MUSTER_OK;
}

static bool call_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    gpu_call *call = self;
    (void)wrong;
    muster_status status = MUSTER_OK;
    int32_t inputs = call->input.dtype == MUSTER_DTYPE_NONE ? 0 : 1;
    BENCH_TIME(block, ns, status = status ? status : muster_function_call(call->function, &call->input, inputs, NULL, 0, NULL));
    return bench_muster_ok(status, "muster");
}

static bool create(gpu_call *call, const char *devices, const char *name, muster_body body) {
    call->runtime = open_devices(devices);
    call->input = muster_tensor_none();
    return call->runtime && bench_muster_ok(muster_function_create(call->runtime, name, body, call, &call->function), "muster");
}

static bool add_variable(gpu_call *call, int32_t i, muster_tensor value) {
    static const char *const names[] = {"a", "b", "c"};
    return bench_muster_ok(muster_variable_create(call->runtime, names[i], value, &call->variables[i]), "muster") &&
           bench_muster_ok(muster_function_variable(call->function, call->variables[i], MUSTER_USE_READ_WRITE), "muster");
}

static bool close_call(gpu_call *call) { return !call->runtime || bench_muster_ok(muster_runtime_close(call->runtime), "muster"); }

/* ---- rows ---- */

static bool begin_row(const gpu_case *c, bench_row *row, const char *name) {
    snprintf(row->name, sizeof row->name, "%sgpu: %.40s", c->simulated ? "SIMULATED, no measurement: " : "", name);
    if (c->simulated) {
        row->json = ", \"simulated\": true";
        row->round_count = 3;
        row->block = (bench_block){1, 2, 0};
    }
    return bench_wanted(c->options, row->name);
}

static void target(const gpu_case *c, bench_row *row, bench_measure measure, const char *reference, double bound) {
    if (!c->simulated) bench_target_add(row, measure, reference, bound);
}

static bool add_bare(bench_row *row, bench_kind kind, const char *name, bench_gpu_job asked) {
    bench_gpu_job *job = bench_gpu_job_open(asked);
    if (job) bench_add(row, kind, name, job, bench_gpu_block, bench_gpu_job_close);
    return job != NULL;
}

static bool finish_row(const gpu_case *c, bench_row *row, gpu_call *call, bool opened) {
    if (opened) bench_muster_add(row, "muster", call, call_block);
    bool ok = bench_run(row, c->options) && opened;
    return close_call(call) && ok;
}

static bool empty_row(const gpu_case *c) {
    bench_row row = {.block = {20, 200, 0}, .round_count = 100};
    gpu_call call = {0};
    if (!begin_row(c, &row, "empty call on one device")) return true;
    bool opened = create(&call, "cuda@0", "empty", nothing);
    add_bare(&row, BENCH_LIMIT, "bare launch, cuStreamSynchronize", (bench_gpu_job){.gpu = c->gpu, .work = BENCH_GPU_LAUNCH, .times = 1});
    add_bare(&row, BENCH_PEER, "bare launch, cuStreamQuery", (bench_gpu_job){.gpu = c->gpu, .work = BENCH_GPU_LAUNCH_POLL, .times = 1});
    target(c, &row, BENCH_DIFFERENCE_NS, "bare launch, cuStreamSynchronize", 2000);
    return finish_row(c, &row, &call, opened);
}

static bool scatter_row(const gpu_case *c, bool locked) {
    int64_t bytes = c->size.scatter;
    bench_row row = {.block = {1, 4, 0}, .round_count = 15, .items = (double)bytes / 1e6, .items_name = "MB/s"};
    gpu_call call = {0};
    char name[64];
    snprintf(name, sizeof name, "scatter of %lld bytes, %s memory", (long long)bytes, locked ? "page-locked" : "pageable");
    if (!begin_row(c, &row, name)) return true;
    void *pinned = bench_gpu_lock(c->gpu, bytes), *pageable = aligned_alloc(4096, (size_t)bytes);
    bool opened = pinned && pageable && create(&call, "cuda@0", "scatter", nothing) &&
                  bench_muster_ok(muster_function_input(call.function, "x", MUSTER_F32, 1, MUSTER_SCATTER), "muster");
    if (!pinned || !pageable)
        bench_log("not measured: %s: no memory", name);
    else {
        memset(pinned, 1, (size_t)bytes);
        memset(pageable, 1, (size_t)bytes);
        call.input = muster_f32(locked ? pinned : pageable, bytes / 4);
        add_bare(&row, BENCH_LIMIT, "bare copy from page-locked memory",
                 (bench_gpu_job){.gpu = c->gpu, .work = BENCH_GPU_COPY_IN, .times = 1, .bytes = bytes, .host = pinned});
        bench_parallel_copy *copy = locked ? NULL : bench_parallel_copy_open(pageable, bytes);
        if (copy) bench_add(&row, BENCH_PEER, "parallel memcpy", copy, bench_parallel_copy_block, bench_parallel_copy_close);
        target(c, &row, BENCH_SPEEDUP, "bare copy", locked ? 0.95 : 0.8);
        /* the smaller of the two: one of them is enough */
        if (!locked) target(c, &row, BENCH_SPEEDUP, "parallel memcpy", 0.9);
    }
    bool ok = finish_row(c, &row, &call, opened);
    if (pinned) bench_gpu_unlock(c->gpu, pinned);
    free(pageable);
    return ok;
}

/* Numbers in [-1, 1): products of zeros draw less power. Two matrices, one behind the other. */
static void *make_factors(muster_dtype dtype, int64_t count) {
    uint32_t random = 12345;
    size_t width = (size_t)muster_dtype_size(dtype);
    char *values = malloc(2 * (size_t)count * width);
    for (int64_t i = 0; values && i < 2 * count; i++) {
        float value = (float)(int32_t)(random = random * 1664525 + 1013904223) / 2147483648.0f;
        uint16_t half = muster_f32_to_bf16(value);
        memcpy(values + (size_t)i * width, dtype == MUSTER_F32 ? (void *)&value : (void *)&half, width);
    }
    return values;
}

static float element(muster_dtype dtype, const char *matrix, int64_t i) {
    float value;
    uint16_t half;
    if (dtype == MUSTER_F32) return memcpy(&value, matrix + i * 4, sizeof value), value;
    return memcpy(&half, matrix + i * 2, sizeof half), muster_bf16_to_f32(half);
}

/* One element of the last product, by a plain sum. */
static bool right_product(const gpu_call *call, muster_dtype dtype, int64_t n, const char *factors) {
    int64_t shape[] = {n, n}, row = n / 3, column = n / 5, bytes = n * n * muster_dtype_size(dtype);
    char *product = malloc((size_t)bytes);
    double expected = 0;
    bool ok =
        product && bench_muster_ok(muster_variable_get(call->variables[2], 0, muster_tensor_make(dtype, product, 2, shape)), "muster");
    for (int64_t k = 0; k < n; k++)
        expected += (double)element(dtype, factors, row * n + k) * element(dtype, factors + bytes, k * n + column);
    double got = ok ? element(dtype, product, row * n + column) : 0, apart = got > expected ? got - expected : expected - got;
    if (ok && apart > (dtype == MUSTER_F32 ? 1e-3 : 0.02 * (expected < 0 ? -expected : expected) + 1e-2)) {
        bench_log("a product is wrong: %g instead of %g", got, expected);
        ok = false;
    }
    free(product);
    return ok;
}

static bool gemm_row(const gpu_case *c, muster_dtype dtype, int64_t n, int32_t times) {
    bench_row row = {
        .block = {1, 5, 0}, .round_count = 20, .items = 2e-9 * (double)n * (double)n * (double)n * times, .items_name = "GFLOP/s"};
    gpu_call call = {.times = times};
    char name[80];
    snprintf(name, sizeof name, "%d product%s of %lld^3 %s in a call", times, times > 1 ? "s" : "", (long long)n, muster_dtype_name(dtype));
    if (!begin_row(c, &row, name)) return true;
    int64_t shape[] = {n, n}, bytes = n * n * muster_dtype_size(dtype);
    char *factors = make_factors(dtype, n * n);
    bool opened = factors && create(&call, "cuda@0", "gemm", multiply);
    for (int32_t i = 0; i < 3 && opened; i++)
        opened = add_variable(&call, i, muster_tensor_make(dtype, factors + (i % 2) * bytes, 2, shape));
    if (factors)
        add_bare(&row, BENCH_LIMIT, "bare cuBLAS",
                 (bench_gpu_job){.gpu = c->gpu,
                                 .work = dtype == MUSTER_BF16 ? BENCH_GPU_GEMM_BF16 : BENCH_GPU_GEMM_F32,
                                 .times = times,
                                 .bytes = bytes,
                                 .n = n,
                                 .host = factors});
    target(c, &row, BENCH_RATIO, "bare cuBLAS", 1.02);
    if (opened) bench_muster_add(&row, "muster", &call, call_block);
    bool ok = bench_run(&row, c->options) && opened && right_product(&call, dtype, n, factors);
    free(factors);
    return close_call(&call) && ok;
}

/* Every rank's input is read once and every rank's output written once: as much as four copies
 * move. */
static bool all_reduce_row(const gpu_case *c) {
    enum { TIMES = 4, RANKS = 4 };
    int64_t bytes = c->size.reduce;
    bench_row row = {.block = {1, 4, 0}, .round_count = 20, .items = 2e-6 * (double)bytes * RANKS * TIMES, .items_name = "MB/s moved"};
    gpu_call call = {.times = TIMES};
    char name[80];
    snprintf(name, sizeof name, "%d all_reduce of %lld bytes f32 on %d virtual devices", TIMES, (long long)bytes, RANKS);
    if (!begin_row(c, &row, name)) return true;
    float *values = malloc((size_t)bytes);
    for (int64_t i = 0; values && i < bytes / 4; i++) values[i] = (float)(i % 1000);
    bool opened = values && create(&call, "cuda@0+0+0+0", "all_reduce", all_reduce) &&
                  bench_muster_ok(muster_function_set_runs_without_rows(call.function, 1), "muster");
    for (int32_t i = 0; i < 2 && opened; i++) opened = add_variable(&call, i, muster_f32(values, bytes / 4));
    add_bare(&row, BENCH_LIMIT, "bare copies within the device",
             (bench_gpu_job){.gpu = c->gpu, .work = BENCH_GPU_COPY, .times = RANKS * TIMES, .bytes = bytes});
    target(c, &row, BENCH_SPEEDUP, "bare copies", 0.8);
    if (opened) bench_muster_add(&row, "muster", &call, call_block);
    bool ok = bench_run(&row, c->options) && opened;
    if (ok) ok = bench_muster_ok(muster_variable_get(call.variables[1], RANKS - 1, muster_f32(values, bytes / 4)), "muster");
    if (ok && values[777] != 777.0f * RANKS) {
        bench_log("%s: wrong: %g instead of %g", row.name, (double)values[777], 777.0 * RANKS);
        ok = false;
    }
    free(values);
    return close_call(&call) && ok;
}

bool bench_gpu_case(const bench_options *options) {
    bench_gpu *gpu = bench_gpu_open();
    if (!gpu) return false;
    gpu_case c = {gpu, options, real_sizes, bench_gpu_simulated(gpu)};
    if (c.simulated) c.size = small_sizes;
    bench_log("%s%s", c.simulated ? "SIMULATED, no measurement: " : "", bench_gpu_name(gpu));
    bool ok = empty_row(&c);
    ok = scatter_row(&c, true) && ok;
    ok = scatter_row(&c, false) && ok;
    ok = gemm_row(&c, MUSTER_BF16, c.size.large, 1) && ok;
    ok = gemm_row(&c, MUSTER_F32, c.size.small, (int32_t)c.size.queued) && ok;
    ok = all_reduce_row(&c) && ok;
    bench_gpu_close(gpu);
    return ok;
}
