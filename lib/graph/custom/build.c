/* An application of an operator becomes a node: its rule, and what callbacks ask. */
#include "custom_private.h"

#include "operators/operators_private.h"

#include <string.h>

/* ---- callbacks ---- */

void mst_custom_enter(mst_graph *graph, const mst_custom *custom, bool gradient, mst_custom_saved *saved) {
    *saved = (mst_custom_saved){.origin = graph->origin,
                                .op = graph->op,
                                .frame = {graph->custom_frame, custom, gradient},
                                .errors = mst_error_count(),
                                .failed_before = graph->status != MUSTER_OK};
    graph->custom_frame = &saved->frame;
    graph->op = NULL;
}

void mst_custom_leave(mst_graph *graph, const mst_custom_saved *saved) {
    graph->custom_frame = saved->frame.outer;
    graph->origin = saved->origin;
    graph->op = saved->op;
}

muster_status mst_custom_failed(mst_graph *graph, const mst_custom *custom, const char *part, const mst_custom_saved *saved,
                                muster_status status) {
    char message[MST_MESSAGE_SIZE], place[MST_NODE_TEXT];
    const bool first = graph->status != MUSTER_OK && !saved->failed_before; /* the first error of what the callback built */
    if (first) status = graph->status;
    if (status < MUSTER_OK || status > MST_STATUS_LAST) status = MUSTER_USER;
    if (first)
        memcpy(message, graph->message, sizeof message);
    else if (mst_error_count() == saved->errors)
        snprintf(message, sizeof message, "the function failed with %s, and gave no reason", muster_status_name(status));
    else
        mst_error_save(message);
    (void)mst_origin_text(&saved->origin, place);
    status = mst_error(status, "%s%smuster_expr_%s: %s: %.400s", place, *place ? ": " : "", custom->row.name, part, message);
    if (first) graph->status = MUSTER_OK; /* which gets the operator's name */
    return mst_graph_keep(graph, status);
}

const int64_t *mst_custom_text(mst_arena *memory, const mst_graph_value *value) {
    char *text = mst_arena_take(memory, (size_t)value->count + 1);
    for (int32_t i = 0; text && i < value->count; i++) text[i] = (char)value->list[i];
    return (const int64_t *)text;
}

const mst_graph_value *mst_custom_values(mst_graph *graph, const mst_operator *row, const mst_graph_value *values) {
    const int32_t count = mst_operator_attribute_count(row);
    mst_graph_value *copies = mst_arena_take(&graph->arena, (size_t)(count + 1) * sizeof *copies);
    for (int32_t a = 0; copies && a < count; a++) {
        copies[a] = values[a];
        if (row->attributes[a].kind == MST_VALUE_TEXT && !(copies[a].list = mst_custom_text(&graph->arena, &values[a]))) return NULL;
        if (row->attributes[a].kind != MST_VALUE_DIMS || !values[a].count) continue;
        int64_t *list = mst_arena_take(&graph->arena, (size_t)values[a].count * sizeof *list);
        if (!list) return NULL;
        for (int32_t i = 0; i < values[a].count; i++) list[i] = mst_dim_entry(graph, (mst_dim)values[a].list[i]);
        copies[a].list = list;
    }
    return copies;
}

/* ---- dtypes ---- */

static bool is_half(muster_dtype dtype) { return dtype == MUSTER_F16 || dtype == MUSTER_BF16; }

/* Plain numbers become constants of the dtype of the first operand that has one. */
static muster_status numbers_become(mst_draft *draft) {
    muster_dtype dtype = MUSTER_DTYPE_NONE;
    for (int32_t i = 0; i < draft->count && dtype == MUSTER_DTYPE_NONE; i++) dtype = draft->inputs[i]->type.dtype;
    for (int32_t i = 0; i < draft->count; i++) {
        if (draft->inputs[i]->type.dtype != MUSTER_DTYPE_NONE) continue;
        if (dtype == MUSTER_DTYPE_NONE)
            return mst_draft_refuse(draft, MUSTER_DTYPE_MISMATCH, i,
                                    "expected an operand with a dtype beside plain numbers, received none");
        MUSTER_TRY(mst_draft_number(draft, i, dtype));
    }
    return MUSTER_OK;
}

static muster_status halves_check(mst_draft *draft) {
    const mst_custom *custom = mst_custom_of(draft->op);
    for (int32_t i = 0; !custom->options.halves && i < draft->count; i++)
        if (is_half(draft->inputs[i]->type.dtype))
            return mst_draft_refuse(draft, MUSTER_UNSUPPORTED, i,
                                    "expected another dtype, since the operator does not say that it takes halves, received %s",
                                    muster_dtype_name(draft->inputs[i]->type.dtype));
    return MUSTER_OK;
}

/* ---- the rule ---- */

static muster_status results_check(mst_draft *draft) {
    const mst_custom *custom = mst_custom_of(draft->op);
    for (int32_t r = 0; r < custom->row.results; r++) {
        const muster_dtype dtype = draft->types[r].dtype;
        if (dtype == MUSTER_DTYPE_NONE)
            return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "rule: expected the dtype and shape of result %d, received none",
                                    (int)r);
        if (is_half(dtype) && !custom->options.halves)
            return mst_draft_refuse(
                draft, MUSTER_UNSUPPORTED, -1,
                "rule: expected another dtype of result %d, since the operator does not say that it gives halves, received %s", (int)r,
                muster_dtype_name(dtype));
    }
    return MUSTER_OK;
}

static muster_status rule_run(mst_draft *draft) {
    const mst_custom *custom = mst_custom_of(draft->op);
    mst_graph *graph = draft->graph;
    mst_custom_saved saved;
    muster_operator_node node = {
        .custom = custom, .graph = graph, .draft = draft, .values = mst_custom_values(graph, draft->op, draft->values)};
    if (!node.values) return mst_draft_refuse(draft, MUSTER_OUT_OF_MEMORY, -1, "out of memory");
    for (int32_t r = 0; r < MST_RESULTS; r++) draft->types[r] = (mst_type){.dtype = MUSTER_DTYPE_NONE};
    mst_custom_enter(graph, custom, false, &saved);
    graph->latest = MUSTER_OK;
    muster_status status = custom->options.rule(&node, draft->inputs, draft->count, custom->options.user);
    if (status == MUSTER_OK) status = graph->latest; /* an error that the rule did not look at */
    mst_custom_leave(graph, &saved);
    return status == MUSTER_OK ? results_check(draft) : mst_custom_failed(graph, custom, "rule", &saved, status);
}

static muster_status sizes_check(mst_draft *draft) {
    for (int32_t a = 0; draft->op->attributes[a].name; a++)
        for (int32_t i = 0; draft->op->attributes[a].kind == MST_VALUE_DIMS && i < draft->values[a].count; i++)
            if (draft->values[a].list[i] == MST_DIM_NONE)
                return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "%s: entry %d: expected a size, received MUSTER_INFER",
                                        draft->op->attributes[a].name, (int)i);
    return MUSTER_OK;
}

muster_status mst_custom_infer(mst_draft *draft) {
    const mst_custom *custom = mst_custom_of(draft->op);
    MUSTER_TRY(sizes_check(draft));
    MUSTER_TRY(numbers_become(draft));
    MUSTER_TRY(halves_check(draft));
    if (custom->options.rule) return rule_run(draft);
    muster_dtype dtype;
    MUSTER_TRY(mst_draft_unify(draft, 0, &dtype));
    draft->types[0] = draft->inputs[0]->type;
    return MUSTER_OK;
}

/* ---- on several devices ---- */

static bool build_has_rows(const mst_graph *graph, const mst_type *type) {
    return type->ndim > 0 && graph->dims[type->dims[0]].powers[MST_SIZE_ROWS] != 0;
}

bool mst_custom_distribute(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (way || result.kind != MST_CUT || result.axis || !build_has_rows(node->graph, &node->type)) return false;
    for (int32_t r = 1; r < node->op->results; r++)
        if (node->more[r - 1].ndim == 0 || node->more[r - 1].dims[0] != node->type.dims[0]) return false;
    for (int32_t i = 0; i < node->input_count; i++)
        operands[i] = build_has_rows(node->graph, &node->inputs[i]->type) ? result : MST_DISTRIBUTED_SAME;
    return true;
}

/* ---- what callbacks ask ---- */

muster_status muster_operator_result(muster_operator_node *node, int32_t index, muster_dtype dtype, int32_t ndim, const int64_t *shape) {
    static const char where[] = "muster_operator_result";
    if (!node || !node->draft)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: node: expected that of a rule, received %s", where, node ? "another" : "NULL");
    if (index < 0 || index >= node->custom->row.results)
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: index: expected 0 to %d, received %d", where, (int)node->custom->row.results - 1,
                         (int)index);
    if (dtype <= MUSTER_DTYPE_NONE || dtype >= MST_DTYPE_COUNT)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: dtype: expected a dtype, received %d", where, (int)dtype);
    if (ndim < 0 || ndim > MUSTER_MAX_DIMS)
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: ndim: expected 0 to %d, received %d", where, MUSTER_MAX_DIMS, (int)ndim);
    if (ndim && !shape) return mst_error_null(where, "shape", "sizes");
    mst_type type = {.dtype = dtype, .ndim = ndim};
    for (int32_t d = 0; d < ndim; d++) {
        type.dims[d] = mst_dim_read(node->graph, shape[d]);
        if (type.dims[d] == MST_DIM_NONE)
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: shape: entry %d: expected a size, received %lld", where, (int)d,
                             (long long)shape[d]);
    }
    node->draft->types[index] = type;
    return MUSTER_OK;
}

muster_status muster_operator_attribute_value(const muster_operator_node *node, const char *name, muster_attribute *value) {
    static const char where[] = "muster_operator_attribute_value";
    if (!node || !name || !value)
        return mst_error_null(where, !node ? "node" : !name ? "name" : "value", !node ? "a node" : !name ? "a name" : "an address");
    const mst_attribute_row *rows = node->custom->row.attributes;
    for (int32_t a = 0; rows[a].name; a++) {
        if (strcmp(rows[a].name, name) != 0) continue;
        const mst_graph_value *from = &node->values[a];
        const bool text = rows[a].kind == MST_VALUE_TEXT;
        *value = (muster_attribute){.name = rows[a].name,
                                    .number = from->number,
                                    .integer = from->integer,
                                    .integers = text ? NULL : from->list,
                                    .count = text ? 0 : from->count,
                                    .kind = (int32_t)rows[a].kind,
                                    .text = text ? (const char *)from->list : NULL};
        return MUSTER_OK;
    }
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected an attribute of operator \"%s\", received \"%.60s\"", where,
                     node->custom->row.name, name);
}

muster_graph *muster_operator_graph(const muster_operator_node *node) { return node && node->graph ? node->graph->handle : NULL; }

void *muster_operator_state(const muster_operator_node *node) { return node ? node->state : NULL; }
