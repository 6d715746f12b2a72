/* The part of the CUDA driver that Muster calls (libcuda.so.1, CUDA 12 and later). Names, types and
 * numbers are those of NVIDIA's cuda.h. */
#ifndef MST_CUDA_API_PRIVATE_H
#define MST_CUDA_API_PRIVATE_H

#include "foreign_impl.h"

typedef unsigned int mst_cu_result; /* an enum in cuda.h, as are all other unsigned ints that are not flags */
typedef int mst_cu_device;
typedef unsigned long long mst_cu_address;
typedef struct CUctx_st *mst_cu_context;
typedef struct CUstream_st *mst_cu_stream;
#define MST_CU_STREAM_LEGACY ((mst_cu_stream)(uintptr_t)1)     /* as NULL, the default stream */
#define MST_CU_STREAM_PER_THREAD ((mst_cu_stream)(uintptr_t)2) /* the calling thread's default stream */
typedef struct CUevent_st *mst_cu_event;
typedef struct CUmod_st *mst_cu_module;
typedef struct CUfunc_st *mst_cu_function;
typedef struct mst_cu_uuid {
    char bytes[16];
} mst_cu_uuid;

enum {
    MST_CU_SUCCESS = 0,
    MST_CU_INVALID_VALUE = 1,
    MST_CU_OUT_OF_MEMORY = 2,
    MST_CU_NOT_INITIALIZED = 3,
    MST_CU_DEINITIALIZED = 4,
    MST_CU_STUB_LIBRARY = 34,
    MST_CU_DEVICE_UNAVAILABLE = 46,
    MST_CU_NO_DEVICE = 100,
    MST_CU_INVALID_DEVICE = 101,
    MST_CU_DEVICE_NOT_LICENSED = 102,
    MST_CU_INVALID_IMAGE = 200,
    MST_CU_INVALID_CONTEXT = 201,
    MST_CU_NO_BINARY_FOR_GPU = 209,
    MST_CU_ECC_UNCORRECTABLE = 214,
    MST_CU_PEER_ACCESS_UNSUPPORTED = 217,
    MST_CU_NVLINK_UNCORRECTABLE = 220,
    MST_CU_CONTAINED = 226,
    MST_CU_OPERATING_SYSTEM = 304,
    MST_CU_INVALID_HANDLE = 400,
    MST_CU_NOT_FOUND = 500,
    MST_CU_NOT_READY = 600,
    MST_CU_ILLEGAL_ADDRESS = 700,
    MST_CU_LAUNCH_OUT_OF_RESOURCES = 701,
    MST_CU_LAUNCH_TIMEOUT = 702,
    MST_CU_PEER_ACCESS_ALREADY_ENABLED = 704,
    MST_CU_CONTEXT_IS_DESTROYED = 709,
    MST_CU_ASSERT = 710,
    MST_CU_TOO_MANY_PEERS = 711,
    MST_CU_HOST_MEMORY_ALREADY_REGISTERED = 712,
    MST_CU_HOST_MEMORY_NOT_REGISTERED = 713,
    MST_CU_HARDWARE_STACK_ERROR = 714,
    MST_CU_ILLEGAL_INSTRUCTION = 715,
    MST_CU_MISALIGNED_ADDRESS = 716,
    MST_CU_INVALID_ADDRESS_SPACE = 717,
    MST_CU_INVALID_PC = 718,
    MST_CU_LAUNCH_FAILED = 719,
    MST_CU_TENSOR_MEMORY_LEAK = 721,
    MST_CU_NOT_SUPPORTED = 801,
    MST_CU_SYSTEM_NOT_READY = 802,
    MST_CU_SYSTEM_DRIVER_MISMATCH = 803,
    MST_CU_MPS_CONNECTION_FAILED = 805,
    MST_CU_MPS_RPC_FAILURE = 806,
    MST_CU_MPS_SERVER_NOT_READY = 807,
    MST_CU_MPS_MAX_CLIENTS_REACHED = 808,
    MST_CU_MPS_MAX_CONNECTIONS_REACHED = 809,
    MST_CU_MPS_CLIENT_TERMINATED = 810,
    MST_CU_STREAM_CAPTURE_UNSUPPORTED = 900,
    MST_CU_STREAM_CAPTURE_IMPLICIT = 906,
    MST_CU_CAPTURED_EVENT = 907,
    MST_CU_EXTERNAL_DEVICE = 911,
    MST_CU_UNKNOWN = 999,
};

enum { /* CUdevice_attribute */
       MST_CU_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
       MST_CU_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
       MST_CU_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
       MST_CU_ATTRIBUTE_MAX_GRID_DIM_X = 5,
       MST_CU_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
       MST_CU_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
       MST_CU_ATTRIBUTE_MAX_SHARED_BYTES_PER_BLOCK = 8,
       MST_CU_ATTRIBUTE_WARP_SIZE = 10,
       MST_CU_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
       MST_CU_ATTRIBUTE_COMPUTE_MODE = 20,
       MST_CU_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
       MST_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
       MST_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
       MST_CU_ATTRIBUTE_MANAGED_MEMORY = 83,
       MST_CU_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89,
       MST_CU_ATTRIBUTE_MAX_SHARED_BYTES_PER_BLOCK_OPT_IN = 97,
};
enum { MST_CU_COMPUTE_MODE_PROHIBITED = 2 };
enum { /* CUpointer_attribute, CUmemorytype */
       MST_CU_POINTER_CONTEXT = 1,
       MST_CU_POINTER_MEMORY_TYPE = 2,
       MST_CU_POINTER_BUFFER_ID = 7,
       MST_CU_POINTER_IS_MANAGED = 8,
       MST_CU_POINTER_DEVICE_ORDINAL = 9,
       MST_CU_POINTER_RANGE_START = 11,
       MST_CU_POINTER_RANGE_BYTES = 12,
       MST_CU_MEMORY_TYPE_HOST = 1,
       MST_CU_MEMORY_TYPE_DEVICE = 2,
};
enum { /* CUfunction_attribute */
       MST_CU_FUNCTION_MAX_THREADS_PER_BLOCK = 0,
       MST_CU_FUNCTION_SHARED_BYTES = 1,
       MST_CU_FUNCTION_LOCAL_BYTES = 3,
       MST_CU_FUNCTION_BINARY_VERSION = 6,
       MST_CU_FUNCTION_MAX_DYNAMIC_SHARED_BYTES = 8,
};
enum { MST_CU_MODULE_EAGER_LOADING = 1, MST_CU_MODULE_LAZY_LOADING = 2 }; /* CUmoduleLoadingMode */
enum { MST_CU_LIMIT_STACK_BYTES = 0 };                                    /* CUlimit */
enum {
    MST_CU_STREAM_NON_BLOCKING = 1,
    MST_CU_EVENT_DISABLE_TIMING = 2,
    MST_CU_HOST_ALLOC_PORTABLE = 1,
    MST_CU_HOST_REGISTER_PORTABLE = 1,
    MST_CU_HOST_REGISTER_READ_ONLY = 8,
    MST_CU_MANAGED_GLOBAL = 1, /* every GPU may access the memory */
};
/* CUstreamCaptureMode, CUstreamCaptureStatus */
enum { MST_CU_CAPTURE_GLOBAL = 0, MST_CU_CAPTURE_THREAD_LOCAL = 1, MST_CU_CAPTURE_RELAXED = 2 };
enum { MST_CU_CAPTURE_NONE = 0, MST_CU_CAPTURE_ACTIVE = 1, MST_CU_CAPTURE_INVALIDATED = 2 };

#define MST_CUDA_SYMBOLS(X)                                                                                                         \
    X(mst_cu_result, cuInit, (unsigned int flags))                                                                                  \
    X(mst_cu_result, cuDriverGetVersion, (int *version))                                                                            \
    X(mst_cu_result, cuGetErrorName, (mst_cu_result error, const char **name))                                                      \
    X(mst_cu_result, cuGetErrorString, (mst_cu_result error, const char **text))                                                    \
    X(mst_cu_result, cuDeviceGetCount, (int *count))                                                                                \
    X(mst_cu_result, cuDeviceGet, (mst_cu_device * device, int ordinal))                                                            \
    X(mst_cu_result, cuDeviceGetName, (char *name, int length, mst_cu_device device))                                               \
    X(mst_cu_result, cuDeviceGetUuid_v2, (mst_cu_uuid * uuid, mst_cu_device device))                                                \
    X(mst_cu_result, cuDeviceGetPCIBusId, (char *id, int length, mst_cu_device device))                                             \
    X(mst_cu_result, cuDeviceGetByPCIBusId, (mst_cu_device * device, const char *id))                                               \
    X(mst_cu_result, cuDeviceGetAttribute, (int *value, unsigned int attribute, mst_cu_device device))                              \
    X(mst_cu_result, cuDeviceTotalMem_v2, (size_t * bytes, mst_cu_device device))                                                   \
    X(mst_cu_result, cuDevicePrimaryCtxRetain, (mst_cu_context * context, mst_cu_device device))                                    \
    X(mst_cu_result, cuDevicePrimaryCtxRelease_v2, (mst_cu_device device))                                                          \
    X(mst_cu_result, cuCtxPushCurrent_v2, (mst_cu_context context))                                                                 \
    X(mst_cu_result, cuCtxPopCurrent_v2, (mst_cu_context * context))                                                                \
    X(mst_cu_result, cuCtxGetCurrent, (mst_cu_context * context))                                                                   \
    X(mst_cu_result, cuCtxSetCurrent, (mst_cu_context context))                                                                     \
    X(mst_cu_result, cuCtxGetLimit, (size_t * value, unsigned int limit))                                                           \
    X(mst_cu_result, cuDeviceCanAccessPeer, (int *can, mst_cu_device device, mst_cu_device peer))                                   \
    X(mst_cu_result, cuCtxEnablePeerAccess, (mst_cu_context peer, unsigned int flags))                                              \
    X(mst_cu_result, cuMemAlloc_v2, (mst_cu_address * address, size_t bytes))                                                       \
    X(mst_cu_result, cuMemFree_v2, (mst_cu_address address))                                                                        \
    X(mst_cu_result, cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes))                                                  \
    X(mst_cu_result, cuMemHostAlloc, (void **address, size_t bytes, unsigned int flags))                                            \
    X(mst_cu_result, cuMemFreeHost, (void *address))                                                                                \
    X(mst_cu_result, cuMemHostRegister_v2, (void *address, size_t bytes, unsigned int flags))                                       \
    X(mst_cu_result, cuMemHostUnregister, (void *address))                                                                          \
    X(mst_cu_result, cuMemAllocManaged, (mst_cu_address * address, size_t bytes, unsigned int flags)) /* for the tests */           \
    X(mst_cu_result, cuPointerGetAttributes, (unsigned int count, unsigned int *attributes, void **values, mst_cu_address address)) \
    X(mst_cu_result, cuPointerGetAttribute, (void *value, unsigned int attribute, mst_cu_address address))                          \
    X(mst_cu_result, cuMemcpyHtoDAsync_v2, (mst_cu_address to, const void *from, size_t bytes, mst_cu_stream stream))               \
    X(mst_cu_result, cuMemcpyDtoHAsync_v2, (void *to, mst_cu_address from, size_t bytes, mst_cu_stream stream))                     \
    X(mst_cu_result, cuMemcpyDtoDAsync_v2, (mst_cu_address to, mst_cu_address from, size_t bytes, mst_cu_stream stream))            \
    X(mst_cu_result, cuMemcpyPeerAsync,                                                                                             \
      (mst_cu_address to, mst_cu_context to_context, mst_cu_address from, mst_cu_context from_context, size_t bytes,                \
       mst_cu_stream stream))                                                                                                       \
    X(mst_cu_result, cuMemsetD8Async, (mst_cu_address to, unsigned char value, size_t bytes, mst_cu_stream stream))                 \
    X(mst_cu_result, cuStreamCreate, (mst_cu_stream * stream, unsigned int flags))                                                  \
    X(mst_cu_result, cuStreamDestroy_v2, (mst_cu_stream stream))                                                                    \
    X(mst_cu_result, cuStreamQuery, (mst_cu_stream stream))                                                                         \
    X(mst_cu_result, cuStreamSynchronize, (mst_cu_stream stream)) /* for the tests: Muster polls */                                 \
    X(mst_cu_result, cuStreamWaitEvent, (mst_cu_stream stream, mst_cu_event event, unsigned int flags))                             \
    X(mst_cu_result, cuStreamGetCtx, (mst_cu_stream stream, mst_cu_context * context))                                              \
    X(mst_cu_result, cuStreamIsCapturing, (mst_cu_stream stream, unsigned int *status))                                             \
    X(mst_cu_result, cuThreadExchangeStreamCaptureMode, (unsigned int *mode))                                                       \
    X(mst_cu_result, cuEventCreate, (mst_cu_event * event, unsigned int flags))                                                     \
    X(mst_cu_result, cuEventDestroy_v2, (mst_cu_event event))                                                                       \
    X(mst_cu_result, cuEventRecord, (mst_cu_event event, mst_cu_stream stream))                                                     \
    X(mst_cu_result, cuEventQuery, (mst_cu_event event))                                                                            \
    X(mst_cu_result, cuModuleLoadData, (mst_cu_module * module, const void *image))                                                 \
    X(mst_cu_result, cuModuleUnload, (mst_cu_module module))                                                                        \
    X(mst_cu_result, cuModuleGetLoadingMode, (unsigned int *mode))                                                                  \
    X(mst_cu_result, cuModuleGetFunction, (mst_cu_function * function, mst_cu_module module, const char *name))                     \
    X(mst_cu_result, cuFuncGetAttribute, (int *value, unsigned int attribute, mst_cu_function function))                            \
    X(mst_cu_result, cuFuncSetAttribute, (mst_cu_function function, unsigned int attribute, int value))                             \
    X(mst_cu_result, cuLaunchKernel,                                                                                                \
      (mst_cu_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,               \
       unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, mst_cu_stream stream, void **parameters, void **extra))

/* Present from drivers of CUDA 12.4 on. */
#define MST_CUDA_OPTIONAL_SYMBOLS(X)                                                                       \
    X(mst_cu_result, cuFuncLoad, (mst_cu_function function))                                               \
    X(mst_cu_result, cuFuncIsLoaded, (unsigned int *loaded, mst_cu_function function)) /* for the tests */ \
    X(mst_cu_result, cuFuncGetParamInfo, (mst_cu_function function, size_t index, size_t * offset, size_t * bytes))

typedef struct mst_cuda_api {
    MST_CUDA_SYMBOLS(MST_FOREIGN_MEMBER)
    MST_CUDA_OPTIONAL_SYMBOLS(MST_FOREIGN_MEMBER)
} mst_cuda_api;

/* The driver's functions. The first call that succeeds opens and initialises the driver (cuInit).
 * Threads: any. Errors: UNAVAILABLE with the reason. */
muster_status mst_cuda_api_get(const mst_cuda_api **api);
/* The driver's CUDA version: 12080 for CUDA 12.8; 0 before mst_cuda_api_get has succeeded. */
int mst_cuda_driver_version(void);

/* True if the error makes its context unusable for the rest of the process. */
bool mst_cuda_error_is_sticky(mst_cu_result result);

/* Returns MUSTER_OK for success, and sets nothing. Otherwise sets a message from the symbol's name,
 * the error's name and text, and the device ("cuda:0"; NULL if there is none yet), and returns the
 * status. */
muster_status mst_cuda_error(const mst_cuda_api *api, mst_cu_result result, const char *symbol, const char *device);

#endif
