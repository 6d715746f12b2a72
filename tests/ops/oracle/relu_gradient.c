#include "ops_oracle.h"

#include "base_check.h"

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype = ops_random_dtype(o);
    ops_shape s = ops_random_shape();
    ops_pair y = ops_output(w, dtype, s), dy = ops_random(4) ? ops_input(w, dtype, s) : y, forward = ops_input(w, dtype, s);
    FOR_EVERY(y, ELEMENT(forward) > 0 ? ELEMENT(dy) : 0);
    assert_ok(ops_apply(w, o, NULL, PAIRS(&forward, &dy, &y)));
    ops_check(w, o, &y, ops_results);
}

/* In place, on the result of bias_relu that is still on the device. */
static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++)
        for (int layouts = 0; layouts < 27; layouts++) {
            ops_pair x = ops_laid_out(w, dtype, 2, 4, 6, layouts % 3), bias = ops_laid_out(w, dtype, 1, 6, 0, layouts / 3 % 3),
                     y = ops_laid_out(w, dtype, 2, 4, 6, layouts / 9);
            double before[24];
            for (int64_t i = 0; i < 24; i++) before[i] = ops_at(&x, i / 6, i % 6);
            assert_ok(muster_bias_relu(w, x.device, bias.device, y.device));
            assert_ok(muster_relu_gradient(w, y.device, x.device, x.device));
            ops_fetch(w, &y);
            ops_fetch(w, &x);
            for (int64_t i = 0; i < 24; i++) {
                double sum = before[i] + ops_at(&bias, i % 6, 0);
                assert_true(ops_at(&y, i / 6, i % 6) == (sum > 0 ? sum : 0));
                assert_true(ops_at(&x, i / 6, i % 6) == (sum > 0 ? before[i] : 0));
            }
            ops_count_case(o, dtype);
        }
}

const ops_oracle ops_oracle_relu_gradient = {.draw = draw, .cases = cases, .case_count = 4 * 27};
