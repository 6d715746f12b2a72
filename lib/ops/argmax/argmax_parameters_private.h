/* The parameters of the kernels in argmax.cu. */
#ifndef MST_ARGMAX_PARAMETERS_IMPL_H
#define MST_ARGMAX_PARAMETERS_IMPL_H

#include "muster/tensor.h"

/* Strides are in elements. */
typedef struct mst_argmax_parameters {
    void *x;
    int64_t *index;
    int64_t n, k, row_stride, column_stride, index_stride;
    int32_t dtype;
    int32_t smallest; /* argmin */
} mst_argmax_parameters;

#endif
