/* Operations as the plain C loop that a program would write for them, for every vector unit that
 * the processor may have, on one thread. */
#ifndef BENCH_PLAIN_LOOPS_H
#define BENCH_PLAIN_LOOPS_H

#include <stdint.h>

/* x, y and z are matrices of n rows and k columns, or what the loop says; i has n indices of rows,
 * of which there are `rows`, and sums room for as many rows of k columns. */
typedef struct bench_plain {
    const float *x, *y;
    const int32_t *i;
    float *z;
    int64_t n, k, rows;
    double *sums;
} bench_plain;
typedef void (*bench_plain_loop)(const bench_plain *p);

void bench_plain_take(const bench_plain *p);            /* z[r] = x[i[r]], rows */
void bench_plain_scatter_add(const bench_plain *p);     /* z[i[r]] += x[r], rows */
void bench_plain_scatter_add_f64(const bench_plain *p); /* the same in a table of sums, rounded once */
void bench_plain_softmax_0(const bench_plain *p);       /* along axis 0, in three passes over the rows */
void bench_plain_softmax_1(const bench_plain *p);
void bench_plain_logsumexp_0(const bench_plain *p); /* z: k numbers */
void bench_plain_logsumexp_1(const bench_plain *p); /* z: n numbers */
void bench_plain_remainder(const bench_plain *p);   /* z = x % 3, of the sign of 3 */
void bench_plain_cumsum_0(const bench_plain *p);    /* in double, along axis 0 */
void bench_plain_row_dots(const bench_plain *p);    /* z[r] = sum(x[r] * y[r]) */
void bench_plain_repeat(const bench_plain *p);      /* z[r][2 c] = z[r][2 c + 1] = x[r][c] */
void bench_plain_transposed(const bench_plain *p);  /* z = x^T + y; n = k. By tiles */
void bench_plain_argmax(const bench_plain *p);      /* z: n int64_t, the columns of the largest */
void bench_plain_tanh(const bench_plain *p);

#endif
