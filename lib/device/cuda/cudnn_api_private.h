/* The part of cuDNN that Muster calls: convolutions by libcudnn.so.9. Names, types and numbers are
 * those of NVIDIA's cudnn_graph.h, cudnn_ops.h and cudnn_cnn.h. */
#ifndef MST_CUDNN_API_PRIVATE_H
#define MST_CUDNN_API_PRIVATE_H

#include "foreign_impl.h"

typedef unsigned int mst_cudnn_status; /* an enum in NVIDIA's headers, as are all unsigned ints below */
typedef struct cudnnContext *mst_cudnn_handle;
typedef struct cudnnTensorStruct *mst_cudnn_tensor;
typedef struct cudnnFilterStruct *mst_cudnn_filter;
typedef struct cudnnConvolutionStruct *mst_cudnn_convolution;
struct CUstream_st;

/* Of thousands: the kind of failure; what is added says more. */
enum {
    MST_CUDNN_SUCCESS = 0,
    MST_CUDNN_NOT_INITIALIZED = 1001,
    MST_CUDNN_SUBLIBRARY_VERSION_MISMATCH = 1002,
    MST_CUDNN_SUBLIBRARY_LOADING_FAILED = 1008,
    MST_CUDNN_BAD_PARAM = 2000,
    MST_CUDNN_NOT_SUPPORTED = 3000,
    MST_CUDNN_INTERNAL_ERROR = 4000,
    MST_CUDNN_HOST_ALLOCATION_FAILED = 4003,
    MST_CUDNN_DEVICE_ALLOCATION_FAILED = 4004,
    MST_CUDNN_EXECUTION_FAILED = 5000,
};
enum { MST_CUDNN_DATA_FLOAT = 0, MST_CUDNN_DATA_DOUBLE = 1, MST_CUDNN_DATA_HALF = 2, MST_CUDNN_DATA_BFLOAT16 = 9 };
enum { MST_CUDNN_TENSOR_NCHW = 0, MST_CUDNN_TENSOR_NHWC = 1 };
enum { MST_CUDNN_CROSS_CORRELATION = 1 };
/* DEFAULT may compute products of f32 in TF32, FMA may not. ALLOW_CONVERSION may round f32 to
 * f16. */
enum {
    MST_CUDNN_DEFAULT_MATH = 0,
    MST_CUDNN_TENSOR_OP_MATH = 1,
    MST_CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION = 2,
    MST_CUDNN_FMA_MATH = 3,
};
enum { MST_CUDNN_DIM_MAX = 8 };
/* Algorithms that compute no plain sums of products. */
enum {
    MST_CUDNN_FORWARD_FFT = 4,
    MST_CUDNN_FORWARD_FFT_TILING = 5,
    MST_CUDNN_FORWARD_WINOGRAD = 6,
    MST_CUDNN_FORWARD_WINOGRAD_NONFUSED = 7,
    MST_CUDNN_FORWARD_ALGORITHMS = 8,
    MST_CUDNN_DATA_FFT = 2,
    MST_CUDNN_DATA_FFT_TILING = 3,
    MST_CUDNN_DATA_WINOGRAD = 4,
    MST_CUDNN_DATA_WINOGRAD_NONFUSED = 5,
    MST_CUDNN_DATA_ALGORITHMS = 6,
    MST_CUDNN_FILTER_FFT = 2,
    MST_CUDNN_FILTER_WINOGRAD = 4,
    MST_CUDNN_FILTER_WINOGRAD_NONFUSED = 5,
    MST_CUDNN_FILTER_FFT_TILING = 6,
    MST_CUDNN_FILTER_ALGORITHMS = 7,
};

/* What the library says about an algorithm, of each of the three computations. */
typedef struct mst_cudnn_algorithm {
    unsigned int algorithm;
    mst_cudnn_status status; /* other than SUCCESS: it does not compute this convolution */
    float time;              /* -1: not measured */
    size_t memory;           /* bytes of workspace */
    unsigned int determinism;
    unsigned int math;
    int reserved[3];
} mst_cudnn_algorithm;
/* NVIDIA has three such structures, which have the same fields. */
typedef mst_cudnn_algorithm mst_cudnn_forward_algorithm, mst_cudnn_data_algorithm, mst_cudnn_filter_algorithm;

#define MST_CUDNN_SYMBOLS(X)                                                                                                               \
    X(size_t, cudnnGetVersion, (void))                                                                                                     \
    X(const char *, cudnnGetErrorString, (mst_cudnn_status status))                                                                        \
    X(mst_cudnn_status, cudnnCreate, (mst_cudnn_handle * handle))                                                                          \
    X(mst_cudnn_status, cudnnDestroy, (mst_cudnn_handle handle))                                                                           \
    X(mst_cudnn_status, cudnnSetStream, (mst_cudnn_handle handle, struct CUstream_st * stream))                                            \
    X(mst_cudnn_status, cudnnCreateTensorDescriptor, (mst_cudnn_tensor * tensor))                                                          \
    X(mst_cudnn_status, cudnnSetTensorNdDescriptor,                                                                                        \
      (mst_cudnn_tensor tensor, unsigned int type, int dims, const int *sizes, const int *strides))                                        \
    X(mst_cudnn_status, cudnnDestroyTensorDescriptor, (mst_cudnn_tensor tensor))                                                           \
    X(mst_cudnn_status, cudnnCreateFilterDescriptor, (mst_cudnn_filter * filter))                                                          \
    X(mst_cudnn_status, cudnnSetFilterNdDescriptor,                                                                                        \
      (mst_cudnn_filter filter, unsigned int type, unsigned int format, int dims, const int *sizes))                                       \
    X(mst_cudnn_status, cudnnDestroyFilterDescriptor, (mst_cudnn_filter filter))                                                           \
    X(mst_cudnn_status, cudnnCreateConvolutionDescriptor, (mst_cudnn_convolution * convolution))                                           \
    X(mst_cudnn_status, cudnnSetConvolutionNdDescriptor,                                                                                   \
      (mst_cudnn_convolution convolution, int axes, const int *padding, const int *stride, const int *dilation, unsigned int mode,         \
       unsigned int type))                                                                                                                 \
    X(mst_cudnn_status, cudnnSetConvolutionGroupCount, (mst_cudnn_convolution convolution, int groups))                                    \
    X(mst_cudnn_status, cudnnSetConvolutionMathType, (mst_cudnn_convolution convolution, unsigned int math))                               \
    X(mst_cudnn_status, cudnnDestroyConvolutionDescriptor, (mst_cudnn_convolution convolution))                                            \
    X(mst_cudnn_status, cudnnGetConvolutionForwardAlgorithm_v7,                                                                            \
      (mst_cudnn_handle handle, mst_cudnn_tensor x, mst_cudnn_filter w, mst_cudnn_convolution convolution, mst_cudnn_tensor y, int most,   \
       int *count, mst_cudnn_forward_algorithm *algorithms))                                                                               \
    X(mst_cudnn_status, cudnnGetConvolutionBackwardDataAlgorithm_v7,                                                                       \
      (mst_cudnn_handle handle, mst_cudnn_filter w, mst_cudnn_tensor dy, mst_cudnn_convolution convolution, mst_cudnn_tensor dx, int most, \
       int *count, mst_cudnn_data_algorithm *algorithms))                                                                                  \
    X(mst_cudnn_status, cudnnGetConvolutionBackwardFilterAlgorithm_v7,                                                                     \
      (mst_cudnn_handle handle, mst_cudnn_tensor x, mst_cudnn_tensor dy, mst_cudnn_convolution convolution, mst_cudnn_filter dw, int most, \
       int *count, mst_cudnn_filter_algorithm *algorithms))                                                                                \
    X(mst_cudnn_status, cudnnGetConvolutionForwardWorkspaceSize,                                                                           \
      (mst_cudnn_handle handle, mst_cudnn_tensor x, mst_cudnn_filter w, mst_cudnn_convolution convolution, mst_cudnn_tensor y,             \
       unsigned int algorithm, size_t *bytes))                                                                                             \
    X(mst_cudnn_status, cudnnGetConvolutionBackwardDataWorkspaceSize,                                                                      \
      (mst_cudnn_handle handle, mst_cudnn_filter w, mst_cudnn_tensor dy, mst_cudnn_convolution convolution, mst_cudnn_tensor dx,           \
       unsigned int algorithm, size_t *bytes))                                                                                             \
    X(mst_cudnn_status, cudnnGetConvolutionBackwardFilterWorkspaceSize,                                                                    \
      (mst_cudnn_handle handle, mst_cudnn_tensor x, mst_cudnn_tensor dy, mst_cudnn_convolution convolution, mst_cudnn_filter dw,           \
       unsigned int algorithm, size_t *bytes))                                                                                             \
    X(mst_cudnn_status, cudnnConvolutionForward,                                                                                           \
      (mst_cudnn_handle handle, const void *alpha, mst_cudnn_tensor x_as, const void *x, mst_cudnn_filter w_as, const void *w,             \
       mst_cudnn_convolution convolution, unsigned int algorithm, void *workspace, size_t bytes, const void *beta, mst_cudnn_tensor y_as,  \
       void *y))                                                                                                                           \
    X(mst_cudnn_status, cudnnConvolutionBackwardData,                                                                                      \
      (mst_cudnn_handle handle, const void *alpha, mst_cudnn_filter w_as, const void *w, mst_cudnn_tensor dy_as, const void *dy,           \
       mst_cudnn_convolution convolution, unsigned int algorithm, void *workspace, size_t bytes, const void *beta, mst_cudnn_tensor dx_as, \
       void *dx))                                                                                                                          \
    X(mst_cudnn_status, cudnnConvolutionBackwardFilter,                                                                                    \
      (mst_cudnn_handle handle, const void *alpha, mst_cudnn_tensor x_as, const void *x, mst_cudnn_tensor dy_as, const void *dy,           \
       mst_cudnn_convolution convolution, unsigned int algorithm, void *workspace, size_t bytes, const void *beta, mst_cudnn_filter dw_as, \
       void *dw))

typedef struct mst_cudnn_api {
    MST_CUDNN_SYMBOLS(MST_FOREIGN_MEMBER)
} mst_cudnn_api;

/* As mst_cublas_api_get. MUSTER_CUDNN names another library, by its name or an absolute path;
 * "none": UNAVAILABLE. */
muster_status mst_cudnn_api_get(const mst_cudnn_api **api);
/* As mst_cuda_error. */
muster_status mst_cudnn_error(const mst_cudnn_api *api, mst_cudnn_status result, const char *symbol, const char *device);

#endif
