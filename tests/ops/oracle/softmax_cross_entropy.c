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
    int64_t n = ops_random_size(9), k = 1 + ops_random(ops_random(4) ? 20 : 200), hits = 0;
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

/* The sum of the losses; writes the gradient (6, 7) and the number of right guesses. */
static double plain_softmax(const ops_pair *z, const ops_pair *labels, double *gradient, double *hits) {
    double total = 0;
    *hits = 0;
    for (int64_t i = 0; i < 6; i++) {
        double sum = 0;
        int64_t label = (int64_t)ops_at(labels, i, 0), best = 0;
        for (int64_t j = 0; j < 7; j++) sum += exp(ops_at(z, i, j));
        for (int64_t j = 1; j < 7; j++)
            if (ops_at(z, i, j) > ops_at(z, i, best)) best = j;
        for (int64_t j = 0; j < 7; j++) gradient[i * 7 + j] = 0.25 * (exp(ops_at(z, i, j)) / sum - (j == label));
        total += log(sum) - ops_at(z, i, label);
        *hits += best == label;
    }
    return total;
}

static void cases(muster_worker *w, const mst_op_row *o) {
    static const muster_dtype label_dtypes[] = {MUSTER_U8, MUSTER_I32, MUSTER_I64};
    for (muster_dtype dtype = MUSTER_F32; dtype <= MUSTER_F64; dtype++)
        for (int layout = 0; layout < OPS_LAYOUTS; layout++) {
            ops_pair z = ops_laid_out(w, dtype, 2, 6, 7, layout), g = ops_laid_out(w, dtype, 2, 6, 7, (layout + 1) % 3),
                     labels = ops_laid_out(w, label_dtypes[layout], 1, 6, 0, layout);
            ops_pair loss = ops_laid_out(w, dtype, 0, 0, 0, 0), correct = ops_laid_out(w, MUSTER_I64, 0, 0, 0, 0);
            assert_ok(muster_unary_op(w, MUSTER_ABS, labels.device, labels.device));
            ops_fetch(w, &labels);
            double gradient[42], hits, total = plain_softmax(&z, &labels, gradient, &hits);
            assert_ok(muster_softmax_cross_entropy(w, z.device, labels.device, 0.25, loss.device, g.device, correct.device));
            ops_fetch(w, &g);
            ops_fetch(w, &loss);
            ops_fetch(w, &correct);
            for (int64_t i = 0; i < 42; i++) ops_assert_near(ops_at(&g, i / 7, i % 7), gradient[i], ops_tightest(dtype));
            ops_assert_near(ops_at(&loss, 0, 0), total, ops_tightest(dtype));
            assert_true(ops_at(&correct, 0, 0) == hits);
            assert_ok(muster_softmax_cross_entropy(w, z.device, labels.device, 0.25, loss.device, z.device, muster_tensor_none()));
            ops_fetch(w, &z);
            for (int64_t i = 0; i < 42; i++) ops_assert_near(ops_at(&z, i / 7, i % 7), ops_at(&g, i / 7, i % 7), ops_tightest(dtype));
            ops_count_case(o, dtype);
        }
}

const ops_oracle ops_oracle_softmax_cross_entropy = {
    .draw = draw, .cases = cases, .case_count = 2 * OPS_LAYOUTS, .values = {{.number = 1}}};
