/* A pooling as the computations see it: the shapes and strides of its operands, and their
 * addresses. Host code and kernel sources include this file. */
#ifndef MST_POOLING_PARAMETERS_PRIVATE_H
#define MST_POOLING_PARAMETERS_PRIVATE_H

#include <stdint.h>

enum { MST_POOLING_AXES = 3, MST_POOLING_DIMS = MST_POOLING_AXES + 2 };
enum { MST_POOLING_MAX, MST_POOLING_TAKE, MST_POOLING_MAX_GRADIENT, MST_POOLING_SUM, MST_POOLING_SUM_GRADIENT, MST_POOLING_KINDS };

/* Three extents, whatever the pooling has: those that it lacks come first, and are 1. Strides are
 * in elements. */
typedef struct mst_pooling_layout {
    int64_t shape[MST_POOLING_DIMS], strides[MST_POOLING_DIMS];
} mst_pooling_layout;

/* MAX, TAKE and SUM write y; the others read the gradient of the result from it. SUM_GRADIENT
 * writes x. z has the shape of x: TAKE reads it, MAX_GRADIENT writes it. */
typedef struct mst_pooling_parameters {
    mst_pooling_layout x, y, z;
    int64_t size[MST_POOLING_AXES], stride[MST_POOLING_AXES], dilation[MST_POOLING_AXES];
    int64_t before[MST_POOLING_AXES], after[MST_POOLING_AXES]; /* padding */
    int32_t kind, dtype;
    int32_t divides, counts_padding; /* of sums: averages; of all elements up to the end of the padding */
    char *at_x, *at_y, *at_z;        /* addresses of the first elements; NULL: there is no such operand */
} mst_pooling_parameters;

#endif
