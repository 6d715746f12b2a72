/* Muster's collectives as a contender: one call of a function whose body carries out a whole
 * block. */
#ifndef BENCH_COLLECTIVES_MUSTER_H
#define BENCH_COLLECTIVES_MUSTER_H

#include "collective.h"
#include "muster_case.h"

typedef struct bench_muster_collectives bench_muster_collectives;

/* A runtime of `ranks` host devices. NULL after saying why. */
bench_muster_collectives *bench_muster_collectives_open(int32_t ranks);
bool bench_muster_collectives_close(bench_muster_collectives *muster);

typedef struct bench_muster_contender {
    bench_muster_collectives *muster;
    collective_job job; /* variant 1 of what updates: all_reduce, then the update */
} bench_muster_contender;
bool bench_muster_collective_block(void *contender, const bench_block *block, double *ns, int64_t *wrong);

#endif
