#include "../softmax/softmax_private.h"

static muster_status log_softmax_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                       const char *where) {
    (void)values;
    return mst_softmax_check(worker, &mst_operation_log_softmax, t, where);
}

static muster_status log_softmax_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    (void)v;
    return muster_log_softmax(worker, t[0], t[1]);
}

const mst_op_row mst_operation_log_softmax = {
    MST_OPERATION_ROW(log_softmax, muster_log_softmax),
    .operands = {{"x", "*", MST_IN}, {"y", "*", MST_OUT | MST_IN_PLACE}},
    .dtypes = MST_FLOAT_DTYPES,
    .check = log_softmax_check,
    .run = log_softmax_run,
    .kernel = &mst_softmax_kernel,
    .code = mst_softmax_code,
    .code_count = MST_SOFTMAX_CODE,
    .error = MST_FLOAT_ERRORS,
};

muster_status muster_log_softmax(muster_worker *worker, muster_tensor x, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(mst_softmax_check(worker, &mst_operation_log_softmax, MST_TENSORS(&x, &y), __func__));
    return mst_softmax_launch(worker, MST_LOG_SOFTMAX, 2, MST_TENSORS(&x, &y));
}
