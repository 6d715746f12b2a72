/* Texts about nodes, for messages. */
#include "graph_private.h"

#include <stdio.h>
#include <string.h>

const char *mst_type_text(const mst_graph *graph, const mst_type *type, char text[MST_NODE_TEXT]) {
    size_t length = (size_t)snprintf(text, MST_NODE_TEXT, "(");
    for (int32_t d = 0; d < type->ndim && length < 100; d++) {
        if (d) length += (size_t)snprintf(text + length, MST_NODE_TEXT - length, ", ");
        length += (size_t)mst_dim_print(graph, type->dims[d], text + length, 40);
    }
    snprintf(text + length, MST_NODE_TEXT - length, "%s%s", type->ndim == 1 ? ",)" : ")", "");
    return text;
}

const char *mst_node_text(const muster_expr *node, const char *operand, char text[MST_NODE_TEXT]) {
    char shape[MST_NODE_TEXT];
    mst_type_text(node->graph, &node->type, shape);
    snprintf(text, MST_NODE_TEXT, "%s%s%s%.40s%s%.80s %s", operand ? operand : "", operand ? " " : "", node->name ? "\"" : "",
             node->name ? node->name : "", node->name ? "\" " : "", shape,
             node->type.dtype == MUSTER_DTYPE_NONE ? "number" : muster_dtype_name(node->type.dtype));
    return text;
}

void mst_place_text(const char *place, const char *function, char text[MST_PLACE_TEXT]) {
    snprintf(text, MST_PLACE_TEXT, "%.150s%s%.40s", place ? place : "", place ? ": " : "", function);
}

const char *mst_origin_text(const mst_origin *origin, char text[MST_NODE_TEXT]) {
    text[0] = 0;
    if (!origin->forward) {
        if (origin->where) snprintf(text, MST_NODE_TEXT, "%.150s", origin->where);
        return text;
    }
    const muster_expr *forward = origin->forward;
    while (forward->origin.forward) forward = forward->origin.forward; /* the gradient of a gradient */
    const char *at = forward->origin.where;
    snprintf(text, MST_NODE_TEXT, "gradient of %s%.60s%s%s%.70s%s", forward->name ? "\"" : "",
             forward->name ? forward->name : forward->op->name, forward->name ? "\"" : "", at ? " (" : "", at ? at : "", at ? ")" : "");
    return text;
}

const char *muster_expr_shape(muster_expr *expression) {
    char text[MST_NODE_TEXT];
    if (!expression) return NULL;
    if (!expression->shape_text)
        expression->shape_text = mst_node_is_error(expression)
                                     ? "error"
                                     : mst_arena_text(&expression->graph->arena, mst_type_text(expression->graph, &expression->type, text));
    return expression->shape_text;
}
