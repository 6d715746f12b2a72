/* The parameters of the kernel in gather.cu and of the host's. */
#ifndef MST_GATHER_PARAMETERS_IMPL_H
#define MST_GATHER_PARAMETERS_IMPL_H

#include "muster/tensor.h"

typedef struct mst_gather_parameters {
    void *to, *from;
    int64_t *indices;
    int64_t row_bytes, count;
    int64_t width; /* bytes moved at once: 1, 2, 4, 8 or 16; addresses and rows are multiples of it */
} mst_gather_parameters;

#endif
