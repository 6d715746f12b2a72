/* The parameters of the kernel in tril.cu. */
#ifndef MST_TRIANGLE_PARAMETERS_PRIVATE_H
#define MST_TRIANGLE_PARAMETERS_PRIVATE_H

#include "rows_parameters_private.h"

/* `rows` are the rows of x and y, of which each matrix has `height`. Element j of row i stays where
 * j - i <= diagonal; upper: where j - i >= diagonal. */
typedef struct mst_triangle_parameters {
    mst_rows_parameters rows;
    int64_t height, diagonal;
    int32_t upper, element_size;
} mst_triangle_parameters;

#endif
