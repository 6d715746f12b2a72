/* The parameters of the kernel of a fused group but for the addresses, for host code and device
 * code. */
#ifndef MST_FUSED_PARAMETERS_PRIVATE_H
#define MST_FUSED_PARAMETERS_PRIVATE_H

#include "muster/tensor.h"

enum { MST_FUSED_TENSORS = 20 };
typedef struct mst_fused_parameters {
    int64_t count; /* elements */
    int32_t ndim;
    uint32_t wanted; /* a bit for each result */
    int64_t shape[MUSTER_MAX_DIMS];
    int64_t strides[MST_FUSED_TENSORS][MUSTER_MAX_DIMS]; /* in bytes: of the operands, then of the results */
} mst_fused_parameters;

#endif
