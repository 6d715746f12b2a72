#include "ops_oracle.h"

#include "base_check.h"

static double plain_convert(muster_dtype to, double value) {
    if (to == MUSTER_BOOL) return value != 0;
    return ops_is_unsigned(to) && value < 0 ? 0 : value;
}

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype from = ops_random_dtype(o), to = ops_random(3) ? ops_random_dtype(o) : from;
    ops_shape s = ops_random_shape();
    ops_pair y = ops_output(w, to, s), x = ops_input(w, from, ops_random_repeated(&s));
    FOR_EVERY(y, plain_convert(to, ELEMENT(x)));
    assert_ok(ops_apply(w, o, NULL, PAIRS(&x, &y)));
    ops_check(w, o, &y, ops_results);
}

static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype from = 1; from < MST_DTYPE_COUNT; from++)
        for (muster_dtype to = 1; to < MST_DTYPE_COUNT; to++)
            for (int layouts = 0; layouts < 9; layouts++) {
                ops_pair x = ops_laid_out(w, from, layouts % 2 + 1, layouts % 2 ? 3 : 5, 5, layouts % 3),
                         y = ops_laid_out(w, to, 2, 3, 5, layouts / 3);
                assert_ok(muster_fill(w, 1, y.device));
                ops_fetch(w, &y);
                for (int64_t i = 0; i < 15; i++) assert_true(ops_at(&y, i / 5, i % 5) == 1);
                assert_ok(muster_copy(w, x.device, y.device));
                ops_fetch(w, &y);
                for (int64_t i = 0; i < 15; i++) {
                    double value = layouts % 2 ? ops_at(&x, i / 5, i % 5) : ops_at(&x, i % 5, 0);
                    ops_assert_near(ops_at(&y, i / 5, i % 5), plain_convert(to, value), 0);
                }
                ops_count_case(o, to);
            }
}

const ops_oracle ops_oracle_copy = {.draw = draw, .cases = cases, .case_count = 12 * 12 * 9};
