/* The part of cuBLAS that Muster calls (libcublas.so.13, libcublas.so.12). Names, types and numbers
 * are those of NVIDIA's cublas_v2.h and library_types.h. */
#ifndef MST_CUBLAS_API_PRIVATE_H
#define MST_CUBLAS_API_PRIVATE_H

#include "foreign_impl.h"

typedef unsigned int mst_cublas_status; /* an enum in NVIDIA's headers, as are all unsigned ints below */
typedef struct cublasContext *mst_cublas_handle;
struct CUstream_st;

enum {
    MST_CUBLAS_SUCCESS = 0,
    MST_CUBLAS_NOT_INITIALIZED = 1,
    MST_CUBLAS_ALLOC_FAILED = 3,
    MST_CUBLAS_INVALID_VALUE = 7,
    MST_CUBLAS_ARCH_MISMATCH = 8,
    MST_CUBLAS_MAPPING_ERROR = 11,
    MST_CUBLAS_EXECUTION_FAILED = 13,
    MST_CUBLAS_INTERNAL_ERROR = 14,
    MST_CUBLAS_NOT_SUPPORTED = 15,
    MST_CUBLAS_LICENSE_ERROR = 16,
};
enum { MST_CUBLAS_N = 0, MST_CUBLAS_T = 1 }; /* cublasOperation_t */
/* cudaDataType_t */
enum { MST_CUBLAS_R_32F = 0, MST_CUBLAS_R_64F = 1, MST_CUBLAS_R_16F = 2, MST_CUBLAS_R_16BF = 14 };
enum { MST_CUBLAS_COMPUTE_32F = 68, MST_CUBLAS_COMPUTE_64F = 70, MST_CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum { MST_CUBLAS_GEMM_DEFAULT = -1 };
/* cublasMath_t; the last is a flag */
enum { MST_CUBLAS_DEFAULT_MATH = 0, MST_CUBLAS_TF32_MATH = 3, MST_CUBLAS_NO_REDUCED_PRECISION_REDUCTION = 16 };

#define MST_CUBLAS_SYMBOLS(X)                                                                                                \
    X(mst_cublas_status, cublasCreate_v2, (mst_cublas_handle * handle))                                                      \
    X(mst_cublas_status, cublasDestroy_v2, (mst_cublas_handle handle))                                                       \
    X(mst_cublas_status, cublasSetStream_v2, (mst_cublas_handle handle, struct CUstream_st * stream))                        \
    X(mst_cublas_status, cublasSetWorkspace_v2, (mst_cublas_handle handle, void *workspace, size_t bytes))                   \
    X(mst_cublas_status, cublasSetMathMode, (mst_cublas_handle handle, unsigned int mode))                                   \
    X(mst_cublas_status, cublasGetVersion_v2, (mst_cublas_handle handle, int *version))                                      \
    X(const char *, cublasGetStatusString, (mst_cublas_status status))                                                       \
    X(mst_cublas_status, cublasGemmEx,                                                                                       \
      (mst_cublas_handle handle, unsigned int transpose_a, unsigned int transpose_b, int m, int n, int k, const void *alpha, \
       const void *a, unsigned int a_type, int lda, const void *b, unsigned int b_type, int ldb, const void *beta, void *c,  \
       unsigned int c_type, int ldc, unsigned int compute_type, int algorithm))

/* Present from cuBLAS 12 on. */
#define MST_CUBLAS_OPTIONAL_SYMBOLS(X)                                                                                                   \
    X(mst_cublas_status, cublasGemmEx_64,                                                                                                \
      (mst_cublas_handle handle, unsigned int transpose_a, unsigned int transpose_b, int64_t m, int64_t n, int64_t k, const void *alpha, \
       const void *a, unsigned int a_type, int64_t lda, const void *b, unsigned int b_type, int64_t ldb, const void *beta, void *c,      \
       unsigned int c_type, int64_t ldc, unsigned int compute_type, int algorithm))

typedef struct mst_cublas_api {
    MST_CUBLAS_SYMBOLS(MST_FOREIGN_MEMBER)
    MST_CUBLAS_OPTIONAL_SYMBOLS(MST_FOREIGN_MEMBER)
} mst_cublas_api;

/* As mst_cuda_api_get. Call mst_cuda_api_get first: the driver must be open. */
muster_status mst_cublas_api_get(const mst_cublas_api **api);
/* As mst_cuda_error. */
muster_status mst_cublas_error(const mst_cublas_api *api, mst_cublas_status result, const char *symbol, const char *device);

#endif
