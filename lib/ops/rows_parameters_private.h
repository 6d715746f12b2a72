/* The parameters of kernels that compute each row by itself, on the host and on devices. A row is
 * the elements along one axis. */
#ifndef MST_ROWS_PARAMETERS_PRIVATE_H
#define MST_ROWS_PARAMETERS_PRIVATE_H

#include "iterator_impl.h"

typedef struct mst_rows_parameters {
    mst_iterator rows;                     /* over the first elements of the rows of each operand */
    int64_t count, length;                 /* rows; elements of a row of the first operand */
    int64_t stride[MST_ITERATOR_OPERANDS]; /* along a row, in bytes */
    void *work;                            /* scratch memory of the operation */
    int64_t chunk, chunks;                 /* a row is cut into chunks of that many elements */
    int32_t dtype, op;
    int32_t result; /* cumsum: the dtype of y */
} mst_rows_parameters;

#endif
