#include "ops_oracle.h"

#include "base_check.h"

#include <math.h>

static ops_pair labels_below(muster_worker *w, int64_t n, int64_t k) {
    static const muster_dtype dtypes[] = {MUSTER_U8, MUSTER_I32, MUSTER_I64};
    ops_pair labels = ops_vector(w, dtypes[ops_random(3)], n, true);
    for (int64_t i = 0; i < labels.host_storage.shape[0]; i++) {
        double label = (double)ops_random(k);
        mst_convert(labels.host.dtype, ops_place_of(labels.host_storage, &i), MUSTER_F64, &label, 1);
    }
    ops_send(w, &labels);
    return labels;
}

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype = ops_random_dtype(o);
    int64_t n = ops_random_size(9), k = 1 + ops_random(20), hits = 0;
    bool in_place = ops_random(4) == 0;
    ops_pair gradient = ops_matrix(w, dtype, n, k, false), z = in_place ? gradient : ops_matrix(w, dtype, n, k, true),
             labels = labels_below(w, n, k);
    ops_pair loss = ops_scalar(w, dtype), correct = ops_scalar(w, MUSTER_I64);
    double total = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t best = 0, label = (int64_t)ops_at(&labels, i, 0);
        double sum = 0;
        for (int64_t j = 0; j < k; j++) sum += exp(ops_at(&z, i, j));
        for (int64_t j = 1; j < k; j++)
            if (ops_at(&z, i, j) > ops_at(&z, i, best)) best = j;
        for (int64_t j = 0; j < k; j++) ops_results[i * k + j] = 0.5 * (exp(ops_at(&z, i, j)) / sum - (j == label));
        total += log(sum) - ops_at(&z, i, label);
        hits += best == label;
    }
    assert_ok(ops_apply(w, o, VALUES({.number = 0.5}), PAIRS(&z, &labels, &loss, &gradient, &correct)));
    ops_check(w, o, &loss, &total);
    ops_check(w, o, &gradient, ops_results);
    ops_check(w, o, &correct, &(double){(double)hits});
}

const ops_oracle ops_oracle_softmax_cross_entropy = {.draw = draw, .values = {{.number = 1}}};
