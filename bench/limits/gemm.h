/* The eight matrix products of one training step of a two-hidden-layer perceptron and nothing else:
 * half of the batch on each of two pinned threads, OpenBLAS with one thread each, one
 * rendezvous per step. */
#ifndef BENCH_GEMM_H
#define BENCH_GEMM_H

#include "pair.h"

typedef struct bench_gemm bench_gemm;

/* NULL: no OpenBLAS or no memory; says so. */
bench_gemm *bench_gemm_open(bench_pair *pair, int32_t batch, int32_t inputs, int32_t hidden, int32_t classes);
void bench_gemm_close(void *self);
bool bench_gemm_block(void *self, const bench_block *block, double *ns, int64_t *wrong);

#endif
