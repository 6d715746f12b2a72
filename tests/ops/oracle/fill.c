#include "ops_oracle.h"

#include "base_check.h"

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype = ops_random_dtype(o);
    double value = (double)ops_random(4);
    ops_pair y = ops_output(w, dtype, ops_random_shape());
    FOR_EVERY(y, dtype == MUSTER_BOOL ? value != 0 : value);
    assert_ok(ops_apply(w, o, VALUES({.number = value}), PAIRS(&y)));
    ops_check(w, o, &y, ops_results);
}

static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (int layout = 0; layout < OPS_LAYOUTS; layout++) {
            ops_pair y = ops_laid_out(w, dtype, 2, 3, 5, layout);
            assert_ok(muster_fill(w, 1, y.device));
            ops_fetch(w, &y);
            for (int64_t i = 0; i < 15; i++) assert_true(ops_at(&y, i / 5, i % 5) == 1);
            ops_count_case(o, dtype);
        }
}

const ops_oracle ops_oracle_fill = {.draw = draw, .cases = cases, .case_count = 12 * OPS_LAYOUTS};
