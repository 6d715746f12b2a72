/* The parameters of the kernel in one_hot.cu. */
#ifndef MST_ONE_HOT_PARAMETERS_PRIVATE_H
#define MST_ONE_HOT_PARAMETERS_PRIVATE_H

#include "muster/tensor.h"

/* Strides are in elements. */
typedef struct mst_one_hot_parameters {
    void *labels, *y;
    uint64_t one; /* the bits of 1 in the dtype of y */
    int64_t n, k, label_stride, row_stride, column_stride;
    int32_t element_size, label_dtype;
} mst_one_hot_parameters;

#endif
