/* The part of NVRTC that Muster calls (libnvrtc.so.13, libnvrtc.so.12): the compiler of CUDA C++ at
 * run time. Names, types and numbers are those of NVIDIA's nvrtc.h. */
#ifndef MST_NVRTC_API_PRIVATE_H
#define MST_NVRTC_API_PRIVATE_H

#include "code_impl.h"
#include "foreign_impl.h"

typedef unsigned int mst_nvrtc_result; /* an enum in nvrtc.h */
typedef struct _nvrtcProgram *mst_nvrtc_program;

enum {
    MST_NVRTC_SUCCESS = 0,
    MST_NVRTC_OUT_OF_MEMORY = 1,
    MST_NVRTC_PROGRAM_CREATION_FAILURE = 2,
    MST_NVRTC_INVALID_INPUT = 3,
    MST_NVRTC_INVALID_PROGRAM = 4,
    MST_NVRTC_INVALID_OPTION = 5,
    MST_NVRTC_COMPILATION = 6,
    MST_NVRTC_BUILTIN_OPERATION_FAILURE = 7,
    MST_NVRTC_INTERNAL_ERROR = 11,
};

#define MST_NVRTC_SYMBOLS(X)                                                                                            \
    X(mst_nvrtc_result, nvrtcVersion, (int *major, int *minor))                                                         \
    X(const char *, nvrtcGetErrorString, (mst_nvrtc_result result))                                                     \
    X(mst_nvrtc_result, nvrtcCreateProgram,                                                                             \
      (mst_nvrtc_program * program, const char *text, const char *name, int header_count, const char *const *headers,   \
       const char *const *include_names))                                                                               \
    X(mst_nvrtc_result, nvrtcDestroyProgram, (mst_nvrtc_program * program))                                             \
    X(mst_nvrtc_result, nvrtcCompileProgram, (mst_nvrtc_program program, int option_count, const char *const *options)) \
    X(mst_nvrtc_result, nvrtcGetCUBINSize, (mst_nvrtc_program program, size_t * bytes))                                 \
    X(mst_nvrtc_result, nvrtcGetCUBIN, (mst_nvrtc_program program, char *cubin))                                        \
    X(mst_nvrtc_result, nvrtcGetPTXSize, (mst_nvrtc_program program, size_t * bytes))                                   \
    X(mst_nvrtc_result, nvrtcGetPTX, (mst_nvrtc_program program, char *ptx))                                            \
    X(mst_nvrtc_result, nvrtcGetProgramLogSize, (mst_nvrtc_program program, size_t * bytes))                            \
    X(mst_nvrtc_result, nvrtcGetProgramLog, (mst_nvrtc_program program, char *log))                                     \
    X(mst_nvrtc_result, nvrtcGetNumSupportedArchs, (int *count))                                                        \
    X(mst_nvrtc_result, nvrtcGetSupportedArchs, (int *architectures))

typedef struct mst_nvrtc_api {
    MST_NVRTC_SYMBOLS(MST_FOREIGN_MEMBER)
} mst_nvrtc_api;

/* As mst_cuda_api_get; needs no driver. */
muster_status mst_nvrtc_api_get(const mst_nvrtc_api **api);
/* Returns MUSTER_OK for success. Otherwise sets a message from the symbol's name, the error's text
 * and `what` was being done ("compiling for sm_90", or NULL), and returns the status. */
muster_status mst_nvrtc_error(const mst_nvrtc_api *api, mst_nvrtc_result result, const char *symbol, const char *what);

/* The compiler (nvrtc.c). target.user is the table of NVRTC's functions. target.architecture is
 * 10 x major + minor of the compute capability, such as 90. For a device newer than this NVRTC it
 * generates PTX for the highest architecture that it knows below the device's, and the driver
 * translates the PTX. */
extern const mst_code_compiler mst_nvrtc_compiler;

#endif
