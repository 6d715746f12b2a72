#include "ops_oracle.h"

#include "base_check.h"

#include <math.h>

/* Integers are computed in 64 bits, and their low bits are kept; floats are computed in double. */
static double plain_reduce(muster_reduction op, const ops_pair *x, int32_t axis, const int64_t *result) {
    int64_t index[MUSTER_MAX_DIMS] = {0}, length = 0;
    uint64_t wrapped = op == MUSTER_PROD;
    double sum = op == MUSTER_PROD ? 1 : op == MUSTER_MAX ? -INFINITY : op == MUSTER_MIN ? INFINITY : 0;
    for (int32_t d = 0; d < x->host.ndim; d++)
        if (axis >= 0 && d != axis) index[d] = result[d < axis ? d : d - 1];
    if (axis >= 0 ? x->host.shape[axis] == 0 : muster_tensor_count(x->host) == 0) return sum;
    do {
        double value = ops_element(x->host, x->host.ndim, index);
        uint64_t bits = (uint64_t)(int64_t)value;
        wrapped = op == MUSTER_PROD ? wrapped * bits : wrapped + bits;
        sum = op == MUSTER_PROD ? sum * value : op == MUSTER_MAX ? fmax(sum, value) : op == MUSTER_MIN ? fmin(sum, value) : sum + value;
        length++;
    } while (axis >= 0 ? ++index[axis] < x->host.shape[axis] : ops_next(x->host.ndim, x->host.shape, index));
    if (op == MUSTER_AVG) return sum / (double)length;
    bool wraps = (op == MUSTER_SUM || op == MUSTER_PROD) && !mst_dtype_is_float(x->host.dtype) && x->host.dtype != MUSTER_BOOL;
    if (!wraps) return sum;
    int64_t size = muster_dtype_size(x->host.dtype);
    if (size == 8) return ops_is_unsigned(x->host.dtype) ? (double)wrapped : (double)(int64_t)wrapped;
    return (double)(wrapped % ((uint64_t)1 << 8 * size));
}

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_reduction op = 1 + (muster_reduction)ops_random(MUSTER_AVG);
    muster_dtype dtype = ops_random_dtype(o);
    ops_shape s = ops_random_shape(), rest = {0};
    if (s.ndim == 1 && ops_random(2)) s.size[0] = 4097 + ops_random(100); /* device code cuts it into parts */
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

static double plain_combine(muster_reduction op, double a, double v) {
    return op == MUSTER_PROD ? a * v : op == MUSTER_MAX ? fmax(a, v) : op == MUSTER_MIN ? fmin(a, v) : a + v;
}

/* Result r of a (2, 3) matrix, as the dtype holds it. */
static double plain_reduce_matrix(muster_reduction op, const ops_pair *x, int axis, int64_t r) {
    double expected = op == MUSTER_PROD ? 1 : op == MUSTER_MAX ? -INFINITY : op == MUSTER_MIN ? INFINITY : 0;
    for (int64_t i = 0; i < 6; i++)
        if (axis < 0 || (axis == 0 ? i % 3 : i / 3) == r) expected = plain_combine(op, expected, ops_at(x, i / 3, i % 3));
    if (op == MUSTER_AVG) expected /= axis < 0 ? 6 : axis == 0 ? 2 : 3;
    if (x->host.dtype != MUSTER_I8 && x->host.dtype != MUSTER_U8) return expected;
    const int64_t low = (int64_t)expected & 255; /* products wrap */
    return (double)(x->host.dtype == MUSTER_I8 && low > 127 ? low - 256 : low);
}

static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (muster_reduction op = MUSTER_SUM; op <= MUSTER_AVG; op++)
            for (int layout = 0; layout < OPS_LAYOUTS; layout++)
                for (int axis = -1; axis < 2; axis++) {
                    const int64_t results = axis < 0 ? 1 : axis == 0 ? 3 : 2;
                    ops_pair x = ops_laid_out(w, dtype, 2, 2, 3, layout), y = ops_laid_out(w, dtype, axis >= 0, results, 0, layout);
                    if (ops_refused(op, dtype)) {
                        assert_refused(muster_reduce(w, op, x.device, axis, y.device), MUSTER_UNSUPPORTED, "is refused");
                        continue;
                    }
                    assert_ok(muster_reduce(w, op, x.device, axis, y.device));
                    ops_fetch(w, &y);
                    for (int64_t r = 0; r < results; r++)
                        ops_assert_near(ops_at(&y, r, 0), plain_reduce_matrix(op, &x, axis, r), ops_precision(dtype));
                    ops_count_case(o, dtype);
                }
}

const ops_oracle ops_oracle_reduce = {
    .draw = draw, .cases = cases, .case_count = (4 * 5 + 7 * 4 + 3) * OPS_LAYOUTS * 3, .values = {{.integer = MUSTER_SUM}, {.integer = 0}}};
