#include "rows_private.h"

/* The tensor without the axis; tensors that do not have it are unchanged. */
static muster_tensor without_axis(const muster_tensor *tensor, int32_t axis, int32_t ndim) {
    muster_tensor rest = *tensor;
    if (tensor->ndim < ndim) return rest;
    rest.ndim--;
    for (int32_t d = axis; d < rest.ndim; d++) {
        rest.shape[d] = tensor->shape[d + 1];
        rest.strides[d] = tensor->strides[d + 1];
    }
    return rest;
}

void mst_rows_make(mst_rows_parameters *p, int32_t axis, int32_t operands, const muster_tensor *const *tensors) {
    muster_tensor rest[MST_ITERATOR_OPERANDS];
    const muster_tensor *addresses[MST_ITERATOR_OPERANDS];
    const int32_t ndim = tensors[0]->ndim;
    for (int32_t i = 0; i < operands; i++) {
        rest[i] = without_axis(tensors[i], axis, ndim);
        addresses[i] = &rest[i];
        p->stride[i] = tensors[i]->ndim < ndim ? 0 : tensors[i]->strides[axis] * muster_dtype_size(tensors[i]->dtype);
    }
    mst_iterator_make(&p->rows, rest[0].ndim, rest[0].shape, operands, addresses);
    p->count = muster_tensor_count(rest[0]);
    p->length = tensors[0]->shape[axis];
    p->dtype = tensors[0]->dtype;
}

muster_status mst_rows_check_axes(const char *where, const char *what, const muster_tensor *tensor, int32_t least) {
    char received[128];
    if (tensor->ndim >= least) return MUSTER_OK;
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s: %s: expected at least %d %s, received shape %s", where, what, least,
                     least == 1 ? "dimension" : "dimensions", mst_shape_text(received, tensor->ndim, tensor->shape));
}
