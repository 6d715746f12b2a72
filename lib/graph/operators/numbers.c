/* Plain numbers: functions of them, a choice between two, and integer powers by one. */
#include "composite_private.h"

#include <math.h>

static muster_expr *plain(mst_graph *graph, mst_graph_value value) { return mst_apply(graph, MST_OPERATOR_number, NULL, 0, &value); }

/* ---- functions ---- */

/* The function of an integer that f64 does not hold, with all its digits. False: f64 serves for
 * this function. */
static bool function_of_large(int32_t id, const mst_graph_value *x, mst_graph_value *made) {
    *made = *x;
    switch (id) {
    case MST_OPERATOR_absolute:
        if (x->number < 0) *made = (mst_graph_value){.number = -x->number, .integer = -x->integer};
        return true;
    case MST_OPERATOR_floor:
    case MST_OPERATOR_ceil:
    case MST_OPERATOR_round:
    case MST_OPERATOR_trunc:
        return true;
    default:
        return false;
    }
}

muster_expr *mst_fold_function(mst_draft *draft) {
    double x[2], y = 0;
    mst_op_loop loop;
    mst_graph_value made;
    if (!mst_draft_numbers(draft, x)) return NULL;
    const mst_graph_value *value = &draft->inputs[0]->values[0];
    if (value->integer && function_of_large(draft->op->id, value, &made)) return plain(draft->graph, made);
    const muster_status status =
        draft->op->elementwise->loop((const muster_dtype[]){MUSTER_F64}, (const mst_op_value[]){{.integer = draft->op->operation}}, &loop);
    if (status != MUSTER_OK) {
        (void)mst_graph_keep(draft->graph, status);
        return draft->graph->error;
    }
    loop.run(loop.context, (char *const[]){(char *)x, (char *)&y}, (const int64_t[]){sizeof *x, sizeof y}, 1);
    return plain(draft->graph, (mst_graph_value){.number = y});
}

/* Shifts of two integers of 64 bits; the result is as large as it is. */
muster_expr *mst_fold_shift(mst_draft *draft) {
    double numbers[2];
    mst_wide x, by;
    if (!mst_draft_numbers(draft, numbers)) return NULL;
    for (int32_t i = 0; i < 2; i++)
        if (!mst_dtype_holds(MUSTER_I64, &draft->inputs[i]->values[0])) return mst_draft_number(draft, i, MUSTER_I64), draft->graph->error;
    (void)mst_value_integer(&draft->inputs[0]->values[0], &x);
    (void)mst_value_integer(&draft->inputs[1]->values[0], &by);
    if (draft->op->id == MST_OPERATOR_right_shift || by < 0) {
        const bool left = draft->op->id != MST_OPERATOR_right_shift;
        return plain(draft->graph, mst_value_of_integer(left ? 0 : x >> (by < 0 || by > 63 ? 63 : by)));
    }
    if (!x) by = 0;
    const double made = ldexp(numbers[0], by > 2000 ? 2000 : (int)by);
    if (fabs(made) > 0x1p63) return plain(draft->graph, (mst_graph_value){.number = made});
    return plain(draft->graph, mst_value_of_integer(x * ((mst_wide)1 << by)));
}

/* ---- integer powers ---- */

static bool is_integer(const muster_expr *x) { return MST_DTYPE_BIT(x->type.dtype) & MST_NUMBER_DTYPES & ~MST_FLOAT_DTYPES; }

/* By squaring. Each product wraps around, so that the power does. */
muster_expr *mst_integer_power(mst_draft *draft) {
    char text[MST_NODE_TEXT];
    mst_wide exponent;
    muster_expr *square = X, *power = NULL;
    if (!is_integer(X) && !is_integer(Y)) return NULL;
    if (!mst_node_is(Y, MST_OPERATOR_number) || !mst_value_integer(&Y->values[0], &exponent) || exponent < 0) {
        const bool number = mst_node_is(Y, MST_OPERATOR_number);
        (void)mst_draft_refuse(draft, MUSTER_UNSUPPORTED, 1,
                               "expected a plain number, an integer from 0 on, for powers of integers, received %s",
                               number ? mst_value_text(&Y->values[0], text) : mst_node_text(Y, NULL, text));
        return draft->graph->error;
    }
    for (; exponent; exponent >>= 1) {
        if (exponent & 1) power = power ? E(multiply, power, square) : square;
        if (exponent > 1) square = E(square, square);
    }
    return power ? power : E(ones_like, X);
}

/* ---- where(condition, 1, 0) ---- */

enum { DEPTH, MOST_DEPTH = 8 }; /* the attribute: how many of them are inside each other */

/* It has no dtype of its own, as a plain number has none: an operation makes of it what it takes
 * beside it. */
static muster_status infer_number_where(mst_draft *draft) { return mst_draft_broadcast(draft, &draft->types[0]); }

const mst_operator mst_operator_number_where = {
    MST_ANY_OPERATOR(number_where, "one of two plain numbers, which take the dtype of their neighbour"),
    .operands = {"condition", "a", "b"},
    .attributes = {{"depth", MST_VALUE_INTEGER}},
    .flags = MST_OPERATOR_HIDDEN,
    .infer = infer_number_where,
    .no_gradient = "it depends on a condition alone"};

/* -1: the node has a dtype. */
static int64_t depth_of(const muster_expr *node) {
    if (mst_node_is(node, MST_OPERATOR_number)) return 0;
    return mst_node_is(node, MST_OPERATOR_number_where) ? node->values[DEPTH].integer : -1;
}

muster_expr *mst_where_of_numbers(mst_draft *draft) {
    int64_t deepest = 0;
    for (int32_t i = 1; i < draft->count; i++) {
        const int64_t depth = depth_of(draft->inputs[i]);
        if (depth < 0) return NULL;
        deepest = depth > deepest ? depth : deepest;
    }
    if (X->type.dtype != MUSTER_BOOL) return NULL; /* which where refuses */
    return mst_apply(draft->graph, MST_OPERATOR_number_where, draft->inputs, 3, (mst_graph_value[]){{.integer = deepest + 1}});
}

static bool has_integers(const muster_expr *node) {
    mst_wide integer;
    if (mst_node_is(node, MST_OPERATOR_number)) return mst_value_integer(&node->values[0], &integer);
    return has_integers(node->inputs[1]) && has_integers(node->inputs[2]);
}

/* True if the operands of the operation, from *first on, have one dtype. */
static bool operands_unify(const mst_operator *op, int32_t *first) {
    *first = op->id == MST_OPERATOR_where;
    if (op->elementwise == &mst_operation_binary || op->elementwise == &mst_operation_compare) return true;
    switch (op->id) {
    case MST_OPERATOR_where:
    case MST_OPERATOR_concatenate:
    case MST_OPERATOR_stack:
    case MST_OPERATOR_matmul:
    case MST_OPERATOR_dot:
    case MST_OPERATOR_inner:
    case MST_OPERATOR_outer:
    case MST_OPERATOR_einsum:
        return true;
    default:
        return false;
    }
}

muster_dtype mst_output_dtype(const muster_expr *node) {
    if (!mst_node_is(node, MST_OPERATOR_number_where)) return node->type.dtype;
    return has_integers(node) ? MUSTER_I64 : MUSTER_F64;
}

muster_expr *mst_number_where_in(muster_expr *node, muster_dtype dtype) {
    if (!node || !mst_node_is(node, MST_OPERATOR_number_where)) return node;
    if (dtype == MUSTER_DTYPE_NONE) dtype = mst_output_dtype(node);
    muster_expr *inputs[] = {node->inputs[0], node->inputs[1], node->inputs[2]};
    mst_draft draft = {.graph = node->graph, .op = mst_operators[MST_OPERATOR_where], .inputs = inputs, .count = 3};
    for (int32_t i = 1; i < 3; i++) {
        inputs[i] = mst_number_where_in(inputs[i], dtype);
        if (mst_node_is(inputs[i], MST_OPERATOR_number) && mst_draft_number(&draft, i, dtype) != MUSTER_OK) return node->graph->error;
    }
    return mst_apply(node->graph, MST_OPERATOR_where, inputs, 3, NULL);
}

void mst_numbers_where_type(mst_draft *draft) {
    int32_t first;
    int64_t deepest = -1;
    muster_dtype dtype = MUSTER_DTYPE_NONE;
    const bool unify = operands_unify(draft->op, &first);
    if (draft->op->id == MST_OPERATOR_number_where) return;
    for (int32_t i = 0; i < draft->count; i++) {
        const int64_t depth = depth_of(draft->inputs[i]);
        if (depth > deepest) deepest = depth;
        if (unify && i >= first && !dtype) dtype = draft->inputs[i]->type.dtype;
    }
    if (deepest < 1 || (draft->op->id == MST_OPERATOR_where && !dtype && deepest < MOST_DEPTH)) return;
    for (int32_t i = 0; i < draft->count; i++) draft->inputs[i] = mst_number_where_in(draft->inputs[i], dtype);
}
