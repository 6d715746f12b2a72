#include "ops_oracle.h"

#include "base_check.h"

#include <math.h>

static void put(ops_pair *p, const int64_t *index, double value) {
    mst_convert(p->host.dtype, ops_place_of(p->host, index), MUSTER_F64, &value, 1);
}

static void draw(muster_worker *w, const mst_op_row *o) {
    bool tall = ops_random(4) == 0; /* more rows than are summed side by side */
    muster_dtype dtype = ops_random_dtype(o);
    int64_t n = tall ? 500 + ops_random(50) : ops_random_size(12), k = tall ? ops_random_size(3) : ops_random_size(40);
    double alpha = (double)ops_random(5) - 2, beta = (double)ops_random(3);
    ops_pair a = ops_matrix(w, dtype, n, k, true), x = ops_vector(w, dtype, k, true), y = ops_vector(w, dtype, n, false);
    if (beta == 0) ops_fill_with_nan(w, &y);
    FOR_EVERY(y, ops_scaled(alpha, ops_dot_of(&a, index[0], &x, 0), beta, ELEMENT(y)));
    assert_ok(ops_apply(w, o, VALUES({.number = alpha}, {.number = beta}), PAIRS(&a, &x, &y)));
    ops_check(w, o, &y, ops_results);
}

/* Infinity in one column of A or one element of x, and NaN in a y that beta 0 leaves unread: a
 * vector that takes elements twice would make NaN of them. Columns: one vector and two, and one
 * more or less, for both dtypes. */
static const int64_t widths[] = {1, 2, 4, 5, 7, 8, 9, 12, 15, 16, 17};
enum { WIDTHS = sizeof widths / sizeof *widths, HEIGHT = 6 };

static void infinite_cases(muster_worker *w, const mst_op_row *o, muster_dtype dtype) {
    for (int64_t number = 0; number < WIDTHS; number++) {
        const int64_t k = widths[number];
        ops_pair a = ops_laid_out(w, dtype, 2, HEIGHT, k, 0), x = ops_laid_out(w, dtype, 1, k, 0, 0),
                 y = ops_laid_out(w, dtype, 1, HEIGHT, 0, 0);
        for (int64_t in_a = 0; in_a < 2; in_a++)
            for (int64_t at = 0; at < k; at++) {
                for (int64_t j = 0; j < k; j++) {
                    put(&x, (const int64_t[]){j, 0}, !in_a && j == at ? INFINITY : 1);
                    for (int64_t i = 0; i < HEIGHT; i++) put(&a, (const int64_t[]){i, j}, in_a && j == at ? INFINITY : 1);
                }
                ops_send(w, &a);
                ops_send(w, &x);
                ops_fill_with_nan(w, &y);
                assert_ok(muster_gemv(w, 1, a.device, x.device, 0, y.device));
                ops_fetch(w, &y);
                for (int64_t i = 0; i < HEIGHT; i++) assert_true(ops_at(&y, i, 0) == INFINITY);
            }
        ops_count_case(o, dtype);
    }
}

static void cases(muster_worker *w, const mst_op_row *o) {
    static const int64_t sizes[][2] = {{0, 3}, {1, 1}, {3, 0}, {9, 10}, {5, 3}, {4, 8}, {13, 17}};
    for (muster_dtype dtype = MUSTER_F32; dtype <= MUSTER_F64; dtype++) infinite_cases(w, o, dtype);
    for (muster_dtype dtype = MUSTER_F32; dtype <= MUSTER_F64; dtype++)
        for (int s = 0; s < 7; s++)
            for (int layouts = 0; layouts < 27; layouts++) {
                int64_t n = sizes[s][0], k = sizes[s][1];
                double beta = layouts % 2;
                ops_pair a = ops_laid_out(w, dtype, 2, n, k, layouts % 3), x = ops_laid_out(w, dtype, 1, k, 0, layouts / 3 % 3),
                         y = ops_laid_out(w, dtype, 1, n, 0, layouts / 9);
                double expected[16];
                for (int64_t i = 0; i < n; i++) {
                    expected[i] = beta * ops_at(&y, i, 0);
                    for (int64_t j = 0; j < k; j++) expected[i] += 3 * ops_at(&a, i, j) * ops_at(&x, j, 0);
                }
                assert_ok(muster_gemv(w, 3, a.device, x.device, beta, y.device));
                ops_fetch(w, &y);
                for (int64_t i = 0; i < n; i++) ops_assert_near(ops_at(&y, i, 0), expected[i], ops_tightest(dtype));
                ops_count_case(o, dtype);
            }
}

const ops_oracle ops_oracle_gemv = {.draw = draw, .cases = cases, .case_count = 2 * (7 * 27 + WIDTHS), .values = {{.number = 1}}};
