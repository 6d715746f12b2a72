/* A parameter server of plain C: what can be had without a library. */
#ifndef BENCH_SERVER_LOOPS_H
#define BENCH_SERVER_LOOPS_H

#include "pair.h"
#include "server_play.h"

enum { SERVER_LOOP_SHARDS = 64 };

typedef struct server_loops {
    bench_pair *pair;
    collective_session *session;
    int64_t count;
    int32_t shards; /* each with a spin lock; 0: no locks, and a value of its own for each client: nothing is shared, so this is what the
                     * caches let through */
    float *values[SERVER_CLIENTS], *tensors[SERVER_CLIENTS], *pulled[SERVER_CLIENTS];
    server_job job;
    struct {
        _Alignas(128) _Atomic uint32_t held;
    } locks[SERVER_LOOP_SHARDS];
} server_loops;

/* NULL: no memory. */
server_loops *server_loops_open(bench_pair *pair, int64_t count, int32_t shards);
void server_loops_close(void *self);
bool server_loops_block(void *self, const bench_block *block, double *ns, int64_t *wrong);

#endif
