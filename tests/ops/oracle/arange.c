#include "ops_oracle.h"

#include "base_check.h"

static void draw(muster_worker *w, const mst_op_row *o) {
    const muster_dtype dtype = ops_random_dtype(o);
    const double start = (double)ops_random(9), step = (double)ops_random(5) / 4;
    ops_pair y = ops_vector(w, dtype, ops_random_size(100), false);
    const bool whole = !mst_dtype_is_float(dtype);
    FOR_EVERY(y, whole ? (double)(int64_t)(start + (double)index[0] * step) : start + (double)index[0] * step);
    assert_ok(ops_apply(w, o, VALUES({.number = start}, {.number = step}), PAIRS(&y)));
    ops_check(w, o, &y, ops_results);
}

static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = 1; dtype < MUSTER_BOOL; dtype++)
        for (int layout = 0; layout < OPS_LAYOUTS; layout++)
            for (int steps = 0; steps < 2; steps++) {
                ops_pair y = ops_laid_out(w, dtype, 1, 300, 0, layout);
                assert_ok(muster_arange(w, steps ? 0.5 : 3, steps ? 0.25 : 0, y.device));
                FOR_EVERY(y, steps ? (mst_dtype_is_float(dtype) ? 0.5 + 0.25 * (double)index[0] : (double)((index[0] + 2) / 4)) : 3);
                ops_check(w, o, &y, ops_results);
                ops_count_case(o, dtype);
            }
    /* saturates, and counts down */
    ops_pair y = ops_laid_out(w, MUSTER_U8, 1, 4, 0, 0), bools = ops_laid_out(w, MUSTER_BOOL, 1, 4, 0, 0);
    assert_ok(muster_arange(w, 300, -150, y.device));
    ops_fetch(w, &y);
    assert_true(ops_at(&y, 0, 0) == 255 && ops_at(&y, 1, 0) == 150 && ops_at(&y, 2, 0) == 0 && ops_at(&y, 3, 0) == 0);
    assert_refused(muster_arange(w, 0, 1, bools.device), MUSTER_UNSUPPORTED, "muster_arange: y: expected f16, bf16, f32");
}

const ops_oracle ops_oracle_arange = {.draw = draw, .cases = cases, .case_count = 11 * OPS_LAYOUTS * 2};
