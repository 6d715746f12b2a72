#include "ops_oracle.h"

#include "base_check.h"

#include <math.h>

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype = ops_random_dtype(o);
    int64_t n = ops_random_size(9), k = ops_random_size(40);
    ops_pair y = ops_matrix(w, dtype, n, k, false), x = ops_random(4) ? ops_matrix(w, dtype, n, k, true) : y,
             bias = ops_vector(w, dtype, k, true);
    FOR_EVERY(y, fmax(ELEMENT(x) + ELEMENT(bias), 0));
    assert_ok(ops_apply(w, o, NULL, PAIRS(&x, &bias, &y)));
    ops_check(w, o, &y, ops_results);
}

static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++)
        for (int layouts = 0; layouts < 27; layouts++) {
            ops_pair x = ops_laid_out(w, dtype, 2, 4, 6, layouts % 3), bias = ops_laid_out(w, dtype, 1, 6, 0, layouts / 3 % 3),
                     y = ops_laid_out(w, dtype, 2, 4, 6, layouts / 9);
            assert_ok(muster_bias_relu(w, x.device, bias.device, y.device));
            ops_fetch(w, &y);
            for (int64_t i = 0; i < 24; i++) {
                double sum = ops_at(&x, i / 6, i % 6) + ops_at(&bias, i % 6, 0);
                assert_true(ops_at(&y, i / 6, i % 6) == (sum > 0 ? sum : 0));
            }
            ops_count_case(o, dtype);
        }
}

const ops_oracle ops_oracle_bias_relu = {.draw = draw, .cases = cases, .case_count = 4 * 27};
