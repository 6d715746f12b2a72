/* Applying an operation: the operator, the node. */
#include "graph_private.h"

#include <math.h>
#include <string.h>

static const char where_apply[] = "muster_expr_apply";

/* ---- one operation ---- */

static muster_status check_count(mst_draft *draft) {
    bool more;
    const int32_t operands = mst_operator_operand_count(draft->op, &more);
    if (draft->count == operands || (more && draft->count > operands)) return MUSTER_OK;
    if (draft->count < operands && draft->count >= operands - draft->op->optional) return MUSTER_OK;
    if (draft->op->optional)
        return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "count: expected %d to %d operands, received %d",
                                (int)(operands - draft->op->optional), (int)operands, (int)draft->count);
    return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "count: expected %d operand%s%s, received %d", (int)operands,
                            operands == 1 ? "" : "s", more ? " or more" : "", (int)draft->count);
}

/* Draft operands are changed by operators: numbers become constants of a dtype. */
static muster_expr *apply_operator(mst_draft *draft) {
    for (int32_t i = 0; i < draft->count; i++)
        if (mst_node_is_error(draft->inputs[i])) return draft->graph->error;
    if (draft->op->expand) {
        muster_expr *expanded = draft->op->expand(draft);
        if (expanded) return expanded;
    }
    if (draft->op->infer(draft) != MUSTER_OK) return draft->graph->error;
    for (int32_t r = 0; r < MST_RESULTS; r++)
        for (int32_t d = 0; d < draft->types[r].ndim; d++)
            if (draft->types[r].dims[d] == MST_DIM_NONE) return draft->graph->error; /* a size that overflows; the message is set */
    return mst_node_make(draft);
}

/* Messages name the operation, and not those that it is made of. */
static muster_expr *apply_draft(mst_draft *draft) {
    const mst_operator *outer = draft->graph->op;
    if (!outer) draft->graph->op = draft->op;
    muster_expr *made = apply_operator(draft);
    draft->graph->op = outer;
    return made;
}

enum { FEW_INPUTS = 8 };

muster_expr *mst_apply(mst_graph *graph, int32_t id, muster_expr *const *inputs, int32_t count, const mst_graph_value *values) {
    return mst_apply_operator(graph, mst_operators[id], inputs, count, values);
}

muster_expr *mst_apply_operator(mst_graph *graph, const mst_operator *op, muster_expr *const *inputs, int32_t count,
                                const mst_graph_value *values) {
    muster_expr *few[FEW_INPUTS], **copy = few;
    mst_graph_value filled[MST_GRAPH_ATTRIBUTES] = {MST_NO_VALUE};
    mst_draft draft = {.graph = graph, .op = op, .count = count, .values = filled};
    if (count > FEW_INPUTS && !(copy = mst_arena_take(&graph->arena, (size_t)count * sizeof *copy))) {
        (void)mst_draft_refuse(&draft, MUSTER_OUT_OF_MEMORY, -1, "out of memory");
        return graph->error;
    }
    if (count) memcpy(copy, inputs, (size_t)count * sizeof *copy);
    draft.inputs = copy;
    mst_numbers_where_type(&draft);
    for (int32_t a = 0; a < mst_operator_attribute_count(draft.op); a++) {
        if (values)
            filled[a] = values[a];
        else if (draft.op->attributes[a].kind == MST_VALUE_NUMBER)
            filled[a].number = draft.op->attributes[a].number;
        else
            filled[a].integer = (int64_t)draft.op->attributes[a].number;
    }
    return apply_draft(&draft);
}

static muster_expr *refuse_input(const mst_draft *draft, muster_expr *const *inputs, int32_t i) {
    bool more;
    char place[MST_NODE_TEXT], where[2 * MST_NODE_TEXT], what[80];
    (void)mst_origin_text(&draft->graph->origin, place);
    snprintf(where, sizeof where, "%s%smuster_expr_%.60s", place, *place ? ": " : "", draft->op->name);
    const int32_t named = mst_operator_operand_count(draft->op, &more);
    const int32_t last = named - 1; /* with `more` it stands for any number of operands */
    if (more && i >= last)
        snprintf(what, sizeof what, "%.30s[%d] (inputs[%d])", draft->op->operands[last], (int)(i - last), (int)i);
    else if (i < named)
        snprintf(what, sizeof what, "%.40s (inputs[%d])", draft->op->operands[i], (int)i);
    else
        snprintf(what, sizeof what, "inputs[%d]", (int)i);
    (void)mst_graph_keep(draft->graph, mst_expr_check(draft->graph, inputs[i], where, what));
    return draft->graph->error;
}

static muster_expr *apply_public(mst_draft *draft, muster_expr *const *inputs, const muster_attribute *attributes) {
    mst_graph *graph = draft->graph;
    for (int32_t i = 0; i < draft->count; i++)
        if (!inputs[i] || inputs[i]->graph != graph) return refuse_input(draft, inputs, i);
    if (check_count(draft) != MUSTER_OK || mst_attributes_read(draft, attributes) != MUSTER_OK) return graph->error;
    return mst_apply_operator(graph, draft->op, inputs, draft->count, draft->values);
}

muster_expr *mst_apply_checked(mst_graph *graph, const mst_operator *op, muster_expr *const *inputs, int32_t count,
                               const muster_attribute *attributes) {
    mst_graph_value values[MST_GRAPH_ATTRIBUTES];
    mst_draft draft = {.graph = graph, .op = op, .inputs = (muster_expr **)(uintptr_t)inputs, .count = count, .values = values};
    return apply_public(&draft, inputs, attributes);
}

/* The place is copied once for a row of operations that name the same one. */
static const char *keep_where(mst_graph *graph, const char *where) {
    if (!where) return NULL;
    if (!graph->last_where || strcmp(graph->last_where, where) != 0) graph->last_where = mst_arena_text(&graph->arena, where);
    return graph->last_where;
}

muster_status muster_expr_apply(muster_graph *handle, const char *operation, muster_expr *const *inputs, int32_t count,
                                const muster_attribute *attributes, const char *where, muster_expr **result) {
    const muster_status usable = mst_graph_check(handle, where_apply);
    if (usable != MUSTER_OK) {
        if (result) *result = NULL; /* not before: `result` may point into `inputs` */
        return usable;
    }
    mst_graph *graph = handle->graph;
    muster_expr *made = graph->error;
    if (!operation || count < 0 || (count > 0 && !inputs)) {
        const muster_status status =
            !operation  ? mst_error_null(where_apply, "operation", "a name")
            : count < 0 ? mst_error(MUSTER_INVALID_ARGUMENT, "%s: count: expected 0 or more, received %d", where_apply, (int)count)
                        : mst_error_null(where_apply, "inputs", "expressions");
        if (result) *result = graph->error;
        return mst_graph_keep(graph, status);
    }
    graph->origin = (mst_origin){.where = keep_where(graph, where)};
    graph->latest = MUSTER_OK;
    const mst_operator *op = mst_operator_named(graph, operation);
    if (op) {
        made = mst_apply_checked(graph, op, inputs, count, attributes);
    } else {
        char place[MST_NODE_TEXT], suggestion[MST_SUGGESTION];
        (void)mst_origin_text(&graph->origin, place);
        (void)mst_graph_fail(graph, MUSTER_INVALID_ARGUMENT,
                             "%s%s%s: operation: expected one of docs/expressions.md or an operator of the runtime, received \"%.60s\"%s",
                             place, *place ? ": " : "", where_apply, operation, mst_operator_suggest(operation, suggestion));
    }
    graph->origin = (mst_origin){0};
    if (result) *result = made;
    if (!mst_node_is_error(made)) return MUSTER_OK;
    /* an operand may stand for an older error */
    return graph->latest != MUSTER_OK ? graph->latest : mst_error_restore(graph->status, graph->message);
}

/* ---- what the operators use ---- */

muster_expr *mst_number(mst_graph *graph, muster_dtype dtype, double value) { return mst_full(graph, &(mst_type){.dtype = dtype}, value); }

muster_expr *mst_full(mst_graph *graph, const mst_type *type, double value) {
    int64_t dims[MUSTER_MAX_DIMS];
    if (type->dtype == MUSTER_DTYPE_NONE) return graph->error; /* the type is that of an error, which stays the latest one */
    for (int32_t d = 0; d < type->ndim; d++) dims[d] = type->dims[d];
    return mst_apply(graph, MST_OPERATOR_full, NULL, 0,
                     (mst_graph_value[]){{.list = dims, .count = type->ndim}, {.number = value}, {.integer = type->dtype}});
}

muster_expr *mst_reshape_to(muster_expr *node, int32_t ndim, const mst_dim *dims) {
    int64_t list[MUSTER_MAX_DIMS];
    for (int32_t d = 0; d < ndim; d++) list[d] = dims[d];
    return mst_apply(node->graph, MST_OPERATOR_reshape, &node, 1, (mst_graph_value[]){{.list = list, .count = ndim}});
}

muster_expr *mst_broadcast_to(muster_expr *node, const mst_type *type) {
    int64_t list[MUSTER_MAX_DIMS];
    if (mst_node_is_error(node) || mst_same_dims(&node->type, type)) return node;
    for (int32_t d = 0; d < type->ndim; d++) list[d] = type->dims[d];
    return mst_apply(node->graph, MST_OPERATOR_broadcast_to, &node, 1, (mst_graph_value[]){{.list = list, .count = type->ndim}});
}

muster_expr *mst_sum_to(muster_expr *node, const mst_type *type) {
    int64_t axes[MUSTER_MAX_DIMS];
    int32_t count = 0;
    if (mst_node_is_error(node)) return node;
    const int32_t missing = node->type.ndim - type->ndim;
    for (int32_t d = 0; d < node->type.ndim; d++)
        if (d < missing || node->type.dims[d] != type->dims[d - missing]) axes[count++] = d;
    if (count) {
        node = mst_apply(node->graph, MST_OPERATOR_sum, &node, 1,
                         (mst_graph_value[]){{.list = axes, .count = count}, {.integer = 0}, MST_NO_VALUE});
        if (mst_node_is_error(node)) return node;
    }
    return mst_same_dims(&node->type, type) ? node : mst_reshape_to(node, type->ndim, type->dims);
}

muster_expr *mst_size_number(mst_graph *graph, mst_dim size, muster_dtype dtype) {
    const int64_t constant = mst_dim_constant(graph, size), list[1] = {size};
    if (constant >= 0) return mst_number(graph, dtype, (double)constant);
    return mst_apply(graph, MST_OPERATOR_extent, NULL, 0, (mst_graph_value[]){{.list = list, .count = 1}, {.integer = dtype}});
}

muster_expr *mst_extent(muster_expr *node, uint32_t axes, muster_dtype dtype) {
    mst_dim product = MST_DIM_ONE;
    for (int32_t d = 0; d < node->type.ndim; d++)
        if (axes >> d & 1) product = mst_dim_multiply(node->graph, product, node->type.dims[d]);
    return product == MST_DIM_NONE ? node->graph->error : mst_size_number(node->graph, product, dtype);
}
