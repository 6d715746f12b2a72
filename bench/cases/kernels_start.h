/* How long a new process waits for its first kernel, and for further ones. */
#ifndef BENCH_KERNELS_START_H
#define BENCH_KERNELS_START_H

#include "bench.h"

bool bench_kernels_start_rows(const bench_options *options);
/* What the measured process does, as the environment's MUSTER_BENCH_START asks: "muster" or
 * "opencl". Prints the nanoseconds of the first kernel, and of the rest each. */
bool bench_kernels_start(const bench_options *options);

#endif
