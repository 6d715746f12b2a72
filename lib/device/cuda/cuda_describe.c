/* The description of a runtime's GPUs. */
#include "cuda_convolution_impl.h"
#include "cuda_device_private.h"
#include "nvrtc_api_private.h"

#include <stdio.h>

enum { VERSION_SIZE = 32 };

/* cuBLAS reports 12.8.4 as 120804. */
static void cublas_version(const mst_cuda *cuda, char text[VERSION_SIZE]) {
    int version = 0;
    if (cuda->blas_api->cublasGetVersion_v2(cuda->blas, &version) != MST_CUBLAS_SUCCESS)
        snprintf(text, VERSION_SIZE, "of an unknown version");
    else
        snprintf(text, VERSION_SIZE, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

static void nvrtc_version(char text[VERSION_SIZE]) {
    const mst_nvrtc_api *api;
    int major = 0, minor = 0;
    char before[MST_MESSAGE_SIZE];
    mst_error_save(before);
    if (mst_nvrtc_api_get(&api) != MUSTER_OK || api->nvrtcVersion(&major, &minor) != MST_NVRTC_SUCCESS) {
        snprintf(text, VERSION_SIZE, "of an unknown version");
        (void)mst_error_restore(MUSTER_OK, before);
    } else {
        snprintf(text, VERSION_SIZE, "%d.%d", major, minor);
    }
}

void mst_cuda_describe_blas(const mst_device *device, char *text, size_t size) {
    char version[VERSION_SIZE];
    cublas_version(mst_cuda_of(device), version);
    snprintf(text, size, "cuBLAS %s", version);
}

void mst_cuda_describe_libraries(const mst_device *device, char *text, size_t size) {
    char blas[VERSION_SIZE], nvrtc[VERSION_SIZE], cudnn[VERSION_SIZE];
    const int driver = mst_cuda_driver_version();
    cublas_version(mst_cuda_of(device), blas);
    nvrtc_version(nvrtc);
    mst_cuda_describe_cudnn(cudnn, sizeof cudnn);
    snprintf(text, size, "driver for CUDA %d.%d%s, cuBLAS %s, NVRTC %s, %s%s", driver / 1000, driver % 1000 / 10,
             mst_cuda_loading_mode(mst_cuda_of(device)), blas, nvrtc, *cudnn ? cudnn : "no cuDNN",
             mst_foreign_simulated() ? ", all simulated" : "");
}

static double mebibytes(int64_t bytes) { return (double)bytes / (1 << 20); }

void mst_cuda_describe_device(const mst_device *device, char *text, size_t size) {
    const mst_cuda *cuda = mst_cuda_of(device);
    snprintf(text, size, "%s: compute capability %d.%d, %d multiprocessors, %.4g MiB of device memory reserved and %.4g MiB for cuBLAS",
             cuda->label, (int)cuda->architecture / 10, (int)cuda->architecture % 10, (int)cuda->processors, mebibytes(cuda->slab.total),
             mebibytes((int64_t)cuda->blas_workspace_bytes));
}
