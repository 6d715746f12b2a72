/* Questions about expressions, and expressions made from others as a whole. */
#include "rewrite_private.h"

#include <stdio.h>
#include <string.h>

muster_dtype muster_expr_dtype(const muster_expr *expression) { return expression ? mst_output_dtype(expression) : MUSTER_DTYPE_NONE; }

muster_graph *muster_expr_graph(const muster_expr *expression) { return expression ? expression->graph->handle : NULL; }

int32_t muster_expr_ndim(const muster_expr *expression) {
    return !expression || mst_node_is_error(expression) ? -1 : expression->type.ndim;
}

int64_t muster_expr_size(const muster_expr *expression, int32_t axis) {
    const int32_t ndim = muster_expr_ndim(expression);
    if (axis < 0) axis += ndim;
    if (axis < 0 || axis >= ndim) return MUSTER_INFER;
    return mst_dim_entry(expression->graph, expression->type.dims[axis]);
}

muster_expr *muster_expr_name(muster_expr *expression, const char *name) {
    if (!expression || mst_node_is_error(expression) || expression->name || !name || expression->graph->frozen) return expression;
    mst_graph *graph = expression->graph;
    const char *copy = mst_arena_text(&graph->arena, name);
    const muster_status status = copy ? mst_names_add(&graph->names, copy, (int32_t)strlen(copy), expression)
                                      : mst_out_of_memory("muster_expr_name", (int64_t)strlen(name));
    if (status == MUSTER_OK) {
        expression->name = copy;
        return expression;
    }
    (void)mst_graph_keep(graph, status);
    return graph->error;
}

muster_expr *muster_expr_result(muster_expr *expression, int32_t index) {
    static const char where[] = "muster_expr_result";
    if (!expression) {
        (void)mst_error_null(where, "expression", "an expression");
        return NULL;
    }
    mst_graph *graph = expression->graph;
    if (mst_node_is_error(expression) || index == 0) return expression;
    const muster_status status = mst_graph_check_open(graph, where);
    const int32_t results = expression->op->results > 1 ? expression->op->results - expression->op->hidden_results : 1;
    if (status != MUSTER_OK) return graph->error;
    if (index < 0 || index >= results) {
        (void)mst_graph_fail(graph, MUSTER_OUT_OF_RANGE, "%s: index: expected 0 to %d, the results of %s, received %d", where,
                             (int)results - 1, expression->op->name, (int)index);
        return graph->error;
    }
    return mst_apply(graph, MST_OPERATOR_result, &expression, 1, (mst_graph_value[]){{.integer = index}});
}

/* ---- substitution ---- */

static const char where_substitute[] = "muster_expr_substitute";

static muster_status substitute_check(muster_expr *expression, muster_expr *const *from, muster_expr *const *to, int32_t count) {
    mst_graph *graph = expression->graph;
    char what[32], expected[MST_NODE_TEXT], received[MST_NODE_TEXT];
    MUSTER_TRY(mst_graph_check_open(graph, where_substitute));
    if (count < 0) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: count: expected 0 or more, received %d", where_substitute, (int)count);
    if (count && (!from || !to)) return mst_error_null(where_substitute, from ? "to" : "from", "expressions");
    for (int32_t i = 0; i < count; i++) {
        snprintf(what, sizeof what, "from[%d]", (int)i);
        MUSTER_TRY(mst_expr_check(graph, from[i], where_substitute, what));
        snprintf(what, sizeof what, "to[%d]", (int)i);
        MUSTER_TRY(mst_expr_check(graph, to[i], where_substitute, what));
        if (mst_node_is_error(from[i]) || mst_node_is_error(to[i])) return graph->status;
        if (from[i]->type.dtype != to[i]->type.dtype || !mst_same_dims(&from[i]->type, &to[i]->type))
            return mst_error(from[i]->type.dtype != to[i]->type.dtype ? MUSTER_DTYPE_MISMATCH : MUSTER_SHAPE_MISMATCH,
                             "%s: %s: expected the shape and dtype of %s, received %s", where_substitute, what,
                             mst_node_text(from[i], NULL, expected), mst_node_text(to[i], NULL, received));
    }
    return mst_node_is_error(expression) ? graph->status : MUSTER_OK;
}

static muster_expr *substitute(muster_expr *expression, muster_expr *const *from, muster_expr *const *to, int32_t count) {
    mst_graph *graph = expression->graph;
    mst_rewrite rewrite;
    muster_status status = mst_rewrite_begin(&rewrite, graph);
    if (status == MUSTER_OK) {
        mst_rewrite_use(&rewrite, expression);
        for (int32_t i = 0; i < count; i++) rewrite.replaced[from[i]->id] = to[i];
        status = mst_rewrite_sweep(&rewrite);
    }
    muster_expr *result = status == MUSTER_OK ? rewrite.replaced[expression->id] : graph->error;
    if (status != MUSTER_OK) (void)mst_graph_keep(graph, status);
    mst_rewrite_end(&rewrite);
    return result;
}

muster_expr *muster_expr_substitute(muster_expr *expression, muster_expr *const *from, muster_expr *const *to, int32_t count) {
    if (!expression) {
        (void)mst_error_null(where_substitute, "expression", "an expression");
        return NULL;
    }
    const muster_status status = substitute_check(expression, from, to, count);
    if (status == MUSTER_OK) return substitute(expression, from, to, count);
    (void)mst_graph_keep(expression->graph, status);
    return expression->graph->error;
}
