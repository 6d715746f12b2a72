/* One sweep that makes nodes again. */
#include "rewrite_private.h"

static const char where[] = "a graph";

muster_status mst_rewrite_begin(mst_rewrite *rewrite, mst_graph *graph) {
    *rewrite = (mst_rewrite){.graph = graph, .count = graph->node_count};
    rewrite->used = mst_alloc((size_t)rewrite->count);
    rewrite->replaced = mst_alloc((size_t)rewrite->count * sizeof *rewrite->replaced);
    if (rewrite->used && rewrite->replaced) return MUSTER_OK;
    return mst_out_of_memory(where, (int64_t)rewrite->count * (int64_t)sizeof *rewrite->replaced);
}

void mst_rewrite_end(mst_rewrite *rewrite) {
    mst_free(rewrite->used);
    mst_free(rewrite->replaced);
}

void mst_rewrite_use(mst_rewrite *rewrite, const muster_expr *root) { rewrite->used[root->id] = true; }

/* The node with its operands replaced, of the same types. */
static muster_expr *node_again(const mst_rewrite *rewrite, muster_expr *node) {
    mst_graph *graph = rewrite->graph;
    bool same = true;
    for (int32_t i = 0; i < node->input_count; i++) same &= rewrite->replaced[node->inputs[i]->id] == node->inputs[i];
    if (same) return node;
    muster_expr **inputs = mst_arena_take(&graph->arena, (size_t)(node->input_count + 1) * sizeof *inputs);
    if (!inputs) {
        (void)mst_graph_fail(graph, MUSTER_OUT_OF_MEMORY, "%s: out of memory", where);
        return graph->error;
    }
    for (int32_t i = 0; i < node->input_count; i++) inputs[i] = rewrite->replaced[node->inputs[i]->id];
    return mst_node_again(node, inputs, node->distribution);
}

static muster_expr *rewrite_node(mst_rewrite *rewrite, muster_expr *node) {
    enum { MOST = 8 };
    mst_graph *graph = rewrite->graph;
    graph->origin = node->origin;
    graph->origin.next = NULL;
    muster_expr *made = node_again(rewrite, node);
    for (int32_t i = 0; rewrite->rule && i < MOST && !mst_node_is_error(made); i++) {
        muster_expr *next = rewrite->rule(made, rewrite->context);
        if (!next) break;
        made = next;
    }
    if (rewrite->rule && made != node && !mst_node_is_error(made)) mst_node_inherit(made, node, true);
    return made;
}

muster_status mst_rewrite_sweep(mst_rewrite *rewrite) {
    mst_graph *graph = rewrite->graph;
    const mst_operator *op = graph->op;
    muster_status status = MUSTER_OK;
    for (int32_t id = rewrite->count - 1; id >= 0; id--)
        for (int32_t i = 0; rewrite->used[id] && i < graph->nodes[id]->input_count; i++)
            rewrite->used[graph->nodes[id]->inputs[i]->id] = true;
    for (int32_t id = 0; id < rewrite->count; id++) {
        if (!rewrite->used[id] || rewrite->replaced[id]) continue;
        muster_expr *made = rewrite_node(rewrite, graph->nodes[id]);
        if (mst_node_is_error(made) && !mst_node_is_error(graph->nodes[id])) status = graph->latest;
        if (status != MUSTER_OK) break;
        rewrite->replaced[id] = made;
    }
    graph->origin = (mst_origin){0};
    graph->op = op;
    return status;
}
