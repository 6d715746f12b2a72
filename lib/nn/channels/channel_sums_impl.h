/* Sums over the elements of each channel, in f64 whatever the elements are: of the distances from a
 * center, whose squares keep the digits that squares of large numbers lose. */
#ifndef MST_CHANNEL_SUMS_IMPL_H
#define MST_CHANNEL_SUMS_IMPL_H

#include "muster/tensor.h"
#include "muster/worker.h"

/* x: (n, c, ...), f32 or f64; center: (c) of that dtype; factor: as x, or NULL, which stands for x
 * - center. sums, (2, c) of f64: the sum of the factor over all axes but that of the channels, and
 * of factor (x - center). The operands are not checked. */
muster_status mst_channel_sums(muster_worker *worker, const muster_tensor *x, const muster_tensor *center, const muster_tensor *factor,
                               const muster_tensor *sums);

#endif
