#include "ops_oracle.h"

#include "base_check.h"

#include <math.h>
#include <stdio.h>

/* A result while elements are added to it: floats in double, integers also in 64 bits that wrap. */
typedef struct partial {
    double value;
    uint64_t wrapped;
    int64_t length;
} partial;
static partial partials[ORACLE_MOST];

static partial nothing(muster_reduction op) {
    return (partial){op == MUSTER_PROD ? 1 : op == MUSTER_MAX ? -INFINITY : op == MUSTER_MIN ? INFINITY : 0, op == MUSTER_PROD, 0};
}

static void add_element(muster_reduction op, partial *p, double value) {
    const uint64_t bits = (uint64_t)(int64_t)value;
    p->wrapped = op == MUSTER_PROD ? p->wrapped * bits : p->wrapped + bits;
    p->value = op == MUSTER_PROD  ? p->value * value
               : op == MUSTER_MAX ? fmax(p->value, value)
               : op == MUSTER_MIN ? fmin(p->value, value)
                                  : p->value + value;
    p->length++;
}

static double end_result(muster_reduction op, muster_dtype dtype, const partial *p) {
    if (op == MUSTER_AVG) return p->value / (double)p->length;
    if (op == MUSTER_MAX || op == MUSTER_MIN || mst_dtype_is_float(dtype) || dtype == MUSTER_BOOL) return p->value;
    const int64_t size = muster_dtype_size(dtype);
    if (size == 8) return ops_is_unsigned(dtype) ? (double)p->wrapped : (double)(int64_t)p->wrapped;
    return (double)(p->wrapped % ((uint64_t)1 << 8 * size));
}

/* The elements of x in row-major order, each to the result that it belongs to. */
static void plain_reduce(muster_reduction op, const muster_tensor *x, uint32_t axes, int64_t results) {
    int64_t index[MUSTER_MAX_DIMS] = {0};
    for (int64_t r = 0; r < results; r++) partials[r] = nothing(op);
    if (muster_tensor_count(*x) > 0) do {
            int64_t at = 0;
            for (int32_t d = 0; d < x->ndim; d++)
                if (!(axes >> d & 1)) at = at * x->shape[d] + index[d];
            add_element(op, &partials[at], ops_element(*x, x->ndim, index));
        } while (ops_next(x->ndim, x->shape, index));
    for (int64_t r = 0; r < results; r++) ops_results[r] = end_result(op, x->dtype, &partials[r]);
}

/* The shape without the axes, and in *length the elements of each result. */
static ops_shape remaining(const ops_shape *s, uint32_t axes, int64_t *length) {
    ops_shape rest = {0};
    *length = 1;
    for (int32_t d = 0; d < s->ndim; d++) {
        if (axes >> d & 1)
            *length *= s->size[d];
        else
            rest.size[rest.ndim++] = s->size[d];
    }
    return rest;
}

static void draw(muster_worker *w, const mst_op_row *o) {
    const muster_reduction op = 1 + (muster_reduction)ops_random(MUSTER_AVG);
    const muster_dtype dtype = ops_random_dtype(o);
    ops_shape s = ops_random_shape();
    if (s.ndim == 1 && ops_random(2)) s.size[0] = 4097 + ops_random(100); /* device code cuts it into parts */
    const uint32_t axes = (uint32_t)ops_random((int64_t)1 << s.ndim);
    int64_t length;
    const ops_shape rest = remaining(&s, axes, &length);
    if (rest.ndim == 1 && rest.size[0] > ORACLE_MOST) return;
    ops_pair x = ops_input(w, dtype, s), y = ops_output(w, dtype, rest);
    if (ops_refused(op, dtype)) return;
    if (length == 0 && op != MUSTER_SUM && op != MUSTER_PROD) {
        assert_refused(muster_reduce_axes(w, op, x.device, (int32_t)axes, y.device), MUSTER_INVALID_ARGUMENT,
                       "expected at least one element");
        return;
    }
    plain_reduce(op, &x.host, axes, muster_tensor_count(y.host));
    assert_ok(ops_apply(w, o, VALUES({.integer = op}, {.integer = axes}), PAIRS(&x, &y)));
    ops_check(w, o, &y, ops_results);
}

/* A tensor of four axes: contiguous; with two axes exchanged, so that no two of them merge; or with
 * axes 1 and 2 contiguous with each other only. */
static ops_pair four_axes(muster_worker *w, muster_dtype dtype, int layout) {
    static const int64_t shape[] = {2, 3, 2, 3}, strides[][4] = {{18, 6, 3, 1}, {1, 4, 2, 12}, {1, 8, 4, 30}};
    ops_pair x = ops_make(w, dtype, 100);
    x.host = muster_tensor_make(dtype, x.host_storage.data, 4, shape);
    for (int32_t d = 0; d < 4; d++) x.host.strides[d] = strides[layout][d];
    ops_place(&x);
    return x;
}

static void one_case(muster_worker *w, const mst_op_row *o, muster_dtype dtype, muster_reduction op, int layout, uint32_t axes) {
    const ops_shape s = {4, {2, 3, 2, 3}};
    int64_t length;
    const ops_shape rest = remaining(&s, axes, &length);
    ops_pair x = four_axes(w, dtype, layout), y = ops_output(w, dtype, rest);
    if (ops_refused(op, dtype)) {
        assert_refused(muster_reduce_axes(w, op, x.device, (int32_t)axes, y.device), MUSTER_UNSUPPORTED, "is refused");
        return;
    }
    plain_reduce(op, &x.host, axes, muster_tensor_count(y.host));
    assert_ok(muster_reduce_axes(w, op, x.device, (int32_t)axes, y.device));
    ops_check(w, o, &y, ops_results);
    ops_count_case(o, dtype);
}

/* 2048 numbers of 0.5 in each of two results: added in bf16 the sum would stay at 128. */
static void long_sums(muster_worker *w, muster_dtype dtype) {
    enum { SIDE = 32 };
    ops_pair x = ops_make(w, dtype, 2 * 2 * SIDE * SIDE), y = ops_laid_out(w, dtype, 1, 2, 0, 0);
    x.host = muster_tensor_make(dtype, x.host_storage.data, 4, (const int64_t[]){2, SIDE, 2, SIDE});
    ops_place(&x);
    assert_ok(muster_fill(w, 0.5, x.device));
    assert_ok(muster_reduce_axes(w, MUSTER_SUM, x.device, 1 << 0 | 1 << 1 | 1 << 3, y.device));
    ops_fetch(w, &y);
    for (int64_t i = 0; i < 2; i++) assert_true(ops_at(&y, i, 0) == SIDE * SIDE);
}

static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (muster_reduction op = MUSTER_SUM; op <= MUSTER_AVG; op++)
            for (int layout = 0; layout < 3; layout++)
                for (uint32_t axes = 0; axes < 16; axes++) one_case(w, o, dtype, op, layout, axes);
    for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++) long_sums(w, dtype);
    ops_pair x = ops_laid_out(w, MUSTER_F32, 2, 2, 3, 0), y = ops_laid_out(w, MUSTER_F32, 0, 0, 0, 0);
    static const int32_t no_axes[] = {4, 7, -2, INT32_MIN, INT32_MAX};
    for (int i = 0; i < 5; i++) {
        char expected[128];
        snprintf(expected, sizeof expected,
                 "muster_reduce_axes: axes: expected -1 (all) or bits 1 << axis of axes of x, which are below 2, received 0x%x",
                 (unsigned)no_axes[i]);
        assert_refused(muster_reduce_axes(w, MUSTER_SUM, x.device, no_axes[i], y.device), MUSTER_OUT_OF_RANGE, expected);
    }
    double all[2];
    for (int i = 0; i < 2; i++) { /* -1 is every bit */
        assert_ok(muster_reduce_axes(w, MUSTER_SUM, x.device, i ? -1 : 3, y.device));
        ops_fetch(w, &y);
        all[i] = ops_at(&y, 0, 0);
    }
    assert_true(all[0] == all[1]);
}

const ops_oracle ops_oracle_reduce_axes = {
    .draw = draw, .cases = cases, .case_count = (4 * 5 + 7 * 4 + 3) * 3 * 16, .values = {{.integer = MUSTER_SUM}, {.integer = 2}}};
