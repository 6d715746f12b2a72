/* Convolutions by cuDNN on CUDA devices. It takes operands with any positive strides, weights that
 * are packed, and the same padding on both sides. What lies otherwise is copied in scratch memory,
 * and an operand with more padding on one side gets the rest of it there. */
#include "cuda/cuda_convolution_impl.h"
#include "library_private.h"
#include "own_private.h"

#include "muster/ops.h"

#include <string.h>

enum { X, W, Y, OPERANDS, CHANNELS = 1, EXTENTS = 2, DIMS = MST_CONVOLUTION_DIMS, AXES = MST_CONVOLUTION_AXES, ALIGNMENT = 256 };

/* How an operand lies for cuDNN. */
typedef struct operand {
    mst_convolution_layout layout;
    int64_t bytes;        /* of memory of its own; 0: it is the caller's operand as it lies */
    int64_t offset[AXES]; /* where the caller's begins in it, along the extents */
    bool has_rest;        /* there is more in it, which is padding */
} operand;

typedef struct cudnn_state {
    mst_device *device;
    mst_cuda_convolution *plan; /* NULL: cuDNN has refused to run it */
    operand operands[OPERANDS];
    int32_t result;
    bool ran;
} cudnn_state;

void mst_convolution_open_cudnn(mst_device *device) {
    if (mst_device_is_cuda(device)) mst_cuda_convolution_open(device);
}

/* ---- how operands lie ---- */

static int32_t axis_of(int32_t place, bool channels_last) {
    static const int32_t last[DIMS] = {0, 2, 3, 4, CHANNELS};
    return channels_last ? last[place] : place;
}

static void pack(mst_convolution_layout *layout, bool channels_last) {
    int64_t stride = 1;
    for (int32_t place = DIMS - 1; place >= 0; place--) {
        const int32_t d = axis_of(place, channels_last);
        layout->strides[d] = stride;
        stride *= layout->shape[d];
    }
}

/* Axes of one element get the strides that they would have in packed memory: any would do, and
 * cuDNN knows layouts by their strides. */
static void adjust(mst_convolution_layout *layout, bool channels_last) {
    int64_t stride = 1;
    for (int32_t place = DIMS - 1; place >= 0; place--) {
        const int32_t d = axis_of(place, channels_last);
        if (layout->shape[d] == 1) layout->strides[d] = stride;
        stride = layout->strides[d] * layout->shape[d];
    }
}

static bool is_plain(const mst_convolution_layout *layout) {
    bool plain = true;
    for (int32_t d = 0; d < DIMS; d++) plain = plain && (layout->shape[d] == 1 || layout->strides[d] > 0);
    return plain;
}

static bool is_packed(const mst_convolution_layout *layout, bool channels_last) {
    mst_convolution_layout packed = *layout;
    bool same = true;
    pack(&packed, channels_last);
    for (int32_t d = 0; d < DIMS; d++) same = same && (layout->shape[d] == 1 || layout->strides[d] == packed.strides[d]);
    return same;
}

/* Whether channels lie last, or first; both where the operand has one channel or one place. */
static bool may_have_channels(const mst_convolution_layout *layout, bool last) {
    int64_t places = 1;
    for (int32_t d = EXTENTS; d < DIMS; d++) places *= layout->shape[d];
    return layout->shape[CHANNELS] == 1 || places == 1 || (layout->strides[CHANNELS] == 1) == last;
}

static bool have_channels_last(const mst_convolution_geometry *g) {
    const bool may_be_first = may_have_channels(&g->x, false) && may_have_channels(&g->y, false);
    return !may_be_first && may_have_channels(&g->x, true) && may_have_channels(&g->y, true);
}

/* ---- padding ---- */

/* More padding behind is as good where no other place comes of it. */
static bool is_even(const mst_convolution_geometry *g, int32_t d) {
    const int64_t before = g->before[d], span = (g->w.shape[EXTENTS + d] - 1) * g->dilation[d];
    const int64_t last = g->x.shape[EXTENTS + d] + 2 * before - 1 - span; /* where a window may begin; below 0: none fits */
    return before == g->after[d] || (last >= 0 && last / g->stride[d] + 1 == g->y.shape[EXTENTS + d]);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The padding that cuDNN sees along an axis. */
static int64_t padding_of(const mst_convolution_geometry *g, int32_t d) {
    return is_even(g, d) ? g->before[d] : least(g->before[d], g->after[d]);
}

static void pad(const mst_convolution_geometry *g, operand *x) {
    for (int32_t d = 0; d < AXES; d++) {
        if (is_even(g, d)) continue;
        const int64_t both = padding_of(g, d);
        x->offset[d] = g->before[d] - both;
        x->layout.shape[EXTENTS + d] += g->before[d] - both + g->after[d] - both;
        x->has_rest = true;
    }
}

/* ---- making ---- */

static const mst_convolution_layout *layout_of(const mst_convolution_geometry *g, int32_t which) {
    return which == X ? &g->x : which == W ? &g->w : &g->y;
}

static bool own_memory(operand *o, bool channels_last, int64_t element) {
    int64_t bytes = element;
    pack(&o->layout, channels_last);
    for (int32_t d = 0; d < DIMS; d++)
        if (__builtin_mul_overflow(bytes, o->layout.shape[d], &bytes)) return false;
    o->bytes = bytes;
    return true;
}

/* `packed`: all operands are. False: the sizes overflow. */
static bool operands_arrange(const mst_convolution_geometry *g, operand *operands, bool packed, bool channels_last) {
    const int64_t element = muster_dtype_size(g->dtype);
    for (int32_t i = 0; i < OPERANDS; i++) {
        operand *o = &operands[i];
        *o = (operand){.layout = *layout_of(g, i)};
        if (i == X) pad(g, o);
        const bool fits = packed || i == W ? is_packed(&o->layout, channels_last) : is_plain(&o->layout);
        if (fits && !o->has_rest)
            adjust(&o->layout, channels_last);
        else if (!own_memory(o, channels_last, element))
            return false;
    }
    return true;
}

/* cuDNN has 2 extents or more. */
static mst_cuda_convolution_shape shape_of(const mst_convolution_geometry *g, const operand *operands, bool channels_last) {
    mst_cuda_convolution_shape s = {.dtype = g->dtype,
                                    .kind = g->kind == MST_CONVOLUTION_FORWARD ? MST_CUDA_CONVOLVE_FORWARD
                                            : g->kind == MST_CONVOLUTION_DATA  ? MST_CUDA_CONVOLVE_DATA
                                                                               : MST_CUDA_CONVOLVE_WEIGHTS,
                                    .axes = g->axes > 2 ? g->axes : 2,
                                    .w_channels_last = channels_last,
                                    .groups = g->groups};
    const int32_t missing = AXES - s.axes;
    for (int32_t d = 0; d < s.axes + EXTENTS; d++) {
        const int32_t from = d < EXTENTS ? d : d + missing;
        s.x[d] = operands[X].layout.shape[from];
        s.x_strides[d] = operands[X].layout.strides[from];
        s.y[d] = operands[Y].layout.shape[from];
        s.y_strides[d] = operands[Y].layout.strides[from];
        s.w[d] = operands[W].layout.shape[from];
    }
    for (int32_t d = 0; d < s.axes; d++) {
        s.padding[d] = padding_of(g, d + missing);
        s.stride[d] = g->stride[d + missing];
        s.dilation[d] = g->dilation[d + missing];
    }
    return s;
}

static muster_status state_fill(const mst_convolution_geometry *g, cudnn_state *state) {
    bool packed = false, channels_last = have_channels_last(g);
    for (int32_t attempt = 0; attempt < 2 && !state->plan; attempt++) {
        if (!operands_arrange(g, state->operands, packed, channels_last)) return MUSTER_OK;
        const mst_cuda_convolution_shape shape = shape_of(g, state->operands, channels_last);
        MUSTER_TRY(mst_cuda_convolution_create(state->device, &shape, &state->plan));
        packed = true; /* a layout that it may lack code for */
        channels_last = false;
    }
    return MUSTER_OK;
}

static void cudnn_destroy(void *made) {
    cudnn_state *state = made;
    mst_cuda_convolution_destroy(state->plan);
    mst_free(state);
}

/* Where a group has one channel of x, its result needs few products, and our kernel has a thread
 * for each element. The gradient of such weights has few elements and long sums. */
static bool is_depthwise(const mst_convolution_geometry *g) {
    return g->groups > 1 && g->w.shape[1] == 1 && g->kind != MST_CONVOLUTION_WEIGHTS;
}

static muster_status cudnn_create(muster_worker *worker, const mst_convolution_geometry *g, void **made) {
    *made = NULL;
    if (!mst_device_is_cuda(worker->device) || is_depthwise(g)) return MUSTER_OK;
    cudnn_state *state = mst_alloc(sizeof *state);
    if (!state) return mst_out_of_memory("muster_function_call", (int64_t)sizeof *state);
    *state = (cudnn_state){.device = worker->device,
                           .result = g->kind == MST_CONVOLUTION_FORWARD ? Y
                                     : g->kind == MST_CONVOLUTION_DATA  ? X
                                                                        : W};
    const muster_status status = state_fill(g, state);
    if (status == MUSTER_OK && state->plan)
        *made = state;
    else
        cudnn_destroy(state);
    return status;
}

/* ---- running ---- */

typedef struct running {
    muster_worker *worker;
    const mst_convolution_parameters *p;
    const cudnn_state *state;
    char *given[OPERANDS], *seen[OPERANDS]; /* addresses: the caller's, and what cuDNN sees */
    char *workspace;
} running;

static muster_tensor tensor_of(const running *r, const mst_convolution_layout *layout, char *address) {
    muster_tensor tensor = muster_tensor_make(r->p->geometry.dtype, address, DIMS, layout->shape);
    memcpy(tensor.strides, layout->strides, sizeof layout->strides);
    tensor.device = r->worker->rank;
    return tensor;
}

static muster_tensor given_tensor(const running *r, int32_t which) {
    return tensor_of(r, layout_of(&r->p->geometry, which), r->given[which]);
}

/* The part of the operand's own memory that is the caller's operand. */
static muster_tensor inner_tensor(const running *r, int32_t which) {
    const operand *o = &r->state->operands[which];
    mst_convolution_layout layout = o->layout;
    int64_t offset = 0;
    for (int32_t d = 0; d < AXES; d++) offset += o->offset[d] * o->layout.strides[EXTENTS + d];
    memcpy(layout.shape, layout_of(&r->p->geometry, which)->shape, sizeof layout.shape);
    return tensor_of(r, &layout, r->seen[which] + offset * muster_dtype_size(r->p->geometry.dtype));
}

static muster_status memory_take(running *r, int64_t bytes, char **memory) {
    void *address;
    MUSTER_TRY(mst_worker_scratch_bytes(r->worker, bytes + ALIGNMENT - 1, &address));
    *memory = (char *)(((uintptr_t)address + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    return MUSTER_OK;
}

static muster_status operands_begin(running *r) {
    for (int32_t i = 0; i < OPERANDS; i++) {
        const operand *o = &r->state->operands[i];
        r->seen[i] = r->given[i];
        if (!o->bytes) continue;
        MUSTER_TRY(memory_take(r, o->bytes, &r->seen[i]));
        if (i == r->state->result) continue;
        if (o->has_rest) MUSTER_TRY(muster_fill(r->worker, 0, tensor_of(r, &o->layout, r->seen[i])));
        MUSTER_TRY(muster_copy(r->worker, given_tensor(r, i), inner_tensor(r, i)));
    }
    return MUSTER_OK;
}

/* What is there is added before the result is rounded. */
static muster_status bias_begin(const running *r) {
    const mst_convolution_geometry *g = &r->p->geometry;
    mst_convolution_layout layout = {.shape = {1, g->y.shape[CHANNELS], 1, 1, 1}, .strides = {0, g->bias_stride, 0, 0, 0}};
    return muster_copy(r->worker, tensor_of(r, &layout, r->p->bias), inner_tensor(r, Y));
}

static muster_status run_all(running *r) {
    const cudnn_state *state = r->state;
    const int64_t bytes = mst_cuda_convolution_workspace(state->plan);
    const bool has_bias = r->p->geometry.has_bias;
    MUSTER_TRY(operands_begin(r));
    if (bytes) MUSTER_TRY(memory_take(r, bytes, &r->workspace));
    if (has_bias) MUSTER_TRY(bias_begin(r));
    MUSTER_TRY(mst_cuda_convolution_run(state->device, state->plan, r->seen[X], r->seen[W], r->seen[Y], r->workspace, has_bias));
    if (!state->operands[state->result].bytes) return MUSTER_OK;
    return muster_copy(r->worker, inner_tensor(r, state->result), given_tensor(r, state->result));
}

static muster_status run_and_release(muster_worker *worker, const cudnn_state *state, const mst_convolution_parameters *p) {
    running r = {.worker = worker, .p = p, .state = state, .given = {p->x, p->w, p->y}};
    const int64_t mark = muster_worker_scratch_mark(worker);
    const muster_status status = run_all(&r);
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    const muster_status released = muster_worker_scratch_release(worker, mark);
    return status == MUSTER_OK ? released : mst_error_restore(status, message);
}

/* cuDNN may refuse at the first run what it has promised. */
static muster_status cudnn_run(muster_worker *worker, void *made, const mst_convolution_parameters *p) {
    cudnn_state *state = made;
    char before[MST_MESSAGE_SIZE];
    if (!state->plan) return mst_convolution_device(worker, p);
    mst_error_save(before);
    const muster_status status = run_and_release(worker, state, p);
    if (status != MUSTER_UNSUPPORTED || state->ran) {
        state->ran = state->ran || status == MUSTER_OK;
        return status;
    }
    mst_cuda_convolution_destroy(state->plan);
    state->plan = NULL;
    (void)mst_error_restore(MUSTER_OK, before);
    return mst_convolution_device(worker, p);
}

const mst_convolution_library mst_convolution_cudnn = {"cuDNN", cudnn_create, cudnn_run, cudnn_destroy};
