/* Convolutions for one worker: the convolution, the gradient of its data, which is also the
 * transposed convolution, and the gradient of its weights. With x (n, c, extents),
 * w (o, c / groups, window) and y (n, o, places), of 1 to 3 extents,
 *     y[n, o, p] = bias[o] + sum over c', k of w[o, c', k] x[n, first + c',
 *                  p * stride + k * dilation - before]
 * where `first` is the first channel of o's group, and x is 0 outside of its extents. Operands may
 * have any strides. f16 and bf16 are computed in f32, and rounded once. */
#ifndef MST_CONVOLUTION_IMPL_H
#define MST_CONVOLUTION_IMPL_H

#include "window/window_impl.h"
#include "worker_impl.h"

typedef struct mst_convolution {
    mst_window window; /* its sizes are those of w */
    int64_t groups;    /* divides c and o; each group of channels of x makes a group of those of y */
} mst_convolution;

/* *state is NULL at first. It keeps what a foreign library has made for these dtypes, shapes and
 * strides, so that later runs make nothing; runs with other ones are legal, and make their own.
 * Operands have one dtype: f16, bf16, f32 or f64. A result overlaps no operand. `bias` NULL: none.
 * Messages begin with `where`. Errors: DTYPE_MISMATCH, UNSUPPORTED, SHAPE_MISMATCH, OUT_OF_MEMORY,
 * those of the worker's device. */
muster_status mst_convolution_forward(muster_worker *worker, const mst_convolution *convolution, const muster_tensor *x,
                                      const muster_tensor *w, const muster_tensor *bias, const muster_tensor *y, void **state,
                                      const char *where);
/* dx = the sum over the elements of y of dy times their derivatives by x. */
muster_status mst_convolution_data(muster_worker *worker, const mst_convolution *convolution, const muster_tensor *dy,
                                   const muster_tensor *w, const muster_tensor *dx, void **state, const char *where);
/* dw = the same by w. */
muster_status mst_convolution_weights(muster_worker *worker, const mst_convolution *convolution, const muster_tensor *x,
                                      const muster_tensor *dy, const muster_tensor *dw, void **state, const char *where);
/* Between calls, before the device's first convolution: makes what a foreign library has for the
 * device as a whole. Without it, and where that cannot be made, our own code computes. */
void mst_convolution_open(mst_device *device);
/* Ends a state; NULL does nothing. */
void mst_convolution_release(void *state);

#endif
