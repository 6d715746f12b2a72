#include "../argmax/argmax_private.h"

static muster_status argmin_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                  const char *where) {
    (void)values;
    return mst_argmax_check(worker, &mst_operation_argmin, t, where);
}

static muster_status argmin_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    (void)v;
    return muster_argmin(worker, t[0], t[1]);
}

const mst_op_row mst_operation_argmin = {
    MST_OPERATION_ROW(argmin, muster_argmin),
    .operands = {{"x", "nk", MST_IN}, {"index", "n", MST_OUT, MST_DTYPE_BIT(MUSTER_I64)}},
    .dtypes = MST_ALL_DTYPES,
    .check = argmin_check,
    .run = argmin_run,
    .kernel = &mst_argmax_kernel,
    .code = mst_argmax_code,
    .code_count = MST_ARGMAX_CODE,
};

muster_status muster_argmin(muster_worker *worker, muster_tensor x, muster_tensor index) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(mst_argmax_check(worker, &mst_operation_argmin, MST_TENSORS(&x, &index), __func__));
    mst_argmax_request p = {.x = x, .index = index, .smallest = true};
    return mst_op_launch(worker, &mst_argmax_kernel, &p, sizeof p);
}
