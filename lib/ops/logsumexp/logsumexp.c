/* y = log(sum(exp(x))) along the last axis, which y lacks. */
#include "../softmax/softmax_private.h"

static muster_status logsumexp_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                     const char *where) {
    const muster_tensor *x = t[0], *y = t[1];
    (void)values;
    MUSTER_TRY(mst_op_check(worker, x, where, "x"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    MUSTER_TRY(mst_op_float_dtype(where, "x", x->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, "y", y->dtype, "x", x->dtype));
    MUSTER_TRY(mst_rows_check_axes(where, "x", x, 1));
    MUSTER_TRY(mst_op_shape(where, "y", y, x->ndim - 1, x->shape));
    return mst_op_check_results(&mst_operation_logsumexp, t, where);
}

static muster_status logsumexp_infer(const mst_op_value *values, muster_tensor *t, const char *where) {
    (void)values;
    MUSTER_TRY(mst_rows_check_axes(where, "x", &t[0], 1));
    t[1] = muster_tensor_make(t[0].dtype, t[1].data, t[0].ndim - 1, t[0].shape);
    return MUSTER_OK;
}

static muster_status logsumexp_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    (void)v;
    return muster_logsumexp(worker, t[0], t[1]);
}

const mst_op_row mst_operation_logsumexp = {
    MST_OPERATION_ROW(logsumexp, muster_logsumexp),
    .operands = {{"x", "?", MST_IN}, {"y", "?", MST_OUT}},
    .dtypes = MST_FLOAT_DTYPES,
    .check = logsumexp_check,
    .infer = logsumexp_infer,
    .run = logsumexp_run,
    .kernel = &mst_softmax_kernel,
    .code = mst_softmax_code,
    .code_count = MST_SOFTMAX_CODE,
    .error = MST_FLOAT_ERRORS,
};

muster_status muster_logsumexp(muster_worker *worker, muster_tensor x, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(logsumexp_check(worker, MST_TENSORS(&x, &y), NULL, __func__));
    return mst_softmax_launch(worker, MST_LOGSUMEXP, 2, MST_TENSORS(&x, &y));
}
