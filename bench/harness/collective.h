/* The protocol that every program follows when collectives are measured, by Muster or by a peer:
 * Muster, the limit, OpenMPI, Gloo.
 *
 * An iteration: every rank rewrites its own buffers on its own core, all ranks wait for each other
 * in a rendezvous, every rank carries out the operation, and the time is the latest rank's end
 * minus the common start. Every iteration is timed alone. After the last one of a block each rank
 * checks its own result. Written to be used by threads and by processes (the session may lie in
 * shared memory), from C and C++. */
#ifndef BENCH_COLLECTIVE_H
#define BENCH_COLLECTIVE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_BROADCAST,
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_REDUCE,
    COLLECTIVE_ALL_TO_ALL,
    COLLECTIVE_GATHER,
    COLLECTIVE_SCATTER,
    /* parameter += COLLECTIVE_RATE * sum over the ranks of gradient, on every rank; input:
     * gradient, output: parameter */
    COLLECTIVE_UPDATE,
    COLLECTIVE_MOMENTUM, /* state = COLLECTIVE_DECAY * state + COLLECTIVE_RATE * that sum; parameter += state */
    COLLECTIVE_OPS
} collective_op;

enum { COLLECTIVE_RANKS = 16, COLLECTIVE_CALLS = 4096 };
#define COLLECTIVE_RATE (-0.25f)
#define COLLECTIVE_DECAY 0.5f

/* count: floats of a full vector, a multiple of `ranks` where ranks hold parts. As input and as
 * output a rank holds a full vector or one part of it (count / ranks). */
typedef struct collective_job {
    int32_t op, ranks, root, in_place;
    int32_t variant; /* for a program that has several ways: 0 is the usual one */
    int32_t reserved;
    int64_t count;
} collective_job;

/* A rank's own buffers, NULL where it has none. In place they overlap in the way that MPI and NCCL
 * have it too. */
typedef struct collective_buffers {
    float *input, *output;
    int64_t input_count, output_count;
    float *state; /* of COLLECTIVE_MOMENTUM, output_count: zeros before every operation; nobody else looks at it */
} collective_buffers;

const char *collective_name(int32_t op);   /* as in Muster: "all_reduce" */
int32_t collective_find(const char *name); /* -1: no such operation. Also without underscores, as in nccl-tests */
bool collective_rooted(int32_t op);
bool collective_sums(int32_t op);
/* bus bandwidth / algorithm bandwidth, as nccl-tests defines it */
double collective_bus_factor(int32_t op, int32_t ranks);
int64_t collective_job_bytes(const collective_job *job); /* of a full vector */
/* elements as nccl-tests counts them: of a part where ranks hold parts */
int64_t collective_job_count(const collective_job *job);

/* One full vector for each of `first`, `second` (not used in place) is what a rank needs, and
 * `third` for COLLECTIVE_MOMENTUM. */
collective_buffers collective_layout(const collective_job *job, int32_t rank, float *first, float *second, float *third);
bool collective_updates(int32_t op); /* has parameters as its output */
void collective_rewrite(const collective_job *job, int32_t rank, const collective_buffers *buffers, uint32_t iteration);
int64_t collective_wrong(const collective_job *job, int32_t rank, const collective_buffers *buffers, uint32_t iteration);
/* As Muster's host devices have it: whole huge pages, where the kernel gives them, from 4 MiB on.
 * NULL: no memory. Freed with free. */
float *collective_allocate(int64_t count);

/* The state of the rendezvous between the players of one program. All zeros at first, then
 * collective_session_open, by one of them. */
typedef struct collective_session {
    uint64_t arrived;
    char pad0[120];
    uint64_t generation, begin; /* of the latest complete rendezvous, in ticks */
    char pad1[112];
    int32_t aborted;
    int32_t oversubscribed; /* more players than cores: waits give the core away */
    double ns_per_tick;
    uint64_t lead; /* ticks between the last arrival and the common start, for the others to see it */
    char pad2[104];
    int64_t wrong[COLLECTIVE_RANKS];
    /* one pair of cache lines for each player: the number of rendezvous that it has been in */
    uint64_t generations[COLLECTIVE_RANKS][16];
    uint64_t begins[COLLECTIVE_CALLS];
    uint64_t ends[COLLECTIVE_RANKS][COLLECTIVE_CALLS];
} collective_session;

void collective_session_open(collective_session *session, bool oversubscribed);
void collective_abort(collective_session *session);

/* One thread or process. It serves the ranks index, index + players, ...: as a rule players =
 * ranks. */
typedef struct collective_player {
    collective_session *session;
    int32_t index, players;
    collective_buffers *buffers; /* [ranks]; the player's own ranks' are set */
    bool (*operate)(void *self, const collective_job *job, const struct collective_player *player);
    void *self;
} collective_player;

/* Waits for all players; gives the common start in ticks, 0 when one has aborted. */
uint64_t collective_rendezvous(const collective_player *player);
/* Plays one block; every player calls it. false: this or another player failed; all return. */
bool collective_play(const collective_player *player, const collective_job *job, int32_t warm, int32_t calls);
/* After all have played: ns[calls] out; the number of wrong elements on all ranks. */
int64_t collective_result(const collective_session *session, const collective_job *job, int32_t players, int32_t calls, double *ns);

#ifdef __cplusplus
}
#endif
#endif
