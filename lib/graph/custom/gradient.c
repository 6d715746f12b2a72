/* The gradient of an operator of the program. */
#include "custom_private.h"

#include "operators/operators_private.h"

typedef struct custom_gradient {
    mst_gradients *gradients;
    muster_expr *node;
    muster_expr *y[MST_RESULTS], *dy[MST_RESULTS];
    muster_expr **dx;
} custom_gradient;

static muster_expr *result_of(muster_expr *node, int32_t r) {
    return r ? mst_apply(node->graph, MST_OPERATOR_result, &node, 1, (mst_graph_value[]){{.integer = r}}) : node;
}

/* dy of a result that the loss does not depend on is 0; of integers it is NULL. */
static bool results_collect(custom_gradient *g) {
    for (int32_t r = 0; r < g->node->op->results; r++) {
        g->y[r] = result_of(g->node, r);
        if (mst_node_is_error(g->y[r])) return false;
        if (!mst_dtype_is_float(g->y[r]->type.dtype)) continue;
        g->dy[r] = mst_gradient_of(g->gradients, g->y[r]);
        if (!g->dy[r]) g->dy[r] = mst_full(g->node->graph, &g->y[r]->type, 0);
        if (mst_node_is_error(g->dy[r])) return false;
    }
    return true;
}

/* Does the operator's gradient run already, further out? */
static bool runs_already(const mst_graph *graph, const mst_custom *custom) {
    for (const mst_custom_frame *at = graph->custom_frame; at; at = at->outer)
        if (at->gradient && at->custom == custom) return true;
    return false;
}

static muster_status part_check(const custom_gradient *g, int32_t i) {
    char expected[MST_NODE_TEXT], received[MST_NODE_TEXT];
    const muster_expr *x = g->node->inputs[i], *dx = g->dx[i];
    if (!dx || mst_node_is_error(dx)) return MUSTER_OK;
    if (dx->graph != x->graph)
        return mst_error(MUSTER_INVALID_ARGUMENT, "dx[%d]: expected an expression of graph \"%s\", received one of graph \"%s\"", (int)i,
                         x->graph->name, dx->graph->name);
    if (dx->type.dtype == x->type.dtype && mst_same_dims(&dx->type, &x->type)) return MUSTER_OK;
    return mst_error(MUSTER_SHAPE_MISMATCH, "dx[%d]: expected the dtype and shape of x[%d] %s, received %s", (int)i, (int)i,
                     mst_node_text(x, NULL, expected), mst_node_text(dx, NULL, received));
}

static muster_status callback_run(custom_gradient *g, mst_custom_saved *saved) {
    muster_expr *node = g->node;
    mst_graph *graph = node->graph;
    const mst_custom *custom = mst_custom_of(node->op);
    muster_operator_node view = {.custom = custom, .graph = graph, .values = mst_custom_values(graph, node->op, node->values)};
    g->dx = mst_arena_take(&graph->arena, (size_t)(node->input_count + 1) * sizeof *g->dx);
    if (!g->dx || !view.values) return mst_graph_keep(graph, mst_out_of_memory("muster_gradient", node->input_count));
    mst_custom_enter(graph, custom, true, saved);
    graph->latest = MUSTER_OK;
    muster_status status = custom->options.gradient(&view, node->inputs, g->y, g->dy, g->dx, custom->options.user);
    if (status == MUSTER_OK) status = graph->latest;
    for (int32_t i = 0; status == MUSTER_OK && i < node->input_count; i++) status = part_check(g, i);
    mst_custom_leave(graph, saved);
    return status == MUSTER_OK ? MUSTER_OK : mst_custom_failed(graph, custom, "gradient", saved, status);
}

void mst_custom_gradient(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    custom_gradient g = {.gradients = gradients, .node = node};
    mst_custom_saved saved;
    (void)dy;
    if (runs_already(node->graph, mst_custom_of(node->op))) {
        mst_gradient_refuse(gradients, node, "its gradient asks for the gradient of the operator itself");
        return;
    }
    if (!results_collect(&g) || callback_run(&g, &saved) != MUSTER_OK) return;
    for (int32_t i = 0; i < node->input_count; i++)
        if (g.dx[i]) mst_gradient_add(gradients, node, i, g.dx[i]);
}
