/* The parameters of the kernels in reduce.cu. */
#ifndef MST_REDUCE_PARAMETERS_IMPL_H
#define MST_REDUCE_PARAMETERS_IMPL_H

#include "iterator_impl.h"

/* The elements of each result are cut into chunks of `chunk` elements. The numbers depend only on
 * the shapes, so the order of the additions is the same on every device. */
typedef struct mst_reduce_parameters {
    mst_iterator outer; /* over the results: x, y */
    mst_iterator inner; /* over the elements of one result: x */
    int64_t results, length, chunks, chunk;
    /* 8 bytes per chunk and result; result i of chunk c is at index c * results + i. NULL: there is
     * one chunk, which is written to y. */
    void *partials;
    double divisor;
    int32_t dtype, result, op; /* result: the dtype of y */
} mst_reduce_parameters;

#endif
