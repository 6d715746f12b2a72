/* What the kernels of reduce.cu get. */
#ifndef MST_REDUCE_PARAMETERS_IMPL_H
#define MST_REDUCE_PARAMETERS_IMPL_H

#include "walk_impl.h"

/* Each result is cut into chunks of `chunk` elements, by numbers that depend on the shapes alone:
 * the order of the additions is the same on every device. */
typedef struct mst_reduce_parameters {
    mst_walk outer; /* over the results: x, y */
    mst_walk inner; /* over what is combined into one: x */
    int64_t results, length, chunks, chunk;
    /* 8 bytes per chunk and result, result i of chunk c at c * results + i; NULL: one chunk,
     * straight into y */
    void *partials;
    double divisor;
    int32_t dtype, op;
} mst_reduce_parameters;

#endif
