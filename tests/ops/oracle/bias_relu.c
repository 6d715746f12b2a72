#include "ops_oracle.h"

#include "base_check.h"

#include <math.h>

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype = ops_random_dtype(o);
    int64_t n = ops_random_size(9), k = ops_random_size(40);
    ops_pair y = ops_matrix(w, dtype, n, k, false), x = ops_random(4) ? ops_matrix(w, dtype, n, k, true) : y,
             bias = ops_vector(w, dtype, k, true);
    FOR_EVERY(y, fmax(OF(x) + OF(bias), 0));
    assert_ok(ops_apply(w, o, NULL, PAIRS(&x, &bias, &y)));
    ops_check(w, o, &y, ops_results);
}

const ops_oracle ops_oracle_bias_relu = {.draw = draw};
