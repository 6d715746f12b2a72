/* Forms with closer numbers. Each is mathematically the same; what it avoids is an overflow, or a
 * difference or logarithm of a number near 1 that has lost its digits. The gradient is taken of
 * these forms, since its numbers are closer, too; the pass that simplifies a graph uses them as
 * well. */
#include "rewrite_private.h"

static bool is_one(const muster_expr *node) {
    double value;
    return mst_constant_value(node, &value) && value == 1;
}

/* The operand that is added to the constant 1 of 1 + x or x + 1, in the shape of the sum; or
 * NULL. */
static muster_expr *added_to_one(const muster_expr *sum) {
    if (!mst_node_is(sum, MST_OPERATOR_add)) return NULL;
    muster_expr *other = is_one(sum->inputs[0]) ? sum->inputs[1] : is_one(sum->inputs[1]) ? sum->inputs[0] : NULL;
    return other && mst_same_dims(&other->type, &sum->type) ? other : NULL;
}

static bool moves(const muster_expr *node) { return mst_node_is(node, MST_OPERATOR_reshape) || mst_node_is(node, MST_OPERATOR_transpose); }

/* The movements between `from` and `to` again, on another value in the shape of `to`. */
static muster_expr *move_again(const muster_expr *from, const muster_expr *to, muster_expr *value) {
    enum { MOST = 4 };
    const muster_expr *chain[MOST];
    int32_t count = 0;
    for (; from != to; from = from->inputs[0]) chain[count++] = from;
    while (count-- && !mst_node_is_error(value)) {
        const muster_expr *move = chain[count];
        value = mst_node_is(move, MST_OPERATOR_reshape) ? mst_reshape_to(value, move->type.ndim, move->type.dims)
                                                        : mst_apply(value->graph, MST_OPERATOR_transpose, &value, 1, move->values);
    }
    return value;
}

static muster_expr *log_form(muster_expr *node, muster_expr **x) {
    mst_graph *graph = node->graph;
    muster_expr *y = node->inputs[0];
    for (int32_t i = 0; i < 4 && moves(y); i++) y = y->inputs[0];
    if (mst_node_is(y, MST_OPERATOR_softmax)) {
        *x = y->inputs[0];
        return move_again(node->inputs[0], y, mst_apply(graph, MST_OPERATOR_log_softmax, x, 1, y->values));
    }
    if (mst_node_is(y, MST_OPERATOR_sum) && mst_node_is(y->inputs[0], MST_OPERATOR_exp)) {
        *x = y->inputs[0]->inputs[0];
        return move_again(node->inputs[0], y,
                          mst_apply(graph, MST_OPERATOR_logsumexp, x, 1, (mst_graph_value[]){y->values[0], MST_NO_VALUE}));
    }
    y = node->inputs[0];
    if (mst_node_is(y, MST_OPERATOR_sigmoid)) {
        *x = y->inputs[0];
        return MST_APPLY(graph, negative, MST_APPLY(graph, softplus, MST_APPLY(graph, negative, *x)));
    }
    if (!(y = added_to_one(y))) return NULL;
    *x = mst_node_is(y, MST_OPERATOR_exp) ? y->inputs[0] : y;
    return mst_node_is(y, MST_OPERATOR_exp) ? MST_APPLY(graph, softplus, *x) : MST_APPLY(graph, log1p, *x);
}

/* numerator / denominator, where the numerator is 1 or exp(x). */
static muster_expr *sigmoid_form(const muster_expr *numerator, muster_expr *denominator, muster_expr **x) {
    mst_graph *graph = denominator->graph;
    muster_expr *power = added_to_one(denominator);
    if (!power || !mst_node_is(power, MST_OPERATOR_exp)) return NULL;
    *x = power->inputs[0];
    if (numerator == power) return MST_APPLY(graph, sigmoid, *x);
    if (numerator) return NULL;
    if (!mst_node_is(*x, MST_OPERATOR_negative)) return MST_APPLY(graph, sigmoid, MST_APPLY(graph, negative, *x));
    *x = (*x)->inputs[0];
    return MST_APPLY(graph, sigmoid, *x);
}

static muster_expr *one_over(muster_expr *denominator, muster_expr **x) {
    if (!mst_node_is(denominator, MST_OPERATOR_sqrt)) return sigmoid_form(NULL, denominator, x);
    *x = denominator->inputs[0];
    return MST_APPLY(denominator->graph, rsqrt, *x);
}

/* exp(x) - 1, exp(x) + -1 */
static muster_expr *difference_form(muster_expr *node, muster_expr **x) {
    const bool subtracts = mst_node_is(node, MST_OPERATOR_subtract);
    for (int32_t i = 0; i < (subtracts ? 1 : 2); i++) {
        double value;
        if (!mst_node_is(node->inputs[i], MST_OPERATOR_exp) || !mst_same_dims(&node->inputs[i]->type, &node->type)) continue;
        if (!mst_constant_value(node->inputs[1 - i], &value) || value != (subtracts ? 1 : -1)) continue;
        *x = node->inputs[i]->inputs[0];
        return MST_APPLY(node->graph, expm1, *x);
    }
    return NULL;
}

muster_expr *mst_stable_form(muster_expr *node, muster_expr **x) {
    if (!mst_dtype_is_float(node->type.dtype) || !mst_node_is_known(node)) return NULL;
    switch (node->op->id) {
    case MST_OPERATOR_log:
        return log_form(node, x);
    case MST_OPERATOR_log1p:
        if (!mst_node_is(node->inputs[0], MST_OPERATOR_exp)) return NULL;
        *x = node->inputs[0]->inputs[0];
        return MST_APPLY(node->graph, softplus, *x);
    case MST_OPERATOR_reciprocal:
        return one_over(node->inputs[0], x);
    case MST_OPERATOR_divide:
        if (!mst_same_dims(&node->inputs[1]->type, &node->type)) return NULL;
        return is_one(node->inputs[0]) ? one_over(node->inputs[1], x) : sigmoid_form(node->inputs[0], node->inputs[1], x);
    case MST_OPERATOR_subtract:
    case MST_OPERATOR_add:
        return difference_form(node, x);
    default:
        return NULL;
    }
}
