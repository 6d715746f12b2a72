/* The description of a runtime's GPUs. */
#include "cuda_convolution_impl.h"
#include "cuda_device_private.h"
#include "cudnn_api_private.h"
#include "library_facts_impl.h"
#include "locale_impl.h"
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
    mst_snprintf(text, size, "%s: compute capability %d.%d, %d multiprocessors, %.4g MiB of device memory reserved and %.4g MiB for cuBLAS",
                 cuda->label, (int)cuda->architecture / 10, (int)cuda->architecture % 10, (int)cuda->processors,
                 mebibytes(cuda->slab.total), mebibytes((int64_t)cuda->blas_workspace_bytes));
}

/* ---- the libraries without a device ---- */

static void simulated_text(mst_library_facts *facts) {
    if (mst_foreign_simulated()) snprintf(facts->text, sizeof facts->text, "simulated");
}

bool mst_cuda_has_driver(mst_library_facts *facts) {
    const mst_cuda_api *api;
    char reason[MST_MESSAGE_SIZE];
    if (mst_cuda_api_get(&api) == MUSTER_OK) return true;
    mst_error_save(reason);
    facts->found = false;
    snprintf(facts->text, sizeof facts->text, "not looked for without the CUDA driver: %.400s", reason);
    return false;
}

void mst_cuda_get_driver_facts(mst_library_facts *facts) {
    const mst_cuda_api *api;
    if (mst_cuda_api_get(&api) != MUSTER_OK) {
        mst_library_missing(facts);
        return;
    }
    const int version = mst_cuda_driver_version();
    mst_library_found(facts, &api->cuInit);
    snprintf(facts->text, sizeof facts->text, "for CUDA %d.%d%s", version / 1000, version % 1000 / 10,
             mst_foreign_simulated() ? ", simulated" : "");
}

void mst_cuda_get_nvrtc_facts(mst_library_facts *facts) {
    const mst_nvrtc_api *api;
    int major, minor;
    if (!mst_cuda_has_driver(facts)) return;
    if (mst_nvrtc_api_get(&api) != MUSTER_OK) {
        mst_library_missing(facts);
        return;
    }
    if (api->nvrtcVersion(&major, &minor) == MST_NVRTC_SUCCESS) snprintf(facts->version, sizeof facts->version, "%d.%d", major, minor);
    mst_library_found(facts, &api->nvrtcVersion);
    simulated_text(facts);
}

/* The version would need a device: the file's name has one. */
void mst_cuda_get_cublas_facts(mst_library_facts *facts) {
    const mst_cublas_api *api;
    if (!mst_cuda_has_driver(facts)) return;
    if (mst_cublas_api_get(&api) != MUSTER_OK) {
        mst_library_missing(facts);
        return;
    }
    mst_library_found(facts, &api->cublasGetVersion_v2);
    simulated_text(facts);
}

void mst_cuda_get_cudnn_facts(mst_library_facts *facts) {
    const mst_cudnn_api *api;
    if (!mst_cuda_has_driver(facts)) return;
    if (mst_cudnn_api_get(&api) != MUSTER_OK) {
        mst_library_missing(facts);
        return;
    }
    const size_t version = api->cudnnGetVersion();
    snprintf(facts->version, sizeof facts->version, "%zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    mst_library_found(facts, &api->cudnnGetVersion);
    simulated_text(facts);
}
