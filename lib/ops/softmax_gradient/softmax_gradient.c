#include "../softmax/softmax_private.h"

static muster_status softmax_gradient_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                            const char *where) {
    (void)values;
    return mst_softmax_gradient_check(worker, &mst_operation_softmax_gradient, t, where);
}

static muster_status softmax_gradient_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    (void)v;
    return muster_softmax_gradient(worker, t[0], t[1], t[2]);
}

const mst_op_row mst_operation_softmax_gradient = {
    MST_OPERATION_ROW(softmax_gradient, muster_softmax_gradient),
    .operands = {{"y", "*", MST_IN}, {"dy", "*", MST_IN}, {"dx", "*", MST_OUT | MST_IN_PLACE}},
    .dtypes = MST_FLOAT_DTYPES,
    .check = softmax_gradient_check,
    .run = softmax_gradient_run,
    .kernel = &mst_softmax_kernel,
    .code = mst_softmax_code,
    .code_count = MST_SOFTMAX_CODE,
    .error = MST_FLOAT_ERRORS,
};

muster_status muster_softmax_gradient(muster_worker *worker, muster_tensor y, muster_tensor dy, muster_tensor dx) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(mst_softmax_gradient_check(worker, &mst_operation_softmax_gradient, MST_TENSORS(&y, &dy, &dx), __func__));
    return mst_softmax_launch(worker, MST_SOFTMAX_GRADIENT, 3, MST_TENSORS(&y, &dy, &dx));
}
