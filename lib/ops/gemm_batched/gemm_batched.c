/* Products of many matrices: those of muster_gemm, one for each index of the leading axes. Where B
 * is the same matrix for all of them and the rows of A and of C lie behind each other, they are one
 * product of all rows. */
#include "../dot/dot_private.h"
#include "../gemm/gemm_private.h"

typedef struct batched_parameters {
    mst_gemm_parameters one; /* the first product */
    mst_iterator batch;      /* over the matrices of A, B and C */
} batched_parameters;

/* The last two axes. */
static muster_tensor matrix_of(const muster_tensor *tensor) {
    muster_tensor matrix = *tensor;
    matrix.ndim = 2;
    for (int32_t d = 0; d < MUSTER_MAX_DIMS; d++) {
        matrix.shape[d] = d < 2 ? tensor->shape[tensor->ndim - 2 + d] : 0;
        matrix.strides[d] = d < 2 ? tensor->strides[tensor->ndim - 2 + d] : 0;
    }
    return matrix;
}

/* The axes before the last two. */
static muster_tensor batch_of(const muster_tensor *tensor) {
    muster_tensor batch = *tensor;
    batch.ndim -= 2;
    return batch;
}

/* ---- the products ---- */

typedef struct batched_run {
    mst_gemm_parameters one;
    muster_worker *worker; /* NULL: on the host */
    muster_status status;
} batched_run;

static void set_matrix(muster_tensor *matrix, char *data) {
    matrix->data = data;
    matrix->byte_offset = 0;
}

static void multiply_each(void *context, char *const *at, const int64_t *stride, int64_t n) {
    batched_run *run = context;
    for (int64_t i = 0; i < n && run->status == MUSTER_OK; i++) {
        set_matrix(&run->one.a, at[0] + i * stride[0]);
        set_matrix(&run->one.b, at[1] + i * stride[1]);
        set_matrix(&run->one.c, at[2] + i * stride[2]);
        run->status = run->worker ? mst_gemm_issue(run->worker, &run->one) : mst_gemm_host(&run->one);
    }
}

/* Products of one row and one column, of f32 or f64: a call of BLAS takes longer than most. */
static void dot_each(void *context, char *const *at, const int64_t *stride, int64_t n) {
    const mst_gemm_parameters *p = context;
    for (int64_t i = 0; i < n; i++) {
        const double sum = p->alpha * mst_dot_host(p->c.dtype, at[0] + i * stride[0], p->a.strides[1], at[1] + i * stride[1],
                                                   p->b.strides[0], p->a.shape[1]);
        void *c = at[2] + i * stride[2];
        if (p->c.dtype == MUSTER_F32)
            *(float *)c = (float)(p->beta == 0 ? sum : sum + p->beta * (double)*(float *)c);
        else
            *(double *)c = p->beta == 0 ? sum : sum + p->beta * *(double *)c;
    }
}

static muster_status batched_host(const void *parameters) {
    const batched_parameters *p = parameters;
    batched_run run = {.one = p->one};
    const bool dots = p->one.c.shape[0] == 1 && p->one.c.shape[1] == 1 && MST_BLAS_DTYPES & MST_DTYPE_BIT(p->one.c.dtype);
    mst_iterator_run(&p->batch, dots ? dot_each : multiply_each, dots ? (void *)&run.one : &run);
    return run.status;
}

static muster_status batched_issue(muster_worker *worker, const void *parameters) {
    const batched_parameters *p = parameters;
    batched_run run = {.one = p->one, .worker = worker};
    mst_iterator_run(&p->batch, multiply_each, &run);
    return run.status;
}

static const mst_kernel batched_kernel = {.host = batched_host, .issue = batched_issue};

/* ---- the check ---- */

static muster_status refuse_end(const char *where, const char *what, const muster_tensor *tensor, int64_t rows, int64_t columns) {
    char expected[128], received[128];
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s: %s: expected a shape that ends in %s, received %s", where, what,
                     mst_shape_text(expected, 2, (const int64_t[]){rows, columns}), mst_shape_text(received, tensor->ndim, tensor->shape));
}

static muster_status check_ndim(const char *where, const char *what, const muster_tensor *tensor) {
    char received[128];
    if (tensor->ndim >= 2) return MUSTER_OK;
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s: %s: expected at least 2 dimensions, received shape %s", where, what,
                     mst_shape_text(received, tensor->ndim, tensor->shape));
}

static muster_status check_matrices(const char *where, const muster_tensor *a, const muster_tensor *b) {
    MUSTER_TRY(check_ndim(where, "a", a));
    MUSTER_TRY(check_ndim(where, "b", b));
    const int64_t k = a->shape[a->ndim - 1];
    return b->shape[b->ndim - 2] == k ? MUSTER_OK : refuse_end(where, "b", b, k, b->shape[b->ndim - 1]);
}

static muster_status check_batch(const char *where, const char *what, const muster_tensor *x, const char *other_what,
                                 const muster_tensor *other) {
    bool fits = x->ndim <= other->ndim;
    for (int32_t d = 0; fits && d < x->ndim - 2; d++) fits = x->shape[d] == 1 || x->shape[d] == other->shape[d + other->ndim - x->ndim];
    char expected[128], received[128];
    if (fits) return MUSTER_OK;
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s: %s: expected leading axes that broadcast to those of %s, %s, received %s", where, what,
                     other_what, mst_shape_text(expected, other->ndim, other->shape), mst_shape_text(received, x->ndim, x->shape));
}

static muster_status gemm_batched_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                        const char *where) {
    const muster_tensor *a = t[0], *b = t[1], *c = t[2];
    (void)values;
    MUSTER_TRY(mst_op_check(worker, a, where, "a"));
    MUSTER_TRY(mst_op_check(worker, b, where, "b"));
    MUSTER_TRY(mst_op_check(worker, c, where, "c"));
    MUSTER_TRY(mst_op_float_dtype(where, "a", a->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, "b", b->dtype, "a", a->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, "c", c->dtype, "a", a->dtype));
    MUSTER_TRY(check_matrices(where, a, b));
    MUSTER_TRY(check_ndim(where, "c", c));
    const int64_t m = a->shape[a->ndim - 2], n = b->shape[b->ndim - 1];
    if (c->shape[c->ndim - 2] != m || c->shape[c->ndim - 1] != n) return refuse_end(where, "c", c, m, n);
    MUSTER_TRY(check_batch(where, "a", a, "c", c));
    MUSTER_TRY(check_batch(where, "b", b, "c", c));
    return mst_op_check_results(&mst_operation_gemm_batched, t, where);
}

static muster_status gemm_batched_infer(const mst_op_value *values, muster_tensor *t, const char *where) {
    (void)values;
    MUSTER_TRY(check_matrices(where, &t[0], &t[1]));
    const bool a_is_longer = t[0].ndim >= t[1].ndim;
    const muster_tensor *longer = a_is_longer ? &t[0] : &t[1], *shorter = a_is_longer ? &t[1] : &t[0];
    int64_t shape[MUSTER_MAX_DIMS];
    for (int32_t d = 0; d < longer->ndim - 2; d++) {
        const int32_t other = d - (longer->ndim - shorter->ndim);
        const int64_t n = longer->shape[d], o = other < 0 ? 1 : shorter->shape[other];
        if (n != o && n != 1 && o != 1) return check_batch(where, "b", &t[1], "a", &t[0]);
        shape[d] = n == 1 ? o : n;
    }
    shape[longer->ndim - 2] = t[0].shape[t[0].ndim - 2];
    shape[longer->ndim - 1] = t[1].shape[t[1].ndim - 1];
    t[2] = muster_tensor_make(t[0].dtype, t[2].data, longer->ndim, shape);
    return MUSTER_OK;
}

static muster_status gemm_batched_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_gemm_batched(worker, v[0].number, t[0], t[1], v[1].number, t[2]);
}

const mst_op_row mst_operation_gemm_batched = {
    MST_OPERATION_ROW(gemm_batched, muster_gemm_batched),
    .operands = {{"a", "?", MST_IN}, {"b", "?", MST_IN}, {"c", "?", MST_IN_OUT}},
    .attributes = {{"alpha", MST_NUMBER}, {"beta", MST_NUMBER}},
    .dtypes = MST_FLOAT_DTYPES,
    .check = gemm_batched_check,
    .infer = gemm_batched_infer,
    .run = gemm_batched_run,
    .kernel = &batched_kernel,
    .error = MST_FLOAT_ERRORS,
};

/* ---- the function ---- */

/* On devices: a copy in scratch memory of matrices that the device's gemm does not take. */
static muster_status arrange(muster_worker *worker, const muster_tensor *tensor, bool output, bool fill, muster_tensor *arranged) {
    const muster_tensor matrix = matrix_of(tensor);
    bool transpose;
    int64_t ld;
    *arranged = *tensor;
    if (mst_gemm_device_fits(&matrix, output, &transpose, &ld)) return MUSTER_OK;
    MUSTER_TRY(muster_worker_scratch(worker, tensor->dtype, tensor->ndim, tensor->shape, arranged));
    return fill ? muster_copy(worker, *tensor, *arranged) : MUSTER_OK;
}

/* Are the batches of A and C more rows of the same matrix, and is B one matrix? Then the product is
 * made a single one. */
static void join_rows(batched_parameters *p) {
    muster_tensor *a = &p->one.a, *c = &p->one.c;
    const int64_t size = muster_dtype_size(a->dtype), batches = p->batch.shape[0], m = c->shape[0];
    if (p->batch.ndim != 1 || p->batch.strides[1][0] != 0) return;
    if (m == 1) a->strides[0] = p->batch.strides[0][0] / size, c->strides[0] = p->batch.strides[2][0] / size;
    if (p->batch.strides[0][0] != m * a->strides[0] * size || p->batch.strides[2][0] != m * c->strides[0] * size) return;
    a->shape[0] = c->shape[0] = m * batches;
    p->batch.shape[0] = 1;
}

static muster_status multiply_batch(muster_worker *worker, double alpha, const muster_tensor *a, const muster_tensor *b, double beta,
                                    const muster_tensor *c, const char *where) {
    batched_parameters p = {.one = {.a = matrix_of(a), .b = matrix_of(b), .c = matrix_of(c), .alpha = alpha, .beta = beta}};
    const muster_tensor batch_a = batch_of(a), batch_b = batch_of(b), batch_c = batch_of(c);
    mst_iterator_make(&p.batch, batch_c.ndim, batch_c.shape, 3, (const muster_tensor *[]){&batch_a, &batch_b, &batch_c});
    join_rows(&p);
    MUSTER_TRY(mst_gemm_prepare(worker, &p.one, where));
    return mst_op_launch(worker, &batched_kernel, &p, sizeof p);
}

muster_status muster_gemm_batched(muster_worker *worker, double alpha, muster_tensor a, muster_tensor b, double beta, muster_tensor c) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(gemm_batched_check(worker, MST_TENSORS(&a, &b, &c), NULL, __func__));
    MUSTER_TRY(mst_gemm_check_blas(worker, __func__));
    if (muster_tensor_count(c) == 0) return MUSTER_OK;
    if (a.shape[a.ndim - 1] == 0) /* no products; C is only scaled */
        return beta == 0 ? muster_fill(worker, 0, c)
                         : mst_scale_add_launch(worker, &(mst_scale_add_parameters){.x = c, .y = c, .alpha = beta, .beta = 0});
    if (mst_device_is_host(worker->device)) return multiply_batch(worker, alpha, &a, &b, beta, &c, __func__);
    muster_tensor on_a, on_b, on_c;
    MUSTER_TRY(arrange(worker, &a, false, true, &on_a));
    MUSTER_TRY(arrange(worker, &b, false, true, &on_b));
    MUSTER_TRY(arrange(worker, &c, true, beta != 0, &on_c));
    MUSTER_TRY(multiply_batch(worker, alpha, &on_a, &on_b, beta, &on_c, __func__));
    return on_c.data == c.data ? MUSTER_OK : muster_copy(worker, on_c, c);
}
