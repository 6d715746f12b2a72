/* all_reduce_apply between ranks on host memory, for the algorithms. */
#ifndef MST_HOST_APPLY_PRIVATE_H
#define MST_HOST_APPLY_PRIVATE_H

#include "algorithm_private.h"
#include "core/apply_private.h"

/* Writes the sum of the range, at most MST_APPLY_STEP bytes, in the dtype of the gradients, to
 * `to`. */
typedef void (*mst_host_sum)(const mst_view *view, const mst_apply_range *range, void *to);

/* Each rank applies the rule to its portion, step by step, and writes the new values into the
 * parameters of all ranks. In the phase SUM, and for a rank on a device, it only sums; in the phase
 * FINISH it sums nothing. */
void mst_host_apply(const mst_view *view, mst_host_sum sum);
/* Sums by the fast loops. */
void mst_combine_sum(const mst_view *view, const mst_apply_range *range, void *to);

#endif
