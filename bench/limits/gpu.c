#include "gpu.h"

#include "cublas_api_private.h"
#include "cuda_api_private.h"
#include "nvrtc_api_private.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct bench_gpu {
    mst_cuda_api cuda;
    mst_cublas_api blas;
    mst_nvrtc_api nvrtc;
    mst_cu_context context;
    mst_cu_stream stream;
    mst_cu_function empty;    /* NULL: no compiler */
    mst_cublas_handle handle; /* NULL: no cuBLAS */
    bool simulated;
    char name[96];
};

#define MST_FOREIGN_STRUCT mst_cuda_api
static const mst_foreign_symbol cuda_symbols[] = {MST_CUDA_SYMBOLS(MST_FOREIGN_NEEDED)};
#undef MST_FOREIGN_STRUCT
#define MST_FOREIGN_STRUCT mst_cublas_api
static const mst_foreign_symbol blas_symbols[] = {MST_CUBLAS_SYMBOLS(MST_FOREIGN_NEEDED)};
#undef MST_FOREIGN_STRUCT
#define MST_FOREIGN_STRUCT mst_nvrtc_api
static const mst_foreign_symbol nvrtc_symbols[] = {MST_NVRTC_SYMBOLS(MST_FOREIGN_NEEDED)};
#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

static void *open_library(const char *soname) {
    char path[4096];
    const char *folder = getenv("MUSTER_CUDA_LIBRARIES");
    snprintf(path, sizeof path, "%s%s%s", folder ? folder : "", folder ? "/" : "", soname);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *open_symbols(const char *const sonames[2], const mst_foreign_symbol *symbols, int count, void *functions) {
    void *library = NULL;
    for (int i = 0; i < 2 && sonames[i] && !library; i++) library = open_library(sonames[i]);
    for (int i = 0; library && i < count; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address) return NULL;
        memcpy((char *)functions + symbols[i].offset, &address, sizeof address);
    }
    return library;
}

/* ---- open ---- */

static bool made(mst_cu_result result) { return result == MST_CU_SUCCESS; }

static void enter(bench_gpu *gpu) { gpu->cuda.cuCtxPushCurrent_v2(gpu->context); }
static void leave(bench_gpu *gpu) {
    mst_cu_context popped;
    gpu->cuda.cuCtxPopCurrent_v2(&popped);
}

/* An empty kernel for exactly this device. */
static void compile_empty(bench_gpu *gpu, mst_cu_device device) {
    int major = 0, minor = 0;
    size_t bytes = 0;
    char option[64], *cubin = NULL;
    const char *const options[] = {option};
    mst_nvrtc_program program = NULL;
    mst_cu_module module;
    if (!open_symbols((const char *const[2]){"libnvrtc.so.13", "libnvrtc.so.12"}, nvrtc_symbols, COUNT(nvrtc_symbols), &gpu->nvrtc)) return;
    gpu->cuda.cuDeviceGetAttribute(&major, MST_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    gpu->cuda.cuDeviceGetAttribute(&minor, MST_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    snprintf(option, sizeof option, "--gpu-architecture=sm_%d%d", major, minor);
    if (gpu->nvrtc.nvrtcCreateProgram(&program, "extern \"C\" __global__ void empty() {}", "empty.cu", 0, NULL, NULL) != MST_NVRTC_SUCCESS)
        return;
    if (gpu->nvrtc.nvrtcCompileProgram(program, 1, options) == MST_NVRTC_SUCCESS &&
        gpu->nvrtc.nvrtcGetCUBINSize(program, &bytes) == MST_NVRTC_SUCCESS && (cubin = malloc(bytes)) != NULL &&
        gpu->nvrtc.nvrtcGetCUBIN(program, cubin) == MST_NVRTC_SUCCESS && made(gpu->cuda.cuModuleLoadData(&module, cubin)) &&
        !made(gpu->cuda.cuModuleGetFunction(&gpu->empty, module, "empty")))
        gpu->empty = NULL;
    free(cubin);
    gpu->nvrtc.nvrtcDestroyProgram(&program);
}

static void open_blas(bench_gpu *gpu) {
    if (!open_symbols((const char *const[2]){"libcublas.so.13", "libcublas.so.12"}, blas_symbols, COUNT(blas_symbols), &gpu->blas)) return;
    if (gpu->blas.cublasCreate_v2(&gpu->handle) != MST_CUBLAS_SUCCESS)
        gpu->handle = NULL;
    else
        gpu->blas.cublasSetStream_v2(gpu->handle, gpu->stream);
}

static const char *open_device(bench_gpu *gpu) {
    void *driver = open_symbols((const char *const[2]){"libcuda.so.1", NULL}, cuda_symbols, COUNT(cuda_symbols), &gpu->cuda);
    mst_cu_device device;
    if (!driver) return "no libcuda.so.1";
    gpu->simulated = dlsym(driver, "muster_simulated") != NULL;
    if (!made(gpu->cuda.cuInit(0)) || !made(gpu->cuda.cuDeviceGet(&device, 0))) return "no device";
    gpu->cuda.cuDeviceGetName(gpu->name, sizeof gpu->name, device);
    if (!made(gpu->cuda.cuDevicePrimaryCtxRetain(&gpu->context, device))) return "no context";
    enter(gpu);
    bool stream = made(gpu->cuda.cuStreamCreate(&gpu->stream, MST_CU_STREAM_NON_BLOCKING));
    if (stream) {
        compile_empty(gpu, device);
        open_blas(gpu);
    }
    leave(gpu);
    return stream ? NULL : "no stream";
}

bench_gpu *bench_gpu_open(void) {
    bench_gpu *gpu = calloc(1, sizeof *gpu);
    const char *reason = gpu ? open_device(gpu) : "no memory";
    if (!reason) return gpu;
    bench_log("not measured: the GPU: %s", reason);
    free(gpu); /* what was opened lasts as long as the process, which ends here */
    return NULL;
}

/* Module and context live on until the process ends. */
void bench_gpu_close(bench_gpu *gpu) {
    if (!gpu) return;
    enter(gpu);
    if (gpu->handle) gpu->blas.cublasDestroy_v2(gpu->handle);
    gpu->cuda.cuStreamDestroy_v2(gpu->stream);
    leave(gpu);
    free(gpu);
}

bool bench_gpu_simulated(const bench_gpu *gpu) { return gpu->simulated; }
const char *bench_gpu_name(const bench_gpu *gpu) { return gpu->name; }

void *bench_gpu_lock(bench_gpu *gpu, int64_t bytes) {
    void *memory = NULL;
    enter(gpu);
    if (!made(gpu->cuda.cuMemHostAlloc(&memory, (size_t)bytes, MST_CU_HOST_ALLOC_PORTABLE))) memory = NULL;
    leave(gpu);
    return memory;
}

void bench_gpu_unlock(bench_gpu *gpu, void *memory) {
    enter(gpu);
    gpu->cuda.cuMemFreeHost(memory);
    leave(gpu);
}

/* ---- jobs ---- */

static bool is_gemm(const bench_gpu_job *job) { return job->work == BENCH_GPU_GEMM_BF16 || job->work == BENCH_GPU_GEMM_F32; }

static const char *lacks(const bench_gpu_job *job) {
    if (is_gemm(job) && !job->gpu->handle) return "no cuBLAS";
    return job->work <= BENCH_GPU_LAUNCH_POLL && !job->gpu->empty ? "no kernel: no NVRTC that compiles for this device" : NULL;
}

static bool take_memory(bench_gpu_job *job) {
    int blocks = is_gemm(job) ? 3 : job->work == BENCH_GPU_COPY ? 2 : job->work == BENCH_GPU_COPY_IN ? 1 : 0;
    for (int i = 0; i < blocks; i++)
        if (!made(job->gpu->cuda.cuMemAlloc_v2(&job->device[i], (size_t)job->bytes))) return false;
    for (int i = 0; i < 2 && is_gemm(job); i++)
        if (!made(job->gpu->cuda.cuMemcpyHtoDAsync_v2(job->device[i], (const char *)job->host + i * job->bytes, (size_t)job->bytes,
                                                      job->gpu->stream)))
            return false;
    return made(job->gpu->cuda.cuStreamSynchronize(job->gpu->stream));
}

bench_gpu_job *bench_gpu_job_open(bench_gpu_job asked) {
    const char *reason = lacks(&asked);
    bench_gpu_job *job = reason ? NULL : malloc(sizeof *job);
    if (job) {
        *job = asked;
        enter(job->gpu);
        if (!take_memory(job)) reason = "not enough memory on the device";
        leave(job->gpu);
    }
    if (!reason && job) return job;
    bench_log("not measured: the bare GPU: %s", reason ? reason : "no memory");
    if (job) bench_gpu_job_close(job);
    return NULL;
}

void bench_gpu_job_close(void *self) {
    bench_gpu_job *job = self;
    enter(job->gpu);
    for (int i = 0; i < 3; i++)
        if (job->device[i]) job->gpu->cuda.cuMemFree_v2(job->device[i]);
    leave(job->gpu);
    free(job);
}

/* Row-major C = A B is the column-major C' = B' A'. */
static bool multiply(const bench_gpu_job *job) {
    float one = 1, zero = 0;
    int n = (int)job->n;
    unsigned type = job->work == BENCH_GPU_GEMM_BF16 ? MST_CUBLAS_R_16BF : MST_CUBLAS_R_32F;
    const void *a = (const void *)(uintptr_t)job->device[0], *b = (const void *)(uintptr_t)job->device[1];
    return job->gpu->blas.cublasGemmEx(job->gpu->handle, MST_CUBLAS_N, MST_CUBLAS_N, n, n, n, &one, b, type, n, a, type, n, &zero,
                                       (void *)(uintptr_t)job->device[2], type, n, MST_CUBLAS_COMPUTE_32F,
                                       MST_CUBLAS_GEMM_DEFAULT) == MST_CUBLAS_SUCCESS;
}

static bool issue(const bench_gpu_job *job) {
    bench_gpu *gpu = job->gpu;
    switch (job->work) {
    case BENCH_GPU_LAUNCH:
    case BENCH_GPU_LAUNCH_POLL:
        return made(gpu->cuda.cuLaunchKernel(gpu->empty, 1, 1, 1, 32, 1, 1, 0, gpu->stream, NULL, NULL));
    case BENCH_GPU_COPY_IN:
        return made(gpu->cuda.cuMemcpyHtoDAsync_v2(job->device[0], job->host, (size_t)job->bytes, gpu->stream));
    case BENCH_GPU_COPY:
        return made(gpu->cuda.cuMemcpyDtoDAsync_v2(job->device[1], job->device[0], (size_t)job->bytes, gpu->stream));
    default:
        return multiply(job);
    }
}

static bool wait_for(const bench_gpu_job *job) {
    if (job->work != BENCH_GPU_LAUNCH_POLL) return made(job->gpu->cuda.cuStreamSynchronize(job->gpu->stream));
    mst_cu_result result;
    while ((result = job->gpu->cuda.cuStreamQuery(job->gpu->stream)) == MST_CU_NOT_READY) bench_relax();
    return made(result);
}

static bool once(const bench_gpu_job *job) {
    bool ok = true;
    for (int32_t i = 0; i < job->times && ok; i++) ok = issue(job);
    return wait_for(job) && ok;
}

bool bench_gpu_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    bench_gpu_job *job = self;
    bool ok = true;
    (void)wrong;
    enter(job->gpu);
    BENCH_TIME(block, ns, ok = once(job) && ok);
    leave(job->gpu);
    return ok;
}
