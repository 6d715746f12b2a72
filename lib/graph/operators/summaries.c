/* Reductions that are made of others: deviations, norms, questions about all elements. */
#include "composite_private.h"

#include <math.h>

enum { AXIS, KEEPDIMS };
#define AXIS_ATTRIBUTES \
    {"axis", MST_VALUE_LIST}, { "keepdims", MST_VALUE_INTEGER }

static muster_expr *reduced(mst_draft *draft, int32_t reduction, muster_expr *x, const mst_graph_value *axes) {
    return mst_apply(draft->graph, reduction, &x, 1, axes);
}

/* Refuses here what the reductions would refuse, so that messages name the operation that the
 * program wrote. */
static bool operand_fits(mst_draft *draft, int32_t axes) {
    uint32_t mask;
    return mst_draft_dtype(draft, 0, draft->op->dtypes) == MUSTER_OK && mst_draft_axes(draft, axes, &mask) == MUSTER_OK &&
           mst_draft_flag(draft, axes + 1) == MUSTER_OK;
}

muster_expr *mst_root(mst_draft *draft, muster_expr *x) {
    muster_expr *zero = mst_number(draft->graph, x->type.dtype, 0), *one = mst_number(draft->graph, x->type.dtype, 1);
    muster_expr *none = E(equal, x, zero);
    return E(where, none, zero, E(sqrt, E(where, none, one, x)));
}

/* The squares may be larger than a dtype of 16 bits holds, though their root is not. */
static muster_expr *expand_std(mst_draft *draft) {
    const muster_dtype dtype = X->type.dtype;
    if (!operand_fits(draft, AXIS)) return draft->graph->error;
    return mst_cast_to(mst_root(draft, reduced(draft, MST_OPERATOR_var, mst_cast_to(X, mst_dtype_compute(dtype)), draft->values)), dtype);
}

const mst_operator mst_operator_std = {MST_ANY_OPERATOR(std, "the square root of var; the gradient where it is 0 is 0"),
                                       .operands = {"x"},
                                       .attributes = {AXIS_ATTRIBUTES},
                                       .dtypes = MST_FLOAT_DTYPES,
                                       .expand = expand_std,
                                       .infer = mst_draft_composite};

/* x ** exponent, for x from 0 on. Where its gradient at 0 would be infinite, it is taken as 0. */
static muster_expr *power_of(mst_draft *draft, muster_expr *x, double exponent) {
    muster_expr *by = mst_number(draft->graph, x->type.dtype, exponent);
    if (exponent >= 1) return E(power, x, by);
    muster_expr *none = E(equal, x, mst_number(draft->graph, x->type.dtype, 0));
    muster_expr *powers = E(power, E(where, none, mst_number(draft->graph, x->type.dtype, 1), x), by);
    return E(where, none, mst_number(draft->graph, x->type.dtype, pow(0, exponent)), powers);
}

/* In a dtype that holds the square of every x: of all elements in f64, too. */
static muster_expr *euclidean_norm(mst_draft *draft, const mst_graph_value *axes) {
    const muster_dtype dtype = X->type.dtype, wide = dtype == MUSTER_F16 ? MUSTER_F32 : MUSTER_F64;
    const uint32_t mask = mst_axes_mask(axes, X->type.ndim);
    if (mask != (1u << X->type.ndim) - 1) {
        muster_expr *squares = E(square, mst_cast_to(X, wide));
        return mst_cast_to(mst_root(draft, reduced(draft, MST_OPERATOR_sum, squares, axes)), dtype);
    }
    muster_expr *norm = mst_cast_to(mst_root(draft, E(sum_squares, mst_cast_to(X, mst_dtype_compute(dtype)))), dtype);
    return axes[1].integer ? mst_keep_axes(norm, &X->type, mask) : norm;
}

static muster_expr *expand_norm(mst_draft *draft) {
    const double ord = draft->values[0].number;
    const mst_graph_value *axes = draft->values + 1;
    const muster_dtype dtype = X->type.dtype;
    if (!operand_fits(draft, 1)) return draft->graph->error;
    if (isnan(ord) || ord == 0) {
        (void)mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "ord: expected a number other than 0, received %g", ord);
        return draft->graph->error;
    }
    if (ord == 2) return euclidean_norm(draft, axes);
    if (ord == 1) return reduced(draft, MST_OPERATOR_sum, E(absolute, X), axes);
    if (isinf(ord)) return reduced(draft, ord > 0 ? MST_OPERATOR_max : MST_OPERATOR_min, E(absolute, X), axes);
    muster_expr *sizes = E(absolute, mst_cast_to(X, MUSTER_F64)); /* powers of f32 are not in its range */
    if (mst_node_is_error(sizes)) return sizes;
    muster_expr *sum = reduced(draft, MST_OPERATOR_sum, power_of(draft, sizes, ord), axes);
    return mst_node_is_error(sum) ? sum : mst_cast_to(power_of(draft, sum, 1 / ord), dtype);
}

const mst_operator mst_operator_norm = {
    MST_ANY_OPERATOR(norm, "sum(|x| ** ord) ** (1 / ord) of the elements along the axes, or of all; infinity: the largest |x|"),
    .operands = {"x"},
    .attributes = {{"ord", MST_VALUE_NUMBER, .number = 2}, AXIS_ATTRIBUTES},
    .dtypes = MST_FLOAT_DTYPES,
    .expand = expand_norm,
    .infer = mst_draft_composite};

/* Products of truth values: of no elements, too, where the smallest and the largest have no
 * value. */
static muster_expr *expand_all(mst_draft *draft) {
    if (!operand_fits(draft, AXIS)) return draft->graph->error;
    return reduced(draft, MST_OPERATOR_prod, X->type.dtype == MUSTER_BOOL ? X : E(not_equal, X, NUMBER(0)), draft->values);
}

static muster_expr *expand_any(mst_draft *draft) {
    if (!operand_fits(draft, AXIS)) return draft->graph->error;
    return E(logical_not, reduced(draft, MST_OPERATOR_prod, E(logical_not, X), draft->values));
}

static const char step_function[] = "its result changes in steps";
#define QUESTION(op_name, text)                                                                                 \
    const mst_operator mst_operator_##op_name = {MST_ANY_OPERATOR(op_name, text), .operands = {"x"},            \
                                                 .attributes = {AXIS_ATTRIBUTES}, .dtypes = MST_ALL_DTYPES,     \
                                                 .expand = expand_##op_name,      .infer = mst_draft_composite, \
                                                 .no_gradient = step_function}
QUESTION(any, "is an element along the axes, or any of all, not 0? false of none");
QUESTION(all, "are the elements along the axes, or all, not 0? true of none");
