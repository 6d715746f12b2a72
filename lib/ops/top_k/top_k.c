/* The k largest elements of each row and their places: the first k of the row in descending
 * order. */
#include "../sort/sort_private.h"

/* The shape of the results: that of x, with k in the place of the last size. */
static muster_status top_k_shape(const char *where, const muster_tensor *x, int64_t k, int64_t shape[MUSTER_MAX_DIMS]) {
    MUSTER_TRY(mst_rows_check_axes(where, "x", x, 1));
    const int64_t length = x->shape[x->ndim - 1];
    for (int32_t d = 0; d < x->ndim; d++) shape[d] = d == x->ndim - 1 ? k : x->shape[d];
    if (k >= 0 && k <= length) return MUSTER_OK;
    return mst_error(MUSTER_OUT_OF_RANGE, "%s: k: expected 0 to the last size of x, %lld, received %lld", where, (long long)length,
                     (long long)k);
}

static muster_status top_k_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                 const char *where) {
    const muster_tensor *x = t[0], *result = t[1], *index = t[2];
    int64_t shape[MUSTER_MAX_DIMS];
    MUSTER_TRY(mst_op_check(worker, x, where, "x"));
    MUSTER_TRY(mst_op_check(worker, result, where, "values"));
    MUSTER_TRY(mst_op_check(worker, index, where, "index"));
    MUSTER_TRY(mst_op_same_dtype(where, "values", result->dtype, "x", x->dtype));
    if (index->dtype != MUSTER_I64)
        return mst_error(MUSTER_DTYPE_MISMATCH, "%s: index: expected i64, received %s", where, muster_dtype_name(index->dtype));
    MUSTER_TRY(top_k_shape(where, x, values[0].integer, shape));
    MUSTER_TRY(mst_op_shape(where, "values", result, x->ndim, shape));
    MUSTER_TRY(mst_op_shape(where, "index", index, x->ndim, shape));
    return mst_op_check_results(&mst_operation_top_k, t, where);
}

static muster_status top_k_infer(const mst_op_value *values, muster_tensor *t, const char *where) {
    int64_t shape[MUSTER_MAX_DIMS];
    MUSTER_TRY(top_k_shape(where, &t[0], values[0].integer, shape));
    t[1] = muster_tensor_make(t[0].dtype, t[1].data, t[0].ndim, shape);
    t[2] = muster_tensor_make(MUSTER_I64, t[2].data, t[0].ndim, shape);
    return MUSTER_OK;
}

static muster_status top_k_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_top_k(worker, t[0], v[0].integer, t[1], t[2]);
}

const mst_op_row mst_operation_top_k = {
    MST_OPERATION_ROW(top_k, muster_top_k),
    .operands = {{"x", "?", MST_IN}, {"values", "?", MST_OUT}, {"index", "?", MST_OUT, MST_DTYPE_BIT(MUSTER_I64)}},
    .attributes = {{"k", MST_INTEGER}},
    .dtypes = MST_ALL_DTYPES,
    .check = top_k_check,
    .infer = top_k_infer,
    .run = top_k_run,
    .kernel = &mst_sort_kernel,
    .code = mst_sort_code,
    .code_count = MST_SORT_CODE,
};

muster_status muster_top_k(muster_worker *worker, muster_tensor x, int64_t k, muster_tensor values, muster_tensor index) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(top_k_check(worker, MST_TENSORS(&x, &values, &index), (const mst_op_value[]){{.integer = k}}, __func__));
    return mst_sort_launch(worker, &x, true, k, &values, &index);
}
