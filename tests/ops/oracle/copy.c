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
    FOR_EVERY(y, plain_convert(to, OF(x)));
    assert_ok(ops_apply(w, o, NULL, PAIRS(&x, &y)));
    ops_check(w, o, &y, ops_results);
}

const ops_oracle ops_oracle_copy = {.draw = draw};
