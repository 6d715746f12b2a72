/* A communicator: its members, and the transports that serve them. Members enter collectives in the
 * same order, inside a task. This header and core/ know no transport. */
#ifndef MST_COMMUNICATOR_IMPL_H
#define MST_COMMUNICATOR_IMPL_H

#include "core/request_impl.h"

#include <pthread.h>

/* The kernels of this room. */
extern const mst_code_texts mst_collectives_code;

typedef struct mst_transport mst_transport;
typedef struct mst_message_table mst_message_table;
typedef struct mst_message mst_message;

enum {
#define MST_TRANSPORT(name) MST_TRANSPORT_##name,
#include "transports.def"
#undef MST_TRANSPORT
    MST_TRANSPORT_COUNT
};

/* What was asked for by name. transport NULL: nothing. algorithm: 1 + its number in a transport
 * that has several, 0: the transport itself was named. */
typedef struct mst_forced {
    const mst_transport *transport;
    int32_t algorithm;
} mst_forced;

/* What a member has noted between group_begin and group_end. */
enum { MST_GROUP_REQUESTS = 1024 };
typedef struct mst_group {
    uint64_t epoch; /* of the run in which it was opened; 0: closed */
    int32_t count;
    bool released;         /* the member has given its part of the communicator back */
    mst_request *requests; /* [MST_GROUP_REQUESTS] as noted, as many sorted, as many as offered; made on first use */
    uint8_t *winners;      /* [MST_GROUP_REQUESTS], behind them: the transport of each */
} mst_group;

/* Per-member state. Written by that member only; rank, momentum and messages are read by others. */
typedef struct mst_member {
    _Alignas(MST_CACHE_LINE) int32_t rank; /* in the pool */
    mst_group group;
    const mst_request **requests; /* [size], the view of the collective in progress */
    /* What goes with the two flag lines, used in turn like them: the others read beta there, for
     * error messages. */
    mst_momentum momentum[2];
    mst_message *messages; /* [MST_GROUP_REQUESTS] of a group, made on first use */
    int32_t message_count;
    uint64_t *post_tags;       /* [size], of this group's posts by receiver */
    _Atomic uint64_t decision; /* on the part that this member has made last, see agree in split.c */
    /* What has served the last collective; NULL: none yet, or no transport was needed, or a
     * transport without algorithms. For tests. */
    const char *served_transport, *served_algorithm;
} mst_member;

struct muster_communicator {
    int32_t size;
    int32_t *rank_of; /* by rank in the pool: rank in here, -1: none */
    mst_member *members;
    mst_team *team;
    mst_pool *pool;
    /* The one that has the rendezvous of a collective to itself unless transports that share one
     * win; chosen when the communicator is made. GROUP: of batches. */
    const mst_transport *exclusive[MST_COLLECTIVE_COUNT];
    /* Those that move tensors from where they are and share a rendezvous, in the order of
     * transports.def; none between ranks on host memory. */
    const mst_transport *shared[MST_TRANSPORT_COUNT];
    int32_t shared_count;
    const mst_message_table *messages;
    void *state[MST_TRANSPORT_COUNT]; /* NULL: the transport does not serve these members */
    mst_forced forced;
    muster_communicator *alone; /* of all workers: rank 0 by itself, for single calls */
    /* of a part */
    muster_communicator *world, *next;
    _Atomic int32_t users; /* members that have not released it */
    /* of the world */
    bool fixed_order;     /* floats are combined in rank order only */
    bool recovers;        /* some open transport can be recovered */
    pthread_mutex_t lock; /* of the list */
    muster_communicator *parts;
    void *open[MST_TRANSPORT_COUNT];    /* what the communicators of this world share; NULL: not open */
    char *reasons[MST_TRANSPORT_COUNT]; /* why a transport is not open; NULL: none given */
};

static inline int32_t mst_communicator_rank(const muster_communicator *communicator, const muster_worker *worker) {
    return communicator->rank_of[worker->rank];
}
/* How error messages name a member: "rank 1 (worker 3)". */
static inline const char *mst_member_text(const muster_communicator *communicator, int32_t rank, char text[MST_RANK_TEXT]) {
    return mst_team_rank_text(communicator->team, communicator->members[rank].rank, text);
}

/* algorithm: the name of the one that serves whatever it can ("reference", "inline", "direct";
 * between devices with memory of their own "p2p", "nccl", "staged"); NULL: the environment's
 * MUSTER_COLLECTIVE_ALGORITHM, else the selection. Unknown names, and transports that these devices
 * do not have, are refused.
 * fixed_order: floats are combined in rank order, also where NCCL could do it in its own (the
 * reproducible mode). */
typedef struct mst_communicator_options {
    const char *algorithm;
    bool fixed_order;
} mst_communicator_options;

/* Over all workers of a pool; sets worker->communicator. Destroy between runs; destroys what was
 * split from it and is left. options may be NULL. */
muster_status mst_communicator_create(mst_pool *pool, const mst_communicator_options *options, muster_communicator **communicator);
void mst_communicator_destroy(muster_communicator *communicator);
/* Between mst_pool_enter and every run, before its deadlines are set: recovers what an aborted run
 * has broken. Cheap where nothing is. What cannot be recovered is logged, and other transports
 * serve. */
void mst_communicator_ready(muster_communicator *communicator);
/* "p2p between peers; NCCL 2.28.9": how collectives go, for the runtime's description. Returns
 * text. */
const char *mst_communicator_description(const muster_communicator *communicator, char *text, size_t size);
/* The communicator of the run: of one rank inside run_single. */
muster_communicator *mst_worker_communicator(const muster_worker *worker);

/* Checked requests, served together; more than one, or messages to itself, only from a group. */
muster_status mst_communicator_run(muster_communicator *communicator, muster_worker *worker, mst_request *requests, int32_t count);
/* core/split.c. release: this member gives its part back; the last one destroys it. */
muster_status mst_communicator_split(muster_communicator *communicator, muster_worker *worker, int32_t color, int32_t key,
                                     muster_communicator **part);
void mst_communicator_release(muster_communicator *part, muster_worker *worker);
/* core/group.c. end: serves what was noted. */
muster_status mst_group_begin(muster_communicator *communicator, muster_worker *worker, const char *where);
muster_status mst_group_end(muster_communicator *communicator, muster_worker *worker);

/* For rooms to the right, which have checked their arguments: one request over all workers of the
 * run. */
static inline muster_status mst_worker_collective(muster_worker *worker, mst_request request) {
    return mst_communicator_run(mst_worker_communicator(worker), worker, &request, 1);
}
/* May the requests of this worker allocate, and so want a reserve beforehand? reserve: its next
 * requests, with inputs and outputs of at most `bytes` each, allocate nothing. */
static inline bool mst_worker_reserves(const muster_worker *worker) { return mst_worker_communicator(worker)->size > 1; }
muster_status mst_worker_reserve(muster_worker *worker, int64_t bytes);

#endif
