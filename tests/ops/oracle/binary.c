#include "ops_oracle.h"

#include "base_check.h"

#include <math.h>

static double plain_binary(muster_binary op, bool integer, double a, double b) {
    switch (op) {
    case MUSTER_ADD:
        return a + b;
    case MUSTER_SUB:
        return a - b;
    case MUSTER_MUL:
        return a * b;
    case MUSTER_DIV:
        return !integer ? a / b : b == 0 ? 0 : trunc(a / b);
    case MUSTER_MAXIMUM:
        return a > b ? a : b;
    default:
        return a < b ? a : b;
    }
}

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_binary op = 1 + (muster_binary)ops_random(MUSTER_MINIMUM);
    muster_dtype dtype = ops_random_dtype(o);
    ops_shape s = ops_random_shape();
    ops_pair y = ops_output(w, dtype, s), a = ops_random(4) ? ops_input(w, dtype, ops_random_repeated(&s)) : y,
             b = ops_random(4) ? ops_input(w, dtype, ops_random_repeated(&s)) : y;
    FOR_EVERY(y, plain_binary(op, !mst_dtype_is_float(dtype), OF(a), OF(b)));
    assert_ok(ops_apply(w, o, VALUES({.integer = op}), PAIRS(&a, &b, &y)));
    ops_check(w, o, &y, ops_results);
}

const ops_oracle ops_oracle_binary = {.draw = draw, .values = {{.integer = MUSTER_ADD}}};
