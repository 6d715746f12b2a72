/* mean(x @ y) as one fused loop over two pinned threads: what the memory and the cores allow. */
#ifndef BENCH_MEAN_DOT_H
#define BENCH_MEAN_DOT_H

#include "pair.h"

typedef struct bench_mean_dot bench_mean_dot;
typedef struct bench_mean_dot_way {
    int32_t threads; /* 1 or 2 */
    bool unrolled;
} bench_mean_dot_way;

/* x (n, k) and y (k) are borrowed; expected: the right mean. NULL: no memory, or k above 1,024. */
bench_mean_dot *bench_mean_dot_open(bench_pair *pair, bench_mean_dot_way way, const float *x, const float *y, int64_t n, int64_t k,
                                    double expected);
void bench_mean_dot_close(void *self);
bool bench_mean_dot_block(void *self, const bench_block *block, double *ns, int64_t *wrong);

/* Is the result right, to the accuracy of sums in f32? */
bool bench_mean_dot_right(double result, double expected);

#endif
