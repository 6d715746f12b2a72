/* The attributes of pooling and the shapes of its results. */
#include "pooling_private.h"

/* ---- attributes ---- */

/* Missing strides are those of windows that are adjacent. */
static muster_status read_strides(mst_draft *draft, mst_window *window) {
    const int32_t axes = window->axes;
    bool adjacent = true;
    if (draft->values[POOL_STRIDE].count == 0) {
        for (int32_t d = 0; d < axes; d++) window->stride[d] = window->size[d];
        return MUSTER_OK;
    }
    MUSTER_TRY(mst_draft_window_list(draft, POOL_STRIDE, axes, false, 1, 1, window->stride));
    for (int32_t d = 0; d < axes; d++) adjacent = adjacent && window->stride[d] == window->size[d];
    if (!adjacent) return mst_draft_window_keep(draft, POOL_STRIDE, axes, 0, window->stride);
    draft->values[POOL_STRIDE] = MST_NO_VALUE;
    return MUSTER_OK;
}

/* More padding than half a window would leave windows without an element of x. */
static muster_status check_padding(mst_draft *draft, const mst_window *window) {
    for (int32_t d = 0; d < window->axes; d++) {
        const int64_t span = (window->size[d] - 1) * window->dilation[d] + 1;
        const int64_t most = window->before[d] > window->after[d] ? window->before[d] : window->after[d];
        if (most > span / 2)
            return mst_draft_refuse(draft, MUSTER_OUT_OF_RANGE, -1,
                                    "padding: expected at most half of the %lld elements that the window spans in axis %d, received %lld",
                                    (long long)span, (int)(FIRST + d), (long long)most);
    }
    return MUSTER_OK;
}

static muster_status read_attributes(mst_draft *draft, int32_t axes, mst_pooling *pooling) {
    mst_window *window = &pooling->window;
    mst_graph_value *values = draft->values;
    int64_t padding[2 * MST_WINDOW_AXES];
    const bool has_average = mst_operator_attribute_count(draft->op) > POOL_EXCLUDE_PADDING;
    MUSTER_TRY(mst_draft_flag(draft, POOL_CEIL_MODE));
    if (has_average) MUSTER_TRY(mst_draft_flag(draft, POOL_EXCLUDE_PADDING));
    *pooling = (mst_pooling){.window = {.axes = axes}, .ceil_mode = values[POOL_CEIL_MODE].integer != 0};
    MUSTER_TRY(mst_draft_window_list(draft, POOL_SIZE, axes, false, 1, 0, window->size));
    MUSTER_TRY(read_strides(draft, window));
    MUSTER_TRY(mst_draft_window_list(draft, POOL_PADDING, axes, true, 0, 0, padding));
    MUSTER_TRY(mst_draft_window_list(draft, POOL_DILATION, axes, false, 1, 1, window->dilation));
    for (int32_t d = 0; d < axes; d++) {
        window->before[d] = padding[d];
        window->after[d] = padding[axes + d];
    }
    if (!mst_pooling_fits(window))
        return mst_draft_refuse(draft, MUSTER_UNSUPPORTED, -1, "size: expected a window of at most 2^31 - 1 elements, received more");
    MUSTER_TRY(check_padding(draft, window));
    MUSTER_TRY(mst_draft_window_keep(draft, POOL_SIZE, axes, 0, window->size));
    MUSTER_TRY(mst_draft_window_keep(draft, POOL_PADDING, 2 * axes, 0, padding));
    MUSTER_TRY(mst_draft_window_keep(draft, POOL_DILATION, axes, 1, window->dilation));
    values[POOL_CEIL_MODE].integer = pooling->ceil_mode;
    if (!has_average) return MUSTER_OK;
    pooling->counts_padding = values[POOL_EXCLUDE_PADDING].integer == 0;
    values[POOL_EXCLUDE_PADDING].integer = !pooling->counts_padding;
    return MUSTER_OK;
}

muster_status mst_draft_pooling(mst_draft *draft, mst_pooling *pooling) {
    muster_dtype dtype;
    char received[MST_NODE_TEXT];
    MUSTER_TRY(mst_draft_unify(draft, 0, &dtype));
    const mst_type *x = &X->type;
    if (x->ndim < FIRST + 1 || x->ndim > FIRST + MST_WINDOW_AXES)
        return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 0, "expected images, channels and 1 to 3 extents, received %s",
                                mst_type_text(draft->graph, x, received));
    return read_attributes(draft, x->ndim - FIRST, pooling);
}

mst_pooling mst_pooling_of(const muster_expr *node) {
    const mst_graph_value *values = node->values;
    const int32_t axes = node->type.ndim - FIRST;
    mst_pooling pooling = {.window = {.axes = axes}, .ceil_mode = values[POOL_CEIL_MODE].integer != 0};
    for (int32_t d = 0; d < axes; d++) {
        pooling.window.size[d] = values[POOL_SIZE].list[d];
        pooling.window.stride[d] = values[values[POOL_STRIDE].count ? POOL_STRIDE : POOL_SIZE].list[d];
        pooling.window.dilation[d] = values[POOL_DILATION].count ? values[POOL_DILATION].list[d] : 1;
        pooling.window.before[d] = values[POOL_PADDING].count ? values[POOL_PADDING].list[d] : 0;
        pooling.window.after[d] = values[POOL_PADDING].count ? values[POOL_PADDING].list[axes + d] : 0;
    }
    return pooling;
}

/* ---- shapes ---- */

/* A window that is dilated may step over all of x. Only those that begin before x can. */
static bool has_elements(const mst_window *window, int32_t d, int64_t extent, int64_t places) {
    int64_t first = 0, end = 1;
    for (int64_t place = 0; first < end && place < places && place * window->stride[d] < window->before[d]; place++)
        mst_window_inside(window, d, place, extent, &first, &end);
    return first < end;
}

static muster_status infer_axis(mst_draft *draft, const mst_pooling *pooling, int32_t d, mst_dim *dim) {
    const mst_window *window = &pooling->window;
    const int64_t extent = mst_dim_constant(draft->graph, *dim);
    const bool keeps = mst_window_keeps_extent(window, d), dilated = window->dilation[d] > 1 && window->size[d] > 1;
    char received[MST_NODE_TEXT];
    if (keeps && (extent == 0 || (extent < 0 && !dilated))) return MUSTER_OK;
    if (extent < 0 && keeps)
        return mst_draft_refuse(draft, MUSTER_UNSUPPORTED, 0, "expected a known extent in axis %d, where dilation is not 1, received %s",
                                (int)(FIRST + d), mst_type_text(draft->graph, &X->type, received));
    if (extent < 0) return mst_draft_window_unknown(draft, d);
    const int64_t places = mst_window_places(window, d, extent, pooling->ceil_mode);
    if (places < 0) return mst_draft_refuse(draft, MUSTER_OVERFLOW, 0, "the extent of axis %d overflows", (int)(FIRST + d));
    if (places == 0)
        return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, -1,
                                "size: expected a window that fits into %s with its padding, received %lld in axis %d",
                                mst_node_text(X, "x", received), (long long)window->size[d], (int)(FIRST + d));
    if (!has_elements(window, d, extent, places))
        return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, -1,
                                "padding: expected an element of %s in each window, received %lld in axis %d, where one has none",
                                mst_node_text(X, "x", received), (long long)window->before[d], (int)(FIRST + d));
    *dim = mst_dim_number(draft->graph, places);
    return MUSTER_OK;
}

muster_status mst_infer_pooling(mst_draft *draft) {
    mst_pooling pooling;
    MUSTER_TRY(mst_draft_pooling(draft, &pooling));
    draft->types[0] = X->type;
    for (int32_t d = 0; d < pooling.window.axes; d++) MUSTER_TRY(infer_axis(draft, &pooling, d, &draft->types[0].dims[FIRST + d]));
    return MUSTER_OK;
}

/* It is made by the library, with attributes that an average has had. */
muster_status mst_infer_pooling_gradient(mst_draft *draft) {
    mst_type *x = &draft->types[0];
    *x = X->type;
    for (int32_t d = FIRST; d < x->ndim; d++) x->dims[d] = (mst_dim)draft->values[POOL_EXTENTS].list[d - FIRST];
    return MUSTER_OK;
}
