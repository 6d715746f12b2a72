/* The part of OpenCL 1.2 and later that Muster calls (libOpenCL.so.1, the loader of the installed
 * implementations). Names, types and numbers are those of Khronos' cl.h. */
#ifndef MST_OPENCL_API_PRIVATE_H
#define MST_OPENCL_API_PRIVATE_H

#include "foreign_impl.h"

typedef int32_t mst_cl_result;
typedef uint32_t mst_cl_bool;
typedef uint64_t mst_cl_bits;     /* every bit field of cl.h */
typedef intptr_t mst_cl_property; /* properties of contexts and of partitions */
typedef struct _cl_platform_id *mst_cl_platform;
typedef struct _cl_device_id *mst_cl_device;
typedef struct _cl_context *mst_cl_context;
typedef struct _cl_command_queue *mst_cl_queue;
typedef struct _cl_mem *mst_cl_buffer;
typedef struct _cl_program *mst_cl_program;
typedef struct _cl_kernel *mst_cl_kernel;
typedef struct _cl_event *mst_cl_event;

enum {
    MST_CL_SUCCESS = 0,
    MST_CL_DEVICE_NOT_FOUND = -1,
    MST_CL_DEVICE_NOT_AVAILABLE = -2,
    MST_CL_COMPILER_NOT_AVAILABLE = -3,
    MST_CL_ALLOCATION_FAILURE = -4,
    MST_CL_OUT_OF_RESOURCES = -5,
    MST_CL_OUT_OF_HOST_MEMORY = -6,
    MST_CL_BUILD_PROGRAM_FAILURE = -11,
    MST_CL_COMPILE_PROGRAM_FAILURE = -15,
    MST_CL_LINK_PROGRAM_FAILURE = -17,
    MST_CL_INVALID_VALUE = -30,
    MST_CL_INVALID_BINARY = -42,
    MST_CL_INVALID_BUILD_OPTIONS = -43,
    MST_CL_INVALID_KERNEL_NAME = -46,
    MST_CL_PLATFORM_NOT_FOUND = -1001, /* from the loader: there is no implementation */
};

enum { /* parameters of queries, and flags */
       MST_CL_PLATFORM_NAME = 0x0902,
       MST_CL_DEVICE_TYPE_CPU = 1 << 1,
       MST_CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
       MST_CL_DEVICE_MAX_WORK_ITEM_SIZES = 0x1005,
       MST_CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
       MST_CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
       MST_CL_DEVICE_AVAILABLE = 0x1027,
       MST_CL_DEVICE_COMPILER_AVAILABLE = 0x1028,
       MST_CL_DEVICE_NAME = 0x102B,
       MST_CL_DRIVER_VERSION = 0x102D,
       MST_CL_DEVICE_VERSION = 0x102F,
       MST_CL_DEVICE_EXTENSIONS = 0x1030,
       MST_CL_DEVICE_PARTITION_EQUALLY = 0x1086,
       MST_CL_MEM_READ_WRITE = 1 << 0,
       MST_CL_MEM_USE_HOST_PTR = 1 << 3,
       MST_CL_PROGRAM_BINARY_SIZES = 0x1165,
       MST_CL_PROGRAM_BINARIES = 0x1166,
       MST_CL_PROGRAM_BUILD_LOG = 0x1183,
       MST_CL_KERNEL_NUM_ARGS = 0x1191,
       MST_CL_KERNEL_WORK_GROUP_SIZE = 0x11B0,
       MST_CL_KERNEL_LOCAL_MEM_SIZE = 0x11B2,
       MST_CL_KERNEL_PREFERRED_MULTIPLE = 0x11B3,
       MST_CL_EVENT_EXECUTION_STATUS = 0x11D3,
       MST_CL_COMPLETE = 0,
};

#define MST_OPENCL_SYMBOLS(X)                                                                                                              \
    X(mst_cl_result, clGetPlatformIDs, (uint32_t capacity, mst_cl_platform * platforms, uint32_t * count))                                 \
    X(mst_cl_result, clGetPlatformInfo, (mst_cl_platform platform, uint32_t what, size_t size, void *value, size_t *bytes))                \
    X(mst_cl_result, clGetDeviceIDs,                                                                                                       \
      (mst_cl_platform platform, mst_cl_bits type, uint32_t capacity, mst_cl_device * devices, uint32_t * count))                          \
    X(mst_cl_result, clGetDeviceInfo, (mst_cl_device device, uint32_t what, size_t size, void *value, size_t *bytes))                      \
    X(mst_cl_result, clCreateSubDevices,                                                                                                   \
      (mst_cl_device device, const mst_cl_property *properties, uint32_t capacity, mst_cl_device *devices, uint32_t *count))               \
    X(mst_cl_context, clCreateContext,                                                                                                     \
      (const mst_cl_property *properties, uint32_t count, const mst_cl_device *devices,                                                    \
       void (*notify)(const char *text, const void *data, size_t bytes, void *user), void *user, mst_cl_result *result))                   \
    X(mst_cl_queue, clCreateCommandQueue, (mst_cl_context context, mst_cl_device device, mst_cl_bits properties, mst_cl_result * result))  \
    X(mst_cl_result, clReleaseCommandQueue, (mst_cl_queue queue))                                                                          \
    X(mst_cl_buffer, clCreateBuffer, (mst_cl_context context, mst_cl_bits flags, size_t bytes, void *address, mst_cl_result *result))      \
    X(mst_cl_result, clReleaseMemObject, (mst_cl_buffer buffer))                                                                           \
    X(mst_cl_program, clCreateProgramWithSource,                                                                                           \
      (mst_cl_context context, uint32_t count, const char **sources, const size_t *lengths, mst_cl_result *result))                        \
    X(mst_cl_program, clCreateProgramWithBinary,                                                                                           \
      (mst_cl_context context, uint32_t count, const mst_cl_device *devices, const size_t *lengths, const unsigned char **binaries,        \
       mst_cl_result *each, mst_cl_result *result))                                                                                        \
    X(mst_cl_result, clBuildProgram,                                                                                                       \
      (mst_cl_program program, uint32_t count, const mst_cl_device *devices, const char *options,                                          \
       void (*notify)(mst_cl_program program, void *user), void *user))                                                                    \
    X(mst_cl_result, clGetProgramInfo, (mst_cl_program program, uint32_t what, size_t size, void *value, size_t *bytes))                   \
    X(mst_cl_result, clGetProgramBuildInfo,                                                                                                \
      (mst_cl_program program, mst_cl_device device, uint32_t what, size_t size, void *value, size_t *bytes))                              \
    X(mst_cl_result, clReleaseProgram, (mst_cl_program program))                                                                           \
    X(mst_cl_kernel, clCreateKernel, (mst_cl_program program, const char *name, mst_cl_result *result))                                    \
    X(mst_cl_result, clReleaseKernel, (mst_cl_kernel kernel))                                                                              \
    X(mst_cl_result, clSetKernelArg, (mst_cl_kernel kernel, uint32_t index, size_t size, const void *value))                               \
    X(mst_cl_result, clGetKernelInfo, (mst_cl_kernel kernel, uint32_t what, size_t size, void *value, size_t *bytes))                      \
    X(mst_cl_result, clGetKernelWorkGroupInfo,                                                                                             \
      (mst_cl_kernel kernel, mst_cl_device device, uint32_t what, size_t size, void *value, size_t *bytes))                                \
    X(mst_cl_result, clEnqueueNDRangeKernel,                                                                                               \
      (mst_cl_queue queue, mst_cl_kernel kernel, uint32_t dims, const size_t *offsets, const size_t *threads, const size_t *group_threads, \
       uint32_t waits, const mst_cl_event *wait_for, mst_cl_event *event))                                                                 \
    X(mst_cl_result, clFlush, (mst_cl_queue queue))                                                                                        \
    X(mst_cl_result, clGetEventInfo, (mst_cl_event event, uint32_t what, size_t size, void *value, size_t *bytes))                         \
    X(mst_cl_result, clReleaseEvent, (mst_cl_event event))

typedef struct mst_opencl_api {
    MST_OPENCL_SYMBOLS(MST_FOREIGN_MEMBER)
} mst_opencl_api;

/* The loader's functions, opened by the first call that succeeds. The environment variable
 * MUSTER_OPENCL_LIBRARY holds an absolute path to open instead, or "none" to do without OpenCL.
 * Threads: any. Errors: UNAVAILABLE; the message names the package. */
muster_status mst_opencl_api_get(const mst_opencl_api **api);

/* Returns MUSTER_OK for success. Otherwise sets a message from the symbol's name, the error's name
 * and `what` (such as the device's name), and returns the status. */
muster_status mst_opencl_error(mst_cl_result result, const char *symbol, const char *what);

#endif
