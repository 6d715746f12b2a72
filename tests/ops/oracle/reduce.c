#include "ops_oracle.h"

#include "base_check.h"

#include <math.h>

/* Integers in 64 bits, of which the low ones are kept; floats in double. */
static double plain_reduce(muster_reduction op, const ops_pair *x, int32_t axis, const int64_t *result) {
    int64_t index[MUSTER_MAX_DIMS] = {0}, length = 0;
    uint64_t whole = op == MUSTER_PROD;
    double sum = op == MUSTER_PROD ? 1 : op == MUSTER_MAX ? -INFINITY : op == MUSTER_MIN ? INFINITY : 0;
    for (int32_t d = 0; d < x->host.ndim; d++)
        if (axis >= 0 && d != axis) index[d] = result[d < axis ? d : d - 1];
    if (axis >= 0 ? x->host.shape[axis] == 0 : muster_tensor_count(x->host) == 0) return sum;
    do {
        double value = ops_element(x->host, x->host.ndim, index);
        uint64_t bits = (uint64_t)(int64_t)value;
        whole = op == MUSTER_PROD ? whole * bits : whole + bits;
        sum = op == MUSTER_PROD ? sum * value : op == MUSTER_MAX ? fmax(sum, value) : op == MUSTER_MIN ? fmin(sum, value) : sum + value;
        length++;
    } while (axis >= 0 ? ++index[axis] < x->host.shape[axis] : ops_next(x->host.ndim, x->host.shape, index));
    if (op == MUSTER_AVG) return sum / (double)length;
    bool wraps = (op == MUSTER_SUM || op == MUSTER_PROD) && !mst_dtype_is_float(x->host.dtype) && x->host.dtype != MUSTER_BOOL;
    if (!wraps) return sum;
    int64_t size = muster_dtype_size(x->host.dtype);
    if (size == 8) return ops_is_unsigned(x->host.dtype) ? (double)whole : (double)(int64_t)whole;
    return (double)(whole % ((uint64_t)1 << 8 * size));
}

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_reduction op = 1 + (muster_reduction)ops_random(MUSTER_AVG);
    muster_dtype dtype = ops_random_dtype(o);
    ops_shape s = ops_random_shape(), rest = {0};
    int32_t axis = (int32_t)ops_random(s.ndim + 1) - 1;
    int64_t length = 1;
    for (int32_t d = 0; d < s.ndim; d++) {
        if (axis >= 0 && d != axis)
            rest.size[rest.ndim++] = s.size[d];
        else
            length *= s.size[d];
    }
    ops_pair x = ops_input(w, dtype, s), y = ops_output(w, dtype, rest);
    if (ops_refused(op, dtype)) return;
    if (length == 0 && op != MUSTER_SUM && op != MUSTER_PROD) {
        assert_refused(muster_reduce(w, op, x.device, axis, y.device), MUSTER_INVALID_ARGUMENT, "expected at least one element");
        return;
    }
    FOR_EVERY(y, plain_reduce(op, &x, axis, index));
    assert_ok(ops_apply(w, o, VALUES({.integer = op}, {.integer = axis}), PAIRS(&x, &y)));
    ops_check(w, o, &y, ops_results);
}

const ops_oracle ops_oracle_reduce = {.draw = draw, .values = {{.integer = MUSTER_SUM}, {.integer = 0}}};
