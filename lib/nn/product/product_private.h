/* Products of matrices in host memory, for layers that are made of them: by BLAS where there is one
 * that takes these strides, else by loops. */
#ifndef MST_PRODUCT_PRIVATE_H
#define MST_PRODUCT_PRIVATE_H

#include "op_impl.h"

/* A matrix of f32 or f64; element (i, j) is at data[i * rows + j * columns]. */
typedef struct mst_matrix {
    char *data;
    int64_t rows, columns; /* strides, in elements */
} mst_matrix;
static inline mst_matrix mst_matrix_turned(mst_matrix matrix) {
    return (mst_matrix){.data = matrix.data, .rows = matrix.columns, .columns = matrix.rows};
}
/* c (m, n) = a (m, k) b (k, n) + (add ? c : 0). */
void mst_matrix_product(muster_dtype dtype, int64_t m, int64_t n, int64_t k, mst_matrix a, mst_matrix b, bool add, mst_matrix c);

#endif
