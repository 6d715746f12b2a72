/* Partial sums travel in the dtype in which they accumulate, and are rounded when they are
 * combined: sums, averages and products along axes in f64, other sums of f16 and bf16 in f32. But a
 * gradient that an update sums travels in the dtype of its parameter. */
#include "distribution_private.h"

/* The node's values in another dtype, distributed as they are. */
static muster_expr *cast_make(muster_expr *node, muster_dtype dtype) {
    mst_graph_value value = {.integer = dtype};
    mst_draft draft = {.graph = node->graph,
                       .op = mst_operators[MST_OPERATOR_cast],
                       .inputs = &node,
                       .count = 1,
                       .values = &value,
                       .distribution = node->distribution};
    draft.types[0] = node->type;
    draft.types[0].dtype = dtype;
    node->graph->origin = node->origin;
    node->graph->origin.next = NULL;
    return mst_node_make(&draft);
}

static bool is_half(muster_dtype dtype) { return dtype == MUSTER_F16 || dtype == MUSTER_BF16; }

/* A sum, an average or a product along axes, which accumulates in f64 whatever it reads. */
static bool is_total(const muster_expr *node) {
    const bool total = mst_node_is(node, MST_OPERATOR_sum) || mst_node_is(node, MST_OPERATOR_mean) || mst_node_is(node, MST_OPERATOR_prod);
    return total && mst_dtype_is_float(node->inputs[0]->type.dtype);
}

/* Each element is that of one worker, so that nothing is rounded. */
static bool is_taken(const muster_expr *node) {
    return mst_node_is(node, MST_OPERATOR_take) || mst_node_is(node, MST_OPERATOR_take_within);
}

bool mst_travels_wide(const mst_distributing *d, const muster_expr *node, mst_distribution result) {
    const bool total = is_total(node);
    if (result.kind != MST_PARTIAL || node->op->results > 1 || !mst_node_is_known(node) || is_taken(node)) return false;
    if (result.op != MUSTER_SUM && !(total && result.op == MUSTER_PROD)) return false;
    if (!is_half(node->type.dtype) && !(total && node->type.dtype == MUSTER_F32)) return false;
    return d->wishes[node->id].kind != MST_PARTIAL;
}

/* An operation of the node's place. values: those of its attributes. */
static muster_expr *operation_make(const muster_expr *node, int32_t op, muster_expr **inputs, int32_t count, mst_graph_value *values,
                                   muster_dtype dtype, mst_distribution result) {
    mst_draft draft = {
        .graph = node->graph, .op = mst_operators[op], .inputs = inputs, .count = count, .values = values, .distribution = result};
    draft.types[0] = node->type;
    draft.types[0].dtype = dtype;
    node->graph->origin = node->origin;
    node->graph->origin.next = NULL;
    return mst_node_make(&draft);
}

/* The node in a wider dtype: a reduction reads elements as they are, other operations take halves
 * as f32. Of an average it is the sum, so that the average is rounded once. */
static muster_expr *node_widened(const muster_expr *node, muster_expr **inputs, mst_distribution result) {
    mst_graph_value values[MST_GRAPH_ATTRIBUTES];
    const bool total = is_total(node);
    const muster_dtype wide = total ? MUSTER_F64 : MUSTER_F32;
    for (int32_t a = 0; a < mst_operator_attribute_count(node->op); a++) {
        values[a] = node->values[a];
        if (node->op->attributes[a].kind == MST_VALUE_DTYPE) values[a].integer = wide;
    }
    for (int32_t i = 0; i < node->input_count && !total; i++) {
        if (is_half(inputs[i]->type.dtype)) inputs[i] = cast_make(inputs[i], MUSTER_F32);
        if (mst_node_is_error(inputs[i])) return inputs[i];
    }
    return operation_make(node, mst_node_is(node, MST_OPERATOR_mean) ? MST_OPERATOR_sum : node->op->id, inputs, node->input_count, values,
                          wide, result);
}

/* The sum divided by the number of elements that an average has. */
static muster_expr *sum_divided(const muster_expr *node, muster_expr *sum) {
    mst_graph_value value = MST_NO_VALUE;
    muster_expr *x = node->inputs[0], *count = mst_extent(x, mst_axes_mask(&node->values[0], x->type.ndim), MUSTER_F64);
    if (!mst_node_is_error(count)) count = mst_node_with(count, count->inputs, MST_DISTRIBUTED_SAME);
    if (mst_node_is_error(count)) return count;
    return operation_make(node, MST_OPERATOR_divide, (muster_expr *[]){sum, count}, 2, &value, MUSTER_F64, MST_DISTRIBUTED_SAME);
}

muster_expr *mst_node_combined(const muster_expr *node, muster_expr **inputs, mst_distribution result) {
    muster_expr *made = node_widened(node, inputs, result);
    if (!mst_node_is_error(made)) made = mst_exchange_make(made, MST_DISTRIBUTED_SAME);
    if (!mst_node_is_error(made) && mst_node_is(node, MST_OPERATOR_mean)) made = sum_divided(node, made);
    if (!mst_node_is_error(made)) made = cast_make(made, node->type.dtype);
    if (!mst_node_is_error(made)) mst_node_inherit(made, node, true);
    return made;
}

bool mst_is_rounded_before(const muster_expr *node, mst_distribution result, mst_distribution wish, mst_distribution *operands) {
    if (!mst_node_is(node, MST_OPERATOR_cast) || wish.kind != MST_PARTIAL || !mst_same_distribution(result, wish)) return false;
    operands[0] = result;
    return is_half(node->type.dtype) && node->inputs[0]->type.dtype == MUSTER_F32;
}
