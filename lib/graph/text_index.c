/* Indices of texts: a slice, then the axes that remain. */
#include "text_private.h"

/* What an index does: a slice, and then the axes that remain (-1: a new one of size 1). */
typedef struct text_selection {
    int64_t start[MUSTER_MAX_DIMS], stop[MUSTER_MAX_DIMS], step[MUSTER_MAX_DIMS];
    int32_t axes[MUSTER_MAX_DIMS], count;
    bool part, reshapes;
} text_selection;

static muster_status keep_axis(mst_text *t, text_selection *selection, mst_text_place place, int32_t axis) {
    if (selection->count == MUSTER_MAX_DIMS)
        return mst_text_refuse(t, MUSTER_UNSUPPORTED, place, "expected at most %d axes, received more", MUSTER_MAX_DIMS);
    selection->axes[selection->count++] = axis;
    return MUSTER_OK;
}

static muster_status select_one(mst_text *t, text_selection *selection, const muster_expr *x, int32_t axis, const mst_text_value *item) {
    char text[MST_NODE_TEXT];
    int64_t i = 0;
    if (!mst_text_integer(item, &i))
        return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, item->place, "expected an integer or a slice, received %s%s",
                               mst_text_received(item, text),
                               item->kind == MST_TEXT_EXPRESSION ? "; take(x, indices, axis) selects by an expression"
                               : item->kind == MST_TEXT_LIST     ? "; take(x, indices, axis) gathers"
                                                                 : "");
    const int64_t size = mst_dim_constant(t->graph, x->type.dims[axis]);
    if (size >= 0 && (i < -size || i >= size))
        return mst_text_refuse(t, MUSTER_OUT_OF_RANGE, item->place, "expected an index into axis %d of %s, received %lld", (int)axis,
                               mst_node_text(x, NULL, text), (long long)i);
    selection->start[axis] = i;
    selection->stop[axis] = i == -1 ? MUSTER_NONE : i + 1;
    selection->part = selection->reshapes = true;
    return MUSTER_OK;
}

static muster_status select_item(mst_text *t, text_selection *selection, const muster_expr *x, int32_t axis, const mst_text_value *item) {
    if (item->kind != MST_TEXT_SLICE) return select_one(t, selection, x, axis, item);
    selection->start[axis] = item->parts[0];
    selection->stop[axis] = item->parts[1];
    if (item->parts[2] != MUSTER_NONE) selection->step[axis] = item->parts[2];
    selection->part |= item->parts[0] != MUSTER_NONE || item->parts[1] != MUSTER_NONE || selection->step[axis] != 1;
    return keep_axis(t, selection, item->place, axis);
}

static muster_status read_selection(mst_text *t, const mst_pending *frame, const muster_expr *x, text_selection *selection) {
    const mst_text_value *items = t->values.items + frame->base;
    const int32_t count = t->values.count - frame->base, ndim = x->type.ndim;
    char text[MST_NODE_TEXT];
    int32_t indexed = 0, rests = 0, axis = 0;
    for (int32_t d = 0; d < ndim; d++) {
        selection->start[d] = selection->stop[d] = MUSTER_NONE;
        selection->step[d] = 1;
    }
    for (int32_t i = 0; i < count; i++) {
        indexed += items[i].kind != MST_TEXT_ELLIPSIS && items[i].kind != MST_TEXT_NOTHING;
        rests += items[i].kind == MST_TEXT_ELLIPSIS;
    }
    if (rests > 1)
        return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, frame->place, "expected \"...\" once, received it %d times", (int)rests);
    if (indexed > ndim)
        return mst_text_refuse(t, MUSTER_SHAPE_MISMATCH, frame->place, "expected at most %d %s, one for each axis of %s, received %d",
                               (int)ndim, ndim == 1 ? "index" : "indices", mst_node_text(x, NULL, text), (int)indexed);
    for (int32_t i = 0; i < count; i++) {
        if (items[i].kind == MST_TEXT_NOTHING) {
            MUSTER_TRY(keep_axis(t, selection, items[i].place, -1));
            selection->reshapes = true;
        } else if (items[i].kind == MST_TEXT_ELLIPSIS) {
            for (int32_t d = 0; d < ndim - indexed; d++) MUSTER_TRY(keep_axis(t, selection, items[i].place, axis++));
        } else {
            MUSTER_TRY(select_item(t, selection, x, axis++, &items[i]));
        }
    }
    while (axis < ndim) MUSTER_TRY(keep_axis(t, selection, frame->place, axis++));
    return MUSTER_OK;
}

static muster_expr *apply_selection(muster_expr *x, const text_selection *selection) {
    mst_dim dims[MUSTER_MAX_DIMS];
    const int32_t ndim = x->type.ndim;
    if (selection->part)
        x = mst_apply(x->graph, MST_OPERATOR_slice, &x, 1,
                      (mst_graph_value[]){{.list = selection->start, .count = ndim},
                                          {.list = selection->stop, .count = ndim},
                                          {.list = selection->step, .count = ndim}});
    if (mst_node_is_error(x) || !selection->reshapes) return x;
    for (int32_t d = 0; d < selection->count; d++) dims[d] = selection->axes[d] < 0 ? MST_DIM_ONE : x->type.dims[selection->axes[d]];
    return mst_reshape_to(x, selection->count, dims);
}

muster_status mst_text_index(mst_text *t, const mst_pending *frame) {
    text_selection selection = {.count = 0};
    const mst_text_value *value = &t->values.items[frame->base - 1];
    muster_expr *x = value->node;
    if (value->kind != MST_TEXT_EXPRESSION)
        return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, frame->place, "expected an index of an expression, received one of %s",
                               mst_text_value_name(value));
    MUSTER_TRY(read_selection(t, frame, x, &selection));
    MUSTER_TRY(mst_text_begin(t, frame->place));
    t->values.count = frame->base - 1;
    return mst_text_end(t, frame->place, apply_selection(x, &selection));
}
