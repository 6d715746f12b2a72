/* Convolutions by cuDNN on one CUDA device, for lib/nn. A plan holds all that cuDNN has for one
 * geometry: its descriptors, and the algorithm that was chosen for it. */
#ifndef MST_CUDA_CONVOLUTION_IMPL_H
#define MST_CUDA_CONVOLUTION_IMPL_H

#include "cuda_impl.h"

enum { MST_CUDA_CONVOLUTION_AXES = 3, MST_CUDA_CONVOLUTION_DIMS = MST_CUDA_CONVOLUTION_AXES + 2 };
typedef enum { MST_CUDA_CONVOLVE_FORWARD, MST_CUDA_CONVOLVE_DATA, MST_CUDA_CONVOLVE_WEIGHTS } mst_cuda_convolution_kind;

/* x (n, c, extents), w (o, c / groups, window), y (n, o, places), of 2 or 3 extents. Sizes are 1 or
 * more, strides in elements, padding the same on both sides. w is packed: (o, window, c / groups)
 * if `w_channels_last`, else (o, c / groups, window). */
typedef struct mst_cuda_convolution_shape {
    muster_dtype dtype; /* f16, bf16, f32 or f64 */
    mst_cuda_convolution_kind kind;
    int32_t axes;
    bool w_channels_last;
    int64_t x[MST_CUDA_CONVOLUTION_DIMS], x_strides[MST_CUDA_CONVOLUTION_DIMS];
    int64_t y[MST_CUDA_CONVOLUTION_DIMS], y_strides[MST_CUDA_CONVOLUTION_DIMS];
    int64_t w[MST_CUDA_CONVOLUTION_DIMS];
    int64_t padding[MST_CUDA_CONVOLUTION_AXES], stride[MST_CUDA_CONVOLUTION_AXES], dilation[MST_CUDA_CONVOLUTION_AXES];
    int64_t groups;
} mst_cuda_convolution_shape;

typedef struct mst_cuda_convolution mst_cuda_convolution;

/* Between calls. Opens cuDNN, and makes the device's handle, if it has none yet: that allocates
 * device memory, and can wait for the device. Without cuDNN, or where the handle cannot be made,
 * which a notice says, the device has none. */
void mst_cuda_convolution_open(mst_device *device);
/* Makes a plan. *plan NULL, with MUSTER_OK: the device has no handle, or cuDNN does not compute
 * this. Only algorithms are chosen that give the same bits each time, and whose workspace has at
 * most a sixteenth of the GPU's memory and 256 MiB. f32 is not computed in TF32 unless the device
 * may; f16 and bf16 are summed in f32, in algorithms that compute plain sums of products. The
 * driver is not asked for memory. Errors: OUT_OF_MEMORY, those of the device. */
muster_status mst_cuda_convolution_create(mst_device *device, const mst_cuda_convolution_shape *shape, mst_cuda_convolution **plan);
int64_t mst_cuda_convolution_workspace(const mst_cuda_convolution *plan); /* bytes; 0: it needs none */
/* Issues the convolution in COMPUTE. Addresses are those of the first elements. The plan's
 * workspace belongs to the convolution until it is done. add: the result is added to what is there.
 * The first run of a plan may wait, as that of a gemm. */
muster_status mst_cuda_convolution_run(mst_device *device, mst_cuda_convolution *plan, void *x, void *w, void *y, void *workspace,
                                       bool add);
/* Any thread, also after the device was closed; what was issued may still be running. */
void mst_cuda_convolution_destroy(mst_cuda_convolution *plan);

/* "cuDNN 9.19.0"; "" without it, or with MUSTER_CUDNN=none. Any thread. */
void mst_cuda_describe_cudnn(char *text, size_t size);

#endif
