#include "contract_support.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

mst_cuda_api cu;
mst_cublas_api blas;
mst_cudnn_api dnn;
mst_nvrtc_api nvrtc;
contract_device gpu;

#define MST_FOREIGN_STRUCT mst_cuda_api
static const mst_foreign_symbol cuda_symbols[] = {MST_CUDA_SYMBOLS(MST_FOREIGN_NEEDED) MST_CUDA_OPTIONAL_SYMBOLS(MST_FOREIGN_OPTIONAL)};
#undef MST_FOREIGN_STRUCT
#define MST_FOREIGN_STRUCT mst_cublas_api
static const mst_foreign_symbol cublas_symbols[] = {MST_CUBLAS_SYMBOLS(MST_FOREIGN_NEEDED)
                                                        MST_CUBLAS_OPTIONAL_SYMBOLS(MST_FOREIGN_OPTIONAL)};
#undef MST_FOREIGN_STRUCT
#define MST_FOREIGN_STRUCT mst_cudnn_api
static const mst_foreign_symbol cudnn_symbols[] = {MST_CUDNN_SYMBOLS(MST_FOREIGN_NEEDED)};
#undef MST_FOREIGN_STRUCT
#define MST_FOREIGN_STRUCT mst_nvrtc_api
static const mst_foreign_symbol nvrtc_symbols[] = {MST_NVRTC_SYMBOLS(MST_FOREIGN_NEEDED)};
#undef MST_FOREIGN_STRUCT

static void *open_one(const char *soname) {
    const char *folder = getenv("MUSTER_CUDA_LIBRARIES");
    char path[4096];
    snprintf(path, sizeof path, "%s%s%s", folder ? folder : "", folder ? "/" : "", soname);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static bool open_library(const char *const *sonames, const mst_foreign_symbol *symbols, int count, void *functions) {
    void *library = NULL;
    for (int i = 0; sonames[i] && !library; i++) library = open_one(sonames[i]);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return false;
    }
    for (int i = 0; i < count; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address && !symbols[i].optional) {
            fprintf(stderr, "%s lacks %s\n", sonames[0], symbols[i].name);
            return false;
        }
        memcpy((char *)functions + symbols[i].offset, &address, sizeof address);
    }
    return true;
}

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))
bool contract_open_cuda(void) { return open_library((const char *const[]){"libcuda.so.1", NULL}, cuda_symbols, COUNT(cuda_symbols), &cu); }
bool contract_open_cublas(void) {
    return open_library((const char *const[]){"libcublas.so.13", "libcublas.so.12", NULL}, cublas_symbols, COUNT(cublas_symbols), &blas);
}
bool contract_open_cudnn(void) {
    return open_library((const char *const[]){"libcudnn.so.9", NULL}, cudnn_symbols, COUNT(cudnn_symbols), &dnn);
}
bool contract_open_nvrtc(void) {
    return open_library((const char *const[]){"libnvrtc.so.13", "libnvrtc.so.12", NULL}, nvrtc_symbols, COUNT(nvrtc_symbols), &nvrtc);
}

char *contract_read(const char *path) {
    char whole[4096];
    snprintf(whole, sizeof whole, "%s/%s", SOURCES, path);
    FILE *file = fopen(whole, "r");
    if (!file) fail_msg("%s cannot be read", whole);
    char *text = NULL;
    size_t room = 0;
    if (getdelim(&text, &room, 0, file) < 0) fail_msg("%s is empty", whole);
    fclose(file);
    return text;
}

static const struct {
    const char *name, *path;
} headers[] = {{"mst_device.cuh", "lib/device/code/mst_device.cuh"},
               {"contract_parameters.h", "tests/sim/contract_parameters.h"},
               {"stdint.h", "lib/device/code/nvrtc/stdint.h"},
               {"stddef.h", "lib/device/code/nvrtc/stddef.h"},
               {"string.h", "lib/device/code/nvrtc/string.h"}};

mst_nvrtc_program contract_program(const char *text) {
    char *texts[COUNT(headers)];
    const char *names[COUNT(headers)];
    for (int i = 0; i < COUNT(headers); i++) {
        texts[i] = contract_read(headers[i].path);
        names[i] = headers[i].name;
    }
    mst_nvrtc_program program = NULL;
    assert_done(nvrtc.nvrtcCreateProgram(&program, text, "contract.cu", COUNT(headers), (const char *const *)texts, names));
    for (int i = 0; i < COUNT(headers); i++) free(texts[i]);
    return program;
}

void contract_show_log(mst_nvrtc_program program) {
    size_t bytes = 0;
    if (nvrtc.nvrtcGetProgramLogSize(program, &bytes)) return;
    char *log = calloc(1, bytes + 1);
    if (log && nvrtc.nvrtcGetProgramLog(program, log) == 0) fprintf(stderr, "%s\n", log);
    free(log);
}

char *contract_compile(const char *option) {
    char *text = contract_read("tests/sim/contract.cu");
    mst_nvrtc_program program = contract_program(text);
    const char *options[] = {option, "--std=c++17", "--device-as-default-execution-space"};
    size_t bytes = 0;
    mst_nvrtc_result result = nvrtc.nvrtcCompileProgram(program, 3, options);
    if (result) contract_show_log(program);
    assert_done(result);
    assert_done(nvrtc.nvrtcGetCUBINSize(program, &bytes));
    assert_true(bytes > 0);
    char *cubin = calloc(1, bytes + 1);
    assert_non_null(cubin);
    assert_done(nvrtc.nvrtcGetCUBIN(program, cubin));
    assert_done(nvrtc.nvrtcDestroyProgram(&program));
    free(text);
    return cubin;
}

int contract_setup(void **state) {
    (void)state;
    if (cu.cuInit(0) || cu.cuDeviceGet(&gpu.device, 0) || cu.cuDevicePrimaryCtxRetain(&gpu.context, gpu.device)) return -1;
    return cu.cuCtxSetCurrent(gpu.context) || cu.cuStreamCreate(&gpu.stream, MST_CU_STREAM_NON_BLOCKING) ? -1 : 0;
}

int contract_teardown(void **state) {
    (void)state;
    return cu.cuStreamDestroy_v2(gpu.stream) || cu.cuCtxSetCurrent(NULL) || cu.cuDevicePrimaryCtxRelease_v2(gpu.device) ? -1 : 0;
}
