/* The memory of a tensor for code of the program. */
#include "muster/worker.h"

#include "tensor_impl.h"
#include "worker_impl.h"

/* Can code on this thread read the tensor's memory? */
static bool data_is_readable(const muster_tensor *tensor) {
    if (tensor->device == MUSTER_DEVICE_HOST) return true;
    const muster_worker *worker = mst_current_worker();
    return worker && mst_device_is_host(worker->device);
}

static muster_status data_check(const muster_tensor *tensor, muster_dtype dtype) {
    static const char where[] = "muster_tensor_data";
    char shape[128];
    MUSTER_TRY(mst_tensor_check(*tensor, where, "tensor"));
    mst_shape_text(shape, tensor->ndim, tensor->shape);
    if (dtype != MUSTER_DTYPE_NONE && dtype != tensor->dtype)
        return mst_error(MUSTER_DTYPE_MISMATCH, "%s: tensor: expected %s, received %s %s", where, muster_dtype_name(dtype),
                         muster_dtype_name(tensor->dtype), shape);
    if (!data_is_readable(tensor))
        return mst_error(
            MUSTER_INVALID_ARGUMENT,
            "%s: tensor: expected memory that this thread can read, received memory of device %d; muster_worker_read copies it", where,
            (int)tensor->device);
    if (mst_tensor_contiguous(*tensor)) return MUSTER_OK;
    return mst_error(MUSTER_UNSUPPORTED, "%s: tensor: expected a contiguous one, received %s %s with other strides", where,
                     muster_dtype_name(tensor->dtype), shape);
}

muster_status muster_tensor_data(muster_tensor tensor, muster_dtype dtype, void **data) {
    if (!data) return mst_error_null("muster_tensor_data", "data", "the address of a pointer");
    *data = NULL;
    if (mst_tensor_absent(&tensor)) return MUSTER_OK;
    MUSTER_TRY(data_check(&tensor, dtype));
    *data = muster_tensor_address(tensor);
    return MUSTER_OK;
}
