#include "ops_oracle.h"

#include "base_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const muster_dtype index_dtypes[] = {MUSTER_U8, MUSTER_I32, MUSTER_I64};

static ops_pair some_indices(muster_worker *w, muster_dtype dtype, int64_t n, int64_t bound) {
    ops_pair indices = ops_vector(w, dtype, n, true);
    for (int64_t i = 0; i < indices.host_storage.shape[0]; i++) {
        const int64_t index = ops_random(bound);
        mst_convert(dtype, ops_place_of(indices.host_storage, &i), MUSTER_I64, &index, 1);
    }
    ops_send(w, &indices);
    return indices;
}

/* What element `at` of y becomes. The elements are small whole numbers, whose sums every dtype
 * holds. */
static double plain_sum(const ops_pair *x, const ops_pair *indices, const ops_pair *y, const int64_t *at) {
    double sum = ops_element(y->host, y->host.ndim, at);
    for (int64_t i = 0; i < indices->host.shape[0]; i++)
        if ((int64_t)ops_at(indices, i, 0) == at[0]) sum += ops_element(x->host, y->host.ndim, (const int64_t[]){i, at[1], at[2]});
    return sum;
}

static void draw(muster_worker *w, const mst_op_row *o) {
    muster_dtype dtype = ops_random_dtype(o);
    const int64_t rows = 1 + ops_random(6), n = ops_random_size(12);
    ops_shape s = {.ndim = 1 + (int32_t)ops_random(3), .size = {rows, ops_random_size(5), ops_random_size(5)}}, added = s;
    added.size[0] = n;
    ops_pair x = ops_input(w, dtype, added), indices = some_indices(w, index_dtypes[ops_random(3)], n, rows), y = ops_output(w, dtype, s);
    FOR_EVERY(y, plain_sum(&x, &indices, &y, index));
    assert_ok(ops_apply(w, o, NULL, PAIRS(&x, &indices, &y)));
    ops_check(w, o, &y, ops_results);
}

/* Sums of numbers that do not fit together: added up in double, in the order of the indices, and
 * rounded once. */
static void add_in_order(muster_worker *w) {
    enum { N = 1000 };
    ops_pair x = ops_laid_out(w, MUSTER_F32, 1, N, 0, 0), indices = some_indices(w, MUSTER_I32, N, 3),
             y = ops_laid_out(w, MUSTER_F32, 1, 3, 0, 0);
    volatile double sums[3]; /* rounded after each addition */
    for (int64_t i = 0; i < N; i++) *(float *)ops_place_of(x.host, &i) = ldexpf((float)ops_random(1000) - 500, (int)ops_random(60) - 30);
    ops_send(w, &x);
    for (int64_t r = 0; r < 3; r++) sums[r] = ops_at(&y, r, 0);
    for (int64_t i = 0; i < N; i++) {
        const int64_t r = (int64_t)ops_at(&indices, i, 0);
        sums[r] = sums[r] + ops_at(&x, i, 0);
    }
    assert_ok(muster_scatter_add(w, x.device, indices.device, y.device));
    ops_fetch(w, &y);
    for (int64_t r = 0; r < 3; r++) assert_true((float)ops_at(&y, r, 0) == (float)sums[r]);
}

/* Long sums: every index of `used` rows, each `times` times, among rows of which others stay as
 * they are. The parts are multiples of 1/4, so that the double sums are exact. With `rows` above
 * 4,096 / columns the host adds up one bucket of rows after the other. */
static void add_often(muster_worker *w, muster_dtype dtype, int64_t rows, int64_t columns, int64_t used, int64_t times, int layout) {
    const int64_t n = used * times;
    ops_pair x = ops_laid_out(w, dtype, 2, n, columns, layout), indices = ops_laid_out(w, MUSTER_I64, 1, n, 0, 0),
             y = ops_laid_out(w, dtype, 2, rows, columns, layout);
    double *sums = calloc((size_t)(rows * columns), sizeof *sums);
    assert_non_null(sums);
    for (int64_t i = 0; i < rows * columns; i++) sums[i] = ops_at(&y, i / columns, i % columns);
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = i % used * (rows - 1) / (used > 1 ? used - 1 : 1); /* the first and the last one, too */
        mst_convert(MUSTER_I64, ops_place_of(indices.host, &i), MUSTER_I64, &row, 1);
        for (int64_t c = 0; c < columns; c++) {
            const double part = (double)(1 + ops_random(7)) / 4;
            mst_convert(dtype, ops_place_of(x.host, (const int64_t[]){i, c}), MUSTER_F64, &part, 1);
            sums[row * columns + c] += part;
        }
    }
    ops_send(w, &x);
    ops_send(w, &indices);
    assert_ok(muster_scatter_add(w, x.device, indices.device, y.device));
    ops_fetch(w, &y);
    for (int64_t i = 0; i < rows * columns; i++) {
        char rounded[8];
        double expected;
        mst_convert(dtype, rounded, MUSTER_F64, &sums[i], 1);
        mst_convert(MUSTER_F64, &expected, dtype, rounded, 1);
        assert_true(ops_at(&y, i / columns, i % columns) == expected);
    }
    free(sums);
}

static void long_sums(muster_worker *w) {
    static const muster_dtype floats[] = {MUSTER_F16, MUSTER_BF16, MUSTER_F32, MUSTER_F64};
    for (int d = 0; d < 4; d++) {
        add_often(w, floats[d], 2, 1, 2, 2100, 0); /* bf16 stopped at 256, f16 at 2048 */
        add_often(w, floats[d], 3, 5, 2, 450, 1);  /* strided rows */
        add_often(w, floats[d], 4096, 1, 3, 300, 0);
        add_often(w, floats[d], 4097, 1, 3, 300, 0); /* two buckets, of which the last has one row */
        add_often(w, floats[d], 1700, 4, 5, 300, 2);
    }
}

enum { ROWS = 9000 }; /* more than one block of a device checks */

static void refuse_index(muster_worker *w, muster_dtype dtype, int64_t index, int64_t at) {
    ops_pair x = ops_laid_out(w, MUSTER_F32, 1, ROWS, 0, 0), indices = ops_laid_out(w, dtype, 1, ROWS, 0, 0),
             y = ops_laid_out(w, MUSTER_F32, 1, 4, 0, 0);
    memset(indices.host_storage.data, 0, (size_t)mst_tensor_bytes(indices.host_storage));
    mst_convert(dtype, ops_place_of(indices.host, &at), MUSTER_I64, &index, 1);
    ops_send(w, &indices);
    double before[4];
    for (int64_t i = 0; i < 4; i++) before[i] = ops_at(&y, i, 0);
    char expected[128];
    snprintf(expected, sizeof expected, "muster_scatter_add: indices: expected indices in [0, 4), received %lld at %lld", (long long)index,
             (long long)at);
    assert_refused(muster_scatter_add(w, x.device, indices.device, y.device), MUSTER_OUT_OF_RANGE, expected);
    ops_fetch(w, &y);
    for (int64_t i = 0; i < 4; i++) assert_true(ops_at(&y, i, 0) == before[i]);
}

static void refuse_shapes(muster_worker *w) {
    ops_pair x = ops_laid_out(w, MUSTER_F32, 2, 5, 3, 0), indices = ops_laid_out(w, MUSTER_I32, 1, 5, 0, 0),
             one = ops_laid_out(w, MUSTER_F32, 0, 0, 0, 0), y = ops_laid_out(w, MUSTER_F32, 2, 4, 3, 0);
    for (int64_t change = -1; change <= 1; change += 2)
        for (int64_t axis = 0; axis < 2; axis++) {
            ops_pair wrong = ops_laid_out(w, MUSTER_F32, 2, 5 + (axis == 0 ? change : 0), 3 + (axis == 1 ? change : 0), 0);
            assert_refused(muster_scatter_add(w, wrong.device, indices.device, y.device), MUSTER_SHAPE_MISMATCH,
                           "muster_scatter_add: x: expected shape (5, 3), received (");
        }
    assert_refused(muster_scatter_add(w, x.device, indices.device, one.device), MUSTER_SHAPE_MISMATCH,
                   "muster_scatter_add: y: expected at least 1 dimension, received a scalar");
}

static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++)
        for (int layouts = 0; layouts < 9 && dtype != MUSTER_BOOL; layouts++) {
            ops_pair x = ops_laid_out(w, dtype, 2, 8, 5, layouts % 3), indices = some_indices(w, index_dtypes[layouts % 3], 8, 3),
                     y = ops_laid_out(w, dtype, 2, 3, 5, layouts / 3);
            double expected[15];
            for (int64_t i = 0; i < 15; i++) expected[i] = plain_sum(&x, &indices, &y, (const int64_t[]){i / 5, i % 5, 0});
            assert_ok(muster_scatter_add(w, x.device, indices.device, y.device));
            ops_fetch(w, &y);
            for (int64_t i = 0; i < 15; i++) assert_true(ops_at(&y, i / 5, i % 5) == expected[i]);
            ops_count_case(o, dtype);
        }
    add_in_order(w);
    long_sums(w);
    refuse_shapes(w);
    for (int d = 0; d < 3; d++)
        for (int64_t at = 0; at < ROWS; at += ROWS - 1) {
            refuse_index(w, index_dtypes[d], 4, at);
            if (index_dtypes[d] != MUSTER_U8) refuse_index(w, index_dtypes[d], -1, at);
        }
}

const ops_oracle ops_oracle_scatter_add = {.draw = draw, .cases = cases, .case_count = 11 * 9};
