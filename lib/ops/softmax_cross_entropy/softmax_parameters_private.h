/* The parameters of the kernels in softmax_cross_entropy.cu. */
#ifndef MST_SOFTMAX_PARAMETERS_IMPL_H
#define MST_SOFTMAX_PARAMETERS_IMPL_H

#include "muster/tensor.h"

/* Strides are in elements. gradient and correct may be NULL. losses and hits have one element per
 * row; a hit of -1 means that the label is out of range. bad is the first row with such a label, or
 * -1, and that label. */
typedef struct mst_softmax_parameters {
    void *logits, *labels, *loss, *gradient;
    int64_t *correct;
    double *losses;
    int64_t *hits, *bad;
    int64_t n, k, row_stride, column_stride, label_stride, gradient_row_stride, gradient_column_stride;
    double scale;
    int32_t dtype, label_dtype;
} mst_softmax_parameters;

#endif
