/* Wishes: in which distribution a value will be needed. The sweep over a graph sees the operands of
 * a node, not what becomes of its result. The gradient of a split parameter must arrive in the
 * parts of the parameter, and one that a pass over all updates sums (rules/pass_private.h) as a
 * partial sum; from there one sweep backwards says which activations and gradients before it are
 * best in parts, so that a sum of partial values gives each worker its part at once, rather than
 * rows, which are exchanged again. */
#include "../rules/rules_private.h"
#include "distribution_private.h"
#include "variable_impl.h"

static bool is_leaf(const muster_expr *node) { return mst_node_is(node, MST_OPERATOR_input) || mst_node_is(node, MST_OPERATOR_parameter); }

static bool has_rows(const muster_expr *node) {
    for (int32_t a = 0; a < node->type.ndim; a++)
        if (mst_axis_has_rows(node->graph, &node->type, a)) return true;
    return false;
}

/* The states of rules follow their parameters. Those of whole parameters are split to save memory
 * only, which must not change how layers are computed. */
static void updates_wish(const mst_graph *graph, mst_distribution *wishes) {
    for (int32_t i = 0; i < graph->updates.count; i++) {
        const int32_t axis = muster_variable_split_axis(graph->updates.items[i].variable);
        if (axis < 0 && graph->updates.items[i].pass == MST_PORT_GRADIENT)
            wishes[graph->updates.items[i].node->id] = MST_DISTRIBUTED_PARTIAL(MUSTER_SUM);
        if (axis >= 0 && graph->updates.items[i].node) wishes[graph->updates.items[i].node->id] = MST_DISTRIBUTED_CUT(axis);
    }
    for (int32_t e = 0; graph->rules && e < graph->rules->entry_count; e++) {
        const mst_update_rule_entry *entry = &graph->rules->entries[e];
        for (int32_t s = 0; s < entry->state_count; s++) {
            const muster_expr *node = graph->updates.items[entry->states[s].update].node;
            if (node) wishes[node->id] = (mst_distribution){.kind = MST_LOCAL};
        }
    }
}

void mst_graph_wish(const mst_graph *graph, const bool *used, int32_t count, mst_distribution *wishes) {
    mst_distribution operands[MST_GRAPH_OPERANDS];
    updates_wish(graph, wishes);
    for (int32_t id = count - 1; id >= 0; id--) {
        const muster_expr *node = graph->nodes[id];
        if (!used[id] || wishes[id].kind == MST_LOCAL || node->input_count > MST_GRAPH_OPERANDS) continue;
        if (!mst_has_result_in(node, wishes[id], 0, operands) && !mst_is_rounded_before(node, wishes[id], wishes[id], operands)) continue;
        for (int32_t i = 0; i < node->input_count; i++) {
            const muster_expr *operand = node->inputs[i];
            /* Other parts of a parameter than its own would be exchanged, and rows are parts
             * rather than partial sums. */
            const bool partial = wishes[id].kind == MST_PARTIAL;
            const bool kept = partial ? !has_rows(operand) : !node->op->operations || has_rows(operand);
            if (operands[i].kind == wishes[id].kind && kept && !is_leaf(operand) && wishes[operand->id].kind == MST_LOCAL)
                wishes[operand->id] = operands[i];
        }
    }
}
