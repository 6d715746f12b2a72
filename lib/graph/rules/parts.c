/* The states of update rules on several devices: each device keeps the part of a state that it
 * updates, and updates the same part of the parameter. */
#include "rules_private.h"
#include "variable_impl.h"

/* An axis that gives every device a part, the first if it can. -1: the state is one number. */
static int32_t axis_of(const mst_graph *graph, const mst_type *type) {
    int32_t best = -1;
    int64_t size = 1;
    for (int32_t d = 0; d < type->ndim; d++) {
        const int64_t here = mst_dim_constant(graph, type->dims[d]);
        if (size >= graph->runtime->total || here <= size) continue;
        best = d;
        size = here;
    }
    return best;
}

muster_status mst_update_rules_cut(mst_graph *graph) {
    for (int32_t e = 0; graph->rules && e < graph->rules->entry_count; e++) {
        const mst_update_rule_entry *entry = &graph->rules->entries[e];
        if (graph->updates.items[entry->update].pass != MST_PORT_ALONE) continue; /* each device updates a piece of all parameters */
        for (int32_t s = 0; s < entry->state_count; s++) {
            const mst_update_rule_state *state = &entry->states[s];
            const int32_t axis = axis_of(graph, &state->node->type);
            if (axis >= 0 && muster_variable_split_axis(state->variable) < 0)
                MUSTER_TRY(mst_variable_lay_whole("muster_graph_compile", state->variable, axis));
        }
    }
    return MUSTER_OK;
}
