#include "server_loops.h"

#include "collective_loops.h"

#include <stdlib.h>
#include <string.h>

static void lock(_Atomic uint32_t *held) {
    while (atomic_exchange_explicit(held, 1, memory_order_acquire)) {
        while (atomic_load_explicit(held, memory_order_relaxed)) bench_relax();
    }
}

static void unlock(_Atomic uint32_t *held) { atomic_store_explicit(held, 0, memory_order_release); }

static void add(float *value, float *tensor, int64_t count) {
    bench_sum((float *[]){value, tensor}, 2, (float *[]){value}, 1, 0, count, BENCH_PLAIN);
}

static bool exchange_alone(const server_loops *loops, const server_player *player) {
    float *value = loops->values[player->rank];
    add(value, player->tensor, loops->count);
    memcpy(player->pulled, value, (size_t)loops->count * sizeof(float));
    return true;
}

static bool exchange(void *self, const server_job *job, const server_player *player) {
    server_loops *loops = self;
    (void)job;
    if (loops->shards == 0) return exchange_alone(loops, player);
    for (int32_t pull = 0; pull < 2; pull++) {
        for (int32_t i = 0; i < loops->shards; i++) {
            const int32_t s = (player->rank * loops->shards / SERVER_CLIENTS + i) % loops->shards;
            const int64_t begin = loops->count * s / loops->shards, count = loops->count * (s + 1) / loops->shards - begin;
            lock(&loops->locks[s].held);
            if (pull)
                memcpy(player->pulled + begin, loops->values[0] + begin, (size_t)count * sizeof(float));
            else
                add(loops->values[0] + begin, player->tensor + begin, count);
            unlock(&loops->locks[s].held);
        }
    }
    return true;
}

static void play(void *argument, int32_t rank) {
    server_loops *loops = argument;
    const server_player player = {.session = loops->session,
                                  .rank = rank,
                                  .tensor = loops->tensors[rank],
                                  .pulled = loops->pulled[rank],
                                  .exchange = exchange,
                                  .self = loops};
    server_play(&player, &loops->job);
}

server_loops *server_loops_open(bench_pair *pair, int64_t count, int32_t shards) {
    server_loops *loops = aligned_alloc(128, sizeof *loops);
    if (!loops) return NULL;
    memset(loops, 0, sizeof *loops);
    loops->pair = pair;
    loops->count = count;
    loops->shards = shards;
    loops->session = calloc(1, sizeof *loops->session);
    bool ok = loops->session != NULL;
    for (int32_t r = 0; r < SERVER_CLIENTS; r++) {
        float **all[] = {&loops->values[r], &loops->tensors[r], &loops->pulled[r]};
        for (int i = 0; i < 3; i++) {
            *all[i] = collective_allocate(count);
            if (*all[i]) memset(*all[i], 0, (size_t)count * sizeof(float));
            ok = ok && *all[i];
        }
    }
    if (ok) {
        collective_session_open(loops->session, false);
        return loops;
    }
    server_loops_close(loops);
    return NULL;
}

void server_loops_close(void *self) {
    server_loops *loops = self;
    for (int32_t r = 0; r < SERVER_CLIENTS; r++) {
        free(loops->values[r]);
        free(loops->tensors[r]);
        free(loops->pulled[r]);
    }
    free(loops->session);
    free(loops);
}

/* Two values of one's own hold what one client pushed, not both. */
static int64_t wrong_alone(const server_loops *loops) {
    int64_t wrong = 0;
    for (int32_t r = 0; r < SERVER_CLIENTS; r++)
        for (int64_t i = 0; i < loops->count; i++) wrong += loops->pulled[r][i] != 0;
    return wrong;
}

bool server_loops_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    server_loops *loops = self;
    const collective_job two = {.ranks = SERVER_CLIENTS};
    loops->job = (server_job){.count = loops->count, .warm = block->warm, .calls = block->calls};
    bench_pair_begin(loops->pair, play, loops);
    bench_pair_call(loops->pair);
    bench_pair_end(loops->pair);
    int64_t found = collective_result(loops->session, &two, SERVER_CLIENTS, block->calls, ns);
    *wrong += loops->shards ? found : wrong_alone(loops);
    return true;
}
