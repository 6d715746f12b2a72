/* What the kernels of softmax_cross_entropy.cu get. */
#ifndef MST_SOFTMAX_PARAMETERS_IMPL_H
#define MST_SOFTMAX_PARAMETERS_IMPL_H

#include "muster/tensor.h"

/* Steps in elements; gradient and correct may be NULL. losses, hits: one per row; a hit of -1 is a
 * label out of range. bad: the first row of those, or -1, and its label. */
typedef struct mst_softmax_parameters {
    void *logits, *labels, *loss, *gradient;
    int64_t *correct;
    double *losses;
    int64_t *hits, *bad;
    int64_t n, k, down, across, label_step, gradient_down, gradient_across;
    double scale;
    int32_t dtype, label_dtype;
} mst_softmax_parameters;

#endif
