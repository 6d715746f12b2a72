/* Reductions by device code, for reduce.c and dot.c. */
#ifndef MST_REDUCE_ISSUE_PRIVATE_H
#define MST_REDUCE_ISSUE_PRIVATE_H

#include "../op_impl.h"
#include "reduce_parameters_private.h"

enum { MST_REDUCE_CODE = 3 };
extern mst_code_kernel mst_reduce_code[MST_REDUCE_CODE];

/* y = the reduction of x over the set `axes`, which has bit d for axis d. There is at least one
 * result; `length` elements are combined into each. An average is divided by the divisor,
 * which is 1 otherwise. */
muster_status mst_reduce_issue(muster_worker *worker, muster_reduction op, const muster_tensor *x, uint32_t axes, const muster_tensor *y,
                               int64_t length, double divisor);
/* Cuts the `length` elements of one result into equal chunks; only the last one may be smaller.
 * There are at most `most` chunks, and at most length / least, rounded up. Returns their number,
 * and their size in *chunk. */
int64_t mst_reduce_cut(int64_t length, int64_t least, int64_t most, int64_t *chunk);
/* y, a single element, = the sum of the `count` doubles at the device address `partials`. */
muster_status mst_reduce_sum_partials(muster_worker *worker, void *partials, int64_t count, const muster_tensor *y);

#endif
