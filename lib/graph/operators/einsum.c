/* einsum: sums of products by the letters of axes, as in NumPy, for one or two operands. A letter
 * that an operand has twice is a diagonal; one that the result lacks is summed over. Two operands
 * become stacks of matrices: axes that both and the result have, those of one, those summed
 * over. */
#include "composite_private.h"

#include <string.h>

enum { LETTERS = 52, OPERANDS = 2 };

typedef struct term {
    int32_t count;
    int32_t letters[2 * MUSTER_MAX_DIMS]; /* 0 to 51 */
} term;

typedef struct sum_of_products {
    mst_draft *draft;
    term in[OPERANDS], out;
    int32_t uses[LETTERS];  /* in the text, to the left of the arrow */
    mst_dim sizes[LETTERS]; /* MST_DIM_NONE: no operand has the letter */
    muster_expr *operands[OPERANDS];
} sum_of_products;

/* ---- the text ---- */

static char letter_of(int32_t letter) { return (char)(letter < 26 ? 'A' + letter : 'a' + letter - 26); }

static bool refuse_text(sum_of_products *s, const char *expected) {
    const mst_graph_value *text = &s->draft->values[0];
    char received[MST_TEXT_ATTRIBUTE + 1];
    for (int32_t i = 0; i < text->count; i++) received[i] = (char)text->list[i];
    received[text->count] = 0;
    (void)mst_draft_refuse(s->draft, MUSTER_INVALID_ARGUMENT, -1, "subscripts: expected %s, received \"%s\"", expected, received);
    return false;
}

static bool read_letter(sum_of_products *s, term *to, int64_t c) {
    if (to->count == 2 * MUSTER_MAX_DIMS) return refuse_text(s, "at most 16 letters for each array");
    to->letters[to->count++] = (int32_t)(c >= 'a' ? c - 'a' + 26 : c - 'A');
    return true;
}

static bool read_subscripts(sum_of_products *s, bool *arrow) {
    const mst_graph_value *text = &s->draft->values[0];
    term *to = &s->in[0];
    int32_t terms = 1;
    *arrow = false;
    for (int32_t i = 0; i < text->count; i++) {
        const int64_t c = text->list[i];
        if (c == ' ') continue;
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
            if (!read_letter(s, to, c)) return false;
        } else if (c == ',' && !*arrow && terms < s->draft->count) {
            to = &s->in[terms++];
        } else if (c == '-' && !*arrow && i + 1 < text->count && text->list[i + 1] == '>') {
            *arrow = true;
            to = &s->out;
            i++;
        } else {
            return refuse_text(s, c == '.' ? "letters for all axes (\"...\" is not supported)"
                                           : "letters, one \",\" between two operands, and \"->\"");
        }
    }
    return terms == s->draft->count || refuse_text(s, "one list of letters for each operand");
}

/* Without an arrow the result has the letters that the text has once, in the order of the alphabet
 * (capital letters first, as in NumPy). */
static bool read_result(sum_of_products *s, bool arrow) {
    int32_t seen[LETTERS] = {0};
    for (int32_t i = 0; i < s->draft->count; i++)
        for (int32_t d = 0; d < s->in[i].count; d++) s->uses[s->in[i].letters[d]]++;
    for (int32_t letter = 0; !arrow && letter < LETTERS; letter++)
        if (s->uses[letter] == 1 && !read_letter(s, &s->out, letter_of(letter))) return false;
    for (int32_t d = 0; d < s->out.count; d++) {
        if (!s->uses[s->out.letters[d]]) return refuse_text(s, "a result whose letters the operands have");
        if (seen[s->out.letters[d]]++) return refuse_text(s, "a result that has each letter once");
    }
    return s->out.count <= MUSTER_MAX_DIMS || refuse_text(s, "a result of at most 8 dimensions");
}

/* ---- the operands ---- */

static bool read_sizes(sum_of_products *s) {
    char expected[MST_NODE_TEXT], text[MST_NODE_TEXT];
    for (int32_t letter = 0; letter < LETTERS; letter++) s->sizes[letter] = MST_DIM_NONE;
    for (int32_t i = 0; i < s->draft->count; i++) {
        const mst_type *type = &s->draft->inputs[i]->type;
        if (type->ndim != s->in[i].count) {
            (void)mst_draft_refuse(s->draft, MUSTER_SHAPE_MISMATCH, 0,
                                   "operand %d: expected %d dimension%s, one for each letter, received %s", (int)i, (int)s->in[i].count,
                                   s->in[i].count == 1 ? "" : "s", mst_type_text(s->draft->graph, type, text));
            return false;
        }
        for (int32_t d = 0; d < type->ndim; d++) {
            mst_dim *size = &s->sizes[s->in[i].letters[d]];
            if (*size == MST_DIM_NONE) *size = type->dims[d];
            if (*size == type->dims[d]) continue;
            (void)mst_dim_print(s->draft->graph, *size, expected, sizeof expected);
            (void)mst_draft_refuse(s->draft, MUSTER_SHAPE_MISMATCH, 0, "operand %d: expected size %s for \"%c\", received %s", (int)i,
                                   expected, letter_of(s->in[i].letters[d]), mst_type_text(s->draft->graph, type, text));
            return false;
        }
    }
    return true;
}

static bool term_has(const term *t, int32_t letter) {
    for (int32_t d = 0; d < t->count; d++)
        if (t->letters[d] == letter) return true;
    return false;
}

static void term_drop(term *t, int32_t at) {
    t->count--;
    for (int32_t d = at; d < t->count; d++) t->letters[d] = t->letters[d + 1];
}

/* The diagonal of two axes with one letter is a new last axis. */
static muster_expr *without_repeats(muster_expr *x, term *t) {
    for (int32_t first = 0; first < t->count; first++)
        for (int32_t second = first + 1; second < t->count; second++) {
            if (t->letters[first] != t->letters[second]) continue;
            const int32_t letter = t->letters[first];
            x = mst_apply(x->graph, MST_OPERATOR_diagonal, &x, 1,
                          (mst_graph_value[]){{.integer = 0}, {.integer = first}, {.integer = second}});
            if (mst_node_is_error(x)) return x;
            term_drop(t, second);
            term_drop(t, first);
            t->letters[t->count++] = letter;
            first = -1; /* from the beginning */
            break;
        }
    return x;
}

/* Sums over the letters that neither the result nor the other operand has. */
static muster_expr *without_lonely(const sum_of_products *s, muster_expr *x, term *t, const term *other) {
    int64_t axes[MUSTER_MAX_DIMS];
    int32_t count = 0, kept = 0;
    for (int32_t d = 0; d < t->count; d++) {
        if (!term_has(&s->out, t->letters[d]) && !(other && term_has(other, t->letters[d])))
            axes[count++] = d;
        else
            t->letters[kept++] = t->letters[d];
    }
    t->count = kept;
    if (!count) return x;
    return mst_apply(x->graph, MST_OPERATOR_sum, &x, 1, (mst_graph_value[]){{.list = axes, .count = count}, {.integer = 0}});
}

/* x with its axes in the order of the letters. */
static muster_expr *in_order(muster_expr *x, const term *have, const term *wanted) {
    int64_t axes[MUSTER_MAX_DIMS];
    for (int32_t d = 0; d < wanted->count; d++)
        for (int32_t from = 0; from < have->count; from++)
            if (have->letters[from] == wanted->letters[d]) axes[d] = from;
    return mst_transpose_to(x, axes);
}

/* ---- the product ---- */

enum { STACK, LEFT, RIGHT, SUMMED, GROUPS };

static bool group_size(const sum_of_products *s, const term *group, mst_dim *size) {
    *size = MST_DIM_ONE;
    for (int32_t d = 0; d < group->count && *size != MST_DIM_NONE; d++)
        *size = mst_dim_multiply(s->draft->graph, *size, s->sizes[group->letters[d]]);
    return *size != MST_DIM_NONE;
}

/* The operand as (groups[0] axes, groups[1] axes, groups[2] axes), each group one axis. */
static muster_expr *as_stack(const sum_of_products *s, int32_t operand, const term groups[GROUPS], const int32_t order[3]) {
    term wanted = {0};
    mst_dim dims[3];
    for (int32_t g = 0; g < 3; g++) {
        if (!group_size(s, &groups[order[g]], &dims[g])) return s->draft->graph->error;
        for (int32_t d = 0; d < groups[order[g]].count; d++) wanted.letters[wanted.count++] = groups[order[g]].letters[d];
    }
    muster_expr *x = in_order(s->operands[operand], &s->in[operand], &wanted);
    return mst_node_is_error(x) ? x : mst_reshape_to(x, 3, dims);
}

/* (stack, left, summed) times (stack, summed, right). Nothing to sum: elementwise; of integers,
 * which matmul does not take: elementwise, then a sum. */
static muster_expr *stack_product(mst_draft *draft, muster_expr *a, muster_expr *b, bool summed) {
    if (mst_node_is_error(a) || mst_node_is_error(b)) return draft->graph->error;
    if (!summed) return E(multiply, a, b);
    if (mst_dtype_is_float(a->type.dtype)) {
        if (a->type.dims[0] != MST_DIM_ONE) return E(matmul, a, b);
        return E(matmul, mst_reshape_to(a, 2, a->type.dims + 1), mst_reshape_to(b, 2, b->type.dims + 1));
    }
    const mst_dim *x = a->type.dims, *y = b->type.dims;
    muster_expr *products = E(multiply, mst_reshape_to(a, 4, (mst_dim[]){x[0], x[1], x[2], MST_DIM_ONE}),
                              mst_reshape_to(b, 4, (mst_dim[]){y[0], MST_DIM_ONE, y[1], y[2]}));
    return mst_apply(draft->graph, MST_OPERATOR_sum, &products, 1,
                     (mst_graph_value[]){{.list = (int64_t[]){2}, .count = 1}, {.integer = 0}});
}

static muster_expr *product_of_two(sum_of_products *s) {
    term groups[GROUPS] = {0}, made = {0};
    mst_dim dims[2 * MUSTER_MAX_DIMS];
    for (int32_t i = 0; i < OPERANDS; i++)
        for (int32_t d = 0; d < s->in[i].count; d++) {
            const int32_t letter = s->in[i].letters[d];
            const bool both = term_has(&s->in[1 - i], letter);
            if (both && i == 1) continue;
            term *group = &groups[!both ? (i == 0 ? LEFT : RIGHT) : term_has(&s->out, letter) ? STACK : SUMMED];
            group->letters[group->count++] = letter;
        }
    const bool summed = groups[SUMMED].count > 0;
    muster_expr *product = stack_product(s->draft, as_stack(s, 0, groups, (const int32_t[]){STACK, LEFT, SUMMED}),
                                         as_stack(s, 1, groups, (const int32_t[]){STACK, SUMMED, RIGHT}), summed);
    for (int32_t g = STACK; g <= RIGHT; g++)
        for (int32_t d = 0; d < groups[g].count; d++) {
            dims[made.count] = s->sizes[groups[g].letters[d]];
            made.letters[made.count++] = groups[g].letters[d];
        }
    if (mst_node_is_error(product)) return product;
    return in_order(mst_reshape_to(product, made.count, dims), &made, &s->out);
}

static muster_expr *expand_einsum(mst_draft *draft) {
    sum_of_products s = {.draft = draft};
    muster_dtype dtype;
    bool arrow;
    if (draft->count > OPERANDS) {
        (void)mst_draft_refuse(draft, MUSTER_UNSUPPORTED, -1, "x: expected one operand or two, received %d", (int)draft->count);
        return draft->graph->error;
    }
    if (mst_draft_unify(draft, 0, &dtype) != MUSTER_OK || !read_subscripts(&s, &arrow) || !read_result(&s, arrow) || !read_sizes(&s))
        return draft->graph->error;
    for (int32_t i = 0; i < draft->count; i++) {
        s.operands[i] = without_repeats(draft->inputs[i], &s.in[i]);
        if (mst_node_is_error(s.operands[i])) return draft->graph->error;
    }
    for (int32_t i = 0; i < draft->count; i++) {
        s.operands[i] = without_lonely(&s, s.operands[i], &s.in[i], draft->count == 2 ? &s.in[1 - i] : NULL);
        if (mst_node_is_error(s.operands[i])) return draft->graph->error;
    }
    return draft->count == 2 ? product_of_two(&s) : in_order(s.operands[0], &s.in[0], &s.out);
}

const mst_operator mst_operator_einsum = {
    MST_ANY_OPERATOR(einsum, "sums of products by the letters of axes, as in NumPy, such as \"bij,bjk->bik\"; one operand or two"),
    .operands = {"x", "..."},
    .attributes = {{"subscripts", MST_VALUE_TEXT, .required = true}},
    .dtypes = MST_NUMBER_DTYPES,
    .expand = expand_einsum,
    .infer = mst_draft_composite};
