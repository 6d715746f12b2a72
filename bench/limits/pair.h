/* Two pinned threads that wait for each other at spin barriers: the least that two cores
 * need to work together. The helper sleeps between blocks. */
#ifndef BENCH_PAIR_H
#define BENCH_PAIR_H

#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>

typedef void (*bench_pair_task)(void *argument, int32_t rank);

typedef struct bench_pair {
    _Alignas(128) _Atomic uint64_t arrived[2][16]; /* one pair of cache lines for each rank */
    _Alignas(128) uint64_t stop;                   /* read by the helper after the first barrier of a call */
    bench_pair_task task;
    void *argument;
    uint64_t generation; /* of the caller */
    pthread_t helper;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    int32_t blocks; /* begun so far; guarded */
    bool quit;
    int32_t cpu;
} bench_pair;

/* NULL: no second core, or no memory. */
bench_pair *bench_pair_open(void);
void bench_pair_close(bench_pair *pair);

/* begin wakes the helper and returns when it spins; end sends it back to sleep. Between them any
 * number of calls: a barrier, task(argument, rank) on both threads (NULL: nothing), a barrier. */
void bench_pair_begin(bench_pair *pair, bench_pair_task task, void *argument);
void bench_pair_end(bench_pair *pair);

static inline void bench_pair_rendezvous(bench_pair *pair, int32_t rank, uint64_t generation) {
    atomic_store_explicit(&pair->arrived[rank][0], generation, memory_order_release);
    while (atomic_load_explicit(&pair->arrived[1 - rank][0], memory_order_acquire) < generation) bench_relax();
}

static inline void bench_pair_call(bench_pair *pair) {
    bench_pair_rendezvous(pair, 0, pair->generation + 1);
    if (pair->task) pair->task(pair->argument, 0);
    bench_pair_rendezvous(pair, 0, pair->generation + 2);
    pair->generation += 2;
}

/* Contenders. The pair is not closed by them. */
/* the two barriers of an empty call */
bool bench_pair_barriers_block(void *pair, const bench_block *block, double *ns, int64_t *wrong);
/* the caller's store and the helper's answer */
bool bench_pair_round_trip_block(void *pair, const bench_block *block, double *ns, int64_t *wrong);

#endif
