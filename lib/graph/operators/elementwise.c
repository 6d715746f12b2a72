/* Elementwise operations. */
#include "operators_private.h"

#include <math.h>

/* ---- of one operand ---- */

static muster_status infer_unary(mst_draft *draft) {
    MUSTER_TRY(mst_draft_dtype(draft, 0, draft->op->dtypes));
    draft->types[0] = draft->inputs[0]->type;
    return MUSTER_OK;
}

static muster_status run_unary(muster_worker *worker, const mst_step_run *run) {
    return muster_unary_op(worker, run->node->op->operation, *run->in[0], *run->out[0]);
}

static muster_expr *fold_negative(mst_draft *draft) {
    double value[2];
    if (!mst_draft_numbers(draft, value)) return NULL;
    return mst_apply(draft->graph, MST_OPERATOR_number, NULL, 0, (mst_graph_value[]){{.number = -value[0]}});
}

#define G(name, ...) MST_APPLY(node->graph, name, __VA_ARGS__)
#define X (node->inputs[0])
#define NUMBER(value) mst_number(node->graph, node->type.dtype, (value))
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
GRADIENT(reciprocal, G(negative, G(multiply, dy, G(square, node))))
GRADIENT(softplus, G(multiply, dy, G(sigmoid, X)))
GRADIENT(sin, G(multiply, dy, G(cos, X)))
GRADIENT(cos, G(negative, G(multiply, dy, G(sin, X))))
GRADIENT(tan, G(multiply, dy, G(add, NUMBER(1), G(square, node))))
GRADIENT(asin, G(multiply, dy, G(rsqrt, G(subtract, NUMBER(1), G(square, X)))))
GRADIENT(acos, G(negative, G(multiply, dy, G(rsqrt, G(subtract, NUMBER(1), G(square, X))))))
GRADIENT(atan, G(divide, dy, G(add, NUMBER(1), G(square, X))))
GRADIENT(sinh, G(multiply, dy, G(cosh, X)))
GRADIENT(cosh, G(multiply, dy, G(sinh, X)))
GRADIENT(erf, G(multiply, dy, G(multiply, NUMBER(1.1283791670955126 /* 2 / sqrt(pi) */), G(exp, G(negative, G(square, X))))))
GRADIENT(log1p, G(divide, dy, G(add, NUMBER(1), X)))
GRADIENT(expm1, G(multiply, dy, G(exp, X)))
GRADIENT(log2, G(divide, dy, G(multiply, X, NUMBER(0.6931471805599453 /* log(2) */))))
GRADIENT(exp2, G(multiply, dy, G(multiply, node, NUMBER(0.6931471805599453))))
GRADIENT(log10, G(divide, dy, G(multiply, X, NUMBER(2.302585092994046 /* log(10) */))))
GRADIENT(rsqrt, G(multiply, dy, G(multiply, NUMBER(-0.5), G(multiply, node, G(square, node)))))

/* With P the normal distribution: P(x) + x p(x). */
static void gradient_gelu(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    muster_expr *chance = G(multiply, NUMBER(0.5), G(add, NUMBER(1), G(erf, G(multiply, X, NUMBER(0.7071067811865476 /* sqrt(1/2) */)))));
    muster_expr *density = G(multiply, NUMBER(0.3989422804014327 /* 1 / sqrt(2 pi) */), G(exp, G(multiply, NUMBER(-0.5), G(square, X))));
    mst_gradient_add(gradients, node, 0, G(multiply, dy, G(add, chance, G(multiply, X, density))));
}

static void gradient_silu(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    muster_expr *s = G(sigmoid, X);
    mst_gradient_add(gradients, node, 0, G(multiply, dy, G(multiply, s, G(add, NUMBER(1), G(multiply, X, G(subtract, NUMBER(1), s))))));
}

/* Between its steps the result does not change. */
static void gradient_zero(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    (void)gradients;
    (void)node;
    (void)dy;
}
#define gradient_sign gradient_zero
#define gradient_floor gradient_zero
#define gradient_ceil gradient_zero
#define gradient_round gradient_zero
#define gradient_trunc gradient_zero

#define UNARY(op_name, op, takes, text)                                           \
    const mst_operator mst_operator_##op_name = {MST_ANY_OPERATOR(op_name, text), \
                                                 .operation = (op),               \
                                                 .operands = {"x"},               \
                                                 .dtypes = (takes),               \
                                                 .in_place = 1,                   \
                                                 .infer = infer_unary,            \
                                                 .run = run_unary,                \
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
UNARY(silu, MUSTER_SILU, MST_FLOAT_DTYPES, "x / (1 + exp(-x))");
UNARY(sign, MUSTER_SIGN, MST_NUMBER_DTYPES, "-1, 0 or 1; the gradient is 0");
UNARY(floor, MUSTER_FLOOR, MST_FLOAT_DTYPES, "x rounded down; the gradient is 0");
UNARY(ceil, MUSTER_CEIL, MST_FLOAT_DTYPES, "x rounded up; the gradient is 0");
UNARY(round, MUSTER_ROUND, MST_FLOAT_DTYPES, "x rounded to the nearest integer, halves to the even one; the gradient is 0");
UNARY(trunc, MUSTER_TRUNC, MST_FLOAT_DTYPES, "x rounded towards 0; the gradient is 0");

const mst_operator mst_operator_bitwise_not = {MST_ANY_OPERATOR(bitwise_not, "x with every bit inverted"),
                                               .operation = MUSTER_BITWISE_NOT,
                                               .operands = {"x"},
                                               .dtypes = MST_NUMBER_DTYPES & ~MST_FLOAT_DTYPES,
                                               .in_place = 1,
                                               .infer = infer_unary,
                                               .run = run_unary,
                                               .no_gradient = "it takes integers"};

enum { UNSIGNED = MST_DTYPE_BIT(MUSTER_U8) | MST_DTYPE_BIT(MUSTER_U32) | MST_DTYPE_BIT(MUSTER_U64) };
const mst_operator mst_operator_negative = {MST_ANY_OPERATOR(negative, "-x"),
                                            .operation = MUSTER_NEG,
                                            .operands = {"x"},
                                            .dtypes = MST_NUMBER_DTYPES & ~(uint32_t)UNSIGNED,
                                            .in_place = 1,
                                            .expand = fold_negative,
                                            .infer = infer_unary,
                                            .run = run_unary,
                                            .gradient = gradient_negative};

/* ---- of two operands ---- */

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
    default:
        return pow(a, b);
    }
}

/* Two plain numbers are a plain number. */
static muster_expr *fold_binary(mst_draft *draft) {
    double values[2];
    if (!mst_draft_numbers(draft, values)) return NULL;
    return mst_apply(draft->graph, MST_OPERATOR_number, NULL, 0,
                     (mst_graph_value[]){{.number = number_binary(draft->op->operation, values[0], values[1])}});
}

#undef NUMBER
#define NUMBER(value) mst_number(node->graph, node->inputs[0]->type.dtype, (value))
#define Y (node->inputs[1])
#define GRADIENT_BINARY(name, first, second)                                                         \
    static void gradient_##name(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {      \
        if (mst_gradient_wanted(gradients, node, 0)) mst_gradient_add(gradients, node, 0, (first));  \
        if (mst_gradient_wanted(gradients, node, 1)) mst_gradient_add(gradients, node, 1, (second)); \
    }
GRADIENT_BINARY(add, dy, dy)
GRADIENT_BINARY(subtract, dy, G(negative, dy))
GRADIENT_BINARY(multiply, G(multiply, dy, Y), G(multiply, dy, X))
GRADIENT_BINARY(divide, G(divide, dy, Y), G(negative, G(divide, G(multiply, dy, node), Y)))
GRADIENT_BINARY(maximum, G(where, G(greater_equal, X, Y), dy, NUMBER(0)), G(where, G(greater_equal, X, Y), NUMBER(0), dy))
GRADIENT_BINARY(minimum, G(where, G(less_equal, X, Y), dy, NUMBER(0)), G(where, G(less_equal, X, Y), NUMBER(0), dy))
/* The second is defined where x > 0; elsewhere it is 0, as the limit for x = 0 and y > 0 is. */
GRADIENT_BINARY(power, G(multiply, dy, G(multiply, Y, G(power, X, G(subtract, Y, NUMBER(1))))),
                G(multiply, dy, G(where, G(greater, X, NUMBER(0)), G(multiply, node, G(log, X)), NUMBER(0))))

#define BINARY(op_name, op, takes, text)                                          \
    const mst_operator mst_operator_##op_name = {MST_ANY_OPERATOR(op_name, text), \
                                                 .operation = (op),               \
                                                 .operands = {"a", "b"},          \
                                                 .dtypes = (takes),               \
                                                 .flags = MST_OPERATOR_NUMBERS,   \
                                                 .in_place = 3,                   \
                                                 .expand = fold_binary,           \
                                                 .infer = infer_binary,           \
                                                 .run = run_binary,               \
                                                 .gradient = gradient_##op_name}
BINARY(add, MUSTER_ADD, MST_NUMBER_DTYPES, "a + b");
BINARY(subtract, MUSTER_SUB, MST_NUMBER_DTYPES, "a - b");
BINARY(multiply, MUSTER_MUL, MST_NUMBER_DTYPES, "a b");
BINARY(divide, MUSTER_DIV, MST_NUMBER_DTYPES, "a / b; of integers, rounded towards zero");
BINARY(maximum, MUSTER_MAXIMUM, MST_NUMBER_DTYPES, "the larger of a and b; of equals a has the gradient");
BINARY(minimum, MUSTER_MINIMUM, MST_NUMBER_DTYPES, "the smaller of a and b; of equals a has the gradient");
BINARY(power, MUSTER_POW, MST_FLOAT_DTYPES, "a to the power of b");

/* ---- comparisons ---- */

static muster_status infer_compare(mst_draft *draft) {
    muster_dtype dtype;
    MUSTER_TRY(mst_draft_unify(draft, 0, &dtype));
    draft->types[0].dtype = MUSTER_BOOL;
    return mst_draft_broadcast(draft, &draft->types[0]);
}

static muster_status run_compare(muster_worker *worker, const mst_step_run *run) {
    return muster_compare(worker, run->node->op->operation, *run->in[0], *run->in[1], *run->out[0]);
}

static const char step_function[] = "its result changes in steps";
#define COMPARE(op_name, op, text)                                                                                                \
    const mst_operator mst_operator_##op_name = {MST_ANY_OPERATOR(op_name, text), .operation = (op),      .operands = {"a", "b"}, \
                                                 .dtypes = MST_ALL_DTYPES,        .infer = infer_compare, .run = run_compare,     \
                                                 .no_gradient = step_function}
COMPARE(equal, MUSTER_EQUAL, "is a equal to b?");
COMPARE(not_equal, MUSTER_NOT_EQUAL, "is a not equal to b?");
COMPARE(less, MUSTER_LESS, "is a less than b?");
COMPARE(less_equal, MUSTER_LESS_EQUAL, "is a at most b?");
COMPARE(greater, MUSTER_GREATER, "is a greater than b?");
COMPARE(greater_equal, MUSTER_GREATER_EQUAL, "is a at least b?");

/* ---- selections, conversions ---- */

static muster_status infer_where(mst_draft *draft) {
    muster_dtype dtype;
    MUSTER_TRY(mst_draft_dtype(draft, 0, MST_DTYPE_BIT(MUSTER_BOOL)));
    MUSTER_TRY(mst_draft_unify(draft, 1, &dtype));
    draft->types[0].dtype = dtype;
    return mst_draft_broadcast(draft, &draft->types[0]);
}

static muster_status run_where(muster_worker *worker, const mst_step_run *run) {
    return muster_where(worker, *run->in[0], *run->in[1], *run->in[2], *run->out[0]);
}

static void gradient_where(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    muster_expr *zero = mst_number(node->graph, node->type.dtype, 0);
    mst_gradient_add(gradients, node, 1, G(where, X, dy, zero));
    mst_gradient_add(gradients, node, 2, G(where, X, zero, dy));
}

const mst_operator mst_operator_where = {MST_ANY_OPERATOR(where, "a where the condition is true, else b"),
                                         .operands = {"condition", "a", "b"},
                                         .in_place = 6,
                                         .infer = infer_where,
                                         .run = run_where,
                                         .gradient = gradient_where};

enum { CLIP_LOW, CLIP_HIGH };

static muster_status infer_clip(mst_draft *draft) {
    const double low = draft->values[CLIP_LOW].number, high = draft->values[CLIP_HIGH].number;
    if (!(low <= high))
        return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "low: expected low <= high, received %g and %g", low, high);
    return infer_unary(draft);
}

static muster_status run_clip(muster_worker *worker, const mst_step_run *run) {
    return muster_clip(worker, run->node->values[CLIP_LOW].number, run->node->values[CLIP_HIGH].number, *run->in[0], *run->out[0]);
}

static void gradient_clip(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_gradient_add(gradients, node, 0, G(where, G(equal, X, node), dy, NUMBER(0)));
}

const mst_operator mst_operator_clip = {
    MST_ANY_OPERATOR(clip, "x limited to [low, high]; the gradient is that of x inside and at the bounds, else 0"),
    .operands = {"x"},
    .attributes = {{"low", MST_VALUE_NUMBER, .number = -INFINITY}, {"high", MST_VALUE_NUMBER, .number = INFINITY}},
    .dtypes = MST_NUMBER_DTYPES,
    .in_place = 1,
    .infer = infer_clip,
    .run = run_clip,
    .gradient = gradient_clip};

static muster_expr *fold_cast(mst_draft *draft) {
    if (mst_node_is(draft->inputs[0], MST_OPERATOR_number))
        return mst_number(draft->graph, (muster_dtype)draft->values[0].integer, draft->inputs[0]->values[0].number);
    return draft->inputs[0]->type.dtype == draft->values[0].integer ? draft->inputs[0] : NULL;
}

static muster_status infer_cast(mst_draft *draft) {
    draft->types[0] = draft->inputs[0]->type;
    draft->types[0].dtype = (muster_dtype)draft->values[0].integer;
    return MUSTER_OK;
}

static muster_status run_cast(muster_worker *worker, const mst_step_run *run) { return muster_copy(worker, *run->in[0], *run->out[0]); }

static void gradient_cast(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    if (!mst_dtype_is_float(X->type.dtype)) return;
    mst_gradient_add(gradients, node, 0,
                     mst_apply(node->graph, MST_OPERATOR_cast, &dy, 1, (mst_graph_value[]){{.integer = X->type.dtype}}));
}

const mst_operator mst_operator_cast = {MST_ANY_OPERATOR(cast, "x converted to the dtype, as muster_copy converts"),
                                        .operands = {"x"},
                                        .attributes = {{"dtype", MST_VALUE_DTYPE, .required = true}},
                                        .expand = fold_cast,
                                        .infer = infer_cast,
                                        .run = run_cast,
                                        .gradient = gradient_cast};

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

const mst_operator mst_operator_relu_gradient = {MST_ANY_OPERATOR(relu_gradient, "dy where y > 0, else 0: the gradient of relu"),
                                                 .operands = {"y", "dy"},
                                                 .dtypes = MST_FLOAT_DTYPES,
                                                 .in_place = 3,
                                                 .infer = infer_relu_gradient,
                                                 .run = run_relu_gradient,
                                                 .gradient = gradient_relu_gradient};
