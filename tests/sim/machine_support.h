/* A fresh machine for each test of the machine itself, with device 0's context current, a stream
 * and a page of memory. */
#ifndef MUSTER_SIM_MACHINE_SUPPORT_H
#define MUSTER_SIM_MACHINE_SUPPORT_H

#include "contract_parameters.h"
#include "contract_support.h"
#include "program_calls.h"
#include "sim_impl.h"

#include <stdio.h>
#include <stdlib.h>

static inline int machine_open(void) { return contract_open_cuda() && contract_open_cublas() && contract_open_nvrtc() ? 0 : -1; }

static inline int machine_begin(void **state) {
    muster_sim_reset(&(muster_sim_options){.devices = 4, .memory = 64 << 20, .seed = 7, .longest_delay = 50});
    return contract_setup(state);
}

static inline int machine_end(void **state) {
    (void)state;
    muster_sim_reset(NULL);
    return 0;
}

static inline void *pointer_to(mst_cu_address address) { return (void *)(uintptr_t)address; }

static inline mst_cu_address allocate(size_t bytes) {
    mst_cu_address address = 0;
    assert_done(cu.cuMemAlloc_v2(&address, bytes));
    return address;
}

static inline mst_cu_function load_kernel(const char *name, mst_cu_module *module) {
    mst_cu_function function = NULL;
    char *cubin = contract_compile("--gpu-architecture=sm_90");
    assert_done(cu.cuModuleLoadData(module, cubin));
    assert_done(cu.cuModuleGetFunction(&function, *module, name));
    assert_done(cu.cuFuncLoad(function)); /* else its first launch does so, and waits for the device */
    free(cubin);
    return function;
}

static inline mst_cu_result launch_scale(mst_cu_function function, mst_cu_stream stream, mst_cu_address from, mst_cu_address to,
                                         int64_t count, float factor) {
    contract_parameters p = {.count = count, .from = pointer_to(from), .to = pointer_to(to), .factor = factor};
    return cu.cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, stream, (void *[]){&p}, NULL);
}

#define machine_test(name) cmocka_unit_test_setup_teardown(name, machine_begin, machine_end)

#endif
