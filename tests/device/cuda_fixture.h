/* Devices of a simulated machine, for the tests of the CUDA backend. */
#ifndef MST_CUDA_FIXTURE_H
#define MST_CUDA_FIXTURE_H

#include "base_check.h"
#include "cuda/cuda_api_private.h"
#include "cuda/cuda_impl.h"
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

#define MAYBE_UNUSED __attribute__((unused))

static int64_t fixture_live;

/* A machine, and nothing else. */
static MAYBE_UNUSED void new_machine(const muster_sim_options *options) {
    muster_sim_reset(options);
    mst_cuda_forget_lost();
    fixture_live = mst_memory_live();
}

/* Nobody broke a rule, and nothing is left. */
static MAYBE_UNUSED void check_machine(void) {
    char notice[MST_MESSAGE_SIZE];
    if (muster_sim_hazard_count()) fail_msg("hazards:\n%s", muster_sim_hazards());
    if (muster_sim_check_leaks()) fail_msg("leaks:\n%s", muster_sim_hazards());
    assert_int_equal(mst_memory_live(), fixture_live);
    if (mst_cuda_take_notice(notice)) fail_msg("a notice that nobody expected: %s", notice);
}

static MAYBE_UNUSED mst_device *opened(const char *id) {
    mst_device *device = NULL;
    assert_ok(mst_cuda_device_table.open(&mst_cuda_device_table, id, &device));
    return device;
}

static MAYBE_UNUSED void closed(mst_device *device) { device->table->close(device); }

/* Each test by itself: a machine with delays, and a device. */
static MAYBE_UNUSED int begin_test(void **state) {
    new_machine(&(muster_sim_options){.devices = 2, .longest_delay = 100, .seed = 7});
    *state = opened("0");
    return 0;
}

static MAYBE_UNUSED int end_test(void **state) {
    closed(*state);
    check_machine();
    return 0;
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, begin_test, end_test)

static MAYBE_UNUSED void *allocated(mst_device *device, int64_t bytes) {
    void *address = NULL;
    assert_ok(device->memory->allocate(device, bytes, &address));
    assert_non_null(address);
    return address;
}

/* The calls that make the code of kernels, in their order, each with an error of its own. */
static MAYBE_UNUSED const struct {
    const char *symbol;
    int code;
} code_calls[] = {{"nvrtcVersion", 11},
                  {"nvrtcGetNumSupportedArchs", 11},
                  {"nvrtcGetSupportedArchs", 11},
                  {"nvrtcCreateProgram", 1},
                  {"nvrtcCompileProgram", 11},
                  {"nvrtcGetCUBINSize", 11},
                  {"nvrtcGetCUBIN", 11},
                  {"cuModuleLoadData", MST_CU_NO_BINARY_FOR_GPU},
                  {"cuModuleGetFunction", MST_CU_NOT_FOUND},
                  {"cuFuncGetAttribute", MST_CU_OPERATING_SYSTEM}};
enum { CODE_CALLS = sizeof code_calls / sizeof *code_calls };

static MAYBE_UNUSED const mst_cuda_api *driver(void) {
    const mst_cuda_api *api = NULL;
    assert_ok(mst_cuda_api_get(&api));
    return api;
}

/* A value of one place that differs from those beside it. */
static MAYBE_UNUSED unsigned char pattern_at(int64_t i, int seed) { return (unsigned char)(i * 31 + i / 251 + seed); }

static MAYBE_UNUSED unsigned char *patterned(int64_t bytes, int seed) {
    unsigned char *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    for (int64_t i = 0; i < bytes; i++) memory[i] = pattern_at(i, seed);
    return memory;
}

static MAYBE_UNUSED void check_pattern(const unsigned char *memory, int64_t bytes, int seed) {
    for (int64_t i = 0; i < bytes; i++) {
        if (memory[i] != pattern_at(i, seed)) fail_msg("byte %lld is %d instead of %d", (long long)i, memory[i], pattern_at(i, seed));
    }
}

#endif
