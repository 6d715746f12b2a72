/* y = value op x. */
#include "../binary/binary_private.h"

static muster_status scalar_binary_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                         const char *where) {
    return mst_scalar_check(worker, &mst_operation_scalar_binary, t, (int32_t)values[0].integer, values[1].number, where, NULL);
}

static muster_status scalar_binary_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_scalar_binary(worker, (muster_binary)v[0].integer, v[1].number, t[0], t[1]);
}

const mst_op_row mst_operation_scalar_binary = {
    MST_OPERATION_ROW(scalar_binary, muster_scalar_binary),
    .operands = {{"x", "~", MST_IN}, {"y", "*", MST_OUT | MST_IN_PLACE}},
    .attributes = {{"op", MST_CHOICE, mst_binary_names}, {"value", MST_NUMBER}},
    .dtypes = MST_NUMBER_DTYPES,
    .takes = mst_binary_takes,
    .check = scalar_binary_check,
    .run = scalar_binary_run,
    .kernel = &mst_scalar_kernel,
    .code = &mst_binary_code[MST_BINARY_SCALAR],
    .code_count = 1,
    .error = MST_FLOAT_ERRORS,
};

muster_status muster_scalar_binary(muster_worker *worker, muster_binary op, double value, muster_tensor x, muster_tensor y) {
    MST_OP_WORKER(worker);
    mst_scalar_request p = {.x = x, .y = y, .op = op, .reversed = true};
    MUSTER_TRY(mst_scalar_check(worker, &mst_operation_scalar_binary, MST_TENSORS(&x, &y), op, value, __func__, &p.element));
    return mst_op_launch(worker, &mst_scalar_kernel, &p, sizeof p);
}
