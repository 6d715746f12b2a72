/* The kernel of the case `kernels`, y = a x + y: for Muster, and for bare OpenCL. */
#ifndef BENCH_KERNELS_H
#define BENCH_KERNELS_H

#include "muster_case.h"

static const char bench_kernels_dialect[] =
    "KERNEL void scale_add(ga_float a, GLOBAL_MEM const ga_float *x, GLOBAL_MEM ga_float *y, ga_size n) {\n"
    "    MUSTER_EACH(i, n) y[i] = a * x[i] + y[i];\n"
    "}\n";
static const int32_t bench_kernels_parameters[] = {MUSTER_F32, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_SIZE};
/* As a program for OpenCL alone would write it: a thread for each number. */
static const char bench_kernels_opencl[] = "__kernel void scale_add(float a, __global const float *x, __global float *y, ulong n) {\n"
                                           "    size_t i = get_global_id(0);\n"
                                           "    if (i < n) y[i] = a * x[i] + y[i];\n"
                                           "}\n";

#endif
