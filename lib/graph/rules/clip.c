/* Clipping gradients by their global norm. */
#include "rules_private.h"

#include <math.h>
#include <stdio.h>

static const char where_clip[] = "muster_graph_clip";

muster_expr *mst_update_rule_cast(muster_expr *node, muster_dtype dtype) {
    if (node->type.dtype == dtype || mst_node_is_error(node)) return node;
    return mst_apply(node->graph, MST_OPERATOR_cast, &node, 1, (mst_graph_value[]){{.integer = dtype}});
}

void mst_update_rule_clip(mst_graph *graph, muster_expr *const *gradients, int32_t count, double norm, muster_expr **clipped) {
    muster_expr *total = mst_number(graph, MUSTER_F64, 0);
    for (int32_t i = 0; i < count; i++) {
        muster_expr *g = mst_update_rule_cast(gradients[i], mst_dtype_compute(gradients[i]->type.dtype));
        muster_expr *squares = MST_APPLY(graph, sum_squares, g);
        total = i ? MST_APPLY(graph, add, total, squares) : squares;
    }
    muster_expr *one = mst_number(graph, MUSTER_F64, 1), *limit = mst_number(graph, MUSTER_F64, norm);
    muster_expr *factor = MST_APPLY(graph, minimum, MST_APPLY(graph, divide, limit, MST_APPLY(graph, sqrt, total)), one);
    for (int32_t i = 0; i < count; i++) {
        const muster_dtype dtype = gradients[i]->type.dtype, real = mst_dtype_compute(dtype);
        muster_expr *product = MST_APPLY(graph, multiply, mst_update_rule_cast(gradients[i], real), mst_update_rule_cast(factor, real));
        clipped[i] = mst_update_rule_cast(product, dtype);
    }
}

static muster_status clip_check(mst_graph *graph, muster_expr *const *gradients, int32_t count, double norm) {
    char what[32], text[MST_NODE_TEXT];
    if (!isfinite(norm) || norm <= 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: norm: expected a finite number above 0, received %g", where_clip, norm);
    for (int32_t i = 0; i < count; i++) {
        snprintf(what, sizeof what, "gradients[%d]", (int)i);
        MUSTER_TRY(mst_expr_check(graph, gradients[i], where_clip, what));
        if (mst_node_is_error(gradients[i])) return graph->status;
        if (!mst_dtype_is_float(gradients[i]->type.dtype))
            return mst_error(MUSTER_DTYPE_MISMATCH, "%s: %s: expected one of a float dtype, received %s", where_clip, what,
                             mst_node_text(gradients[i], NULL, text));
    }
    return MUSTER_OK;
}

muster_status muster_graph_clip(muster_graph *handle, muster_expr *const *gradients, int32_t count, double norm, muster_expr **clipped) {
    MUSTER_TRY(mst_graph_check(handle, where_clip));
    mst_graph *graph = handle->graph;
    if (count < 0)
        return mst_graph_fail(graph, MUSTER_INVALID_ARGUMENT, "%s: count: expected 0 or more, received %d", where_clip, (int)count);
    if (count == 0) return MUSTER_OK;
    if (!gradients || !clipped)
        return mst_graph_keep(graph, mst_error_null(where_clip, gradients ? "clipped" : "gradients", "expressions"));
    muster_status status = clip_check(graph, gradients, count, norm);
    if (status == MUSTER_OK) {
        graph->origin = (mst_origin){0};
        mst_update_rule_clip(graph, gradients, count, norm, clipped);
        for (int32_t i = 0; i < count; i++)
            if (mst_node_is_error(clipped[i])) status = graph->status;
        return status;
    }
    for (int32_t i = 0; i < count; i++) clipped[i] = graph->error;
    return mst_graph_keep(graph, status);
}
