/* Reductions that read several inputs at once. */
#ifndef MST_MANY_IMPL_H
#define MST_MANY_IMPL_H

#include "ops_impl.h"

/* The same bits as mst_reduction_accumulate of one input after the other. */
void mst_many_accumulate(muster_reduction op, muster_dtype dtype, void *accumulator, const void *const *inputs, int64_t input_count,
                         int64_t count, double scale);
/* Can the accumulator be an output, and the output one of the inputs? Then every element of all
 * inputs is read before it is written, and needs no conversion. */
bool mst_many_in_place(muster_reduction op, muster_dtype dtype, int64_t input_count);

#endif
