/* Logarithms of sums of powers, without overflow. */
#include "composite_private.h"

#include <math.h>

static double number_sum(double a, double b, double base) {
    const double high = a > b || isnan(a) ? a : b, low = a > b || isnan(a) ? b : a;
    return high == low && isinf(high) ? high : high + log1p(exp((low - high) * base)) / base;
}

/* log(e^(a s) + e^(b s)) / s, with s the logarithm of the base. The larger of a and b, and a
 * correction by their distance: both parts have the gradient that they should, where a and b are
 * equal, too, which that of `maximum` has not. Equal infinities have no distance. */
static muster_expr *log_of_sum(mst_draft *draft, double base) {
    muster_dtype dtype;
    double numbers[2];
    if (mst_draft_numbers(draft, numbers))
        return mst_apply(draft->graph, MST_OPERATOR_number, NULL, 0,
                         (mst_graph_value[]){{.number = number_sum(numbers[0], numbers[1], base)}});
    if (mst_draft_unify(draft, 0, &dtype) != MUSTER_OK) return draft->graph->error;
    const muster_dtype wide = mst_dtype_compute(dtype);
    muster_expr *a = mst_cast_to(X, wide), *b = mst_cast_to(Y, wide);
    muster_expr *second = E(less, a, b), *high = E(where, second, b, a), *low = E(where, second, a, b);
    muster_expr *same = E(logical_and, E(equal, high, low), E(isinf, high));
    muster_expr *distance = E(where, same, mst_number(draft->graph, wide, -INFINITY), E(subtract, low, high));
    if (base != 1) distance = E(multiply, distance, mst_number(draft->graph, wide, base));
    muster_expr *correction = E(softplus, distance);
    if (base != 1) correction = E(multiply, correction, mst_number(draft->graph, wide, 1 / base));
    muster_expr *sum = E(add, high, correction);
    return mst_node_is_error(sum) ? sum : mst_cast_to(sum, dtype);
}

static muster_expr *expand_logaddexp(mst_draft *draft) { return log_of_sum(draft, 1); }
static muster_expr *expand_logaddexp2(mst_draft *draft) { return log_of_sum(draft, 0.6931471805599453 /* log(2) */); }

#define LOG_OF_SUM(op_name, text)                                                                                                     \
    const mst_operator mst_operator_##op_name = {MST_ANY_OPERATOR(op_name, text), .operands = {"a", "b"}, .dtypes = MST_FLOAT_DTYPES, \
                                                 .expand = expand_##op_name, .infer = mst_draft_composite}
LOG_OF_SUM(logaddexp, "log(exp(a) + exp(b)) without overflow");
LOG_OF_SUM(logaddexp2, "log2(2^a + 2^b) without overflow");

static muster_expr *expand_log_sigmoid(mst_draft *draft) {
    double number[2];
    if (!mst_draft_numbers(draft, number) && mst_draft_dtype(draft, 0, draft->op->dtypes) != MUSTER_OK) return draft->graph->error;
    return E(negative, E(softplus, E(negative, X)));
}

const mst_operator mst_operator_log_sigmoid = {MST_ANY_OPERATOR(log_sigmoid, "log(sigmoid(x)) = -log(1 + exp(-x)), without overflow"),
                                               .operands = {"x"}, .dtypes = MST_FLOAT_DTYPES, .expand = expand_log_sigmoid,
                                               .infer = mst_draft_composite};
