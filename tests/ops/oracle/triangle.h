/* The oracles of tril and triu. The including file defines FUNCTION and KEEPS(i, j, k). */
#include "ops_oracle.h"

#include "base_check.h"

/* k from beyond one corner of the matrix to beyond the other, and the extremes. */
static int64_t random_diagonal(int64_t n, int64_t m) {
    if (ops_random(10) == 0) return ops_random(2) ? INT64_MIN : INT64_MAX;
    return ops_random(n + m + 4) - n - 2;
}

static void draw(muster_worker *w, const mst_op_row *o) {
    const muster_dtype dtype = ops_random_dtype(o);
    ops_shape s = {.ndim = 2 + (int32_t)ops_random(3)};
    for (int32_t d = 0; d < s.ndim; d++) s.size[d] = ops_random_size(6);
    const int64_t k = random_diagonal(s.size[s.ndim - 2], s.size[s.ndim - 1]);
    ops_pair y = ops_output(w, dtype, s), x = ops_random(3) ? ops_input(w, dtype, s) : y;
    FOR_EVERY(y, KEEPS(index[s.ndim - 2], index[s.ndim - 1], k) ? ELEMENT(x) : 0);
    assert_ok(ops_apply(w, o, VALUES({.integer = k}), PAIRS(&x, &y)));
    ops_check(w, o, &y, ops_results);
}

static void cases(muster_worker *w, const mst_op_row *o) {
    static const int64_t diagonals[] = {INT64_MIN, -5, -4, -3, 0, 1, 4, 5, 6, INT64_MAX};
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (int layouts = 0; layouts < 9; layouts++)
            for (int d = 0; d < 10; d++) {
                ops_pair x = ops_laid_out(w, dtype, 2, 4, 5, layouts % 3), y = ops_laid_out(w, dtype, 2, 4, 5, layouts / 3);
                assert_ok(FUNCTION(w, x.device, diagonals[d], y.device));
                FOR_EVERY(y, KEEPS(index[0], index[1], diagonals[d]) ? ELEMENT(x) : 0);
                ops_check(w, o, &y, ops_results);
                ops_count_case(o, dtype);
            }
    ops_pair x = ops_laid_out(w, MUSTER_F32, 1, 4, 0, 0), y = ops_laid_out(w, MUSTER_F32, 1, 4, 0, 0);
    assert_refused(FUNCTION(w, x.device, 0, y.device), MUSTER_SHAPE_MISMATCH, "x: expected at least 2 dimensions, received shape (4,)");
}
