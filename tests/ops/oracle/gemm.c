#include "ops_oracle.h"

#include "base_check.h"

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype = ops_random_dtype(o);
    int64_t m = ops_random_size(9), n = ops_random_size(9), k = ops_random_size(20);
    double alpha = (double)ops_random(5) - 2, beta = (double)ops_random(3);
    ops_pair a = ops_matrix(w, dtype, m, k, true), b = ops_matrix(w, dtype, k, n, true), y = ops_matrix(w, dtype, m, n, false);
    mst_gemm_limit = ops_random(2) ? INT32_MAX : 2 + ops_random(5);
    if (beta == 0) ops_fill_with_nan(w, &y);
    FOR_EVERY(y, ops_scaled(alpha, ops_dot_of(&a, index[0], &b, index[1]), beta, ELEMENT(y)));
    const muster_status status = ops_apply(w, o, VALUES({.number = alpha}, {.number = beta}), PAIRS(&a, &b, &y));
    if (mst_blas_get()->sgemm || !mst_device_is_host(w->device)) {
        assert_ok(status);
        ops_check(w, o, &y, ops_results);
    } else {
        assert_refused(status, MUSTER_UNAVAILABLE, "muster_gemm");
    }
    mst_gemm_limit = INT32_MAX; /* after the check, which waited for the device */
}

static void one_product(muster_worker *w, const mst_op_row *o, muster_dtype dtype, int64_t m, int64_t n, int64_t k, int layouts,
                        double beta) {
    ops_pair a = ops_laid_out(w, dtype, 2, m, k, layouts % 3), b = ops_laid_out(w, dtype, 2, k, n, layouts / 3 % 3),
             c = ops_laid_out(w, dtype, 2, m, n, layouts / 9);
    double expected[64];
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++) sum += ops_at(&a, i, l) * ops_at(&b, l, j);
            expected[i * n + j] = 2 * sum + beta * ops_at(&c, i, j);
        }
    assert_ok(muster_gemm(w, 2, a.device, b.device, beta, c.device));
    ops_fetch(w, &c);
    const double tolerance = dtype == MUSTER_F32 || dtype == MUSTER_F64 ? ops_tightest(dtype) : ops_precision(dtype);
    for (int64_t i = 0; i < m * n; i++) ops_assert_near(ops_at(&c, i / n, i % n), expected[i], tolerance);
    ops_count_case(o, dtype);
}

/* 600 products of 1 by 1 in panels of 2: the sum would stay at 512 if it were rounded to bf16 on
 * the way. */
static void long_sum_of_halves(muster_worker *w) {
    enum { K = 600 };
    ops_pair a = ops_laid_out(w, MUSTER_BF16, 2, 1, K, 0), b = ops_laid_out(w, MUSTER_BF16, 2, K, 1, 0),
             c = ops_laid_out(w, MUSTER_BF16, 2, 1, 1, 0);
    assert_ok(muster_fill(w, 1, a.device));
    assert_ok(muster_fill(w, 1, b.device));
    assert_ok(muster_gemm(w, 1, a.device, b.device, 0, c.device));
    ops_fetch(w, &c);
    assert_true(ops_at(&c, 0, 0) == K);
}

static void cases(muster_worker *w, const mst_op_row *o) {
    assert_ok(mst_blas_open(false));
    for (int limit = 0; limit < 2; limit++) {
        mst_gemm_limit = limit ? 2 : INT32_MAX;
        for (int layouts = 0; layouts < 27; layouts++) {
            one_product(w, o, MUSTER_F32, 5, 3, 4, layouts, 0);
            one_product(w, o, MUSTER_F64, 3, 1, 7, layouts, -1);
            one_product(w, o, MUSTER_F64, 1, 4, 0, layouts, 3);
            one_product(w, o, MUSTER_F32, 0, 4, 2, layouts, 3);
            one_product(w, o, MUSTER_F16, 5, 3, 4, layouts, 0);
            one_product(w, o, MUSTER_BF16, 3, 2, 7, layouts, -1);
        }
        long_sum_of_halves(w);
    }
    mst_gemm_limit = INT32_MAX;
    mst_blas_close();
}

const ops_oracle ops_oracle_gemm = {.draw = draw, .cases = cases, .case_count = 2 * 27 * 6, .values = {{.number = 1}}};
