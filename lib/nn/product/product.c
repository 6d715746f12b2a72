/* Products of matrices: by BLAS, or by loops where there is none. */
#include "blas_memory_impl.h"
#include "product/product_private.h"

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112 };

/* ---- by BLAS ---- */

/* The operand (rows, columns) as BLAS takes it: rows behind each other, or columns. */
static bool blas_takes(const mst_matrix *matrix, int64_t rows, int64_t columns, int *ld, int *transpose) {
    const bool plain = (matrix->columns == 1 || columns == 1) && (matrix->rows >= columns || rows == 1);
    const bool turned = (matrix->rows == 1 || rows == 1) && (matrix->columns >= rows || columns == 1);
    int64_t distance = plain ? matrix->rows : matrix->columns;
    const int64_t within = plain ? columns : rows;
    if ((plain ? rows : columns) == 1) distance = within;
    *transpose = plain ? NO_TRANSPOSE : TRANSPOSE;
    *ld = (int)distance;
    return (plain || turned) && distance <= mst_gemm_limit;
}

/* Loops serve a process that has no memory for BLAS. */
static bool may_multiply(const mst_blas *blas) {
    char message[MST_MESSAGE_SIZE];
    if (mst_blas_has_memory(1)) return true;
    if (!blas->sgemm) return false;
    mst_error_save(message);
    return mst_error_restore(mst_blas_take_memory(1, "muster_function_call"), message) == MUSTER_OK;
}

/* c must have rows behind each other. */
static bool product_by_blas(muster_dtype dtype, int64_t m, int64_t n, int64_t k, const mst_matrix *a, const mst_matrix *b, bool add,
                            const mst_matrix *c) {
    const mst_blas *blas = mst_blas_get();
    int lda, ldb, ldc, order_a, order_b, order_c;
    if (!may_multiply(blas)) return false;
    if (m > mst_gemm_limit || n > mst_gemm_limit || k > mst_gemm_limit) return false;
    if (!blas_takes(a, m, k, &lda, &order_a) || !blas_takes(b, k, n, &ldb, &order_b) || !blas_takes(c, m, n, &ldc, &order_c)) return false;
    if (order_c == TRANSPOSE) return false;
    if (dtype == MUSTER_F32)
        blas->sgemm(ROW_MAJOR, order_a, order_b, (int)m, (int)n, (int)k, 1, (const float *)(void *)a->data, lda,
                    (const float *)(void *)b->data, ldb, add, (float *)(void *)c->data, ldc);
    else
        blas->dgemm(ROW_MAJOR, order_a, order_b, (int)m, (int)n, (int)k, 1, (const double *)(void *)a->data, lda,
                    (const double *)(void *)b->data, ldb, add, (double *)(void *)c->data, ldc);
    return true;
}

/* ---- by loops ---- */

/* Rows of c and of b are behind each other, or else rows of a and columns of b, for the inner loop
 * to be vectorised. */
#define LOOPS(name, T)                                                                                                          \
    MST_CLONES static void product_by_rows_##name(int64_t m, int64_t n, int64_t k, const mst_matrix *a, const mst_matrix *b,    \
                                                  const mst_matrix *c) {                                                        \
        for (int64_t i = 0; i < m; i++)                                                                                         \
            for (int64_t l = 0; l < k; l++) {                                                                                   \
                const T factor = ((const T *)(void *)a->data)[i * a->rows + l * a->columns];                                    \
                const T *from = (const T *)(void *)b->data + l * b->rows;                                                       \
                T *to = (T *)(void *)c->data + i * c->rows;                                                                     \
                MST_INDEPENDENT                                                                                                 \
                for (int64_t j = 0; j < n; j++) to[j] += factor * from[j];                                                      \
            }                                                                                                                   \
    }                                                                                                                           \
    MST_CLONES static void product_of_any_##name(int64_t m, int64_t n, int64_t k, const mst_matrix *a, const mst_matrix *b,     \
                                                 const mst_matrix *c) {                                                         \
        for (int64_t i = 0; i < m; i++)                                                                                         \
            for (int64_t j = 0; j < n; j++) {                                                                                   \
                const T *left = (const T *)(void *)a->data + i * a->rows, *right = (const T *)(void *)b->data + j * b->columns; \
                T sum = 0;                                                                                                      \
                for (int64_t l = 0; l < k; l++) sum += left[l * a->columns] * right[l * b->rows];                               \
                ((T *)(void *)c->data)[i * c->rows + j * c->columns] += sum;                                                    \
            }                                                                                                                   \
    }                                                                                                                           \
    static void product_clear_##name(int64_t m, int64_t n, const mst_matrix *c) {                                               \
        for (int64_t i = 0; i < m; i++)                                                                                         \
            for (int64_t j = 0; j < n; j++) ((T *)(void *)c->data)[i * c->rows + j * c->columns] = 0;                           \
    }                                                                                                                           \
    static void product_by_loops_##name(int64_t m, int64_t n, int64_t k, const mst_matrix *a, const mst_matrix *b, bool add,    \
                                        const mst_matrix *c) {                                                                  \
        if (!add) product_clear_##name(m, n, c);                                                                                \
        (b->columns == 1 && c->columns == 1 ? product_by_rows_##name : product_of_any_##name)(m, n, k, a, b, c);                \
    }
LOOPS(f32, float)
LOOPS(f64, double)

void mst_matrix_product(muster_dtype dtype, int64_t m, int64_t n, int64_t k, mst_matrix a, mst_matrix b, bool add, mst_matrix c) {
    if (m == 0 || n == 0) return;
    if (c.columns != 1 && (c.rows == 1 || m == 1)) { /* columns behind each other: (b^T a^T)^T */
        const mst_matrix left = mst_matrix_turned(b), right = mst_matrix_turned(a);
        mst_matrix_product(dtype, n, m, k, left, right, add, (mst_matrix){.data = c.data, .rows = c.columns, .columns = 1});
        return;
    }
    if (k > 0 && product_by_blas(dtype, m, n, k, &a, &b, add, &c)) return;
    (dtype == MUSTER_F32 ? product_by_loops_f32 : product_by_loops_f64)(m, n, k, &a, &b, add, &c);
}
