/* Elements of the operands in memory of their own, in the order and the dtype that products
 * take. */
#include "own_private.h"

bool mst_places_next(const mst_convolution_geometry *g, const mst_convolution_panel *panel, mst_places_run *run) {
    const int64_t *extents = g->y.shape + 2;
    run->at += run->length;
    if (run->at >= panel->count) return false;
    int64_t rest = panel->first + run->at;
    for (int32_t d = MST_CONVOLUTION_AXES - 1; d >= 0; d--) {
        run->place[d] = rest % extents[d];
        rest /= extents[d];
    }
    run->image = rest;
    run->length = extents[MST_CONVOLUTION_AXES - 1] - run->place[MST_CONVOLUTION_AXES - 1];
    if (run->length > panel->count - run->at) run->length = panel->count - run->at;
    return true;
}

/* `address` with these strides, in elements. */
static muster_tensor panel_view(int32_t dtype, const char *address, int32_t ndim, const int64_t *shape, const int64_t *strides) {
    muster_tensor view = {.data = (void *)(uintptr_t)address, .device = MUSTER_DEVICE_HOST, .dtype = dtype, .ndim = ndim};
    for (int32_t d = 0; d < ndim; d++) {
        view.shape[d] = shape[d];
        view.strides[d] = strides[d];
    }
    return view;
}

static void panel_copy(const muster_tensor *outside, const muster_tensor *inside, bool read) {
    if (read)
        mst_copy_host(outside, inside);
    else
        mst_copy_host(inside, outside);
}

/* ---- places of y ---- */

static void places_copy(const mst_convolution_call *call, const mst_convolution_panel *panel, const char *tile, bool read) {
    const mst_convolution_geometry *g = &call->geometry;
    const int64_t *strides = g->y.strides, channels = g->y.shape[1] / g->groups, size = muster_dtype_size(g->dtype);
    const muster_dtype computed = mst_convolution_computed(g);
    const int64_t row = panel->last ? 1 : panel->count, column = panel->last ? channels : 1;
    for (mst_places_run run = {.at = 0}; mst_places_next(g, panel, &run);) {
        int64_t offset = run.image * strides[0] + panel->group * channels * strides[1];
        for (int32_t d = 0; d < MST_CONVOLUTION_AXES; d++) offset += run.place[d] * strides[2 + d];
        const int64_t shape[2] = {channels, run.length};
        const muster_tensor outside =
            panel_view(g->dtype, call->y + offset * size, 2, shape, (const int64_t[]){strides[1], strides[MST_CONVOLUTION_DIMS - 1]});
        const muster_tensor inside =
            panel_view(computed, tile + run.at * column * muster_dtype_size(computed), 2, shape, (const int64_t[]){row, column});
        panel_copy(&outside, &inside, read);
    }
}

void mst_places_read(const mst_convolution_call *call, const mst_convolution_panel *panel, void *tile) {
    places_copy(call, panel, tile, true);
}
void mst_places_write(const mst_convolution_call *call, const mst_convolution_panel *panel, const void *tile) {
    places_copy(call, panel, tile, false);
}

/* ---- weights ---- */

static void weights_copy(const mst_convolution_call *call, bool last, const char *weights, bool read) {
    const mst_convolution_geometry *g = &call->geometry;
    const int64_t *shape = g->w.shape, volume = mst_convolution_volume(shape);
    int64_t strides[MST_CONVOLUTION_DIMS] = {shape[1] * volume, volume, shape[3] * shape[4], shape[4], 1};
    for (int32_t d = 2; last && d < MST_CONVOLUTION_DIMS; d++) strides[d] *= shape[1];
    if (last) strides[1] = 1;
    const muster_tensor outside = panel_view(g->dtype, call->w, MST_CONVOLUTION_DIMS, shape, g->w.strides);
    const muster_tensor inside = panel_view(mst_convolution_computed(g), weights, MST_CONVOLUTION_DIMS, shape, strides);
    panel_copy(&outside, &inside, read);
}

void mst_weights_read(const mst_convolution_call *call, bool last, void *weights) { weights_copy(call, last, weights, true); }
void mst_weights_write(const mst_convolution_call *call, bool last, const void *weights) { weights_copy(call, last, weights, false); }

/* ---- images of x ---- */

void mst_image_write(const mst_convolution_call *call, int64_t n, int64_t group, const void *image) {
    const mst_convolution_geometry *g = &call->geometry;
    const int64_t *strides = g->x.strides, channels = g->w.shape[1];
    const int64_t shape[4] = {channels, g->x.shape[2], g->x.shape[3], g->x.shape[4]};
    const int64_t offset = n * strides[0] + group * channels * strides[1];
    const muster_tensor from = muster_tensor_make(mst_convolution_computed(g), (void *)(uintptr_t)image, 4, shape);
    const muster_tensor to = panel_view(g->dtype, call->x + offset * muster_dtype_size(g->dtype), 4, shape, strides + 1);
    mst_copy_host(&from, &to);
}
