/* The bare GPU: the driver, cuBLAS and NVRTC without Muster, opened at run time as it opens them.
 * One device, its primary context, one stream. Not for the caller's thread to
 * share: every block makes the context current and puts back what was. */
#ifndef BENCH_GPU_H
#define BENCH_GPU_H

#include "bench.h"

typedef struct bench_gpu bench_gpu;

/* NULL: no driver or no device; says why. */
bench_gpu *bench_gpu_open(void);
void bench_gpu_close(bench_gpu *gpu);
bool bench_gpu_simulated(const bench_gpu *gpu); /* the machine of the tests: what it takes means nothing */
const char *bench_gpu_name(const bench_gpu *gpu);

/* Page-locked host memory; NULL: none. */
void *bench_gpu_lock(bench_gpu *gpu, int64_t bytes);
void bench_gpu_unlock(bench_gpu *gpu, void *memory);

/* A contender's work, repeated `times` in each call, and then one wait. */
typedef enum {
    BENCH_GPU_LAUNCH,      /* an empty kernel; cuStreamSynchronize */
    BENCH_GPU_LAUNCH_POLL, /* the same; cuStreamQuery until it is done */
    BENCH_GPU_COPY_IN,     /* bytes from page-locked memory */
    BENCH_GPU_COPY,        /* bytes within the device */
    BENCH_GPU_GEMM_BF16,
    BENCH_GPU_GEMM_F32 /* n x n x n, row-major */
} bench_gpu_work;

typedef struct bench_gpu_job {
    bench_gpu *gpu;
    bench_gpu_work work;
    int32_t times;
    int64_t bytes, n;
    const void *host; /* what is copied in, or both factors, one after the other */
    unsigned long long device[3];
} bench_gpu_job;

/* NULL: the device lacks memory, cuBLAS or a compiler; says so. close gives back what open took. */
bench_gpu_job *bench_gpu_job_open(bench_gpu_job job);
bool bench_gpu_block(void *job, const bench_block *block, double *ns, int64_t *wrong);
void bench_gpu_job_close(void *job);

#endif
