/* A convolution as the computations see it: the shapes and strides of its operands, and their
 * addresses. Host code and kernel sources include this file. */
#ifndef MST_CONVOLUTION_PARAMETERS_PRIVATE_H
#define MST_CONVOLUTION_PARAMETERS_PRIVATE_H

#include <stdint.h>

enum { MST_CONVOLUTION_AXES = 3, MST_CONVOLUTION_DIMS = MST_CONVOLUTION_AXES + 2 };
enum { MST_CONVOLUTION_FORWARD, MST_CONVOLUTION_DATA, MST_CONVOLUTION_WEIGHTS, MST_CONVOLUTION_KINDS };

/* Three extents, whatever the convolution has: those that it lacks come first, and are 1. Strides
 * are in elements. */
typedef struct mst_convolution_layout {
    int64_t shape[MST_CONVOLUTION_DIMS], strides[MST_CONVOLUTION_DIMS];
} mst_convolution_layout;

/* All that a state depends on. Two geometries are equal if their bytes are. */
typedef struct mst_convolution_geometry {
    mst_convolution_layout x, w, y;
    int64_t stride[MST_CONVOLUTION_AXES], dilation[MST_CONVOLUTION_AXES];
    int64_t before[MST_CONVOLUTION_AXES], after[MST_CONVOLUTION_AXES]; /* padding */
    int64_t groups, bias_stride;
    int32_t kind, dtype, axes; /* axes: of the extents, the last ones, that the convolution has */
    int32_t has_bias;
} mst_convolution_geometry;

/* Kind FORWARD writes y. Kind DATA writes x, and kind WEIGHTS writes w: both read the gradient of
 * the result from y. */
typedef struct mst_convolution_parameters {
    mst_convolution_geometry geometry;
    char *x, *w, *y, *bias; /* addresses of the first elements; bias NULL: none */
} mst_convolution_parameters;

#endif
