/* The parser of one-line texts. text.c: names and statements; text_parse.c: expressions, with a
 * stack of what is not finished; text_value.c: calls; text_index.c: indices; text_token.c: tokens
 * and messages. */
#ifndef MST_TEXT_PRIVATE_H
#define MST_TEXT_PRIVATE_H

#include "graph_private.h"

#include <locale.h>

/* A place of the text: bytes and characters before it. */
typedef struct mst_text_place {
    int32_t offset, column;
} mst_text_place;

/* Tokens of one character are that character. */
enum {
    MST_TOKEN_END = 0,
    MST_TOKEN_NUMBER = 256,
    MST_TOKEN_NAME,
    MST_TOKEN_STRING, /* with its quotes */
    MST_TOKEN_POWER,
    MST_TOKEN_FLOOR_DIVIDE,
    MST_TOKEN_EQUAL,
    MST_TOKEN_NOT_EQUAL,
    MST_TOKEN_LESS_EQUAL,
    MST_TOKEN_GREATER_EQUAL,
    MST_TOKEN_LEFT_SHIFT,
    MST_TOKEN_RIGHT_SHIFT,
    MST_TOKEN_ELLIPSIS
};
typedef struct mst_token {
    int32_t kind;
    int32_t length; /* in bytes */
    mst_text_place place;
    double number;
    int64_t rest;  /* of an integer: what f64 lacks */
    bool floating; /* with a point or an exponent */
} mst_token;

typedef enum mst_text_kind {
    MST_TEXT_EXPRESSION,
    MST_TEXT_NUMBER,
    MST_TEXT_TRUTH,    /* integer: 0, 1 */
    MST_TEXT_NOTHING,  /* None, newaxis */
    MST_TEXT_DTYPE,    /* integer */
    MST_TEXT_SIZE,     /* integer: rows, or a named size, as in a shape */
    MST_TEXT_LIST,     /* of elements: first, count */
    MST_TEXT_SLICE,    /* parts */
    MST_TEXT_ELLIPSIS, /* of an index */
    MST_TEXT_STRING,   /* its characters in the text: first, count */
} mst_text_kind;

typedef struct mst_text_value {
    mst_text_kind kind;
    mst_text_place place;
    int32_t keyword, keyword_length; /* of an argument that is given by keyword: its place in the text */
    int64_t rest;                    /* of a number: what f64 lacks of an integer */
    bool floating;                   /* a number that is written with a point or an exponent, no axis */
    union {
        muster_expr *node;
        double number;
        int64_t integer;
        struct {
            int32_t first, count;
        } list;
        int64_t parts[3]; /* start, stop, step; MUSTER_NONE: left out */
    };
} mst_text_value;

typedef struct mst_text_values {
    mst_text_value *items;
    int64_t capacity;
    int32_t count;
} mst_text_values;

/* What is not finished: operations that wait for their right operand, and frames, which wait for
 * their closing bracket. */
typedef enum mst_pending_kind {
    MST_PENDING_SIGN,
    MST_PENDING_BINARY,
    MST_PENDING_PAREN,
    MST_PENDING_LIST,
    MST_PENDING_CALL,
    MST_PENDING_INDEX
} mst_pending_kind;
typedef struct mst_pending {
    mst_pending_kind kind;
    int32_t binding; /* of operations: the next operation must bind tighter to come first */
    const mst_operator *op;
    mst_text_place place, bracket;
    int32_t base;                    /* frames: the number of values before theirs */
    int32_t item;                    /* frames: the number of values before the present item */
    int32_t keyword, keyword_length; /* of the present argument; length 0: none */
    int32_t commas, colons;          /* in the frame; in the present index */
} mst_pending;

enum { MST_TEXT_INSIDE = 100 };
typedef struct mst_text {
    mst_graph *graph;
    const char *where; /* the public function */
    const char *text;
    int32_t length;
    mst_text_place at; /* the end of the token */
    mst_token token;
    locale_t locale; /* "C", whose numbers have a point */
    mst_text_values values, elements;
    mst_pending *pending;
    int64_t pending_capacity;
    int32_t pending_count;
    int32_t depth;
    mst_token target; /* the name that the present statement gives to its value; length 0: none */
    mst_names names;  /* those given with the text, and those of its statements */
    /* Where the program applied an operator, if this is the operator's own text; messages about its
     * nodes begin with it. Such a text sees only the names that are given with it. "": any other
     * text. */
    char inside[MST_TEXT_INSIDE];
    muster_dtype real; /* of an update rule: what the word "real" stands for; MUSTER_DTYPE_NONE: any other text */
} mst_text;

enum { MST_TEXT_DEPTH = 256, MST_TEXT_BYTES = 16 << 20, MST_TEXT_LIST_MAX = 64, MST_TEXT_QUOTE = 128 };

/* ---- text.c ---- */

bool mst_token_is(const mst_text *t, const mst_token *token, const char *word);
/* Looks among the names that came with the text, then among those of the graph. */
const mst_name *mst_text_find(const mst_text *t, const char *name, int32_t length);
/* What the token, a name, stands for. */
muster_status mst_text_name(mst_text *t, mst_text_value *value);

/* The expression of an operator's text, in which names[i] stands for expressions[i]. where: such as
 * digits.c:41: muster_expr_swish. Returns the error node if it fails. */
muster_expr *mst_text_of_operator(mst_graph *graph, const char *where, const char *text, const char *const *names,
                                  muster_expr *const *expressions, int32_t count);

typedef struct mst_text_names {
    const char *const *names;
    muster_expr **expressions;
    int32_t count;
} mst_text_names;
/* The text of an update rule, as one of an operator: `given` are the names that it begins with, and
 * results->expressions become those that it has assigned to results->names; a name that it has not
 * assigned is its last statement. */
muster_status mst_text_of_rule(mst_graph *graph, const char *where, const char *text, muster_dtype real, const mst_text_names *given,
                               const mst_text_names *results);

/* ---- text_parse.c ---- */

/* The expression that begins with the token; the token becomes the one behind it. */
muster_status mst_text_parse(mst_text *t, muster_expr **result);

/* ---- text_token.c ---- */

muster_status mst_text_next(mst_text *t);
/* The first byte after the blanks that follow the token. */
const char *mst_text_peek(const mst_text *t);
bool mst_text_is_name(const char *text);
/* The bytes of the token, a name, with the points and segments behind it. */
int32_t mst_text_dotted(const mst_text *t);
/* Such as: "h @ w2 + b2", column 3. */
void mst_text_quote(const mst_text *t, mst_text_place place, char quote[MST_TEXT_QUOTE]);
/* Such as: "exp", or: the end of the text. */
const char *mst_token_text(const mst_text *t, const mst_token *token, char text[MST_TEXT_QUOTE]);
muster_status mst_text_refuse(mst_text *t, muster_status status, mst_text_place place, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- text_value.c ---- */

/* Nodes made from here on belong to this place of the text. */
muster_status mst_text_begin(mst_text *t, mst_text_place place);
/* The end of the operation: its result becomes a value. */
muster_status mst_text_end(mst_text *t, mst_text_place place, muster_expr *made);
muster_status mst_text_push(mst_text *t, const mst_text_value *value);
/* The value as an expression; a number becomes a node. */
muster_status mst_text_expression(mst_text *t, const mst_text_value *value, muster_expr **node);
bool mst_text_integer(const mst_text_value *value, int64_t *integer);
const char *mst_text_value_name(const mst_text_value *value);
enum { MST_TEXT_RECEIVED = 64 };
/* What a message says that was received where an integer was expected: a number by its value. */
const char *mst_text_received(const mst_text_value *value, char text[MST_TEXT_RECEIVED]);
/* The frame's values become the result of its operation. */
muster_status mst_text_call(mst_text *t, const mst_pending *frame);

/* ---- text_index.c ---- */

muster_status mst_text_index(mst_text *t, const mst_pending *frame);

#endif
