/* The attributes of an operation, as a program gives them. */
#include "graph_private.h"

#include <math.h>
#include <string.h>

/* ---- values ---- */

static muster_status attribute_list(mst_draft *draft, const mst_attribute_row *row, const muster_attribute *given, mst_graph_value *value) {
    const int32_t most = row->kind == MST_VALUE_DIMS ? MUSTER_MAX_DIMS : 64;
    /* muster/expr.h says so of a field with an address and without a count; of a scalar such a list
     * has no entries. Who calls muster_expr_apply may pass an empty list at any address. */
    if (given->count == INT32_MIN) {
        if (given->integers && draft->count > 0 && draft->inputs[0]->type.ndim == 0) return MUSTER_OK;
        return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "%s: expected MUSTER_LIST(%s, ...), received %s", row->name, row->name,
                                given->integers ? "an address without a count" : "a number");
    }
    if (given->count < 0 || given->count > most)
        return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "%s: expected 0 to %d entries, received %d", row->name, (int)most,
                                (int)given->count);
    if (given->count > 0 && !given->integers)
        return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "%s: expected %d integers, received NULL", row->name,
                                (int)given->count);
    value->list = given->integers;
    value->count = given->count;
    if (row->kind == MST_VALUE_LIST || given->count == 0) return MUSTER_OK;
    int64_t *dims = mst_arena_take(&draft->graph->arena, (size_t)given->count * sizeof *dims);
    if (!dims) return mst_draft_refuse(draft, MUSTER_OUT_OF_MEMORY, -1, "%s: out of memory", row->name);
    for (int32_t i = 0; i < given->count; i++) {
        dims[i] = given->integers[i] == MUSTER_INFER ? MST_DIM_NONE : mst_dim_read(draft->graph, given->integers[i]);
        if (dims[i] == MST_DIM_NONE && draft->graph->latest == MUSTER_OUT_OF_MEMORY) return draft->graph->latest;
        if (dims[i] == MST_DIM_NONE && given->integers[i] != MUSTER_INFER)
            return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "%s: entry %d: expected a size, received %lld", row->name, (int)i,
                                    (long long)given->integers[i]);
    }
    value->list = dims;
    return MUSTER_OK;
}

static muster_status attribute_text(mst_draft *draft, const mst_attribute_row *row, const char *given, mst_graph_value *value) {
    int64_t characters[MST_TEXT_ATTRIBUTE];
    if (!given) return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "%s: expected a text, received NULL", row->name);
    for (value->count = 0; given[value->count]; value->count++) {
        if (value->count == MST_TEXT_ATTRIBUTE)
            return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "%s: expected at most %d characters, received \"%.40s...\"",
                                    row->name, MST_TEXT_ATTRIBUTE, given);
        if (given[value->count] < ' ' || given[value->count] > '~')
            return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "%s: expected printable ASCII, received byte 0x%02x", row->name,
                                    (unsigned)(unsigned char)given[value->count]);
        characters[value->count] = given[value->count];
    }
    int64_t *list = mst_arena_take(&draft->graph->arena, sizeof characters);
    if (!list) return mst_draft_refuse(draft, MUSTER_OUT_OF_MEMORY, -1, "%s: out of memory", row->name);
    memcpy(list, characters, (size_t)value->count * sizeof *list);
    value->list = list;
    return MUSTER_OK;
}

/* ---- kinds ---- */

static const char *kind_text(int32_t kind) {
    static const char *const names[] = {[0] = "no kind",
                                        [MUSTER_ATTRIBUTE_NUMBER] = "a number",
                                        [MUSTER_ATTRIBUTE_INTEGER] = "an integer",
                                        [MUSTER_ATTRIBUTE_DTYPE] = "a dtype",
                                        [MUSTER_ATTRIBUTE_LIST] = "a list of integers",
                                        [MUSTER_ATTRIBUTE_SIZES] = "a list of sizes",
                                        [MUSTER_ATTRIBUTE_TEXT] = "a text",
                                        [MUSTER_ATTRIBUTE_TRUTH] = "a truth value"};
    return names[kind];
}

static bool kind_is_list(int32_t kind) { return kind == MUSTER_ATTRIBUTE_LIST || kind == MUSTER_ATTRIBUTE_SIZES; }

/* True if an attribute of the kind `expected` takes a value of the kind `given`. */
static bool kind_stands_for(int32_t given, int32_t expected) {
    if (given == MUSTER_ATTRIBUTE_INTEGER) return expected == MUSTER_ATTRIBUTE_NUMBER || kind_is_list(expected) || given == expected;
    if (given == MUSTER_ATTRIBUTE_TRUTH) return expected == MUSTER_ATTRIBUTE_INTEGER;
    return given == expected || (kind_is_list(given) && kind_is_list(expected));
}

/* The text that messages show for a value of this kind. */
static const char *kind_received(int32_t kind, const muster_attribute *given, char text[MST_NODE_TEXT]) {
    if (kind == MUSTER_ATTRIBUTE_NUMBER)
        snprintf(text, MST_NODE_TEXT, "the number %.15g", given->number);
    else if (kind == MUSTER_ATTRIBUTE_INTEGER)
        snprintf(text, MST_NODE_TEXT, "the integer %lld", (long long)given->integer);
    else if (kind == MUSTER_ATTRIBUTE_TRUTH)
        snprintf(text, MST_NODE_TEXT, "%s", given->integer ? "True" : "False");
    else if (kind == MUSTER_ATTRIBUTE_TEXT && given->text)
        snprintf(text, MST_NODE_TEXT, "the text \"%.40s\"", given->text);
    else
        snprintf(text, MST_NODE_TEXT, "%s", kind_text(kind));
    return text;
}

static muster_status kind_refuse(mst_draft *draft, const mst_attribute_row *row, const muster_attribute *given, int32_t kind) {
    char text[MST_NODE_TEXT];
    return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "%s: expected %s, received %s", row->name, kind_text((int32_t)row->kind),
                            kind_received(kind, given, text));
}

/* Without a kind a member that this attribute does not read is a mistake, unless it is 0. */
static muster_status kind_check_members(mst_draft *draft, const mst_attribute_row *row, const muster_attribute *given) {
    const int32_t kind = (int32_t)row->kind;
    if (given->number != 0 && kind != MUSTER_ATTRIBUTE_NUMBER) return kind_refuse(draft, row, given, MUSTER_ATTRIBUTE_NUMBER);
    if (given->integer && kind != MUSTER_ATTRIBUTE_INTEGER && kind != MUSTER_ATTRIBUTE_DTYPE)
        return kind_refuse(draft, row, given, MUSTER_ATTRIBUTE_INTEGER);
    if ((given->integers || given->count) && !kind_is_list(kind)) return kind_refuse(draft, row, given, MUSTER_ATTRIBUTE_LIST);
    if (given->text && kind != MUSTER_ATTRIBUTE_TEXT) return kind_refuse(draft, row, given, MUSTER_ATTRIBUTE_TEXT);
    return MUSTER_OK;
}

static muster_status kind_check(mst_draft *draft, const mst_attribute_row *row, const muster_attribute *given) {
    if (given->kind == 0) return kind_check_members(draft, row, given);
    if (given->kind < 0 || given->kind > MUSTER_ATTRIBUTE_TRUTH)
        return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "%s: kind: expected a kind of attribute or 0, received %d", row->name,
                                (int)given->kind);
    return kind_stands_for(given->kind, (int32_t)row->kind) ? MUSTER_OK : kind_refuse(draft, row, given, given->kind);
}

/* ---- one operation ---- */

static muster_status attribute_read(mst_draft *draft, const mst_attribute_row *row, const muster_attribute *given, mst_graph_value *value) {
    MUSTER_TRY(kind_check(draft, row, given));
    const bool integer = given->kind == MUSTER_ATTRIBUTE_INTEGER;
    muster_attribute one = *given;
    switch (row->kind) {
    case MST_VALUE_NUMBER:
        value->number = integer ? (double)given->integer : given->number;
        if (given->kind && given->count == MST_ATTRIBUTE_REST) value->integer = given->integer;
        return MUSTER_OK;
    case MST_VALUE_INTEGER:
        value->integer = given->integer;
        return MUSTER_OK;
    case MST_VALUE_DTYPE:
        value->integer = given->integer;
        if (given->integer == MUSTER_DTYPE_NONE && !row->required) return MUSTER_OK; /* the operation's own */
        if (given->integer > MUSTER_DTYPE_NONE && given->integer < MST_DTYPE_COUNT) return MUSTER_OK;
        return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "%s: expected a dtype, received %lld", row->name,
                                (long long)given->integer);
    case MST_VALUE_TEXT:
        return attribute_text(draft, row, given->text, value);
    default:
        if (!integer) return attribute_list(draft, row, given, value);
        one.integers = &given->integer;
        one.count = 1;
        return attribute_list(draft, row, &one, value);
    }
}

static const muster_attribute *attribute_find(const muster_attribute *attributes, const char *name) {
    for (; attributes && attributes->name; attributes++)
        if (strcmp(attributes->name, name) == 0) return attributes;
    return NULL;
}

static bool operator_has(const mst_operator *op, const char *name) {
    for (int32_t a = 0; op->attributes[a].name; a++)
        if (strcmp(op->attributes[a].name, name) == 0) return true;
    return false;
}

const char *mst_operator_attribute_names(const mst_operator *op, char text[MST_NODE_TEXT]) {
    size_t length = 0;
    snprintf(text, MST_NODE_TEXT, "none");
    for (int32_t a = 0; op->attributes[a].name && length < MST_NODE_TEXT; a++)
        length += (size_t)snprintf(text + length, MST_NODE_TEXT - length, "%s%s", a ? ", " : "", op->attributes[a].name);
    if (length >= MST_NODE_TEXT) memcpy(text + MST_NODE_TEXT - 4, "...", 4);
    return text;
}

static muster_status attribute_unknown(mst_draft *draft, const char *name) {
    char known[MST_NODE_TEXT];
    (void)mst_operator_attribute_names(draft->op, known);
    return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "attributes: expected %s, received \"%.60s\"", known, name);
}

muster_status mst_attributes_read(mst_draft *draft, const muster_attribute *given) {
    for (const muster_attribute *at = given; at && at->name; at++) {
        if (!operator_has(draft->op, at->name)) return attribute_unknown(draft, at->name);
        if (attribute_find(given, at->name) != at)
            return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "%s: expected it once, received it twice", at->name);
    }
    for (int32_t a = 0; draft->op->attributes[a].name; a++) {
        const mst_attribute_row *row = &draft->op->attributes[a];
        const muster_attribute *found = attribute_find(given, row->name);
        if (!found && row->required)
            return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "%s: expected a value, received none", row->name);
        draft->values[a] = (mst_graph_value){0};
        if (found)
            MUSTER_TRY(attribute_read(draft, row, found, &draft->values[a]));
        else if (row->kind == MST_VALUE_NUMBER)
            draft->values[a].number = row->number;
        else
            draft->values[a].integer = (int64_t)row->number;
    }
    return MUSTER_OK;
}
