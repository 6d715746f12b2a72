/* What two cores need at least: two pinned threads, plain C, the same streams of reads and writes
 * on as much memory, and the spin barriers that the result needs. With more ranks than two the two
 * threads serve all buffers. */
#ifndef BENCH_COLLECTIVE_LIMIT_H
#define BENCH_COLLECTIVE_LIMIT_H

#include "collective.h"
#include "pair.h"

typedef struct bench_limit_collective bench_limit_collective;

/* How many ways there are to carry out the operation at this size, and the name of one: who reads,
 * who writes, and by which stores. Which is fastest depends on the size and the machine: all are
 * measured. */
int32_t bench_limit_ways(const collective_job *job);
void bench_limit_way(const collective_job *job, int32_t variant, char *name, size_t size);

/* Room for jobs of up to `most` floats on `ranks` ranks. NULL: no memory. */
bench_limit_collective *bench_limit_collective_open(bench_pair *pair, int32_t ranks, int64_t most);
void bench_limit_collective_close(bench_limit_collective *limit);

/* A contender: one way of one job. */
typedef struct bench_limit_contender {
    bench_limit_collective *limit;
    collective_job job; /* variant: the way */
} bench_limit_contender;
bool bench_limit_collective_block(void *contender, const bench_block *block, double *ns, int64_t *wrong);

#endif
