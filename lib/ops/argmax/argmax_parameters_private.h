/* What the kernels of argmax.cu get. */
#ifndef MST_ARGMAX_PARAMETERS_IMPL_H
#define MST_ARGMAX_PARAMETERS_IMPL_H

#include "muster/tensor.h"

/* Steps in elements. */
typedef struct mst_argmax_parameters {
    void *x;
    int64_t *index;
    int64_t n, k, down, across, index_step;
    int32_t dtype;
} mst_argmax_parameters;

#endif
