/* The walk over strided views, and the parameters of elementwise device code: for the host's loops
 * and for kernel texts. */
#ifndef MST_WALK_IMPL_H
#define MST_WALK_IMPL_H

#include "muster/tensor.h"

/* A walk over the elements of up to four operands in row-major order of `shape`, operands repeated
 * into it by the usual rules. Axes that lie behind each other in every operand are joined. steps
 * are in bytes. */
enum { MST_WALK_OPERANDS = 4 };
typedef struct mst_walk {
    int32_t ndim, operands;
    int64_t shape[MUSTER_MAX_DIMS];
    int64_t steps[MST_WALK_OPERANDS][MUSTER_MAX_DIMS];
    char *base[MST_WALK_OPERANDS];
} mst_walk;

/* What the elementwise kernels get. The last operand of the walk is written. */
typedef struct mst_element_parameters {
    mst_walk walk;
    int64_t count; /* elements */
    int32_t dtype; /* of what is written */
    int32_t op;    /* copy: the dtype that is read, 0 for bytes as they are */
    double alpha, beta;
    uint64_t element; /* fill: the bits */
} mst_element_parameters;

#endif
