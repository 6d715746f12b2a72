#include "ops_oracle.h"

#include "base_check.h"

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype = ops_random_dtype(o);
    int64_t n = ops_random(2) ? ops_random_size(40) : ops_random(ORACLE_MOST);
    ops_pair a = ops_vector(w, dtype, n, true), b = ops_random(4) ? ops_vector(w, dtype, n, true) : a, y = ops_scalar(w, dtype);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += ops_at(&a, i, 0) * ops_at(&b, i, 0);
    assert_ok(ops_apply(w, o, NULL, PAIRS(&a, &b, &y)));
    ops_check(w, o, &y, &sum);
}

const ops_oracle ops_oracle_dot = {.draw = draw};
