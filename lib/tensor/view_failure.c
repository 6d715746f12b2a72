/* Views that cannot be made: "no tensor" that remembers why, for the message of the function that
 * receives it. */
#include "view_private.h"

#include <stdio.h>

enum { REASON = 200 };

muster_tensor mst_view_failed(mst_view_failure failure, int64_t a, int64_t b, int64_t c) {
    muster_tensor none = muster_tensor_none();
    none.reserved0 = (int32_t)failure;
    none.shape[0] = a;
    none.shape[1] = b;
    none.shape[2] = c;
    return none;
}

static int view_reason(char text[REASON], int32_t failure, long long a, long long b, long long c) {
    switch (failure) {
    case MST_VIEW_OF_BAD_NDIM:
        return snprintf(text, REASON, "a view of a tensor with %lld dimensions", a);
    case MST_VIEW_SLICE_SCALAR:
        return snprintf(text, REASON, "muster_tensor_slice: tensor: expected at least 1 dimension, received 0");
    case MST_VIEW_SLICE_AXIS:
        return snprintf(text, REASON, "muster_tensor_slice_axis: axis: expected one of %lld axes, received %lld", a, b);
    case MST_VIEW_SLICE_BOUNDS:
        return snprintf(text, REASON, "muster_tensor_slice_axis: expected 0 <= begin <= end <= %lld, received [%lld, %lld)", a, b, c);
    case MST_VIEW_PERMUTE_NULL:
        return snprintf(text, REASON, "muster_tensor_permute: axes: expected %lld axes, received NULL", a);
    case MST_VIEW_PERMUTE:
        return snprintf(text, REASON, "muster_tensor_permute: axes: expected each of %lld axes once, received %lld at position %lld", a, b,
                        c);
    case MST_VIEW_SQUEEZE_AXIS:
        return snprintf(text, REASON, "muster_tensor_squeeze: axis: expected -1 or one of %lld axes, received %lld", a, b);
    case MST_VIEW_SQUEEZE_SIZE:
        return snprintf(text, REASON, "muster_tensor_squeeze: axis: expected an axis of size 1, received axis %lld of size %lld", a, b);
    case MST_VIEW_BROADCAST_NDIM:
        return snprintf(text, REASON, "muster_tensor_broadcast: ndim: expected %lld to %d, received %lld", a, MUSTER_MAX_DIMS, b);
    case MST_VIEW_BROADCAST_NULL:
        return snprintf(text, REASON, "muster_tensor_broadcast: shape: expected %lld sizes, received NULL", a);
    case MST_VIEW_BROADCAST_SIZE:
        return snprintf(text, REASON, "muster_tensor_broadcast: shape: expected the tensor's size %lld on axis %lld, received %lld", a, b,
                        c);
    case MST_VIEW_RESHAPE_NDIM:
        return snprintf(text, REASON, "muster_tensor_reshape: ndim: expected 0 to %d, received %lld", MUSTER_MAX_DIMS, a);
    case MST_VIEW_RESHAPE_NULL:
        return snprintf(text, REASON, "muster_tensor_reshape: shape: expected %lld sizes, received NULL", a);
    case MST_VIEW_RESHAPE_STRIDED:
        return snprintf(text, REASON, "muster_tensor_reshape: tensor: expected contiguous elements, received strided ones");
    case MST_VIEW_RESHAPE_COUNT:
        return snprintf(text, REASON, "muster_tensor_reshape: shape: expected %lld elements, received another number", a);
    default:
        return 0;
    }
}

muster_status mst_tensor_refuse_none(const muster_tensor *none, const char *where, const char *what) {
    char reason[REASON];
    if (view_reason(reason, none->reserved0, (long long)none->shape[0], (long long)none->shape[1], (long long)none->shape[2]) <= 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected a tensor, received none", where, what);
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected a tensor, received a view that could not be made: %s", where, what, reason);
}
