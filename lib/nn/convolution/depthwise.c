/* Convolutions whose groups have one channel of x each, by loops: along the last axis of the
 * places, or along the channels where these lie behind each other. */
#include "own_private.h"

#include <string.h>

enum { MOST_OUTPUTS = 8 }; /* of a group; from here on products of matrices are as fast */

bool mst_convolution_is_depthwise(const mst_convolution_geometry *g) {
    return g->groups > 1 && g->w.shape[1] == 1 && g->w.shape[0] < MOST_OUTPUTS * g->groups;
}

typedef struct depthwise_work {
    const mst_convolution_call *call;
    const mst_convolution_geometry *g;
    int64_t volume, outputs; /* outputs: of one channel of x */
    bool last;               /* channels lie behind each other */
    mst_columns_spot *spots; /* [volume]: of a run, in channel 0 */
    void *weights;           /* (volume, o) with `last`, else (o, volume); to compute in */
    double *sums;            /* of the gradient of the weights, in the order of `weights` */
    void *line;              /* the sums of a run for one channel, or with `last` of a place for all */
    const void *bias;
    mst_convolution_layout layout; /* of what the gradient of the data is added to */
    void *x;
} depthwise_work;

static int64_t depthwise_offset(const mst_convolution_layout *y, const mst_places_run *run) {
    int64_t offset = run->image * y->strides[0];
    for (int32_t d = 0; d < MST_CONVOLUTION_AXES; d++) offset += run->place[d] * y->strides[2 + d];
    return offset;
}

static void depthwise_spots(const depthwise_work *w, const mst_convolution_layout *x, const mst_places_run *run) {
    for (int64_t k = 0; k < w->volume; k++) w->spots[k] = mst_columns_spot_of(w->g, x, 0, run, k);
}

#define SUFFIX f32
#define T float
#define C float
#define LOAD MST_LOAD_PLAIN
#define STORE MST_STORE_PLAIN
#include "depthwise_loops.h"
#define SUFFIX f64
#define T double
#define C double
#define LOAD MST_LOAD_PLAIN
#define STORE MST_STORE_PLAIN
#include "depthwise_loops.h"
#define SUFFIX f16
#define T uint16_t
#define C float
#define LOAD muster_f16_to_f32
#define STORE muster_f32_to_f16
#include "depthwise_loops.h"
#define SUFFIX bf16
#define T uint16_t
#define C float
#define LOAD muster_bf16_to_f32
#define STORE muster_f32_to_bf16
#include "depthwise_loops.h"

/* ---- memory ---- */

/* Between the weights and the memory of their own. */
static void depthwise_weights(const depthwise_work *w, muster_dtype dtype, void *memory, bool read) {
    const mst_convolution_geometry *g = w->g;
    const int64_t *shape = g->w.shape, each = w->last ? shape[0] : 1;
    muster_tensor outside = {.data = w->call->w, .device = MUSTER_DEVICE_HOST, .dtype = g->dtype, .ndim = MST_CONVOLUTION_DIMS};
    memcpy(outside.shape, shape, sizeof g->w.shape);
    memcpy(outside.strides, g->w.strides, sizeof g->w.strides);
    muster_tensor inside = outside;
    inside.data = memory;
    inside.dtype = dtype;
    const int64_t strides[] = {w->last ? 1 : w->volume, 0, shape[3] * shape[4] * each, shape[4] * each, each};
    memcpy(inside.strides, strides, sizeof strides);
    if (read)
        mst_copy_host(&outside, &inside);
    else
        mst_copy_host(&inside, &outside);
}

static muster_status depthwise_prepare(depthwise_work *w, muster_worker *worker) {
    const mst_convolution_geometry *g = w->g;
    const muster_dtype computed = mst_convolution_computed(g);
    const int64_t size = muster_dtype_size(computed), outputs = g->w.shape[0], line = g->y.shape[MST_CONVOLUTION_DIMS - 1];
    void *spots, *sums = NULL, *bias = NULL;
    MUSTER_TRY(mst_worker_scratch_bytes(worker, w->volume * (int64_t)sizeof *w->spots, &spots));
    MUSTER_TRY(mst_worker_scratch_bytes(worker, w->volume * outputs * size, &w->weights));
    MUSTER_TRY(mst_worker_scratch_bytes(worker, (outputs > line ? outputs : line) * size, &w->line));
    w->spots = spots;
    if (g->kind == MST_CONVOLUTION_WEIGHTS) {
        MUSTER_TRY(mst_worker_scratch_bytes(worker, w->volume * outputs * (int64_t)sizeof *w->sums, &sums));
        w->sums = memset(sums, 0, (size_t)(w->volume * outputs) * sizeof *w->sums);
        return MUSTER_OK;
    }
    depthwise_weights(w, computed, w->weights, true);
    if (!g->has_bias) return MUSTER_OK;
    MUSTER_TRY(mst_worker_scratch_bytes(worker, outputs * size, &bias));
    const muster_tensor given = {
        .data = w->call->bias, .device = MUSTER_DEVICE_HOST, .dtype = g->dtype, .ndim = 1, .shape = {outputs}, .strides = {g->bias_stride}};
    const muster_tensor wide = muster_tensor_make(computed, bias, 1, &outputs);
    mst_copy_host(&given, &wide);
    w->bias = bias;
    return MUSTER_OK;
}

/* The gradient of the data is summed where it is, or, of halves, in memory of the worker. */
static muster_status depthwise_data(depthwise_work *w, muster_worker *worker) {
    const mst_convolution_geometry *g = w->g;
    const muster_dtype computed = mst_convolution_computed(g);
    muster_tensor x = {.data = w->call->x, .device = MUSTER_DEVICE_HOST, .dtype = g->dtype, .ndim = MST_CONVOLUTION_DIMS};
    memcpy(x.shape, g->x.shape, sizeof g->x.shape);
    memcpy(x.strides, g->x.strides, sizeof g->x.strides);
    muster_tensor wide = x;
    if (g->dtype != (int32_t)computed) {
        MUSTER_TRY(muster_worker_scratch(worker, computed, MST_CONVOLUTION_DIMS, g->x.shape, &wide));
        MUSTER_TRY(mst_op_check(worker, &wide, "muster_function_call", "scratch memory"));
    }
    w->x = muster_tensor_address(wide);
    memcpy(w->layout.shape, wide.shape, sizeof w->layout.shape);
    memcpy(w->layout.strides, wide.strides, sizeof w->layout.strides);
    MUSTER_TRY(muster_fill(worker, 0, wide));
    switch (g->dtype) {
#define CASE(NAME, name, ...)                                                    \
    case MUSTER_##NAME:                                                          \
        (w->last ? depthwise_data_last_##name : depthwise_data_first_##name)(w); \
        break;
        MST_EACH_FLOAT(CASE)
#undef CASE
    }
    if (g->dtype != (int32_t)computed) mst_copy_host(&wide, &x);
    return MUSTER_OK;
}

muster_status mst_convolution_depthwise(muster_worker *worker, const mst_convolution_call *call) {
    const mst_convolution_geometry *g = &call->geometry;
    depthwise_work w = {.call = call,
                        .g = g,
                        .volume = mst_convolution_volume(g->w.shape),
                        .outputs = g->w.shape[0] / g->groups,
                        .last = g->x.strides[1] == 1};
    MUSTER_TRY(depthwise_prepare(&w, worker));
    if (g->kind == MST_CONVOLUTION_DATA) return depthwise_data(&w, worker);
    switch (g->dtype) {
#define CASE(NAME, name, ...)                                                              \
    case MUSTER_##NAME:                                                                    \
        if (g->kind == MST_CONVOLUTION_FORWARD)                                            \
            (w.last ? depthwise_last_##name : depthwise_first_##name)(&w);                 \
        else                                                                               \
            (w.last ? depthwise_weights_last_##name : depthwise_weights_first_##name)(&w); \
        break;
        MST_EACH_FLOAT(CASE)
#undef CASE
    }
    if (g->kind == MST_CONVOLUTION_WEIGHTS) depthwise_weights(&w, MUSTER_F64, w.sums, false);
    return MUSTER_OK;
}
