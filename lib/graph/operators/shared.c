/* What the operators share: operands of one dtype, shapes that broadcast, axes. */
#include "operators_private.h"

#include <string.h>

static bool weak(const muster_expr *node) { return mst_node_is(node, MST_OPERATOR_number); }

muster_status mst_draft_number(mst_draft *draft, int32_t i, muster_dtype dtype) {
    char text[MST_NUMBER_TEXT];
    const mst_graph_value *value = &draft->inputs[i]->values[0];
    if (!mst_dtype_holds(dtype, value))
        return mst_draft_refuse(draft, MUSTER_OUT_OF_RANGE, i, "expected a number that %s holds, received %s", muster_dtype_name(dtype),
                                mst_value_text(value, text));
    draft->inputs[i] = mst_exact_number(draft->graph, dtype, value);
    return mst_node_is_error(draft->inputs[i]) ? draft->graph->status : MUSTER_OK;
}

muster_status mst_draft_dtype(mst_draft *draft, int32_t operand, uint32_t dtypes) {
    char text[128];
    const muster_dtype dtype = draft->inputs[operand]->type.dtype;
    if (MST_DTYPE_BIT(dtype) & dtypes) return MUSTER_OK;
    return mst_draft_refuse(draft, MUSTER_UNSUPPORTED, operand, "expected %s, received %s", mst_dtypes_text(text, dtypes),
                            dtype == MUSTER_DTYPE_NONE ? "a plain number" : muster_dtype_name(dtype));
}

muster_status mst_draft_unify(mst_draft *draft, int32_t first, muster_dtype *dtype) {
    int32_t typed = -1;
    for (int32_t i = first; i < draft->count && typed < 0; i++)
        if (!weak(draft->inputs[i])) typed = i;
    if (typed < 0)
        return mst_draft_refuse(draft, MUSTER_DTYPE_MISMATCH, first,
                                "expected an operand with a dtype beside plain numbers, received none");
    *dtype = draft->inputs[typed]->type.dtype;
    if (draft->op->dtypes) MUSTER_TRY(mst_draft_dtype(draft, typed, draft->op->dtypes));
    for (int32_t i = first; i < draft->count; i++) {
        if (weak(draft->inputs[i])) {
            MUSTER_TRY(mst_draft_number(draft, i, *dtype));
            continue;
        }
        if (draft->inputs[i]->type.dtype == *dtype) continue;
        char text[MST_NODE_TEXT];
        return mst_draft_refuse(draft, MUSTER_DTYPE_MISMATCH, i, "expected %s, the dtype of %s, received %s (muster_expr_cast converts)",
                                muster_dtype_name(*dtype),
                                mst_node_text(draft->inputs[typed], draft->op->operands[typed < 3 ? typed : 0], text),
                                muster_dtype_name(draft->inputs[i]->type.dtype));
    }
    return MUSTER_OK;
}

muster_status mst_draft_flag(mst_draft *draft, int32_t attribute) {
    const int64_t received = draft->values[attribute].integer;
    if (received == 0 || received == 1) return MUSTER_OK;
    return mst_draft_refuse(draft, MUSTER_OUT_OF_RANGE, -1, "%s: expected 0 or 1, received %lld", draft->op->attributes[attribute].name,
                            (long long)received);
}

muster_status mst_draft_dims(mst_draft *draft, int32_t operand, const mst_type *wanted) {
    char expected[MST_NODE_TEXT], received[MST_NODE_TEXT];
    const mst_type *given = &draft->inputs[operand]->type;
    if (mst_same_dims(given, wanted)) return MUSTER_OK;
    return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, operand, "expected %s, received %s",
                            mst_type_text(draft->graph, wanted, expected), mst_type_text(draft->graph, given, received));
}

muster_status mst_draft_broadcasts(mst_draft *draft, int32_t operand, const mst_type *type) {
    char expected[MST_NODE_TEXT], received[MST_NODE_TEXT];
    const mst_type *given = &draft->inputs[operand]->type;
    bool fits = given->ndim <= type->ndim;
    for (int32_t d = 0; fits && d < given->ndim; d++)
        fits = given->dims[d] == MST_DIM_ONE || given->dims[d] == type->dims[type->ndim - given->ndim + d];
    if (fits) return MUSTER_OK;
    return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, operand, "expected a shape that broadcasts to %s, received %s",
                            mst_type_text(draft->graph, type, expected), mst_type_text(draft->graph, given, received));
}

muster_status mst_draft_same(mst_draft *draft) {
    MUSTER_TRY(mst_draft_dtype(draft, 0, draft->op->dtypes));
    draft->types[0] = draft->inputs[0]->type;
    return MUSTER_OK;
}

bool mst_view_same(const mst_step_run *run, muster_tensor *result) {
    for (int32_t d = 0; d < result->ndim; d++) result->strides[d] = run->in[0]->strides[d];
    return true;
}

void mst_gradient_zero(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    (void)gradients;
    (void)node;
    (void)dy;
}

muster_status mst_draft_composite(mst_draft *draft) { return mst_draft_refuse(draft, MUSTER_INTERNAL, -1, "a composite operation"); }

void mst_type_of_shape(mst_type *type, const mst_type *like, const mst_graph_value *shape) {
    type->dtype = like->dtype;
    type->ndim = shape->count;
    for (int32_t d = 0; d < shape->count; d++) type->dims[d] = (mst_dim)shape->list[d];
}

muster_status mst_draft_ndim(mst_draft *draft, int32_t operand, int32_t ndim) {
    char text[MST_NODE_TEXT];
    const muster_expr *node = draft->inputs[operand];
    if (node->type.ndim == ndim) return MUSTER_OK;
    return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, operand, "expected %d dimension%s, received %s", (int)ndim, ndim == 1 ? "" : "s",
                            mst_type_text(draft->graph, &node->type, text));
}

muster_status mst_draft_sizes(mst_draft *draft, int32_t attribute, int32_t count) {
    const char *name = draft->op->attributes[attribute].name;
    const mst_graph_value *sizes = &draft->values[attribute];
    if (sizes->count != count)
        return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "%s: expected %d size%s, received %d", name, (int)count,
                                count == 1 ? "" : "s", (int)sizes->count);
    for (int32_t d = 0; d < count; d++)
        if (sizes->list[d] == MST_DIM_NONE)
            return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "%s: entry %d: expected a size, received MUSTER_INFER", name,
                                    (int)d);
    return MUSTER_OK;
}

/* What the operands before this one broadcast to, without the first axes that only later ones
 * have. */
static mst_type broadcast_before(const mst_draft *draft, int32_t operand, const mst_type *all) {
    mst_type type = {.ndim = 0};
    for (int32_t i = 0; i < operand; i++)
        if (draft->inputs[i]->type.ndim > type.ndim) type.ndim = draft->inputs[i]->type.ndim;
    for (int32_t d = 0; d < type.ndim; d++) type.dims[d] = all->dims[all->ndim - type.ndim + d];
    return type;
}

muster_status mst_draft_broadcast(mst_draft *draft, mst_type *type) {
    char received[MST_NODE_TEXT], expected[MST_NODE_TEXT];
    type->ndim = 0;
    for (int32_t i = 0; i < draft->count; i++)
        if (draft->inputs[i]->type.ndim > type->ndim) type->ndim = draft->inputs[i]->type.ndim;
    for (int32_t d = 0; d < type->ndim; d++) type->dims[d] = MST_DIM_ONE;
    for (int32_t i = 0; i < draft->count; i++) {
        const mst_type *x = &draft->inputs[i]->type;
        const mst_type before = broadcast_before(draft, i, type);
        for (int32_t d = 0; d < x->ndim; d++) {
            mst_dim *to = &type->dims[type->ndim - x->ndim + d];
            if (x->dims[d] == MST_DIM_ONE || x->dims[d] == *to) continue;
            if (*to != MST_DIM_ONE)
                return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, i, "expected a shape that broadcasts with %s, received %s",
                                        mst_type_text(draft->graph, &before, expected), mst_type_text(draft->graph, x, received));
            *to = x->dims[d];
        }
    }
    return MUSTER_OK;
}

bool mst_draft_numbers(const mst_draft *draft, double values[2]) {
    for (int32_t i = 0; i < draft->count; i++) {
        if (!weak(draft->inputs[i])) return false;
        values[i] = draft->inputs[i]->values[0].number;
    }
    return true;
}

/* ---- axes ---- */

static muster_status axis_of(mst_draft *draft, const char *name, int64_t given, int32_t *axis) {
    const int32_t ndim = draft->inputs[0]->type.ndim;
    if (given < -ndim || given >= ndim) {
        char text[MST_NODE_TEXT];
        return mst_draft_refuse(draft, MUSTER_OUT_OF_RANGE, -1, "%s: expected an axis of %s, received %lld", name,
                                mst_node_text(draft->inputs[0], draft->op->operands[0], text), (long long)given);
    }
    *axis = (int32_t)(given < 0 ? given + ndim : given);
    return MUSTER_OK;
}

muster_status mst_draft_axis(mst_draft *draft, int32_t attribute, int32_t *axis) {
    return axis_of(draft, draft->op->attributes[attribute].name, draft->values[attribute].integer, axis);
}

muster_status mst_draft_axes(mst_draft *draft, int32_t attribute, uint32_t *mask) {
    const int32_t ndim = draft->inputs[0]->type.ndim;
    mst_graph_value *value = &draft->values[attribute];
    const char *name = draft->op->attributes[attribute].name;
    *mask = 0;
    for (int32_t i = 0; i < value->count; i++) {
        int32_t axis;
        MUSTER_TRY(axis_of(draft, name, value->list[i], &axis));
        if (*mask >> axis & 1)
            return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "%s: expected each axis once, received %d twice", name, (int)axis);
        *mask |= 1u << axis;
    }
    if (!value->count) *mask = (1u << ndim) - 1;
    int64_t *list = mst_arena_take(&draft->graph->arena, MUSTER_MAX_DIMS * sizeof *list);
    if (!list) return mst_draft_refuse(draft, MUSTER_OUT_OF_MEMORY, -1, "%s: out of memory", name);
    value->count = 0;
    for (int32_t d = 0; d < ndim; d++)
        if (*mask >> d & 1) list[value->count++] = d;
    value->list = list;
    return MUSTER_OK;
}

uint32_t mst_axes_mask(const mst_graph_value *value, int32_t ndim) {
    uint32_t mask = 0;
    for (int32_t i = 0; i < value->count; i++) mask |= 1u << value->list[i];
    return value->count ? mask : (1u << ndim) - 1;
}

muster_expr *mst_transpose_to(muster_expr *node, const int64_t *axes) {
    bool same = true;
    if (mst_node_is_error(node)) return node;
    for (int32_t d = 0; d < node->type.ndim; d++) same &= axes[d] == d;
    if (same) return node;
    return mst_apply(node->graph, MST_OPERATOR_transpose, &node, 1, (mst_graph_value[]){{.list = axes, .count = node->type.ndim}});
}

muster_expr *mst_axes_last(muster_expr *node, uint32_t mask, int64_t axes[MUSTER_MAX_DIMS]) {
    int32_t count = 0;
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t d = 0; d < node->type.ndim; d++)
            if ((int32_t)(mask >> d & 1) == pass) axes[count++] = d;
    return mst_transpose_to(node, axes);
}

muster_expr *mst_axes_back(muster_expr *node, const int64_t axes[MUSTER_MAX_DIMS]) {
    int64_t inverse[MUSTER_MAX_DIMS];
    for (int32_t d = 0; d < node->type.ndim; d++) inverse[axes[d]] = d;
    return mst_transpose_to(node, inverse);
}

muster_expr *mst_keep_axes(muster_expr *dy, const mst_type *type, uint32_t mask) {
    mst_dim dims[MUSTER_MAX_DIMS];
    for (int32_t d = 0; d < type->ndim; d++) dims[d] = mask >> d & 1 ? MST_DIM_ONE : type->dims[d];
    return mst_node_is_error(dy) ? dy : mst_reshape_to(dy, type->ndim, dims);
}

muster_expr *mst_as_rows(muster_expr *x, uint32_t mask, mst_dim *rows) {
    mst_graph *graph = x->graph;
    mst_dim dims[2] = {MST_DIM_ONE, MST_DIM_ONE};
    for (int32_t d = 0; d < x->type.ndim; d++) {
        mst_dim *dim = &dims[mask >> d & 1];
        *dim = mst_dim_multiply(graph, *dim, x->type.dims[d]);
    }
    int64_t axes[MUSTER_MAX_DIMS];
    muster_expr *last = mst_axes_last(x, mask, axes);
    if (dims[0] == MST_DIM_NONE || dims[1] == MST_DIM_NONE || mst_node_is_error(last)) return graph->error;
    *rows = dims[0];
    return mst_reshape_to(last, 2, dims);
}
