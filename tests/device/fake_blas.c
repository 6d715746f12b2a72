/* A stand-in for OpenBLAS, with plain loops. FAKE_BLAS_WRONG="cblas_sgemm 257 1 0" makes one
 * function wrong where one of its sizes is 257, its first matrix is transposed, and its second one
 * is not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* cblas.h need not be here */

enum { TRANSPOSE = 112 };
#define SHOWN __attribute__((visibility("default")))

static int is_wrong(const char *function, const int *sizes, int count, int ta, int tb) {
    const char *asked = getenv("FAKE_BLAS_WRONG");
    char name[32];
    int size, first, second, found = 0;
    if (!asked || sscanf(asked, "%31s %d %d %d", name, &size, &first, &second) != 4) return 0;
    for (int i = 0; i < count; i++) found |= sizes[i] == size;
    return found && strcmp(name, function) == 0 && (ta == TRANSPOSE) == first && (tb == TRANSPOSE) == second;
}

#define FUNCTIONS(T, gemm, gemv, axpy, dot)                                                                                           \
    SHOWN void gemm(int order, int ta, int tb, int m, int n, int k, T alpha, const T *a, int lda, const T *b, int ldb, T beta, T *c,  \
                    int ldc) {                                                                                                        \
        (void)order;                                                                                                                  \
        for (int i = 0; i < m; i++)                                                                                                   \
            for (int j = 0; j < n; j++) {                                                                                             \
                T sum = 0;                                                                                                            \
                for (int l = 0; l < k; l++)                                                                                           \
                    sum += (ta == TRANSPOSE ? a[l * lda + i] : a[i * lda + l]) * (tb == TRANSPOSE ? b[j * ldb + l] : b[l * ldb + j]); \
                c[i * ldc + j] = alpha * sum + (beta == 0 ? 0 : beta * c[i * ldc + j]);                                               \
            }                                                                                                                         \
        if (is_wrong(#gemm, (const int[]){m, n, k}, 3, ta, tb)) c[(m - 1) * ldc + n - 1] += 1;                                        \
    }                                                                                                                                 \
    SHOWN void gemv(int order, int ta, int m, int n, T alpha, const T *a, int lda, const T *x, int incx, T beta, T *y, int incy) {    \
        const int rows = ta == TRANSPOSE ? n : m, columns = ta == TRANSPOSE ? m : n;                                                  \
        (void)order;                                                                                                                  \
        for (int i = 0; i < rows; i++) {                                                                                              \
            T sum = 0;                                                                                                                \
            for (int l = 0; l < columns; l++) sum += (ta == TRANSPOSE ? a[l * lda + i] : a[i * lda + l]) * x[l * incx];               \
            y[i * incy] = alpha * sum + (beta == 0 ? 0 : beta * y[i * incy]);                                                         \
        }                                                                                                                             \
        if (is_wrong(#gemv, (const int[]){m, n}, 2, ta, 0)) y[(rows - 1) * incy] += 1;                                                \
    }                                                                                                                                 \
    SHOWN void axpy(int n, T alpha, const T *x, int incx, T *y, int incy) {                                                           \
        for (int i = 0; i < n; i++) y[i * incy] += alpha * x[i * incx];                                                               \
    }                                                                                                                                 \
    SHOWN T dot(int n, const T *x, int incx, const T *y, int incy) {                                                                  \
        T sum = 0;                                                                                                                    \
        for (int i = 0; i < n; i++) sum += x[i * incx] * y[i * incy];                                                                 \
        return sum;                                                                                                                   \
    }
FUNCTIONS(float, cblas_sgemm, cblas_sgemv, cblas_saxpy, cblas_sdot)
FUNCTIONS(double, cblas_dgemm, cblas_dgemv, cblas_daxpy, cblas_ddot)

SHOWN char *openblas_get_config(void) { return "OpenBLAS 0.0 of the tests"; }
SHOWN const char *openblas_get_corename(void) { return "Fakewell"; }
SHOWN int openblas_get_parallel(void) { return 1; }
SHOWN int openblas_get_num_threads(void) { return 1; }
SHOWN void openblas_set_num_threads(int count) { (void)count; }
