/* The dtypes of results that differ from those of their operands, as NumPy's do: quotients of
 * integers are f64, sums of them have 64 bits, averages of them are f64; and `dtype=`, which asks
 * for another one. What the kernels cannot do at once is made of what they can: a sum in the wider
 * dtype, and a cast. */
#include "composite_private.h"

muster_dtype mst_dtype_wider(muster_dtype a, muster_dtype b) {
    const muster_dtype x = mst_dtype_compute(a), y = mst_dtype_compute(b);
    if (a == b) return a;
    return muster_dtype_size(x) >= muster_dtype_size(y) ? x : y;
}

bool mst_draft_float_asked(mst_draft *draft, int32_t attribute) {
    char text[128];
    const muster_dtype asked = (muster_dtype)draft->values[attribute].integer;
    if (asked == MUSTER_DTYPE_NONE || mst_dtype_is_float(asked)) return true;
    (void)mst_draft_refuse(draft, MUSTER_UNSUPPORTED, -1, "dtype: expected %s, received %s", mst_dtypes_text(text, MST_FLOAT_DTYPES),
                           muster_dtype_name(asked));
    return false;
}

muster_expr *mst_reduced(muster_expr *x, int32_t reduction, const mst_graph_value *axes, bool keepdims, muster_dtype dtype) {
    if (mst_node_is_error(x)) return x;
    return mst_apply(x->graph, reduction, &x, 1, (mst_graph_value[]){*axes, {.integer = keepdims}, {.integer = dtype}});
}

/* ---- sums and products ---- */

enum { AXIS, KEEPDIMS, DTYPE };

static bool is_integer(muster_dtype dtype) { return !mst_dtype_is_float(dtype); } /* or a truth value */

/* Returns whether one step can read elements of the dtype `from` and give their sum or product in
 * the dtype `to`. */
static bool total_at_once(int32_t op, muster_dtype from, muster_dtype to) {
    if (mst_dtype_is_float(from)) return mst_dtype_is_float(to) && mst_dtype_upcasts(from, to);
    if (to == MUSTER_BOOL) return from == MUSTER_BOOL && op == MST_OPERATOR_prod;
    /* i64 holds the sums of up to 32 bits */
    return is_integer(to) || (to == MUSTER_F64 && (op == MST_OPERATOR_prod || muster_dtype_size(from) == 8));
}

/* The sum of truth values is true where any element is not 0; the product, where all are not 0. */
static muster_expr *total_of_truths(mst_draft *draft, bool keepdims) {
    const mst_graph_value *axes = &draft->values[AXIS];
    muster_expr *x = X->type.dtype == MUSTER_BOOL ? X : E(not_equal, X, NUMBER(0));
    if (draft->op->id == MST_OPERATOR_prod) return mst_reduced(x, MST_OPERATOR_prod, axes, keepdims, MUSTER_BOOL);
    return mst_apply(draft->graph, MST_OPERATOR_any, &x, 1, (mst_graph_value[]){*axes, {.integer = keepdims}});
}

static muster_expr *total_in(mst_draft *draft, muster_dtype dtype) {
    const muster_dtype from = X->type.dtype;
    const mst_graph_value *axes = &draft->values[AXIS];
    const bool keepdims = draft->values[KEEPDIMS].integer != 0;
    muster_dtype wide = MUSTER_F64;
    if (dtype == MUSTER_BOOL) return total_of_truths(draft, keepdims);
    if (mst_dtype_is_float(from) && mst_dtype_is_float(dtype)) wide = mst_dtype_wider(from, dtype);
    if (is_integer(from) && draft->op->id == MST_OPERATOR_sum && muster_dtype_size(from) < 8) wide = MUSTER_DTYPE_NONE;
    return mst_cast_to(mst_reduced(X, draft->op->id, axes, keepdims, wide), dtype);
}

/* The attributes of the draft, checked; its dtype is NONE if it is the operation's own. */
static bool reduction_read(mst_draft *draft, muster_dtype usual) {
    uint32_t mask;
    if (mst_draft_dtype(draft, 0, draft->op->dtypes) != MUSTER_OK || mst_draft_flag(draft, KEEPDIMS) != MUSTER_OK ||
        mst_draft_axes(draft, AXIS, &mask) != MUSTER_OK)
        return false;
    if (draft->values[DTYPE].integer == usual) draft->values[DTYPE].integer = MUSTER_DTYPE_NONE;
    return true;
}

muster_expr *mst_expand_total(mst_draft *draft) {
    const muster_dtype from = X->type.dtype, usual = mst_dtype_summed(from);
    if (!reduction_read(draft, usual)) return draft->graph->error;
    const muster_dtype dtype = draft->values[DTYPE].integer ? (muster_dtype)draft->values[DTYPE].integer : usual;
    if (total_at_once(draft->op->id, from, dtype)) return mst_expand_keepdims(draft);
    return total_in(draft, dtype);
}

/* ---- averages ---- */

/* The average of integers. Those of up to 32 bits are summed exactly in 64 bits and divided once.
 * The sum of 64-bit integers may need more bits, so it is computed in f64. */
static muster_expr *mean_of_integers(mst_draft *draft) {
    const mst_graph_value *axes = &draft->values[AXIS];
    const bool keepdims = draft->values[KEEPDIMS].integer != 0, narrow = muster_dtype_size(X->type.dtype) < 8;
    muster_expr *sum = mst_reduced(X, MST_OPERATOR_sum, axes, keepdims, narrow ? MUSTER_DTYPE_NONE : MUSTER_F64);
    return E(divide, mst_cast_to(sum, MUSTER_F64), mst_extent(X, mst_axes_mask(axes, X->type.ndim), MUSTER_F64));
}

muster_expr *mst_expand_mean(mst_draft *draft) {
    const muster_dtype from = X->type.dtype;
    if (!reduction_read(draft, is_integer(from) ? MUSTER_F64 : from) || !mst_draft_float_asked(draft, DTYPE)) return draft->graph->error;
    const muster_dtype asked = (muster_dtype)draft->values[DTYPE].integer;
    if (is_integer(from)) {
        muster_expr *mean = mean_of_integers(draft);
        return asked ? mst_cast_to(mean, asked) : mean;
    }
    if (!asked || mst_dtype_upcasts(from, asked)) return mst_expand_keepdims(draft);
    return mst_cast_to(
        mst_reduced(X, MST_OPERATOR_mean, &draft->values[AXIS], draft->values[KEEPDIMS].integer != 0, mst_dtype_wider(from, asked)), asked);
}

/* ---- quotients ---- */

enum { QUOTIENT_DTYPE };

/* True if all operands that have a dtype are integers or truth values. */
static bool all_integers(const mst_draft *draft) {
    bool found = false;
    for (int32_t i = 0; i < draft->count; i++) {
        const muster_dtype dtype = draft->inputs[i]->type.dtype;
        if (mst_dtype_is_float(dtype)) return false;
        found = found || dtype != MUSTER_DTYPE_NONE;
    }
    return found;
}

static muster_expr *in_dtype(muster_expr *x, muster_dtype dtype) { return mst_node_is(x, MST_OPERATOR_number) ? x : mst_cast_to(x, dtype); }

muster_expr *mst_expand_divide(mst_draft *draft) {
    const muster_dtype asked = (muster_dtype)draft->values[QUOTIENT_DTYPE].integer;
    muster_dtype dtype = MUSTER_F64;
    if (!mst_draft_float_asked(draft, QUOTIENT_DTYPE)) return draft->graph->error;
    draft->values[QUOTIENT_DTYPE].integer = MUSTER_DTYPE_NONE;
    if (!all_integers(draft)) {
        if (!asked) return NULL;
        if (mst_draft_unify(draft, 0, &dtype) != MUSTER_OK) return draft->graph->error;
        dtype = mst_dtype_wider(dtype, asked);
    }
    muster_expr *quotient = E(divide, in_dtype(X, dtype), in_dtype(Y, dtype));
    return mst_cast_to(quotient, asked ? asked : dtype);
}
