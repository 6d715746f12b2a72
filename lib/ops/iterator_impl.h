/* The iterator over strided views, and the parameters of elementwise device code. Host code and
 * kernel sources include this file. */
#ifndef MST_ITERATOR_IMPL_H
#define MST_ITERATOR_IMPL_H

#include "muster/tensor.h"

/* Iterates over the elements of up to four operands in row-major order of `shape`, to which the
 * operands broadcast by the usual rules. Axes that are contiguous with each other in every operand
 * are joined. The strides in `strides` are in bytes. */
enum { MST_ITERATOR_OPERANDS = 4 };
typedef struct mst_iterator {
    int32_t ndim, operands;
    int64_t shape[MUSTER_MAX_DIMS];
    int64_t strides[MST_ITERATOR_OPERANDS][MUSTER_MAX_DIMS];
    char *base[MST_ITERATOR_OPERANDS];
} mst_iterator;

/* The parameters of the elementwise kernels. The last operand is written. */
typedef struct mst_element_parameters {
    mst_iterator iterator;
    int64_t count; /* elements */
    int32_t dtype; /* the dtype that is written */
    int32_t op;    /* copy: the dtype that is read; 0: the bytes are copied unchanged */
    double alpha, beta;
    uint64_t element; /* fill: the bits of the element */
} mst_element_parameters;

#endif
