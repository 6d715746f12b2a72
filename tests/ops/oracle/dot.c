#include "ops_oracle.h"

#include "base_check.h"

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype = ops_random_dtype(o);
    int64_t n = ops_random(2) ? ops_random_size(40) : ops_random(ORACLE_MOST);
    ops_pair a = ops_vector(w, dtype, n, true), b = ops_random(4) ? ops_vector(w, dtype, n, true) : a, y = ops_scalar(w, dtype);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += ops_at(&a, i, 0) * ops_at(&b, i, 0);
    assert_ok(ops_apply(w, o, NULL, PAIRS(&a, &b, &y)));
    ops_check(w, o, &y, &sum);
}

static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = MUSTER_F32; dtype <= MUSTER_F64; dtype++)
        for (int layouts = 0; layouts < 9; layouts++)
            for (int64_t n = 0; n < 40; n += 13) {
                ops_pair x = ops_laid_out(w, dtype, 1, n, 0, layouts % 3), y = ops_laid_out(w, dtype, 1, n, 0, layouts / 3),
                         result = ops_laid_out(w, dtype, 0, 0, 0, 0);
                double expected = 0;
                for (int64_t i = 0; i < n; i++) expected += ops_at(&x, i, 0) * ops_at(&y, i, 0);
                assert_ok(muster_dot(w, x.device, y.device, result.device));
                ops_fetch(w, &result);
                ops_assert_near(ops_at(&result, 0, 0), expected, ops_tightest(dtype));
                ops_count_case(o, dtype);
            }
}

const ops_oracle ops_oracle_dot = {.draw = draw, .cases = cases, .case_count = 2 * 9 * 4};
