/* Reductions that read several inputs at once. */
#ifndef MST_MANY_PRIVATE_H
#define MST_MANY_PRIVATE_H

#include "ops_impl.h"

/* Gives the same bits as calling mst_reduction_accumulate for one input after the other. */
void mst_many_accumulate(muster_reduction op, muster_dtype dtype, void *accumulator, const void *const *inputs, int64_t input_count,
                         int64_t count, double scale);
/* May the accumulator be an output, and that output one of the inputs? true if the element of every
 * input is read before the result is written, and no element needs conversion. */
bool mst_many_in_place(muster_reduction op, muster_dtype dtype, int64_t input_count);

#endif
