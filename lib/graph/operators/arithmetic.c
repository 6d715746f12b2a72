/* Elementwise operations of two operands. */
#include "division_impl.h"
#include "elementwise_private.h"

#include <math.h>

static muster_status infer_binary(mst_draft *draft) {
    muster_dtype dtype;
    MUSTER_TRY(mst_draft_unify(draft, 0, &dtype));
    draft->types[0].dtype = dtype;
    return mst_draft_broadcast(draft, &draft->types[0]);
}

static muster_status run_binary(muster_worker *worker, const mst_step_run *run) {
    const muster_expr *node = run->node;
    if (!run->in[1]) return muster_binary_scalar(worker, node->op->operation, *run->in[0], mst_number_of(node->inputs[1]), *run->out[0]);
    if (!run->in[0]) return muster_scalar_binary(worker, node->op->operation, mst_number_of(node->inputs[0]), *run->in[1], *run->out[0]);
    return muster_binary_op(worker, node->op->operation, *run->in[0], *run->in[1], *run->out[0]);
}

static double number_binary(muster_binary op, double a, double b) {
    switch (op) {
    case MUSTER_ADD:
        return a + b;
    case MUSTER_SUB:
        return a - b;
    case MUSTER_MUL:
        return a * b;
    case MUSTER_DIV:
        return a / b;
    case MUSTER_MAXIMUM:
        return a > b || isnan(a) ? a : b;
    case MUSTER_MINIMUM:
        return a < b || isnan(a) ? a : b;
    case MUSTER_FLOOR_DIVIDE:
        return mst_floor_quotient(a, b);
    case MUSTER_REMAINDER:
        return mst_floor_remainder(a, b);
    case MUSTER_ATAN2:
        return atan2(a, b);
    case MUSTER_HYPOT:
        return hypot(a, b);
    case MUSTER_FMOD:
        return fmod(a, b);
    default: /* MUSTER_POW; the others take integers, which plain numbers are not */
        return pow(a, b);
    }
}

/* Truth values, one of which may be a plain number: + and maximum are or, * and minimum and. */
static muster_expr *of_truths(mst_draft *draft) {
    static const int32_t logical[MST_OPERATORS] = {
        [MST_OPERATOR_add] = MST_OPERATOR_logical_or,          [MST_OPERATOR_maximum] = MST_OPERATOR_logical_or,
        [MST_OPERATOR_multiply] = MST_OPERATOR_logical_and,    [MST_OPERATOR_minimum] = MST_OPERATOR_logical_and,
        [MST_OPERATOR_bitwise_and] = MST_OPERATOR_logical_and, [MST_OPERATOR_bitwise_or] = MST_OPERATOR_logical_or,
        [MST_OPERATOR_bitwise_xor] = MST_OPERATOR_logical_xor};
    bool truths = false;
    if (!logical[draft->op->id]) return NULL;
    for (int32_t i = 0; i < draft->count; i++) truths = truths || draft->inputs[i]->type.dtype == MUSTER_BOOL;
    return truths ? mst_apply(draft->graph, logical[draft->op->id], draft->inputs, draft->count, NULL) : NULL;
}

/* Two plain numbers are a plain number. */
static muster_expr *fold_binary(mst_draft *draft) {
    double values[2];
    mst_graph_value made = MST_NO_VALUE;
    if (!mst_draft_numbers(draft, values)) return draft->op->id == MST_OPERATOR_power ? mst_integer_power(draft) : of_truths(draft);
    if (!mst_integers_combine(draft->op->id, &draft->inputs[0]->values[0], &draft->inputs[1]->values[0], &made))
        made.number = number_binary(draft->op->operation, values[0], values[1]);
    return mst_apply(draft->graph, MST_OPERATOR_number, NULL, 0, &made);
}

#define GRADIENT_BINARY(name, first, second)                                                         \
    static void gradient_##name(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {      \
        if (mst_gradient_wanted(gradients, node, 0)) mst_gradient_add(gradients, node, 0, (first));  \
        if (mst_gradient_wanted(gradients, node, 1)) mst_gradient_add(gradients, node, 1, (second)); \
    }
GRADIENT_BINARY(add, dy, dy)
GRADIENT_BINARY(subtract, dy, G(negative, dy))
GRADIENT_BINARY(multiply, G(multiply, dy, Y), G(multiply, dy, X))
GRADIENT_BINARY(divide, G(divide, dy, Y), NARROW(G(negative, G(divide, G(multiply, WIDE(dy), WIDE(node)), WIDE(Y)))))

/* Is the result b, and not a? Of a NaN it is a, also where both are. A constant is none. */
static muster_expr *is_second(muster_expr *node, int32_t better) {
    muster_expr *second = mst_apply(node->graph, better, MST_INPUTS(Y, X), NULL);
    if (mst_node_is(Y, MST_OPERATOR_full)) return second;
    muster_expr *nan = G(isnan, Y);
    if (!mst_node_is(X, MST_OPERATOR_full)) nan = G(logical_and, nan, G(equal, X, X));
    return G(logical_or, second, nan);
}
GRADIENT_BINARY(maximum, G(where, is_second(node, MST_OPERATOR_greater), NUMBER(0), dy),
                G(where, is_second(node, MST_OPERATOR_greater), dy, NUMBER(0)))
GRADIENT_BINARY(minimum, G(where, is_second(node, MST_OPERATOR_less), NUMBER(0), dy),
                G(where, is_second(node, MST_OPERATOR_less), dy, NUMBER(0)))
/* y x^(y - 1), which is 0 for y = 0: for x = 0, too, where it would be 0 times infinity. */
static muster_expr *slope_by_base(muster_expr *node) {
    muster_expr *zero = NUMBER(0), *less = G(subtract, Y, NUMBER(1));
    if (!mst_node_is(Y, MST_OPERATOR_full)) less = G(where, G(logical_and, G(equal, X, zero), G(equal, Y, zero)), zero, less);
    return G(multiply, Y, G(power, X, less));
}

static void gradient_power(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    const bool is_constant = mst_node_is(Y, MST_OPERATOR_full) && mst_number_of(Y) == 0;
    if (mst_gradient_wanted(gradients, node, 0) && !is_constant) mst_gradient_add(gradients, node, 0, G(multiply, dy, slope_by_base(node)));
    if (!mst_gradient_wanted(gradients, node, 1)) return;
    /* It is defined where x > 0; elsewhere it is 0, as the limit for x = 0 and y > 0 is. The
     * logarithm there is of 1, so that its own gradient is a number. */
    muster_expr *outside = G(less_equal, X, NUMBER(0)), *logarithm = G(log, G(where, outside, NUMBER(1), X));
    mst_gradient_add(gradients, node, 1, G(multiply, dy, G(where, outside, NUMBER(0), G(multiply, node, logarithm))));
}
GRADIENT_BINARY(remainder, dy, G(negative, G(multiply, dy, G(floor_divide, X, Y))))
GRADIENT_BINARY(fmod, dy, G(negative, G(multiply, dy, G(trunc, G(divide, X, Y)))))
/* Divided by the distance twice: its square may be larger than the dtype. */
static muster_expr *by_distance_squared(muster_expr *node, muster_expr *coordinate) {
    muster_expr *distance = G(hypot, WIDE(X), WIDE(Y));
    return G(divide, G(divide, WIDE(coordinate), distance), distance);
}
GRADIENT_BINARY(atan2, NARROW(G(multiply, WIDE(dy), by_distance_squared(node, Y))),
                NARROW(G(negative, G(multiply, WIDE(dy), by_distance_squared(node, X)))))
GRADIENT_BINARY(hypot, G(multiply, dy, G(divide, X, node)), G(multiply, dy, G(divide, Y, node)))

#define gradient_floor_divide mst_gradient_zero

/* The quotient of partial sums and a number that all workers have. */
static bool distribute_divide(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (result.kind == MST_CUT) return mst_distribute_elementwise(node, result, way, operands);
    return way == 0 && mst_dtype_is_float(node->type.dtype) && mst_distribute_scaled(node, result, 0, operands);
}

#define BINARY(op_name, op, takes, ways, text)                                         \
    const mst_operator mst_operator_##op_name = {MST_ANY_OPERATOR(op_name, text),      \
                                                 .operation = (op),                    \
                                                 .elementwise = &mst_operation_binary, \
                                                 .operands = {"a", "b"},               \
                                                 .dtypes = (takes),                    \
                                                 .flags = MST_OPERATOR_NUMBERS,        \
                                                 .in_place = 3,                        \
                                                 .expand = fold_binary,                \
                                                 .infer = infer_binary,                \
                                                 .distribute = (ways),                 \
                                                 .run = run_binary,                    \
                                                 .gradient = gradient_##op_name}
BINARY(add, MUSTER_ADD, MST_ALL_DTYPES, mst_distribute_sum, "a + b; of truth values or");
BINARY(subtract, MUSTER_SUB, MST_NUMBER_DTYPES, mst_distribute_sum, "a - b");
BINARY(multiply, MUSTER_MUL, MST_ALL_DTYPES, mst_distribute_product, "a b; of truth values and");
BINARY(maximum, MUSTER_MAXIMUM, MST_ALL_DTYPES, mst_distribute_elementwise, "the larger of a and b; of equals a has the gradient");
BINARY(minimum, MUSTER_MINIMUM, MST_ALL_DTYPES, mst_distribute_elementwise, "the smaller of a and b; of equals a has the gradient");
BINARY(power, MUSTER_POW, MST_NUMBER_DTYPES, mst_distribute_elementwise,
       "a to the power of b; of integers b is a plain number from 0 on, and the power wraps around");
BINARY(floor_divide, MUSTER_FLOOR_DIVIDE, MST_NUMBER_DTYPES, mst_distribute_elementwise, "a / b rounded down; the gradient is 0");
BINARY(remainder, MUSTER_REMAINDER, MST_NUMBER_DTYPES, mst_distribute_elementwise, "a - b floor(a / b), with the sign of b");
BINARY(fmod, MUSTER_FMOD, MST_NUMBER_DTYPES, mst_distribute_elementwise, "a - b trunc(a / b), with the sign of a");
BINARY(atan2, MUSTER_ATAN2, MST_FLOAT_DTYPES, mst_distribute_elementwise, "the angle of the point (b, a); the gradient at (0, 0) is NaN");
BINARY(hypot, MUSTER_HYPOT, MST_FLOAT_DTYPES, mst_distribute_elementwise, "sqrt(a a + b b); the gradient at (0, 0) is NaN");

/* In f64 if they are integers, or in the dtype that is asked for. */
static muster_expr *expand_divide(mst_draft *draft) {
    const bool asked = draft->values[0].integer != MUSTER_DTYPE_NONE;
    muster_expr *folded = asked ? NULL : fold_binary(draft);
    return folded ? folded : mst_expand_divide(draft);
}

const mst_operator mst_operator_divide = {MST_ANY_OPERATOR(divide, "a / b; of integers and truth values f64; dtype: of the result"),
                                          .operation = MUSTER_DIV,
                                          .elementwise = &mst_operation_binary,
                                          .operands = {"a", "b"},
                                          .attributes = {{"dtype", MST_VALUE_DTYPE}},
                                          .dtypes = MST_ALL_DTYPES,
                                          .flags = MST_OPERATOR_NUMBERS,
                                          .in_place = 3,
                                          .expand = expand_divide,
                                          .infer = infer_binary,
                                          .distribute = distribute_divide,
                                          .run = run_binary,
                                          .gradient = gradient_divide};

enum { INTEGERS = MST_NUMBER_DTYPES & ~MST_FLOAT_DTYPES, INTEGERS_AND_TRUTHS = INTEGERS | MST_DTYPE_BIT(MUSTER_BOOL) };
#define OF_INTEGERS(op_name, op, takes, fold, text)                                    \
    const mst_operator mst_operator_##op_name = {MST_ANY_OPERATOR(op_name, text),      \
                                                 .operation = (op),                    \
                                                 .elementwise = &mst_operation_binary, \
                                                 .operands = {"a", "b"},               \
                                                 .dtypes = (takes),                    \
                                                 .flags = MST_OPERATOR_NUMBERS,        \
                                                 .in_place = 3,                        \
                                                 .expand = (fold),                     \
                                                 .infer = infer_binary,                \
                                                 .run = run_binary,                    \
                                                 .no_gradient = "it takes integers"}
OF_INTEGERS(trunc_divide, MUSTER_DIV, INTEGERS, of_truths, "a / b of integers, rounded towards zero; 0 where b is 0");
OF_INTEGERS(bitwise_and, MUSTER_BITWISE_AND, INTEGERS_AND_TRUTHS, of_truths, "the bits that a and b have; of truth values and");
OF_INTEGERS(bitwise_or, MUSTER_BITWISE_OR, INTEGERS_AND_TRUTHS, of_truths, "the bits that a or b has; of truth values or");
OF_INTEGERS(bitwise_xor, MUSTER_BITWISE_XOR, INTEGERS_AND_TRUTHS, of_truths,
            "the bits that one of a and b has; of truth values exclusive or");

OF_INTEGERS(left_shift, MUSTER_LEFT_SHIFT, INTEGERS, mst_fold_shift,
            "a 2^b, which wraps around; 0 where b is below 0 or has as many bits as a");
OF_INTEGERS(right_shift, MUSTER_RIGHT_SHIFT, INTEGERS, mst_fold_shift,
            "a / 2^b rounded down; 0, or -1 of a negative a, where b is below 0 or has as many bits as a");

/* ---- the gradient of relu ---- */

static muster_status run_relu_gradient(muster_worker *worker, const mst_step_run *run) {
    return muster_relu_gradient(worker, *run->in[0], *run->in[1], *run->out[0]);
}

static muster_status infer_relu_gradient(mst_draft *draft) {
    char expected[MST_NODE_TEXT], received[MST_NODE_TEXT];
    MUSTER_TRY(infer_binary(draft));
    if (mst_same_dims(&draft->inputs[0]->type, &draft->inputs[1]->type)) return MUSTER_OK;
    return mst_draft_refuse(draft, MUSTER_SHAPE_MISMATCH, 1, "expected %s, the shape of y, received %s",
                            mst_type_text(draft->graph, &draft->inputs[0]->type, expected),
                            mst_type_text(draft->graph, &draft->inputs[1]->type, received));
}

/* It does not change with y where it has a derivative. */
static void gradient_relu_gradient(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_gradient_add(gradients, node, 1, G(relu_gradient, X, dy));
}

/* It is proportional to dy. */
static bool distribute_relu_gradient(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (result.kind == MST_PARTIAL) return way == 0 && mst_distribute_scaled(node, result, 1, operands);
    return mst_distribute_elementwise(node, result, way, operands);
}

const mst_operator mst_operator_relu_gradient = {MST_ANY_OPERATOR(relu_gradient, "dy where y > 0, else 0: the gradient of relu"),
                                                 .elementwise = &mst_operation_relu_gradient,
                                                 .operands = {"y", "dy"},
                                                 .dtypes = MST_FLOAT_DTYPES,
                                                 .in_place = 3,
                                                 .infer = infer_relu_gradient,
                                                 .distribute = distribute_relu_gradient,
                                                 .run = run_relu_gradient,
                                                 .gradient = gradient_relu_gradient};
