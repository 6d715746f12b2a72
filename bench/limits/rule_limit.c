#include "rule_limit.h"

#include "collective.h"
#include "collective_loops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 2, VECTORS = 2 + BENCH_RULE_STATES };

struct bench_rule_limit {
    bench_pair *pair;
    bench_rule rule;
    int64_t count;
    float *memory[THREADS]; /* of each rank, its vectors one behind the other: gradients, parameters, states */
    collective_session *session;
    const bench_block *block;
    bool streaming;
    bench_rule_watch watch;
    _Alignas(128) _Atomic uint64_t arrived[THREADS][16];
};

int64_t bench_rule_bytes(bench_rule rule, int64_t parameters) {
    return (5 + 2 * bench_rule_states(rule)) * parameters * (int64_t)sizeof(float);
}

/* ---- what is right ---- */

void bench_rule_watch_step(bench_rule_watch *watch, bench_rule rule) {
    watch->t++;
    for (int32_t i = 0; i < BENCH_RULE_WATCHED; i++)
        bench_rule_step(rule, (double)bench_rule_gradient(0, watch->t, i) + (double)bench_rule_gradient(1, watch->t, i), watch->t,
                        watch->v[i]);
}

bool bench_rule_watch_agrees(const bench_rule_watch *watch, int64_t i, float value) {
    const double right = watch->v[i % BENCH_RULE_WATCHED][0];
    return fabs(value - right) <= 1e-3 * (1 + fabs(right));
}

/* ---- two threads ---- */

/* As Muster's scratch memory has them, not all at the same place of a page. */
static int64_t vector_stride(int64_t count) { return (count / BENCH_LANES + 1) * BENCH_LANES; }

static float *vector(const bench_rule_limit *limit, int32_t rank, int32_t index) {
    return limit->memory[rank] + index * vector_stride(limit->count);
}

static void barrier(bench_rule_limit *limit, int32_t thread) {
    const uint64_t generation = atomic_load_explicit(&limit->arrived[thread][0], memory_order_relaxed) + 1;
    atomic_store_explicit(&limit->arrived[thread][0], generation, memory_order_release);
    while (atomic_load_explicit(&limit->arrived[1 - thread][0], memory_order_acquire) < generation) bench_relax();
}

static void rewrite(const bench_rule_limit *limit, int32_t thread, int64_t t) {
    float pattern[BENCH_RULE_WATCHED], *gradient = vector(limit, thread, 0);
    for (int64_t i = 0; i < BENCH_RULE_WATCHED; i++) pattern[i] = bench_rule_gradient(thread, t, i);
    for (int64_t i = 0; i < limit->count; i++) gradient[i] = pattern[i % BENCH_RULE_WATCHED];
}

/* Each thread has its half of the states. */
static void operate(const bench_rule_limit *limit, int32_t thread, int64_t t) {
    const int64_t half = limit->count / 2 / BENCH_LANES * BENCH_LANES;
    const bench_rule_vectors v = {{vector(limit, 0, 0), vector(limit, 1, 0)},
                                  {vector(limit, 0, 1), vector(limit, 1, 1)},
                                  {vector(limit, thread, 2), vector(limit, thread, 3)}};
    bench_rule_loop(limit->rule, &v, thread, thread ? half : 0, thread ? limit->count : half, t, limit->streaming);
}

static void both(void *argument, int32_t thread) {
    bench_rule_limit *limit = argument;
    const collective_player player = {.session = limit->session, .index = thread, .players = THREADS};
    for (int32_t i = -limit->block->warm; i < limit->block->calls; i++) {
        const int64_t t = limit->watch.t + limit->block->warm + i + 1;
        rewrite(limit, thread, t);
        const uint64_t begin = collective_rendezvous(&player);
        barrier(limit, thread);
        operate(limit, thread, t);
        barrier(limit, thread);
        if (i >= 0) limit->session->ends[thread][i] = bench_ticks();
        if (i >= 0 && thread == 0) limit->session->begins[i] = begin;
        (void)collective_rendezvous(&player);
    }
}

static bool block_of(bench_rule_limit *limit, const bench_block *block, bool streaming, double *ns, int64_t *wrong) {
    const collective_session *session = limit->session;
    limit->block = block;
    limit->streaming = streaming;
    bench_pair_begin(limit->pair, both, limit);
    bench_pair_call(limit->pair);
    bench_pair_end(limit->pair);
    for (int32_t i = 0; i < block->calls; i++) {
        const uint64_t end = session->ends[session->ends[1][i] > session->ends[0][i]][i];
        ns[i] = (double)(int64_t)(end - session->begins[i]) * session->ns_per_tick;
    }
    for (int32_t i = 0; i < block->warm + block->calls; i++) bench_rule_watch_step(&limit->watch, limit->rule);
    for (int32_t rank = 0; rank < THREADS; rank++)
        for (int64_t i = 0; i < limit->count; i += 997) *wrong += !bench_rule_watch_agrees(&limit->watch, i, vector(limit, rank, 1)[i]);
    return true;
}

bool bench_rule_limit_block(void *limit, const bench_block *block, double *ns, int64_t *wrong) {
    return block_of(limit, block, false, ns, wrong);
}

bool bench_rule_limit_streaming_block(void *limit, const bench_block *block, double *ns, int64_t *wrong) {
    return block_of(limit, block, true, ns, wrong);
}

void bench_rule_limit_close(bench_rule_limit *limit) {
    if (!limit) return;
    for (int32_t r = 0; r < THREADS; r++) free(limit->memory[r]);
    free(limit->session);
    free(limit);
}

bench_rule_limit *bench_rule_limit_open(bench_pair *pair, bench_rule rule, int64_t parameters) {
    bench_rule_limit *limit = aligned_alloc(128, sizeof *limit);
    if (!limit) return NULL;
    memset(limit, 0, sizeof *limit);
    limit->pair = pair;
    limit->rule = rule;
    limit->count = parameters;
    limit->session = calloc(1, sizeof *limit->session);
    bool ok = limit->session != NULL;
    for (int32_t r = 0; r < THREADS; r++) {
        const int64_t floats = VECTORS * vector_stride(parameters);
        limit->memory[r] = collective_allocate(floats);
        ok = ok && limit->memory[r];
        if (limit->memory[r]) memset(limit->memory[r], 0, (size_t)floats * sizeof(float));
    }
    if (ok) {
        collective_session_open(limit->session, false);
        return limit;
    }
    bench_rule_limit_close(limit);
    return NULL;
}
