/* Reductions by device code, for reduce.c and dot.c. */
#ifndef MST_REDUCE_ISSUE_PRIVATE_H
#define MST_REDUCE_ISSUE_PRIVATE_H

#include "../op_impl.h"
#include "reduce_parameters_private.h"

enum { MST_REDUCE_CODE = 3 };
extern mst_code_kernel mst_reduce_code[MST_REDUCE_CODE];

/* y = the reduction of x over axis (-1: all), of which there is at least one result; length:
 * elements of each. */
muster_status mst_reduce_issue(muster_worker *worker, muster_reduction op, const muster_tensor *x, int32_t axis, const muster_tensor *y,
                               int64_t length);
/* Chunks of one result, at most `most` of them, each of at least `least` elements (but for the
 * last). */
int64_t mst_reduce_cut(int64_t length, int64_t least, int64_t most, int64_t *chunk);
/* y, a single element = the sum of `count` doubles at a device address. */
muster_status mst_reduce_sum_partials(muster_worker *worker, void *partials, int64_t count, const muster_tensor *y);

#endif
