/* The parameters of the kernel in dot.cu. */
#ifndef MST_DOT_PARAMETERS_IMPL_H
#define MST_DOT_PARAMETERS_IMPL_H

#include "muster/tensor.h"

typedef struct mst_dot_parameters {
    void *x, *y;
    double *partials;                                  /* one per chunk */
    int64_t x_stride, y_stride, length, chunk, chunks; /* strides are in elements */
    int32_t dtype;
} mst_dot_parameters;

#endif
