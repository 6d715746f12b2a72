#include "ops_oracle.h"

#include "base_check.h"

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype = ops_random_dtype(o);
    int64_t m = ops_random_size(9), n = ops_random_size(9), k = ops_random_size(20);
    double alpha = (double)ops_random(5) - 2, beta = (double)ops_random(3);
    ops_pair a = ops_matrix(w, dtype, m, k, true), b = ops_matrix(w, dtype, k, n, true), y = ops_matrix(w, dtype, m, n, false);
    mst_gemm_limit = ops_random(2) ? INT32_MAX : 2 + ops_random(5);
    if (beta == 0) ops_fill_with_nan(w, &y);
    FOR_EVERY(y, ops_scaled(alpha, ops_dot_of(&a, index[0], &b, index[1]), beta, OF(y)));
    const muster_status status = ops_apply(w, o, VALUES({.number = alpha}, {.number = beta}), PAIRS(&a, &b, &y));
    if (mst_blas_get()->sgemm || mst_op_by_code(w)) {
        assert_ok(status);
        ops_check(w, o, &y, ops_results);
    } else {
        assert_refused(status, MUSTER_UNAVAILABLE, "muster_gemm");
    }
    mst_gemm_limit = INT32_MAX; /* after the check, which waited for the device */
}

const ops_oracle ops_oracle_gemm = {.draw = draw, .values = {{.number = 1}}};
