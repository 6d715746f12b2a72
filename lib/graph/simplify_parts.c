/* Rules for values that are put together from parts: the gradients of slices of one value are a
 * sum of parts among zeros. Where the parts lie side by side, they are put behind each other. */
#include "operators/operators_private.h"
#include "rewrite_private.h"

enum { START, STOP, STEP, VALUES = 4 };

static bool is_plain_part(const muster_expr *node) {
    const int32_t ndim = node->type.ndim;
    bool plain = mst_node_is(node, MST_OPERATOR_slice_gradient) && node->values[START].count == ndim && node->values[STEP].count == ndim;
    for (int32_t d = 0; plain && d < ndim; d++) plain = node->values[STEP].list[d] == 1 && node->values[START].list[d] >= 0;
    return plain;
}

/* The axis along which the second part begins where the first one ends, or -1. */
static int32_t axis_between(const muster_expr *first, const muster_expr *second) {
    const mst_type *a = &first->inputs[0]->type, *b = &second->inputs[0]->type;
    int32_t axis = -1;
    for (int32_t d = 0; d < first->type.ndim; d++) {
        const int64_t start = first->values[START].list[d], next = second->values[START].list[d];
        if (start == next && a->dims[d] == b->dims[d]) continue;
        const int64_t n = mst_dim_constant(first->graph, a->dims[d]);
        if (axis >= 0 || n < 0 || mst_dim_constant(first->graph, b->dims[d]) < 0 || next != start + n) return -1;
        axis = d;
    }
    return axis;
}

static bool is_joined(const muster_expr *x, int32_t axis) {
    return mst_node_is(x, MST_OPERATOR_concatenate) && x->values[0].integer == axis;
}

/* The two behind each other; the operands of one that is put together so itself are taken one by
 * one, so that each is copied once. */
static muster_expr *concatenation(muster_expr *first, muster_expr *second, int32_t axis) {
    muster_expr *const both[] = {first, second};
    int32_t count = 0;
    for (int32_t i = 0; i < 2; i++) count += is_joined(both[i], axis) ? both[i]->input_count : 1;
    muster_expr **parts = mst_arena_take(&first->graph->arena, (size_t)count * sizeof *parts);
    if (!parts) return NULL;
    count = 0;
    for (int32_t i = 0; i < 2; i++) {
        const bool joined = is_joined(both[i], axis);
        for (int32_t k = 0; k < (joined ? both[i]->input_count : 1); k++) parts[count++] = joined ? both[i]->inputs[k] : both[i];
    }
    return mst_apply(first->graph, MST_OPERATOR_concatenate, parts, count, (mst_graph_value[]){{.integer = axis}});
}

muster_expr *mst_sum_of_parts(muster_expr *node) {
    muster_expr *a = node->inputs[0], *b = node->inputs[1];
    if (!is_plain_part(a) || !is_plain_part(b) || a->type.dtype != b->type.dtype || !mst_same_dims(&a->type, &b->type)) return NULL;
    int32_t axis = axis_between(a, b);
    if (axis < 0 && (axis = axis_between(b, a)) >= 0) {
        a = node->inputs[1];
        b = node->inputs[0];
    }
    muster_expr *parts = axis < 0 ? NULL : concatenation(a->inputs[0], b->inputs[0], axis);
    if (!parts || mst_node_is_error(parts)) return parts;
    mst_graph_value values[VALUES];
    for (int32_t i = 0; i < VALUES; i++) values[i] = a->values[i];
    muster_expr *made = mst_apply(node->graph, MST_OPERATOR_slice_gradient, &parts, 1, values);
    for (int32_t i = 0; i < 2 && !mst_node_is_error(made); i++) mst_node_inherit(made, node->inputs[i], false);
    return made;
}

muster_expr *mst_transposed_parts(muster_expr *node) {
    muster_expr *transposed = node->inputs[0];
    if (!mst_node_is(transposed, MST_OPERATOR_transpose) || !mst_node_is(transposed->inputs[0], MST_OPERATOR_concatenate)) return NULL;
    muster_expr *joined = transposed->inputs[0];
    const int64_t *axes = transposed->values[0].list;
    int32_t axis = 0;
    while (axes[axis] != joined->values[0].integer) axis++;
    muster_expr **parts = mst_arena_take(&node->graph->arena, (size_t)joined->input_count * sizeof *parts);
    for (int32_t i = 0; parts && i < joined->input_count; i++) {
        parts[i] = mst_transpose_to(joined->inputs[i], axes);
        if (mst_node_is_error(parts[i])) return parts[i];
    }
    if (!parts) return NULL;
    muster_expr *made =
        mst_apply(node->graph, MST_OPERATOR_concatenate, parts, joined->input_count, (mst_graph_value[]){{.integer = axis}});
    if (mst_node_is_error(made)) return made;
    mst_node_inherit(made, joined, false);
    mst_node_inherit(made, transposed, false);
    return mst_reshape_to(made, node->type.ndim, node->type.dims);
}
