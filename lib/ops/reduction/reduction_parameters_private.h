/* The parameters of the kernels in reduction.cu and of the host's. All memory is contiguous. */
#ifndef MST_REDUCTION_PARAMETERS_IMPL_H
#define MST_REDUCTION_PARAMETERS_IMPL_H

#include "muster/tensor.h"

typedef struct mst_accumulate_parameters {
    void *accumulator, *values;
    int64_t count;
    double scale;
    int32_t op, dtype, first;
} mst_accumulate_parameters;

/* velocity NULL: an update without momentum. */
typedef struct mst_update_parameters {
    void *x, *parameter, *velocity, *sum;
    int64_t count;
    double alpha, beta;
    int32_t dtype;
} mst_update_parameters;

#endif
