#include "window/window_impl.h"

int64_t mst_window_places(const mst_window *window, int32_t axis, int64_t extent, bool rounded_up) {
    const int64_t stride = window->stride[axis], before = window->before[axis];
    int64_t padded, span;
    if (__builtin_add_overflow(extent, before, &padded) || __builtin_add_overflow(padded, window->after[axis], &padded)) return -1;
    if (__builtin_mul_overflow(window->size[axis] - 1, window->dilation[axis], &span) || span > padded - 1) return 0;
    const int64_t last = padded - 1 - span; /* the last element at which a window may begin */
    if (!rounded_up) return last / stride + 1;
    const int64_t places = last / stride + (last % stride != 0) + 1;
    return (places - 1) * stride >= extent + before ? places - 1 : places;
}

void mst_window_inside(const mst_window *window, int32_t axis, int64_t place, int64_t extent, int64_t *first, int64_t *end) {
    const int64_t begin = place * window->stride[axis] - window->before[axis], dilation = window->dilation[axis];
    *first = begin < 0 ? (-begin + dilation - 1) / dilation : 0;
    *end = begin < extent ? (extent - begin + dilation - 1) / dilation : 0;
    if (*end > window->size[axis]) *end = window->size[axis];
    if (*first > *end) *first = *end;
}

void mst_window_layout(const muster_tensor *tensor, int64_t shape[MST_WINDOW_DIMS], int64_t strides[MST_WINDOW_DIMS]) {
    const int32_t missing = MST_WINDOW_DIMS - tensor->ndim;
    for (int32_t d = 0; d < MST_WINDOW_DIMS; d++) {
        const int32_t from = d < 2 ? d : d - missing;
        shape[d] = d >= 2 && from < 2 ? 1 : tensor->shape[from];
        strides[d] = d >= 2 && from < 2 ? 0 : tensor->strides[from];
    }
}

mst_window mst_window_of_all_axes(const mst_window *window) {
    mst_window all = {.axes = MST_WINDOW_AXES};
    for (int32_t d = 0; d < MST_WINDOW_AXES; d++) {
        const int32_t from = d - (MST_WINDOW_AXES - window->axes);
        all.size[d] = from < 0 ? 1 : window->size[from];
        all.stride[d] = from < 0 ? 1 : window->stride[from];
        all.dilation[d] = from < 0 ? 1 : window->dilation[from];
        all.before[d] = from < 0 ? 0 : window->before[from];
        all.after[d] = from < 0 ? 0 : window->after[from];
    }
    return all;
}
