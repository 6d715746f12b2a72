/* The parameters of the kernel in scatter_add.cu. */
#ifndef MST_SCATTER_ADD_PARAMETERS_PRIVATE_H
#define MST_SCATTER_ADD_PARAMETERS_PRIVATE_H

#include "iterator_impl.h"

/* The thread of element e of place k in the order adds up element e of a row of y, if k is the
 * first place of the row: all its parts of x, in the order of their indices. The result does not
 * depend on the device. */
typedef struct mst_scatter_add_parameters {
    mst_iterator row; /* x, y: one row */
    void *indices;
    int64_t *order;             /* the places of the indices, those of the smallest first, then in their own order */
    int64_t count;              /* rows of x */
    int64_t elements;           /* of one row */
    int64_t first, rows;        /* y has so many rows, from index `first` on; others are left out */
    int64_t x_stride, y_stride; /* between rows, in bytes */
    int64_t index_stride;       /* in elements */
    int32_t dtype, index_dtype;
} mst_scatter_add_parameters;

#endif
