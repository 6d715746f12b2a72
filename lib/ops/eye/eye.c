/* y = 0, and then 1 in a view of the diagonal. */
#include "../op_impl.h"

static muster_status eye_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values, const char *where) {
    (void)values;
    MUSTER_TRY(mst_op_check(worker, t[0], where, "y"));
    MUSTER_TRY(mst_op_ndim(where, "y", t[0], 2));
    return mst_op_check_results(&mst_operation_eye, t, where);
}

static muster_status eye_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_eye(worker, v[0].integer, t[0]);
}

const mst_op_row mst_operation_eye = {
    MST_OPERATION_ROW(eye, muster_eye),
    .operands = {{"y", "nm", MST_OUT}},
    .attributes = {{"k", MST_INTEGER}},
    .dtypes = MST_ALL_DTYPES,
    .check = eye_check,
    .run = eye_run,
};

/* The elements (i, i + k), of which there are none where k is outside of the matrix. */
static muster_tensor diagonal_of(const muster_tensor *y, int64_t k) {
    const int64_t n = y->shape[0], m = y->shape[1], row = k < 0 ? -k : 0, column = k > 0 ? k : 0;
    muster_tensor diagonal = *y;
    diagonal.ndim = 1;
    diagonal.shape[0] = n - row < m - column ? n - row : m - column;
    diagonal.strides[0] = y->strides[0] + y->strides[1];
    diagonal.shape[1] = diagonal.strides[1] = 0;
    diagonal.byte_offset += (row * y->strides[0] + column * y->strides[1]) * muster_dtype_size(y->dtype);
    return diagonal;
}

muster_status muster_eye(muster_worker *worker, int64_t k, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(eye_check(worker, MST_TENSORS(&y), NULL, __func__));
    MUSTER_TRY(muster_fill(worker, 0, y));
    return k <= -y.shape[0] || k >= y.shape[1] ? MUSTER_OK : muster_fill(worker, 1, diagonal_of(&y, k));
}
