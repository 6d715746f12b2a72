#include "ops_oracle.h"

#include "base_check.h"

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype = ops_random_dtype(o);
    int64_t n = ops_random_size(9), k = 1 + ops_random(ops_random(4) ? 30 : 200);
    ops_pair x = ops_matrix(w, dtype, n, k, true), y = ops_vector(w, MUSTER_I64, n, false);
    for (int64_t i = 0; i < n; i++) {
        int64_t best = 0;
        for (int64_t j = 1; j < k; j++)
            if (ops_at(&x, i, j) < ops_at(&x, i, best)) best = j;
        ops_results[i] = (double)best;
    }
    assert_ok(ops_apply(w, o, NULL, PAIRS(&x, &y)));
    ops_check(w, o, &y, ops_results);
}

static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (int layout = 0; layout < OPS_LAYOUTS; layout++) {
            ops_pair x = ops_laid_out(w, dtype, 2, 4, 5, layout), index = ops_laid_out(w, MUSTER_I64, 1, 4, 0, layout);
            assert_ok(muster_argmin(w, x.device, index.device));
            ops_fetch(w, &index);
            for (int64_t i = 0; i < 4; i++) {
                int64_t best = 0;
                for (int64_t j = 1; j < 5; j++)
                    if (ops_at(&x, i, j) < ops_at(&x, i, best)) best = j;
                assert_int_equal(ops_at(&index, i, 0), best);
            }
            ops_count_case(o, dtype);
        }
    ops_pair x = ops_laid_out(w, MUSTER_F32, 2, 4, 0, 0), index = ops_laid_out(w, MUSTER_I64, 1, 4, 0, 0);
    assert_refused(muster_argmin(w, x.device, index.device), MUSTER_INVALID_ARGUMENT,
                   "expected at least one column, received shape (4, 0)");
}

const ops_oracle ops_oracle_argmin = {.draw = draw, .cases = cases, .case_count = 12 * OPS_LAYOUTS};
