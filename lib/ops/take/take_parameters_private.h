/* The parameters of the kernel in take.cu. */
#ifndef MST_TAKE_PARAMETERS_PRIVATE_H
#define MST_TAKE_PARAMETERS_PRIVATE_H

#include "iterator_impl.h"

typedef struct mst_take_parameters {
    mst_iterator row; /* x, y: one row */
    void *indices;
    int64_t count;              /* rows of y */
    int64_t elements;           /* of one row */
    int64_t first, rows;        /* x has so many rows, from index `first` on; others are `nothing` */
    int64_t x_stride, y_stride; /* between rows, in bytes */
    int64_t index_stride;       /* in elements */
    int32_t element_size, index_dtype;
    uint64_t nothing; /* the bits of an element */
} mst_take_parameters;

#endif
