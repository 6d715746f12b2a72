/* A shard: a part of a value in host memory, the queue of operations that wait for it, and the
 * rules by which they change it.
 *
 * At most one thread at a time applies operations to a shard: its combiner. An operation that finds
 * the shard free and its queue empty is applied at once by its own thread, which costs one
 * compare-and-swap and one addition. Otherwise it is queued, and its thread goes on with the next
 * shard. A combiner serves the queue up to its own operation and leaves. A thread that waits for an
 * operation in the queue of a shard without a combiner becomes the combiner. So no operation
 * depends on a thread that is asleep or in the program's code, operations are served in the order
 * of the queue, and a wait that gives up blocks no other operation. */
#ifndef MST_SHARD_PRIVATE_H
#define MST_SHARD_PRIVATE_H

#include "muster/server.h"
#include "worker_impl.h"

#include <pthread.h>

/* A rule: one of the library's, by its number, or a function of the program. */
typedef struct mst_rule {
    muster_rule number;
    muster_rule_function function; /* NULL: one of the library's */
    void *user;
    char *name;
    const muster_server *server;
} mst_rule;

/* A send or receive, as a shard sees it. */
typedef struct mst_operation {
    const struct mst_value *value;
    const mst_rule *rule; /* NULL: receive */
    double scale;
    char *memory; /* host, contiguous, elements of the value's dtype */
} mst_operation;

/* How a shard is reached. Each function is called by one thread at a time, the shard's combiner.
 * Only shards of this process (mst_local_shards) have `memory`. */
typedef struct mst_shard mst_shard;
typedef struct mst_shard_table {
    muster_status (*apply)(mst_shard *shard, const mst_operation *operation); /* all or nothing */
    muster_status (*fetch)(mst_shard *shard, const mst_operation *operation);
    void (*close)(mst_shard *shard);
} mst_shard_table;
extern const mst_shard_table mst_local_shards;

/* An operation in the queue of one shard. */
typedef struct mst_node {
    struct mst_node *previous, *next;
    struct muster_request *request;
    char *memory;             /* of the request's tensor; changes under the shard's lock, while it is queued */
    _Atomic bool queued;      /* changes under the shard's lock */
    _Atomic uint64_t serving; /* 1: a combiner may use `memory` */
} mst_node;

enum { MST_SHARD_COMBINING = 1, MST_SHARD_QUEUED = 2 };
struct mst_shard {
    _Alignas(MST_CACHE_LINE) _Atomic uint32_t state; /* QUEUED changes under the lock */
    _Atomic uint32_t served;                         /* operations so far; written by the combiner */
    _Alignas(MST_CACHE_LINE) const mst_shard_table *table;
    muster_dtype dtype;    /* of the tensors that are sent and received */
    char *memory;          /* elements of the compute dtype */
    int64_t first, count;  /* elements of the value */
    int64_t offset, bytes; /* of the shard's part of a tensor */
    bool half;             /* f16 or bf16, which are held in f32 */
    _Alignas(MST_CACHE_LINE) pthread_mutex_t lock;
    mst_node *first_node, *last_node;
    char *block;    /* the allocation that contains `memory` */
    float *widened; /* f16 and bf16 with rules of the program: the shard's part of a tensor in f32 */
    bool locked;    /* the lock exists */
};

typedef struct mst_value {
    muster_dtype dtype;
    int64_t elements, bytes; /* of a tensor */
    uintptr_t misaligned;    /* bits that are zero in the address of an element */
    mst_shard *shards;
} mst_value;

/* shard.c */
/* where: the public function that creates the server. */
muster_status mst_shard_open_local(mst_shard *shard, const char *where, muster_dtype dtype, int64_t first, int64_t count);
void mst_shard_free(mst_shard *shard); /* what table->close leaves */
/* Becomes the combiner of a free shard whose queue is empty. */
static inline bool mst_shard_try(mst_shard *shard) {
    uint32_t free = 0;
    return atomic_compare_exchange_strong_explicit(&shard->state, &free, MST_SHARD_COMBINING, memory_order_seq_cst, memory_order_relaxed);
}
/* The combiner leaves; if the queue is not empty, it wakes the waiters: one has to take over. */
void mst_shard_left_queue(muster_server *server);
static inline void mst_shard_leave(muster_server *server, mst_shard *shard) {
    if (__builtin_expect(atomic_fetch_sub(&shard->state, MST_SHARD_COMBINING) & MST_SHARD_QUEUED, 0)) mst_shard_left_queue(server);
}
/* The operation on one shard, by its combiner. */
muster_status mst_shard_serve(mst_shard *shard, const mst_operation *operation);
void mst_shard_queue(mst_shard *shard, mst_node *node);
/* Takes the node out of the queue. false: it is no longer in it. */
bool mst_shard_cancel(mst_shard *shard, mst_node *node);
/* A node that is in the queue is served from this memory. */
void mst_shard_move(mst_shard *shard, mst_node *node, char *memory);
/* Serves the queue as its combiner until `node` is not in it (NULL: until it is empty). false:
 * there is another combiner, or no queue. */
bool mst_shard_combine(muster_server *server, mst_shard *shard, const mst_node *node);
static inline bool mst_shard_needs_combiner(const mst_shard *shard) {
    return atomic_load(&((mst_shard *)shard)->state) == MST_SHARD_QUEUED;
}

/* rule.c. apply: tensor in the shard's dtype; the value in its compute dtype. find: NULL where the
 * server has no such rule. in_rule: the server whose rule this thread runs; NULL: none. */
muster_status mst_rule_apply(const mst_rule *rule, mst_shard *shard, const void *tensor, double scale);
const mst_rule *mst_rule_find(const muster_server *server, muster_rule number);
extern _Thread_local const muster_server *mst_server_in_rule __attribute__((tls_model("initial-exec")));

#endif
