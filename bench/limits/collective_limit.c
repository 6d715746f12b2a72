#include "collective_limit.h"

#include "collective_loops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VECTORS = 3, THREADS = 2, SLOT = 16 << 10, MOVSB_FROM = 4 << 10, STREAM_FROM = 1 << 20 };

struct bench_limit_collective {
    bench_pair *pair;
    int32_t ranks;
    float *memory[COLLECTIVE_RANKS]; /* of each rank, for all its vectors, one behind the other */
    int64_t most;
    float *staging[THREADS]; /* a copy for each thread, for ways that need one */
    /* Copies of small inputs; two of each, used in turn, so that nobody overwrites what a slower
     * thread still reads. */
    _Alignas(128) float slots[2][COLLECTIVE_RANKS][SLOT / sizeof(float)];
    collective_session *session;
    collective_buffers buffers[COLLECTIVE_RANKS];
    _Alignas(128) _Atomic uint64_t arrived[THREADS][16];
};

/* Tells the other thread that this one has arrived, and waits for the other if `waits`. */
static void arrive(bench_limit_collective *limit, int32_t thread, bool waits) {
    uint64_t generation = atomic_load_explicit(&limit->arrived[thread][0], memory_order_relaxed) + 1;
    atomic_store_explicit(&limit->arrived[thread][0], generation, memory_order_release);
    while (waits && atomic_load_explicit(&limit->arrived[1 - thread][0], memory_order_acquire) < generation) bench_relax();
}

static void rendezvous(bench_limit_collective *limit, int32_t thread) { arrive(limit, thread, true); }

/* Slice `index` of `pieces` of [0, count), its edges on cache lines. */
static void edges(int64_t count, int32_t index, int32_t chunks, int64_t *begin, int64_t *end) {
    *begin = index == 0 ? 0 : count * index / chunks / BENCH_LANES * BENCH_LANES;
    *end = index == chunks - 1 ? count : count * (index + 1) / chunks / BENCH_LANES * BENCH_LANES;
}

typedef struct view {
    bench_limit_collective *limit;
    const collective_job *job;
    int32_t thread, ranks;
    bench_store store;
    int64_t part, count;
    float *in[COLLECTIVE_RANKS], *out[COLLECTIVE_RANKS];
} view;

#define OWN_RANKS(v, rank) (int32_t rank = (v)->thread; rank < (v)->ranks; rank += THREADS)

/* Each thread sums one half of the vector and writes it to all ranks. */
static void reduce_slices(const view *v) {
    int64_t begin, end;
    edges(v->count, v->thread, THREADS, &begin, &end);
    bench_sum(v->in, v->ranks, v->out, v->ranks, begin, end, v->store);
}

/* Each thread sums one half into its own rank; then each rank fetches the other half. */
static void reduce_then_pull(const view *v) {
    int64_t begin, end, other_begin, other_end;
    edges(v->count, v->thread, THREADS, &begin, &end);
    edges(v->count, 1 - v->thread, THREADS, &other_begin, &other_end);
    bench_sum(v->in, v->ranks, (float *[]){v->out[v->thread]}, 1, begin, end, v->store);
    rendezvous(v->limit, v->thread);
    for
        OWN_RANKS(v, rank) {
            bench_copy(v->out[rank] + other_begin, v->out[1 - v->thread] + other_begin, other_end - other_begin, v->store);
            if (rank != v->thread) bench_copy(v->out[rank] + begin, v->out[v->thread] + begin, end - begin, v->store);
        }
}

/* Each rank sums everything for itself; in place it copies the others' inputs aside before anybody
 * writes. */
static void reduce_each(const view *v) {
    if (v->job->in_place) {
        bench_sum(v->in, v->ranks, (float *[]){v->limit->staging[v->thread]}, 1, 0, v->count, v->store);
        rendezvous(v->limit, v->thread);
        for
            OWN_RANKS(v, rank) bench_copy(v->out[rank], v->limit->staging[v->thread], v->count, v->store);
    } else {
        bench_sum(v->in, v->ranks, (float *[]){v->out[v->thread]}, 1, 0, v->count, v->store);
        for
            OWN_RANKS(v, rank) bench_copy(v->out[rank], v->out[v->thread], v->count, v->store);
    }
}

static void broadcast_pull(const view *v) {
    for
        OWN_RANKS(v, rank) bench_copy(v->out[rank], v->in[v->job->root], v->count, v->store);
}

static void broadcast_slices(const view *v) {
    int64_t begin, end;
    edges(v->count, v->thread, THREADS, &begin, &end);
    for (int32_t rank = 0; rank < v->ranks; rank++) bench_copy(v->out[rank] + begin, v->in[v->job->root] + begin, end - begin, v->store);
}

/* Each thread reads its half once and writes it to all ranks. */
static void broadcast_once(const view *v) {
    int64_t begin, end;
    float *from = v->in[v->job->root], *to[COLLECTIVE_RANKS];
    int32_t count = 0;
    edges(v->count, v->thread, THREADS, &begin, &end);
    for (int32_t rank = 0; rank < v->ranks; rank++)
        if (v->out[rank] != from) to[count++] = v->out[rank];
    bench_sum(&from, 1, to, count, begin, end, v->store);
}

static void gather_pull(const view *v) {
    for
        OWN_RANKS(v, rank)
    for (int32_t i = 0; i < v->ranks; i++) bench_copy(v->out[rank] + i * v->part, v->in[i], v->part, v->store);
}

static void gather_push(const view *v) {
    for
        OWN_RANKS(v, rank)
    for (int32_t i = 0; i < v->ranks; i++) bench_copy(v->out[i] + rank * v->part, v->in[rank], v->part, v->store);
}

static void reduce_scatter_own(const view *v) {
    for
        OWN_RANKS(v, rank) {
            float *from[COLLECTIVE_RANKS];
            for (int32_t i = 0; i < v->ranks; i++) from[i] = v->in[i] + rank * v->part;
            bench_sum(from, v->ranks, &v->out[rank], 1, 0, v->part, v->store);
        }
}

static void reduce_at_root(const view *v) {
    if (v->thread == v->job->root % THREADS) bench_sum(v->in, v->ranks, &v->out[v->job->root], 1, 0, v->count, v->store);
}

static void reduce_to_root_slices(const view *v) {
    int64_t begin, end;
    edges(v->count, v->thread, THREADS, &begin, &end);
    bench_sum(v->in, v->ranks, &v->out[v->job->root], 1, begin, end, v->store);
}

/* In place, a pair of ranks swaps two parts; both threads do one half. */
static void exchange_swap(const view *v) {
    int64_t begin, end;
    edges(v->part, v->thread, THREADS, &begin, &end);
    for (int32_t a = 0; a < v->ranks; a++)
        for (int32_t b = 0; b < a; b++) bench_swap(v->in[a] + b * v->part + begin, v->in[b] + a * v->part + begin, end - begin);
}

/* The parts of this thread's ranks, copied out of the way first. */
static void exchange_staged(const view *v) {
    float *staging = v->limit->staging[v->thread];
    for
        OWN_RANKS(v, rank)
    for (int32_t i = 0; i < v->ranks; i++)
        bench_copy(staging + (rank / THREADS * v->ranks + i) * v->part, v->in[i] + rank * v->part, v->part, v->store);
    rendezvous(v->limit, v->thread);
    for
        OWN_RANKS(v, rank) bench_copy(v->out[rank], staging + rank / THREADS * v->ranks * v->part, v->count, v->store);
}

static void exchange_pull(const view *v) {
    for
        OWN_RANKS(v, rank)
    for (int32_t i = 0; i < v->ranks; i++) bench_copy(v->out[rank] + i * v->part, v->in[i] + rank * v->part, v->part, v->store);
}

static void exchange_push(const view *v) {
    for
        OWN_RANKS(v, rank)
    for (int32_t i = 0; i < v->ranks; i++) bench_copy(v->out[i] + rank * v->part, v->in[rank] + i * v->part, v->part, v->store);
}

static void root_pulls(const view *v) {
    if (v->thread != v->job->root % THREADS) return;
    for (int32_t i = 0; i < v->ranks; i++) bench_copy(v->out[v->job->root] + i * v->part, v->in[i], v->part, v->store);
}

static void ranks_push(const view *v) {
    for
        OWN_RANKS(v, rank) bench_copy(v->out[v->job->root] + rank * v->part, v->in[rank], v->part, v->store);
}

static void ranks_pull(const view *v) {
    for
        OWN_RANKS(v, rank) bench_copy(v->out[rank], v->in[v->job->root] + rank * v->part, v->part, v->store);
}

static void root_pushes(const view *v) {
    if (v->thread != v->job->root % THREADS) return;
    for (int32_t i = 0; i < v->ranks; i++) bench_copy(v->out[i], v->in[v->job->root] + i * v->part, v->part, v->store);
}

static void update_slices(const view *v) {
    int64_t begin, end;
    edges(v->count, v->thread, THREADS, &begin, &end);
    bench_update(v->in, v->ranks, v->out, begin, end, v->store);
}

/* Each thread keeps the state of its half. */
static void momentum_slices(const view *v) {
    int64_t begin, end;
    edges(v->count, v->thread, THREADS, &begin, &end);
    bench_momentum(v->in, v->ranks, v->out, v->limit->buffers[v->thread].state, begin, end, v->store);
}

/* Each rank sums everything for itself. */
static void reduce_own(const view *v) {
    for
        OWN_RANKS(v, rank) bench_sum(v->in, v->ranks, &v->out[rank], 1, 0, v->count, v->store);
}

/* ---- the table ---- */

enum { BOTH = 3, OUT_OF_PLACE = 1, IN_PLACE = 2 };
/* Which stores a way is tried with besides the plain ones. A place that has just been read is in
 * the cache, so nobody bypasses it there. */
enum { ONLY_PLAIN = 0, STREAMS = 1 << BENCH_STREAMING, COPIES = 1 << BENCH_STREAMING | 1 << BENCH_MOVSB };
/* Who waits for whom. TWICE: all for all, before and after. ONCE: only before, because the inputs
 * are first copied aside. FOR_OTHERS: the root's thread works after the other one has arrived,
 * which waits for it after that. FOR_ROOT: the other way round; what the root's thread has to do
 * for its own ranks it does meanwhile. */
typedef enum { TWICE, ONCE, FOR_OTHERS, FOR_ROOT } waits;
typedef struct way {
    int32_t op, form, stores;
    waits waits;
    const char *name;
    void (*run)(const view *);
} way;
static const way ways[] = {
    {COLLECTIVE_ALL_REDUCE, OUT_OF_PLACE, STREAMS, TWICE, "halves, written to all", reduce_slices},
    {COLLECTIVE_ALL_REDUCE, IN_PLACE, ONLY_PLAIN, TWICE, "halves, written to all", reduce_slices},
    {COLLECTIVE_ALL_REDUCE, OUT_OF_PLACE, STREAMS, TWICE, "halves, then fetched", reduce_then_pull},
    {COLLECTIVE_ALL_REDUCE, IN_PLACE, ONLY_PLAIN, TWICE, "halves, then fetched", reduce_then_pull},
    {COLLECTIVE_ALL_REDUCE, BOTH, ONLY_PLAIN, TWICE, "each for itself", reduce_each},
    {COLLECTIVE_ALL_REDUCE, BOTH, ONLY_PLAIN, ONCE, "each for itself", reduce_own},
    {COLLECTIVE_BROADCAST, BOTH, COPIES, FOR_ROOT, "fetched", broadcast_pull},
    {COLLECTIVE_BROADCAST, BOTH, COPIES, TWICE, "halves", broadcast_slices},
    {COLLECTIVE_BROADCAST, BOTH, STREAMS, TWICE, "halves, read once", broadcast_once},
    {COLLECTIVE_BROADCAST, BOTH, ONLY_PLAIN, ONCE, "fetched", broadcast_pull},
    {COLLECTIVE_ALL_GATHER, BOTH, COPIES, TWICE, "fetched", gather_pull},
    {COLLECTIVE_ALL_GATHER, BOTH, COPIES, TWICE, "written", gather_push},
    {COLLECTIVE_ALL_GATHER, BOTH, ONLY_PLAIN, ONCE, "fetched", gather_pull},
    {COLLECTIVE_REDUCE_SCATTER, OUT_OF_PLACE, STREAMS, TWICE, "each its part", reduce_scatter_own},
    {COLLECTIVE_REDUCE_SCATTER, IN_PLACE, ONLY_PLAIN, TWICE, "each its part", reduce_scatter_own},
    {COLLECTIVE_REDUCE_SCATTER, BOTH, ONLY_PLAIN, ONCE, "each its part", reduce_scatter_own},
    {COLLECTIVE_REDUCE, BOTH, ONLY_PLAIN, FOR_OTHERS, "root alone", reduce_at_root},
    {COLLECTIVE_REDUCE, OUT_OF_PLACE, STREAMS, TWICE, "halves", reduce_to_root_slices},
    {COLLECTIVE_REDUCE, IN_PLACE, ONLY_PLAIN, TWICE, "halves", reduce_to_root_slices},
    {COLLECTIVE_REDUCE, BOTH, ONLY_PLAIN, ONCE, "root alone", reduce_at_root},
    {COLLECTIVE_ALL_TO_ALL, IN_PLACE, ONLY_PLAIN, TWICE, "swapped", exchange_swap},
    {COLLECTIVE_ALL_TO_ALL, IN_PLACE, COPIES, TWICE, "copied aside", exchange_staged},
    {COLLECTIVE_ALL_TO_ALL, OUT_OF_PLACE, COPIES, TWICE, "fetched", exchange_pull},
    {COLLECTIVE_ALL_TO_ALL, OUT_OF_PLACE, COPIES, TWICE, "written", exchange_push},
    {COLLECTIVE_ALL_TO_ALL, BOTH, ONLY_PLAIN, ONCE, "fetched", exchange_pull},
    {COLLECTIVE_GATHER, BOTH, COPIES, FOR_OTHERS, "root fetches", root_pulls},
    {COLLECTIVE_GATHER, BOTH, COPIES, FOR_ROOT, "ranks write", ranks_push},
    {COLLECTIVE_GATHER, BOTH, ONLY_PLAIN, ONCE, "root fetches", root_pulls},
    {COLLECTIVE_SCATTER, BOTH, COPIES, FOR_ROOT, "ranks fetch", ranks_pull},
    {COLLECTIVE_SCATTER, BOTH, COPIES, FOR_OTHERS, "root writes", root_pushes},
    {COLLECTIVE_SCATTER, BOTH, ONLY_PLAIN, ONCE, "ranks fetch", ranks_pull},
    {COLLECTIVE_UPDATE, BOTH, STREAMS, TWICE, "halves, written to all", update_slices},
    {COLLECTIVE_MOMENTUM, BOTH, STREAMS, TWICE, "halves, written to all", momentum_slices},
};

/* What can be the fastest at this size: copies aside cost little only where they stay in the first
 * level of the cache, and bypassing the cache is no gain where everything fits into it. */
static bool is_tried(const way *w, const collective_job *job, bench_store store) {
    const int64_t bytes = collective_job_bytes(job);
    if (w->op != job->op || !(w->form & (job->in_place ? IN_PLACE : OUT_OF_PLACE))) return false;
    if (w->waits == ONCE) return bytes <= SLOT && store == BENCH_PLAIN;
    if (store != BENCH_PLAIN && !(w->stores & 1 << store)) return false;
    return store == BENCH_PLAIN || bytes >= (store == BENCH_STREAMING ? STREAM_FROM : MOVSB_FROM);
}

static const way *find(const collective_job *job, int32_t variant, bench_store *store) {
    int32_t found = 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (*store = BENCH_PLAIN; *store < BENCH_STORES; ++*store)
            if (is_tried(&ways[i], job, *store) && found++ == variant) return &ways[i];
    return NULL;
}

int32_t bench_limit_ways(const collective_job *job) {
    bench_store store;
    int32_t count = 0;
    while (find(job, count, &store)) count++;
    return count;
}

void bench_limit_way(const collective_job *job, int32_t variant, char *name, size_t size) {
    static const char *const stores[BENCH_STORES] = {"", ", streaming", ", rep movsb"};
    bench_store store;
    const way *found = find(job, variant, &store);
    snprintf(name, size, "%s%s%s", found->name, found->waits == ONCE ? ", from copies" : "", stores[store]);
}

void bench_limit_collective_close(bench_limit_collective *limit) {
    if (!limit) return;
    for (int32_t r = 0; r < limit->ranks; r++) {
        free(limit->memory[r]);
    }
    for (int32_t t = 0; t < THREADS; t++) free(limit->staging[t]);
    free(limit->session);
    free(limit);
}

/* The elements from the beginning of one vector to that of the next. They lie as Muster's scratch
 * memory has them, not all at the same place of a page: stores to one vector would then look to the
 * processor as if the loads of another depended on them. */
static int64_t vector_stride(int64_t count) { return (count / BENCH_LANES + 1) * BENCH_LANES; }

bench_limit_collective *bench_limit_collective_open(bench_pair *pair, int32_t ranks, int64_t most) {
    bench_limit_collective *limit = aligned_alloc(128, sizeof *limit);
    if (!limit) return NULL;
    memset(limit, 0, sizeof *limit);
    limit->pair = pair;
    limit->ranks = ranks;
    limit->most = most;
    limit->session = calloc(1, sizeof *limit->session);
    bool ok = limit->session != NULL;
    for (int32_t r = 0; r < ranks; r++) {
        limit->memory[r] = collective_allocate(VECTORS * vector_stride(most));
        ok = ok && limit->memory[r];
    }
    for (int32_t t = 0; t < THREADS; t++) {
        limit->staging[t] = collective_allocate(most * ((ranks + THREADS - 1) / THREADS));
        ok = ok && limit->staging[t];
    }
    if (ok) {
        collective_session_open(limit->session, false);
        return limit;
    }
    bench_limit_collective_close(limit);
    return NULL;
}

static void copy_to_slots(view *v) {
    bench_limit_collective *limit = v->limit;
    float(*slots)[SLOT / sizeof(float)] = limit->slots[atomic_load_explicit(&limit->arrived[v->thread][0], memory_order_relaxed) & 1];
    for (int32_t r = 0; r < v->ranks; r++) {
        if (r % THREADS == v->thread && v->in[r]) bench_copy(slots[r], v->in[r], limit->buffers[r].input_count, BENCH_PLAIN);
        v->in[r] = slots[r];
    }
}

static bool operate(void *self, const collective_job *job, const collective_player *player) {
    bench_limit_collective *limit = self;
    view v = {
        .limit = limit, .job = job, .thread = player->index, .ranks = job->ranks, .part = job->count / job->ranks, .count = job->count};
    const way *found = find(job, job->variant, &v.store);
    for (int32_t r = 0; r < job->ranks; r++) {
        v.in[r] = limit->buffers[r].input;
        v.out[r] = limit->buffers[r].output;
    }
    const bool of_root = v.thread == job->root % THREADS;
    if (found->waits == ONCE) copy_to_slots(&v);
    arrive(limit, v.thread, found->waits == TWICE || found->waits == ONCE || of_root == (found->waits == FOR_OTHERS));
    found->run(&v);
    if (found->waits != ONCE) arrive(limit, v.thread, found->waits == TWICE || of_root == (found->waits == FOR_ROOT));
    return true;
}

typedef struct play {
    const bench_limit_contender *contender;
    const bench_block *block;
    bool ok[THREADS];
} play;

static void both(void *argument, int32_t thread) {
    play *p = argument;
    bench_limit_collective *limit = p->contender->limit;
    collective_player player = {limit->session, thread, THREADS, limit->buffers, operate, limit};
    p->ok[thread] = collective_play(&player, &p->contender->job, p->block->warm, p->block->calls);
}

bool bench_limit_collective_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    bench_limit_contender *contender = self;
    bench_limit_collective *limit = contender->limit;
    for (int32_t r = 0; r < contender->job.ranks; r++) {
        const int64_t stride = vector_stride(contender->job.count);
        float *first = limit->memory[r];
        limit->buffers[r] = collective_layout(&contender->job, r, first, first + stride, first + 2 * stride);
    }
    play p = {.contender = contender, .block = block};
    bench_pair_begin(limit->pair, both, &p);
    bench_pair_call(limit->pair);
    bench_pair_end(limit->pair);
    if (!p.ok[0] || !p.ok[1]) return false;
    *wrong += collective_result(limit->session, &contender->job, THREADS, block->calls, ns);
    return true;
}
