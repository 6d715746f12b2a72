#include "ops_oracle.h"

#include "base_check.h"

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype = ops_random_dtype(o);
    double slope = (double)ops_random(5) / 4;
    ops_shape s = ops_random_shape();
    ops_pair y = ops_output(w, dtype, s), x = ops_random(4) ? ops_input(w, dtype, ops_random_repeated(&s)) : y;
    FOR_EVERY(y, OF(x) < 0 ? slope * OF(x) : OF(x));
    assert_ok(ops_apply(w, o, VALUES({.number = slope}), PAIRS(&x, &y)));
    ops_check(w, o, &y, ops_results);
}

const ops_oracle ops_oracle_leaky_relu = {.draw = draw, .values = {{.number = 0.5}}};
