/* Sums of squares in f64, whatever the elements are: most squares of large f32 are no f32. */
#ifndef MST_SQUARES_IMPL_H
#define MST_SQUARES_IMPL_H

#include "muster/tensor.h"
#include "muster/worker.h"

/* result, a scalar of f64, = the sum of the squares of x, f32 or f64. The operands are not
 * checked. */
muster_status mst_squares_launch(muster_worker *worker, const muster_tensor *x, const muster_tensor *result);
/* The same of contiguous host memory. */
double mst_squares_sum(muster_dtype dtype, const void *x, int64_t count);

#endif
