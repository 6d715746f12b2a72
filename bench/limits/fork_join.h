/* A bare fork and join of threads that sleep on futexes, nothing else: the limit where there are
 * more threads than cores. */
#ifndef BENCH_FORK_JOIN_H
#define BENCH_FORK_JOIN_H

#include "bench.h"

typedef struct bench_fork_join bench_fork_join;

/* `threads` in all, the caller's one of them. pinned: thread i on CPU i modulo the cores. NULL: no
 * memory or no threads. */
bench_fork_join *bench_fork_join_open(int32_t threads, bool pinned);
void bench_fork_join_close(void *self);
bool bench_fork_join_block(void *self, const bench_block *block, double *ns, int64_t *wrong);

#endif
