/* A communicator: its members, and the transports that serve them. All members enter its
 * collectives in the same order, inside a task. This header and core/ know the transports
 * only by the list transports.def. */
#ifndef MST_COMMUNICATOR_IMPL_H
#define MST_COMMUNICATOR_IMPL_H

#include "core/request_impl.h"
#include "pool_impl.h"
#include "thresholds_impl.h"

#include <pthread.h>

/* The kernel sources of the collectives. */
extern const mst_code_sources mst_collectives_code;

typedef struct mst_transport mst_transport;
typedef struct mst_message_table mst_message_table;
typedef struct mst_message mst_message;
struct mst_nodes;

enum {
#define MST_TRANSPORT(name) MST_TRANSPORT_##name,
#include "transports.def"
#undef MST_TRANSPORT
    MST_TRANSPORT_COUNT
};

/* The transport or algorithm that the options or the environment name; transport is NULL if they
 * bind nothing. algorithm is 1 + the number of an algorithm of the transport, or 0 if the transport
 * itself is named. name: as it was asked for; NULL: nothing was. */
typedef struct mst_forced {
    const mst_transport *transport;
    int32_t algorithm;
    const char *name;
} mst_forced;

/* The requests that a member has recorded between group_begin and group_end. */
enum { MST_GROUP_REQUESTS = 1024 };
typedef struct mst_group {
    uint64_t epoch; /* the run in which the group was opened; 0: no group is open */
    int32_t count;
    bool released; /* the member has released the communicator */
    /* Three arrays of MST_GROUP_REQUESTS each, allocated on first use: the requests in the order of
     * the calls, the sorted requests, and the requests as offered to the other members. */
    mst_request *requests;
    uint8_t *winners; /* [MST_GROUP_REQUESTS] the transport that serves each request; in the same allocation */
} mst_group;

/* What the collectives keep for each worker of the pool, in the worker's slot MST_SLOT_COLLECTIVES.
 * Only that worker accesses it during a run. */
typedef struct mst_worker_collectives {
    _Alignas(MST_CACHE_LINE) muster_communicator *world; /* of all workers of this process */
    uint64_t group_epoch;                                /* the run that open_groups counts */
    int32_t open_groups;                                 /* groups begun and not ended in that run */
    bool per_shard;                                      /* see mst_worker_set_per_shard */
    bool exact;                                          /* see mst_worker_set_exact */
} mst_worker_collectives;

/* Per-member state. Only the member writes it; other members read rank, momentum and messages. */
typedef struct mst_member {
    _Alignas(MST_CACHE_LINE) int32_t rank; /* in the pool */
    mst_group group;
    const mst_request **requests; /* [size] the requests of all members in the collective in progress */
    /* One per flag line; the two alternate as the flag lines do. The other members read beta here
     * for error messages. */
    mst_momentum momentum[2];
    mst_apply_offer apply[2];       /* as momentum */
    uint64_t apply_tag;             /* of the rendezvous in which this member has offered the last of them */
    _Atomic uint64_t apply_written; /* the newest tag under which this member has begun to write parameters */
    mst_message *messages;          /* [MST_GROUP_REQUESTS] messages of a group, allocated on first use */
    int32_t message_count;
    uint64_t *post_tags;       /* [size] the tags of this group's posts, by receiver */
    _Atomic uint64_t decision; /* about the part that this member made last; see agree in split.c */
    /* For tests: the transport and the algorithm that served the last collective. served_transport
     * is NULL before the first collective, or if no transport was needed. served_algorithm is also
     * NULL if the transport has no algorithms. */
    const char *served_transport, *served_algorithm;
    /* Has this member written by stores that bypass the cache, in the last collective of an
     * algorithm? */
    bool served_streaming;
    bool served_pairs; /* has a rule added two gradients by itself, in the same one? */
} mst_member;

/* Where the members of a communicator over several processes are. The ranks here count all of them;
 * `size`, `members` and `rank_of` of the communicator count those of this process alone, in the
 * same order. */
enum { MST_SPAN_WORLD_LANE = 1 }; /* that of the communicator of all ranks */
typedef struct mst_rank_span {
    struct mst_nodes *nodes;
    int32_t lane;        /* of the wire, for this communicator alone */
    int32_t size;        /* all members */
    int32_t processes;   /* that have members */
    int32_t here, most;  /* this process among them; the most members of one of them */
    int32_t *numbers;    /* [processes] their numbers in the launch, ascending */
    int32_t *counts;     /* [processes] their members */
    int32_t *process_of; /* [size] in [0, processes) */
    int32_t *index_of;   /* [size] the rank among the members of its process */
    int32_t *worker_of;  /* [size] the rank in the runtime */
    int32_t *ranks;      /* [members of this process] the rank of each */
    /* The members of this process without the others; it serves what stays in the process. Of the
     * communicator of all ranks it is the world. */
    muster_communicator *local;
} mst_rank_span;

struct muster_communicator {
    int32_t size;
    int32_t *rank_of; /* by rank in the pool: the rank in this communicator, or -1 */
    mst_member *members;
    mst_team *team;
    mst_pool *pool;
    /* For each collective, the transport that serves it in a rendezvous of its own if no sharing
     * transport does. Entry MST_GROUP is for batches. Chosen when the communicator is created. */
    const mst_transport *exclusive[MST_COLLECTIVE_COUNT];
    /* The transports that share a rendezvous because they move tensors in place, without copies, in
     * the order of transports.def. Between ranks on host memory there are none. */
    const mst_transport *shared[MST_TRANSPORT_COUNT];
    int32_t shared_count;
    const mst_message_table *messages;
    void *state[MST_TRANSPORT_COUNT]; /* NULL: the transport does not serve these members */
    mst_forced forced;
    muster_communicator *alone; /* a communicator of rank 0 alone, for single calls */
    mst_rank_span *span;        /* NULL: all members are in this process */
    /* the communicator of all workers; the next part in its list */
    muster_communicator *world, *next;
    _Atomic int32_t users; /* members that have not released it */
    /* the world only */
    muster_communicator *global;     /* of the workers of all processes; the world itself if there is one process */
    mst_worker_collectives *workers; /* [size] */
    bool fixed_order;                /* combine floats in rank order only */
    bool checks;                     /* of the options */
    muster_dtype wire_dtype;         /* of the options */
    int64_t stream_bytes;            /* of the options */
    int64_t nccl_create_ns;          /* of the options; not 0 */
    mst_thresholds thresholds;       /* of the device of rank 0 */
    _Atomic int32_t revision;        /* changes when the description does */
    bool recovers;                   /* some open transport has a recover function */
    pthread_mutex_t lock;            /* protects the list of parts */
    muster_communicator *parts;
    void *open[MST_TRANSPORT_COUNT];    /* per transport: the state that all communicators of this world share; NULL: not open */
    char *reasons[MST_TRANSPORT_COUNT]; /* why a transport is not open; NULL: none given */
};

/* worker_average.c, for averages with weights. to[i] = scale * from[i], where `from` has `dtype`
 * and `to` its compute dtype; scale is finite and not negative. With scale 0 all are 0, whatever
 * `from` holds. Both are device addresses; `to` may be `from`. */
muster_status mst_worker_weigh(muster_worker *worker, muster_dtype dtype, void *to, const void *from, int64_t count, double scale);
/* Refuses a sum of weights that is 0 or infinite. */
muster_status mst_weights_check(const char *where, double total);
/* Where values of this dtype travel in the wire dtype, each process sends the average of its own
 * ranks, which the others multiply by the process's part of all weights (`process_weights` of a
 * request). weights: of all ranks of the communicator; total: their sum. mst_weights_of_processes
 * fills process_weights[processes]; mst_weights_own: by what a rank multiplies its values. */
bool mst_weights_are_shared(const muster_communicator *communicator, muster_dtype dtype);
void mst_weights_of_processes(const muster_communicator *communicator, const double *weights, double total, double *process_weights);
double mst_weights_own(const muster_communicator *communicator, const double *weights, int32_t rank);

static inline mst_worker_collectives *mst_collectives_of(const muster_worker *worker) { return worker->slots[MST_SLOT_COLLECTIVES]; }
/* Has the worker begun a group in this run that it has not ended? */
static inline bool mst_worker_has_open_group(const muster_worker *worker) {
    const mst_worker_collectives *state = mst_collectives_of(worker);
    return state->open_groups > 0 && state->group_epoch == worker->epoch;
}
/* True while the body runs once for each logical shard of the worker. The public collectives are
 * refused in such a body, because the number of its runs depends on the number of devices. */
static inline void mst_worker_set_per_shard(muster_worker *worker, bool per_shard) { mst_collectives_of(worker)->per_shard = per_shard; }

/* While it is set, the sums and averages that the worker requests do not travel in the wire dtype:
 * what a graph computes with is no gradient. */
static inline void mst_worker_set_exact(muster_worker *worker, bool exact) { mst_collectives_of(worker)->exact = exact; }

/* Is the run in progress a single call? Then its one worker meets nobody. */
static inline bool mst_worker_is_single(const muster_worker *worker) { return worker->total == 0; }

static inline int32_t mst_communicator_rank(const muster_communicator *communicator, const muster_worker *worker) {
    return communicator->rank_of[worker->rank];
}
/* The members of all processes, and the rank among them of the member that has `rank` among those
 * of this process. */
static inline int32_t mst_communicator_total(const muster_communicator *communicator) {
    return __builtin_expect(communicator->span != NULL, 0) ? communicator->span->size : communicator->size;
}
static inline int32_t mst_communicator_public(const muster_communicator *communicator, int32_t rank) {
    return __builtin_expect(communicator->span != NULL, 0) && rank >= 0 ? communicator->span->ranks[rank] : rank;
}
/* Formats the name of a member for error messages: "rank 1 (worker 3)", or with several processes
 * "rank 1 (worker 3, process 1, host b)". rank: among the members of all processes. Returns
 * text. */
enum { MST_MEMBER_TEXT = 160 };
const char *mst_member_text(const muster_communicator *communicator, int32_t rank, char text[MST_MEMBER_TEXT]);

/* algorithm is the name of a row of host/algorithms.def or, between devices with memory of their
 * own, of a transport of transports.def, or of a row of nodes/names.def. It then serves every
 * collective that it can.
 * If it is NULL, the environment's MUSTER_COLLECTIVE_ALGORITHM names it; if that is not set, the
 * library selects. A name that is unknown, or a transport that these devices do not support, is an
 * error.
 *
 * With fixed_order (the reproducible mode) floats are combined in rank order, even where NCCL could
 * combine them in an order of its own.
 *
 * wire_dtype: MUSTER_F16 or MUSTER_BF16: in which sums and averages of floats travel between
 * processes; 0: as they are summed. Not with fixed_order.
 *
 * stream_bytes: as in muster_runtime_options.
 *
 * nccl_create_ns: for how long NCCL may be in progress with the creation of a communicator; then
 * NCCL does not serve. 0: 300 s, since it has taken a minute on machines with 8 GPUs. */
typedef struct mst_communicator_options {
    const char *algorithm;
    bool fixed_order;
    bool checks; /* that floats which bodies add up are finite */
    muster_dtype wire_dtype;
    int64_t stream_bytes;
    int64_t nccl_create_ns;
    /* The processes whose workers are all members, with the ranks of each set (mst_nodes_join). It
     * stays the caller's until the communicator is destroyed. NULL: this process is alone. */
    struct mst_nodes *nodes;
} mst_communicator_options;

/* Creates the communicator of all workers of a pool and sets their slots. options may be NULL.
 * Destroy it between runs; that also destroys the parts that have not been released. With several
 * processes this is the communicator of the workers of this one; its `global` has those of all. */
muster_status mst_communicator_create(mst_pool *pool, const mst_communicator_options *options, muster_communicator **communicator);
void mst_communicator_destroy(muster_communicator *communicator);
/* Call it between mst_pool_enter and each run, before the deadlines of the run are set. Recovers
 * the transports that an aborted run has broken; cheap if none is broken. If a transport cannot be
 * recovered, a warning is logged and other transports serve. */
void mst_communicator_ready(muster_communicator *communicator);
/* Describes the transports for the runtime's description, such as "p2p between peers; NCCL 2.28.9".
 * Returns text. The description changes when the communicator's revision does. */
const char *mst_communicator_description(const muster_communicator *communicator, char *text, size_t size);
/* The communicator of the current run, of the workers of all processes; inside run_single it has
 * one rank. */
muster_communicator *mst_worker_communicator(const muster_worker *worker);

/* Serves requests that have been checked, all together. Several requests, or a message of a rank to
 * itself, come only from a group. */
muster_status mst_communicator_run(muster_communicator *communicator, muster_worker *worker, mst_request *requests, int32_t count);
/* The same for requests of a body. Where the options ask for it, floats that are added up must be
 * finite, on each rank before it enters and behind the reduction (worker_finite.c). */
muster_status mst_communicator_run_finite(muster_communicator *communicator, muster_worker *worker, mst_request *requests, int32_t count);
static inline muster_status mst_communicator_run_of_body(muster_communicator *communicator, muster_worker *worker, mst_request *requests,
                                                         int32_t count) {
    if (__builtin_expect(communicator->world->checks, 0)) return mst_communicator_run_finite(communicator, worker, requests, count);
    return mst_communicator_run(communicator, worker, requests, count);
}

/* Forms of collectives that only begin: every rank enters as it enters the collective itself, whose
 * checks, agreement and failures are the same, and the device works on it beside what the worker
 * issues next. Until mst_worker_exchange_end the input must not change, the output must not be
 * read, and the memory of both must not be given back. All ranks call the same form.
 *
 * A collective that does not only begin comes after those that have begun, so the collectives of a
 * worker always run in the order in which it enters them. The end of a run waits for all. On host
 * memory, and where copies in host memory serve (staged), begin does all the work. Errors: those of
 * the collective; BAD_STATE in a group. */
muster_status mst_worker_all_reduce_begin(muster_worker *worker, muster_communicator *communicator, muster_reduction op,
                                          muster_tensor input, muster_tensor output);
muster_status mst_worker_reduce_scatter_begin(muster_worker *worker, muster_communicator *communicator, muster_reduction op,
                                              muster_tensor input, muster_tensor output);
muster_status mst_worker_all_gather_begin(muster_worker *worker, muster_communicator *communicator, muster_tensor input,
                                          muster_tensor output);
/* The same of mst_worker_apply_sum, and of all three steps of one bucket: its sums, the rule on
 * them and the new values, for which all buckets have to be entered, in any order. What of the
 * bucket has failed is undefined; those before it have their new values. */
muster_status mst_worker_apply_sum_begin(muster_worker *worker, muster_communicator *communicator, const mst_apply_request *apply,
                                         int32_t bucket);
muster_status mst_worker_apply_begin(muster_worker *worker, muster_communicator *communicator, const mst_apply_request *apply,
                                     int32_t bucket);
/* Do devices of this communicator work on what has begun beside what they are given next? */
static inline bool mst_communicator_begins(const muster_communicator *communicator) {
    return communicator->size > 1 && communicator->shared_count > 0;
}
/* What the worker issues from now on comes after everything that has begun. Nothing waits in the
 * host, and no other rank takes part. */
muster_status mst_worker_exchange_end(muster_worker *worker);

/* core/split.c. The last member that releases the part destroys it. */
muster_status mst_communicator_split(muster_communicator *communicator, muster_worker *worker, int32_t color, int32_t key,
                                     muster_communicator **part);
void mst_communicator_release(muster_communicator *part, muster_worker *worker);
/* core/group.c. mst_group_end serves the recorded requests. */
muster_status mst_group_begin(muster_communicator *communicator, muster_worker *worker, const char *where);
muster_status mst_group_end(muster_communicator *communicator, muster_worker *worker);

/* Between runs: if all members make this request, does a transport serve it well that moves the
 * tensors between the devices, without a copy in host memory? Only the counts of the request count,
 * and whether it has an input and an output. */
bool mst_communicator_serves_in_place(const muster_communicator *communicator, const mst_request *request);

/* The communicator of the workers of this process in the current run, of which the ranks are the
 * workers' numbers. What a process does alone, such as the end of a body, goes by it. */
muster_communicator *mst_worker_neighbours(const muster_worker *worker);
/* For the modules built on this one, which check their arguments themselves: serves one request
 * over the workers of this process in the run, whose roots and counts are those of this process. */
static inline muster_status mst_worker_collective(muster_worker *worker, mst_request request) {
    return mst_communicator_run(mst_worker_neighbours(worker), worker, &request, 1);
}
/* The same over the workers of all processes: root and counts are public ranks. */
static inline muster_status mst_worker_collective_of_all(muster_worker *worker, mst_request request) {
    return mst_communicator_run(mst_worker_communicator(worker), worker, &request, 1);
}
/* Can the requests of this worker allocate memory? Then mst_worker_reserve, called before them,
 * ensures that requests with inputs and outputs of at most `bytes` each allocate nothing. */
static inline bool mst_worker_reserves(const muster_worker *worker) { return mst_worker_neighbours(worker)->size > 1; }
muster_status mst_worker_reserve(muster_worker *worker, int64_t bytes);
/* The same for mst_worker_collective_of_all. */
muster_status mst_worker_reserve_of_all(muster_worker *worker, int64_t bytes);
/* The same for an all_reduce_apply of all workers, in one pass or in phases, with one vector of
 * `length` gradients on each rank. */
muster_status mst_worker_reserve_apply(muster_worker *worker, const mst_apply_layout *layout, int64_t length);

/* For tests: each rank calls this before it enters a rendezvous of several ranks, when it begins to
 * write what all have agreed on, and behind it. True: the rank ends there, with *status. NULL:
 * none. */
typedef enum { MST_MOMENT_ENTERS, MST_MOMENT_WRITES, MST_MOMENT_LEAVES } mst_rendezvous_moment;
typedef bool (*mst_rendezvous_hook)(muster_worker *worker, int32_t collective, mst_rendezvous_moment moment, muster_status *status);
extern mst_rendezvous_hook mst_rendezvous_test_hook;

#endif
