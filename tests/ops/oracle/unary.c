#include "ops_oracle.h"

#include "base_check.h"

#include <math.h>

static double plain_unary(muster_unary op, double v) {
    switch (op) {
    case MUSTER_NEG:
        return -v;
    case MUSTER_ABS:
        return fabs(v);
    case MUSTER_SQUARE:
        return v * v;
    case MUSTER_SQRT:
        return sqrt(v);
    case MUSTER_EXP:
        return exp(v);
    case MUSTER_LOG:
        return log(v);
    case MUSTER_TANH:
        return tanh(v);
    case MUSTER_SIGMOID:
        return 1 / (1 + exp(-v));
    case MUSTER_SOFTPLUS:
        return log(1 + exp(v));
    case MUSTER_SIN:
        return sin(v);
    case MUSTER_COS:
        return cos(v);
    case MUSTER_TAN:
        return tan(v);
    case MUSTER_ASIN:
        return asin(v);
    case MUSTER_ACOS:
        return acos(v);
    case MUSTER_ATAN:
        return atan(v);
    case MUSTER_SINH:
        return sinh(v);
    case MUSTER_COSH:
        return cosh(v);
    case MUSTER_ERF:
        return erf(v);
    case MUSTER_LOG1P:
        return log1p(v);
    case MUSTER_EXPM1:
        return expm1(v);
    case MUSTER_LOG2:
        return log2(v);
    case MUSTER_EXP2:
        return exp2(v);
    case MUSTER_LOG10:
        return log10(v);
    case MUSTER_FLOOR:
        return floor(v);
    case MUSTER_CEIL:
        return ceil(v);
    case MUSTER_TRUNC:
        return trunc(v);
    case MUSTER_SIGN:
        return v == 0 || isnan(v) ? v : v / fabs(v);
    case MUSTER_ROUND:
        return nearbyint(v);
    case MUSTER_RSQRT:
        return 1 / sqrt(v);
    case MUSTER_GELU:
        return v * (1 + erf(v / sqrt(2))) / 2;
    case MUSTER_GELU_DERIVATIVE:
        return (1 + erf(v / sqrt(2))) / 2 + v * exp(-v * v / 2) / sqrt(2 * acos(-1));
    case MUSTER_SILU:
        return v / (1 + exp(-v));
    case MUSTER_RELU:
        return v > 0 ? v : 0;
    default:
        return 1 / v;
    }
}

static double expected_of(muster_unary op, muster_dtype dtype, double v) {
    if (op != MUSTER_BITWISE_NOT) return plain_unary(op, v);
    return ops_is_unsigned(dtype) ? ldexp(1, 8 * (int)muster_dtype_size(dtype)) - 1 - v : -1 - v;
}

static bool unary_exists(muster_unary op, muster_dtype dtype) {
    if (dtype == MUSTER_BOOL || mst_dtype_is_float(dtype)) return dtype != MUSTER_BOOL && op != MUSTER_BITWISE_NOT;
    return op == MUSTER_ABS || op == MUSTER_SQUARE || op == MUSTER_RELU || op == MUSTER_SIGN || op == MUSTER_BITWISE_NOT ||
           (op == MUSTER_NEG && !ops_is_unsigned(dtype));
}

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_unary op = 1 + (muster_unary)ops_random(MUSTER_GELU_DERIVATIVE);
    muster_dtype dtype = ops_random_dtype(o);
    while (!unary_exists(op, dtype) && ops_random(4)) op = 1 + (muster_unary)ops_random(MUSTER_GELU_DERIVATIVE);
    ops_shape s = ops_random_shape();
    ops_pair y = ops_output(w, dtype, s), x = ops_random(4) ? ops_input(w, dtype, ops_random_repeated(&s)) : y;
    if (!unary_exists(op, dtype)) {
        assert_refused(muster_unary_op(w, op, x.device, y.device), MUSTER_UNSUPPORTED, "muster_unary_op: x: expected");
        return;
    }
    FOR_EVERY(y, expected_of(op, dtype, ELEMENT(x)));
    assert_ok(ops_apply(w, o, VALUES({.integer = op}), PAIRS(&x, &y)));
    ops_check(w, o, &y, ops_results);
}

static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (muster_unary op = MUSTER_NEG; op <= MUSTER_GELU_DERIVATIVE; op++)
            for (int layouts = 0; layouts < 9; layouts++) {
                ops_pair x = ops_laid_out(w, dtype, 2, 4, 5, layouts % 3), y = ops_laid_out(w, dtype, 2, 4, 5, layouts / 3);
                if (!unary_exists(op, dtype)) {
                    assert_refused(muster_unary_op(w, op, x.device, y.device), MUSTER_UNSUPPORTED, "muster_unary_op: x: expected");
                    continue;
                }
                assert_ok(muster_unary_op(w, op, x.device, y.device));
                ops_fetch(w, &y);
                for (int64_t i = 0; i < 20; i++)
                    ops_assert_near(ops_at(&y, i / 5, i % 5), expected_of(op, dtype, ops_at(&x, i / 5, i % 5)), ops_precision(dtype));
                ops_count_case(o, dtype);
            }
}

const ops_oracle ops_oracle_unary = {
    .draw = draw, .cases = cases, .case_count = (4 * 34 + 4 * 6 + 3 * 5) * 9, .values = {{.integer = MUSTER_NEG}}};
