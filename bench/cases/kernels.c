/* Kernels of the user's: what a launch costs, how fast the memory is used, and how long the first
 * launch takes to come, beside bare OpenCL on the CPU cores and bare CUDA on a GPU. */
#include "kernels_start.h"

#include "collective.h"
#include "gpu.h"
#include "kernels.h"
#include "opencl.h"
#include "scale_add.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL = 64, THREADS = 64, QUEUED = 1000 };

/* ---- Muster's side ---- */

typedef struct kernel_call {
    muster_runtime *runtime;
    muster_function *function;
    muster_kernel *kernel;
    float a;
    muster_tensor x, y; /* of the host, or of the only device */
    int32_t launches;   /* in one call */
    bool by_elements;
    const bench_block *block;
    double *ns;
} kernel_call;

static muster_status launch(muster_worker *worker, const kernel_call *call, muster_tensor x, muster_tensor y) {
    const int64_t n = muster_tensor_count(y);
    const muster_argument arguments[] = {muster_argument_float(MUSTER_F32, call->a), muster_argument_buffer(x), muster_argument_buffer(y),
                                         muster_argument_size((uint64_t)n)};
    if (call->by_elements) return muster_kernel_launch_elements(worker, call->kernel, n, 0, arguments, 4);
    const muster_grid grid = {.dims = 1, .groups = {1}, .threads = {THREADS}};
    return muster_kernel_launch(worker, call->kernel, &grid, arguments, 4);
}

static muster_status launch_all(muster_worker *worker, const kernel_call *call, muster_tensor x, muster_tensor y) {
    for (int32_t i = 0; i < call->launches; i++) MUSTER_TRY(launch(worker, call, x, y));
    return muster_worker_sync(worker);
}

/* The clock is inside the body: a launch is measured, not a call. */
static muster_status timed(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    const kernel_call *call = user;
    muster_status status = MUSTER_OK;
    BENCH_TIME(call->block, call->ns, status = status ? status : launch_all(worker, call, call->x, call->y));
    return status;
}

static bool timed_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    kernel_call *call = self;
    (void)wrong;
    call->block = block;
    call->ns = ns;
    return bench_muster_ok(muster_function_call(call->function, NULL, 0, NULL, 0, NULL), "muster");
}

/* Every worker its part of both. */
static muster_status divided(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    const kernel_call *call = user;
    const int64_t n = muster_tensor_count(call->y), rank = muster_worker_rank(worker), size = muster_worker_size(worker);
    const int64_t begin = rank * n / size, end = (rank + 1) * n / size;
    return launch_all(worker, call, muster_tensor_slice(call->x, begin, end), muster_tensor_slice(call->y, begin, end));
}

static bool call_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    kernel_call *call = self;
    muster_status status = MUSTER_OK;
    (void)wrong;
    BENCH_TIME(block, ns, status = status ? status : muster_function_call(call->function, NULL, 0, NULL, 0, NULL));
    return bench_muster_ok(status, "muster");
}

static bool open_call(kernel_call *call, const char *devices, muster_body body) {
    muster_runtime_options options;
    muster_kernel_options threads;
    muster_runtime_options_init(&options);
    muster_kernel_options_init(&threads);
    options.devices = devices;
    threads.threads = (const int64_t[]){THREADS};
    threads.thread_count = 1;
    return bench_muster_ok(muster_runtime_open(&options, &call->runtime), "muster") &&
           bench_muster_ok(muster_kernel_create(call->runtime, "scale_add", bench_kernels_dialect, bench_kernels_parameters, 4, &threads,
                                                &call->kernel),
                           "muster") &&
           bench_muster_ok(muster_function_create(call->runtime, "kernels", body, call, &call->function), "muster") &&
           bench_muster_ok(muster_function_set_runs_without_rows(call->function, 1), "muster");
}

static bool close_call(kernel_call *call) { return !call->runtime || bench_muster_ok(muster_runtime_close(call->runtime), "muster"); }

static bool finish_row(bench_row *row, const bench_options *options, kernel_call *call, bool opened) {
    bool ok = bench_run(row, options) && opened;
    return close_call(call) && ok;
}

/* ---- on CPU cores ---- */

static void add_bare(bench_row *row, bench_kind kind, const char *name, bench_opencl_job asked) {
    bench_opencl_job *job = bench_opencl_job_open(asked);
    if (job) bench_add(row, kind, name, job, bench_opencl_block, bench_opencl_job_close);
}

/* One group of threads, so that the kernel itself is next to nothing. */
static bool launch_row(bench_opencl *cl, const bench_options *options, int32_t launches) {
    static float x[SMALL], y[SMALL];
    bench_row row = {.block = {launches > 1 ? 1 : 20, launches > 1 ? 5 : 200, 0}, .round_count = launches > 1 ? 60 : 100, .median = true};
    snprintf(row.name, sizeof row.name,
             launches > 1 ? "kernels: %d queued launches and a wait, 1 CPU core" : "kernels: a launch and a wait, 1 CPU core", launches);
    if (!bench_wanted(options, row.name)) return true;
    kernel_call call = {.a = 1, .x = muster_f32(x, SMALL), .y = muster_f32(y, SMALL), .launches = launches};
    bool opened = open_call(&call, "host:1", timed);
    bench_opencl_job job = {.cl = cl, .a = 1, .x = x, .y = y, .n = SMALL, .groups = 1, .threads = THREADS, .launches = launches};
    add_bare(&row, BENCH_LIMIT, "bare OpenCL, clFinish", job);
    job.polls = true;
    add_bare(&row, BENCH_PEER, "bare OpenCL, polling", job);
    if (opened) bench_muster_add(&row, "muster", &call, timed_block);
    bench_target_add(&row, BENCH_RATIO, "bare OpenCL, clFinish", 1.1);
    return finish_row(&row, options, &call, opened);
}

/* Sums of whole numbers that f32 holds: x is 1, so that every pass adds the same to all of y. */
static int64_t count_wrong(const float *y, int64_t n) {
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; i++) wrong += y[i] != y[0];
    return wrong + (y[0] < 1);
}

static bool memory_row(bench_opencl *cl, const bench_options *options) {
    const int64_t n = options->quick ? 1 << 20 : 64 << 20;
    bench_row row = {.block = {1, 2, 0}, .round_count = 12, .items = 12e-6 * (double)n, .items_name = "MB/s"};
    snprintf(row.name, sizeof row.name, "kernels: a*x+y over %lld Mi floats, all CPU cores", (long long)(n >> 20));
    if (!bench_wanted(options, row.name)) return true;
    float *x = collective_allocate(n), *y = collective_allocate(n);
    bench_pair *pair = bench_pair_open();
    for (int64_t i = 0; x && y && i < n; i++) x[i] = 1, y[i] = 0;
    kernel_call call = {.a = 1, .x = muster_f32(x, n), .y = muster_f32(y, n), .launches = 1, .by_elements = true};
    char devices[32];
    snprintf(devices, sizeof devices, "host:%d", bench_cores());
    bool opened = x && y && open_call(&call, devices, divided);
    bench_scale_add *limit = pair && x && y ? bench_scale_add_open(pair, 1, x, y, n) : NULL;
    if (limit)
        bench_add(&row, BENCH_LIMIT, "plain loops on two threads", limit, bench_scale_add_block, bench_scale_add_close);
    else
        bench_log("not measured: plain loops on two threads: one core, or no memory");
    const int64_t groups = (n / bench_opencl_queues(cl) + 255) / 256;
    if (x && y)
        add_bare(&row, BENCH_PEER, "bare OpenCL, a thread for each",
                 (bench_opencl_job){.cl = cl, .a = 1, .x = x, .y = y, .n = n, .groups = groups, .threads = 256, .launches = 1});
    if (opened) bench_muster_add(&row, "muster", &call, call_block);
    bench_target_add(&row, BENCH_SPEEDUP, "plain loops on two threads", 0.9);
    bool ok = finish_row(&row, options, &call, opened);
    const int64_t wrong = ok ? count_wrong(y, n) : 0;
    if (wrong) bench_log("%s: %lld numbers are wrong", row.name, (long long)wrong);
    bench_pair_close(pair);
    free(x);
    free(y);
    return ok && wrong == 0;
}

static bool on_cores(const bench_options *options) {
    bench_opencl *one = bench_opencl_open(1), *all = one ? bench_opencl_open(bench_cores()) : NULL;
    bool ok = true;
    if (one && all && bench_opencl_build(one, bench_kernels_opencl, "scale_add") &&
        bench_opencl_build(all, bench_kernels_opencl, "scale_add")) {
        bench_log("%s", bench_opencl_name(one));
        ok = launch_row(one, options, 1);
        ok = launch_row(one, options, QUEUED) && ok;
        ok = memory_row(all, options) && ok;
        ok = bench_kernels_start_rows(options) && ok;
    } else {
        bench_log("not measured: kernels on CPU cores");
    }
    bench_opencl_close(all);
    bench_opencl_close(one);
    return ok;
}

/* ---- on a GPU ---- */

static void add_bare_gpu(bench_row *row, bench_kind kind, const char *name, bench_gpu_job asked) {
    bench_gpu_job *job = bench_gpu_job_open(asked);
    if (job) bench_add(row, kind, name, job, bench_gpu_block, bench_gpu_job_close);
}

static bool begin_gpu_row(const bench_gpu *gpu, bench_row *row, const bench_options *options, const char *name) {
    const bool simulated = bench_gpu_simulated(gpu);
    snprintf(row->name, sizeof row->name, "%skernels: %s", simulated ? "SIMULATED, no measurement: " : "", name);
    if (simulated) {
        row->json = ", \"simulated\": true";
        row->round_count = 3;
        row->block = (bench_block){1, 2, 0};
    }
    return bench_wanted(options, row->name);
}

static bool place(kernel_call *call, int64_t n) {
    muster_tensor *both[] = {&call->x, &call->y};
    for (int i = 0; i < 2; i++)
        if (!bench_muster_ok(muster_runtime_tensor_create(call->runtime, NULL, MUSTER_F32, 1, &n, both[i]), "muster")) return false;
    return true;
}

static bool gpu_launch_row(bench_gpu *gpu, const bench_options *options, int32_t launches) {
    bench_row row = {.block = {launches > 1 ? 1 : 20, launches > 1 ? 10 : 200, 0}, .round_count = 60};
    if (!begin_gpu_row(gpu, &row, options, launches > 1 ? "queued launches and a wait, 1 GPU" : "a launch and a wait, 1 GPU")) return true;
    if (bench_gpu_simulated(gpu) && launches > 10) launches = 10;
    kernel_call call = {.a = 1, .launches = launches};
    bool opened = open_call(&call, "cuda@0", timed) && place(&call, SMALL);
    add_bare_gpu(&row, BENCH_LIMIT, "bare launches, cuStreamSynchronize",
                 (bench_gpu_job){.gpu = gpu, .work = BENCH_GPU_LAUNCH, .times = launches});
    add_bare_gpu(&row, BENCH_PEER, "bare launches, cuStreamQuery",
                 (bench_gpu_job){.gpu = gpu, .work = BENCH_GPU_LAUNCH_POLL, .times = launches});
    if (opened) bench_muster_add(&row, "muster", &call, timed_block);
    if (!bench_gpu_simulated(gpu)) bench_target_add(&row, BENCH_RATIO, "bare launches, cuStreamSynchronize", 1.1);
    return finish_row(&row, options, &call, opened);
}

/* A copy reads and writes a byte where a*x+y reads two and writes one: one and a half times as many
 * bytes copied move as much. */
static bool gpu_memory_row(bench_gpu *gpu, const bench_options *options) {
    const int64_t n = bench_gpu_simulated(gpu) ? 1 << 16 : 64 << 20;
    bench_row row = {.block = {1, 10, 0}, .round_count = 20, .items = 12e-6 * (double)n, .items_name = "MB/s"};
    if (!begin_gpu_row(gpu, &row, options, "a*x+y over 64 Mi floats, 1 GPU")) return true;
    kernel_call call = {.a = 1, .launches = 1, .by_elements = true};
    bool opened = open_call(&call, "cuda@0", timed) && place(&call, n);
    add_bare_gpu(&row, BENCH_LIMIT, "bare copy of as many bytes",
                 (bench_gpu_job){.gpu = gpu, .work = BENCH_GPU_COPY, .times = 1, .bytes = 6 * n});
    if (opened) bench_muster_add(&row, "muster", &call, timed_block);
    if (!bench_gpu_simulated(gpu)) bench_target_add(&row, BENCH_SPEEDUP, "bare copy of as many bytes", 0.9);
    return finish_row(&row, options, &call, opened);
}

static bool on_gpu(const bench_options *options) {
    bench_gpu *gpu = bench_gpu_open();
    if (!gpu) return true; /* it has said so */
    bench_log("%s%s", bench_gpu_simulated(gpu) ? "SIMULATED, no measurement: " : "", bench_gpu_name(gpu));
    bool ok = gpu_launch_row(gpu, options, 1);
    ok = gpu_launch_row(gpu, options, QUEUED) && ok;
    ok = gpu_memory_row(gpu, options) && ok;
    bench_gpu_close(gpu);
    return ok;
}

bool bench_kernels(const bench_options *options) {
    bool ok = on_cores(options);
    return on_gpu(options) && ok;
}
