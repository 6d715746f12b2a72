/* C = alpha A B + beta C by OpenBLAS. A view whose rows or columns are contiguous is passed
 * unchanged; any other view is packed into scratch memory. */
#include "blas_memory_impl.h"
#include "gemm_private.h"

int64_t mst_gemm_limit = INT32_MAX;

static bool blas_layout(const muster_tensor *matrix, int64_t *ld, int *transpose) {
    int64_t rows = matrix->shape[0], columns = matrix->shape[1], row_stride = matrix->strides[0], column_stride = matrix->strides[1];
    *transpose = MST_GEMM_NO_TRANSPOSE;
    *ld = rows <= 1 ? columns : row_stride;
    if ((column_stride == 1 || columns <= 1) && *ld >= columns && *ld >= 1 && *ld <= INT32_MAX) return true;
    *transpose = MST_GEMM_TRANSPOSE;
    *ld = columns <= 1 ? rows : column_stride;
    return (row_stride == 1 || rows <= 1) && *ld >= rows && *ld >= 1 && *ld <= INT32_MAX;
}

/* The rows of C must be contiguous, because BLAS transposes only its inputs. */
static bool fits(const muster_tensor *matrix, bool output) {
    int64_t ld;
    int transpose;
    return blas_layout(matrix, &ld, &transpose) && !(output && transpose == MST_GEMM_TRANSPOSE);
}

static mst_gemm_operand operand_of(const muster_tensor *matrix, void *pack, bool fill) {
    mst_gemm_operand result = {.size = muster_dtype_size(matrix->dtype), .transpose = MST_GEMM_NO_TRANSPOSE};
    if (!pack) {
        result.data = muster_tensor_address(*matrix);
        blas_layout(matrix, &result.ld, &result.transpose);
        return result;
    }
    if (fill) mst_tensor_pack(pack, *matrix);
    result.data = pack;
    result.ld = matrix->shape[1];
    return result;
}

static char *element(const mst_gemm_operand *matrix, int64_t i, int64_t j) {
    return matrix->data + (matrix->transpose == MST_GEMM_TRANSPOSE ? j * matrix->ld + i : i * matrix->ld + j) * matrix->size;
}

void mst_gemm_by_blas(muster_dtype dtype, int m, int n, int k, double alpha, const mst_gemm_operand *a, const char *at_a,
                      const mst_gemm_operand *b, const char *at_b, double beta, const mst_gemm_operand *c, char *at_c) {
    const mst_blas *blas = mst_blas_get();
    int lda = (int)a->ld, ldb = (int)b->ld, ldc = (int)c->ld;
    if (dtype == MUSTER_F32)
        blas->sgemm(MST_GEMM_ROW_MAJOR, a->transpose, b->transpose, m, n, k, (float)alpha, (const float *)at_a, lda, (const float *)at_b,
                    ldb, (float)beta, (float *)at_c, ldc);
    else
        blas->dgemm(MST_GEMM_ROW_MAJOR, a->transpose, b->transpose, m, n, k, alpha, (const double *)at_a, lda, (const double *)at_b, ldb,
                    beta, (double *)at_c, ldc);
}

static int chunk_size(int64_t begin, int64_t end) { return (int)(end - begin < mst_gemm_limit ? end - begin : mst_gemm_limit); }

/* BLAS sizes are int, so larger extents are computed in several calls. Those after the first along
 * k add to C. */
static void multiply_in_chunks(const mst_gemm_parameters *p, const mst_gemm_operand *a, const mst_gemm_operand *b,
                               const mst_gemm_operand *c) {
    int64_t m = p->c.shape[0], n = p->c.shape[1], k = p->a.shape[1];
    for (int64_t i = 0; i < m; i += mst_gemm_limit)
        for (int64_t j = 0; j < n; j += mst_gemm_limit)
            for (int64_t l = 0; l < k; l += mst_gemm_limit)
                mst_gemm_by_blas(p->c.dtype, chunk_size(i, m), chunk_size(j, n), chunk_size(l, k), p->alpha, a, element(a, i, l), b,
                                 element(b, l, j), l == 0 ? p->beta : 1, c, element(c, i, j));
}

muster_status mst_gemm_host(const void *parameters) {
    const mst_gemm_parameters *p = parameters;
    if (p->c.dtype == MUSTER_F16 || p->c.dtype == MUSTER_BF16) {
        mst_gemm_halves(p);
        return MUSTER_OK;
    }
    mst_gemm_operand a = operand_of(&p->a, p->pack_a, true), b = operand_of(&p->b, p->pack_b, true),
                     c = operand_of(&p->c, p->pack_c, p->beta != 0);
    multiply_in_chunks(p, &a, &b, &c);
    if (p->pack_c) mst_tensor_unpack(p->c, p->pack_c);
    return MUSTER_OK;
}

static muster_status pack_space(muster_worker *worker, const muster_tensor *matrix, bool output, void **pack, const char *where) {
    *pack = NULL;
    if (fits(matrix, output)) return MUSTER_OK;
    if (matrix->shape[1] > INT32_MAX) {
        char shape[128];
        return mst_error(MUSTER_UNSUPPORTED,
                         "%s: a view of shape %s: expected rows or columns behind each other, as BLAS takes them, at most 2^31 - 1 apart",
                         where, mst_shape_text(shape, 2, matrix->shape));
    }
    return mst_worker_scratch_bytes(worker, mst_tensor_bytes(*matrix), pack);
}

muster_status mst_gemm_prepare(muster_worker *worker, mst_gemm_parameters *p, const char *where) {
    if (!mst_device_is_host(worker->device)) return MUSTER_OK;
    if (p->c.dtype == MUSTER_F16 || p->c.dtype == MUSTER_BF16) return mst_gemm_prepare_halves(worker, p);
    MUSTER_TRY(pack_space(worker, &p->a, false, &p->pack_a, where));
    MUSTER_TRY(pack_space(worker, &p->b, false, &p->pack_b, where));
    return pack_space(worker, &p->c, true, &p->pack_c, where);
}

muster_status mst_gemm_check_blas(const muster_worker *worker, const char *where) {
    if (!mst_device_is_host(worker->device) || mst_blas_has_memory(worker->size)) return MUSTER_OK;
    return mst_blas_take_memory(worker->size, where);
}

static muster_status gemm_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values, const char *where) {
    const muster_tensor *a = t[0], *b = t[1], *c = t[2];
    (void)values;
    MUSTER_TRY(mst_op_check(worker, a, where, "a"));
    MUSTER_TRY(mst_op_check(worker, b, where, "b"));
    MUSTER_TRY(mst_op_check(worker, c, where, "c"));
    MUSTER_TRY(mst_op_float_dtype(where, "a", a->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, "b", b->dtype, "a", a->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, "c", c->dtype, "a", a->dtype));
    MUSTER_TRY(mst_op_ndim(where, "a", a, 2));
    MUSTER_TRY(mst_op_ndim(where, "b", b, 2));
    /* The message gives the whole shape of b, the columns from c. */
    const int64_t n = b->shape[0] == a->shape[1] || c->ndim != 2 ? b->shape[1] : c->shape[1];
    MUSTER_TRY(mst_op_shape(where, "b", b, 2, (int64_t[]){a->shape[1], n}));
    MUSTER_TRY(mst_op_shape(where, "c", c, 2, (int64_t[]){a->shape[0], b->shape[1]}));
    return mst_op_check_results(&mst_operation_gemm, t, where);
}

static muster_status gemm_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_gemm(worker, v[0].number, t[0], t[1], v[1].number, t[2]);
}

static const mst_kernel gemm_kernel = {.host = mst_gemm_host, .issue = mst_gemm_issue};

const mst_op_row mst_operation_gemm = {
    MST_OPERATION_ROW(gemm, muster_gemm),
    .operands = {{"a", "mk", MST_IN}, {"b", "kn", MST_IN}, {"c", "mn", MST_IN_OUT}},
    .attributes = {{"alpha", MST_NUMBER}, {"beta", MST_NUMBER}},
    .dtypes = MST_FLOAT_DTYPES,
    .check = gemm_check,
    .run = gemm_run,
    .kernel = &gemm_kernel,
    .error = MST_FLOAT_ERRORS,
};

muster_status muster_gemm(muster_worker *worker, double alpha, muster_tensor a, muster_tensor b, double beta, muster_tensor c) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(gemm_check(worker, MST_TENSORS(&a, &b, &c), NULL, __func__));
    MUSTER_TRY(mst_gemm_check_blas(worker, __func__));
    if (c.shape[0] == 0 || c.shape[1] == 0) return MUSTER_OK;
    if (a.shape[1] == 0) /* no products; C is only scaled */
        return beta == 0 ? muster_fill(worker, 0, c)
                         : mst_scale_add_launch(worker, &(mst_scale_add_parameters){.x = c, .y = c, .alpha = beta, .beta = 0});
    mst_gemm_parameters p = {.a = a, .b = b, .c = c, .alpha = alpha, .beta = beta};
    MUSTER_TRY(mst_gemm_prepare(worker, &p, __func__));
    return mst_op_launch(worker, &gemm_kernel, &p, sizeof p);
}
