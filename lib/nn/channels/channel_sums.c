/* Sums over the elements of each channel. */
#include "channel_sums_impl.h"

#include "op_impl.h"

#include <string.h>

/* ---- on CPU cores ---- */

/* Independent lanes: an addition does not wait for the one before. */
enum { LANES = 16 };
/* A tensor as three axes: those before the channels, the channels, those behind them. */
enum { OUTER, CHANNEL, INNER, AXES };
typedef struct channels_layout {
    const void *data; /* NULL: there is no such tensor */
    int64_t size[AXES], stride[AXES];
} channels_layout;
typedef struct channels_call {
    channels_layout x, factor;
    muster_tensor center, sums;
    double *memory;     /* [3 channels] */
    bool channels_last; /* the channels lie behind each other, not the elements of one */
} channels_call;

/* false: the axes behind the channels are not one. */
static bool layout_of(const muster_tensor *x, channels_layout *layout) {
    *layout = (channels_layout){
        muster_tensor_address(*x), {x->shape[0], x->shape[1], 1}, {x->strides[0], x->strides[1], x->strides[x->ndim - 1]}};
    bool first = true;
    for (int32_t d = x->ndim - 1; d > 1; d--) {
        if (x->shape[d] == 1) continue;
        if (first) layout->stride[INNER] = x->strides[d];
        if (!first && x->strides[d] != layout->stride[INNER] * layout->size[INNER]) return false;
        layout->size[INNER] *= x->shape[d];
        first = false;
    }
    if (layout->size[INNER] != 1) return true;
    layout->stride[INNER] = 1;
    if (x->shape[1] > 1 && x->strides[1] == 1) return true;
    layout->size[INNER] = x->shape[0]; /* the rows lie behind each other, if anything does */
    layout->stride[INNER] = x->shape[0] > 1 ? x->strides[0] : 1;
    layout->size[OUTER] = 1;
    return true;
}

static bool is_channel_after_channel(const channels_layout *layout) { return layout->stride[INNER] == 1; }
static bool is_channels_last(const channels_layout *layout) { return layout->size[CHANNEL] > 1 && layout->stride[CHANNEL] == 1; }

/* Both tensors in one of the two orders; false: they must be copied. */
static bool layouts_fit(channels_call *call, const muster_tensor *x, const muster_tensor *factor) {
    if (!layout_of(x, &call->x) || (factor && !layout_of(factor, &call->factor))) return false;
    if (factor && memcmp(call->x.size, call->factor.size, sizeof call->x.size) != 0) return false;
    const bool one_each = call->x.size[INNER] == 1 && is_channels_last(&call->x);
    call->channels_last =
        is_channels_last(&call->x) && (!factor || is_channels_last(&call->factor)) && (one_each || !is_channel_after_channel(&call->x));
    return call->channels_last || (is_channel_after_channel(&call->x) && (!factor || is_channel_after_channel(&call->factor)));
}

#define T float
#define SUFFIX f32
#include "channel_sums_loops.h"
#undef T
#undef SUFFIX
#define T double
#define SUFFIX f64
#include "channel_sums_loops.h"
#undef T
#undef SUFFIX

static double center_at(const muster_tensor *center, int64_t c) {
    const char *at = muster_tensor_address(*center);
    at += c * center->strides[0] * (int64_t)muster_dtype_size(center->dtype);
    return center->dtype == MUSTER_F64 ? *(const double *)(const void *)at : (double)*(const float *)(const void *)at;
}

static muster_status sums_host(const void *parameters) {
    const channels_call *call = parameters;
    const int64_t channels = call->sums.shape[1];
    double *sums = call->memory, *center = sums + 2 * channels, *results = muster_tensor_address(call->sums);
    if (!channels) return MUSTER_OK;
    memset(sums, 0, (size_t)channels * 2 * sizeof *sums);
    for (int64_t c = 0; c < channels; c++) center[c] = center_at(&call->center, c);
    (call->center.dtype == MUSTER_F64 ? sums_f64 : sums_f32)(call, center, sums, sums + channels);
    for (int64_t i = 0; i < 2; i++)
        for (int64_t c = 0; c < channels; c++) results[i * call->sums.strides[0] + c * call->sums.strides[1]] = sums[i * channels + c];
    return MUSTER_OK;
}

static muster_status contiguous(muster_worker *worker, const muster_tensor *from, muster_tensor *copy) {
    MUSTER_TRY(muster_worker_scratch(worker, from->dtype, from->ndim, from->shape, copy));
    return muster_copy(worker, *from, *copy);
}

static muster_status sums_on_host(muster_worker *worker, const muster_tensor *x, const muster_tensor *center, const muster_tensor *factor,
                                  const muster_tensor *sums) {
    static const mst_kernel kernel = {.host = sums_host};
    channels_call call = {.center = *center, .sums = *sums};
    muster_tensor copies[2];
    if (!layouts_fit(&call, x, factor)) {
        MUSTER_TRY(contiguous(worker, x, &copies[0]));
        if (factor) MUSTER_TRY(contiguous(worker, factor, &copies[1]));
        (void)layouts_fit(&call, &copies[0], factor ? &copies[1] : NULL);
    }
    muster_tensor memory;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F64, 1, (int64_t[]){3 * sums->shape[1]}, &memory));
    MUSTER_TRY(mst_op_check(worker, &memory, "muster_function_call", "scratch memory for sums over channels"));
    call.memory = muster_tensor_address(memory);
    return mst_op_launch(worker, &kernel, &call, sizeof call);
}

/* ---- on other devices ---- */

static muster_tensor row_of(const muster_tensor *sums, int64_t i) {
    muster_tensor row = *sums;
    row.byte_offset += i * sums->strides[0] * (int64_t)sizeof(double);
    row.ndim = 1;
    row.shape[0] = sums->shape[1];
    row.strides[0] = sums->strides[1];
    return row;
}

/* A number for each channel as a view that broadcasts to x. */
static muster_tensor by_channel(const muster_tensor *center, const muster_tensor *x) {
    muster_tensor view = *center;
    view.ndim = x->ndim - 1;
    for (int32_t d = 1; d < view.ndim; d++) {
        view.shape[d] = 1;
        view.strides[d] = 1;
    }
    return view;
}

static muster_status converted(muster_worker *worker, const muster_tensor *from, muster_tensor *copy) {
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F64, from->ndim, from->shape, copy));
    return muster_copy(worker, *from, *copy);
}

static muster_status sums_on_device(muster_worker *worker, const muster_tensor *x, const muster_tensor *center, const muster_tensor *factor,
                                    const muster_tensor *sums) {
    const int32_t axes = (int32_t)(((1u << x->ndim) - 1) & ~2u);
    muster_tensor distance, middle, g;
    MUSTER_TRY(converted(worker, x, &distance));
    MUSTER_TRY(converted(worker, center, &middle));
    MUSTER_TRY(muster_binary_op(worker, MUSTER_SUB, distance, by_channel(&middle, x), distance));
    if (factor)
        MUSTER_TRY(converted(worker, factor, &g));
    else
        g = distance;
    MUSTER_TRY(muster_reduce_axes(worker, MUSTER_SUM, g, axes, row_of(sums, 0)));
    MUSTER_TRY(muster_binary_op(worker, MUSTER_MUL, g, distance, distance));
    return muster_reduce_axes(worker, MUSTER_SUM, distance, axes, row_of(sums, 1));
}

muster_status mst_channel_sums(muster_worker *worker, const muster_tensor *x, const muster_tensor *center, const muster_tensor *factor,
                               const muster_tensor *sums) {
    const int64_t mark = muster_worker_scratch_mark(worker);
    if (!sums->shape[1]) return MUSTER_OK;
    MUSTER_TRY((mst_device_is_host(worker->device) ? sums_on_host : sums_on_device)(worker, x, center, factor, sums));
    return muster_worker_scratch_release(worker, mark);
}
