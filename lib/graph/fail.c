/* Errors of a graph: the first one stays. */
#include "graph_private.h"
#include "locale_impl.h"
#include "runtime_impl.h"

#include <stdio.h>
#include <string.h>

muster_status mst_graph_keep(mst_graph *graph, muster_status status) {
    graph->latest = status;
    if (graph->status != MUSTER_OK) return status;
    graph->status = status;
    mst_error_save(graph->message);
    return status;
}

muster_status mst_graph_fail(mst_graph *graph, muster_status status, const char *format, ...) {
    char text[MST_MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    mst_vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return mst_graph_keep(graph, mst_error(status, "%s", text));
}

/* Such as: b "w1" */
static const char *operand_text(const mst_draft *draft, int32_t operand, char text[MST_NODE_TEXT]) {
    bool more;
    const int32_t names = mst_operator_operand_count(draft->op, &more);
    const char *name = operand < names ? draft->op->operands[operand] : draft->op->operands[names - 1];
    const char *title = draft->inputs[operand]->name;
    if (operand >= names || (more && operand == names - 1))
        snprintf(text, MST_NODE_TEXT, "%s[%d]%s%.60s%s", name, (int)(operand - names + 1), title ? " \"" : "", title ? title : "",
                 title ? "\"" : "");
    else
        snprintf(text, MST_NODE_TEXT, "%s%s%.60s%s", name, title ? " \"" : "", title ? title : "", title ? "\"" : "");
    return text;
}

muster_status mst_draft_refuse(mst_draft *draft, muster_status status, int32_t operand, const char *format, ...) {
    char text[MST_MESSAGE_SIZE], place[MST_NODE_TEXT], name[MST_NODE_TEXT];
    va_list arguments;
    va_start(arguments, format);
    mst_vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)mst_origin_text(&draft->graph->origin, place);
    return mst_graph_fail(draft->graph, status, "%s%smuster_expr_%s: %s%s%s", place, *place ? ": " : "", draft->op->name,
                          operand >= 0 ? operand_text(draft, operand, name) : "", operand >= 0 ? ": " : "", text);
}

muster_status mst_graph_destroyed(const char *where) {
    return mst_error(MUSTER_BAD_STATE, "%s: graph: expected one that exists, received one that has been destroyed", where);
}

muster_status mst_graph_check_runtime(const mst_graph *graph, const char *where) {
    if (!mst_pool_life_ended(graph->life)) return MUSTER_OK;
    return mst_error(MUSTER_BAD_STATE, "%s: graph: expected one of an open runtime, received \"%.100s\", whose runtime has been closed",
                     where, graph->name);
}

muster_status mst_graph_check_open(mst_graph *graph, const char *where) {
    const muster_status closed = mst_graph_check_runtime(graph, where);
    if (closed) return mst_graph_keep(graph, closed);
    if (!graph->frozen) return MUSTER_OK;
    return mst_graph_fail(graph, MUSTER_BAD_STATE, "%s: graph \"%s\" has been compiled, and takes no more", where, graph->name);
}

muster_status mst_graph_check(const muster_graph *handle, const char *where) {
    if (!handle) return mst_error_null(where, "graph", "a graph");
    if (!handle->graph) return mst_graph_destroyed(where);
    return mst_graph_check_open(handle->graph, where);
}

muster_status mst_expr_check(const mst_graph *graph, const muster_expr *node, const char *where, const char *what) {
    if (!node) return mst_error_null(where, what, "an expression");
    if (node->graph == graph) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected an expression of graph \"%s\", received one of graph \"%s\"", where, what,
                     graph->name, node->graph->name);
}
