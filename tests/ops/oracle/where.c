#include "ops_oracle.h"

#include "base_check.h"

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype = ops_random_dtype(o);
    ops_shape s = ops_random_shape();
    ops_pair y = ops_output(w, dtype, s), condition = ops_input(w, MUSTER_BOOL, ops_random_repeated(&s)),
             a = ops_random(4) ? ops_input(w, dtype, ops_random_repeated(&s)) : y,
             b = ops_random(4) ? ops_input(w, dtype, ops_random_repeated(&s)) : y;
    FOR_EVERY(y, ELEMENT(condition) != 0 ? ELEMENT(a) : ELEMENT(b));
    assert_ok(ops_apply(w, o, NULL, PAIRS(&condition, &a, &b, &y)));
    ops_check(w, o, &y, ops_results);
}

static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (int layouts = 0; layouts < 27; layouts++) {
            ops_pair condition = ops_laid_out(w, MUSTER_BOOL, 1, layouts % 2 ? 5 : 1, 0, layouts / 3 % 3),
                     a = ops_laid_out(w, dtype, 2, 4, 5, layouts % 3), b = ops_laid_out(w, dtype, 2, 4, 5, layouts / 3 % 3),
                     y = ops_laid_out(w, dtype, 2, 4, 5, layouts / 9);
            assert_ok(muster_where(w, condition.device, a.device, b.device, y.device));
            ops_fetch(w, &y);
            for (int64_t i = 0; i < 20; i++) {
                const ops_pair *from = ops_at(&condition, layouts % 2 ? i % 5 : 0, 0) != 0 ? &a : &b;
                assert_true(ops_at(&y, i / 5, i % 5) == ops_at(from, i / 5, i % 5));
            }
            ops_count_case(o, dtype);
        }
}

const ops_oracle ops_oracle_where = {.draw = draw, .cases = cases, .case_count = 12 * 27};
