/* One-line texts: statements, names, and the public functions. */
#include "text_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- names ---- */

bool mst_token_is(const mst_text *t, const mst_token *token, const char *word) {
    return (size_t)token->length == strlen(word) && memcmp(t->text + token->place.offset, word, strlen(word)) == 0;
}

/* The words of the language, dtypes, sizes, inf and nan, which names of expressions may hide
 * except the first. */
static bool word_value(const mst_text *t, bool reserved, mst_text_value *value) {
    const bool yes = mst_token_is(t, &t->token, "True");
    if (!reserved && t->real && mst_token_is(t, &t->token, "real")) {
        *value = (mst_text_value){.kind = MST_TEXT_DTYPE, .integer = t->real};
        return true;
    }
    if (reserved) {
        *value = (mst_text_value){.kind = yes || mst_token_is(t, &t->token, "False") ? MST_TEXT_TRUTH : MST_TEXT_NOTHING, .integer = yes};
        return value->kind == MST_TEXT_TRUTH || mst_token_is(t, &t->token, "None") || mst_token_is(t, &t->token, "newaxis");
    }
    for (muster_dtype d = MUSTER_DTYPE_NONE + 1; d < MST_DTYPE_COUNT; d++) {
        *value = (mst_text_value){.kind = MST_TEXT_DTYPE, .integer = d};
        if (mst_token_is(t, &t->token, muster_dtype_name(d))) return true;
    }
    for (int32_t s = 0; s < t->graph->size_count; s++) {
        *value = (mst_text_value){.kind = MST_TEXT_SIZE, .integer = MUSTER_ROWS - s};
        if (mst_token_is(t, &t->token, t->graph->size_names[s])) return true;
    }
    *value = (mst_text_value){.kind = MST_TEXT_NUMBER, .number = mst_token_is(t, &t->token, "nan") ? NAN : INFINITY};
    return mst_token_is(t, &t->token, "inf") || mst_token_is(t, &t->token, "nan");
}

const mst_name *mst_text_find(const mst_text *t, const char *name, int32_t length) {
    const mst_name *found = mst_names_find(&t->names, name, length);
    return found || *t->inside ? found : mst_names_find(&t->graph->names, name, length);
}

/* A name that NumPy, JAX or PyTorch give a dtype. */
static bool is_dtype_elsewhere(const mst_text *t) {
    static const char *const names[] = {"float16", "bfloat16", "float32", "float64", "half",  "float",  "double", "int8",
                                        "int16",   "int32",    "int64",   "int",     "uint8", "uint16", "uint32", "uint64"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (mst_token_is(t, &t->token, names[i])) return true;
    return false;
}

static muster_status refuse_name(mst_text *t) {
    char text[MST_TEXT_QUOTE];
    mst_token dotted = t->token; /* with its points, but without the transpose */
    dotted.length = mst_text_dotted(t);
    if (dotted.length > t->token.length && memcmp(t->text + dotted.place.offset + dotted.length - 2, ".T", 2) == 0) dotted.length -= 2;
    const char *name = mst_token_text(t, &dotted, text);
    if (t->target.length == t->token.length &&
        memcmp(t->text + t->target.place.offset, t->text + t->token.place.offset, (size_t)t->target.length) == 0)
        return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, t->token.place, "%s is used in its own definition", name);
    if (is_dtype_elsewhere(t))
        return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, t->token.place, "expected a dtype, such as f32, received %s", name);
    if (*t->inside)
        return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, t->token.place,
                               "expected an operand or an attribute of the operator, received %s", name);
    return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, t->token.place,
                           "expected a name that is given with the text, or one of an expression of graph \"%s\", received %s",
                           t->graph->name, name);
}

muster_status mst_text_name(mst_text *t, mst_text_value *value) {
    char text[MST_TEXT_QUOTE];
    if (word_value(t, true, value)) return MUSTER_OK;
    const char *name = t->text + t->token.place.offset;
    const mst_name *found = mst_text_find(t, name, t->token.length);
    if (!found) return word_value(t, false, value) ? MUSTER_OK : refuse_name(t);
    if (!found->node)
        return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, t->token.place,
                               "several expressions of graph \"%s\" have the name %s: give the one that is meant with the text",
                               t->graph->name, mst_token_text(t, &t->token, text));
    if (mst_node_is_error(found->node)) return mst_error_restore(t->graph->status, t->graph->message);
    *value = (mst_text_value){.kind = MST_TEXT_EXPRESSION, .node = found->node};
    if (mst_node_is(found->node, MST_OPERATOR_number))
        *value = (mst_text_value){.kind = MST_TEXT_NUMBER, .number = found->node->values[0].number, .rest = found->node->values[0].integer};
    return MUSTER_OK;
}

/* ---- statements ---- */

/* a = ...: the name must be new. */
static muster_status read_target(mst_text *t) {
    char text[MST_TEXT_QUOTE];
    mst_text_value value;
    const char *next = mst_text_peek(t), *name = t->text + t->token.place.offset, *received = mst_token_text(t, &t->token, text);
    t->target.length = 0;
    if (t->token.kind != MST_TOKEN_NAME || *next != '=' || next[1] == '=') return MUSTER_OK;
    if (word_value(t, true, &value))
        return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, t->token.place, "expected a name, received %s", received);
    const mst_name *found = mst_names_find(&t->names, name, t->token.length);
    if (found && found->text >= t->text && found->text < t->text + t->length)
        return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, t->token.place, "%s is assigned twice", received);
    if (found || (!*t->inside && mst_names_find(&t->graph->names, name, t->token.length)))
        return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, t->token.place,
                               "expected a new name, received %s, which is an expression already", received);
    t->target = t->token;
    MUSTER_TRY(mst_text_next(t));
    return mst_text_next(t);
}

static muster_status read_statements(mst_text *t, muster_expr **result) {
    MUSTER_TRY(mst_text_next(t));
    do {
        MUSTER_TRY(read_target(t));
        MUSTER_TRY(mst_text_parse(t, result));
        if (t->target.length) MUSTER_TRY(mst_names_add(&t->names, t->text + t->target.place.offset, t->target.length, *result));
        if (t->token.kind == ';') MUSTER_TRY(mst_text_next(t));
    } while (t->token.kind != MST_TOKEN_END);
    return MUSTER_OK;
}

/* ---- the public functions ---- */

static muster_status text_open(mst_text *t, mst_graph *graph, const char *where, const char *text) {
    *t = (mst_text){.graph = graph, .where = where, .text = text};
    if (!text) return mst_error_null(where, "text", "an expression");
    const size_t length = strnlen(text, MST_TEXT_BYTES + 1);
    if (length > MST_TEXT_BYTES) return mst_error(MUSTER_UNSUPPORTED, "%s: text: expected at most 16 MiB, received more", where);
    t->length = (int32_t)length;
    t->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return t->locale ? MUSTER_OK : mst_out_of_memory(where, 0);
}

static muster_status text_give(mst_text *t, int32_t i, const char *name, const muster_expr *expression) {
    char what[32];
    snprintf(what, sizeof what, "names[%d]", (int)i);
    if (!name) return mst_error_null(t->where, what, "a name");
    if (!mst_text_is_name(name))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected a name of letters, digits, \"_\" and points, received \"%.60s\"",
                         t->where, what, name);
    if (mst_names_find(&t->names, name, (int32_t)strlen(name)))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected each name once, received \"%.60s\" again", t->where, what, name);
    snprintf(what, sizeof what, "expressions[%d]", (int)i);
    MUSTER_TRY(mst_expr_check(t->graph, expression, t->where, what));
    return mst_names_add(&t->names, name, (int32_t)strlen(name), (muster_expr *)(uintptr_t)expression);
}

static muster_status text_give_number(mst_text *t, int32_t i, const char *name, const muster_item *item) {
    const double number = item->kind == MUSTER_ITEM_INTEGER ? (double)item->integer : item->number;
    if (item->kind == MUSTER_ITEM_INTEGER && (item->integer > INT64_C(1) << 53 || item->integer < -(INT64_C(1) << 53)))
        return mst_error(MUSTER_UNSUPPORTED, "%s: \"%.60s\": expected an integer of at most 2^53, received %lld", t->where, name,
                         (long long)item->integer);
    muster_expr *node = mst_apply(t->graph, MST_OPERATOR_number, NULL, 0, (mst_graph_value[]){{.number = number}});
    return mst_node_is_error(node) ? mst_error_restore(t->graph->status, t->graph->message) : text_give(t, i, name, node);
}

/* A name and what it stands for. *more = false: there are no more. */
static muster_status text_give_item(mst_text *t, int32_t i, const muster_item *pair, bool *more) {
    const muster_item *name = &pair[0], *value = &pair[1];
    *more = name->kind != MUSTER_ITEM_END && !(name->kind == MUSTER_ITEM_EXPRESSION && !name->expression);
    if (!*more) return MUSTER_OK; /* NULL may end the list */
    if (name->kind != MUSTER_ITEM_NAME)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: names[%d]: expected a name, received %s", t->where, (int)i,
                         name->kind == MUSTER_ITEM_EXPRESSION ? "an expression" : "a number");
    if (value->kind == MUSTER_ITEM_NUMBER || value->kind == MUSTER_ITEM_INTEGER) return text_give_number(t, i, name->name, value);
    if (value->kind == MUSTER_ITEM_EXPRESSION) return text_give(t, i, name->name, value->expression);
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: expressions[%d]: expected an expression or a number for \"%.60s\", received %s",
                     t->where, (int)i, name->name ? name->name : "", value->kind == MUSTER_ITEM_NAME ? "a text" : "none");
}

static muster_status text_close(mst_text *t, muster_status status) {
    t->graph->origin = (mst_origin){0};
    mst_free(t->values.items);
    mst_free(t->elements.items);
    mst_free(t->pending);
    mst_names_free(&t->names);
    if (t->locale) freelocale(t->locale);
    return status == MUSTER_OK ? MUSTER_OK : mst_graph_keep(t->graph, status);
}

/* Parses, unless it has failed before. */
static muster_expr *text_finish(mst_text *t, muster_status status) {
    muster_expr *result = t->graph->error;
    if (status == MUSTER_OK) status = read_statements(t, &result);
    return text_close(t, status) == MUSTER_OK ? result : t->graph->error;
}

muster_expr *mst_text_of_operator(mst_graph *graph, const char *where, const char *text, const char *const *names,
                                  muster_expr *const *expressions, int32_t count) {
    mst_text t;
    const mst_origin origin = graph->origin;
    muster_status status = text_open(&t, graph, where, text);
    snprintf(t.inside, sizeof t.inside, "%s, ", where);
    for (int32_t i = 0; status == MUSTER_OK && i < count; i++) status = text_give(&t, i, names[i], expressions[i]);
    muster_expr *made = mst_number_where_in(text_finish(&t, status), MUSTER_DTYPE_NONE);
    graph->origin = origin;
    return made;
}

muster_status mst_text_of_rule(mst_graph *graph, const char *where, const char *text, muster_dtype real, const mst_text_names *given,
                               const mst_text_names *results) {
    mst_text t;
    const mst_origin origin = graph->origin;
    muster_status status = text_open(&t, graph, where, text);
    snprintf(t.inside, sizeof t.inside, "%s, ", where);
    t.real = real;
    for (int32_t i = 0; status == MUSTER_OK && i < given->count; i++) status = text_give(&t, i, given->names[i], given->expressions[i]);
    muster_expr *last = graph->error;
    if (status == MUSTER_OK) status = read_statements(&t, &last);
    for (int32_t i = 0; status == MUSTER_OK && i < results->count; i++) {
        const mst_name *found = mst_names_find(&t.names, results->names[i], (int32_t)strlen(results->names[i]));
        results->expressions[i] = found ? found->node : last;
    }
    (void)text_close(&t, status);
    graph->origin = origin;
    return status;
}

muster_expr *(muster_expr_parse)(muster_graph *handle, const char *text, ...) {
    static const char where[] = "muster_expr_parse";
    mst_text t;
    va_list pairs;
    if (mst_graph_check(handle, where) != MUSTER_OK) return NULL;
    muster_status status = text_open(&t, handle->graph, where, text);
    va_start(pairs, text);
    for (int32_t i = 0; status == MUSTER_OK; i++) {
        const char *name = va_arg(pairs, const char *);
        if (!name) break;
        status = text_give(&t, i, name, va_arg(pairs, muster_expr *));
    }
    va_end(pairs);
    return text_finish(&t, status);
}

muster_expr *muster_expr_parse_items(muster_graph *handle, const char *text, const muster_item *items) {
    static const char where[] = "muster_expr_parse";
    mst_text t;
    bool more = true;
    if (mst_graph_check(handle, where) != MUSTER_OK) return NULL;
    muster_status status = text_open(&t, handle->graph, where, text);
    if (status == MUSTER_OK && !items) status = mst_error_null(where, "items", "an array");
    for (int32_t i = 0; status == MUSTER_OK && more; i++) status = text_give_item(&t, i, &items[2 * (ptrdiff_t)i], &more);
    return text_finish(&t, status);
}

muster_expr *muster_expr_parse_named(muster_graph *handle, const char *text, const char *const *names, muster_expr *const *expressions,
                                     int32_t count) {
    static const char where[] = "muster_expr_parse_named";
    mst_text t;
    if (mst_graph_check(handle, where) != MUSTER_OK) return NULL;
    muster_status status = text_open(&t, handle->graph, where, text);
    if (status == MUSTER_OK && count < 0)
        status = mst_error(MUSTER_INVALID_ARGUMENT, "%s: count: expected 0 or more, received %d", where, (int)count);
    if (status == MUSTER_OK && count > 0 && (!names || !expressions))
        status = mst_error_null(where, names ? "expressions" : "names", names ? "expressions" : "names");
    for (int32_t i = 0; status == MUSTER_OK && i < count; i++) status = text_give(&t, i, names[i], expressions[i]);
    return text_finish(&t, status);
}
