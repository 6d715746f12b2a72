/* Convolutions by cuDNN's functions with descriptors. cuDNN 9 calls them deprecated, and wants
 * graphs in their place, of which every run needs an object with its addresses. With descriptors a
 * run makes nothing; they have f64, and say which algorithms give the same bits each time. */
#include "cuda_convolution_impl.h"

#include "cuda_device_private.h"
#include "cudnn_api_private.h"
#include "own_thread_impl.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum {
    WORKSPACE_MOST = 256 << 20,
    WORKSPACE_PART = 16, /* of the GPU's memory, at most one such part */
    VECTOR = 16,         /* bytes: the longest load of a kernel */
    ALGORITHMS = 16,     /* that cuDNN may name for one convolution: it has up to 8, in up to 2 kinds of arithmetic */
};

struct mst_cuda_convolution {
    const mst_cudnn_api *api;
    mst_cudnn_tensor x, y;
    mst_cudnn_filter w;
    mst_cudnn_convolution convolution;
    mst_cuda_convolution_kind kind;
    muster_dtype dtype;
    unsigned int algorithm;
    size_t workspace;
    bool ran[2]; /* with addresses that are not aligned for vectors, and with such that are */
};

/* cuDNN hides the driver's error, so the stream is queried for it. */
static muster_status dnn_failed(mst_cuda *cuda, mst_cudnn_status result, const char *symbol) {
    const mst_cu_result cause = cuda->api->cuStreamQuery(cuda->compute);
    if (mst_cuda_error_is_sticky(cause)) return mst_cuda_failed(cuda, cause, symbol);
    return mst_cudnn_error(cuda->dnn_api, result, symbol, cuda->label);
}

static inline muster_status dnn_check(mst_cuda *cuda, mst_cudnn_status result, const char *symbol) {
    return __builtin_expect(result == MST_CUDNN_SUCCESS, 1) ? MUSTER_OK : dnn_failed(cuda, result, symbol);
}
#define DNN(cuda, symbol, ...) dnn_check((cuda), (cuda)->dnn_api->symbol(__VA_ARGS__), #symbol)

/* ---- the handle ---- */

muster_status mst_cuda_bind_dnn(mst_cuda *cuda, mst_cu_stream stream) {
    return cuda->dnn ? DNN(cuda, cudnnSetStream, cuda->dnn, stream) : MUSTER_OK;
}

void mst_cuda_close_dnn(mst_cuda *cuda) {
    if (cuda->dnn) (void)cuda->dnn_api->cudnnDestroy(cuda->dnn);
    cuda->dnn = NULL;
}

static muster_status make_handle(mst_cuda *cuda) {
    size_t available = 0, total = 0;
    MUSTER_TRY(MST_CU(cuda, cuMemGetInfo_v2, &available, &total));
    cuda->dnn_workspace_most = total / WORKSPACE_PART < WORKSPACE_MOST ? total / WORKSPACE_PART : WORKSPACE_MOST;
    MUSTER_TRY(DNN(cuda, cudnnCreate, &cuda->dnn));
    const muster_status status = mst_cuda_bind_dnn(cuda, cuda->compute);
    if (status != MUSTER_OK) mst_cuda_close_dnn(cuda);
    return status;
}

/* On a thread of its own: cuDNN starts threads, and needs more stack than a program's thread may
 * have. */
static muster_status open_task(void *argument) {
    mst_cuda *cuda = argument;
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    return mst_cuda_end(cuda, &scope, make_handle(cuda));
}

/* The log says each failure of a library once in a process. */
static void notice_failure(const char *label) {
    char text[MST_MESSAGE_SIZE], reason[MST_MESSAGE_SIZE];
    mst_error_save(reason);
    snprintf(text, sizeof text, "%.400s: convolutions on %s are computed without cuDNN, which is slower", reason, label);
    mst_cuda_add_notice(text);
}

void mst_cuda_convolution_open(mst_device *device) {
    mst_cuda *cuda = mst_cuda_of(device);
    char before[MST_MESSAGE_SIZE];
    if (cuda->dnn || device->in_flight || mst_cuda_is_lost(cuda)) return;
    mst_error_save(before);
    if (mst_cudnn_api_get(&cuda->dnn_api) == MUSTER_OK && mst_own_thread_run(open_task, cuda, cuda->label) != MUSTER_OK)
        notice_failure(cuda->label);
    (void)mst_error_restore(MUSTER_OK, before);
}

/* ---- plans ---- */

void mst_cuda_convolution_destroy(mst_cuda_convolution *plan) {
    if (!plan) return;
    if (plan->x) (void)plan->api->cudnnDestroyTensorDescriptor(plan->x);
    if (plan->y) (void)plan->api->cudnnDestroyTensorDescriptor(plan->y);
    if (plan->w) (void)plan->api->cudnnDestroyFilterDescriptor(plan->w);
    if (plan->convolution) (void)plan->api->cudnnDestroyConvolutionDescriptor(plan->convolution);
    mst_free(plan);
}

int64_t mst_cuda_convolution_workspace(const mst_cuda_convolution *plan) { return (int64_t)plan->workspace; }

static unsigned int type_of(muster_dtype dtype) {
    return dtype == MUSTER_F64   ? MST_CUDNN_DATA_DOUBLE
           : dtype == MUSTER_F32 ? MST_CUDNN_DATA_FLOAT
           : dtype == MUSTER_F16 ? MST_CUDNN_DATA_HALF
                                 : MST_CUDNN_DATA_BFLOAT16;
}

/* False: a number is too large for an int, or a tensor reaches over as many elements. */
static bool narrow(const int64_t *from, int32_t count, int *to) {
    for (int32_t d = 0; d < count; d++) {
        if (from[d] < 0 || from[d] > INT_MAX) return false;
        to[d] = (int)from[d];
    }
    return true;
}

static bool narrow_sizes(const int64_t *from, const int64_t *strides, int32_t count, int *to) {
    int64_t span = 1;
    for (int32_t d = 0; d < count; d++) {
        int64_t distance;
        if (__builtin_mul_overflow(from[d] - 1, strides[d], &distance) || __builtin_add_overflow(span, distance, &span)) return false;
    }
    return span <= INT_MAX && narrow(from, count, to);
}

/* What a plan is made of. */
typedef struct making {
    mst_cuda *cuda;
    const mst_cuda_convolution_shape *shape;
    mst_cuda_convolution *plan;
    int sizes[3][MST_CUDA_CONVOLUTION_DIMS], strides[2][MST_CUDA_CONVOLUTION_DIMS]; /* of x, y, w; of x, y */
    int padding[MST_CUDA_CONVOLUTION_AXES], stride[MST_CUDA_CONVOLUTION_AXES], dilation[MST_CUDA_CONVOLUTION_AXES];
    unsigned int type;
} making;

static bool narrow_all(making *m) {
    const mst_cuda_convolution_shape *s = m->shape;
    const int32_t dims = s->axes + 2;
    int64_t elements = 1;
    for (int32_t d = 0; d < dims; d++)
        if (__builtin_mul_overflow(elements, s->w[d], &elements)) return false;
    return elements <= INT_MAX && narrow_sizes(s->x, s->x_strides, dims, m->sizes[0]) && narrow(s->x_strides, dims, m->strides[0]) &&
           narrow_sizes(s->y, s->y_strides, dims, m->sizes[1]) && narrow(s->y_strides, dims, m->strides[1]) &&
           narrow(s->w, dims, m->sizes[2]) && narrow(s->padding, s->axes, m->padding) && narrow(s->stride, s->axes, m->stride) &&
           narrow(s->dilation, s->axes, m->dilation) && s->groups <= INT_MAX;
}

static unsigned int math_wanted(const making *m) {
    if (m->shape->dtype == MUSTER_F32) return m->cuda->tf32 ? MST_CUDNN_DEFAULT_MATH : MST_CUDNN_FMA_MATH;
    return m->shape->dtype == MUSTER_F64 ? MST_CUDNN_DEFAULT_MATH : MST_CUDNN_TENSOR_OP_MATH;
}

static muster_status describe_operands(const making *m) {
    mst_cuda *cuda = m->cuda;
    mst_cuda_convolution *plan = m->plan;
    const int dims = m->shape->axes + 2;
    const unsigned int format = m->shape->w_channels_last ? MST_CUDNN_TENSOR_NHWC : MST_CUDNN_TENSOR_NCHW;
    MUSTER_TRY(DNN(cuda, cudnnCreateTensorDescriptor, &plan->x));
    MUSTER_TRY(DNN(cuda, cudnnCreateTensorDescriptor, &plan->y));
    MUSTER_TRY(DNN(cuda, cudnnCreateFilterDescriptor, &plan->w));
    MUSTER_TRY(DNN(cuda, cudnnCreateConvolutionDescriptor, &plan->convolution));
    MUSTER_TRY(DNN(cuda, cudnnSetTensorNdDescriptor, plan->x, m->type, dims, m->sizes[0], m->strides[0]));
    MUSTER_TRY(DNN(cuda, cudnnSetTensorNdDescriptor, plan->y, m->type, dims, m->sizes[1], m->strides[1]));
    return DNN(cuda, cudnnSetFilterNdDescriptor, plan->w, m->type, format, dims, m->sizes[2]);
}

static muster_status describe_window(const making *m) {
    mst_cuda *cuda = m->cuda;
    const mst_cudnn_convolution convolution = m->plan->convolution;
    const unsigned int sums = m->shape->dtype == MUSTER_F64 ? MST_CUDNN_DATA_DOUBLE : MST_CUDNN_DATA_FLOAT;
    MUSTER_TRY(DNN(cuda, cudnnSetConvolutionNdDescriptor, convolution, m->shape->axes, m->padding, m->stride, m->dilation,
                   MST_CUDNN_CROSS_CORRELATION, sums));
    MUSTER_TRY(DNN(cuda, cudnnSetConvolutionGroupCount, convolution, (int)m->shape->groups));
    return DNN(cuda, cudnnSetConvolutionMathType, convolution, math_wanted(m));
}

static muster_status ask_algorithms(const making *m, mst_cudnn_algorithm *algorithms, int *count) {
    mst_cuda *cuda = m->cuda;
    const mst_cuda_convolution *p = m->plan;
    switch (p->kind) {
    case MST_CUDA_CONVOLVE_FORWARD:
        return DNN(cuda, cudnnGetConvolutionForwardAlgorithm_v7, cuda->dnn, p->x, p->w, p->convolution, p->y, ALGORITHMS, count,
                   algorithms);
    case MST_CUDA_CONVOLVE_DATA:
        return DNN(cuda, cudnnGetConvolutionBackwardDataAlgorithm_v7, cuda->dnn, p->w, p->y, p->convolution, p->x, ALGORITHMS, count,
                   algorithms);
    default:
        return DNN(cuda, cudnnGetConvolutionBackwardFilterAlgorithm_v7, cuda->dnn, p->x, p->y, p->convolution, p->w, ALGORITHMS, count,
                   algorithms);
    }
}

static muster_status ask_workspace(const making *m, size_t *bytes) {
    mst_cuda *cuda = m->cuda;
    const mst_cuda_convolution *p = m->plan;
    switch (p->kind) {
    case MST_CUDA_CONVOLVE_FORWARD:
        return DNN(cuda, cudnnGetConvolutionForwardWorkspaceSize, cuda->dnn, p->x, p->w, p->convolution, p->y, p->algorithm, bytes);
    case MST_CUDA_CONVOLVE_DATA:
        return DNN(cuda, cudnnGetConvolutionBackwardDataWorkspaceSize, cuda->dnn, p->w, p->y, p->convolution, p->x, p->algorithm, bytes);
    default:
        return DNN(cuda, cudnnGetConvolutionBackwardFilterWorkspaceSize, cuda->dnn, p->x, p->y, p->convolution, p->w, p->algorithm, bytes);
    }
}

/* Transforms of f16 and bf16 are rounded to them, and may be beyond their range. */
static bool sums_plainly(mst_cuda_convolution_kind kind, unsigned int algorithm) {
    static const unsigned int transforms[3] = {
        [MST_CUDA_CONVOLVE_FORWARD] = 1u << MST_CUDNN_FORWARD_FFT | 1u << MST_CUDNN_FORWARD_FFT_TILING | 1u << MST_CUDNN_FORWARD_WINOGRAD |
                                      1u << MST_CUDNN_FORWARD_WINOGRAD_NONFUSED,
        [MST_CUDA_CONVOLVE_DATA] = 1u << MST_CUDNN_DATA_FFT | 1u << MST_CUDNN_DATA_FFT_TILING | 1u << MST_CUDNN_DATA_WINOGRAD |
                                   1u << MST_CUDNN_DATA_WINOGRAD_NONFUSED,
        [MST_CUDA_CONVOLVE_WEIGHTS] = 1u << MST_CUDNN_FILTER_FFT | 1u << MST_CUDNN_FILTER_WINOGRAD |
                                      1u << MST_CUDNN_FILTER_WINOGRAD_NONFUSED | 1u << MST_CUDNN_FILTER_FFT_TILING,
    };
    return algorithm < 32 && !(transforms[kind] >> algorithm & 1);
}

static bool is_allowed(const making *m, const mst_cudnn_algorithm *a) {
    if (a->status != MST_CUDNN_SUCCESS || !a->determinism || a->memory > m->cuda->dnn_workspace_most) return false;
    if (a->math == MST_CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) return false;
    if (m->shape->dtype == MUSTER_F32) return m->cuda->tf32 || a->math == MST_CUDNN_FMA_MATH;
    return m->shape->dtype == MUSTER_F64 || sums_plainly(m->shape->kind, a->algorithm);
}

/* The first that is allowed, since the list begins with the one that cuDNN expects to be the
 * fastest. What it says of the memory may be less than what the algorithm needs in the end. */
static muster_status choose(making *m, bool *found) {
    mst_cudnn_algorithm algorithms[ALGORITHMS];
    int count = 0;
    *found = false;
    MUSTER_TRY(ask_algorithms(m, algorithms, &count));
    for (int i = 0; i < count && i < ALGORITHMS && !*found; i++) {
        if (!is_allowed(m, &algorithms[i])) continue;
        m->plan->algorithm = algorithms[i].algorithm;
        MUSTER_TRY(DNN(m->cuda, cudnnSetConvolutionMathType, m->plan->convolution, algorithms[i].math));
        MUSTER_TRY(ask_workspace(m, &m->plan->workspace));
        *found = m->plan->workspace <= m->cuda->dnn_workspace_most;
    }
    return MUSTER_OK;
}

static muster_status make_plan(making *m, bool *found) {
    MUSTER_TRY(describe_operands(m));
    MUSTER_TRY(describe_window(m));
    return choose(m, found);
}

/* What cuDNN does not know is computed without it. */
static muster_status create(making *m) {
    char before[MST_MESSAGE_SIZE];
    bool found = false;
    mst_error_save(before);
    const muster_status status = make_plan(m, &found);
    if (status == MUSTER_OK && found) return MUSTER_OK;
    mst_cuda_convolution_destroy(m->plan);
    m->plan = NULL;
    return status == MUSTER_UNSUPPORTED ? mst_error_restore(MUSTER_OK, before) : status;
}

/* On a thread of its own, as open_task. */
static muster_status create_task(void *argument) {
    making *m = argument;
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(m->cuda, &scope));
    return mst_cuda_end(m->cuda, &scope, create(m));
}

muster_status mst_cuda_convolution_create(mst_device *device, const mst_cuda_convolution_shape *shape, mst_cuda_convolution **plan) {
    mst_cuda *cuda = mst_cuda_of(device);
    making m = {.cuda = cuda, .shape = shape, .type = type_of(shape->dtype)};
    *plan = NULL;
    if (!cuda->dnn || !narrow_all(&m)) return MUSTER_OK;
    if (!(m.plan = mst_alloc(sizeof *m.plan))) return mst_out_of_memory("a convolution by cuDNN", (int64_t)sizeof *m.plan);
    *m.plan = (mst_cuda_convolution){.api = cuda->dnn_api, .kind = shape->kind, .dtype = shape->dtype};
    const muster_status status = mst_own_thread_run(create_task, &m, "a convolution by cuDNN");
    if (status != MUSTER_OK) {
        mst_cuda_convolution_destroy(m.plan);
        return status;
    }
    *plan = m.plan;
    return MUSTER_OK;
}

/* ---- running ---- */

static muster_status call(mst_cuda *cuda, const mst_cuda_convolution *p, void *x, void *w, void *y, void *workspace, bool add) {
    const mst_cuda_factor alpha = mst_cuda_make_factor(1, p->dtype), beta = mst_cuda_make_factor(add, p->dtype);
    switch (p->kind) {
    case MST_CUDA_CONVOLVE_FORWARD:
        return DNN(cuda, cudnnConvolutionForward, cuda->dnn, &alpha, p->x, x, p->w, w, p->convolution, p->algorithm, workspace,
                   p->workspace, &beta, p->y, y);
    case MST_CUDA_CONVOLVE_DATA:
        return DNN(cuda, cudnnConvolutionBackwardData, cuda->dnn, &alpha, p->w, w, p->y, y, p->convolution, p->algorithm, workspace,
                   p->workspace, &beta, p->x, x);
    default:
        return DNN(cuda, cudnnConvolutionBackwardFilter, cuda->dnn, &alpha, p->x, x, p->y, y, p->convolution, p->algorithm, workspace,
                   p->workspace, &beta, p->w, w);
    }
}

/* Which kernels an algorithm has is cuDNN's own choice, and the driver loads them at their first
 * use: see cuda_loading.c. */
static muster_status issue(mst_cuda *cuda, mst_cuda_convolution *plan, void *x, void *w, void *y, void *workspace, bool add) {
    const bool aligned = ((uintptr_t)x | (uintptr_t)w | (uintptr_t)y | (uintptr_t)workspace) % VECTOR == 0;
    MUSTER_TRY(mst_cuda_before_compute(cuda));
    if (__builtin_expect(!plan->ran[aligned], 0)) MUSTER_TRY(mst_cuda_await_compute(cuda));
    MUSTER_TRY(call(cuda, plan, x, w, y, workspace, add));
    plan->ran[aligned] = true;
    return MUSTER_OK;
}

muster_status mst_cuda_convolution_run(mst_device *device, mst_cuda_convolution *plan, void *x, void *w, void *y, void *workspace,
                                       bool add) {
    mst_cuda *cuda = mst_cuda_of(device);
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    return mst_cuda_end(cuda, &scope, issue(cuda, plan, x, w, y, workspace, add));
}

/* ---- the description ---- */

void mst_cuda_describe_cudnn(char *text, size_t size) {
    const mst_cudnn_api *api;
    char before[MST_MESSAGE_SIZE];
    mst_error_save(before);
    *text = '\0';
    if (mst_cudnn_api_get(&api) == MUSTER_OK) {
        const size_t version = api->cudnnGetVersion(); /* 9.19.0 is 91900 */
        snprintf(text, size, "cuDNN %zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    }
    (void)mst_error_restore(MUSTER_OK, before);
}
