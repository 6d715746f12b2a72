/* Communicators: who takes part in a collective, and what serves it. Entered by its members in the
 * same order, inside a task. */
#ifndef MST_COMMUNICATOR_IMPL_H
#define MST_COMMUNICATOR_IMPL_H

#include "muster/communicator.h"
#include "ops_impl.h"

typedef enum {
    MST_ALL_REDUCE = 1,
    MST_ALL_REDUCE_AXPY,
    MST_REDUCE,
    MST_BROADCAST,
    MST_ALL_GATHER,
    MST_GATHER,
    MST_SCATTER,
    MST_REDUCE_SCATTER,
    MST_ALL_TO_ALL,
    MST_BARRIER,
    MST_END_OF_BODY,
    MST_SPLIT,
    MST_GROUP,
    MST_SEND,
    MST_RECV,
    MST_COLLECTIVE_COUNT
} mst_collective;

/* Of ALL_REDUCE_AXPY with momentum: velocity, in the parameter's dtype and count, read and written
 * by its own rank only. */
typedef struct mst_momentum {
    double beta;
    void *velocity;
} mst_momentum;

/* What one rank asks for. Device addresses, contiguous. It travels in the line of the rank's
 * arrival, so its size is that line's. */
typedef struct mst_request {
    uint8_t collective, reduction, dtype;
    uint8_t algorithm; /* an mst_algorithm_kind: filled in by the host round */
    int32_t root;      /* or the peer of a message; -1 where there is none */
    /* elements; 0 where a rank has none. BROADCAST: output_count is that of all ranks */
    int64_t input_count, output_count;
    const void *input;
    void *output;
    union {
        const int64_t *send_counts; /* ALL_TO_ALL: [size]; NULL: equal parts */
        /* ALL_REDUCE: vectors in the input, 1 usually; input_count = shards * output_count */
        int64_t shards;
        double alpha; /* ALL_REDUCE_AXPY: input is the gradient, output the parameter */
        int64_t tag;  /* SEND, RECV */
        int64_t key;  /* SPLIT; the color is the root */
        /* ALL_GATHER, GATHER, SCATTER, REDUCE_SCATTER: 0 where input and output lie apart, else 1 +
         * bytes from the larger to the smaller */
        int64_t place;
    };
    union {
        const int64_t *recv_counts;
        /* ALL_REDUCE_AXPY; NULL: none. root is then a fingerprint of beta, which the ranks
         * compare */
        const mst_momentum *momentum;
    };
} mst_request;
_Static_assert(sizeof(mst_request) == MST_FLAG_PAYLOAD, "a request travels in a line");
static inline const mst_momentum *mst_request_momentum(const mst_request *request) {
    return request->collective == MST_ALL_REDUCE_AXPY ? request->momentum : NULL;
}

/* The kernels of this room. */
extern const mst_code_texts mst_collectives_code;

const char *mst_collective_name(mst_collective collective);

/* Checked requests, served together; more than one, or messages to itself, only from a group. */
typedef struct mst_communicator_table {
    const char *name;
    muster_status (*run)(muster_communicator *, muster_worker *, mst_request *requests, int32_t count);
    muster_status (*split)(muster_communicator *, muster_worker *, int32_t color, int32_t key, muster_communicator **part);
    /* This rank's next requests, with inputs and outputs of at most `bytes` each, allocate nothing.
     * NULL: they never do. */
    muster_status (*reserve)(muster_communicator *, muster_worker *, int64_t bytes);
} mst_communicator_table;

/* What a member has noted between group_begin and group_end; touched by that member only. */
enum { MST_GROUP_REQUESTS = 1024 };
typedef struct mst_group {
    uint64_t epoch; /* of the run in which it was opened; 0: closed */
    int32_t count;
    bool released;         /* the member has given its part of the communicator back */
    mst_request *requests; /* [MST_GROUP_REQUESTS], made on first use */
} mst_group;

struct muster_communicator {
    const mst_communicator_table *table;
    int32_t size;
    int32_t *rank_of;           /* by rank in the pool: rank in here, -1: none */
    mst_group *groups;          /* [size] */
    muster_communicator *alone; /* of all workers: rank 0 by itself, for single calls */
};

static inline int32_t mst_communicator_rank(const muster_communicator *communicator, const muster_worker *worker) {
    return communicator->rank_of[worker->rank];
}

/* algorithm: the name of the one that serves whatever it can ("reference", "inline", "direct";
 * between devices with memory of their own "p2p", "nccl", "staged"); NULL: the environment's
 * MUSTER_COLLECTIVE_ALGORITHM, else the selection. Unknown names, and ways that these devices do
 * not have, are refused.
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
/* Between mst_pool_enter and every run, before its deadlines are set: makes anew what the loss of
 * an earlier run has broken. Cheap where nothing is. What cannot be made is logged, and collectives
 * go another way. */
void mst_communicator_ready(muster_communicator *communicator);
/* "p2p between peers; NCCL 2.28.9 from 262145 bytes": how collectives go, for the runtime's
 * description. Returns text. */
const char *mst_communicator_ways(const muster_communicator *communicator, char *text, size_t size);
/* The communicator of the run: of one rank inside run_single. */
muster_communicator *mst_worker_communicator(const muster_worker *worker);

/* For rooms to the right, which have checked their arguments: one request over all workers of the
 * run. */
static inline muster_status mst_worker_collective(muster_worker *worker, mst_request request) {
    muster_communicator *communicator = mst_worker_communicator(worker);
    return communicator->table->run(communicator, worker, &request, 1);
}
/* May the requests of this worker allocate, and so want a reserve beforehand? */
static inline bool mst_worker_reserves(const muster_worker *worker) { return mst_worker_communicator(worker)->table->reserve != NULL; }
static inline muster_status mst_worker_reserve(muster_worker *worker, int64_t bytes) {
    muster_communicator *communicator = mst_worker_communicator(worker);
    return communicator->table->reserve ? communicator->table->reserve(communicator, worker, bytes) : MUSTER_OK;
}

#endif
