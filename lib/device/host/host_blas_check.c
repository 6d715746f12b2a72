/* Does the library compute products right? Some builds do not, on the processor that they find:
 * kernels for it that are wrong at some sizes, or a processor that is taken for another one. */
#include "host_blas_private.h"

#include <stdio.h>

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112, LARGEST = 257, MOST = LARGEST * 65 };

/* (m, n, k): each of 1, 7, 16, 65 and 257 in each place, and few operations altogether. */
static const int check_sizes[][3] = {{1, 7, 16}, {7, 16, 65}, {16, 65, 257}, {65, 257, 1}, {257, 1, 7}, {257, 65, 16}};
enum { CHECK_SIZES = sizeof check_sizes / sizeof *check_sizes };

/* The operands, their transposes, and a result, in both dtypes; the product in integers. */
typedef struct check_memory {
    float a[2][MOST], b[2][MOST], c[MOST];
    double wide_a[2][MOST], wide_b[2][MOST], wide_c[MOST];
    int left[MOST], right[MOST], product[MOST];
} check_memory;

static void check_fill(int rows, int columns, int seed, int *values, float (*narrow)[MOST], double (*wide)[MOST]) {
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            const int value = (seed + 7 * i + 3 * j + i * j) % 5 - 2;
            values[i * columns + j] = value;
            narrow[0][i * columns + j] = narrow[1][j * rows + i] = (float)value;
            wide[0][i * columns + j] = wide[1][j * rows + i] = value;
        }
}

static void check_multiply(check_memory *work, int m, int n, int k) {
    for (int i = 0; i < m * n; i++) work->product[i] = 0;
    for (int i = 0; i < m; i++)
        for (int l = 0; l < k; l++)
            for (int j = 0; j < n; j++) work->product[i * n + j] += work->left[i * k + l] * work->right[l * n + j];
}

/* The old values of the result must not count, since beta is 0. */
static void check_spoil(check_memory *work, int count) {
    for (int i = 0; i < count; i++) work->c[i] = (float)(work->wide_c[i] = 1e6);
}

static bool check_equal(const check_memory *work, int count, bool wide) {
    for (int i = 0; i < count; i++)
        if ((wide ? work->wide_c[i] : (double)work->c[i]) != work->product[i]) return false;
    return true;
}

static bool check_gemm(const mst_blas *blas, check_memory *work, const int *size, bool wide, int ta, int tb) {
    const int m = size[0], n = size[1], k = size[2], lda = ta ? m : k, ldb = tb ? k : n;
    const int order_a = ta ? TRANSPOSE : NO_TRANSPOSE, order_b = tb ? TRANSPOSE : NO_TRANSPOSE;
    check_spoil(work, m * n);
    if (wide)
        blas->dgemm(ROW_MAJOR, order_a, order_b, m, n, k, 1, work->wide_a[ta], lda, work->wide_b[tb], ldb, 0, work->wide_c, n);
    else
        blas->sgemm(ROW_MAJOR, order_a, order_b, m, n, k, 1, work->a[ta], lda, work->b[tb], ldb, 0, work->c, n);
    return check_equal(work, m * n, wide);
}

/* The first column of b by a, (m, k), or by its transpose as it lies in memory. */
static bool check_gemv(const mst_blas *blas, check_memory *work, const int *size, bool wide, int ta) {
    const int m = size[0], n = size[1], k = size[2], rows = ta ? k : m, columns = ta ? m : k;
    const int order = ta ? TRANSPOSE : NO_TRANSPOSE;
    check_spoil(work, m);
    if (wide)
        blas->dgemv(ROW_MAJOR, order, rows, columns, 1, work->wide_a[ta], columns, work->wide_b[0], n, 0, work->wide_c, 1);
    else
        blas->sgemv(ROW_MAJOR, order, rows, columns, 1, work->a[ta], columns, work->b[0], n, 0, work->c, 1);
    for (int i = 0; i < m; i++)
        if ((wide ? work->wide_c[i] : (double)work->c[i]) != work->product[i * n]) return false;
    return true;
}

static const char *check_size(const mst_blas *blas, check_memory *work, const int *size, int *ta, int *tb) {
    for (int wide = 0; wide < 2; wide++)
        for (*ta = 0; *ta < 2; ++*ta) {
            for (*tb = 0; *tb < 2; ++*tb)
                if (!check_gemm(blas, work, size, wide, *ta, *tb)) return wide ? "cblas_dgemm" : "cblas_sgemm";
            *tb = 0;
            if (!check_gemv(blas, work, size, wide, *ta)) return wide ? "cblas_dgemv" : "cblas_sgemv";
        }
    return NULL;
}

muster_status mst_blas_find_fault(const mst_blas *blas, const char **function, char text[MST_BLAS_FAULT_TEXT]) {
    check_memory *work = mst_alloc_uninitialised(sizeof *work);
    *function = NULL;
    if (!work) return mst_out_of_memory("muster_runtime_open: the check of BLAS", (int64_t)sizeof *work);
    for (int i = 0; i < CHECK_SIZES && !*function; i++) {
        const int *size = check_sizes[i];
        int ta, tb;
        check_fill(size[0], size[2], 1, work->left, work->a, work->wide_a);
        check_fill(size[2], size[1], 2, work->right, work->b, work->wide_b);
        check_multiply(work, size[0], size[1], size[2]);
        *function = check_size(blas, work, size, &ta, &tb);
        if (*function)
            snprintf(text, MST_BLAS_FAULT_TEXT, "(%d, %d)%s by (%d, %d)%s", size[0], size[2], ta ? " transposed" : "", size[2], size[1],
                     tb ? " transposed" : "");
    }
    mst_free(work);
    return MUSTER_OK;
}
