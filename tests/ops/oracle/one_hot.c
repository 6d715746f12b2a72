#include "ops_oracle.h"

#include "base_check.h"

static const muster_dtype label_dtypes[] = {MUSTER_U8, MUSTER_I32, MUSTER_I64};

static ops_pair some_labels(muster_worker *w, muster_dtype dtype, int64_t n, int64_t k) {
    ops_pair labels = ops_vector(w, dtype, n, true);
    for (int64_t i = 0; i < labels.host_storage.shape[0]; i++) {
        const int64_t label = ops_random(k);
        mst_convert(dtype, ops_place_of(labels.host_storage, &i), MUSTER_I64, &label, 1);
    }
    ops_send(w, &labels);
    return labels;
}

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype = ops_random_dtype(o);
    const int64_t n = ops_random_size(12), k = 1 + ops_random(9);
    ops_pair labels = some_labels(w, label_dtypes[ops_random(3)], n, k), y = ops_matrix(w, dtype, n, k, false);
    FOR_EVERY(y, (int64_t)ops_at(&labels, index[0], 0) == index[1]);
    assert_ok(ops_apply(w, o, VALUES({.integer = k}), PAIRS(&labels, &y)));
    ops_check(w, o, &y, ops_results);
}

static void refuse_label(muster_worker *w, muster_dtype dtype, int64_t label, const char *expected) {
    ops_pair labels = ops_laid_out(w, dtype, 1, 3, 0, 0), y = ops_laid_out(w, MUSTER_F32, 2, 3, 4, 0);
    memset(labels.host_storage.data, 0, (size_t)mst_tensor_bytes(labels.host_storage));
    mst_convert(dtype, ops_place_of(labels.host, (const int64_t[]){2}), MUSTER_I64, &label, 1);
    ops_send(w, &labels);
    assert_refused(muster_one_hot(w, labels.device, 4, y.device), MUSTER_OUT_OF_RANGE, expected);
}

static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (int layouts = 0; layouts < 9; layouts++) {
            ops_pair labels = some_labels(w, label_dtypes[layouts % 3], 6, 5), y = ops_laid_out(w, dtype, 2, 6, 5, layouts / 3);
            assert_ok(muster_one_hot(w, labels.device, 5, y.device));
            ops_fetch(w, &y);
            for (int64_t i = 0; i < 30; i++) assert_true(ops_at(&y, i / 5, i % 5) == ((int64_t)ops_at(&labels, i / 5, 0) == i % 5));
            ops_count_case(o, dtype);
        }
    refuse_label(w, MUSTER_U8, 4, "muster_one_hot: labels: expected labels in [0, 4), received 4 at 2");
    refuse_label(w, MUSTER_I32, -1, "muster_one_hot: labels: expected labels in [0, 4), received -1 at 2");
    refuse_label(w, MUSTER_I64, INT64_MIN, "muster_one_hot: labels: expected labels in [0, 4), received -9223372036854775808 at 2");
    ops_pair labels = ops_laid_out(w, MUSTER_I32, 1, 3, 0, 0), y = ops_laid_out(w, MUSTER_F32, 2, 3, 4, 0);
    assert_refused(muster_one_hot(w, labels.device, -1, y.device), MUSTER_INVALID_ARGUMENT,
                   "muster_one_hot: k: expected 0 or more, received -1");
    const int64_t wrong[] = {0, 3, 5};
    for (int i = 0; i < 3; i++)
        assert_refused(muster_one_hot(w, labels.device, wrong[i], y.device), MUSTER_SHAPE_MISMATCH,
                       "muster_one_hot: y: expected shape (3, ");
    y.device.shape[0] = 2;
    assert_refused(muster_one_hot(w, labels.device, 4, y.device), MUSTER_SHAPE_MISMATCH, "muster_one_hot: y: expected shape (3, 4)");
}

const ops_oracle ops_oracle_one_hot = {.draw = draw, .cases = cases, .case_count = 12 * 9, .values = {{.integer = 3}}};
