#include "ops_oracle.h"

#include "base_check.h"

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype = ops_random_dtype(o);
    ops_shape s = ops_random_shape();
    /* y: dx */
    ops_pair y = ops_output(w, dtype, s), dy = ops_random(4) ? ops_input(w, dtype, s) : y, forward = ops_input(w, dtype, s);
    FOR_EVERY(y, OF(forward) > 0 ? OF(dy) : 0);
    assert_ok(ops_apply(w, o, NULL, PAIRS(&forward, &dy, &y)));
    ops_check(w, o, &y, ops_results);
}

const ops_oracle ops_oracle_relu_gradient = {.draw = draw};
