/* Descriptors of the simulated cuDNN. What they refuse, and with which status, is what cuDNN 9.19
 * does: that needs no GPU. */
#include "cudnn_sim.h"

#include <limits.h>
#include <string.h>

enum { PLACES = 8192, TYPE_MOST = 21, FEWEST_TENSOR_DIMS = 2, FEWEST_FILTER_DIMS = 3, AXES_MOST = 6, MATH_MOST = MST_CUDNN_FMA_MATH };

/* A table for each kind of them. Creating and destroying are ordered, as by malloc and free. */
#define TABLE(name, handle, what)                                                                                            \
    static struct handle name##_places[PLACES];                                                                              \
    static atomic_uint name##_next;                                                                                          \
    static struct handle *name##_make(void) {                                                                                \
        for (int i = 0; i < PLACES; i++) {                                                                                   \
            struct handle *made = &name##_places[atomic_fetch_add_explicit(&name##_next, 1, memory_order_relaxed) % PLACES]; \
            int life = atomic_load_explicit(&made->life, memory_order_acquire);                                              \
            if (life != SIM_ALIVE && atomic_compare_exchange_strong(&made->life, &life, SIM_ALIVE)) {                        \
                sim_handle_made("cuDNN descriptors", 0);                                                                     \
                return made;                                                                                                 \
            }                                                                                                                \
        }                                                                                                                    \
        return NULL;                                                                                                         \
    }                                                                                                                        \
    struct handle *cudnn_##name##_of(struct handle *given) {                                                                 \
        uintptr_t offset = (uintptr_t)given - (uintptr_t)name##_places;                                                      \
        if (offset >= sizeof name##_places || offset % sizeof *given) return NULL;                                           \
        int life = atomic_load_explicit(&given->life, memory_order_relaxed);                                                 \
        if (life == SIM_DESTROYED) sim_hazard("use of a destroyed " what " of cuDNN");                                       \
        return life == SIM_ALIVE ? given : NULL;                                                                             \
    }                                                                                                                        \
    static mst_cudnn_status name##_destroy(struct handle *given, int index) {                                                \
        unsigned injected = sim_enter(&cudnn_symbols[index], -1);                                                            \
        if (!given) return injected;                                                                                         \
        if (!cudnn_##name##_of(given)) return injected ? injected : MST_CUDNN_BAD_PARAM;                                     \
        sim_handle_gone("cuDNN descriptors", 0);                                                                             \
        atomic_store_explicit(&given->life, SIM_DESTROYED, memory_order_release);                                            \
        return injected;                                                                                                     \
    }
TABLE(tensor, cudnnTensorStruct, "descriptor of a tensor")
TABLE(filter, cudnnFilterStruct, "descriptor of a filter")
TABLE(convolution, cudnnConvolutionStruct, "descriptor of a convolution")

void cudnn_descriptors_forget(void) {
    for (int i = 0; i < PLACES; i++) {
        atomic_store(&tensor_places[i].life, SIM_NEVER);
        atomic_store(&filter_places[i].life, SIM_NEVER);
        atomic_store(&convolution_places[i].life, SIM_NEVER);
    }
}

/* ---- tensors ---- */

mst_cudnn_status cudnnCreateTensorDescriptor(mst_cudnn_tensor *tensor) {
    CUDNN_ENTER(cudnnCreateTensorDescriptor, -1);
    if (!tensor) return MST_CUDNN_BAD_PARAM;
    if (!(*tensor = tensor_make())) return MST_CUDNN_HOST_ALLOCATION_FAILED;
    (*tensor)->dims = 0;
    return MST_CUDNN_SUCCESS;
}

mst_cudnn_status cudnnSetTensorNdDescriptor(mst_cudnn_tensor tensor, unsigned int type, int dims, const int *sizes, const int *strides) {
    CUDNN_ENTER(cudnnSetTensorNdDescriptor, -1);
    mst_cudnn_tensor found = cudnn_tensor_of(tensor);
    int64_t reach = 1;
    if (!found || type > TYPE_MOST || dims < FEWEST_TENSOR_DIMS) return MST_CUDNN_BAD_PARAM;
    if (dims > MST_CUDNN_DIM_MAX) return MST_CUDNN_NOT_SUPPORTED;
    for (int d = 0; d < dims; d++) {
        if (sizes[d] < 1 || (strides[d] == 0 && sizes[d] > 1)) return MST_CUDNN_BAD_PARAM;
        reach += (int64_t)(sizes[d] - 1) * strides[d];
    }
    if (reach > INT_MAX) return MST_CUDNN_NOT_SUPPORTED;
    found->type = type;
    found->dims = dims;
    memcpy(found->sizes, sizes, (size_t)dims * sizeof *sizes);
    memcpy(found->strides, strides, (size_t)dims * sizeof *strides);
    return MST_CUDNN_SUCCESS;
}

mst_cudnn_status cudnnDestroyTensorDescriptor(mst_cudnn_tensor tensor) {
    return tensor_destroy(tensor, INDEX_cudnnDestroyTensorDescriptor);
}

/* ---- filters ---- */

mst_cudnn_status cudnnCreateFilterDescriptor(mst_cudnn_filter *filter) {
    CUDNN_ENTER(cudnnCreateFilterDescriptor, -1);
    if (!filter) return MST_CUDNN_BAD_PARAM;
    if (!(*filter = filter_make())) return MST_CUDNN_HOST_ALLOCATION_FAILED;
    (*filter)->dims = 0;
    return MST_CUDNN_SUCCESS;
}

mst_cudnn_status cudnnSetFilterNdDescriptor(mst_cudnn_filter filter, unsigned int type, unsigned int format, int dims, const int *sizes) {
    CUDNN_ENTER(cudnnSetFilterNdDescriptor, -1);
    mst_cudnn_filter found = cudnn_filter_of(filter);
    if (!found || type > TYPE_MOST || format > MST_CUDNN_TENSOR_NHWC || dims < FEWEST_FILTER_DIMS) return MST_CUDNN_BAD_PARAM;
    if (dims > MST_CUDNN_DIM_MAX) return MST_CUDNN_NOT_SUPPORTED;
    for (int d = 0; d < dims; d++)
        if (sizes[d] < 1) return MST_CUDNN_BAD_PARAM;
    found->type = type;
    found->format = format;
    found->dims = dims;
    memcpy(found->sizes, sizes, (size_t)dims * sizeof *sizes);
    return MST_CUDNN_SUCCESS;
}

mst_cudnn_status cudnnDestroyFilterDescriptor(mst_cudnn_filter filter) {
    return filter_destroy(filter, INDEX_cudnnDestroyFilterDescriptor);
}

/* ---- convolutions ---- */

mst_cudnn_status cudnnCreateConvolutionDescriptor(mst_cudnn_convolution *convolution) {
    CUDNN_ENTER(cudnnCreateConvolutionDescriptor, -1);
    if (!convolution) return MST_CUDNN_BAD_PARAM;
    if (!(*convolution = convolution_make())) return MST_CUDNN_HOST_ALLOCATION_FAILED;
    (*convolution)->axes = -1;
    (*convolution)->groups = 1;
    (*convolution)->math = MST_CUDNN_DEFAULT_MATH;
    return MST_CUDNN_SUCCESS;
}

/* Leaves the groups and the arithmetic as they are. */
mst_cudnn_status cudnnSetConvolutionNdDescriptor(mst_cudnn_convolution convolution, int axes, const int *padding, const int *stride,
                                                 const int *dilation, unsigned int mode, unsigned int type) {
    CUDNN_ENTER(cudnnSetConvolutionNdDescriptor, -1);
    mst_cudnn_convolution found = cudnn_convolution_of(convolution);
    if (!found || axes < 0 || mode > MST_CUDNN_CROSS_CORRELATION || type > TYPE_MOST) return MST_CUDNN_BAD_PARAM;
    if (axes > AXES_MOST) return MST_CUDNN_NOT_SUPPORTED;
    for (int d = 0; d < axes; d++)
        if (padding[d] < 0 || stride[d] < 1 || dilation[d] < 1) return MST_CUDNN_BAD_PARAM;
    found->axes = axes;
    found->mode = mode;
    found->type = type;
    memcpy(found->padding, padding, (size_t)axes * sizeof *padding);
    memcpy(found->stride, stride, (size_t)axes * sizeof *stride);
    memcpy(found->dilation, dilation, (size_t)axes * sizeof *dilation);
    return MST_CUDNN_SUCCESS;
}

mst_cudnn_status cudnnSetConvolutionGroupCount(mst_cudnn_convolution convolution, int groups) {
    CUDNN_ENTER(cudnnSetConvolutionGroupCount, -1);
    mst_cudnn_convolution found = cudnn_convolution_of(convolution);
    if (!found || groups < 1) return MST_CUDNN_BAD_PARAM;
    found->groups = groups;
    return MST_CUDNN_SUCCESS;
}

mst_cudnn_status cudnnSetConvolutionMathType(mst_cudnn_convolution convolution, unsigned int math) {
    CUDNN_ENTER(cudnnSetConvolutionMathType, -1);
    mst_cudnn_convolution found = cudnn_convolution_of(convolution);
    if (!found || math > MATH_MOST) return MST_CUDNN_BAD_PARAM;
    found->math = math;
    return MST_CUDNN_SUCCESS;
}

mst_cudnn_status cudnnDestroyConvolutionDescriptor(mst_cudnn_convolution convolution) {
    return convolution_destroy(convolution, INDEX_cudnnDestroyConvolutionDescriptor);
}
