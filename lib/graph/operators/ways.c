/* The ways in which operators of the usual kinds compute distributed results. */
#include "ways_private.h"

bool mst_axis_has_rows(const mst_graph *graph, const mst_type *type, int32_t axis) {
    return graph->dims[type->dims[axis]].powers[MST_SIZE_ROWS] != 0;
}

static void ways_all_same(const muster_expr *node, mst_distribution *operands) {
    for (int32_t i = 0; i < node->input_count; i++) operands[i] = MST_DISTRIBUTED_SAME;
}

/* The axis of an operand that broadcasts to axis `axis` of the result; -1: it has none, or one of
 * size 1. */
static int32_t ways_aligned(const muster_expr *node, int32_t i, int32_t axis) {
    const mst_type *operand = &node->inputs[i]->type;
    const int32_t at = axis - (node->type.ndim - operand->ndim);
    return at >= 0 && operand->dims[at] == node->type.dims[axis] ? at : -1;
}

bool mst_distribute_elementwise(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (way || result.kind != MST_CUT) return false;
    for (int32_t i = 0; i < node->input_count; i++) {
        const int32_t axis = ways_aligned(node, i, result.axis);
        operands[i] = axis < 0 ? MST_DISTRIBUTED_SAME : MST_DISTRIBUTED_CUT(axis);
    }
    return true;
}

bool mst_distribute_sum(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (result.kind != MST_PARTIAL) return mst_distribute_elementwise(node, result, way, operands);
    if (way || result.op != MUSTER_SUM) return false;
    for (int32_t i = 0; i < node->input_count; i++) operands[i] = result;
    return true;
}

bool mst_distribute_scaled(const muster_expr *node, mst_distribution result, int32_t linear, mst_distribution *operands) {
    if (result.kind != MST_PARTIAL || result.op != MUSTER_SUM) return false;
    ways_all_same(node, operands);
    operands[linear] = result;
    return true;
}

bool mst_distribute_product(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (result.kind != MST_PARTIAL) return mst_distribute_elementwise(node, result, way, operands);
    return way < 2 && mst_distribute_scaled(node, result, way, operands);
}

bool mst_distribute_leaf(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    ways_all_same(node, operands);
    return way == 0 && result.kind == MST_CUT;
}

bool mst_distribute_moved(const muster_expr *node, mst_distribution result, const int64_t *axes, mst_distribution *operands) {
    ways_all_same(node, operands);
    operands[0] = result;
    if (result.kind == MST_CUT) operands[0].axis = (int8_t)axes[result.axis];
    return true;
}

bool mst_distribute_alike(const muster_expr *node, mst_distribution result, uint32_t mixed, mst_distribution *operands) {
    for (int32_t i = 0; i < node->input_count; i++) {
        if (result.kind == MST_CUT && (mixed >> result.axis & 1 || node->inputs[i]->type.dims[result.axis] != node->type.dims[result.axis]))
            return false;
        operands[i] = result;
    }
    return true;
}

bool mst_distribute_along_last(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    const uint32_t last = 1u << (node->inputs[0]->type.ndim - 1);
    return way == 0 && result.kind == MST_CUT && mst_distribute_alike(node, result, last, operands);
}

mst_distribution mst_distribution_of_result(const muster_expr *node, mst_distribution first) {
    const mst_operator *op = node->inputs[0]->op;
    if (first.kind == MST_SAME || !op->distribute_result) return first;
    return op->distribute_result(first, (int32_t)node->values[0].integer);
}

int64_t mst_part_begin(const mst_step_run *run, int32_t axis) {
    const muster_expr *node = run->node;
    if (!run->sharing || node->distribution.kind != MST_CUT || node->distribution.axis != axis) return 0;
    return mst_cut_edge(node->graph, node->type.dims[axis], run->sizes, run->sharing, run->sharing->rank);
}
