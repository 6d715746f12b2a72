#include "../sort/sort_private.h"

static muster_status argsort_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                   const char *where) {
    const muster_tensor *x = t[0], *index = t[1];
    (void)values;
    MUSTER_TRY(mst_op_check(worker, x, where, "x"));
    MUSTER_TRY(mst_op_check(worker, index, where, "index"));
    if (index->dtype != MUSTER_I64)
        return mst_error(MUSTER_DTYPE_MISMATCH, "%s: index: expected i64, received %s", where, muster_dtype_name(index->dtype));
    MUSTER_TRY(mst_rows_check_axes(where, "x", x, 1));
    MUSTER_TRY(mst_op_same_shape(where, "index", index, "x", x));
    return mst_op_check_results(&mst_operation_argsort, t, where);
}

static muster_status argsort_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    (void)v;
    return muster_argsort(worker, t[0], t[1]);
}

const mst_op_row mst_operation_argsort = {
    MST_OPERATION_ROW(argsort, muster_argsort),
    .operands = {{"x", "*", MST_IN}, {"index", "*", MST_OUT, MST_DTYPE_BIT(MUSTER_I64)}},
    .dtypes = MST_ALL_DTYPES,
    .check = argsort_check,
    .run = argsort_run,
    .kernel = &mst_sort_kernel,
    .code = mst_sort_code,
    .code_count = MST_SORT_CODE,
};

muster_status muster_argsort(muster_worker *worker, muster_tensor x, muster_tensor index) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(argsort_check(worker, MST_TENSORS(&x, &index), NULL, __func__));
    return mst_sort_launch(worker, &x, false, x.shape[x.ndim - 1], NULL, &index);
}
