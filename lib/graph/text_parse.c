/* One-line texts: an operator-precedence parser, with Python's precedence. What waits for its end
 * lies on a stack of its own, not on that of the thread, which may be small. */
#include "text_private.h"

#include <string.h>

/* The left binding says when an operation ends those before it, the right one (of pending
 * operations) what may still come first. ** is right associative, and a sign to its left comes
 * after it. */
enum { BIND_COMPARE = 1, BIND_SHIFT, BIND_ADD, BIND_MULTIPLY, BIND_SIGN, BIND_POWER_RIGHT, BIND_POWER };
static const struct {
    int32_t token, binding, op;
} infix[] = {
    {MST_TOKEN_LEFT_SHIFT, BIND_SHIFT, MST_OPERATOR_left_shift},
    {MST_TOKEN_RIGHT_SHIFT, BIND_SHIFT, MST_OPERATOR_right_shift},
    {'+', BIND_ADD, MST_OPERATOR_add},
    {'-', BIND_ADD, MST_OPERATOR_subtract},
    {'*', BIND_MULTIPLY, MST_OPERATOR_multiply},
    {'/', BIND_MULTIPLY, MST_OPERATOR_divide},
    {'@', BIND_MULTIPLY, MST_OPERATOR_matmul},
    {'%', BIND_MULTIPLY, MST_OPERATOR_remainder},
    {MST_TOKEN_FLOOR_DIVIDE, BIND_MULTIPLY, MST_OPERATOR_floor_divide},
    {MST_TOKEN_POWER, BIND_POWER, MST_OPERATOR_power},
    {'<', BIND_COMPARE, MST_OPERATOR_less},
    {'>', BIND_COMPARE, MST_OPERATOR_greater},
    {MST_TOKEN_EQUAL, BIND_COMPARE, MST_OPERATOR_equal},
    {MST_TOKEN_NOT_EQUAL, BIND_COMPARE, MST_OPERATOR_not_equal},
    {MST_TOKEN_LESS_EQUAL, BIND_COMPARE, MST_OPERATOR_less_equal},
    {MST_TOKEN_GREATER_EQUAL, BIND_COMPARE, MST_OPERATOR_greater_equal},
};
enum { INFIX = sizeof infix / sizeof *infix };

static mst_pending *top(const mst_text *t) { return t->pending_count ? &t->pending[t->pending_count - 1] : NULL; }
static bool is_frame(const mst_pending *pending) { return pending && pending->kind >= MST_PENDING_PAREN; }
static bool in_index(const mst_text *t) { return t->pending_count && top(t)->kind == MST_PENDING_INDEX; }
/* Does it count as a level of nesting? */
static bool nests(const mst_pending *pending) { return pending->kind != MST_PENDING_BINARY || pending->binding == BIND_POWER_RIGHT; }

static muster_status push_pending(mst_text *t, mst_pending pending) {
    pending.place = pending.bracket = t->token.place;
    pending.base = pending.item = t->values.count;
    if (nests(&pending) && t->depth == MST_TEXT_DEPTH)
        return mst_text_refuse(t, MUSTER_UNSUPPORTED, pending.place, "expected at most %d levels of nesting, received more",
                               MST_TEXT_DEPTH);
    MUSTER_TRY(mst_grow((void **)&t->pending, &t->pending_capacity, t->pending_count + 1, sizeof *t->pending, t->where));
    t->pending[t->pending_count++] = pending;
    t->depth += nests(&pending);
    return mst_text_next(t);
}

static mst_pending pop_pending(mst_text *t) {
    const mst_pending pending = t->pending[--t->pending_count];
    t->depth -= nests(&pending);
    return pending;
}

static muster_status refuse_token(mst_text *t, const char *expected) {
    char text[MST_TEXT_QUOTE];
    return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, t->token.place, "expected %s, received %s", expected,
                           mst_token_text(t, &t->token, text));
}

/* ---- operations whose operands are there ---- */

/* -1.0 and 2 * 1.0 are as little integers as 1.0 is. */
static muster_status end_numbers(mst_text *t, mst_text_place place, muster_expr *made, bool floating) {
    MUSTER_TRY(mst_text_end(t, place, made));
    t->values.items[t->values.count - 1].floating = floating;
    return MUSTER_OK;
}

static muster_status apply_sign(mst_text *t, const mst_pending *sign) {
    const mst_text_value value = t->values.items[--t->values.count];
    muster_expr *x;
    MUSTER_TRY(mst_text_begin(t, sign->place));
    MUSTER_TRY(mst_text_expression(t, &value, &x));
    return end_numbers(t, sign->place, sign->op ? mst_apply(t->graph, sign->op->id, &x, 1, NULL) : x, value.floating);
}

static muster_status apply_binary(mst_text *t, const mst_pending *operation) {
    const mst_text_value b = t->values.items[--t->values.count], a = t->values.items[--t->values.count];
    muster_expr *x[2];
    MUSTER_TRY(mst_text_begin(t, operation->place));
    MUSTER_TRY(mst_text_expression(t, &a, &x[0]));
    MUSTER_TRY(mst_text_expression(t, &b, &x[1]));
    return end_numbers(t, operation->place, mst_apply(t->graph, operation->op->id, x, 2, NULL), a.floating || b.floating);
}

/* Applies the operations that bind at least as tightly; 0: all up to the frame. */
static muster_status reduce(mst_text *t, int32_t binding) {
    while (t->pending_count && !is_frame(top(t)) && top(t)->binding >= binding) {
        const mst_pending operation = pop_pending(t);
        MUSTER_TRY(operation.kind == MST_PENDING_SIGN ? apply_sign(t, &operation) : apply_binary(t, &operation));
    }
    return MUSTER_OK;
}

/* ---- frames ---- */

/* The bounds of a slice: the value after the last colon, if there is one. */
static muster_status slice_bound(mst_text *t, const mst_pending *index, mst_text_value *slice, int32_t part) {
    if (t->values.count != index->item + 2) return MUSTER_OK;
    const mst_text_value *bound = &t->values.items[--t->values.count];
    if (bound->kind == MST_TEXT_NOTHING || mst_text_integer(bound, &slice->parts[part])) return MUSTER_OK;
    char text[MST_TEXT_RECEIVED];
    return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, bound->place, "expected an integer as bound of a slice, received %s",
                           mst_text_received(bound, text));
}

static muster_status read_colon(mst_text *t) {
    mst_pending *index = top(t);
    if (index->colons == 2) return refuse_token(t, "\",\" or \"]\"");
    if (index->colons == 0) { /* the slice goes before its first bound */
        mst_text_value bound = {.kind = MST_TEXT_NOTHING, .place = t->token.place};
        const bool given = t->values.count > index->item;
        if (given) bound = t->values.items[--t->values.count];
        const mst_text_value slice = {.kind = MST_TEXT_SLICE, .place = bound.place, .parts = {MUSTER_NONE, MUSTER_NONE, MUSTER_NONE}};
        MUSTER_TRY(mst_text_push(t, &slice));
        if (given) MUSTER_TRY(mst_text_push(t, &bound));
    }
    MUSTER_TRY(slice_bound(t, index, &t->values.items[index->item], index->colons));
    index->colons++;
    return mst_text_next(t);
}

/* The value before a comma or the closing bracket is complete. */
static muster_status end_item(mst_text *t) {
    mst_pending *frame = top(t);
    mst_text_value *value = &t->values.items[t->values.count - 1];
    if (frame->kind == MST_PENDING_INDEX) {
        if (frame->colons) MUSTER_TRY(slice_bound(t, frame, &t->values.items[frame->item], frame->colons));
    } else if (frame->kind == MST_PENDING_CALL) {
        value->keyword = frame->keyword;
        value->keyword_length = frame->keyword_length;
        if (!frame->keyword_length && frame->item > frame->base && t->values.items[frame->item - 1].keyword_length)
            return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, value->place, "expected arguments without a keyword before those with one");
    } else if (value->kind == MST_TEXT_LIST && (frame->kind == MST_PENDING_LIST || t->token.kind == ',' || frame->commas)) {
        return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, value->place, "expected numbers or expressions in a list, received a list");
    }
    frame->item = t->values.count;
    frame->colons = frame->keyword_length = 0;
    return MUSTER_OK;
}

/* The frame's values become one value: a list. */
static muster_status close_list(mst_text *t, const mst_pending *frame) {
    const int32_t count = t->values.count - frame->base, first = t->elements.count;
    MUSTER_TRY(
        mst_grow((void **)&t->elements.items, &t->elements.capacity, (int64_t)first + count + 1, sizeof *t->elements.items, t->where));
    if (count) memcpy(t->elements.items + first, t->values.items + frame->base, (size_t)count * sizeof *t->elements.items);
    t->elements.count += count;
    t->values.count = frame->base;
    return mst_text_push(t, &(mst_text_value){.kind = MST_TEXT_LIST, .place = frame->place, .list = {first, count}});
}

static muster_status close_frame(mst_text *t) {
    const mst_pending frame = pop_pending(t);
    MUSTER_TRY(mst_text_next(t));
    switch (frame.kind) {
    case MST_PENDING_CALL:
        return mst_text_call(t, &frame);
    case MST_PENDING_INDEX:
        return mst_text_index(t, &frame);
    case MST_PENDING_PAREN:
        if (frame.commas == 0 && t->values.count == frame.base + 1) return MUSTER_OK;
        return close_list(t, &frame);
    default:
        return close_list(t, &frame);
    }
}

static int32_t closing(const mst_pending *frame) { return frame->kind == MST_PENDING_PAREN || frame->kind == MST_PENDING_CALL ? ')' : ']'; }

/* ---- where an operand begins ---- */

static muster_status push_operand(mst_text *t, mst_text_value value, bool *operand) {
    value.place = t->token.place;
    *operand = false;
    MUSTER_TRY(mst_text_push(t, &value));
    return mst_text_next(t);
}

static muster_status read_call(mst_text *t) {
    char name[64] = "", text[MST_TEXT_QUOTE], suggestion[MST_SUGGESTION];
    const mst_operator *op = NULL;
    const mst_token token = t->token;
    if (token.length < (int32_t)sizeof name) {
        memcpy(name, t->text + token.place.offset, (size_t)token.length);
        name[token.length] = 0;
        op = mst_operator_named(t->graph, name);
    }
    if (!op)
        return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, token.place, "unknown operation %s%s", mst_token_text(t, &token, text),
                               mst_operator_suggest(name, suggestion));
    MUSTER_TRY(mst_text_next(t));
    MUSTER_TRY(push_pending(t, (mst_pending){.kind = MST_PENDING_CALL, .op = op}));
    top(t)->place = token.place;
    return MUSTER_OK;
}

static muster_status read_operand_name(mst_text *t, bool *operand) {
    const char *next = mst_text_peek(t);
    mst_pending *frame = top(t);
    if (*next == '(') return read_call(t);
    const bool begins = frame && frame->kind == MST_PENDING_CALL && !frame->keyword_length && t->values.count == frame->item;
    if (*next != '=' || next[1] == '=' || !begins) {
        mst_text_value value;
        MUSTER_TRY(mst_text_name(t, &value));
        return push_operand(t, value, operand);
    }
    frame->keyword = t->token.place.offset;
    frame->keyword_length = t->token.length;
    MUSTER_TRY(mst_text_next(t));
    return mst_text_next(t);
}

/* A bracket or a comma where an operand could begin: f(), [1, 2,], x[1:], x[:, 0]. */
static muster_status read_early_end(mst_text *t, bool *operand) {
    mst_pending *frame = top(t);
    const bool empty = is_frame(frame) && t->values.count == frame->item && !frame->keyword_length;
    if (is_frame(frame) && frame->kind == MST_PENDING_INDEX && frame->colons && (t->token.kind == ']' || t->token.kind == ',')) {
        *operand = false; /* the slice is the value */
        return MUSTER_OK;
    }
    if (!empty || t->token.kind != closing(frame) || (frame->kind == MST_PENDING_INDEX && !frame->commas))
        return refuse_token(t, "an expression");
    *operand = false;
    return close_frame(t);
}

static muster_status read_operand(mst_text *t, bool *operand) {
    mst_text_value value = {.kind = MST_TEXT_NUMBER, .number = t->token.number, .rest = t->token.rest, .floating = t->token.floating};
    switch (t->token.kind) {
    case MST_TOKEN_NUMBER:
        return push_operand(t, value, operand);
    case MST_TOKEN_NAME:
        return read_operand_name(t, operand);
    case MST_TOKEN_STRING:
        value = (mst_text_value){.kind = MST_TEXT_STRING, .list = {t->token.place.offset + 1, t->token.length - 2}};
        return push_operand(t, value, operand);
    case '-':
        return push_pending(t, (mst_pending){.kind = MST_PENDING_SIGN, .binding = BIND_SIGN, .op = mst_operators[MST_OPERATOR_negative]});
    case '+':
        return push_pending(t, (mst_pending){.kind = MST_PENDING_SIGN, .binding = BIND_SIGN});
    case '(':
        return push_pending(t, (mst_pending){.kind = MST_PENDING_PAREN});
    case '[':
        return push_pending(t, (mst_pending){.kind = MST_PENDING_LIST});
    case MST_TOKEN_ELLIPSIS:
        value.kind = MST_TEXT_ELLIPSIS;
        return in_index(t) && t->values.count == top(t)->item ? push_operand(t, value, operand) : refuse_token(t, "an expression");
    case ':':
        return in_index(t) ? read_colon(t) : refuse_token(t, "an expression");
    default:
        return read_early_end(t, operand);
    }
}

/* ---- what follows an operand ---- */

static muster_status read_infix(mst_text *t, int32_t row, bool *operand) {
    const int32_t binding = infix[row].binding;
    MUSTER_TRY(reduce(t, binding + (binding == BIND_COMPARE))); /* a comparison before it stays, and is refused */
    if (binding == BIND_COMPARE && t->pending_count && !is_frame(top(t)))
        return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, t->token.place, "comparisons do not chain: put the first one in parentheses");
    *operand = true;
    return push_pending(t, (mst_pending){.kind = MST_PENDING_BINARY,
                                         .binding = binding == BIND_POWER ? BIND_POWER_RIGHT : binding,
                                         .op = mst_operators[infix[row].op]});
}

static muster_status read_transpose(mst_text *t) {
    const mst_text_place place = t->token.place;
    MUSTER_TRY(mst_text_next(t));
    if (t->token.kind != MST_TOKEN_NAME || !mst_token_is(t, &t->token, "T")) return refuse_token(t, "T after the point");
    const mst_text_value value = t->values.items[--t->values.count];
    muster_expr *x = value.node;
    if (value.kind != MST_TEXT_EXPRESSION)
        return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, place, "expected .T of an expression, received %s", mst_text_value_name(&value));
    MUSTER_TRY(mst_text_begin(t, place));
    MUSTER_TRY(mst_text_end(t, place, mst_apply(t->graph, MST_OPERATOR_transpose, &x, 1, NULL)));
    return mst_text_next(t);
}

static muster_status read_bracket(mst_text *t, bool *operand) {
    char text[MST_TEXT_QUOTE];
    const bool comma = t->token.kind == ',';
    MUSTER_TRY(reduce(t, 0));
    mst_pending *frame = top(t);
    if (!frame)
        return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, t->token.place, "%s stands outside of brackets",
                               mst_token_text(t, &t->token, text));
    if (!comma && t->token.kind != closing(frame))
        return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, t->token.place, "expected \"%c\" for the bracket of column %d, received %s",
                               (char)closing(frame), (int)frame->bracket.column + 1, mst_token_text(t, &t->token, text));
    MUSTER_TRY(end_item(t));
    if (!comma) return close_frame(t);
    frame->commas++;
    *operand = true;
    return mst_text_next(t);
}

static muster_status read_operation(mst_text *t, bool *operand) {
    for (int32_t i = 0; i < INFIX; i++)
        if (infix[i].token == t->token.kind) return read_infix(t, i, operand);
    switch (t->token.kind) {
    case '[':
        *operand = true;
        return push_pending(t, (mst_pending){.kind = MST_PENDING_INDEX});
    case '.':
        return read_transpose(t);
    case ',':
    case ')':
    case ']':
        return read_bracket(t, operand);
    case ':':
        MUSTER_TRY(reduce(t, 0));
        if (!in_index(t)) return refuse_token(t, "an operation");
        *operand = true;
        return read_colon(t);
    default:
        return refuse_token(t, "an operation");
    }
}

/* ---- an expression ---- */

muster_status mst_text_parse(mst_text *t, muster_expr **result) {
    bool operand = true;
    t->values.count = t->elements.count = 0;
    while (operand || (t->token.kind != MST_TOKEN_END && t->token.kind != ';'))
        MUSTER_TRY(operand ? read_operand(t, &operand) : read_operation(t, &operand));
    MUSTER_TRY(reduce(t, 0));
    if (t->pending_count) return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, top(t)->bracket, "the bracket is not closed");
    MUSTER_TRY(mst_text_begin(t, t->values.items[0].place));
    return mst_text_expression(t, &t->values.items[0], result);
}
