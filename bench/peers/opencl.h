/* Bare OpenCL on the CPU cores: a program of its own without Muster, in the way that Muster has its
 * devices there: one context over sub-devices of one core each, an in-order queue and a kernel
 * object for each, buffers over memory of the program's. Its buffers are made once. */
#ifndef BENCH_OPENCL_H
#define BENCH_OPENCL_H

#include "bench.h"

typedef struct bench_opencl bench_opencl;

enum { BENCH_OPENCL_QUEUES = 16 };

/* NULL: no OpenCL, or no device for CPU cores; says why. queues: at most so many cores, 1 to 16. */
bench_opencl *bench_opencl_open(int32_t queues);
void bench_opencl_close(bench_opencl *cl);
const char *bench_opencl_name(const bench_opencl *cl);
int32_t bench_opencl_queues(const bench_opencl *cl);

/* Builds `source` for its devices and makes the kernel `name`, which has the parameters (float a,
 * global const float *x, global float
 * *y, ulong n): y = a x + y. false: says what the compiler said. */
bool bench_opencl_build(bench_opencl *cl, const char *source, const char *name);

/* Each of `launches` in a call does all of y, split over the queues; then a wait for all of them.
 * polls: looks at the last events' status until they are done, in place of clFinish. */
typedef struct bench_opencl_job {
    bench_opencl *cl;
    float a;
    const float *x;
    float *y;
    int64_t n, groups, threads; /* groups and threads of each queue's launch */
    int32_t launches;
    bool polls;
    void *buffers[BENCH_OPENCL_QUEUES][2];
} bench_opencl_job;

/* NULL: says why. */
bench_opencl_job *bench_opencl_job_open(bench_opencl_job asked);
bool bench_opencl_block(void *job, const bench_block *block, double *ns, int64_t *wrong);
void bench_opencl_job_close(void *job);

#endif
