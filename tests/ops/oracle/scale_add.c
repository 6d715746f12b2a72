#include "ops_oracle.h"

#include "base_check.h"

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype = ops_random_dtype(o);
    double alpha = (double)ops_random(5) - 2, beta = (double)ops_random(3);
    ops_shape s = ops_random_shape();
    ops_pair y = ops_output(w, dtype, s), x = ops_random(4) ? ops_input(w, dtype, s) : y;
    if (beta == 0 && x.host.data != y.host.data) ops_fill_with_nan(w, &y);
    FOR_EVERY(y, ops_scaled(alpha, OF(x), beta, OF(y)));
    assert_ok(ops_apply(w, o, VALUES({.number = alpha}, {.number = beta}), PAIRS(&x, &y)));
    ops_check(w, o, &y, ops_results);
}

const ops_oracle ops_oracle_scale_add = {.draw = draw, .values = {{.number = 1}, {.number = 1}}};
