/* What the simulated cuDNN says of its algorithms. Which ones a convolution has, and in which order
 * they come, is cuDNN's own choice. Here those come first that a caller has reasons to refuse. */
#include "cudnn_sim.h"

#include <limits.h>
#include <string.h>

enum { FORWARD_IMPLICIT, FORWARD_IMPLICIT_PRECOMP, FORWARD_GEMM };
enum { DATA_0, DATA_1 };
enum { FILTER_0, FILTER_1, FILTER_3 = 3 };
enum { LARGE_WINDOW = 5, HUGE_WORKSPACE = 1 << 30 };

/* ---- the descriptors together ---- */

static void widen(convolve *c, int operand, int dims, const int *sizes) {
    for (int d = 0; d < CONVOLVE_DIMS; d++) {
        const int from = d < 2 ? d : d - (CONVOLVE_DIMS - dims);
        c->sizes[operand][d] = d >= 2 && from < 2 ? 1 : sizes[from];
    }
}

static void widen_strides(convolve *c, int operand, mst_cudnn_tensor tensor) {
    for (int d = 0; d < CONVOLVE_DIMS; d++) {
        const int from = d < 2 ? d : d - (CONVOLVE_DIMS - tensor->dims);
        c->strides[operand][d] = d >= 2 && from < 2 ? 0 : tensor->strides[from];
    }
}

static void pack_filter(convolve *c, unsigned format) {
    static const int first[] = {4, 3, 2, 1, 0}, last[] = {1, 4, 3, 2, 0};
    int64_t stride = 1;
    for (int i = 0; i < CONVOLVE_DIMS; i++) {
        const int d = format == MST_CUDNN_TENSOR_NHWC ? last[i] : first[i];
        c->strides[CONVOLVE_W][d] = stride;
        stride *= c->sizes[CONVOLVE_W][d];
    }
}

static void take_window(convolve *c, mst_cudnn_convolution convolution) {
    for (int d = 0; d < CONVOLVE_AXES; d++) {
        const int from = d - (CONVOLVE_AXES - convolution->axes);
        c->padding[d] = from < 0 ? 0 : convolution->padding[from];
        c->stride[d] = from < 0 ? 1 : convolution->stride[from];
        c->dilation[d] = from < 0 ? 1 : convolution->dilation[from];
    }
    c->groups = convolution->groups;
}

static bool shapes_agree(const convolve *c) {
    const int64_t *x = c->sizes[CONVOLVE_X], *w = c->sizes[CONVOLVE_W], *y = c->sizes[CONVOLVE_Y];
    bool agree = x[0] == y[0] && w[0] == y[1] && w[1] * c->groups == x[1] && w[0] % c->groups == 0;
    for (int d = 0; d < CONVOLVE_AXES; d++) {
        const int64_t last = x[2 + d] + 2 * c->padding[d] - (w[2 + d] - 1) * c->dilation[d] - 1;
        agree = agree && last >= 0 && last / c->stride[d] + 1 == y[2 + d];
    }
    return agree;
}

static bool strides_are_positive(mst_cudnn_tensor tensor) {
    bool positive = true;
    for (int d = 0; d < tensor->dims; d++) positive = positive && (tensor->strides[d] > 0 || tensor->sizes[d] == 1);
    return positive;
}

static bool types_are_known(unsigned data, unsigned sums) {
    if (data == MST_CUDNN_DATA_DOUBLE) return sums == MST_CUDNN_DATA_DOUBLE;
    return sums == MST_CUDNN_DATA_FLOAT && (data == MST_CUDNN_DATA_FLOAT || data == MST_CUDNN_DATA_HALF || data == MST_CUDNN_DATA_BFLOAT16);
}

mst_cudnn_status cudnn_make_convolve(int kind, mst_cudnn_tensor x, mst_cudnn_filter w, mst_cudnn_convolution convolution,
                                     mst_cudnn_tensor y, convolve *made) {
    x = cudnn_tensor_of(x), y = cudnn_tensor_of(y), w = cudnn_filter_of(w), convolution = cudnn_convolution_of(convolution);
    if (!x || !y || !w || !convolution || !x->dims || !y->dims || !w->dims || convolution->axes < 0) return MST_CUDNN_BAD_PARAM;
    if (x->type != y->type || x->type != w->type || x->dims != y->dims || x->dims != w->dims || x->dims != convolution->axes + 2)
        return MST_CUDNN_BAD_PARAM;
    if (x->dims < 4 || x->dims > CONVOLVE_DIMS || convolution->mode != MST_CUDNN_CROSS_CORRELATION) return MST_CUDNN_NOT_SUPPORTED;
    *made = (convolve){.kind = kind, .type = x->type};
    widen(made, CONVOLVE_X, x->dims, x->sizes);
    widen(made, CONVOLVE_Y, y->dims, y->sizes);
    widen(made, CONVOLVE_W, w->dims, w->sizes);
    widen_strides(made, CONVOLVE_X, x);
    widen_strides(made, CONVOLVE_Y, y);
    pack_filter(made, w->format);
    take_window(made, convolution);
    if (!shapes_agree(made)) return MST_CUDNN_BAD_PARAM;
    return types_are_known(x->type, convolution->type) && strides_are_positive(x) && strides_are_positive(y) ? MST_CUDNN_SUCCESS
                                                                                                             : MST_CUDNN_NOT_SUPPORTED;
}

/* ---- algorithms ---- */

static bool has_channels_last(const convolve *c, int operand) {
    const int64_t *sizes = c->sizes[operand];
    return sizes[1] == 1 || sizes[2] * sizes[3] * sizes[4] == 1 || c->strides[operand][1] == 1;
}

/* Filters with channels last go with tensors that have them there. */
static bool layouts_fit(const convolve *c, mst_cudnn_filter w) {
    return w->format == MST_CUDNN_TENSOR_NCHW || (has_channels_last(c, CONVOLVE_X) && has_channels_last(c, CONVOLVE_Y));
}

static bool has_large_window(const convolve *c) {
    bool large = false;
    for (int d = 0; d < CONVOLVE_AXES; d++) large = large || c->sizes[CONVOLVE_W][2 + d] >= LARGE_WINDOW;
    return large;
}

static bool has_steps_of_one(const convolve *c) {
    bool ones = true;
    for (int d = 0; d < CONVOLVE_AXES; d++) ones = ones && c->stride[d] == 1 && c->dilation[d] == 1;
    return ones;
}

static size_t columns(const convolve *c) {
    const int64_t *w = c->sizes[CONVOLVE_W], *y = c->sizes[CONVOLVE_Y];
    return (size_t)(w[1] * w[2] * w[3] * w[4] * y[2] * y[3] * y[4]) * convolve_element(c->type);
}

/* Fills in the memory; false: the algorithm is not for this convolution. */
static bool describe(const convolve *c, mst_cudnn_algorithm *a) {
    const bool transforms = c->type != MST_CUDNN_DATA_DOUBLE && has_steps_of_one(c);
    const size_t some = 1024 + convolve_element(c->type) * (size_t)c->sizes[CONVOLVE_W][0];
    a->determinism = !((c->kind == CONVOLVE_DATA && a->algorithm == DATA_0) ||
                       (c->kind == CONVOLVE_FILTER && (a->algorithm == FILTER_0 || a->algorithm == FILTER_3)));
    if (c->kind == CONVOLVE_FORWARD) {
        a->memory = a->algorithm == FORWARD_GEMM                   ? columns(c)
                    : a->algorithm == FORWARD_IMPLICIT_PRECOMP     ? some
                    : a->algorithm == MST_CUDNN_FORWARD_FFT_TILING ? HUGE_WORKSPACE
                                                                   : 0;
        return a->algorithm <= FORWARD_GEMM || (a->algorithm == MST_CUDNN_FORWARD_WINOGRAD && transforms) ||
               (a->algorithm == MST_CUDNN_FORWARD_FFT_TILING && has_large_window(c));
    }
    if (c->kind == CONVOLVE_DATA) {
        a->memory = a->algorithm == DATA_1 ? some : 0;
        return a->algorithm <= DATA_1 || (a->algorithm == MST_CUDNN_DATA_WINOGRAD && transforms);
    }
    a->memory = a->algorithm == FILTER_1 ? some + columns(c) : 0;
    return a->algorithm <= FILTER_1 || a->algorithm == FILTER_3 || (a->algorithm == MST_CUDNN_FILTER_WINOGRAD_NONFUSED && transforms);
}

mst_cudnn_algorithm cudnn_algorithm_of(const convolve *c, mst_cudnn_filter w, mst_cudnn_convolution convolution, unsigned algorithm) {
    mst_cudnn_algorithm a = {.algorithm = algorithm, .time = -1, .math = convolution->math};
    const unsigned most = c->kind == CONVOLVE_FORWARD ? MST_CUDNN_FORWARD_ALGORITHMS
                          : c->kind == CONVOLVE_DATA  ? MST_CUDNN_DATA_ALGORITHMS
                                                      : MST_CUDNN_FILTER_ALGORITHMS;
    if (algorithm < most && layouts_fit(c, w) && describe(c, &a)) return a;
    a.status = MST_CUDNN_NOT_SUPPORTED;
    a.memory = 0;
    return a;
}

/* ---- asking ---- */

static mst_cudnn_status list(int kind, mst_cudnn_tensor x, mst_cudnn_filter w, mst_cudnn_convolution convolution, mst_cudnn_tensor y,
                             int most, int *count, mst_cudnn_algorithm *algorithms) {
    static const unsigned orders[3][9] = {
        {MST_CUDNN_FORWARD_FFT_TILING, MST_CUDNN_FORWARD_WINOGRAD, FORWARD_IMPLICIT_PRECOMP, FORWARD_GEMM, FORWARD_IMPLICIT,
         MST_CUDNN_FORWARD_FFT, UINT_MAX},
        {DATA_0, MST_CUDNN_DATA_WINOGRAD, DATA_1, MST_CUDNN_DATA_FFT, UINT_MAX},
        {FILTER_0, FILTER_3, MST_CUDNN_FILTER_WINOGRAD_NONFUSED, FILTER_1, MST_CUDNN_FILTER_FFT, UINT_MAX}};
    convolve c;
    if (!count || !algorithms || most < 1) return MST_CUDNN_BAD_PARAM;
    const mst_cudnn_status status = cudnn_make_convolve(kind, x, w, convolution, y, &c);
    if (status) return status;
    *count = 0;
    /* first those that compute it */
    for (int refused = 0; refused < 2; refused++)
        for (const unsigned *at = orders[kind]; *at != UINT_MAX; at++) {
            const mst_cudnn_algorithm a = cudnn_algorithm_of(&c, w, convolution, *at);
            if ((a.status != MST_CUDNN_SUCCESS) == refused && *count < most) algorithms[(*count)++] = a;
        }
    return MST_CUDNN_SUCCESS;
}

static mst_cudnn_status size(int kind, mst_cudnn_tensor x, mst_cudnn_filter w, mst_cudnn_convolution convolution, mst_cudnn_tensor y,
                             unsigned algorithm, size_t *bytes) {
    convolve c;
    if (!bytes) return MST_CUDNN_BAD_PARAM;
    mst_cudnn_status status = cudnn_make_convolve(kind, x, w, convolution, y, &c);
    if (status) return status;
    const mst_cudnn_algorithm a = cudnn_algorithm_of(&c, w, convolution, algorithm);
    if (a.status) return a.status;
    *bytes = a.memory;
    return MST_CUDNN_SUCCESS;
}

#define FOUND(symbol)                                 \
    mst_cudnn_handle found = cudnn_handle_of(handle); \
    CUDNN_ENTER(symbol, cudnn_device_of(found));      \
    if (!found) return MST_CUDNN_BAD_PARAM

mst_cudnn_status cudnnGetConvolutionForwardAlgorithm_v7(mst_cudnn_handle handle, mst_cudnn_tensor x, mst_cudnn_filter w,
                                                        mst_cudnn_convolution convolution, mst_cudnn_tensor y, int most, int *count,
                                                        mst_cudnn_algorithm *algorithms) {
    FOUND(cudnnGetConvolutionForwardAlgorithm_v7);
    return list(CONVOLVE_FORWARD, x, w, convolution, y, most, count, algorithms);
}

mst_cudnn_status cudnnGetConvolutionBackwardDataAlgorithm_v7(mst_cudnn_handle handle, mst_cudnn_filter w, mst_cudnn_tensor dy,
                                                             mst_cudnn_convolution convolution, mst_cudnn_tensor dx, int most, int *count,
                                                             mst_cudnn_algorithm *algorithms) {
    FOUND(cudnnGetConvolutionBackwardDataAlgorithm_v7);
    return list(CONVOLVE_DATA, dx, w, convolution, dy, most, count, algorithms);
}

mst_cudnn_status cudnnGetConvolutionBackwardFilterAlgorithm_v7(mst_cudnn_handle handle, mst_cudnn_tensor x, mst_cudnn_tensor dy,
                                                               mst_cudnn_convolution convolution, mst_cudnn_filter dw, int most, int *count,
                                                               mst_cudnn_algorithm *algorithms) {
    FOUND(cudnnGetConvolutionBackwardFilterAlgorithm_v7);
    return list(CONVOLVE_FILTER, x, dw, convolution, dy, most, count, algorithms);
}

mst_cudnn_status cudnnGetConvolutionForwardWorkspaceSize(mst_cudnn_handle handle, mst_cudnn_tensor x, mst_cudnn_filter w,
                                                         mst_cudnn_convolution convolution, mst_cudnn_tensor y, unsigned int algorithm,
                                                         size_t *bytes) {
    FOUND(cudnnGetConvolutionForwardWorkspaceSize);
    return size(CONVOLVE_FORWARD, x, w, convolution, y, algorithm, bytes);
}

mst_cudnn_status cudnnGetConvolutionBackwardDataWorkspaceSize(mst_cudnn_handle handle, mst_cudnn_filter w, mst_cudnn_tensor dy,
                                                              mst_cudnn_convolution convolution, mst_cudnn_tensor dx,
                                                              unsigned int algorithm, size_t *bytes) {
    FOUND(cudnnGetConvolutionBackwardDataWorkspaceSize);
    return size(CONVOLVE_DATA, dx, w, convolution, dy, algorithm, bytes);
}

mst_cudnn_status cudnnGetConvolutionBackwardFilterWorkspaceSize(mst_cudnn_handle handle, mst_cudnn_tensor x, mst_cudnn_tensor dy,
                                                                mst_cudnn_convolution convolution, mst_cudnn_filter dw,
                                                                unsigned int algorithm, size_t *bytes) {
    FOUND(cudnnGetConvolutionBackwardFilterWorkspaceSize);
    return size(CONVOLVE_FILTER, x, dw, convolution, dy, algorithm, bytes);
}
