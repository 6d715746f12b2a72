#include "ops_oracle.h"

#include "base_check.h"

/* Element `index` of alpha A B + beta C; the last two places of the index are the row and the
 * column. */
static double plain_product(const ops_pair *a, const ops_pair *b, const ops_pair *c, const int64_t *index, double alpha, double beta) {
    const int32_t ndim = c->host.ndim, row = ndim - 2, column = ndim - 1;
    int64_t at_a[MUSTER_MAX_DIMS], at_b[MUSTER_MAX_DIMS];
    double sum = 0;
    for (int32_t d = 0; d < ndim; d++) at_a[d] = at_b[d] = index[d];
    for (int64_t l = 0; l < a->host.shape[a->host.ndim - 1]; l++) {
        at_a[column] = at_b[row] = l;
        at_a[row] = index[row], at_b[column] = index[column];
        sum += ops_element(a->host, ndim, at_a) * ops_element(b->host, ndim, at_b);
    }
    return ops_scaled(alpha, sum, beta, ops_element(c->host, ndim, index));
}

/* The leading axes of one operand broadcast to those of the other, which c has. */
static void draw(muster_worker *w, const mst_op_row *o) {
    const muster_dtype dtype = ops_random_dtype(o);
    const int64_t m = ops_random_size(6), n = ops_random_size(6), k = ops_random_size(9);
    const double alpha = (double)ops_random(5) - 2, beta = (double)ops_random(3);
    ops_shape batch = {.ndim = (int32_t)ops_random(4)};
    for (int32_t d = 0; d < batch.ndim; d++) batch.size[d] = ops_random_size(4);
    ops_shape of_a = batch, of_b = ops_random_repeated(&batch), of_c = batch;
    if (ops_random(2)) of_a = of_b, of_b = batch;
    of_a.size[of_a.ndim++] = m, of_a.size[of_a.ndim++] = k;
    of_b.size[of_b.ndim++] = k, of_b.size[of_b.ndim++] = n;
    of_c.size[of_c.ndim++] = m, of_c.size[of_c.ndim++] = n;
    ops_pair a = ops_input(w, dtype, of_a), b = ops_input(w, dtype, of_b), y = ops_output(w, dtype, of_c);
    if (beta == 0) ops_fill_with_nan(w, &y);
    FOR_EVERY(y, plain_product(&a, &b, &y, index, alpha, beta));
    const muster_status status = ops_apply(w, o, VALUES({.number = alpha}, {.number = beta}), PAIRS(&a, &b, &y));
    if (mst_blas_get()->sgemm || !mst_device_is_host(w->device)) {
        assert_ok(status);
        ops_check(w, o, &y, ops_results);
    } else {
        assert_refused(status, MUSTER_UNAVAILABLE, "muster_gemm_batched");
    }
}

/* ---- fixed cases: sizes (2, 3, 4, 5), (2, 3, 5, 2) and (2, 3, 4, 2) ---- */

static const int64_t shape_a[] = {2, 3, 4, 5}, shape_b[] = {2, 3, 5, 2}, shape_c[] = {2, 3, 4, 2};

/* 0: contiguous; 1: the matrices transposed; 2: the axes of the batch exchanged, and every second
 * row; 3 and above, of inputs only: one matrix for all (3), for each index of axis 0 (4), of axis 1
 * (5); 6: without leading axes. */
enum { OUTPUTS = 3, INPUTS = 7 };
static ops_pair lay_out(muster_worker *w, muster_dtype dtype, const int64_t *shape, int layout) {
    const int64_t rows = shape[2], columns = shape[3], matrix = rows * columns;
    const int64_t strides[INPUTS][4] = {{3 * matrix, matrix, columns, 1},
                                        {3 * matrix, matrix, 1, rows},
                                        {2 * matrix, 4 * matrix, 2 * columns, 1},
                                        {0, 0, columns, 1},
                                        {matrix, 0, columns, 1},
                                        {0, matrix, columns, 1},
                                        {0, 0, columns, 1}};
    ops_pair p = ops_make(w, dtype, 12 * matrix);
    p.host = muster_tensor_make(dtype, p.host_storage.data, 4, shape);
    for (int32_t d = 0; d < 4; d++) {
        p.host.strides[d] = strides[layout][d];
        if (p.host.strides[d] == 0) p.host.shape[d] = 1;
    }
    if (layout == 6) p.host = muster_tensor_make(dtype, p.host_storage.data, 2, shape + 2);
    ops_place(&p);
    return p;
}

static void one_case(muster_worker *w, const mst_op_row *o, muster_dtype dtype, int of_a, int of_b, int of_c) {
    ops_pair a = lay_out(w, dtype, shape_a, of_a), b = lay_out(w, dtype, shape_b, of_b), y = lay_out(w, dtype, shape_c, of_c);
    FOR_EVERY(y, plain_product(&a, &b, &y, index, 2, -1));
    assert_ok(muster_gemm_batched(w, 2, a.device, b.device, -1, y.device));
    ops_check(w, o, &y, ops_results);
    ops_count_case(o, dtype);
}

static void refusals(muster_worker *w) {
    ops_pair a = lay_out(w, MUSTER_F32, shape_a, 0), b = lay_out(w, MUSTER_F32, shape_b, 0), c = lay_out(w, MUSTER_F32, shape_c, 0),
             vector = ops_laid_out(w, MUSTER_F32, 1, 5, 0, 0), ints = lay_out(w, MUSTER_I32, shape_a, 0);
    assert_refused(muster_gemm_batched(w, 1, vector.device, b.device, 0, c.device), MUSTER_SHAPE_MISMATCH,
                   "muster_gemm_batched: a: expected at least 2 dimensions, received shape (5,)");
    assert_refused(muster_gemm_batched(w, 1, a.device, a.device, 0, c.device), MUSTER_SHAPE_MISMATCH,
                   "muster_gemm_batched: b: expected a shape that ends in (5, 5), received (2, 3, 4, 5)");
    assert_refused(muster_gemm_batched(w, 1, a.device, b.device, 0, b.device), MUSTER_SHAPE_MISMATCH,
                   "muster_gemm_batched: c: expected a shape that ends in (4, 2), received (2, 3, 5, 2)");
    assert_refused(muster_gemm_batched(w, 1, ints.device, ints.device, 0, ints.device), MUSTER_UNSUPPORTED,
                   "muster_gemm_batched: a: expected f16, bf16, f32 or f64, received i32");
    for (int32_t d = 0; d < 2; d++) {
        muster_tensor more = c.device, b_of_more = b.device;
        more.shape[d]++, b_of_more.shape[d]++;
        assert_refused(muster_gemm_batched(w, 1, a.device, b.device, 0, more), MUSTER_SHAPE_MISMATCH,
                       "muster_gemm_batched: a: expected leading axes that broadcast to those of c, (");
        assert_refused(muster_gemm_batched(w, 1, a.device, b_of_more, 0, c.device), MUSTER_SHAPE_MISMATCH,
                       "muster_gemm_batched: b: expected leading axes that broadcast to those of c, (2, 3, 4, 2), received (");
    }
}

static void cases(muster_worker *w, const mst_op_row *o) {
    assert_ok(mst_blas_open(false));
    for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++)
        for (int of_a = 0; of_a < INPUTS; of_a++)
            for (int of_b = 0; of_b < INPUTS; of_b++)
                for (int of_c = 0; of_c < OUTPUTS; of_c++) one_case(w, o, dtype, of_a, of_b, of_c);
    refusals(w);
    mst_blas_close();
}

const ops_oracle ops_oracle_gemm_batched = {
    .draw = draw, .cases = cases, .case_count = 4 * INPUTS * INPUTS * OUTPUTS, .values = {{.number = 1}}};
