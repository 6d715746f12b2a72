/* The rules by which a node becomes a simpler one. All but those of stable.c give the same bits.
 * None groups additions or multiplications anew: (a + b) + c stays, since a + (b + c) is rounded
 * differently. None uses that a value is finite, or that 0 has no sign, but for the sum of one
 * element and that of parts side by side, which keep the sign of a 0. */
#include "rewrite_private.h"

#include <math.h>

#define X (node->inputs[0])
#define Y (node->inputs[1])

/* ---- constants ---- */

bool mst_constant_value(const muster_expr *node, double *value) {
    while (mst_node_is(node, MST_OPERATOR_broadcast_to) || mst_node_is(node, MST_OPERATOR_reshape) ||
           mst_node_is(node, MST_OPERATOR_transpose))
        node = node->inputs[0];
    if (!mst_node_is(node, MST_OPERATOR_full)) return false;
    *value = node->values[1].number;
    return true;
}

static bool is_negative_zero(double value) { return value == 0 && signbit(value); }

/* The value of a constant as its dtype holds it; false: a dtype whose arithmetic is not done
 * here. */
static bool held_value(const muster_expr *node, double *value) {
    if (!mst_constant_value(node, value)) return false;
    if (node->type.dtype == MUSTER_F32) *value = (double)(float)*value;
    return node->type.dtype == MUSTER_F32 || node->type.dtype == MUSTER_F64;
}

/* A number in the shape of the node, as a view. */
static muster_expr *constant_like(const muster_expr *node, double value) {
    return mst_broadcast_to(mst_number(node->graph, node->type.dtype, value), &node->type);
}

/* + - * / and the square root of f32 are the same when f64 computes them and rounds. */
static muster_expr *fold_constants(muster_expr *node) {
    double a, b = 0;
    if (node->input_count < 1 || node->input_count > 2 || !held_value(X, &a) || (node->input_count == 2 && !held_value(Y, &b))) return NULL;
    switch (node->op->id) {
    case MST_OPERATOR_add:
        return constant_like(node, a + b);
    case MST_OPERATOR_subtract:
        return constant_like(node, a - b);
    case MST_OPERATOR_multiply:
        return constant_like(node, a * b);
    case MST_OPERATOR_divide:
        return constant_like(node, a / b);
    case MST_OPERATOR_negative:
        return constant_like(node, -a);
    case MST_OPERATOR_square:
        return constant_like(node, a * a);
    case MST_OPERATOR_sqrt:
        return constant_like(node, sqrt(a));
    case MST_OPERATOR_reciprocal:
        return constant_like(node, 1 / a);
    case MST_OPERATOR_cast:
        return node->type.dtype == MUSTER_F32 || node->type.dtype == MUSTER_F64 ? constant_like(node, a) : NULL;
    default:
        return NULL;
    }
}

/* ---- operands that need not be repeated ---- */

/* `made` stands for a node and for its operand `past`, whose places in the program it keeps. */
static muster_expr *keep_places(muster_expr *made, const muster_expr *past) {
    if (!mst_node_is_error(made)) mst_node_inherit(made, past, false);
    return made;
}

/* These run on operands of any shapes that broadcast. */
static bool broadcasts(const muster_expr *node) {
    return node->op->elementwise && node->input_count > 1 && !mst_node_is(node, MST_OPERATOR_relu_gradient);
}

/* The operation can repeat a smaller operand itself, if another operand has the shape of the
 * result. So a constant becomes a number, and a repeated operand is taken as it was before. */
static muster_expr *drop_repetition(muster_expr *node) {
    muster_expr *inputs[3];
    double value;
    if (!broadcasts(node) || node->input_count > 3) return NULL;
    for (int32_t i = 0; i < node->input_count; i++) {
        muster_expr *input = node->inputs[i];
        bool fits = false;
        for (int32_t k = 0; k < node->input_count; k++) fits |= k != i && mst_same_dims(&node->inputs[k]->type, &node->type);
        if (!fits || input->type.ndim == 0) continue;
        for (int32_t k = 0; k < node->input_count; k++) inputs[k] = node->inputs[k];
        if (mst_constant_value(input, &value))
            inputs[i] = mst_number(node->graph, input->type.dtype, value);
        else if (mst_node_is(input, MST_OPERATOR_broadcast_to))
            inputs[i] = keep_places(input->inputs[0], input);
        else
            continue;
        mst_draft draft = {.graph = node->graph,
                           .op = node->op,
                           .inputs = inputs,
                           .count = node->input_count,
                           .values = (mst_graph_value *)(uintptr_t)node->values,
                           .types = {node->type}};
        return mst_node_is_error(inputs[i]) ? inputs[i] : mst_node_make(&draft);
    }
    return NULL;
}

/* ---- arithmetic ---- */

/* x in the shape of the node. */
static muster_expr *as_node(const muster_expr *node, muster_expr *x) { return mst_broadcast_to(x, &node->type); }

static muster_expr *rule_add(muster_expr *node) {
    for (int32_t i = 0; i < 2; i++) {
        double value;
        const bool has_zero = mst_constant_value(node->inputs[i], &value) && value == 0;
        if (has_zero && (is_negative_zero(value) || !mst_dtype_is_float(node->type.dtype))) return as_node(node, node->inputs[1 - i]);
    }
    if (mst_node_is(Y, MST_OPERATOR_negative)) return keep_places(MST_APPLY(node->graph, subtract, X, Y->inputs[0]), Y);
    if (mst_node_is(X, MST_OPERATOR_negative)) return keep_places(MST_APPLY(node->graph, subtract, Y, X->inputs[0]), X);
    return mst_sum_of_parts(node);
}

static muster_expr *rule_subtract(muster_expr *node) {
    double value;
    if (mst_constant_value(Y, &value) && value == 0 && !is_negative_zero(value)) return as_node(node, X);
    return mst_node_is(Y, MST_OPERATOR_negative) ? keep_places(MST_APPLY(node->graph, add, X, Y->inputs[0]), Y) : NULL;
}

static muster_expr *rule_multiply(muster_expr *node) {
    double value;
    for (int32_t i = 0; i < 2; i++)
        if (mst_constant_value(node->inputs[i], &value) && value == 1) return as_node(node, node->inputs[1 - i]);
    return X == Y ? MST_APPLY(node->graph, square, X) : NULL;
}

static muster_expr *rule_divide(muster_expr *node) {
    double value;
    return mst_constant_value(Y, &value) && value == 1 ? as_node(node, X) : NULL;
}

/* The square root is not among these: that of -0 is -0, but (-0) ** 0.5 is 0. */
static muster_expr *rule_power(muster_expr *node) {
    double value;
    if (!mst_constant_value(Y, &value) || !mst_same_dims(&X->type, &node->type)) return NULL;
    if (value == 1) return X;
    if (value == 2) return MST_APPLY(node->graph, square, X);
    return value == -1 ? MST_APPLY(node->graph, reciprocal, X) : NULL;
}

static muster_expr *rule_where(muster_expr *node) { return Y == node->inputs[2] ? as_node(node, Y) : NULL; }

/* A conversion to a dtype that holds every value of the first changes nothing for the next one. */
static muster_expr *rule_cast(muster_expr *node) {
    if (X->type.dtype == node->type.dtype) return X;
    if (!mst_node_is(X, MST_OPERATOR_cast) || !mst_dtype_upcasts(X->inputs[0]->type.dtype, X->type.dtype)) return NULL;
    return keep_places(mst_apply(node->graph, MST_OPERATOR_cast, X->inputs, 1, node->values), X);
}

/* ---- reductions and movements ---- */

static muster_expr *rule_reduction(muster_expr *node) {
    const uint32_t axes = (1u << X->type.ndim) - 1;
    uint32_t mask = node->values[0].count ? 0 : axes;
    for (int32_t i = 0; i < node->values[0].count; i++) mask |= 1u << node->values[0].list[i];
    for (int32_t d = 0; d < X->type.ndim; d++)
        if (mask >> d & 1 && X->type.dims[d] != MST_DIM_ONE) return NULL;
    const muster_dtype dtype = node->type.dtype;
    muster_expr *x = X;
    if (x->type.dtype != dtype) { /* a cast saturates where a sum wraps */
        if (!mst_dtype_upcasts(x->type.dtype, dtype)) return NULL;
        x = mst_apply(node->graph, MST_OPERATOR_cast, &x, 1, (mst_graph_value[]){{.integer = dtype}});
    }
    return mst_node_is_error(x) ? x : mst_reshape_to(x, node->type.ndim, node->type.dims);
}

static muster_expr *rule_transpose(muster_expr *node) {
    int64_t axes[MUSTER_MAX_DIMS];
    const bool twice = mst_node_is(X, MST_OPERATOR_transpose);
    bool same = true;
    for (int32_t d = 0; d < node->type.ndim; d++) {
        const int64_t axis = node->values[0].list[d];
        axes[d] = twice ? X->values[0].list[axis] : axis;
        same &= axes[d] == d;
    }
    if (same) return twice ? keep_places(X->inputs[0], X) : X;
    if (!twice) return NULL;
    return keep_places(
        mst_apply(node->graph, MST_OPERATOR_transpose, X->inputs, 1, (mst_graph_value[]){{.list = axes, .count = node->type.ndim}}), X);
}

static muster_expr *rule_reshape(muster_expr *node) {
    if (mst_same_dims(&X->type, &node->type)) return X;
    if (mst_node_is(X, MST_OPERATOR_reshape)) return keep_places(mst_reshape_to(X->inputs[0], node->type.ndim, node->type.dims), X);
    return mst_transposed_parts(node);
}

static muster_expr *rule_broadcast_to(muster_expr *node) {
    if (mst_same_dims(&X->type, &node->type)) return X;
    return mst_node_is(X, MST_OPERATOR_broadcast_to) ? keep_places(mst_broadcast_to(X->inputs[0], &node->type), X) : NULL;
}

/* A slice of everything, and a gradient of it, which is also padding by nothing. */
static muster_expr *rule_slice(muster_expr *node) {
    enum { START, STOP, STEP };
    bool everything = mst_same_dims(&X->type, &node->type);
    for (int32_t d = 0; everything && d < X->type.ndim; d++)
        everything = d < node->values[START].count && node->values[START].list[d] == 0 && d < node->values[STEP].count &&
                     node->values[STEP].list[d] == 1;
    return everything ? X : NULL;
}

/* ---- all of them ---- */

static muster_expr *simplify_by_operator(muster_expr *node) {
    switch (node->op->id) {
    case MST_OPERATOR_add:
        return rule_add(node);
    case MST_OPERATOR_subtract:
        return rule_subtract(node);
    case MST_OPERATOR_multiply:
        return rule_multiply(node);
    case MST_OPERATOR_divide:
        return rule_divide(node);
    case MST_OPERATOR_power:
        return rule_power(node);
    case MST_OPERATOR_negative:
        return mst_node_is(X, MST_OPERATOR_negative) ? keep_places(X->inputs[0], X) : NULL;
    case MST_OPERATOR_stop_gradient: /* the gradients are there already */
    case MST_OPERATOR_normalised:
    case MST_OPERATOR_normalised_rows:
        return X;
    case MST_OPERATOR_where:
        return rule_where(node);
    case MST_OPERATOR_cast:
        return rule_cast(node);
    case MST_OPERATOR_sum:
    case MST_OPERATOR_prod:
    case MST_OPERATOR_max:
    case MST_OPERATOR_min:
    case MST_OPERATOR_mean:
        return rule_reduction(node);
    case MST_OPERATOR_transpose:
        return rule_transpose(node);
    case MST_OPERATOR_reshape:
        return rule_reshape(node);
    case MST_OPERATOR_broadcast_to:
        return rule_broadcast_to(node);
    case MST_OPERATOR_slice:
    case MST_OPERATOR_slice_gradient:
        return rule_slice(node);
    case MST_OPERATOR_concatenate:
        return node->input_count == 1 ? X : NULL;
    default:
        return NULL;
    }
}

/* The places of all nodes between the node and x. */
static void keep_places_between(muster_expr *made, const muster_expr *node, const muster_expr *x) {
    for (int32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i]->id <= x->id || node->inputs[i]->input_count == 0) continue;
        mst_node_inherit(made, node->inputs[i], false);
        keep_places_between(made, node->inputs[i], x);
    }
}

static muster_expr *simplify_to_stable(muster_expr *node) {
    muster_expr *x, *made = mst_stable_form(node, &x);
    if (made && !mst_node_is_error(made)) keep_places_between(made, node, x);
    return made;
}

muster_expr *mst_simplify_node(muster_expr *node, void *context) {
    muster_expr *made = NULL;
    (void)context;
    if (node->input_count == 0 || !mst_node_is_known(node)) return NULL;
    if (node->op->elementwise) made = fold_constants(node);
    if (!made) made = simplify_by_operator(node);
    if (!made) made = simplify_to_stable(node);
    if (!made) made = drop_repetition(node);
    return made;
}
