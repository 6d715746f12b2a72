/* A program that adds 1 to each element, and reading what it has made, for the tests of programs on
 * GPUs. */
#ifndef MST_CUDA_INCREMENT_H
#define MST_CUDA_INCREMENT_H

#include "cuda_fixture.h"
#include "program_support.h"

static MAYBE_UNUSED const source increment = {
    .name = "increment",
    .text = "extern \"C\" __global__ void increment(float *a, unsigned long long n) {\n"
            "    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < "
            "n; i += (unsigned long long)gridDim.x * blockDim.x) a[i] += 1;\n"
            "}\n",
    .parameters = {{BUFFER}, {8}},
    .count = 2};

static MAYBE_UNUSED void read_back(mst_device *device, void *to, const void *from, int64_t bytes) {
    assert_ok(device->memory->copy_out(device, to, from, bytes));
    assert_ok(device->table->synchronize(device));
}

#endif
