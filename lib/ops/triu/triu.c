#include "../tril/triangle_private.h"

static muster_status triu_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values, const char *where) {
    (void)values;
    return mst_triangle_check(worker, &mst_operation_triu, t, where);
}

static muster_status triu_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_triu(worker, t[0], v[0].integer, t[1]);
}

const mst_op_row mst_operation_triu = {
    MST_OPERATION_ROW(triu, muster_triu),
    .operands = {{"x", "*", MST_IN}, {"y", "*", MST_OUT | MST_IN_PLACE}},
    .attributes = {{"k", MST_INTEGER}},
    .dtypes = MST_ALL_DTYPES,
    .check = triu_check,
    .run = triu_run,
    .kernel = &mst_triangle_kernel,
    .code = mst_triangle_code,
    .code_count = MST_TRIANGLE_CODE,
};

muster_status muster_triu(muster_worker *worker, muster_tensor x, int64_t k, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(mst_triangle_check(worker, &mst_operation_triu, MST_TENSORS(&x, &y), __func__));
    return mst_triangle_launch(worker, true, k, &x, &y);
}
