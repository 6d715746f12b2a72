#include "ops_oracle.h"

#include "base_check.h"

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype = ops_random_dtype(o);
    int64_t n = ops_random_size(9), k = 1 + ops_random(30);
    ops_pair x = ops_matrix(w, dtype, n, k, true), y = ops_vector(w, MUSTER_I64, n, false);
    for (int64_t i = 0; i < n; i++) {
        int64_t best = 0;
        for (int64_t j = 1; j < k; j++)
            if (ops_at(&x, i, j) > ops_at(&x, i, best)) best = j;
        ops_results[i] = (double)best;
    }
    assert_ok(ops_apply(w, o, NULL, PAIRS(&x, &y)));
    ops_check(w, o, &y, ops_results);
}

const ops_oracle ops_oracle_argmax = {.draw = draw};
