#include "pair.h"

#include <stdlib.h>

static void *helper_main(void *self) {
    bench_pair *pair = self;
    uint64_t generation = 0;
    bench_pin(pair->cpu);
    for (int32_t block = 1;; block++) {
        pthread_mutex_lock(&pair->mutex);
        while (pair->blocks < block && !pair->quit) pthread_cond_wait(&pair->condition, &pair->mutex);
        bool quit = pair->quit;
        pthread_mutex_unlock(&pair->mutex);
        if (quit) return NULL;
        for (;;) {
            bench_pair_rendezvous(pair, 1, generation + 1);
            if (pair->stop) break;
            if (pair->task) pair->task(pair->argument, 1);
            bench_pair_rendezvous(pair, 1, generation + 2);
            generation += 2;
        }
        /* The rendezvous that ended the block was the first half of a generation. The caller counts
         * the other half, too. */
        bench_pair_rendezvous(pair, 1, generation + 2);
        generation += 2;
    }
}

bench_pair *bench_pair_open(void) {
    if (bench_cores() < 2) return NULL;
    bench_pair *pair = aligned_alloc(128, sizeof *pair);
    if (!pair) return NULL;
    *pair = (bench_pair){.cpu = bench_cpu(1)};
    pthread_mutex_init(&pair->mutex, NULL);
    pthread_cond_init(&pair->condition, NULL);
    if (pthread_create(&pair->helper, NULL, helper_main, pair) == 0) return pair;
    pthread_cond_destroy(&pair->condition);
    pthread_mutex_destroy(&pair->mutex);
    free(pair);
    return NULL;
}

void bench_pair_begin(bench_pair *pair, bench_pair_task task, void *argument) {
    pair->task = NULL;
    pair->stop = 0;
    pthread_mutex_lock(&pair->mutex);
    pair->blocks++;
    pthread_cond_signal(&pair->condition);
    pthread_mutex_unlock(&pair->mutex);
    bench_pair_call(pair); /* returns once the helper is awake */
    pair->task = task;     /* seen by the helper after the next first barrier */
    pair->argument = argument;
}

void bench_pair_end(bench_pair *pair) {
    pair->stop = 1;
    pair->task = NULL;
    bench_pair_call(pair);
}

void bench_pair_close(bench_pair *pair) {
    if (!pair) return;
    pthread_mutex_lock(&pair->mutex);
    pair->quit = true;
    pthread_cond_signal(&pair->condition);
    pthread_mutex_unlock(&pair->mutex);
    pthread_join(pair->helper, NULL);
    pthread_cond_destroy(&pair->condition);
    pthread_mutex_destroy(&pair->mutex);
    free(pair);
}

bool bench_pair_barriers_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    (void)wrong;
    bench_pair *pair = self;
    bench_pair_begin(pair, NULL, NULL);
    BENCH_TIME(block, ns, bench_pair_call(pair));
    bench_pair_end(pair);
    return true;
}

typedef struct round_trips {
    const bench_block *block;
    double *ns;
    _Alignas(128) _Atomic uint64_t ask;
    _Alignas(128) _Atomic uint64_t reply;
} round_trips;

static void exchange(void *argument, int32_t rank) {
    round_trips *trips = argument;
    uint64_t generation = 0;
    if (rank == 0) {
        BENCH_TIME(trips->block, trips->ns, {
            atomic_store_explicit(&trips->ask, ++generation, memory_order_release);
            while (atomic_load_explicit(&trips->reply, memory_order_acquire) < generation) bench_relax();
        });
        return;
    }
    uint64_t generations = (uint64_t)(trips->block->warm + trips->block->calls);
    while (generation < generations) {
        generation++;
        while (atomic_load_explicit(&trips->ask, memory_order_acquire) < generation) bench_relax();
        atomic_store_explicit(&trips->reply, generation, memory_order_release);
    }
}

bool bench_pair_round_trip_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    (void)wrong;
    round_trips trips = {.block = block, .ns = ns};
    bench_pair_begin(self, exchange, &trips);
    bench_pair_call(self);
    bench_pair_end(self);
    return true;
}
