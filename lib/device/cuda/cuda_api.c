/* Opens the driver, cuBLAS, cuDNN and NVRTC once per process, and converts their errors to the
 * library's. */
#include "cublas_api_private.h"
#include "cuda_api_private.h"
#include "cudnn_api_private.h"
#include "environment_impl.h"
#include "nvrtc_api_private.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A library's functions: filled under the lock by the first open that succeeds, and never changed
 * after that. */
typedef struct opened {
    const mst_foreign_library *library;
    void *functions;
    _Atomic bool ready;
} opened;

static _Atomic int driver_version; /* 1000 x major + 10 x minor; 0: the driver has not been opened */

/* The sonames that fit the driver: the first one of two is CUDA 13's, which does not run with a
 * CUDA 12 driver. */
static mst_foreign_library fitting(const mst_foreign_library *library) {
    mst_foreign_library fit = *library;
    const int version = atomic_load(&driver_version);
    if (fit.soname_count == 2 && version != 0 && version < 13000) {
        fit.sonames++;
        fit.soname_count--;
    }
    return fit;
}

static muster_status open_once(opened *one) {
    if (atomic_load_explicit(&one->ready, memory_order_acquire)) return MUSTER_OK;
    pthread_mutex_lock(&lock);
    muster_status status = MUSTER_OK;
    if (!atomic_load_explicit(&one->ready, memory_order_relaxed)) {
        const mst_foreign_library library = fitting(one->library);
        status = mst_foreign_open(&library, one->functions);
        if (status == MUSTER_OK) atomic_store_explicit(&one->ready, true, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- the driver ---- */

static mst_cuda_api cuda_functions;
#define MST_FOREIGN_STRUCT mst_cuda_api
static const mst_foreign_symbol cuda_symbols[] = {MST_CUDA_SYMBOLS(MST_FOREIGN_NEEDED) MST_CUDA_OPTIONAL_SYMBOLS(MST_FOREIGN_OPTIONAL)};
#undef MST_FOREIGN_STRUCT
static const mst_foreign_library cuda_library = {"the CUDA driver", (const char *const[]){"libcuda.so.1"}, 1, cuda_symbols,
                                                 sizeof cuda_symbols / sizeof *cuda_symbols};

static muster_status unavailable(mst_cu_result result, const char *symbol) {
    char reason[MST_MESSAGE_SIZE];
    (void)mst_cuda_error(&cuda_functions, result, symbol, NULL);
    mst_error_save(reason);
    return mst_error_restore(MUSTER_UNAVAILABLE, reason);
}

/* May be called any number of times. Any failure means that the program cannot use CUDA here. */
static muster_status initialise(void) {
    int version = 0;
    mst_cu_result result = cuda_functions.cuInit(0);
    if (result != MST_CU_SUCCESS) return unavailable(result, "cuInit");
    if (atomic_load(&driver_version) != 0) return MUSTER_OK;
    result = cuda_functions.cuDriverGetVersion(&version);
    if (result != MST_CU_SUCCESS) return unavailable(result, "cuDriverGetVersion");
    if (version < 12000)
        return mst_error(MUSTER_UNAVAILABLE, "the CUDA driver: expected one for CUDA 12 or later, received one for CUDA %d.%d",
                         version / 1000, version % 1000 / 10);
    atomic_store(&driver_version, version);
    return MUSTER_OK;
}

muster_status mst_cuda_api_get(const mst_cuda_api **api) {
    static opened cuda = {.library = &cuda_library, .functions = &cuda_functions};
    *api = NULL;
    MUSTER_TRY(open_once(&cuda));
    MUSTER_TRY(initialise());
    *api = &cuda_functions;
    return MUSTER_OK;
}

int mst_cuda_driver_version(void) { return atomic_load(&driver_version); }

bool mst_cuda_error_is_sticky(mst_cu_result result) {
    switch (result) {
    case MST_CU_DEINITIALIZED:
    case MST_CU_ECC_UNCORRECTABLE:
    case MST_CU_NVLINK_UNCORRECTABLE:
    case MST_CU_CONTAINED:
    case MST_CU_ILLEGAL_ADDRESS:
    case MST_CU_LAUNCH_TIMEOUT:
    case MST_CU_CONTEXT_IS_DESTROYED:
    case MST_CU_ASSERT:
    case MST_CU_HARDWARE_STACK_ERROR:
    case MST_CU_ILLEGAL_INSTRUCTION:
    case MST_CU_MISALIGNED_ADDRESS:
    case MST_CU_INVALID_ADDRESS_SPACE:
    case MST_CU_INVALID_PC:
    case MST_CU_LAUNCH_FAILED:
    case MST_CU_TENSOR_MEMORY_LEAK:
    case MST_CU_MPS_RPC_FAILURE:
    case MST_CU_MPS_CLIENT_TERMINATED:
    case MST_CU_EXTERNAL_DEVICE:
        return true;
    default:
        return false;
    }
}

static muster_status status_of_cuda(mst_cu_result result) {
    if (mst_cuda_error_is_sticky(result)) return MUSTER_DEVICE_LOST;
    switch (result) {
    case MST_CU_OUT_OF_MEMORY:
        return MUSTER_OUT_OF_MEMORY;
    case MST_CU_STUB_LIBRARY:
    case MST_CU_DEVICE_UNAVAILABLE:
    case MST_CU_NO_DEVICE:
    case MST_CU_DEVICE_NOT_LICENSED:
    case MST_CU_SYSTEM_NOT_READY:
    case MST_CU_SYSTEM_DRIVER_MISMATCH:
    case MST_CU_MPS_CONNECTION_FAILED:
    case MST_CU_MPS_SERVER_NOT_READY:
    case MST_CU_MPS_MAX_CLIENTS_REACHED:
    case MST_CU_MPS_MAX_CONNECTIONS_REACHED:
        return MUSTER_UNAVAILABLE;
    case MST_CU_INVALID_DEVICE:
        return MUSTER_OUT_OF_RANGE;
    case MST_CU_NO_BINARY_FOR_GPU:
    case MST_CU_PEER_ACCESS_UNSUPPORTED:
    case MST_CU_NOT_SUPPORTED:
        return MUSTER_UNSUPPORTED;
    default:
        return MUSTER_SYSTEM;
    }
}

muster_status mst_cuda_error(const mst_cuda_api *api, mst_cu_result result, const char *symbol, const char *device) {
    if (result == MST_CU_SUCCESS) return MUSTER_OK;
    const char *name = NULL, *text = NULL;
    if (api->cuGetErrorName(result, &name) != MST_CU_SUCCESS || !name) name = "an error without a name";
    if (api->cuGetErrorString(result, &text) != MST_CU_SUCCESS || !text) text = "the driver knows no more";
    return mst_error(status_of_cuda(result), "%s%sCUDA: %s: expected success, received %s (%u: %s)", device ? device : "",
                     device ? ": " : "", symbol, name, result, text);
}

/* ---- cuBLAS ---- */

static mst_cublas_api cublas_functions;
#define MST_FOREIGN_STRUCT mst_cublas_api
static const mst_foreign_symbol cublas_symbols[] = {MST_CUBLAS_SYMBOLS(MST_FOREIGN_NEEDED)
                                                        MST_CUBLAS_OPTIONAL_SYMBOLS(MST_FOREIGN_OPTIONAL)};
#undef MST_FOREIGN_STRUCT
static const mst_foreign_library cublas_library = {"cuBLAS", (const char *const[]){"libcublas.so.13", "libcublas.so.12"}, 2, cublas_symbols,
                                                   sizeof cublas_symbols / sizeof *cublas_symbols};

muster_status mst_cublas_api_get(const mst_cublas_api **api) {
    static opened cublas = {.library = &cublas_library, .functions = &cublas_functions};
    *api = NULL;
    MUSTER_TRY(open_once(&cublas));
    *api = &cublas_functions;
    return MUSTER_OK;
}

static muster_status status_of_cublas(mst_cublas_status result) {
    switch (result) {
    case MST_CUBLAS_ALLOC_FAILED:
        return MUSTER_OUT_OF_MEMORY;
    case MST_CUBLAS_ARCH_MISMATCH:
    case MST_CUBLAS_NOT_SUPPORTED:
        return MUSTER_UNSUPPORTED;
    case MST_CUBLAS_NOT_INITIALIZED:
    case MST_CUBLAS_LICENSE_ERROR:
        return MUSTER_UNAVAILABLE;
    default:
        return MUSTER_SYSTEM;
    }
}

muster_status mst_cublas_error(const mst_cublas_api *api, mst_cublas_status result, const char *symbol, const char *device) {
    if (result == MST_CUBLAS_SUCCESS) return MUSTER_OK;
    const char *text = api->cublasGetStatusString(result);
    return mst_error(status_of_cublas(result), "%s: cuBLAS: %s: expected success, received %s (%u)", device, symbol,
                     text ? text : "an unknown status", result);
}

/* ---- cuDNN ---- */

static mst_cudnn_api cudnn_functions;
#define MST_FOREIGN_STRUCT mst_cudnn_api
static const mst_foreign_symbol cudnn_symbols[] = {MST_CUDNN_SYMBOLS(MST_FOREIGN_NEEDED)};
#undef MST_FOREIGN_STRUCT

static char cudnn_name[4096] = "libcudnn.so.9";
static const char *const cudnn_names[] = {cudnn_name};
static const mst_foreign_library cudnn_library = {"cuDNN", cudnn_names, 1, cudnn_symbols, sizeof cudnn_symbols / sizeof *cudnn_symbols};

static void take_cudnn_name(void) {
    const char *asked = mst_environment_get("MUSTER_CUDNN");
    if (asked && strcmp(asked, "none") != 0) snprintf(cudnn_name, sizeof cudnn_name, "%s", asked);
}

muster_status mst_cudnn_api_get(const mst_cudnn_api **api) {
    static opened cudnn = {.library = &cudnn_library, .functions = &cudnn_functions};
    static pthread_once_t named = PTHREAD_ONCE_INIT;
    const char *asked = mst_environment_get("MUSTER_CUDNN");
    *api = NULL;
    if (asked && strcmp(asked, "none") == 0) return mst_error(MUSTER_UNAVAILABLE, "cuDNN: MUSTER_CUDNN is \"none\"");
    (void)pthread_once(&named, take_cudnn_name);
    MUSTER_TRY(open_once(&cudnn));
    *api = &cudnn_functions;
    return MUSTER_OK;
}

/* What it does not take is not supported, whatever the reason. */
static muster_status status_of_cudnn(mst_cudnn_status result) {
    if (result == MST_CUDNN_HOST_ALLOCATION_FAILED || result == MST_CUDNN_DEVICE_ALLOCATION_FAILED) return MUSTER_OUT_OF_MEMORY;
    switch (result / 1000 * 1000) {
    case 1000:
        return MUSTER_UNAVAILABLE;
    case MST_CUDNN_BAD_PARAM:
    case MST_CUDNN_NOT_SUPPORTED:
        return MUSTER_UNSUPPORTED;
    default:
        return MUSTER_SYSTEM;
    }
}

muster_status mst_cudnn_error(const mst_cudnn_api *api, mst_cudnn_status result, const char *symbol, const char *device) {
    if (result == MST_CUDNN_SUCCESS) return MUSTER_OK;
    const char *text = api->cudnnGetErrorString(result);
    return mst_error(status_of_cudnn(result), "%s: cuDNN: %s: expected success, received %s (%u)", device, symbol,
                     text ? text : "an unknown status", result);
}

/* ---- NVRTC ---- */

static mst_nvrtc_api nvrtc_functions;
#define MST_FOREIGN_STRUCT mst_nvrtc_api
static const mst_foreign_symbol nvrtc_symbols[] = {MST_NVRTC_SYMBOLS(MST_FOREIGN_NEEDED)};
#undef MST_FOREIGN_STRUCT
static const mst_foreign_library nvrtc_library = {"NVRTC", (const char *const[]){"libnvrtc.so.13", "libnvrtc.so.12"}, 2, nvrtc_symbols,
                                                  sizeof nvrtc_symbols / sizeof *nvrtc_symbols};

muster_status mst_nvrtc_api_get(const mst_nvrtc_api **api) {
    static opened nvrtc = {.library = &nvrtc_library, .functions = &nvrtc_functions};
    *api = NULL;
    MUSTER_TRY(open_once(&nvrtc));
    *api = &nvrtc_functions;
    return MUSTER_OK;
}

static muster_status status_of_nvrtc(mst_nvrtc_result result) {
    switch (result) {
    case MST_NVRTC_OUT_OF_MEMORY:
        return MUSTER_OUT_OF_MEMORY;
    case MST_NVRTC_INVALID_OPTION:
        return MUSTER_UNSUPPORTED;
    case MST_NVRTC_COMPILATION:
        return MUSTER_INVALID_ARGUMENT;
    default:
        return MUSTER_SYSTEM;
    }
}

muster_status mst_nvrtc_error(const mst_nvrtc_api *api, mst_nvrtc_result result, const char *symbol, const char *what) {
    if (result == MST_NVRTC_SUCCESS) return MUSTER_OK;
    const char *text = api->nvrtcGetErrorString(result);
    return mst_error(status_of_nvrtc(result), "NVRTC: %s: %s%sexpected success, received %s (%u)", symbol, what ? what : "",
                     what ? ": " : "", text ? text : "an unknown result", result);
}
