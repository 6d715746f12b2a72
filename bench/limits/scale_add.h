/* y = a x + y as a plain loop over two pinned threads, each its half: what the memory allows. */
#ifndef BENCH_SCALE_ADD_H
#define BENCH_SCALE_ADD_H

#include "pair.h"

typedef struct bench_scale_add bench_scale_add;

/* x and y (n) are borrowed. NULL: no memory. Each call changes y. */
bench_scale_add *bench_scale_add_open(bench_pair *pair, float a, const float *x, float *y, int64_t n);
void bench_scale_add_close(void *self);
bool bench_scale_add_block(void *self, const bench_block *block, double *ns, int64_t *wrong);

#endif
