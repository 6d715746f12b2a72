#include "plain_binary.h"

#include "base_check.h"

#include <math.h>

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype;
    const muster_binary op = binary_draw(o, &dtype);
    ops_shape s = ops_random_shape();
    ops_pair y = ops_output(w, dtype, s), a = ops_random(4) ? ops_input(w, dtype, ops_random_repeated(&s)) : y,
             b = ops_random(4) ? ops_input(w, dtype, ops_random_repeated(&s)) : y;
    FOR_EVERY(y, plain_binary(op, !mst_dtype_is_float(dtype), ELEMENT(a), ELEMENT(b)));
    assert_ok(ops_apply(w, o, VALUES({.integer = op}), PAIRS(&a, &b, &y)));
    ops_check(w, o, &y, ops_results);
}

static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (muster_binary op = MUSTER_ADD; op <= MUSTER_RIGHT_SHIFT; op++)
            for (int layouts = 0; layouts < 27; layouts++) {
                ops_pair a = ops_laid_out(w, dtype, 2, 4, 5, layouts % 3),
                         b = ops_laid_out(w, dtype, 1, layouts % 2 ? 5 : 1, 0, layouts / 3 % 3),
                         y = ops_laid_out(w, dtype, 2, 4, 5, layouts / 9);
                if (dtype == MUSTER_BOOL) {
                    assert_refused(muster_binary_op(w, op, a.device, b.device, y.device), MUSTER_UNSUPPORTED,
                                   "a: expected a number dtype, received bool");
                    continue;
                }
                if (!binary_exists(op, dtype)) {
                    assert_refused(muster_binary_op(w, op, a.device, b.device, y.device), MUSTER_UNSUPPORTED,
                                   mst_dtype_is_float(dtype) ? "a: expected an integer dtype for "
                                   : op == MUSTER_POW        ? "a: expected f16, bf16, f32 or f64 for pow, received"
                                                             : "a: expected f16, bf16, f32 or f64 for ");
                    continue;
                }
                assert_ok(muster_binary_op(w, op, a.device, b.device, y.device));
                ops_fetch(w, &y);
                for (int64_t i = 0; i < 20; i++) {
                    double p = ops_at(&a, i / 5, i % 5), q = ops_at(&b, layouts % 2 ? i % 5 : 0, 0);
                    double expected = plain_binary(op, !mst_dtype_is_float(dtype), p, q);
                    if (ops_is_unsigned(dtype) && op == MUSTER_SUB && expected < 0) continue; /* wrapping has its own test */
                    if (op == MUSTER_LEFT_SHIFT && muster_dtype_size(dtype) == 1) continue;   /* the draws wrap */
                    ops_assert_near(ops_at(&y, i / 5, i % 5), expected, ops_precision(dtype));
                }
                ops_count_case(o, dtype);
            }
}

const ops_oracle ops_oracle_binary = {
    .draw = draw, .cases = cases, .case_count = (11 * 9 + 4 * 3 + 7 * 5) * 27, .values = {{.integer = MUSTER_ADD}}};
