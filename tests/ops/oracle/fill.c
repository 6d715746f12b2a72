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

const ops_oracle ops_oracle_fill = {.draw = draw};
