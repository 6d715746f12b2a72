/* Operations that move elements: views where the layout of the operand allows one. */
#include "operators_private.h"

#include <string.h>

/* ---- reshape ---- */

static mst_dim product_of(mst_graph *graph, const mst_type *type) {
    mst_dim product = MST_DIM_ONE;
    for (int32_t d = 0; d < type->ndim; d++) product = mst_dim_multiply(graph, product, type->dims[d]);
    return product;
}

static muster_status refuse_reshape(mst_draft *draft, const mst_type *wanted) {
    char x[MST_NODE_TEXT], shape[MST_NODE_TEXT];
    return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, -1, "shape: expected as many elements as %s has, received %s",
                            mst_node_text(draft->inputs[0], "x", x), mst_type_text(draft->graph, wanted, shape));
}

static muster_status infer_reshape(mst_draft *draft) {
    mst_graph *graph = draft->graph;
    const mst_graph_value *shape = &draft->values[0];
    mst_type *type = &draft->types[0];
    int32_t inferred = -1;
    int64_t *list = mst_arena_take(&graph->arena, MUSTER_MAX_DIMS * sizeof *list);
    if (!list) return mst_draft_refuse(draft, MUSTER_OUT_OF_MEMORY, -1, "out of memory");
    mst_type_of_shape(type, &draft->inputs[0]->type, shape);
    for (int32_t d = 0; d < type->ndim; d++) {
        if (type->dims[d] != MST_DIM_NONE) continue;
        if (inferred >= 0) return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "shape: expected one size to infer, received two");
        inferred = d;
        type->dims[d] = MST_DIM_ONE;
    }
    const mst_dim total = product_of(graph, &draft->inputs[0]->type), known = product_of(graph, type);
    if (total == MST_DIM_NONE || known == MST_DIM_NONE) return graph->status;
    if (inferred >= 0) {
        type->dims[inferred] = mst_dim_divide(graph, total, known);
        if (type->dims[inferred] == MST_DIM_NONE) {
            type->dims[inferred] = MST_DIM_ONE;
            return refuse_reshape(draft, type);
        }
    } else if (total != known) {
        return refuse_reshape(draft, type);
    }
    for (int32_t d = 0; d < type->ndim; d++) list[d] = type->dims[d];
    draft->values[0].list = list;
    return MUSTER_OK;
}

static muster_expr *fold_reshape(mst_draft *draft) {
    muster_expr *x = draft->inputs[0];
    const mst_graph_value *shape = &draft->values[0];
    bool same = shape->count == x->type.ndim;
    for (int32_t d = 0; same && d < shape->count; d++) same = shape->list[d] == x->type.dims[d];
    if (same) return x;
    /* a reshape of a reshape */
    if (!mst_node_is(x, MST_OPERATOR_reshape)) return NULL;
    return mst_apply(draft->graph, MST_OPERATOR_reshape, x->inputs, 1, draft->values);
}

/* Goes through both shapes in groups of axes with equal products. Within a group the elements of x
 * must lie one behind the other. */
static bool view_reshape(const mst_step_run *run, muster_tensor *result) {
    const muster_tensor *x = run->in[0];
    int64_t shape[MUSTER_MAX_DIMS], strides[MUSTER_MAX_DIMS];
    int32_t count = 0, from = 0, to = 0;
    if (muster_tensor_count(*x) == 0) return false;
    for (int32_t d = 0; d < x->ndim; d++) {
        if (x->shape[d] == 1) continue;
        shape[count] = x->shape[d];
        strides[count++] = x->strides[d];
    }
    while (from < count) {
        int64_t given = shape[from], wanted = 1;
        int32_t begin = from, first = to;
        while (wanted < given || wanted % given != 0 || given % wanted != 0) {
            if (wanted <= given && to < result->ndim && wanted != given)
                wanted *= result->shape[to++];
            else if (from + 1 < count)
                given *= shape[++from];
            else
                return false;
        }
        for (int32_t d = begin; d < from; d++)
            if (strides[d] != shape[d + 1] * strides[d + 1]) return false;
        int64_t stride = strides[from];
        for (int32_t d = to - 1; d >= first; d--) {
            result->strides[d] = stride;
            stride *= result->shape[d];
        }
        from++;
    }
    for (; to < result->ndim; to++) result->strides[to] = 1; /* axes of size 1 at the end */
    return true;
}

static muster_status run_reshape(muster_worker *worker, const mst_step_run *run) {
    return muster_copy(worker, *run->in[0], muster_tensor_reshape(*run->out[0], run->in[0]->ndim, run->in[0]->shape));
}

#define X (node->inputs[0])
static void gradient_reshape(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_gradient_add(gradients, node, 0, mst_reshape_to(dy, X->type.ndim, X->type.dims));
}

/* Where the axis `axis` of one shape begins in the other, which has as many elements: the axis
 * before which there are the same axes. -1: within one. */
static int32_t axis_beginning_with(const muster_expr *node, const mst_type *from, int32_t axis, const mst_type *to) {
    mst_dim before = MST_DIM_ONE, at = MST_DIM_ONE;
    for (int32_t d = 0; d < axis; d++) before = mst_dim_multiply(node->graph, before, from->dims[d]);
    for (int32_t d = 0; d < to->ndim; d++) {
        if (at == before && to->dims[d] != MST_DIM_ONE) return d;
        at = mst_dim_multiply(node->graph, at, to->dims[d]);
    }
    return -1;
}

/* A part along an axis stays a part where the axis stays. Rows may be joined with axes behind them,
 * and taken apart again. */
static bool distribute_reshape(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    operands[0] = result;
    if (way) return false;
    if (result.kind == MST_PARTIAL) return true;
    const int32_t axis = axis_beginning_with(node, &node->type, result.axis, &X->type);
    if (axis < 0) return false;
    operands[0].axis = (int8_t)axis;
    return X->type.dims[axis] == node->type.dims[result.axis] ||
           (mst_axis_has_rows(node->graph, &X->type, axis) && mst_axis_has_rows(node->graph, &node->type, result.axis));
}

const mst_operator mst_operator_reshape = {MST_ANY_OPERATOR(reshape, "the elements of x in another shape"),
                                           .operands = {"x"},
                                           .attributes = {{"shape", MST_VALUE_DIMS, .required = true}},
                                           .expand = fold_reshape,
                                           .infer = infer_reshape,
                                           .distribute = distribute_reshape,
                                           .view = view_reshape,
                                           .run = run_reshape,
                                           .gradient = gradient_reshape};

/* ---- axes of size 1 ---- */

static muster_expr *expand_expand_dims(mst_draft *draft) {
    muster_expr *x = draft->inputs[0];
    const int32_t ndim = x->type.ndim + 1;
    const int64_t given = draft->values[0].integer, axis = given < 0 ? given + ndim : given;
    mst_dim dims[MUSTER_MAX_DIMS + 1];
    if (axis < 0 || axis >= ndim || ndim > MUSTER_MAX_DIMS) {
        char text[MST_NODE_TEXT];
        (void)mst_draft_refuse(draft, ndim > MUSTER_MAX_DIMS ? MUSTER_UNSUPPORTED : MUSTER_OUT_OF_RANGE, -1,
                               "axis: expected a place for one of at most %d axes beside those of %s, received %lld", MUSTER_MAX_DIMS,
                               mst_node_text(x, "x", text), (long long)given);
        return draft->graph->error;
    }
    for (int32_t d = 0; d < ndim; d++) dims[d] = d == axis ? MST_DIM_ONE : x->type.dims[d < axis ? d : d - 1];
    return mst_reshape_to(x, ndim, dims);
}

const mst_operator mst_operator_expand_dims = {MST_ANY_OPERATOR(expand_dims, "x with a new axis of size 1"), .operands = {"x"},
                                               .attributes = {{"axis", MST_VALUE_INTEGER, .required = true}}, .expand = expand_expand_dims,
                                               .infer = mst_draft_composite};

static muster_expr *expand_squeeze(mst_draft *draft) {
    muster_expr *x = draft->inputs[0];
    uint32_t mask = 0;
    const bool all = draft->values[0].count == 0;
    mst_dim dims[MUSTER_MAX_DIMS];
    int32_t ndim = 0;
    if (mst_draft_axes(draft, 0, &mask) != MUSTER_OK) return draft->graph->error;
    for (int32_t d = 0; d < x->type.ndim; d++) {
        const bool one = x->type.dims[d] == MST_DIM_ONE;
        if (!(mask >> d & 1) || (all && !one)) {
            dims[ndim++] = x->type.dims[d];
            continue;
        }
        if (one) continue;
        char text[MST_NODE_TEXT];
        (void)mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 0, "expected size 1 in axis %d, received %s", (int)d,
                               mst_type_text(draft->graph, &x->type, text));
        return draft->graph->error;
    }
    return mst_reshape_to(x, ndim, dims);
}

const mst_operator mst_operator_squeeze = {MST_ANY_OPERATOR(squeeze, "x without the axes, whose size is 1, or without all axes of size 1"),
                                           .operands = {"x"}, .attributes = {{"axis", MST_VALUE_LIST}}, .expand = expand_squeeze,
                                           .infer = mst_draft_composite};

/* ---- broadcast_to ---- */

static muster_status infer_broadcast_to(mst_draft *draft) {
    const mst_type *x = &draft->inputs[0]->type;
    mst_type *type = &draft->types[0];
    mst_type_of_shape(type, x, &draft->values[0]);
    bool fits = x->ndim <= type->ndim;
    for (int32_t d = 0; d < type->ndim; d++) {
        const int32_t axis = d - (type->ndim - x->ndim);
        if (type->dims[d] == MST_DIM_NONE) fits = false;
        if (axis >= 0 && x->dims[axis] != MST_DIM_ONE && x->dims[axis] != type->dims[d]) fits = false;
    }
    if (fits) return MUSTER_OK;
    char expected[MST_NODE_TEXT], received[MST_NODE_TEXT];
    for (int32_t d = 0; d < type->ndim; d++)
        if (type->dims[d] == MST_DIM_NONE)
            return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "shape: entry %d: expected a size, received MUSTER_INFER", (int)d);
    return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 0, "expected a shape that broadcasts to %s, received %s",
                            mst_type_text(draft->graph, type, expected), mst_type_text(draft->graph, x, received));
}

static bool view_broadcast_to(const mst_step_run *run, muster_tensor *result) {
    const muster_tensor *x = run->in[0];
    for (int32_t d = 0; d < result->ndim; d++) {
        const int32_t axis = d - (result->ndim - x->ndim);
        result->strides[d] = axis >= 0 && x->shape[axis] == result->shape[d] ? x->strides[axis] : 0;
    }
    return true;
}

static void gradient_broadcast_to(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_gradient_add(gradients, node, 0, dy); /* which sums it to the shape of x */
}

/* Whatever combines partial values combines their copies, too. */
static bool distribute_broadcast_to(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (result.kind == MST_CUT) return mst_distribute_elementwise(node, result, way, operands);
    operands[0] = result;
    return way == 0;
}

const mst_operator mst_operator_broadcast_to = {
    MST_ANY_OPERATOR(broadcast_to, "x repeated along its axes of size 1 and along new first axes"),
    .operands = {"x"},
    .attributes = {{"shape", MST_VALUE_DIMS, .required = true}},
    .infer = infer_broadcast_to,
    .distribute = distribute_broadcast_to,
    .view = view_broadcast_to,
    .gradient = gradient_broadcast_to};

/* ---- transpose ---- */

static muster_status infer_transpose(mst_draft *draft) {
    const mst_type *x = &draft->inputs[0]->type;
    mst_graph_value *axes = &draft->values[0];
    int64_t *list = mst_arena_take(&draft->graph->arena, MUSTER_MAX_DIMS * sizeof *list);
    uint32_t seen = 0;
    if (!list) return mst_draft_refuse(draft, MUSTER_OUT_OF_MEMORY, -1, "out of memory");
    for (int32_t d = 0; d < x->ndim; d++) {
        const int64_t given = axes->count ? (d < axes->count ? axes->list[d] : -100) : x->ndim - 1 - d;
        list[d] = given < 0 ? given + x->ndim : given;
        if (axes->count == x->ndim || !axes->count)
            if (list[d] >= 0 && list[d] < x->ndim) seen |= 1u << list[d];
    }
    if (seen != (1u << x->ndim) - 1 || (axes->count && axes->count != x->ndim)) {
        char text[MST_NODE_TEXT];
        return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "axes: expected each axis of %s once, received %d axes",
                                mst_node_text(draft->inputs[0], "x", text), (int)axes->count);
    }
    *axes = (mst_graph_value){.list = list, .count = x->ndim};
    draft->types[0] = *x;
    for (int32_t d = 0; d < x->ndim; d++) draft->types[0].dims[d] = x->dims[list[d]];
    return MUSTER_OK;
}

static bool view_transpose(const mst_step_run *run, muster_tensor *result) {
    for (int32_t d = 0; d < result->ndim; d++) result->strides[d] = run->in[0]->strides[run->node->values[0].list[d]];
    return true;
}

static void gradient_transpose(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_gradient_add(gradients, node, 0, mst_axes_back(dy, node->values[0].list));
}

static bool distribute_transpose(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    return way == 0 && mst_distribute_moved(node, result, node->values[0].list, operands);
}

const mst_operator mst_operator_transpose = {MST_ANY_OPERATOR(transpose, "x with its axes in another order, or in reverse"),
                                             .operands = {"x"},
                                             .attributes = {{"axes", MST_VALUE_LIST}},
                                             .infer = infer_transpose,
                                             .distribute = distribute_transpose,
                                             .view = view_transpose,
                                             .gradient = gradient_transpose};

static muster_expr *expand_swapaxes(mst_draft *draft) {
    muster_expr *x = draft->inputs[0];
    int64_t axes[MUSTER_MAX_DIMS];
    int32_t first, second;
    if (mst_draft_axis(draft, 0, &first) != MUSTER_OK || mst_draft_axis(draft, 1, &second) != MUSTER_OK) return draft->graph->error;
    for (int32_t d = 0; d < x->type.ndim; d++) axes[d] = d == first ? second : d == second ? first : d;
    return mst_transpose_to(x, axes);
}

const mst_operator mst_operator_swapaxes = {
    MST_ANY_OPERATOR(swapaxes, "x with two axes exchanged"), .operands = {"x"},
    .attributes = {{"axis1", MST_VALUE_INTEGER, .required = true}, {"axis2", MST_VALUE_INTEGER, .required = true}},
    .expand = expand_swapaxes, .infer = mst_draft_composite};
