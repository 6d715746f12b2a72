#include "ops_oracle.h"

#include "base_check.h"

static void draw(muster_worker *w, const mst_op_row *o) {
    const muster_dtype dtype = ops_random_dtype(o);
    const int64_t n = ops_random_size(9), m = ops_random_size(9), k = ops_random(n + m + 4) - n - 2;
    ops_pair y = ops_matrix(w, dtype, n, m, false);
    FOR_EVERY(y, index[1] - index[0] == k);
    assert_ok(ops_apply(w, o, VALUES({.integer = k}), PAIRS(&y)));
    ops_check(w, o, &y, ops_results);
}

static void cases(muster_worker *w, const mst_op_row *o) {
    static const int64_t diagonals[] = {INT64_MIN, -4, -3, 0, 2, 4, 5, INT64_MAX};
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (int layout = 0; layout < OPS_LAYOUTS; layout++)
            for (int d = 0; d < 8; d++) {
                ops_pair y = ops_laid_out(w, dtype, 2, 4, 5, layout);
                assert_ok(muster_eye(w, diagonals[d], y.device));
                FOR_EVERY(y, (double)index[1] - (double)index[0] == (double)diagonals[d]);
                ops_check(w, o, &y, ops_results);
                ops_count_case(o, dtype);
            }
}

const ops_oracle ops_oracle_eye = {.draw = draw, .cases = cases, .case_count = 12 * OPS_LAYOUTS * 8};
