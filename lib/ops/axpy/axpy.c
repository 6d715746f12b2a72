#include "../op_impl.h"

muster_status muster_axpy(muster_worker *worker, double alpha, muster_tensor x, muster_tensor y) {
    MST_OP_WORKER(worker);
    MST_OP_TENSOR(worker, x);
    MST_OP_TENSOR(worker, y);
    MUSTER_TRY(mst_op_blas_dtype(__func__, "x", x.dtype));
    MUSTER_TRY(mst_op_same_dtype(__func__, "y", y.dtype, "x", x.dtype));
    MUSTER_TRY(mst_op_same_shape(__func__, "x", &x, "y", &y));
    return mst_scale_add_launch(worker, &(mst_scale_add_parameters){.x = x, .y = y, .alpha = alpha, .beta = 1});
}
