/* snippet: oracle */
#include "ops_oracle.h"

#include "base_check.h"

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype = ops_random_dtype(o);
    double slope = (double)ops_random(5) / 4;
    ops_shape s = ops_random_shape();
    ops_pair y = ops_output(w, dtype, s), x = ops_input(w, dtype, ops_random_repeated(&s));
    FOR_EVERY(y, ELEMENT(x) < 0 ? slope * ELEMENT(x) : ELEMENT(x));
    assert_ok(ops_apply(w, o, VALUES({.number = slope}), PAIRS(&x, &y)));
    ops_check(w, o, &y, ops_results);
}

static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++)
        for (int layouts = 0; layouts < 9; layouts++) {
            ops_pair x = ops_laid_out(w, dtype, 2, 4, 5, layouts % 3), y = ops_laid_out(w, dtype, 2, 4, 5, layouts / 3);
            assert_ok(muster_leaky_relu(w, 0.5, x.device, y.device));
            ops_fetch(w, &y);
            for (int64_t i = 0; i < 20; i++) {
                double value = ops_at(&x, i / 5, i % 5);
                assert_true(ops_at(&y, i / 5, i % 5) == (value < 0 ? value / 2 : value));
            }
            ops_count_case(o, dtype);
        }
}

const ops_oracle ops_oracle_leaky_relu = {.draw = draw, .cases = cases, .case_count = 4 * 9, .values = {{.number = 0.5}}};
/* end of snippet */
