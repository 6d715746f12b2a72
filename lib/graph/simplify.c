/* Simplifying the expressions of a graph before it becomes a function. */
#include "rewrite_private.h"
#include "rules/rules_private.h"

/* Each output and each update gets the simpler node that computes its value. */
static muster_status simplify_ports(mst_graph *graph) {
    mst_rewrite rewrite;
    mst_ports *const both[] = {&graph->outputs, &graph->updates};
    muster_status status = mst_rewrite_begin(&rewrite, graph);
    rewrite.rule = mst_simplify_node;
    for (int32_t b = 0; status == MUSTER_OK && b < 2; b++)
        for (int32_t i = 0; i < both[b]->count; i++) mst_rewrite_use(&rewrite, both[b]->items[i].written);
    for (int32_t e = 0; status == MUSTER_OK && graph->rules && e < graph->rules->entry_count; e++)
        mst_rewrite_use(&rewrite, graph->rules->entries[e].clipped); /* which is made from `gradient` */
    if (status == MUSTER_OK) status = mst_rewrite_sweep(&rewrite);
    for (int32_t b = 0; status == MUSTER_OK && b < 2; b++)
        for (int32_t i = 0; i < both[b]->count; i++) both[b]->items[i].node = rewrite.replaced[both[b]->items[i].written->id];
    for (int32_t e = 0; status == MUSTER_OK && graph->rules && e < graph->rules->entry_count; e++) {
        graph->rules->entries[e].simplified = rewrite.replaced[graph->rules->entries[e].clipped->id];
        graph->rules->entries[e].summed = rewrite.replaced[graph->rules->entries[e].gradient->id];
    }
    mst_rewrite_end(&rewrite);
    return status;
}

muster_status mst_graph_simplify(mst_graph *graph, bool off) {
    for (int32_t i = 0; i < graph->outputs.count; i++) graph->outputs.items[i].node = graph->outputs.items[i].written;
    for (int32_t i = 0; i < graph->updates.count; i++) {
        graph->updates.items[i].node = graph->updates.items[i].written;
        graph->updates.items[i].pass = MST_PORT_ALONE;
    }
    graph->scalars.count = 0;
    /* what a compilation that failed has left */
    for (int32_t i = 0; i < graph->inputs.count; i++) graph->inputs.items[i].node->distribution = (mst_distribution){.kind = MST_LOCAL};
    for (int32_t i = 0; i < graph->variables.count; i++)
        graph->variables.items[i].node->distribution = (mst_distribution){.kind = MST_LOCAL};
    for (int32_t e = 0; graph->rules && e < graph->rules->entry_count; e++) {
        graph->rules->entries[e].simplified = graph->rules->entries[e].clipped;
        graph->rules->entries[e].summed = graph->rules->entries[e].gradient;
    }
    if (off) return MUSTER_OK;
    graph->simplifying = true;
    const muster_status status = simplify_ports(graph);
    graph->simplifying = false;
    graph->status = MUSTER_OK; /* memory that runs out here spoils no expression of the program */
    return status;
}
