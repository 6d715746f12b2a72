/* memcpy from one host buffer to another by several pinned threads, each its part: what the memory
 * allows. The helpers live as long as a block. */
#ifndef BENCH_PARALLEL_COPY_H
#define BENCH_PARALLEL_COPY_H

#include "bench.h"

typedef struct bench_parallel_copy bench_parallel_copy;

/* from: `bytes` to be read, kept by the caller. NULL: no memory; says so. */
bench_parallel_copy *bench_parallel_copy_open(const void *from, int64_t bytes);
int32_t bench_parallel_copy_threads(const bench_parallel_copy *copy);
bool bench_parallel_copy_block(void *copy, const bench_block *block, double *ns, int64_t *wrong);
void bench_parallel_copy_close(void *copy);

#endif
