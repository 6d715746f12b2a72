/* Operators that are a text: an application becomes the nodes of its expression. */
#include "custom_private.h"

#include "text_private.h"

static muster_expr *text_apply(mst_draft *draft, const mst_custom *custom, const char *place) {
    const char *names[MST_GRAPH_OPERANDS + MST_GRAPH_ATTRIBUTES];
    muster_expr *values[MST_GRAPH_OPERANDS + MST_GRAPH_ATTRIBUTES];
    char where[MST_NODE_TEXT];
    int32_t count = 0;
    for (; count < draft->count; count++) {
        names[count] = custom->row.operands[count];
        values[count] = draft->inputs[count];
    }
    for (int32_t a = 0; custom->row.attributes[a].name; a++, count++) {
        const double number =
            custom->row.attributes[a].kind == MST_VALUE_NUMBER ? draft->values[a].number : (double)draft->values[a].integer;
        names[count] = custom->row.attributes[a].name;
        values[count] = mst_apply(draft->graph, MST_OPERATOR_number, NULL, 0, (mst_graph_value[]){{.number = number}});
        if (mst_node_is_error(values[count])) return values[count];
    }
    snprintf(where, sizeof where, "%.60s%smuster_expr_%.60s", place, *place ? ": " : "", custom->row.name);
    return mst_text_of_operator(draft->graph, where, custom->options.text, names, values, count);
}

static bool runs_already(const mst_graph *graph, const mst_custom *custom) {
    for (const mst_custom_frame *at = graph->custom_frame; at; at = at->outer)
        if (at->custom == custom) return true;
    return false;
}

static bool is_half(muster_dtype dtype) { return dtype == MUSTER_F16 || dtype == MUSTER_BF16; }

muster_expr *mst_custom_expand(mst_draft *draft) {
    const mst_custom *custom = mst_custom_of(draft->op);
    mst_graph *graph = draft->graph;
    char place[MST_NODE_TEXT];
    mst_custom_saved saved;
    if (runs_already(graph, custom)) {
        (void)mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "text: expected other operators, received the operator itself");
        return graph->error;
    }
    for (int32_t i = 0; !custom->options.halves && i < draft->count; i++)
        if (is_half(draft->inputs[i]->type.dtype)) {
            (void)mst_draft_refuse(draft, MUSTER_UNSUPPORTED, i,
                                   "expected another dtype, since the operator does not say that it takes halves, received %s",
                                   muster_dtype_name(draft->inputs[i]->type.dtype));
            return graph->error;
        }
    (void)mst_origin_text(&graph->origin, place);
    mst_custom_enter(graph, custom, false, &saved);
    muster_expr *made = text_apply(draft, custom, place);
    mst_custom_leave(graph, &saved);
    return made;
}

/* Tries the text on operands of one dtype. */
static muster_status text_try(mst_custom *custom, muster_runtime *runtime, muster_dtype dtype) {
    muster_expr *x[MST_GRAPH_OPERANDS];
    mst_graph_value values[MST_GRAPH_ATTRIBUTES] = {MST_NO_VALUE};
    muster_graph *handle;
    bool more;
    const int32_t count = mst_operator_operand_count(&custom->row, &more);
    MUSTER_TRY(muster_graph_create(runtime, custom->row.name, &handle));
    for (int32_t i = 0; i < count; i++)
        x[i] = (muster_graph_input)(handle, custom->row.operands[i], dtype, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    for (int32_t a = 0; custom->row.attributes[a].name; a++)
        values[a] = (mst_graph_value){.number = custom->row.attributes[a].required ? 1 : custom->row.attributes[a].number,
                                      .integer = custom->row.attributes[a].required ? 1 : (int64_t)custom->row.attributes[a].number};
    const muster_expr *made = mst_apply_operator(handle->graph, &custom->row, x, count, values);
    muster_status status = muster_graph_status(handle);
    if (status == MUSTER_OK && made->type.dtype == MUSTER_DTYPE_NONE)
        status = mst_error(MUSTER_INVALID_ARGUMENT, "muster_expr_%s: expected an expression of the operands, received a number",
                           custom->row.name);
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    (void)muster_graph_destroy(handle);
    return status == MUSTER_OK ? MUSTER_OK : mst_error_restore(status, message);
}

muster_status mst_custom_text_check(mst_custom *custom, muster_runtime *runtime) {
    static const muster_dtype dtypes[] = {MUSTER_I64, MUSTER_BOOL, MUSTER_F32}; /* the message is that of the last */
    char message[MST_MESSAGE_SIZE];
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        status = text_try(custom, runtime, dtypes[i]);
        if (status == MUSTER_OK || status == MUSTER_OUT_OF_MEMORY) return status;
    }
    mst_error_save(message);
    return mst_error(MUSTER_INVALID_ARGUMENT, "muster_operator_create: text: %.440s", message);
}
