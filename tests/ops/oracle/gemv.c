#include "ops_oracle.h"

#include "base_check.h"

static void draw(muster_worker *w, const mst_op_row *o) {
    bool tall = ops_random(4) == 0; /* more rows than are summed side by side */
    muster_dtype dtype = ops_random_dtype(o);
    int64_t n = tall ? 500 + ops_random(50) : ops_random_size(12), k = tall ? ops_random_size(3) : ops_random_size(40);
    double alpha = (double)ops_random(5) - 2, beta = (double)ops_random(3);
    ops_pair a = ops_matrix(w, dtype, n, k, true), x = ops_vector(w, dtype, k, true), y = ops_vector(w, dtype, n, false);
    if (beta == 0) ops_fill_with_nan(w, &y);
    FOR_EVERY(y, ops_scaled(alpha, ops_dot_of(&a, index[0], &x, 0), beta, OF(y)));
    assert_ok(ops_apply(w, o, VALUES({.number = alpha}, {.number = beta}), PAIRS(&a, &x, &y)));
    ops_check(w, o, &y, ops_results);
}

const ops_oracle ops_oracle_gemv = {.draw = draw, .values = {{.number = 1}}};
