/* C = alpha A B + beta C by OpenBLAS. A view whose rows or columns are contiguous is passed
 * unchanged; any other view is packed into scratch memory. */
#include "gemm_private.h"

int64_t mst_gemm_limit = INT32_MAX;

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112 };

/* A matrix as BLAS takes it: element (i, j) at data[i * ld + j], or data[j * ld + i] when
 * transposed. */
typedef struct operand {
    char *data;
    int64_t ld, size;
    int transpose;
} operand;

static bool blas_layout(const muster_tensor *matrix, int64_t *ld, int *transpose) {
    int64_t rows = matrix->shape[0], columns = matrix->shape[1], row_stride = matrix->strides[0], column_stride = matrix->strides[1];
    *transpose = NO_TRANSPOSE;
    *ld = rows <= 1 ? columns : row_stride;
    if ((column_stride == 1 || columns <= 1) && *ld >= columns && *ld >= 1 && *ld <= INT32_MAX) return true;
    *transpose = TRANSPOSE;
    *ld = columns <= 1 ? rows : column_stride;
    return (row_stride == 1 || rows <= 1) && *ld >= rows && *ld >= 1 && *ld <= INT32_MAX;
}

/* The rows of C must be contiguous, because BLAS transposes only its inputs. */
static bool fits(const muster_tensor *matrix, bool output) {
    int64_t ld;
    int transpose;
    return blas_layout(matrix, &ld, &transpose) && !(output && transpose == TRANSPOSE);
}

static operand operand_of(const muster_tensor *matrix, void *pack, bool fill) {
    operand result = {.size = muster_dtype_size(matrix->dtype), .transpose = NO_TRANSPOSE};
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

static char *element(const operand *matrix, int64_t i, int64_t j) {
    return matrix->data + (matrix->transpose == TRANSPOSE ? j * matrix->ld + i : i * matrix->ld + j) * matrix->size;
}

static void multiply(muster_dtype dtype, int m, int n, int k, double alpha, const operand *a, const char *at_a, const operand *b,
                     const char *at_b, double beta, const operand *c, char *at_c) {
    const mst_blas *blas = mst_blas_get();
    int lda = (int)a->ld, ldb = (int)b->ld, ldc = (int)c->ld;
    if (dtype == MUSTER_F32)
        blas->sgemm(ROW_MAJOR, a->transpose, b->transpose, m, n, k, (float)alpha, (const float *)at_a, lda, (const float *)at_b, ldb,
                    (float)beta, (float *)at_c, ldc);
    else
        blas->dgemm(ROW_MAJOR, a->transpose, b->transpose, m, n, k, alpha, (const double *)at_a, lda, (const double *)at_b, ldb, beta,
                    (double *)at_c, ldc);
}

static int chunk_size(int64_t begin, int64_t end) { return (int)(end - begin < mst_gemm_limit ? end - begin : mst_gemm_limit); }

/* BLAS sizes are int, so larger extents are computed in several calls. Those after the first along
 * k add to C. */
static void multiply_in_chunks(const mst_gemm_parameters *p, const operand *a, const operand *b, const operand *c) {
    int64_t m = p->c.shape[0], n = p->c.shape[1], k = p->a.shape[1];
    for (int64_t i = 0; i < m; i += mst_gemm_limit)
        for (int64_t j = 0; j < n; j += mst_gemm_limit)
            for (int64_t l = 0; l < k; l += mst_gemm_limit)
                multiply(p->c.dtype, chunk_size(i, m), chunk_size(j, n), chunk_size(l, k), p->alpha, a, element(a, i, l), b,
                         element(b, l, j), l == 0 ? p->beta : 1, c, element(c, i, j));
}

static muster_status gemm_host(const void *parameters) {
    const mst_gemm_parameters *p = parameters;
    operand a = operand_of(&p->a, p->pack_a, true), b = operand_of(&p->b, p->pack_b, true), c = operand_of(&p->c, p->pack_c, p->beta != 0);
    multiply_in_chunks(p, &a, &b, &c);
    if (p->pack_c) mst_tensor_unpack(p->c, p->pack_c);
    return MUSTER_OK;
}

static muster_status pack_space(muster_worker *worker, const muster_tensor *matrix, bool output, void **pack) {
    *pack = NULL;
    if (fits(matrix, output)) return MUSTER_OK;
    if (matrix->shape[1] > INT32_MAX) {
        char shape[128];
        return mst_error(
            MUSTER_UNSUPPORTED,
            "muster_gemm: a view of shape %s: expected rows or columns behind each other, as BLAS takes them, at most 2^31 - 1 apart",
            mst_shape_text(shape, 2, matrix->shape));
    }
    return mst_worker_scratch_bytes(worker, mst_tensor_bytes(*matrix), pack);
}

static muster_status gemm_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values, const char *where) {
    const muster_tensor *a = t[0], *b = t[1], *c = t[2];
    (void)values;
    MUSTER_TRY(mst_op_check(worker, a, where, "a"));
    MUSTER_TRY(mst_op_check(worker, b, where, "b"));
    MUSTER_TRY(mst_op_check(worker, c, where, "c"));
    MUSTER_TRY(mst_device_is_host(worker->device) ? mst_op_blas_dtype(where, "a", a->dtype) : mst_op_float_dtype(where, "a", a->dtype));
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

static const mst_kernel gemm_kernel = {.host = gemm_host, .issue = mst_gemm_issue};

const mst_op_row mst_operation_gemm = {
    MST_OPERATION_ROW(gemm, muster_gemm),
    .operands = {{"a", "mk", MST_IN}, {"b", "kn", MST_IN}, {"c", "mn", MST_IN_OUT}},
    .attributes = {{"alpha", MST_NUMBER}, {"beta", MST_NUMBER}},
    .dtypes = MST_BLAS_DTYPES,
    .code_dtypes = MST_FLOAT_DTYPES,
    .check = gemm_check,
    .run = gemm_run,
    .kernel = &gemm_kernel,
    .error = MST_FLOAT_ERRORS,
};

muster_status muster_gemm(muster_worker *worker, double alpha, muster_tensor a, muster_tensor b, double beta, muster_tensor c) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(gemm_check(worker, MST_TENSORS(&a, &b, &c), NULL, __func__));
    if (mst_device_is_host(worker->device) && (!mst_blas_get()->sgemm || !mst_blas_get()->dgemm))
        return mst_error(MUSTER_UNAVAILABLE,
                         "%s: worker: expected a BLAS library, received none (%s); install the Debian package libopenblas0-pthread",
                         __func__, mst_blas_get()->description ? mst_blas_get()->description : "not opened");
    if (c.shape[0] == 0 || c.shape[1] == 0) return MUSTER_OK;
    if (a.shape[1] == 0) /* no products; C is only scaled */
        return beta == 0 ? muster_fill(worker, 0, c)
                         : mst_scale_add_launch(worker, &(mst_scale_add_parameters){.x = c, .y = c, .alpha = beta, .beta = 0});
    mst_gemm_parameters p = {.a = a, .b = b, .c = c, .alpha = alpha, .beta = beta};
    if (mst_device_is_host(worker->device)) {
        MUSTER_TRY(pack_space(worker, &a, false, &p.pack_a));
        MUSTER_TRY(pack_space(worker, &b, false, &p.pack_b));
        MUSTER_TRY(pack_space(worker, &c, true, &p.pack_c));
    }
    return mst_op_launch(worker, &gemm_kernel, &p, sizeof p);
}
