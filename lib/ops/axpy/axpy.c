#include "../op_impl.h"

static MST_ALWAYS_INLINE muster_status axpy_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                                  const char *where) {
    const muster_tensor *x = t[0], *y = t[1];
    (void)values;
    MUSTER_TRY(mst_op_check(worker, x, where, "x"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    MUSTER_TRY(mst_op_blas_dtype(where, "x", x->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, "y", y->dtype, "x", x->dtype));
    MUSTER_TRY(mst_op_same_shape(where, "x", x, "y", y));
    return mst_op_check_results(&mst_operation_axpy, t, where);
}

static muster_status axpy_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_axpy(worker, v[0].number, t[0], t[1]);
}

const mst_op_row mst_operation_axpy = {
    MST_OPERATION_ROW(axpy, muster_axpy),
    .operands = {{"x", "*", MST_IN}, {"y", "*", MST_IN_OUT | MST_IN_PLACE}},
    .attributes = {{"alpha", MST_NUMBER}},
    .dtypes = MST_BLAS_DTYPES,
    .check = axpy_check,
    .run = axpy_run,
    .error = {[MUSTER_F32] = 1e-6, [MUSTER_F64] = 1e-12},
};

muster_status muster_axpy(muster_worker *worker, double alpha, muster_tensor x, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(axpy_check(worker, MST_TENSORS(&x, &y), NULL, __func__));
    return mst_scale_add_launch(worker, &(mst_scale_add_parameters){.x = x, .y = y, .alpha = alpha, .beta = 1});
}
