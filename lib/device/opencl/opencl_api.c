/* Opens the OpenCL loader once per process, and converts its errors to the library's. */
#include "opencl_api_private.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mst_opencl_api functions;
static bool ready; /* guarded by the lock; never reset, because implementations have threads that run until the process ends */

#define MST_FOREIGN_STRUCT mst_opencl_api
static const mst_foreign_symbol symbols[] = {MST_OPENCL_SYMBOLS(MST_FOREIGN_NEEDED)};
#undef MST_FOREIGN_STRUCT
static const mst_foreign_library library = {"OpenCL", (const char *const[]){"libOpenCL.so.1"}, 1, symbols,
                                            sizeof symbols / sizeof *symbols};

#define MST_OPENCL_ADVICE "kernels on CPU cores need OpenCL: install the package pocl-opencl-icd"

static muster_status report_absent(void) {
    char reason[MST_MESSAGE_SIZE];
    mst_error_save(reason);
    return mst_error(MUSTER_UNAVAILABLE, "%s (%.300s)", MST_OPENCL_ADVICE, reason);
}

static muster_status open_locked(const char *path) {
    if (ready) return MUSTER_OK;
    if (mst_foreign_open_apart(&library, path, &functions) != MUSTER_OK) return report_absent();
    ready = true;
    return MUSTER_OK;
}

muster_status mst_opencl_api_get(const mst_opencl_api **api) {
    const char *path = getenv("MUSTER_OPENCL_LIBRARY");
    *api = NULL;
    if (path && !path[0]) path = NULL;
    if (path && strcmp(path, "none") == 0)
        return mst_error(MUSTER_UNAVAILABLE, "%s (MUSTER_OPENCL_LIBRARY is \"none\")", MST_OPENCL_ADVICE);
    if (path && path[0] != '/')
        return mst_error(MUSTER_UNAVAILABLE, "MUSTER_OPENCL_LIBRARY: expected an absolute path or \"none\", received \"%.200s\"", path);
    pthread_mutex_lock(&lock);
    muster_status status = open_locked(path);
    pthread_mutex_unlock(&lock);
    if (status == MUSTER_OK) *api = &functions;
    return status;
}

/* ---- errors ---- */

/* The names of cl.h's error codes, from 0 down; the second list begins at -30. */
static const char *const first_names[] = {"CL_SUCCESS",
                                          "CL_DEVICE_NOT_FOUND",
                                          "CL_DEVICE_NOT_AVAILABLE",
                                          "CL_COMPILER_NOT_AVAILABLE",
                                          "CL_MEM_OBJECT_ALLOCATION_FAILURE",
                                          "CL_OUT_OF_RESOURCES",
                                          "CL_OUT_OF_HOST_MEMORY",
                                          "CL_PROFILING_INFO_NOT_AVAILABLE",
                                          "CL_MEM_COPY_OVERLAP",
                                          "CL_IMAGE_FORMAT_MISMATCH",
                                          "CL_IMAGE_FORMAT_NOT_SUPPORTED",
                                          "CL_BUILD_PROGRAM_FAILURE",
                                          "CL_MAP_FAILURE",
                                          "CL_MISALIGNED_SUB_BUFFER_OFFSET",
                                          "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
                                          "CL_COMPILE_PROGRAM_FAILURE",
                                          "CL_LINKER_NOT_AVAILABLE",
                                          "CL_LINK_PROGRAM_FAILURE",
                                          "CL_DEVICE_PARTITION_FAILED",
                                          "CL_KERNEL_ARG_INFO_NOT_AVAILABLE"};
static const char *const second_names[] = {"CL_INVALID_VALUE",
                                           "CL_INVALID_DEVICE_TYPE",
                                           "CL_INVALID_PLATFORM",
                                           "CL_INVALID_DEVICE",
                                           "CL_INVALID_CONTEXT",
                                           "CL_INVALID_QUEUE_PROPERTIES",
                                           "CL_INVALID_COMMAND_QUEUE",
                                           "CL_INVALID_HOST_PTR",
                                           "CL_INVALID_MEM_OBJECT",
                                           "CL_INVALID_IMAGE_FORMAT_DESCRIPTOR",
                                           "CL_INVALID_IMAGE_SIZE",
                                           "CL_INVALID_SAMPLER",
                                           "CL_INVALID_BINARY",
                                           "CL_INVALID_BUILD_OPTIONS",
                                           "CL_INVALID_PROGRAM",
                                           "CL_INVALID_PROGRAM_EXECUTABLE",
                                           "CL_INVALID_KERNEL_NAME",
                                           "CL_INVALID_KERNEL_DEFINITION",
                                           "CL_INVALID_KERNEL",
                                           "CL_INVALID_ARG_INDEX",
                                           "CL_INVALID_ARG_VALUE",
                                           "CL_INVALID_ARG_SIZE",
                                           "CL_INVALID_KERNEL_ARGS",
                                           "CL_INVALID_WORK_DIMENSION",
                                           "CL_INVALID_WORK_GROUP_SIZE",
                                           "CL_INVALID_WORK_ITEM_SIZE",
                                           "CL_INVALID_GLOBAL_OFFSET",
                                           "CL_INVALID_EVENT_WAIT_LIST",
                                           "CL_INVALID_EVENT",
                                           "CL_INVALID_OPERATION",
                                           "CL_INVALID_GL_OBJECT",
                                           "CL_INVALID_BUFFER_SIZE",
                                           "CL_INVALID_MIP_LEVEL",
                                           "CL_INVALID_GLOBAL_WORK_SIZE",
                                           "CL_INVALID_PROPERTY",
                                           "CL_INVALID_IMAGE_DESCRIPTOR",
                                           "CL_INVALID_COMPILER_OPTIONS",
                                           "CL_INVALID_LINKER_OPTIONS",
                                           "CL_INVALID_DEVICE_PARTITION_COUNT"};

static const char *name_of(mst_cl_result result) {
    const int32_t first = -result, second = -result + MST_CL_INVALID_VALUE;
    if (result == MST_CL_PLATFORM_NOT_FOUND) return "CL_PLATFORM_NOT_FOUND_KHR";
    if (first >= 0 && first < (int32_t)(sizeof first_names / sizeof *first_names)) return first_names[first];
    if (second >= 0 && second < (int32_t)(sizeof second_names / sizeof *second_names)) return second_names[second];
    return "an error without a name";
}

static muster_status status_of(mst_cl_result result) {
    switch (result) {
    case MST_CL_ALLOCATION_FAILURE:
    case MST_CL_OUT_OF_RESOURCES:
    case MST_CL_OUT_OF_HOST_MEMORY:
        return MUSTER_OUT_OF_MEMORY;
    case MST_CL_PLATFORM_NOT_FOUND:
    case MST_CL_DEVICE_NOT_FOUND:
    case MST_CL_DEVICE_NOT_AVAILABLE:
    case MST_CL_COMPILER_NOT_AVAILABLE:
        return MUSTER_UNAVAILABLE;
    case MST_CL_BUILD_PROGRAM_FAILURE:
    case MST_CL_COMPILE_PROGRAM_FAILURE:
    case MST_CL_LINK_PROGRAM_FAILURE:
    case MST_CL_INVALID_BUILD_OPTIONS:
    case MST_CL_INVALID_KERNEL_NAME:
        return MUSTER_INVALID_ARGUMENT;
    default:
        return MUSTER_SYSTEM;
    }
}

muster_status mst_opencl_error(mst_cl_result result, const char *symbol, const char *what) {
    if (result == MST_CL_SUCCESS) return MUSTER_OK;
    return mst_error(status_of(result), "%s%sOpenCL: %s: expected success, received %s (%d)", what ? what : "", what ? ": " : "", symbol,
                     name_of(result), (int)result);
}
