#include "ops_oracle.h"

#include "base_check.h"

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype = ops_random_dtype(o);
    double alpha = (double)ops_random(5) - 2;
    ops_shape s = ops_random_shape();
    ops_pair y = ops_output(w, dtype, s), x = ops_random(4) ? ops_input(w, dtype, s) : y;
    FOR_EVERY(y, ELEMENT(y) + alpha * ELEMENT(x));
    assert_ok(ops_apply(w, o, VALUES({.number = alpha}), PAIRS(&x, &y)));
    ops_check(w, o, &y, ops_results);
}

static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++)
        for (int layouts = 0; layouts < 9; layouts++)
            for (int64_t n = 0; n < 40; n += 13) {
                ops_pair x = ops_laid_out(w, dtype, 1, n, 0, layouts % 3), y = ops_laid_out(w, dtype, 1, n, 0, layouts / 3);
                double expected[40];
                for (int64_t i = 0; i < n; i++) expected[i] = ops_at(&y, i, 0) + 3 * ops_at(&x, i, 0);
                if (dtype != MUSTER_F32 && dtype != MUSTER_F64) {
                    assert_refused(muster_axpy(w, 3, x.device, y.device), MUSTER_UNSUPPORTED, "muster_axpy: x: expected f32 or f64");
                    continue;
                }
                assert_ok(muster_axpy(w, 3, x.device, y.device));
                ops_fetch(w, &y);
                for (int64_t i = 0; i < n; i++) ops_assert_near(ops_at(&y, i, 0), expected[i], ops_tightest(dtype));
                ops_count_case(o, dtype);
            }
}

const ops_oracle ops_oracle_axpy = {.draw = draw, .cases = cases, .case_count = 2 * 9 * 4, .values = {{.number = 1}}};
