/* Elementwise operations of one operand. */
#include "elementwise_private.h"

static muster_status run_unary(muster_worker *worker, const mst_step_run *run) {
    return muster_unary_op(worker, run->node->op->operation, *run->in[0], *run->out[0]);
}

enum { UNSIGNED = MST_DTYPE_BIT(MUSTER_U8) | MST_DTYPE_BIT(MUSTER_U32) | MST_DTYPE_BIT(MUSTER_U64) };

/* A plain number is one; 0 - x of unsigned integers wraps around. */
static muster_expr *expand_negative(mst_draft *draft) {
    double value[2];
    muster_expr *x = draft->inputs[0];
    if (MST_DTYPE_BIT(x->type.dtype) & UNSIGNED) return MST_APPLY(draft->graph, subtract, mst_number(draft->graph, x->type.dtype, 0), x);
    if (!mst_draft_numbers(draft, value)) return NULL;
    return mst_apply(draft->graph, MST_OPERATOR_number, NULL, 0,
                     (mst_graph_value[]){{.number = -value[0], .integer = -draft->inputs[0]->values[0].integer}});
}

#define GRADIENT(name, part)                                                                    \
    static void gradient_##name(mst_gradients *gradients, muster_expr *node, muster_expr *dy) { \
        mst_gradient_add(gradients, node, 0, (part));                                           \
    }
GRADIENT(negative, G(negative, dy))
GRADIENT(absolute, G(multiply, dy, G(sign, X)))
GRADIENT(square, G(multiply, G(multiply, dy, X), NUMBER(2)))
GRADIENT(sqrt, G(divide, dy, G(multiply, node, NUMBER(2))))
GRADIENT(exp, G(multiply, dy, node))
GRADIENT(log, G(divide, dy, X))
GRADIENT(tanh, G(multiply, dy, G(subtract, NUMBER(1), G(square, node))))
GRADIENT(sigmoid, G(multiply, dy, G(multiply, node, G(subtract, NUMBER(1), node))))
GRADIENT(relu, G(relu_gradient, node, dy))
GRADIENT(reciprocal, NARROW(G(negative, G(multiply, WIDE(dy), G(square, WIDE(node))))))
GRADIENT(softplus, G(multiply, dy, G(sigmoid, X)))
GRADIENT(sin, G(multiply, dy, G(cos, X)))
GRADIENT(cos, G(negative, G(multiply, dy, G(sin, X))))
GRADIENT(tan, G(multiply, dy, G(add, NUMBER(1), G(square, node))))
GRADIENT(asin, G(multiply, dy, G(rsqrt, G(subtract, NUMBER(1), G(square, X)))))
GRADIENT(acos, G(negative, G(multiply, dy, G(rsqrt, G(subtract, NUMBER(1), G(square, X))))))
GRADIENT(atan, NARROW(G(divide, WIDE(dy), G(add, WIDE_NUMBER(1), G(square, WIDE(X))))))
GRADIENT(sinh, G(multiply, dy, G(cosh, X)))
GRADIENT(cosh, G(multiply, dy, G(sinh, X)))
GRADIENT(erf, G(multiply, dy, G(multiply, NUMBER(1.1283791670955126 /* 2 / sqrt(pi) */), G(exp, G(negative, G(square, X))))))
GRADIENT(log1p, G(divide, dy, G(add, NUMBER(1), X)))
GRADIENT(expm1, G(multiply, dy, G(exp, X)))
GRADIENT(log2, NARROW(G(divide, WIDE(dy), G(multiply, WIDE(X), WIDE_NUMBER(0.6931471805599453 /* log(2) */)))))
GRADIENT(exp2, G(multiply, dy, G(multiply, node, NUMBER(0.6931471805599453))))
GRADIENT(log10, NARROW(G(divide, WIDE(dy), G(multiply, WIDE(X), WIDE_NUMBER(2.302585092994046 /* log(10) */)))))
GRADIENT(rsqrt, NARROW(G(multiply, WIDE(dy), G(multiply, WIDE_NUMBER(-0.5), G(multiply, WIDE(node), G(square, WIDE(node)))))))

GRADIENT(gelu, G(multiply, dy, G(gelu_derivative, X)))

/* With p the density of the normal distribution: p(x) (2 - x^2). p is 0 in every dtype long before
 * x^2 is 10,000, and 0 times an infinite square would be no number. */
static void gradient_gelu_derivative(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    muster_expr *square = G(minimum, G(square, X), NUMBER(10000));
    muster_expr *density = G(multiply, NUMBER(0.3989422804014327 /* 1 / sqrt(2 pi) */), G(exp, G(multiply, NUMBER(-0.5), square)));
    mst_gradient_add(gradients, node, 0, G(multiply, dy, G(multiply, density, G(subtract, NUMBER(2), square))));
}

/* Far from 0 the sigmoid s is 0 or 1, and the gradient does not depend on x: an infinite one would
 * be multiplied by 0. */
static void gradient_silu(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    muster_expr *s = G(sigmoid, X),
                *bounded = mst_apply(node->graph, MST_OPERATOR_clip, &X, 1, (mst_graph_value[]){{.number = -1e4}, {.number = 1e4}});
    mst_gradient_add(gradients, node, 0,
                     G(multiply, dy, G(multiply, s, G(add, NUMBER(1), G(multiply, bounded, G(subtract, NUMBER(1), s))))));
}

#define gradient_sign mst_gradient_zero
#define gradient_floor mst_gradient_zero
#define gradient_ceil mst_gradient_zero
#define gradient_round mst_gradient_zero
#define gradient_trunc mst_gradient_zero

#define UNARY(op_name, op, takes, text)                                               \
    const mst_operator mst_operator_##op_name = {MST_ANY_OPERATOR(op_name, text),     \
                                                 .operation = (op),                   \
                                                 .elementwise = &mst_operation_unary, \
                                                 .operands = {"x"},                   \
                                                 .dtypes = (takes),                   \
                                                 .in_place = 1,                       \
                                                 .expand = mst_fold_function,         \
                                                 .infer = mst_draft_same,             \
                                                 .run = run_unary,                    \
                                                 .gradient = gradient_##op_name}
UNARY(absolute, MUSTER_ABS, MST_NUMBER_DTYPES, "|x|; the gradient at 0 is 0");
UNARY(square, MUSTER_SQUARE, MST_NUMBER_DTYPES, "x x");
UNARY(sqrt, MUSTER_SQRT, MST_FLOAT_DTYPES, "the square root of x");
UNARY(exp, MUSTER_EXP, MST_FLOAT_DTYPES, "e to the power of x");
UNARY(log, MUSTER_LOG, MST_FLOAT_DTYPES, "the natural logarithm of x");
UNARY(tanh, MUSTER_TANH, MST_FLOAT_DTYPES, "the hyperbolic tangent of x");
UNARY(sigmoid, MUSTER_SIGMOID, MST_FLOAT_DTYPES, "1 / (1 + exp(-x))");
UNARY(relu, MUSTER_RELU, MST_NUMBER_DTYPES, "the larger of x and 0; the gradient at 0 is 0");
UNARY(reciprocal, MUSTER_RECIPROCAL, MST_FLOAT_DTYPES, "1 / x");
UNARY(softplus, MUSTER_SOFTPLUS, MST_FLOAT_DTYPES, "log(1 + exp(x))");
UNARY(sin, MUSTER_SIN, MST_FLOAT_DTYPES, "the sine of x");
UNARY(cos, MUSTER_COS, MST_FLOAT_DTYPES, "the cosine of x");
UNARY(tan, MUSTER_TAN, MST_FLOAT_DTYPES, "the tangent of x");
UNARY(asin, MUSTER_ASIN, MST_FLOAT_DTYPES, "the angle whose sine is x");
UNARY(acos, MUSTER_ACOS, MST_FLOAT_DTYPES, "the angle whose cosine is x");
UNARY(atan, MUSTER_ATAN, MST_FLOAT_DTYPES, "the angle whose tangent is x");
UNARY(sinh, MUSTER_SINH, MST_FLOAT_DTYPES, "the hyperbolic sine of x");
UNARY(cosh, MUSTER_COSH, MST_FLOAT_DTYPES, "the hyperbolic cosine of x");
UNARY(erf, MUSTER_ERF, MST_FLOAT_DTYPES, "the error function of x");
UNARY(log1p, MUSTER_LOG1P, MST_FLOAT_DTYPES, "log(1 + x)");
UNARY(expm1, MUSTER_EXPM1, MST_FLOAT_DTYPES, "exp(x) - 1");
UNARY(log2, MUSTER_LOG2, MST_FLOAT_DTYPES, "the logarithm of x to the base 2");
UNARY(exp2, MUSTER_EXP2, MST_FLOAT_DTYPES, "2 to the power of x");
UNARY(log10, MUSTER_LOG10, MST_FLOAT_DTYPES, "the logarithm of x to the base 10");
UNARY(rsqrt, MUSTER_RSQRT, MST_FLOAT_DTYPES, "1 / sqrt(x)");
UNARY(gelu, MUSTER_GELU, MST_FLOAT_DTYPES, "x (1 + erf(x / sqrt(2))) / 2");
UNARY(gelu_derivative, MUSTER_GELU_DERIVATIVE, MST_FLOAT_DTYPES,
      "P(x) + x p(x), with P the normal distribution and p its density: the derivative of gelu");
UNARY(silu, MUSTER_SILU, MST_FLOAT_DTYPES, "x / (1 + exp(-x))");
UNARY(sign, MUSTER_SIGN, MST_NUMBER_DTYPES, "-1, 0 or 1; the gradient is 0");

/* Integers are rounded already. */
static muster_expr *expand_rounding(mst_draft *draft) {
    muster_expr *x = draft->inputs[0];
    const bool integer = MST_DTYPE_BIT(x->type.dtype) & MST_NUMBER_DTYPES & ~MST_FLOAT_DTYPES;
    return integer ? x : mst_fold_function(draft);
}

#define ROUNDING(op_name, op, text)                                                                     \
    const mst_operator mst_operator_##op_name = {MST_ANY_OPERATOR(op_name, text "; the gradient is 0"), \
                                                 .operation = (op),                                     \
                                                 .elementwise = &mst_operation_unary,                   \
                                                 .operands = {"x"},                                     \
                                                 .dtypes = MST_NUMBER_DTYPES,                           \
                                                 .in_place = 1,                                         \
                                                 .expand = expand_rounding,                             \
                                                 .infer = mst_draft_same,                               \
                                                 .run = run_unary,                                      \
                                                 .gradient = gradient_##op_name}
ROUNDING(floor, MUSTER_FLOOR, "x rounded down");
ROUNDING(ceil, MUSTER_CEIL, "x rounded up");
ROUNDING(round, MUSTER_ROUND, "x rounded to the nearest integer, halves to the even one");
ROUNDING(trunc, MUSTER_TRUNC, "x rounded towards 0");

static muster_expr *expand_bitwise_not(mst_draft *draft) {
    return draft->inputs[0]->type.dtype == MUSTER_BOOL ? MST_APPLY(draft->graph, logical_not, draft->inputs[0]) : NULL;
}

const mst_operator mst_operator_bitwise_not = {MST_ANY_OPERATOR(bitwise_not, "x with every bit inverted; of truth values not"),
                                               .operation = MUSTER_BITWISE_NOT,
                                               .elementwise = &mst_operation_unary,
                                               .operands = {"x"},
                                               .dtypes = MST_ALL_DTYPES & ~MST_FLOAT_DTYPES,
                                               .in_place = 1,
                                               .expand = expand_bitwise_not,
                                               .infer = mst_draft_same,
                                               .run = run_unary,
                                               .no_gradient = "it takes integers"};

const mst_operator mst_operator_negative = {MST_ANY_OPERATOR(negative, "-x; of unsigned integers it wraps around"),
                                            .operation = MUSTER_NEG,
                                            .elementwise = &mst_operation_unary,
                                            .operands = {"x"},
                                            .dtypes = MST_NUMBER_DTYPES,
                                            .in_place = 1,
                                            .expand = expand_negative,
                                            .infer = mst_draft_same,
                                            .distribute = mst_distribute_sum,
                                            .run = run_unary,
                                            .gradient = gradient_negative};
