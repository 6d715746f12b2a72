/* The values of a text, and what calls make of them. */
#include "locale_impl.h"
#include "text_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- nodes and values ---- */

muster_status mst_text_begin(mst_text *t, mst_text_place place) {
    char quote[MST_TEXT_QUOTE], described[MST_TEXT_INSIDE + MST_TEXT_QUOTE];
    mst_text_quote(t, place, quote);
    snprintf(described, sizeof described, "%s%s", t->inside, quote);
    t->graph->origin = (mst_origin){.where = mst_arena_text(&t->graph->arena, described)};
    t->graph->latest = MUSTER_OK;
    if (t->graph->origin.where) return MUSTER_OK;
    return mst_text_refuse(t, MUSTER_OUT_OF_MEMORY, place, "out of memory");
}

/* An operation that made no node, since the graph has it, leaves no text behind. */
static void text_forget_place(mst_text *t) {
    char *where = (char *)(uintptr_t)t->graph->origin.where;
    if (where) mst_arena_untake(&t->graph->arena, where, strlen(where) + 1);
    t->graph->origin = (mst_origin){0};
}

muster_status mst_text_push(mst_text *t, const mst_text_value *value) {
    MUSTER_TRY(mst_grow((void **)&t->values.items, &t->values.capacity, t->values.count + 1, sizeof *t->values.items, t->where));
    t->values.items[t->values.count++] = *value;
    return MUSTER_OK;
}

/* An operand may stand for an older error, whose message comes back. */
static muster_status text_failed(mst_graph *graph) {
    return graph->latest != MUSTER_OK ? graph->latest : mst_error_restore(graph->status, graph->message);
}

muster_status mst_text_end(mst_text *t, mst_text_place place, muster_expr *made) {
    text_forget_place(t);
    if (mst_node_is_error(made)) return text_failed(t->graph);
    mst_text_value value = {.kind = MST_TEXT_EXPRESSION, .place = place, .node = made};
    if (mst_node_is(made, MST_OPERATOR_number)) {
        value.kind = MST_TEXT_NUMBER;
        value.number = made->values[0].number;
        value.rest = made->values[0].integer;
    }
    return mst_text_push(t, &value);
}

const char *mst_text_value_name(const mst_text_value *value) {
    static const char *const names[] = {[MST_TEXT_EXPRESSION] = "an expression",
                                        [MST_TEXT_NUMBER] = "a number",
                                        [MST_TEXT_TRUTH] = "True or False",
                                        [MST_TEXT_NOTHING] = "None",
                                        [MST_TEXT_DTYPE] = "a dtype",
                                        [MST_TEXT_SIZE] = "a named size",
                                        [MST_TEXT_LIST] = "a list",
                                        [MST_TEXT_SLICE] = "a slice",
                                        [MST_TEXT_ELLIPSIS] = "...",
                                        [MST_TEXT_STRING] = "a text in quotes"};
    return names[value->kind];
}

const char *mst_text_received(const mst_text_value *value, char text[MST_TEXT_RECEIVED]) {
    if (value->kind != MST_TEXT_NUMBER) return mst_text_value_name(value);
    const bool large = isfinite(value->number) && fabs(value->number) >= 0x1p63;
    const bool no_fraction = value->floating && value->number == floor(value->number) && fabs(value->number) < 1e15;
    (void)mst_snprintf(text, MST_TEXT_RECEIVED, "%.15g%s%s", value->number, no_fraction ? ".0" : "",
                       large ? ", which 64 bits do not hold" : "");
    return text;
}

muster_status mst_text_expression(mst_text *t, const mst_text_value *value, muster_expr **node) {
    if (value->kind == MST_TEXT_EXPRESSION) {
        *node = value->node;
        return MUSTER_OK;
    }
    if (value->kind != MST_TEXT_NUMBER)
        return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, value->place, "expected an expression, received %s", mst_text_value_name(value));
    *node = mst_apply(t->graph, MST_OPERATOR_number, NULL, 0, (mst_graph_value[]){{.number = value->number, .integer = value->rest}});
    return mst_node_is_error(*node) ? text_failed(t->graph) : MUSTER_OK;
}

bool mst_text_integer(const mst_text_value *value, int64_t *integer) {
    if (value->kind != MST_TEXT_NUMBER || value->floating || value->number != floor(value->number) || fabs(value->number) > 0x1p63)
        return false;
    /* 2^63 and its rest are at most INT64_MAX, or none */
    if (value->number == 0x1p63 && value->rest >= 0) return false;
    *integer = value->number == 0x1p63 ? INT64_MAX + (value->rest + 1) : (int64_t)value->number + value->rest;
    return true;
}

/* ---- calls ---- */

/* Refuses what an attribute is given: such as: attribute axis of sum: expected an integer. */
static muster_status refuse_attribute(mst_text *t, const mst_pending *call, const mst_attribute_row *row, const mst_text_value *value,
                                      const char *expected) {
    char text[MST_TEXT_RECEIVED];
    return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, value->place, "attribute %s of %s: expected %s, received %s", row->name,
                           call->op->name, expected,
                           strstr(expected, "integer") ? mst_text_received(value, text) : mst_text_value_name(value));
}

/* An entry of a list, or `alone` in place of one: an integer; of a shape, also a named size; of the
 * bounds of a slice, None. */
static muster_status attribute_entry(mst_text *t, const mst_pending *call, const mst_attribute_row *row, const mst_text_value *value,
                                     bool alone, int64_t *entry) {
    if (value->kind == MST_TEXT_SIZE && row->kind == MST_VALUE_DIMS) {
        *entry = value->integer;
        return MUSTER_OK;
    }
    if (value->kind == MST_TEXT_NOTHING && call->op->id == MST_OPERATOR_slice) {
        *entry = MUSTER_NONE;
        return MUSTER_OK;
    }
    if (mst_text_integer(value, entry) && (row->kind != MST_VALUE_DIMS || *entry >= MUSTER_INFER)) return MUSTER_OK;
    if (row->kind == MST_VALUE_DIMS)
        return refuse_attribute(t, call, row, value,
                                alone ? "an integer from -1 on, a named size, or a list" : "an integer from -1 on, or a named size");
    const int32_t id = call->op->id; /* max(x, 0.0), as C and Python have it */
    if (alone && (id == MST_OPERATOR_max || id == MST_OPERATOR_min))
        return refuse_attribute(t, call, row, value,
                                id == MST_OPERATOR_max ? "an integer or a list (maximum(a, b) has two operands)"
                                                       : "an integer or a list (minimum(a, b) has two operands)");
    return refuse_attribute(t, call, row, value, alone ? "an integer or a list" : "an integer");
}

static muster_status attribute_list(mst_text *t, const mst_pending *call, const mst_attribute_row *row, const mst_text_value *value,
                                    int64_t *entries, int32_t *count) {
    const bool list = value->kind == MST_TEXT_LIST;
    const mst_text_value *from = list ? t->elements.items + value->list.first : value;
    *count = list ? value->list.count : 1;
    if (*count > MST_TEXT_LIST_MAX)
        return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, value->place, "attribute %s of %s: expected at most %d entries, received %d",
                               row->name, call->op->name, MST_TEXT_LIST_MAX, (int)*count);
    for (int32_t i = 0; i < *count; i++) MUSTER_TRY(attribute_entry(t, call, row, &from[i], !list, &entries[i]));
    return MUSTER_OK;
}

static muster_status attribute_value(mst_text *t, const mst_pending *call, const mst_attribute_row *row, const mst_text_value *value,
                                     muster_attribute *attribute, int64_t *entries) {
    *attribute = (muster_attribute){.name = row->name, .kind = (int32_t)row->kind, .integers = entries};
    switch (row->kind) {
    case MST_VALUE_NUMBER:
        attribute->number = value->number;
        attribute->integer = value->rest;
        attribute->count = value->rest ? MST_ATTRIBUTE_REST : 0;
        return value->kind == MST_TEXT_NUMBER ? MUSTER_OK : refuse_attribute(t, call, row, value, "a number");
    case MST_VALUE_DTYPE:
        attribute->integer = value->integer;
        return value->kind == MST_TEXT_DTYPE ? MUSTER_OK : refuse_attribute(t, call, row, value, "a dtype");
    case MST_VALUE_TEXT:
        if (value->kind != MST_TEXT_STRING) return refuse_attribute(t, call, row, value, "a text in quotes");
        snprintf((char *)entries, MST_TEXT_LIST_MAX * sizeof *entries, "%.*s", (int)value->list.count, t->text + value->list.first);
        attribute->text = (char *)entries;
        return MUSTER_OK;
    case MST_VALUE_INTEGER:
        attribute->integer = value->integer;
        if (value->kind == MST_TEXT_TRUTH || mst_text_integer(value, &attribute->integer)) return MUSTER_OK;
        return refuse_attribute(t, call, row, value, "an integer, True or False");
    default:
        return attribute_list(t, call, row, value, entries, &attribute->count);
    }
}

/* A text in front of the operands is the first attribute, as in NumPy: einsum("ij->i", x). */
static bool text_comes_first(const mst_text *t, const mst_pending *call) {
    if (t->values.count == call->base || call->op->attributes[0].kind != MST_VALUE_TEXT) return false;
    const mst_text_value *value = &t->values.items[call->base];
    return value->kind == MST_TEXT_STRING && !value->keyword_length;
}

/* The attribute that argument i is for: by its keyword, or by its place behind the operands. */
static muster_status find_attribute(mst_text *t, const mst_pending *call, int32_t operands, int32_t i, int32_t *attribute) {
    const mst_operator *op = call->op;
    const mst_text_value *value = &t->values.items[call->base + i];
    const char *keyword = t->text + value->keyword;
    const int32_t count = mst_operator_attribute_count(op), most = operands + count;
    *attribute = i == 0 && text_comes_first(t, call) ? 0 : i - operands;
    if (!value->keyword_length) {
        if (i < most) return MUSTER_OK;
        return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, value->place, "%s: expected at most %d argument%s, received %d", op->name,
                               (int)most, most == 1 ? "" : "s", (int)(t->values.count - call->base));
    }
    for (*attribute = 0; *attribute < count; ++*attribute) {
        const char *name = op->attributes[*attribute].name;
        if (strlen(name) == (size_t)value->keyword_length && memcmp(name, keyword, strlen(name)) == 0) return MUSTER_OK;
    }
    char known[MST_NODE_TEXT];
    return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, value->place, "%s: unknown attribute \"%.*s\", expected %s", op->name,
                           (int)(value->keyword_length < 60 ? value->keyword_length : 60), keyword,
                           mst_operator_attribute_names(op, known));
}

typedef struct text_arguments {
    muster_expr **operands;
    int32_t count;
    muster_attribute attributes[MST_GRAPH_ATTRIBUTES + 1];
    int64_t entries[MST_GRAPH_ATTRIBUTES][MST_TEXT_LIST_MAX];
} text_arguments;

/* `first` = the number of arguments that are operands; the others are attributes. `skip` = 1: an
 * attribute comes before them. */
static muster_status read_attributes(mst_text *t, const mst_pending *call, int32_t skip, int32_t first, text_arguments *arguments) {
    uint32_t seen = 0;
    int32_t given = 0;
    for (int32_t i = skip ? 0 : first; i < t->values.count - call->base; i = i || !skip ? i + 1 : 1 + first) {
        const mst_text_value *value = &t->values.items[call->base + i];
        int32_t a;
        MUSTER_TRY(find_attribute(t, call, first, i, &a));
        const mst_attribute_row *row = &call->op->attributes[a];
        if (seen >> a & 1)
            return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, value->place, "attribute %s of %s: given twice", row->name, call->op->name);
        seen |= 1u << a;
        if (value->kind == MST_TEXT_NOTHING) continue; /* as if it were not given */
        MUSTER_TRY(attribute_value(t, call, row, value, &arguments->attributes[given], arguments->entries[given]));
        given++;
    }
    arguments->attributes[given].name = NULL;
    return MUSTER_OK;
}

/* concatenate([a, b]) means concatenate(a, b), as in NumPy. */
static muster_status read_operands(mst_text *t, const mst_pending *call, int32_t skip, int32_t first, bool more,
                                   text_arguments *arguments) {
    const mst_text_value *values = first ? t->values.items + call->base + skip : NULL;
    arguments->count = first;
    if (more && first == 1 && values->kind == MST_TEXT_LIST) {
        arguments->count = values->list.count;
        values = t->elements.items + values->list.first;
    }
    arguments->operands = mst_alloc((size_t)(arguments->count + 1) * sizeof *arguments->operands);
    if (!arguments->operands) return mst_text_refuse(t, MUSTER_OUT_OF_MEMORY, call->place, "out of memory");
    for (int32_t i = 0; i < arguments->count; i++) MUSTER_TRY(mst_text_expression(t, &values[i], &arguments->operands[i]));
    return MUSTER_OK;
}

static muster_status call_apply(mst_text *t, const mst_pending *call, text_arguments *arguments) {
    bool more;
    const int32_t operands = mst_operator_operand_count(call->op, &more), given = t->values.count - call->base;
    const int32_t skip = text_comes_first(t, call) ? 1 : 0;
    int32_t first = 0;
    while (skip + first < given && (more || first < operands) && !t->values.items[call->base + skip + first].keyword_length) first++;
    MUSTER_TRY(read_attributes(t, call, skip, first, arguments));
    MUSTER_TRY(mst_text_begin(t, call->place));
    muster_status status = read_operands(t, call, skip, first, more, arguments);
    if (status != MUSTER_OK) return status;
    muster_expr *made = mst_apply_checked(t->graph, call->op, arguments->operands, arguments->count, arguments->attributes);
    t->values.count = call->base;
    return mst_text_end(t, call->place, made);
}

muster_status mst_text_call(mst_text *t, const mst_pending *frame) {
    text_arguments arguments;
    arguments.operands = NULL;
    const muster_status status = call_apply(t, frame, &arguments);
    mst_free(arguments.operands);
    return status;
}
