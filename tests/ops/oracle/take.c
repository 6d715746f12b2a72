#include "ops_oracle.h"

#include "base_check.h"

#include <stdio.h>

static const muster_dtype index_dtypes[] = {MUSTER_U8, MUSTER_I32, MUSTER_I64};

/* n indices below `bound`. */
static ops_pair some_indices(muster_worker *w, muster_dtype dtype, int64_t n, int64_t bound) {
    ops_pair indices = ops_vector(w, dtype, n, true);
    for (int64_t i = 0; i < indices.host_storage.shape[0]; i++) {
        const int64_t index = ops_random(bound);
        mst_convert(dtype, ops_place_of(indices.host_storage, &i), MUSTER_I64, &index, 1);
    }
    ops_send(w, &indices);
    return indices;
}

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype = ops_random_dtype(o);
    const int64_t rows = 1 + ops_random(9), n = ops_random_size(12);
    ops_shape s = {.ndim = 1 + (int32_t)ops_random(3), .size = {rows, ops_random_size(5), ops_random_size(5)}}, taken = s;
    taken.size[0] = n;
    ops_pair x = ops_input(w, dtype, s), indices = some_indices(w, index_dtypes[ops_random(3)], n, rows), y = ops_output(w, dtype, taken);
    FOR_EVERY(y, ops_element(x.host, y.host.ndim, ((int64_t[]){(int64_t)ops_at(&indices, index[0], 0), index[1], index[2]})));
    assert_ok(ops_apply(w, o, NULL, PAIRS(&x, &indices, &y)));
    ops_check(w, o, &y, ops_results);
}

enum { ROWS = 9000 }; /* more than one block of a device checks */

static void refuse_index(muster_worker *w, muster_dtype dtype, int64_t index, int64_t at) {
    ops_pair x = ops_laid_out(w, MUSTER_F32, 1, 4, 0, 0), indices = ops_laid_out(w, dtype, 1, ROWS, 0, 0),
             y = ops_laid_out(w, MUSTER_F32, 1, ROWS, 0, 0);
    memset(indices.host_storage.data, 0, (size_t)mst_tensor_bytes(indices.host_storage));
    mst_convert(dtype, ops_place_of(indices.host, &at), MUSTER_I64, &index, 1);
    ops_send(w, &indices);
    ops_fill_with_nan(w, &y);
    char expected[128];
    snprintf(expected, sizeof expected, "muster_take: indices: expected indices in [0, 4), received %lld at %lld", (long long)index,
             (long long)at);
    assert_refused(muster_take(w, x.device, indices.device, y.device), MUSTER_OUT_OF_RANGE, expected);
    ops_fetch(w, &y);
    for (int64_t i = 0; i < ROWS; i++) assert_true(ops_at(&y, i, 0) != ops_at(&y, i, 0)); /* nothing is written */
}

static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (int layouts = 0; layouts < 9; layouts++) {
            ops_pair x = ops_laid_out(w, dtype, 2, 6, 5, layouts % 3), indices = some_indices(w, index_dtypes[layouts % 3], 8, 6),
                     y = ops_laid_out(w, dtype, 2, 8, 5, layouts / 3);
            assert_ok(muster_take(w, x.device, indices.device, y.device));
            ops_fetch(w, &y);
            for (int64_t i = 0; i < 8; i++)
                for (int64_t j = 0; j < 5; j++) assert_true(ops_at(&y, i, j) == ops_at(&x, (int64_t)ops_at(&indices, i, 0), j));
            ops_count_case(o, dtype);
        }
    for (int d = 0; d < 3; d++)
        for (int64_t at = 0; at < ROWS; at += ROWS - 1) {
            refuse_index(w, index_dtypes[d], 4, at);
            if (index_dtypes[d] != MUSTER_U8) refuse_index(w, index_dtypes[d], -1, at);
        }
    ops_pair x = ops_laid_out(w, MUSTER_F32, 2, 4, 3, 0), indices = ops_laid_out(w, MUSTER_I32, 1, 5, 0, 0),
             one = ops_laid_out(w, MUSTER_F32, 0, 0, 0, 0);
    for (int64_t change = -1; change <= 1; change += 2)
        for (int64_t axis = 0; axis < 2; axis++) {
            ops_pair y = ops_laid_out(w, MUSTER_F32, 2, 5 + (axis == 0 ? change : 0), 3 + (axis == 1 ? change : 0), 0);
            assert_refused(muster_take(w, x.device, indices.device, y.device), MUSTER_SHAPE_MISMATCH,
                           "muster_take: y: expected shape (5, 3), received (");
        }
    assert_refused(muster_take(w, one.device, indices.device, one.device), MUSTER_SHAPE_MISMATCH,
                   "muster_take: x: expected at least 1 dimension, received a scalar");
}

const ops_oracle ops_oracle_take = {.draw = draw, .cases = cases, .case_count = 12 * 9};
