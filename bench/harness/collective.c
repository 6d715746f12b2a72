#include "collective.h"

#include "clock.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_FROM = 4 << 20, PAGE = 4096 };

static const char *const names[COLLECTIVE_OPS] = {"all_reduce", "broadcast", "all_gather", "reduce_scatter",  "reduce",
                                                  "all_to_all", "gather",    "scatter",    "all_reduce_axpy", "all_reduce_momentum"};

const char *collective_name(int32_t op) { return op >= 0 && op < COLLECTIVE_OPS ? names[op] : "?"; }

static bool equal_but_underscores(const char *a, const char *b) {
    for (;; a++, b++) {
        while (*a == '_') a++;
        while (*b == '_') b++;
        if (*a != *b) return false;
        if (!*a) return true;
    }
}

int32_t collective_find(const char *name) {
    for (int32_t op = 0; op < COLLECTIVE_OPS; op++)
        if (equal_but_underscores(name, names[op])) return op;
    return -1;
}

bool collective_rooted(int32_t op) {
    return op == COLLECTIVE_BROADCAST || op == COLLECTIVE_REDUCE || op == COLLECTIVE_GATHER || op == COLLECTIVE_SCATTER;
}

bool collective_updates(int32_t op) { return op == COLLECTIVE_UPDATE || op == COLLECTIVE_MOMENTUM; }

bool collective_sums(int32_t op) {
    return op == COLLECTIVE_ALL_REDUCE || op == COLLECTIVE_REDUCE_SCATTER || op == COLLECTIVE_REDUCE || collective_updates(op);
}

static bool in_parts(int32_t op) {
    return op == COLLECTIVE_ALL_GATHER || op == COLLECTIVE_REDUCE_SCATTER || op == COLLECTIVE_ALL_TO_ALL || op == COLLECTIVE_GATHER ||
           op == COLLECTIVE_SCATTER;
}

double collective_bus_factor(int32_t op, int32_t ranks) {
    double fraction = (double)(ranks - 1) / ranks;
    if (op == COLLECTIVE_ALL_REDUCE || collective_updates(op)) return 2 * fraction;
    return in_parts(op) ? fraction : 1;
}

int64_t collective_job_bytes(const collective_job *job) { return job->count * (int64_t)sizeof(float); }
int64_t collective_job_count(const collective_job *job) { return in_parts(job->op) ? job->count / job->ranks : job->count; }

collective_buffers collective_layout(const collective_job *job, int32_t rank, float *first, float *second, float *third) {
    int64_t all = job->count, part = job->count / job->ranks;
    bool root = rank == job->root, in_place = job->in_place;
    float *mine = first + rank * part; /* this rank's part of a full vector */
    switch (job->op) {
    case COLLECTIVE_BROADCAST: /* everybody but the root has an output only */
        if (!root) return (collective_buffers){NULL, first, 0, all, NULL};
        return (collective_buffers){first, in_place ? first : second, all, all, NULL};
    case COLLECTIVE_REDUCE:
        if (!root) return (collective_buffers){first, NULL, all, 0, NULL};
        return (collective_buffers){first, in_place ? first : second, all, all, NULL};
    case COLLECTIVE_ALL_GATHER:
        return (collective_buffers){in_place ? mine : second, first, part, all, NULL};
    case COLLECTIVE_GATHER:
        if (!root) return (collective_buffers){first, NULL, part, 0, NULL};
        return (collective_buffers){in_place ? mine : second, first, part, all, NULL};
    case COLLECTIVE_SCATTER:
        if (!root) return (collective_buffers){NULL, first, 0, part, NULL};
        return (collective_buffers){first, in_place ? mine : second, all, part, NULL};
    case COLLECTIVE_REDUCE_SCATTER:
        return (collective_buffers){first, in_place ? mine : second, all, part, NULL};
    default:
        return (collective_buffers){first, in_place ? first : second, all, all, job->op == COLLECTIVE_MOMENTUM ? third : NULL};
    }
}

/* Small whole numbers: their sums are exact in any order, and depend on rank, index and
 * iteration. */
static inline float value(uint32_t rank, uint32_t index, uint32_t iteration) {
    return (float)(int32_t)((index * 0x9E3779B1u + rank * 0x7F4A7C15u + iteration * 0x85EBCA6Bu) >> 27);
}

static inline float parameter(uint32_t index, uint32_t iteration) { return value(COLLECTIVE_RANKS, index, iteration); }

void collective_rewrite(const collective_job *job, int32_t rank, const collective_buffers *buffers, uint32_t iteration) {
    float *input = buffers->input, *output = buffers->output;
    /* The output first: in place, the input is a part of it. Its old result must not pass for a new
     * one. */
    if (buffers->state) memset(buffers->state, 0, (size_t)buffers->output_count * sizeof(float));
    if (output && collective_updates(job->op))
        for (int64_t i = 0; i < buffers->output_count; i++) output[i] = parameter((uint32_t)i, iteration);
    else if (output != input)
        for (int64_t i = 0; i < buffers->output_count; i++) output[i] = -1;
    for (int64_t i = 0; i < buffers->input_count; i++) input[i] = value((uint32_t)rank, (uint32_t)i, iteration);
}

/* output[0..count) should be what `rank` had from index `from` on. */
static int64_t wrong_copy(const float *output, int64_t count, int32_t rank, int64_t from, uint32_t iteration) {
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; i++) wrong += output[i] != value((uint32_t)rank, (uint32_t)(from + i), iteration);
    return wrong;
}

static int64_t wrong_sum(const collective_job *job, const float *output, int64_t count, int64_t from, uint32_t iteration) {
    int64_t wrong = 0;
    bool update = collective_updates(job->op);
    for (int64_t i = 0; i < count; i++) {
        float sum = 0;
        for (int32_t r = 0; r < job->ranks; r++) sum += value((uint32_t)r, (uint32_t)(from + i), iteration);
        wrong += output[i] != (update ? parameter((uint32_t)(from + i), iteration) + COLLECTIVE_RATE * sum : sum);
    }
    return wrong;
}

int64_t collective_wrong(const collective_job *job, int32_t rank, const collective_buffers *buffers, uint32_t iteration) {
    const float *output = buffers->output;
    int64_t part = job->count / job->ranks, count = buffers->output_count, wrong = 0;
    if (!output) return 0;
    switch (job->op) {
    case COLLECTIVE_BROADCAST:
        return wrong_copy(output, count, job->root, 0, iteration);
    case COLLECTIVE_SCATTER:
        return wrong_copy(output, count, job->root, rank * part, iteration);
    case COLLECTIVE_ALL_GATHER:
    case COLLECTIVE_GATHER:
        for (int32_t r = 0; r < job->ranks; r++) wrong += wrong_copy(output + r * part, part, r, 0, iteration);
        return wrong;
    case COLLECTIVE_ALL_TO_ALL:
        for (int32_t r = 0; r < job->ranks; r++) wrong += wrong_copy(output + r * part, part, r, rank * part, iteration);
        return wrong;
    default:
        return wrong_sum(job, output, count, job->op == COLLECTIVE_REDUCE_SCATTER ? rank * part : 0, iteration);
    }
}

float *collective_allocate(int64_t count) {
    size_t bytes = ((size_t)(count > 0 ? count : 1) * sizeof(float) + PAGE - 1) / PAGE * PAGE;
    float *memory = (float *)aligned_alloc(PAGE, bytes);
    if (memory && bytes >= HUGE_FROM) (void)madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

void collective_session_open(collective_session *session, bool oversubscribed) {
    session->oversubscribed = oversubscribed;
    session->ns_per_tick = bench_ns_per_tick();
    session->lead = oversubscribed ? 0 : (uint64_t)(1000 / session->ns_per_tick);
}

void collective_abort(collective_session *session) { __atomic_store_n(&session->aborted, 1, __ATOMIC_SEQ_CST); }

uint64_t collective_rendezvous(const collective_player *player) {
    collective_session *session = player->session;
    uint64_t generation = ++session->generations[player->index][0];
    if (__atomic_add_fetch(&session->arrived, 1, __ATOMIC_ACQ_REL) == generation * (uint64_t)player->players) {
        session->begin = bench_ticks() + session->lead;
        __atomic_store_n(&session->generation, generation, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(&session->generation, __ATOMIC_ACQUIRE) < generation) {
        if (__atomic_load_n(&session->aborted, __ATOMIC_RELAXED)) return 0;
        if (session->oversubscribed)
            sched_yield();
        else
            bench_relax();
    }
    uint64_t begin = session->begin;
    while (bench_ticks() < begin) bench_relax();
    return begin;
}

static bool iterate(const collective_player *player, const collective_job *job, uint32_t iteration, uint64_t *begin, uint64_t *end) {
    for (int32_t rank = player->index; rank < job->ranks; rank += player->players)
        collective_rewrite(job, rank, &player->buffers[rank], iteration);
    *begin = collective_rendezvous(player);
    bool ok = *begin != 0 && player->operate(player->self, job, player);
    *end = bench_ticks();
    if (!ok) collective_abort(player->session);
    /* Nobody rewrites its buffers before all have returned: on a core of two players the first to
     * return would keep the other from saying when it was done. */
    return ok && collective_rendezvous(player) != 0;
}

bool collective_play(const collective_player *player, const collective_job *job, int32_t warm, int32_t calls) {
    collective_session *session = player->session;
    uint32_t seed = (uint32_t)session->generations[player->index][0]; /* the same on all players */
    uint32_t iteration = seed;
    for (int32_t i = -warm; i < calls; i++) {
        uint64_t begin, end;
        iteration = seed + (uint32_t)(i + warm);
        if (!iterate(player, job, iteration, &begin, &end)) return false;
        if (i < 0) continue;
        if (player->index == 0) session->begins[i] = begin;
        session->ends[player->index][i] = end;
    }
    for (int32_t rank = player->index; rank < job->ranks; rank += player->players)
        session->wrong[rank] = collective_wrong(job, rank, &player->buffers[rank], iteration);
    return collective_rendezvous(player) != 0;
}

int64_t collective_result(const collective_session *session, const collective_job *job, int32_t players, int32_t calls, double *ns) {
    for (int32_t i = 0; i < calls; i++) {
        uint64_t end = 0;
        for (int32_t p = 0; p < players; p++) end = session->ends[p][i] > end ? session->ends[p][i] : end;
        ns[i] = (double)(int64_t)(end - session->begins[i]) * session->ns_per_tick;
    }
    int64_t wrong = 0;
    for (int32_t rank = 0; rank < job->ranks; rank++) wrong += session->wrong[rank];
    return wrong;
}
