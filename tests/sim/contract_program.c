#include "contract_program.h"

#include <stdio.h>
#include <stdlib.h>

static char *take_log(mst_nvrtc_program program) {
    size_t bytes = 0;
    assert_done(nvrtc.nvrtcGetProgramLogSize(program, &bytes));
    char *log = calloc(1, bytes + 1);
    assert_non_null(log);
    assert_done(nvrtc.nvrtcGetProgramLog(program, log));
    return log;
}

mst_nvrtc_result program_compile(const char *name, const char *text, const char *architecture, char **log, char **cubin) {
    mst_nvrtc_program program = NULL;
    char option[64];
    size_t bytes = 0;
    snprintf(option, sizeof option, "--gpu-architecture=%s", architecture);
    const char *options[] = {option, "--std=c++17", "--fmad=false"};
    assert_done(nvrtc.nvrtcCreateProgram(&program, text, name, 0, NULL, NULL));
    mst_nvrtc_result result = nvrtc.nvrtcCompileProgram(program, 3, options);
    if (log) *log = take_log(program);
    if (result == 0 && cubin) {
        assert_done(nvrtc.nvrtcGetCUBINSize(program, &bytes));
        *cubin = calloc(1, bytes + 1);
        assert_non_null(*cubin);
        assert_done(nvrtc.nvrtcGetCUBIN(program, *cubin));
    }
    assert_done(nvrtc.nvrtcDestroyProgram(&program));
    return result;
}

mst_cu_module program_load(const char *text) {
    int major = 0, minor = 0;
    char architecture[32], *log = NULL, *cubin = NULL;
    mst_cu_module module = NULL;
    assert_done(cu.cuDeviceGetAttribute(&major, MST_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, gpu.device));
    assert_done(cu.cuDeviceGetAttribute(&minor, MST_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, gpu.device));
    snprintf(architecture, sizeof architecture, "sm_%d%d", major, minor);
    mst_nvrtc_result result = program_compile("program.cu", text, architecture, &log, &cubin);
    if (result) fail_msg("%s", log);
    free(log);
    assert_done(cu.cuModuleLoadData(&module, cubin));
    free(cubin);
    return module;
}

mst_cu_function program_function(mst_cu_module module, const char *name) {
    mst_cu_function function = NULL;
    assert_done(cu.cuModuleGetFunction(&function, module, name));
    if (cu.cuFuncLoad) assert_done(cu.cuFuncLoad(function)); /* else its first launch does so, and waits for the device */
    return function;
}

mst_cu_result program_launch(mst_cu_function function, unsigned blocks, unsigned threads, unsigned shared, void **parameters) {
    return cu.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared, gpu.stream, parameters, NULL);
}

mst_cu_address program_memory(const void *bytes, size_t size) {
    mst_cu_address address = 0;
    assert_done(cu.cuMemAlloc_v2(&address, size));
    if (bytes) assert_done(cu.cuMemcpyHtoDAsync_v2(address, bytes, size, gpu.stream));
    return address;
}

void program_read(void *to, mst_cu_address from, size_t size) {
    assert_done(cu.cuMemcpyDtoHAsync_v2(to, from, size, gpu.stream));
    assert_done(cu.cuStreamSynchronize(gpu.stream));
}
