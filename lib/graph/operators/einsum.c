/* einsum: sums of products by the letters of axes, as in NumPy. A letter that an operand has
 * twice is a diagonal; one that the result lacks is summed over. The axes for which "..." stands
 * have letters of their own, counted from the last one. Two operands become stacks of matrices:
 * axes that both and the result have, those of one, those summed over. More operands are
 * multiplied from left to right; what is between has the letters that a later operand or the
 * result has. */
#include "einsum_private.h"

#include <string.h>

static bool term_has(const term *t, int32_t letter) {
    for (int32_t d = 0; d < t->count; d++)
        if (t->letters[d] == letter) return true;
    return false;
}

static void term_drop(term *t, int32_t at) {
    t->count--;
    for (int32_t d = at; d < t->count; d++) t->letters[d] = t->letters[d + 1];
}

/* The operand without the axes of size 1 that others have in another size. */
static muster_expr *without_ones(const sum_of_products *s, muster_expr *x, term *t) {
    mst_dim dims[MUSTER_MAX_DIMS];
    int32_t kept = 0;
    const mst_type *type = &x->type;
    for (int32_t d = 0; d < type->ndim; d++) {
        if (type->dims[d] != s->sizes[t->letters[d]]) continue;
        dims[kept] = type->dims[d];
        t->letters[kept++] = t->letters[d];
    }
    t->count = kept;
    return kept == type->ndim ? x : mst_reshape_to(x, kept, dims);
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
    return mst_reduced(x, MST_OPERATOR_sum, MST_AXES(axes, count), false, x->type.dtype);
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
    return mst_reduced(products, MST_OPERATOR_sum, MST_AXES((int64_t[]){2}, 1), false, a->type.dtype);
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

/* The letters of a or b that the result or one of the operands from `later` on has. */
static term letters_between(const sum_of_products *s, const term *a, const term *b, int32_t later) {
    term made = {0};
    bool wanted[LETTERS] = {false}, seen[LETTERS] = {false};
    for (int32_t d = 0; d < s->out.count; d++) wanted[s->out.letters[d]] = true;
    for (int32_t i = later; i < s->draft->count; i++)
        for (int32_t d = 0; d < s->in[i].count; d++) wanted[s->in[i].letters[d]] = true;
    for (int32_t i = 0; i < a->count + b->count; i++) {
        const int32_t letter = i < a->count ? a->letters[i] : b->letters[i - a->count];
        if (wanted[letter] && !seen[letter] && made.count < 2 * MUSTER_MAX_DIMS) made.letters[made.count++] = letter;
        seen[letter] = true;
    }
    return made;
}

/* The product of what is made so far and the next operand. */
static muster_expr *product_with(const sum_of_products *s, muster_expr *x, term *t, int32_t next) {
    sum_of_products pair = {.draft = s->draft, .in = {*t, s->in[next]}, .operands = {x, s->operands[next]}};
    memcpy(pair.sizes, s->sizes, sizeof pair.sizes);
    pair.out = next + 1 == s->draft->count ? s->out : letters_between(s, t, &s->in[next], next + 1);
    *t = pair.out;
    if (pair.out.count > MUSTER_MAX_DIMS) {
        (void)mst_einsum_refuse(&pair, "at most 8 dimensions of the product of the first operands");
        return s->draft->graph->error;
    }
    for (int32_t i = 0; i < OPERANDS; i++) {
        pair.operands[i] = without_lonely(&pair, pair.operands[i], &pair.in[i], &pair.in[1 - i]);
        if (mst_node_is_error(pair.operands[i])) return s->draft->graph->error;
    }
    return product_of_two(&pair);
}

static muster_expr *expand_einsum(mst_draft *draft) {
    sum_of_products s = {.draft = draft};
    muster_dtype dtype;
    if (draft->count > TERMS) {
        (void)mst_draft_refuse(draft, MUSTER_UNSUPPORTED, -1, "x: expected at most %d operands, received %d", TERMS, (int)draft->count);
        return draft->graph->error;
    }
    if (mst_draft_unify(draft, 0, &dtype) != MUSTER_OK || !mst_einsum_read(&s)) return draft->graph->error;
    for (int32_t i = 0; i < draft->count; i++) {
        s.operands[i] = without_repeats(without_ones(&s, draft->inputs[i], &s.in[i]), &s.in[i]);
        if (mst_node_is_error(s.operands[i])) return draft->graph->error;
    }
    muster_expr *made = s.operands[0];
    term letters = s.in[0];
    if (draft->count == 1) made = without_lonely(&s, made, &letters, NULL);
    for (int32_t i = 1; i < draft->count && !mst_node_is_error(made); i++) made = product_with(&s, made, &letters, i);
    return mst_node_is_error(made) || draft->count > 1 ? made : in_order(made, &letters, &s.out);
}

const mst_operator mst_operator_einsum = {
    MST_ANY_OPERATOR(einsum, "sums of products by the letters of axes, as in NumPy, such as \"...ij,...jk->...ik\"; from left to right"),
    .operands = {"x", "..."},
    .attributes = {{"subscripts", MST_VALUE_TEXT, .required = true}},
    .dtypes = MST_NUMBER_DTYPES,
    .expand = expand_einsum,
    .infer = mst_draft_composite};
