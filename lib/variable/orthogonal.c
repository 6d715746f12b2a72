/* Orthogonal matrices: Q of the QR decomposition of a matrix of normal numbers, by LAPACK, which
 * OpenBLAS contains, or else by Householder reflections of our own. Columns lie contiguous. */
#include "blas_memory_impl.h"
#include "device_impl.h"
#include "dtype_impl.h"
#include "initialise_private.h"
#include "op_impl.h"

#include <math.h>

enum { BLOCK = 8, LANES = 8 };

typedef struct matrix {
    int64_t m, n;   /* rows and columns, m >= n */
    double *values; /* column j from values + j m on */
    double *tau;    /* [n] H_j = 1 - tau v v', v_j is column j from its element j on */
    double *signs;  /* [n] of R's diagonal */
} matrix;

/* ---- without LAPACK ---- */

/* A block of columns takes each reflection while it is in the cache, so that the reflections are
 * read once per block and not once per column. */

MST_CLONES static double dot(const double *x, const double *y, int64_t n) {
    double lanes[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] += x[i + l] * y[i + l];
    for (; i < n; i++) sum += x[i] * y[i];
    for (int l = 0; l < LANES; l++) sum += lanes[l];
    return sum;
}

MST_CLONES static void add_scaled(double *restrict y, double scale, const double *restrict x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] += scale * x[i];
}

/* Column j becomes H_k column j. */
static void reflect(const matrix *c, int64_t k, int64_t j) {
    const double *v = c->values + k * c->m + k;
    double *x = c->values + j * c->m + k;
    add_scaled(x, -c->tau[k] * dot(v, x, c->m - k), v, c->m - k);
}

/* Chooses H_j, which leaves of column j only its element j, and puts v_j in its place. */
static void choose_reflection(const matrix *c, int64_t j) {
    double *x = c->values + j * c->m + j;
    const double norm = sqrt(dot(x, x, c->m - j)), beta = -copysign(norm, x[0]), scale = x[0] - beta;
    c->tau[j] = norm > 0 ? -scale / beta : 0;
    c->signs[j] = norm > 0 && beta < 0 ? -1 : 1;
    for (int64_t i = 1; norm > 0 && i < c->m - j; i++) x[i] /= scale;
    x[0] = 1;
}

static int64_t block_end(const matrix *c, int64_t begin) { return begin + BLOCK < c->n ? begin + BLOCK : c->n; }

static void decompose(const matrix *c) {
    for (int64_t begin = 0; begin < c->n; begin += BLOCK) {
        const int64_t end = block_end(c, begin);
        for (int64_t k = 0; k < begin; k++)
            for (int64_t j = begin; j < end; j++) reflect(c, k, j);
        for (int64_t j = begin; j < end; j++) {
            for (int64_t k = begin; k < j; k++) reflect(c, k, j);
            choose_reflection(c, j);
        }
    }
}

/* Column j becomes H_j e_j. */
static void begin_column(const matrix *c, int64_t j) {
    double *x = c->values + j * c->m;
    for (int64_t i = 0; i < j; i++) x[i] = 0;
    for (int64_t i = j + 1; i < c->m; i++) x[i] *= -c->tau[j];
    x[j] = 1 - c->tau[j];
}

/* Columns become those of Q = H_0 H_1 ..., from the last to the first: column j needs the
 * reflections up to j, which still lie in the columns up to j. */
static void form_q(const matrix *c) {
    for (int64_t begin = (c->n - 1) / BLOCK * BLOCK; begin >= 0; begin -= BLOCK) {
        const int64_t end = block_end(c, begin);
        for (int64_t j = end - 1; j >= begin; j--) {
            begin_column(c, j);
            for (int64_t k = j - 1; k >= begin; k--) reflect(c, k, j);
        }
        for (int64_t k = begin - 1; k >= 0; k--)
            for (int64_t j = begin; j < end; j++) reflect(c, k, j);
    }
}

/* ---- with LAPACK ---- */

/* Its integers have 32 bits. */
static bool lapack_serves(const mst_blas *blas, const matrix *c) { return blas->dgeqrf && c->m * c->n <= INT32_MAX; }

static muster_status lapack_failed(const char *where, const char *function, int info) {
    return mst_error(MUSTER_INTERNAL, "%s: LAPACK: %s: expected it to take its arguments, received info %d", where, function, info);
}

static muster_status lapack_form_q(const mst_blas *blas, const matrix *c, const char *where) {
    const int m = (int)c->m, n = (int)c->n, ask = -1;
    double wanted[2] = {0};
    int info = 0;
    blas->dgeqrf(&m, &n, c->values, &m, c->tau, &wanted[0], &ask, &info);
    blas->dorgqr(&m, &n, &n, c->values, &m, c->tau, &wanted[1], &ask, &info);
    const int size = (int)(wanted[0] > wanted[1] ? wanted[0] : wanted[1]) + n;
    double *work = mst_alloc_uninitialised((size_t)size * sizeof *work);
    if (!work) return mst_out_of_memory(where, size * (int64_t)sizeof *work);
    blas->dgeqrf(&m, &n, c->values, &m, c->tau, work, &size, &info);
    muster_status status = info ? lapack_failed(where, "dgeqrf", info) : MUSTER_OK;
    for (int64_t j = 0; j < c->n; j++) c->signs[j] = c->values[j * c->m + j] < 0 ? -1 : 1;
    if (!info) blas->dorgqr(&m, &n, &n, c->values, &m, c->tau, work, &size, &info);
    if (status == MUSTER_OK && info) status = lapack_failed(where, "dorgqr", info);
    mst_free(work);
    return status;
}

/* ---- both ---- */

/* The columns become those of Q, but for their signs. A device of any kind takes the same way, so
 * that the bits do not depend on it. */
static muster_status make_q(const matrix *c, const char *where) {
    MUSTER_TRY(mst_blas_use());
    const mst_blas *blas = mst_blas_get();
    muster_status status = MUSTER_OK;
    if (lapack_serves(blas, c)) {
        status = mst_blas_take_memory(1, where);
        if (status == MUSTER_OK) status = lapack_form_q(blas, c, where);
    } else {
        decompose(c);
        form_q(c);
    }
    mst_blas_close();
    return status;
}

/* to (n, m) = from (m, n) transposed, in tiles. */
static void transpose(double *to, const double *from, int64_t m, int64_t n) {
    enum { TILE = 32 };
    for (int64_t i = 0; i < m; i += TILE)
        for (int64_t j = 0; j < n; j += TILE)
            for (int64_t a = i; a < m && a < i + TILE; a++)
                for (int64_t b = j; b < n && b < j + TILE; b++) to[b * m + a] = from[a * n + b];
}

static void scale_columns(const matrix *c, double gain) {
    for (int64_t j = 0; j < c->n; j++)
        for (int64_t i = 0; i < c->m; i++) c->values[j * c->m + i] *= gain * c->signs[j];
}

muster_status mst_draw_orthogonal(mst_draw *draw, const char *where, int64_t rows, int64_t columns, double gain) {
    const bool tall = rows >= columns;
    const int64_t count = rows * columns, m = tall ? rows : columns, n = tall ? columns : rows;
    const int64_t bytes = (count + 1) * (int64_t)sizeof(double);
    double *spare = tall ? mst_alloc_uninitialised((size_t)bytes) : NULL;
    double *lists = mst_alloc((size_t)(2 * n + 1) * sizeof *lists);
    draw->table = mst_alloc_uninitialised((size_t)bytes);
    muster_status status = MUSTER_OK;
    if ((tall && !spare) || !lists || !draw->table) {
        status = mst_out_of_memory(where, bytes);
    } else if (count > 0) {
        /* The rows of a wide matrix are the columns of its transpose. */
        const matrix c = {m, n, tall ? spare : draw->table, lists, lists + n};
        mst_random_numbers(draw->seed, 0, true, 0, 1, muster_f64(draw->table, count));
        if (tall) transpose(spare, draw->table, m, n);
        status = make_q(&c, where);
        scale_columns(&c, gain);
        if (tall) transpose(draw->table, spare, n, m);
    }
    mst_free(spare);
    mst_free(lists);
    return status;
}
