/* Chains of cheap operations as one fused loop, on one thread: what the memory and a core allow. */
#ifndef BENCH_CHAIN_H
#define BENCH_CHAIN_H

#include "bench.h"

typedef struct bench_chain bench_chain;

/* The first `length` (2, 4 or 8) of: x * y, + x, max(, y), - x, * y, |  |, + y, * 0.5. x and y (n)
 * are borrowed, and so is z (n), which gets the result. NULL: no memory, or another length. */
bench_chain *bench_chain_open(int32_t length, const float *x, const float *y, float *z, int64_t n);
void bench_chain_close(void *self);
bool bench_chain_block(void *self, const bench_block *block, double *ns, int64_t *wrong);

/* The right value of one element. */
float bench_chain_value(int32_t length, float x, float y);

#endif
