#define DESCENDING false
#include "order.h"

static void draw(muster_worker *w, const mst_op_row *o) {
    const muster_dtype dtype = ops_random_dtype(o);
    const int64_t n = ops_random_size(4), k = ops_random_size(ops_random(4) ? 40 : 300);
    ops_pair x = ops_matrix(w, dtype, n, k, true), y = ops_matrix(w, dtype, n, k, false);
    put_specials(w, &x);
    plain_order(&x, k, false);
    assert_ok(ops_apply(w, o, NULL, PAIRS(&x, &y)));
    ops_check(w, o, &y, ops_results);
}

static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (int i = 0; i < LENGTHS; i++)
            for (int layout = 0; layout < OPS_LAYOUTS; layout++) {
                ops_pair x = ops_laid_out(w, dtype, 2, 2, lengths[i], layout),
                         y = ops_laid_out(w, dtype, 2, 2, lengths[i], (layout + 1) % 3);
                put_specials(w, &x);
                plain_order(&x, lengths[i], false);
                assert_ok(muster_sort(w, x.device, y.device));
                ops_check(w, o, &y, ops_results);
                ops_count_case(o, dtype);
            }
    ops_pair one = ops_laid_out(w, MUSTER_F32, 0, 0, 0, 0), other = ops_laid_out(w, MUSTER_F32, 0, 0, 0, 0);
    assert_refused(muster_sort(w, one.device, other.device), MUSTER_SHAPE_MISMATCH, "muster_sort: x: expected at least 1 dimension");
}

const ops_oracle ops_oracle_sort = {.draw = draw, .cases = cases, .case_count = 12 * LENGTHS * OPS_LAYOUTS};
