/* Windows that slide over the last axes of a tensor (n, c, extents...): the geometry of convolution
 * and pooling. */
#ifndef MST_WINDOW_IMPL_H
#define MST_WINDOW_IMPL_H

#include "muster/tensor.h"

#include <stdbool.h>

enum { MST_WINDOW_AXES = 3 };

/* Element k of a window at place p of the result lies at p * stride + k * dilation - before in the
 * operand, where what lies outside of the operand is padding. */
typedef struct mst_window {
    int32_t axes; /* 1 to MST_WINDOW_AXES */
    int64_t size[MST_WINDOW_AXES], stride[MST_WINDOW_AXES], dilation[MST_WINDOW_AXES];
    int64_t before[MST_WINDOW_AXES], after[MST_WINDOW_AXES]; /* elements of padding */
} mst_window;

/* How many places the window has along an axis of this extent: 0 where it does not fit once, -1
 * where the numbers overflow. Sizes, strides and dilations are at least 1. `rounded_up`: the last
 * window may reach beyond the padding, but begins before the padding behind the operand. */
int64_t mst_window_places(const mst_window *window, int32_t axis, int64_t extent, bool rounded_up);
/* The elements k from *first up to *end of the window at this place are not padding. */
void mst_window_inside(const mst_window *window, int32_t axis, int64_t place, int64_t extent, int64_t *first, int64_t *end);

/* The tensor (n, c, extents...) and the window with three extents, whatever they have: those that
 * they lack come first. Of the tensor these are 1, with stride 0; strides are in elements. The
 * window has there size, stride and dilation 1, and no padding. */
enum { MST_WINDOW_DIMS = MST_WINDOW_AXES + 2 };
void mst_window_layout(const muster_tensor *tensor, int64_t shape[MST_WINDOW_DIMS], int64_t strides[MST_WINDOW_DIMS]);
mst_window mst_window_of_all_axes(const mst_window *window);

#endif
