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
    case MUSTER_RELU:
        return v > 0 ? v : 0;
    default:
        return 1 / v;
    }
}

static bool unary_exists(muster_unary op, muster_dtype dtype) {
    if (dtype == MUSTER_BOOL || mst_dtype_is_float(dtype)) return dtype != MUSTER_BOOL;
    return op == MUSTER_ABS || op == MUSTER_SQUARE || op == MUSTER_RELU || (op == MUSTER_NEG && !ops_is_unsigned(dtype));
}

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_unary op = 1 + (muster_unary)ops_random(MUSTER_RECIPROCAL);
    muster_dtype dtype = ops_random_dtype(o);
    ops_shape s = ops_random_shape();
    ops_pair y = ops_output(w, dtype, s), x = ops_random(4) ? ops_input(w, dtype, ops_random_repeated(&s)) : y;
    if (!unary_exists(op, dtype)) {
        assert_refused(muster_unary_op(w, op, x.device, y.device), MUSTER_UNSUPPORTED, "muster_unary_op: x: expected");
        return;
    }
    FOR_EVERY(y, plain_unary(op, OF(x)));
    assert_ok(ops_apply(w, o, VALUES({.integer = op}), PAIRS(&x, &y)));
    ops_check(w, o, &y, ops_results);
}

const ops_oracle ops_oracle_unary = {.draw = draw, .values = {{.integer = MUSTER_NEG}}};
