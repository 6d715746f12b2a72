/* The attributes of convolutions and the shapes of their results. */
#include "convolution_private.h"

/* ---- attributes ---- */

/* All but the sizes of the window. */
static muster_status read_attributes(mst_draft *draft, int32_t axes, mst_convolution *c) {
    mst_window *window = &c->window;
    int64_t padding[2 * MST_WINDOW_AXES];
    *c = (mst_convolution){.window = {.axes = axes}, .groups = draft->values[GROUPS].integer};
    MUSTER_TRY(mst_draft_window_list(draft, STRIDE, axes, false, 1, 1, window->stride));
    MUSTER_TRY(mst_draft_window_list(draft, PADDING, axes, true, 0, 0, padding));
    MUSTER_TRY(mst_draft_window_list(draft, DILATION, axes, false, 1, 1, window->dilation));
    if (c->groups < 0)
        return mst_draft_refuse(draft, MUSTER_OUT_OF_RANGE, -1, "groups: expected 0 or more, received %lld", (long long)c->groups);
    for (int32_t d = 0; d < axes; d++) {
        window->before[d] = padding[d];
        window->after[d] = padding[axes + d];
    }
    MUSTER_TRY(mst_draft_window_keep(draft, STRIDE, axes, 1, window->stride));
    MUSTER_TRY(mst_draft_window_keep(draft, PADDING, 2 * axes, 0, padding));
    MUSTER_TRY(mst_draft_window_keep(draft, DILATION, axes, 1, window->dilation));
    if (c->groups == 1) draft->values[GROUPS].integer = 0;
    if (c->groups == 0) c->groups = 1;
    return MUSTER_OK;
}

mst_convolution mst_convolution_of(const muster_expr *node) {
    const mst_graph_value *values = node->values;
    const int32_t axes = node->type.ndim - FIRST;
    mst_convolution c = {.window = {.axes = axes}, .groups = values[GROUPS].integer ? values[GROUPS].integer : 1};
    for (int32_t d = 0; d < axes; d++) {
        c.window.stride[d] = values[STRIDE].count ? values[STRIDE].list[d] : 1;
        c.window.dilation[d] = values[DILATION].count ? values[DILATION].list[d] : 1;
        c.window.before[d] = values[PADDING].count ? values[PADDING].list[d] : 0;
        c.window.after[d] = values[PADDING].count ? values[PADDING].list[axes + d] : 0;
    }
    return c;
}

/* ---- shapes ---- */

static muster_status check_bias(mst_draft *draft, mst_dim outputs) {
    char expected[64], received[MST_NODE_TEXT];
    if (draft->count < 3) return MUSTER_OK;
    const mst_type *bias = &draft->inputs[2]->type;
    if (bias->ndim == 1 && bias->dims[0] == outputs) return MUSTER_OK;
    (void)mst_dim_print(draft->graph, outputs, expected, sizeof expected);
    return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 2, "expected a number for each of %s channels, received %s", expected,
                            mst_type_text(draft->graph, bias, received));
}

/* The channels of the weights are on axis 1, in each group; transposed on axis 0, in all groups. */
static muster_status refuse_channels(mst_draft *draft, int64_t groups, bool transposed) {
    char expected[MST_NODE_TEXT], received[MST_NODE_TEXT], number[80] = "";
    const int64_t channels = mst_dim_constant(draft->graph, draft->inputs[0]->type.dims[CHANNELS]), of_groups = transposed ? 1 : groups;
    if (channels >= 0 && channels % of_groups == 0)
        snprintf(number, sizeof number, ", %lld on axis %d", (long long)(channels / of_groups), transposed ? 0 : 1);
    else if (channels >= 0)
        snprintf(number, sizeof number, ", which do not divide %lld", (long long)channels);
    return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 1, "expected weights for the channels of %s in %lld group%s%s, received %s",
                            mst_node_text(draft->inputs[0], "x", expected), (long long)groups, groups == 1 ? "" : "s", number,
                            mst_type_text(draft->graph, &draft->inputs[1]->type, received));
}

muster_status mst_draft_convolution(mst_draft *draft, bool transposed, mst_convolution *c, mst_dim *outputs) {
    muster_dtype dtype;
    char received[MST_NODE_TEXT];
    MUSTER_TRY(mst_draft_unify(draft, 0, &dtype));
    const mst_type *x = &draft->inputs[0]->type, *w = &draft->inputs[1]->type;
    if (x->ndim < FIRST + 1 || x->ndim > FIRST + MST_WINDOW_AXES)
        return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 0, "expected images, channels and 1 to 3 extents, received %s",
                                mst_type_text(draft->graph, x, received));
    MUSTER_TRY(mst_draft_ndim(draft, 1, x->ndim));
    MUSTER_TRY(read_attributes(draft, x->ndim - FIRST, c));
    for (int32_t d = 0; d < c->window.axes; d++) {
        c->window.size[d] = mst_dim_constant(draft->graph, w->dims[FIRST + d]);
        if (c->window.size[d] < 1 || c->window.size[d] > INT32_MAX)
            return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 1, "expected a window of known sizes from 1 on, received %s",
                                    mst_type_text(draft->graph, w, received));
    }
    if (draft->graph->dims[w->dims[0]].factor % c->groups)
        return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 1, "expected a first extent that %lld groups divide, received %s",
                                (long long)c->groups, mst_type_text(draft->graph, w, received));
    const mst_dim second = mst_dim_multiply(draft->graph, mst_dim_number(draft->graph, c->groups), w->dims[1]);
    const mst_dim channels = transposed ? w->dims[0] : second;
    *outputs = transposed ? second : w->dims[0];
    if (second == MST_DIM_NONE) return draft->graph->status;
    if (channels != x->dims[CHANNELS]) return refuse_channels(draft, c->groups, transposed);
    return check_bias(draft, *outputs);
}

muster_status mst_infer_convolution(mst_draft *draft) {
    mst_convolution c;
    char expected[MST_NODE_TEXT], received[MST_NODE_TEXT];
    mst_dim outputs;
    MUSTER_TRY(mst_draft_convolution(draft, false, &c, &outputs));
    const mst_type *x = &draft->inputs[0]->type, *w = &draft->inputs[1]->type;
    mst_type *y = &draft->types[0];
    *y = *x;
    y->dims[CHANNELS] = outputs;
    for (int32_t d = 0; d < c.window.axes; d++) {
        const int64_t extent = mst_dim_constant(draft->graph, x->dims[FIRST + d]);
        if (mst_window_keeps_extent(&c.window, d)) continue;
        if (extent < 0) return mst_draft_window_unknown(draft, d);
        const int64_t places = mst_window_places(&c.window, d, extent, false);
        if (places < 0) return mst_draft_refuse(draft, MUSTER_OVERFLOW, 0, "the extent of axis %d overflows", (int)(FIRST + d));
        if (places == 0)
            return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 1, "expected a window that fits into %s with its padding, received %s",
                                    mst_node_text(draft->inputs[0], "x", expected), mst_type_text(draft->graph, w, received));
        y->dims[FIRST + d] = mst_dim_number(draft->graph, places);
    }
    return MUSTER_OK;
}

/* ---- transposed ---- */

/* x has the places of the convolution whose gradient it is, and y the extents of its data. More
 * than stride - 1 elements behind are reached by windows as far as padding has hidden them there:
 * so there is less padding behind. What is left of them, extra, no window reaches. Where padding
 * leaves only some of these, there is less padding in front, so that windows reach one element, and
 * what it would have hidden is left out of the result. */
muster_status mst_draft_transposed(mst_draft *draft, const mst_convolution *c, mst_type *y, int64_t extra[MST_WINDOW_AXES],
                                   int64_t hidden[MST_WINDOW_AXES]) {
    const mst_window *w = &c->window;
    const mst_type *x = &draft->inputs[0]->type;
    int64_t added[MST_WINDOW_AXES], padding[2 * MST_WINDOW_AXES], size = 0, span;
    MUSTER_TRY(mst_draft_window_list(draft, OUTPUT_PADDING, w->axes, false, 0, 0, added));
    for (int32_t d = 0; d < w->axes; d++) {
        const int64_t places = mst_dim_constant(draft->graph, x->dims[FIRST + d]);
        if (added[d] >= w->stride[d] && added[d] >= w->dilation[d])
            return mst_draft_refuse(draft, MUSTER_OUT_OF_RANGE, -1, "output_padding: expected less than stride or dilation, received %lld",
                                    (long long)added[d]);
        extra[d] = added[d] < w->stride[d] ? 0 : added[d] - (w->stride[d] - 1);
        const int64_t shown = extra[d] < w->after[d] ? extra[d] : w->after[d];
        extra[d] -= shown;
        padding[d] = w->before[d];
        padding[w->axes + d] = w->after[d] - shown;
        hidden[d] = 0;
        if (mst_window_keeps_extent(w, d) && added[d] == 0) continue;
        if (places < 0) return mst_draft_window_unknown(draft, d);
        const bool overflows = __builtin_mul_overflow(places - 1, w->stride[d], &size) ||
                               __builtin_mul_overflow(w->size[d] - 1, w->dilation[d], &span) ||
                               __builtin_add_overflow(size, span + 1 + added[d] - extra[d] - w->before[d] - w->after[d], &size);
        if (!overflows && size < 1 && size + extra[d] >= 1) hidden[d] = 1 - size;
        padding[d] -= hidden[d];
        size += hidden[d];
        if (overflows || places == 0 || size < 1)
            return mst_draft_refuse(draft, overflows ? MUSTER_OVERFLOW : MUSTER_SHAPE_MISMATCH, 0,
                                    "expected an extent in axis %d of which padding leaves 1 element or more, received %lld",
                                    (int)(FIRST + d), (long long)places);
        y->dims[FIRST + d] = mst_dim_number(draft->graph, size);
    }
    return mst_draft_window_keep(draft, PADDING, 2 * w->axes, 0, padding);
}
