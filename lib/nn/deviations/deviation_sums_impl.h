/* Sums of squared deviations from a center, and of products with them, in f64 whatever the elements
 * are: the square of a large f32 is no f32, and neither is the distance from one of another
 * sign. */
#ifndef MST_DEVIATION_SUMS_IMPL_H
#define MST_DEVIATION_SUMS_IMPL_H

#include "muster/tensor.h"
#include "muster/worker.h"

#include <stdbool.h>

/* y = the sums of factor (x - center) over the set `axes`, which has bit d for axis d. x: f32 or
 * f64; factor: as x, or NULL, which stands for x - center; center: f64, a scalar or the shape of x
 * with 1 in place of the axes; y: f64, the shape of x without the axes. `quick`: the center is 0,
 * there is no factor, and squares of f32 are summed in f32, block by block, where their sums are in
 * its range. The operands are not checked. */
muster_status mst_deviation_sums(muster_worker *worker, const muster_tensor *x, const muster_tensor *center, const muster_tensor *factor,
                                 uint32_t axes, bool quick, const muster_tensor *y);

#endif
