#define DESCENDING true
#include "order.h"

#include <stdio.h>

static void check_both(muster_worker *w, const mst_op_row *o, const ops_pair *x, int64_t k, const ops_pair *values, const ops_pair *index) {
    plain_order(x, k, false);
    ops_check(w, o, values, ops_results);
    plain_order(x, k, true);
    ops_check(w, o, index, ops_results);
}

static void draw(muster_worker *w, const mst_op_row *o) {
    const muster_dtype dtype = ops_random_dtype(o);
    const int64_t n = ops_random_size(4), length = ops_random_size(ops_random(4) ? 40 : 300), k = ops_random(length + 1);
    ops_pair x = ops_matrix(w, dtype, n, length, true), values = ops_matrix(w, dtype, n, k, false),
             index = ops_matrix(w, MUSTER_I64, n, k, false);
    put_specials(w, &x);
    assert_ok(ops_apply(w, o, VALUES({.integer = k}), PAIRS(&x, &values, &index)));
    check_both(w, o, &x, k, &values, &index);
}

/* k on both sides of what is selected by insertion. */
static void cases(muster_worker *w, const mst_op_row *o) {
    static const int64_t wanted[] = {0, 1, 2, 31, 32, 33, 129};
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (int i = 0; i < 7; i++)
            for (int layout = 0; layout < OPS_LAYOUTS; layout++) {
                const int64_t k = wanted[i];
                ops_pair x = ops_laid_out(w, dtype, 2, 2, 129, layout), values = ops_laid_out(w, dtype, 2, 2, k, (layout + 1) % 3),
                         index = ops_laid_out(w, MUSTER_I64, 2, 2, k, layout);
                put_specials(w, &x);
                assert_ok(muster_top_k(w, x.device, k, values.device, index.device));
                check_both(w, o, &x, k, &values, &index);
                ops_count_case(o, dtype);
            }
    ops_pair x = ops_laid_out(w, MUSTER_F32, 2, 2, 5, 0), y = ops_laid_out(w, MUSTER_F32, 2, 2, 5, 0),
             index = ops_laid_out(w, MUSTER_I64, 2, 2, 5, 0);
    static const int64_t no_k[] = {6, -1, INT64_MIN, INT64_MAX};
    for (int i = 0; i < 4; i++) {
        char expected[128];
        snprintf(expected, sizeof expected, "muster_top_k: k: expected 0 to the last size of x, 5, received %lld", (long long)no_k[i]);
        assert_refused(muster_top_k(w, x.device, no_k[i], y.device, index.device), MUSTER_OUT_OF_RANGE, expected);
    }
    assert_refused(muster_top_k(w, x.device, 4, y.device, index.device), MUSTER_SHAPE_MISMATCH,
                   "muster_top_k: values: expected shape (2, 4), received (2, 5)");
    y.device.shape[1] = 4;
    assert_refused(muster_top_k(w, x.device, 4, y.device, index.device), MUSTER_SHAPE_MISMATCH,
                   "muster_top_k: index: expected shape (2, 4), received (2, 5)");
    assert_refused(muster_top_k(w, x.device, 4, y.device, x.device), MUSTER_DTYPE_MISMATCH,
                   "muster_top_k: index: expected i64, received f32");
}

const ops_oracle ops_oracle_top_k = {.draw = draw, .cases = cases, .case_count = 12 * 7 * OPS_LAYOUTS, .values = {{.integer = 2}}};
