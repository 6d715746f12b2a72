/* Views of tensors by other axes. What cannot be made gives "no tensor" with its reason. */
#include "view_private.h"

static bool has_axes(const muster_tensor *tensor) { return tensor->ndim >= 0 && tensor->ndim <= MUSTER_MAX_DIMS; }

muster_tensor muster_tensor_slice_axis(muster_tensor tensor, int32_t axis, int64_t begin, int64_t end) {
    if (mst_view_of_none(&tensor)) return tensor;
    if (!has_axes(&tensor)) return mst_view_failed(MST_VIEW_OF_BAD_NDIM, tensor.ndim, 0, 0);
    if (axis < 0 || axis >= tensor.ndim) return mst_view_failed(MST_VIEW_SLICE_AXIS, tensor.ndim, axis, 0);
    if (begin < 0 || begin > end || end > tensor.shape[axis]) return mst_view_failed(MST_VIEW_SLICE_BOUNDS, tensor.shape[axis], begin, end);
    if (begin != end) tensor.byte_offset += begin * tensor.strides[axis] * muster_dtype_size(tensor.dtype);
    tensor.shape[axis] = end - begin;
    return tensor;
}

muster_tensor muster_tensor_permute(muster_tensor tensor, const int32_t *axes) {
    muster_tensor permuted = tensor;
    uint32_t seen = 0;
    if (mst_view_of_none(&tensor)) return tensor;
    if (!has_axes(&tensor)) return mst_view_failed(MST_VIEW_OF_BAD_NDIM, tensor.ndim, 0, 0);
    if (tensor.ndim > 0 && !axes) return mst_view_failed(MST_VIEW_PERMUTE_NULL, tensor.ndim, 0, 0);
    for (int32_t i = 0; i < tensor.ndim; i++) {
        if (axes[i] < 0 || axes[i] >= tensor.ndim || (seen & 1u << axes[i]))
            return mst_view_failed(MST_VIEW_PERMUTE, tensor.ndim, axes[i], i);
        seen |= 1u << axes[i];
        permuted.shape[i] = tensor.shape[axes[i]];
        permuted.strides[i] = tensor.strides[axes[i]];
    }
    return permuted;
}

muster_tensor muster_tensor_squeeze(muster_tensor tensor, int32_t axis) {
    if (mst_view_of_none(&tensor)) return tensor;
    if (!has_axes(&tensor)) return mst_view_failed(MST_VIEW_OF_BAD_NDIM, tensor.ndim, 0, 0);
    if (axis < -1 || axis >= tensor.ndim) return mst_view_failed(MST_VIEW_SQUEEZE_AXIS, tensor.ndim, axis, 0);
    if (axis >= 0 && tensor.shape[axis] != 1) return mst_view_failed(MST_VIEW_SQUEEZE_SIZE, axis, tensor.shape[axis], 0);
    muster_tensor squeezed = tensor;
    squeezed.ndim = 0;
    for (int32_t i = 0; i < tensor.ndim; i++) {
        if (i == axis || (axis == -1 && tensor.shape[i] == 1)) continue;
        squeezed.shape[squeezed.ndim] = tensor.shape[i];
        squeezed.strides[squeezed.ndim++] = tensor.strides[i];
    }
    for (int32_t i = squeezed.ndim; i < tensor.ndim; i++) squeezed.shape[i] = squeezed.strides[i] = 0;
    return squeezed;
}

muster_tensor muster_tensor_broadcast(muster_tensor tensor, int32_t ndim, const int64_t *shape) {
    muster_tensor wide = tensor;
    if (mst_view_of_none(&tensor)) return tensor;
    if (!has_axes(&tensor)) return mst_view_failed(MST_VIEW_OF_BAD_NDIM, tensor.ndim, 0, 0);
    if (ndim < tensor.ndim || ndim > MUSTER_MAX_DIMS) return mst_view_failed(MST_VIEW_BROADCAST_NDIM, tensor.ndim, ndim, 0);
    if (ndim > 0 && !shape) return mst_view_failed(MST_VIEW_BROADCAST_NULL, ndim, 0, 0);
    wide.ndim = ndim;
    for (int32_t i = 0; i < ndim; i++) {
        const int32_t from = i - (ndim - tensor.ndim);
        const int64_t size = from < 0 ? 1 : tensor.shape[from];
        if (shape[i] < 0 || (size != 1 && size != shape[i])) return mst_view_failed(MST_VIEW_BROADCAST_SIZE, size, i, shape[i]);
        wide.shape[i] = shape[i];
        wide.strides[i] = from < 0 || (size == 1 && shape[i] != 1) ? 0 : tensor.strides[from];
    }
    return wide;
}

int32_t muster_tensor_is_contiguous(muster_tensor tensor) { return has_axes(&tensor) && mst_tensor_contiguous(tensor); }

int64_t muster_tensor_bytes(muster_tensor tensor) {
    int64_t bytes;
    return mst_multiply(muster_tensor_count(tensor), muster_dtype_size(tensor.dtype), &bytes) ? bytes : 0;
}
