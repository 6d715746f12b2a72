/* Pooling for one worker: the largest element, the sum or the average of the elements under a
 * window that slides over the last 1 to 3 axes of x (n, c, extents). y is (n, c, places). Padding
 * is not an element: it is never the largest, and adds nothing to a sum. Operands may have any
 * strides. f16 and bf16 are computed in f32, and rounded once.
 *
 * Of equal elements the first of the window is the largest; a NaN is larger than all others. What
 * has been the largest is found again from x, in a pass that reads it once more: it need not be
 * kept from the forward computation, where it would take as much memory as y or more, and it needs
 * no second result that devices share. The largest of a window without elements is -infinity. */
#ifndef MST_POOLING_IMPL_H
#define MST_POOLING_IMPL_H

#include "window/window_impl.h"
#include "worker_impl.h"

typedef struct mst_pooling {
    mst_window window;
    bool ceil_mode;      /* mst_window_places, rounded_up */
    bool divides;        /* sums become averages, over the elements of the window that lie in x */
    bool counts_padding; /* or, with this, over those that lie in x or its padding */
} mst_pooling;

/* Does the window have at most 2^31 - 1 elements? Others are refused. */
bool mst_pooling_fits(const mst_window *window);

/* The operands have one dtype: f16, bf16, f32 or f64. A result overlaps no operand. Messages begin
 * with `where`. Errors: DTYPE_MISMATCH, UNSUPPORTED, SHAPE_MISMATCH, OUT_OF_MEMORY, those of the
 * worker's device. */
muster_status mst_pooling_max(muster_worker *worker, const mst_pooling *pooling, const muster_tensor *x, const muster_tensor *y,
                              const char *where);
/* y = the elements of z (of the shape of x) that lie where the largest of x are. */
muster_status mst_pooling_take(muster_worker *worker, const mst_pooling *pooling, const muster_tensor *x, const muster_tensor *z,
                               const muster_tensor *y, const char *where);
/* dx = the sums of the dy whose windows have their largest element there. */
muster_status mst_pooling_max_gradient(muster_worker *worker, const mst_pooling *pooling, const muster_tensor *x, const muster_tensor *dy,
                                       const muster_tensor *dx, const char *where);
muster_status mst_pooling_sum(muster_worker *worker, const mst_pooling *pooling, const muster_tensor *x, const muster_tensor *y,
                              const char *where);
/* dx = the sum over the elements of y of dy times their derivatives by x. */
muster_status mst_pooling_sum_gradient(muster_worker *worker, const mst_pooling *pooling, const muster_tensor *dy, const muster_tensor *dx,
                                       const char *where);

#endif
