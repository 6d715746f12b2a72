/* The parameters of the kernels in gemv.cu. */
#ifndef MST_GEMV_PARAMETERS_IMPL_H
#define MST_GEMV_PARAMETERS_IMPL_H

#include "muster/tensor.h"

/* Strides are in elements. */
typedef struct mst_gemv_parameters {
    void *a, *x, *y;
    int64_t n, k, down, across, x_step, y_step;
    double alpha, beta;
    int32_t dtype;
} mst_gemv_parameters;

#endif
