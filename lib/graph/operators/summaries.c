/* Reductions that are made of others: deviations, norms, questions about all elements. */
#include "composite_private.h"
#include "deviations_private.h"

#include <math.h>

enum { AXIS, KEEPDIMS, DTYPE, DDOF };
#define AXIS_ATTRIBUTES \
    {"axis", MST_VALUE_LIST}, { "keepdims", MST_VALUE_INTEGER }

/* axes[0] and axes[1] are AXIS_ATTRIBUTES. */
static muster_expr *reduced(int32_t reduction, muster_expr *x, const mst_graph_value *axes) {
    return mst_reduced(x, reduction, axes, axes[1].integer != 0, MUSTER_DTYPE_NONE);
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

/* The average of the squared distances from the average, or their sum divided by the number of
 * elements less ddof, but by 0 at least, in a dtype of at least 32 bits: a square may be more
 * than one of 16 bits holds, where the average, or its root, is not. *dtype becomes that of the
 * result. */
static muster_expr *wide_variance(mst_draft *draft, muster_dtype *dtype) {
    const muster_dtype from = X->type.dtype, usual = mst_dtype_is_float(from) ? from : MUSTER_F64;
    const muster_dtype asked = (muster_dtype)draft->values[DTYPE].integer;
    const int64_t ddof = draft->values[DDOF].integer;
    if (!operand_fits(draft, AXIS) || !mst_draft_float_asked(draft, DTYPE)) return draft->graph->error;
    if (ddof < 0 || ddof > INT32_MAX) {
        (void)mst_draft_refuse(draft, MUSTER_OUT_OF_RANGE, -1, "ddof: expected a number from 0 on, received %lld", (long long)ddof);
        return draft->graph->error;
    }
    *dtype = asked ? asked : usual;
    const mst_graph_value *axes = &draft->values[AXIS];
    const uint32_t mask = mst_axes_mask(axes, X->type.ndim);
    muster_expr *x = mst_cast_to(X, mst_dtype_is_float(from) ? mst_dtype_compute(from) : MUSTER_F64);
    muster_expr *sum = mst_deviation_sums_of(x, mst_mean_wide(X, axes), NULL, axes, MST_ABOUT_MEAN);
    if (mst_node_is_error(sum)) return sum;
    if (draft->values[KEEPDIMS].integer) sum = mst_keep_axes(sum, &X->type, mask);
    muster_expr *count = mst_extent(X, mask, MUSTER_F64), *zero = mst_number(draft->graph, MUSTER_F64, 0);
    if (ddof) count = E(maximum, E(subtract, count, mst_number(draft->graph, MUSTER_F64, (double)ddof)), zero);
    return E(divide, sum, count);
}

static muster_expr *expand_var(mst_draft *draft) {
    muster_dtype dtype = MUSTER_DTYPE_NONE;
    muster_expr *variance = wide_variance(draft, &dtype);
    return mst_cast_to(variance, dtype);
}

static muster_expr *expand_std(mst_draft *draft) {
    muster_dtype dtype = MUSTER_DTYPE_NONE;
    muster_expr *variance = wide_variance(draft, &dtype);
    return mst_node_is_error(variance) ? variance : mst_cast_to(mst_root(draft, variance), dtype);
}

#define DEVIATION(op_name, text)                                                                                                           \
    const mst_operator mst_operator_##op_name = {MST_ANY_OPERATOR(op_name, text),                                                          \
                                                 .operands = {"x"},                                                                        \
                                                 .attributes = {AXIS_ATTRIBUTES, {"dtype", MST_VALUE_DTYPE}, {"ddof", MST_VALUE_INTEGER}}, \
                                                 .dtypes = MST_ALL_DTYPES,                                                                 \
                                                 .expand = expand_##op_name,                                                               \
                                                 .infer = mst_draft_composite}
DEVIATION(var, "the average of the squared distances from the average, their sum divided by the number of elements less ddof; of integers "
               "and truth values f64; dtype: of the result");
DEVIATION(std, "the square root of var; the gradient where it is 0 is 0");

/* x ** exponent, for x from 0 on. Where its gradient at 0 would be infinite, it is taken as 0. */
static muster_expr *power_of(mst_draft *draft, muster_expr *x, double exponent) {
    muster_expr *by = mst_number(draft->graph, x->type.dtype, exponent);
    if (exponent >= 1) return E(power, x, by);
    muster_expr *none = E(equal, x, mst_number(draft->graph, x->type.dtype, 0));
    muster_expr *powers = E(power, E(where, none, mst_number(draft->graph, x->type.dtype, 1), x), by);
    return E(where, none, mst_number(draft->graph, x->type.dtype, pow(0, exponent)), powers);
}

/* In f64, which holds the square of every x. */
static muster_expr *euclidean_norm(mst_draft *draft, const mst_graph_value *axes) {
    const muster_dtype dtype = X->type.dtype;
    const uint32_t mask = mst_axes_mask(axes, X->type.ndim);
    if (mask != (1u << X->type.ndim) - 1) {
        muster_expr *sum = mst_deviation_sums_of(mst_cast_to(X, mst_dtype_compute(dtype)), mst_number(draft->graph, MUSTER_F64, 0), NULL,
                                                 axes, MST_ABOUT_ANY);
        if (mst_node_is_error(sum)) return sum;
        muster_expr *roots = mst_cast_to(mst_root(draft, sum), dtype);
        return axes[1].integer ? mst_keep_axes(roots, &X->type, mask) : roots;
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
    if (ord == 1) return reduced(MST_OPERATOR_sum, E(absolute, X), axes);
    if (isinf(ord)) return reduced(ord > 0 ? MST_OPERATOR_max : MST_OPERATOR_min, E(absolute, X), axes);
    muster_expr *sizes = E(absolute, mst_cast_to(X, MUSTER_F64)); /* powers of f32 are not in its range */
    if (mst_node_is_error(sizes)) return sizes;
    muster_expr *sum = reduced(MST_OPERATOR_sum, power_of(draft, sizes, ord), axes);
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
static muster_expr *truths(muster_expr *x, const mst_graph_value *axes) {
    return mst_reduced(x, MST_OPERATOR_prod, axes, axes[1].integer != 0, MUSTER_BOOL);
}

static muster_expr *expand_all(mst_draft *draft) {
    if (!operand_fits(draft, AXIS)) return draft->graph->error;
    return truths(X->type.dtype == MUSTER_BOOL ? X : E(not_equal, X, NUMBER(0)), draft->values);
}

static muster_expr *expand_any(mst_draft *draft) {
    if (!operand_fits(draft, AXIS)) return draft->graph->error;
    return E(logical_not, truths(E(logical_not, X), draft->values));
}

static const char step_function[] = "its result changes in steps";
#define QUESTION(op_name, text)                                                                                 \
    const mst_operator mst_operator_##op_name = {MST_ANY_OPERATOR(op_name, text), .operands = {"x"},            \
                                                 .attributes = {AXIS_ATTRIBUTES}, .dtypes = MST_ALL_DTYPES,     \
                                                 .expand = expand_##op_name,      .infer = mst_draft_composite, \
                                                 .no_gradient = step_function}
QUESTION(any, "is an element along the axes, or any of all, not 0? false of none");
QUESTION(all, "are the elements along the axes, or all, not 0? true of none");
