/* What a caller may rely on in cuDNN. What descriptors are needs no GPU. */
#include "base_skip.h"
#include "contract_support.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- without a GPU ---- */

static void versions_and_statuses_are_told(void **state) {
    (void)state;
    assert_true(dnn.cudnnGetVersion() >= 90000);
    assert_string_equal(dnn.cudnnGetErrorString(MST_CUDNN_SUCCESS), "CUDNN_STATUS_SUCCESS");
    assert_string_equal(dnn.cudnnGetErrorString(MST_CUDNN_DEVICE_ALLOCATION_FAILED),
                        "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED");
    assert_string_equal(dnn.cudnnGetErrorString(77), "CUDNN_UNKNOWN_STATUS");
}

static void tensors_have_two_to_eight_sizes_and_strides(void **state) {
    (void)state;
    mst_cudnn_tensor t = NULL;
    const int sizes[9] = {2, 3, 5, 7, 1, 1, 1, 1, 1}, strides[9] = {105, 35, 7, 1, 1, 1, 1, 1, 1};
#define SET(type, dims, sizes, strides) dnn.cudnnSetTensorNdDescriptor(t, type, dims, sizes, strides)
    assert_code(dnn.cudnnCreateTensorDescriptor(NULL), MST_CUDNN_BAD_PARAM);
    assert_code(SET(MST_CUDNN_DATA_FLOAT, 4, sizes, strides), MST_CUDNN_BAD_PARAM); /* none yet */
    assert_done(dnn.cudnnCreateTensorDescriptor(&t));
    for (int dims = 2; dims <= 8; dims++) assert_done(SET(MST_CUDNN_DATA_FLOAT, dims, sizes, strides));
    assert_code(SET(MST_CUDNN_DATA_FLOAT, 1, sizes, strides), MST_CUDNN_BAD_PARAM);
    assert_code(SET(MST_CUDNN_DATA_FLOAT, 9, sizes, strides), MST_CUDNN_NOT_SUPPORTED);
    assert_code(SET(77, 4, sizes, strides), MST_CUDNN_BAD_PARAM);
    assert_done(SET(MST_CUDNN_DATA_DOUBLE, 4, sizes, strides));
    assert_done(SET(MST_CUDNN_DATA_HALF, 4, sizes, strides));
    assert_done(SET(MST_CUDNN_DATA_BFLOAT16, 4, sizes, strides));
    assert_code(SET(MST_CUDNN_DATA_FLOAT, 4, ((const int[]){2, 0, 5, 7}), strides), MST_CUDNN_BAD_PARAM);
    /* a stride of 0 along an axis of one element only; the largest reach is that of an int */
    assert_code(SET(MST_CUDNN_DATA_FLOAT, 4, sizes, ((const int[]){105, 0, 7, 1})), MST_CUDNN_BAD_PARAM);
    assert_done(SET(MST_CUDNN_DATA_FLOAT, 4, ((const int[]){2, 1, 5, 7}), ((const int[]){35, 0, 7, 1})));
    assert_done(SET(MST_CUDNN_DATA_FLOAT, 4, ((const int[]){1, 1, 2, 1}), ((const int[]){1, 1, INT_MAX - 1, 1})));
    assert_code(SET(MST_CUDNN_DATA_FLOAT, 4, ((const int[]){1, 1, 2, 1}), ((const int[]){1, 1, INT_MAX, 1})), MST_CUDNN_NOT_SUPPORTED);
#undef SET
    assert_done(dnn.cudnnDestroyTensorDescriptor(t));
    assert_done(dnn.cudnnDestroyTensorDescriptor(NULL));
}

static void filters_have_three_to_eight_sizes_and_a_format(void **state) {
    (void)state;
    mst_cudnn_filter f = NULL;
    const int sizes[9] = {6, 2, 3, 3, 1, 1, 1, 1, 1};
#define SET(type, format, dims, sizes) dnn.cudnnSetFilterNdDescriptor(f, type, format, dims, sizes)
    assert_code(dnn.cudnnCreateFilterDescriptor(NULL), MST_CUDNN_BAD_PARAM);
    assert_code(SET(MST_CUDNN_DATA_FLOAT, MST_CUDNN_TENSOR_NCHW, 4, sizes), MST_CUDNN_BAD_PARAM);
    assert_done(dnn.cudnnCreateFilterDescriptor(&f));
    for (int dims = 3; dims <= 8; dims++) assert_done(SET(MST_CUDNN_DATA_FLOAT, MST_CUDNN_TENSOR_NCHW, dims, sizes));
    assert_code(SET(MST_CUDNN_DATA_FLOAT, MST_CUDNN_TENSOR_NCHW, 2, sizes), MST_CUDNN_BAD_PARAM);
    assert_code(SET(MST_CUDNN_DATA_FLOAT, MST_CUDNN_TENSOR_NCHW, 9, sizes), MST_CUDNN_NOT_SUPPORTED);
    assert_done(SET(MST_CUDNN_DATA_BFLOAT16, MST_CUDNN_TENSOR_NHWC, 5, sizes));
    assert_code(SET(MST_CUDNN_DATA_FLOAT, 9, 4, sizes), MST_CUDNN_BAD_PARAM);
    assert_code(SET(77, MST_CUDNN_TENSOR_NCHW, 4, sizes), MST_CUDNN_BAD_PARAM);
    assert_code(SET(MST_CUDNN_DATA_FLOAT, MST_CUDNN_TENSOR_NCHW, 4, ((const int[]){6, 0, 3, 3})), MST_CUDNN_BAD_PARAM);
#undef SET
    assert_done(dnn.cudnnDestroyFilterDescriptor(f));
    assert_done(dnn.cudnnDestroyFilterDescriptor(NULL));
}

static void convolutions_have_up_to_six_axes(void **state) {
    (void)state;
    mst_cudnn_convolution c = NULL;
    const int zeros[7] = {0}, ones[7] = {1, 1, 1, 1, 1, 1, 1}, below[2] = {0, -1}, zero[2] = {1, 0};
#define SET(axes, padding, stride, dilation, mode, type) dnn.cudnnSetConvolutionNdDescriptor(c, axes, padding, stride, dilation, mode, type)
    assert_code(dnn.cudnnCreateConvolutionDescriptor(NULL), MST_CUDNN_BAD_PARAM);
    assert_code(SET(2, zeros, ones, ones, MST_CUDNN_CROSS_CORRELATION, MST_CUDNN_DATA_FLOAT), MST_CUDNN_BAD_PARAM);
    assert_done(dnn.cudnnCreateConvolutionDescriptor(&c));
    for (int axes = 0; axes <= 6; axes++) assert_done(SET(axes, zeros, ones, ones, MST_CUDNN_CROSS_CORRELATION, MST_CUDNN_DATA_FLOAT));
    assert_code(SET(7, zeros, ones, ones, MST_CUDNN_CROSS_CORRELATION, MST_CUDNN_DATA_FLOAT), MST_CUDNN_NOT_SUPPORTED);
    assert_code(SET(-1, zeros, ones, ones, MST_CUDNN_CROSS_CORRELATION, MST_CUDNN_DATA_FLOAT), MST_CUDNN_BAD_PARAM);
    assert_code(SET(2, below, ones, ones, MST_CUDNN_CROSS_CORRELATION, MST_CUDNN_DATA_FLOAT), MST_CUDNN_BAD_PARAM);
    assert_code(SET(2, zeros, zero, ones, MST_CUDNN_CROSS_CORRELATION, MST_CUDNN_DATA_FLOAT), MST_CUDNN_BAD_PARAM);
    assert_code(SET(2, zeros, ones, zero, MST_CUDNN_CROSS_CORRELATION, MST_CUDNN_DATA_FLOAT), MST_CUDNN_BAD_PARAM);
    assert_code(SET(2, zeros, ones, ones, 7, MST_CUDNN_DATA_FLOAT), MST_CUDNN_BAD_PARAM);
    assert_code(SET(2, zeros, ones, ones, MST_CUDNN_CROSS_CORRELATION, 77), MST_CUDNN_BAD_PARAM);
#undef SET
    assert_done(dnn.cudnnSetConvolutionGroupCount(c, 3));
    assert_code(dnn.cudnnSetConvolutionGroupCount(c, 0), MST_CUDNN_BAD_PARAM);
    assert_code(dnn.cudnnSetConvolutionGroupCount(NULL, 1), MST_CUDNN_BAD_PARAM);
    for (unsigned math = MST_CUDNN_DEFAULT_MATH; math <= MST_CUDNN_FMA_MATH; math++) assert_done(dnn.cudnnSetConvolutionMathType(c, math));
    assert_code(dnn.cudnnSetConvolutionMathType(c, MST_CUDNN_FMA_MATH + 1), MST_CUDNN_BAD_PARAM);
    assert_code(dnn.cudnnSetConvolutionMathType(NULL, 0), MST_CUDNN_BAD_PARAM);
    assert_done(dnn.cudnnDestroyConvolutionDescriptor(c));
    assert_done(dnn.cudnnDestroyConvolutionDescriptor(NULL));
}

static void nothing_is_done_without_a_handle(void **state) {
    (void)state;
    const float one = 1;
    mst_cudnn_algorithm list[8];
    int count = 0;
    size_t bytes = 0;
    assert_code(dnn.cudnnCreate(NULL), MST_CUDNN_BAD_PARAM);
    assert_done(dnn.cudnnDestroy(NULL));
    assert_code(dnn.cudnnSetStream(NULL, NULL), MST_CUDNN_BAD_PARAM);
    assert_code(dnn.cudnnGetConvolutionForwardAlgorithm_v7(NULL, NULL, NULL, NULL, NULL, 8, &count, list), MST_CUDNN_BAD_PARAM);
    assert_code(dnn.cudnnGetConvolutionBackwardDataAlgorithm_v7(NULL, NULL, NULL, NULL, NULL, 8, &count, list), MST_CUDNN_BAD_PARAM);
    assert_code(dnn.cudnnGetConvolutionBackwardFilterAlgorithm_v7(NULL, NULL, NULL, NULL, NULL, 8, &count, list), MST_CUDNN_BAD_PARAM);
    assert_code(dnn.cudnnGetConvolutionForwardWorkspaceSize(NULL, NULL, NULL, NULL, NULL, 0, &bytes), MST_CUDNN_BAD_PARAM);
    assert_code(dnn.cudnnGetConvolutionBackwardDataWorkspaceSize(NULL, NULL, NULL, NULL, NULL, 0, &bytes), MST_CUDNN_BAD_PARAM);
    assert_code(dnn.cudnnGetConvolutionBackwardFilterWorkspaceSize(NULL, NULL, NULL, NULL, NULL, 0, &bytes), MST_CUDNN_BAD_PARAM);
    assert_code(dnn.cudnnConvolutionForward(NULL, &one, NULL, NULL, NULL, NULL, NULL, 0, NULL, 0, &one, NULL, NULL), MST_CUDNN_BAD_PARAM);
    assert_code(dnn.cudnnConvolutionBackwardData(NULL, &one, NULL, NULL, NULL, NULL, NULL, 0, NULL, 0, &one, NULL, NULL),
                MST_CUDNN_BAD_PARAM);
    assert_code(dnn.cudnnConvolutionBackwardFilter(NULL, &one, NULL, NULL, NULL, NULL, NULL, 0, NULL, 0, &one, NULL, NULL),
                MST_CUDNN_BAD_PARAM);
}

/* ---- on a GPU ---- */

static mst_cudnn_handle handle;
enum { FORWARD, DATA, FILTER, KINDS, X = 0, W, Y, OPERANDS, DIMS = 5, MOST = 4096, ALGORITHMS = 16 };
static const char *const kinds[] = {"forward", "data", "filter"};

/* Small whole numbers are exact in every type. */
typedef struct type {
    const char *name;
    unsigned data, sums, math;
    size_t bytes;
} type;
static const type types[] = {{"f32", MST_CUDNN_DATA_FLOAT, MST_CUDNN_DATA_FLOAT, MST_CUDNN_FMA_MATH, 4},
                             {"f64", MST_CUDNN_DATA_DOUBLE, MST_CUDNN_DATA_DOUBLE, MST_CUDNN_DEFAULT_MATH, 8},
                             {"f16", MST_CUDNN_DATA_HALF, MST_CUDNN_DATA_FLOAT, MST_CUDNN_TENSOR_OP_MATH, 2},
                             {"bf16", MST_CUDNN_DATA_BFLOAT16, MST_CUDNN_DATA_FLOAT, MST_CUDNN_TENSOR_OP_MATH, 2}};
enum { TYPES = sizeof types / sizeof *types };

static void store(const type *of, void *to, int place, double value) {
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, 4);
    if (of->data == MST_CUDNN_DATA_DOUBLE) ((double *)to)[place] = value;
    if (of->data == MST_CUDNN_DATA_FLOAT) ((float *)to)[place] = narrow;
    if (of->data == MST_CUDNN_DATA_BFLOAT16) ((uint16_t *)to)[place] = (uint16_t)(bits >> 16);
    if (of->data == MST_CUDNN_DATA_HALF)
        ((uint16_t *)to)[place] =
            (uint16_t)(value == 0 ? 0 : (bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10) | (bits >> 13 & 1023));
}

static double load(const type *of, const void *from, int place) {
    if (of->data == MST_CUDNN_DATA_DOUBLE) return ((const double *)from)[place];
    if (of->data == MST_CUDNN_DATA_FLOAT) return ((const float *)from)[place];
    uint32_t half = ((const uint16_t *)from)[place];
    uint32_t bits = of->data == MST_CUDNN_DATA_BFLOAT16 ? half << 16
                    : half & 0x7FFF                     ? (half & 0x8000) << 16 | ((half >> 10 & 31) + 112) << 23 | (half & 1023) << 13
                                                        : 0;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

typedef struct geometry {
    const char *name;
    int axes; /* 2 or 3 */
    bool channels_last;
    int groups, sizes[OPERANDS][DIMS], padding[3], stride[3], dilation[3];
} geometry;
static const geometry geometries[] = {
    {"plain", 2, false, 1, {{2, 3, 6, 5}, {4, 3, 3, 3}, {2, 4, 6, 5}}, {1, 1}, {1, 1}, {1, 1}},
    {"channels last", 2, true, 1, {{2, 8, 6, 5}, {8, 8, 3, 3}, {2, 8, 6, 5}}, {1, 1}, {1, 1}, {1, 1}},
    {"steps and gaps", 2, false, 1, {{1, 2, 9, 8}, {3, 2, 3, 2}, {1, 3, 3, 3}}, {0, 1}, {2, 3}, {2, 1}},
    {"groups", 2, false, 2, {{2, 4, 5, 5}, {6, 2, 3, 3}, {2, 6, 3, 3}}, {0, 0}, {1, 1}, {1, 1}},
    {"one row", 2, false, 1, {{2, 3, 1, 9}, {2, 3, 1, 3}, {2, 2, 1, 7}}, {0, 0}, {1, 1}, {1, 1}},
    {"three axes", 3, false, 1, {{1, 2, 4, 5, 3}, {3, 2, 2, 3, 1}, {1, 3, 3, 3, 3}}, {0, 0, 0}, {1, 1, 1}, {1, 1, 1}},
};
enum { GEOMETRIES = sizeof geometries / sizeof *geometries };

static int count_of(const geometry *g, int operand) {
    int count = 1;
    for (int d = 0; d < g->axes + 2; d++) count *= g->sizes[operand][d];
    return count;
}

static void strides_of(const geometry *g, int operand, int *strides) {
    int stride = 1;
    if (g->channels_last) stride = g->sizes[operand][1];
    for (int d = g->axes + 1; d >= 2; d--) {
        strides[d] = stride;
        stride *= g->sizes[operand][d];
    }
    strides[1] = g->channels_last ? 1 : stride;
    if (!g->channels_last) stride *= g->sizes[operand][1];
    strides[0] = stride;
}

typedef struct plan {
    const geometry *g;
    const type *of;
    int kind;
    mst_cudnn_tensor x, y;
    mst_cudnn_filter w;
    mst_cudnn_convolution c;
    mst_cu_address memory[OPERANDS];
    double host[OPERANDS][MOST];
} plan;
static plan now;

static int result_of(int kind) { return kind == FORWARD ? Y : kind == DATA ? X : W; }

static void operand_make(plan *p, int operand) {
    static unsigned char raw[MOST * 8];
    const int count = count_of(p->g, operand);
    for (int i = 0; i < count; i++) {
        p->host[operand][i] = (i * 7 + operand * 3) % 5 - 2;
        store(p->of, raw, i, p->host[operand][i]);
    }
    assert_done(cu.cuMemAlloc_v2(&p->memory[operand], (size_t)count * p->of->bytes));
    assert_done(cu.cuMemcpyHtoDAsync_v2(p->memory[operand], raw, (size_t)count * p->of->bytes, gpu.stream));
}

static plan *make(const geometry *g, const type *of, int kind) {
    plan *p = &now;
    int strides[DIMS];
    *p = (plan){.g = g, .of = of, .kind = kind};
    for (int i = 0; i < OPERANDS; i++) operand_make(p, i);
    assert_done(dnn.cudnnCreateTensorDescriptor(&p->x));
    assert_done(dnn.cudnnCreateTensorDescriptor(&p->y));
    assert_done(dnn.cudnnCreateFilterDescriptor(&p->w));
    assert_done(dnn.cudnnCreateConvolutionDescriptor(&p->c));
    strides_of(g, X, strides);
    assert_done(dnn.cudnnSetTensorNdDescriptor(p->x, of->data, g->axes + 2, g->sizes[X], strides));
    strides_of(g, Y, strides);
    assert_done(dnn.cudnnSetTensorNdDescriptor(p->y, of->data, g->axes + 2, g->sizes[Y], strides));
    assert_done(dnn.cudnnSetFilterNdDescriptor(p->w, of->data, g->channels_last ? MST_CUDNN_TENSOR_NHWC : MST_CUDNN_TENSOR_NCHW,
                                               g->axes + 2, g->sizes[W]));
    assert_done(
        dnn.cudnnSetConvolutionNdDescriptor(p->c, g->axes, g->padding, g->stride, g->dilation, MST_CUDNN_CROSS_CORRELATION, of->sums));
    assert_done(dnn.cudnnSetConvolutionGroupCount(p->c, g->groups));
    assert_done(dnn.cudnnSetConvolutionMathType(p->c, of->math));
    return p;
}

static void end(plan *p) {
    for (int i = 0; i < OPERANDS; i++) assert_done(cu.cuMemFree_v2(p->memory[i]));
    assert_done(dnn.cudnnDestroyTensorDescriptor(p->x));
    assert_done(dnn.cudnnDestroyTensorDescriptor(p->y));
    assert_done(dnn.cudnnDestroyFilterDescriptor(p->w));
    assert_done(dnn.cudnnDestroyConvolutionDescriptor(p->c));
}

static mst_cudnn_status ask(const plan *p, int *count, mst_cudnn_algorithm *list) {
    if (p->kind == FORWARD) return dnn.cudnnGetConvolutionForwardAlgorithm_v7(handle, p->x, p->w, p->c, p->y, ALGORITHMS, count, list);
    if (p->kind == DATA) return dnn.cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, p->w, p->y, p->c, p->x, ALGORITHMS, count, list);
    return dnn.cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, p->x, p->y, p->c, p->w, ALGORITHMS, count, list);
}

static mst_cudnn_status ask_bytes(const plan *p, unsigned algorithm, size_t *bytes) {
    if (p->kind == FORWARD) return dnn.cudnnGetConvolutionForwardWorkspaceSize(handle, p->x, p->w, p->c, p->y, algorithm, bytes);
    if (p->kind == DATA) return dnn.cudnnGetConvolutionBackwardDataWorkspaceSize(handle, p->w, p->y, p->c, p->x, algorithm, bytes);
    return dnn.cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, p->x, p->y, p->c, p->w, algorithm, bytes);
}

static void *pointer(mst_cu_address address) { return (void *)(uintptr_t)address; }

static mst_cudnn_status run(const plan *p, unsigned algorithm, mst_cu_address workspace, size_t bytes, double add) {
    const float narrow[2] = {1, (float)add};
    const double wide[2] = {1, add};
    const void *alpha = p->of->sums == MST_CUDNN_DATA_DOUBLE ? (const void *)&wide[0] : &narrow[0],
               *beta = p->of->sums == MST_CUDNN_DATA_DOUBLE ? (const void *)&wide[1] : &narrow[1];
    void *x = pointer(p->memory[X]), *w = pointer(p->memory[W]), *y = pointer(p->memory[Y]), *work = pointer(workspace);
    if (p->kind == FORWARD)
        return dnn.cudnnConvolutionForward(handle, alpha, p->x, x, p->w, w, p->c, algorithm, work, bytes, beta, p->y, y);
    if (p->kind == DATA)
        return dnn.cudnnConvolutionBackwardData(handle, alpha, p->w, w, p->y, y, p->c, algorithm, work, bytes, beta, p->x, x);
    return dnn.cudnnConvolutionBackwardFilter(handle, alpha, p->x, x, p->y, y, p->c, algorithm, work, bytes, beta, p->w, w);
}

static int place_of(const geometry *g, int operand, const int *index) {
    int strides[DIMS], at = 0;
    strides_of(g, operand, strides);
    for (int d = 0; d < g->axes + 2; d++) at += index[d] * strides[d];
    return at;
}

static bool next(const int *sizes, int dims, int *index) {
    for (int d = dims - 1; d >= 0; d--) {
        if (++index[d] < sizes[d]) return true;
        index[d] = 0;
    }
    return false;
}

/* For each element of y and each of w that belongs to it: the element of x. */
static void expect(const plan *p, double *expected) {
    const geometry *g = p->g;
    const int dims = g->axes + 2, in = g->sizes[W][1], outputs = g->sizes[W][0] / g->groups;
    int y[DIMS] = {0};
    do {
        int w[DIMS] = {y[1]};
        const int taps[DIMS] = {y[1] + 1, in, g->sizes[W][2], g->sizes[W][3], g->axes > 2 ? g->sizes[W][4] : 1};
        do {
            int x[DIMS] = {y[0], y[1] / outputs * in + w[1]};
            bool inside = true;
            for (int d = 0; d < g->axes; d++) {
                x[2 + d] = y[2 + d] * g->stride[d] + w[2 + d] * g->dilation[d] - g->padding[d];
                inside = inside && x[2 + d] >= 0 && x[2 + d] < g->sizes[X][2 + d];
            }
            if (!inside) continue;
            const int at[OPERANDS] = {place_of(g, X, x), place_of(g, W, w), place_of(g, Y, y)};
            const int r = result_of(p->kind), a = r == X ? W : X, b = r == Y ? W : Y;
            expected[at[r]] += p->host[a][at[a]] * p->host[b][at[b]];
        } while (w[0] = y[1], next(taps + 1, dims - 1, w + 1));
    } while (next(g->sizes[Y], dims, y));
}

static void check(const plan *p, double add, const char *what) {
    static unsigned char raw[MOST * 8];
    static double expected[MOST];
    const int r = result_of(p->kind), count = count_of(p->g, r);
    for (int i = 0; i < count; i++) expected[i] = add * p->host[r][i];
    expect(p, expected);
    assert_done(cu.cuMemcpyDtoHAsync_v2(raw, p->memory[r], (size_t)count * p->of->bytes, gpu.stream));
    for (int i = 0; i < count; i++) {
        const double received = load(p->of, raw, i), error = received - expected[i];
        const double limit = p->of->bytes == 2 ? 0.01 * (1 + (expected[i] < 0 ? -expected[i] : expected[i])) : 0;
        if (!(error >= -limit && error <= limit))
            fail_msg("%s, %s, %s, %s, element %d: expected %g, received %g", p->g->name, p->of->name, kinds[p->kind], what, i, expected[i],
                     received);
    }
}

/* The first algorithm of the list that computes plain sums of products; -1: the list has none. */
static int choose(const plan *p, const mst_cudnn_algorithm *list, int count) {
    for (int i = 0; i < count; i++) {
        const bool transforms =
            (p->kind == FORWARD && list[i].algorithm >= MST_CUDNN_FORWARD_FFT) ||
            (p->kind == DATA && list[i].algorithm >= MST_CUDNN_DATA_FFT) ||
            (p->kind == FILTER && (list[i].algorithm == MST_CUDNN_FILTER_FFT || list[i].algorithm >= MST_CUDNN_FILTER_WINOGRAD));
        if (list[i].status == MST_CUDNN_SUCCESS && list[i].determinism && !transforms) return i;
    }
    return -1;
}

static int32_t computed;

/* Whole: the result replaces what was there, which is no number; then added to 3 times that. */
static void compute(const geometry *g, const type *of, int kind) {
    mst_cudnn_algorithm list[ALGORITHMS];
    int count = 0;
    size_t bytes = 0;
    mst_cu_address workspace = 0;
    plan *p = make(g, of, kind);
    assert_done(ask(p, &count, list));
    assert_in_range(count, 1, ALGORITHMS);
    const int chosen = choose(p, list, count);
    if (chosen < 0) fail_msg("%s, %s, %s: no algorithm that gives the same bits each time", g->name, of->name, kinds[kind]);
    if (of->data == MST_CUDNN_DATA_FLOAT) assert_int_equal(list[chosen].math, MST_CUDNN_FMA_MATH);
    assert_done(dnn.cudnnSetConvolutionMathType(p->c, list[chosen].math));
    assert_done(ask_bytes(p, list[chosen].algorithm, &bytes));
    assert_true(bytes <= list[chosen].memory || list[chosen].memory == 0);
    if (bytes) assert_done(cu.cuMemAlloc_v2(&workspace, bytes));
    assert_done(run(p, list[chosen].algorithm, workspace, bytes, 3));
    check(p, 3, "added");
    const int r = result_of(kind);
    assert_done(cu.cuMemsetD8Async(p->memory[r], 0xFF, (size_t)count_of(g, r) * of->bytes, gpu.stream)); /* not a number */
    assert_done(run(p, list[chosen].algorithm, workspace, bytes, 0));
    check(p, 0, "whole");
    if (bytes) {
        if (run(p, list[chosen].algorithm, workspace, bytes - 1, 0) == MST_CUDNN_SUCCESS)
            fail_msg("%s, %s, %s: a workspace that is too small is accepted", g->name, of->name, kinds[kind]);
        assert_done(cu.cuMemFree_v2(workspace));
    }
    computed++;
    end(p);
}

static void each_kind_of_each_type_is_the_sum_of_products(void **state) {
    (void)state;
    computed = 0;
    for (int g = 0; g < GEOMETRIES; g++)
        for (int t = 0; t < TYPES; t++)
            for (int kind = 0; kind < KINDS; kind++) compute(&geometries[g], &types[t], kind);
    assert_int_equal(computed, GEOMETRIES * TYPES * KINDS);
}

static void descriptors_that_do_not_fit_each_other_are_refused(void **state) {
    (void)state;
    mst_cudnn_algorithm list[ALGORITHMS];
    int count = 0;
    plan *p = make(&geometries[0], &types[0], FORWARD);
    const int wrong[4] = {2, 4, 6, 4}, strides[4] = {96, 24, 4, 1};
    assert_done(dnn.cudnnSetTensorNdDescriptor(p->y, MST_CUDNN_DATA_FLOAT, 4, wrong, strides));
    for (p->kind = FORWARD; p->kind < KINDS; p->kind++) {
        assert_int_not_equal(ask(p, &count, list), MST_CUDNN_SUCCESS);
        assert_int_not_equal(run(p, 1, 0, 0, 0), MST_CUDNN_SUCCESS);
    }
    end(p);
}

static void a_handle_has_a_stream_of_its_context(void **state) {
    (void)state;
    mst_cudnn_handle other = NULL;
    assert_done(dnn.cudnnCreate(&other));
    assert_ptr_not_equal(other, handle);
    assert_done(dnn.cudnnSetStream(other, gpu.stream));
    assert_done(dnn.cudnnSetStream(other, gpu.stream));
    assert_done(dnn.cudnnDestroy(other));
}

static int setup(void **state) {
    if (contract_setup(state)) return -1;
    return dnn.cudnnCreate(&handle) || dnn.cudnnSetStream(handle, gpu.stream) ? -1 : 0;
}

static int teardown(void **state) { return dnn.cudnnDestroy(handle) ? -1 : contract_teardown(state); }

int main(void) {
    const struct CMUnitTest without[] = {
        cmocka_unit_test(versions_and_statuses_are_told),
        cmocka_unit_test(tensors_have_two_to_eight_sizes_and_strides),
        cmocka_unit_test(filters_have_three_to_eight_sizes_and_a_format),
        cmocka_unit_test(convolutions_have_up_to_six_axes),
        cmocka_unit_test(nothing_is_done_without_a_handle),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_each_type_is_the_sum_of_products),
        cmocka_unit_test(descriptors_that_do_not_fit_each_other_are_refused),
        cmocka_unit_test(a_handle_has_a_stream_of_its_context),
    };
    int devices = 0;
    if (!contract_open_cudnn()) return SKIP_SUITE("cuDNN could not be opened");
    const int failed = cmocka_run_group_tests(without, NULL, NULL);
    if (failed) return failed;
    if (!contract_open_cuda() || cu.cuInit(0) || cu.cuDeviceGetCount(&devices) || !devices)
        return SKIP_SUITE("the CUDA driver could not be opened, or there is no GPU");
    return cmocka_run_group_tests(tests, setup, teardown);
}
