/* The parameters of the kernels in gemv.cu. */
#ifndef MST_GEMV_PARAMETERS_IMPL_H
#define MST_GEMV_PARAMETERS_IMPL_H

#include "muster/tensor.h"

/* Strides are in elements. */
typedef struct mst_gemv_parameters {
    void *a, *x, *y;
    int64_t n, k, row_stride, column_stride, x_stride, y_stride;
    double alpha, beta;
    int32_t dtype;
} mst_gemv_parameters;

#endif
