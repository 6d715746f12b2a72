/* Why a view cannot be made, which its "no tensor" remembers: reserved0 is the reason, and shape[0]
 * to shape[2] are the numbers of its message. */
#ifndef MST_VIEW_PRIVATE_H
#define MST_VIEW_PRIVATE_H

#include "tensor_impl.h"

typedef enum mst_view_failure {
    MST_VIEW_OF_BAD_NDIM = 1,
    MST_VIEW_SLICE_SCALAR,
    MST_VIEW_SLICE_AXIS,
    MST_VIEW_SLICE_BOUNDS,
    MST_VIEW_PERMUTE_NULL,
    MST_VIEW_PERMUTE,
    MST_VIEW_SQUEEZE_AXIS,
    MST_VIEW_SQUEEZE_SIZE,
    MST_VIEW_BROADCAST_NDIM,
    MST_VIEW_BROADCAST_NULL,
    MST_VIEW_BROADCAST_SIZE,
    MST_VIEW_RESHAPE_NDIM,
    MST_VIEW_RESHAPE_NULL,
    MST_VIEW_RESHAPE_STRIDED,
    MST_VIEW_RESHAPE_COUNT,
} mst_view_failure;

/* "No tensor" with the reason, and the numbers of its message in their order. */
muster_tensor mst_view_failed(mst_view_failure failure, int64_t a, int64_t b, int64_t c);

/* A tensor that a view function passes on as it is: "no tensor", with its reason if it has one. */
static inline bool mst_view_of_none(const muster_tensor *tensor) { return tensor->dtype == MUSTER_DTYPE_NONE; }

#endif
