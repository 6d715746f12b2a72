/* Reduction over a set of axes, by the code of muster_reduce. Axes that are contiguous with each
 * other are read as one, and nothing is copied. */
#include "../reduce/reduce_issue_private.h"
#include "../reduce/reduce_private.h"

static muster_status reduce_axes_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                       const char *where) {
    uint32_t axes;
    int64_t length;
    return mst_reduce_check(worker, &mst_operation_reduce_axes, t, (muster_reduction)values[0].integer, (int32_t)values[1].integer, where,
                            &axes, &length);
}

static muster_status reduce_axes_infer(const mst_op_value *values, muster_tensor *tensors, const char *where) {
    uint32_t axes;
    MUSTER_TRY(mst_reduce_axes_set(where, &tensors[0], (int32_t)values[1].integer, &axes));
    mst_reduce_infer(axes, tensors);
    return MUSTER_OK;
}

static muster_status reduce_axes_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_reduce_axes(worker, (muster_reduction)v[0].integer, t[0], (int32_t)v[1].integer, t[1]);
}

const mst_op_row mst_operation_reduce_axes = {
    MST_OPERATION_ROW(reduce_axes, muster_reduce_axes),
    .operands = {{"x", "*", MST_IN}, {"y", "?", MST_OUT | MST_IN_PLACE}},
    .attributes = {{"op", MST_CHOICE, mst_reduce_names}, {"axes", MST_INTEGER}},
    .dtypes = MST_ALL_DTYPES,
    .takes = mst_reduce_takes,
    .check = reduce_axes_check,
    .infer = reduce_axes_infer,
    .run = reduce_axes_run,
    .kernel = &mst_reduce_kernel,
    .code = mst_reduce_code,
    .code_count = MST_REDUCE_CODE,
    .error = MST_FLOAT_ERRORS,
};

muster_status muster_reduce_axes(muster_worker *worker, muster_reduction op, muster_tensor x, int32_t axes, muster_tensor y) {
    MST_OP_WORKER(worker);
    uint32_t set;
    int64_t length;
    MUSTER_TRY(mst_reduce_check(worker, &mst_operation_reduce_axes, MST_TENSORS(&x, &y), op, axes, __func__, &set, &length));
    return mst_reduce_launch(worker, op, &x, set, &y, length, length);
}
