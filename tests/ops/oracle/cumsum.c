#include "ops_oracle.h"

#include "base_check.h"

#include <stdio.h>

/* Each result is the sum of a part of a line, added up anew. Integers in 64 bits; ops_check keeps
 * their low bits. */
static double plain_sum(const ops_pair *x, int32_t axis, const int64_t *index) {
    int64_t at[MUSTER_MAX_DIMS];
    double sum = 0;
    for (int32_t d = 0; d < x->host.ndim; d++) at[d] = index[d];
    for (at[axis] = 0; at[axis] <= index[axis]; at[axis]++) sum += ops_element(x->host, x->host.ndim, at);
    return sum;
}

static void draw(muster_worker *w, const mst_op_row *o) {
    const muster_dtype dtype = ops_random_dtype(o);
    ops_shape s = ops_random_shape();
    if (s.ndim == 0) s = (ops_shape){2, {ops_random_size(4), ops_random_size(400)}};
    if (s.ndim == 1 && s.size[0] > 700) s.size[0] = 700;
    const int32_t axis = (int32_t)ops_random(s.ndim);
    ops_pair y = ops_output(w, dtype, s), x = ops_random(3) ? ops_input(w, dtype, s) : y;
    FOR_EVERY(y, plain_sum(&x, axis, index));
    assert_ok(ops_apply(w, o, VALUES({.integer = axis}), PAIRS(&x, &y)));
    ops_check(w, o, &y, ops_results);
}

static void cases(muster_worker *w, const mst_op_row *o) {
    static const int64_t lengths[] = {1, 63, 64, 65, 200};
    for (muster_dtype dtype = 1; dtype < MUSTER_BOOL; dtype++)
        for (int i = 0; i < 5; i++)
            for (int layouts = 0; layouts < 9; layouts++)
                for (int32_t axis = 0; axis < 2; axis++) {
                    const int64_t rows = axis ? 2 : lengths[i], columns = axis ? lengths[i] : 2;
                    ops_pair x = ops_laid_out(w, dtype, 2, rows, columns, layouts % 3),
                             y = ops_laid_out(w, dtype, 2, rows, columns, layouts / 3);
                    FOR_EVERY(y, plain_sum(&x, axis, index));
                    assert_ok(muster_cumsum(w, x.device, axis, y.device));
                    ops_check(w, o, &y, ops_results);
                    ops_count_case(o, dtype);
                }
    /* rounded once: in bf16 the sum would stay at 256 */
    ops_pair x = ops_laid_out(w, MUSTER_BF16, 1, 600, 0, 0), y = ops_laid_out(w, MUSTER_BF16, 1, 600, 0, 0);
    assert_ok(muster_fill(w, 1, x.device));
    assert_ok(muster_cumsum(w, x.device, 0, y.device));
    ops_fetch(w, &y);
    assert_true(ops_at(&y, 599, 0) == 600);
    ops_pair bools = ops_laid_out(w, MUSTER_BOOL, 1, 4, 0, 0);
    assert_refused(muster_cumsum(w, bools.device, 0, bools.device), MUSTER_UNSUPPORTED,
                   "muster_cumsum: x: expected f16, bf16, f32, f64, i8, u8, i16, i32, i64, u32 or u64, received bool");
    static const int32_t no_axes[] = {1, -1, INT32_MIN, INT32_MAX};
    for (int i = 0; i < 4; i++) {
        char expected[128];
        snprintf(expected, sizeof expected, "muster_cumsum: axis: expected an axis of x, 0 or more and below 1, received %d",
                 (int)no_axes[i]);
        assert_refused(muster_cumsum(w, x.device, no_axes[i], y.device), MUSTER_OUT_OF_RANGE, expected);
    }
}

const ops_oracle ops_oracle_cumsum = {.draw = draw, .cases = cases, .case_count = 11 * 5 * 9 * 2};
