/* The inside of a parameter server.
 *
 * Each shard has a queue of operations and at most one attendant, the thread that applies them, in
 * the order in which they came. An operation that finds the shard free and its queue empty is
 * applied at once by its own thread, which costs one compare-and-swap and one addition. Else it is
 * queued, and its thread goes on with the next shard. Whoever attends a shard serves the queue up
 * to its own operation and leaves; whoever waits for an operation in the queue of a shard without
 * an attendant becomes it. So no operation depends on a thread that is away, nobody is overtaken,
 * and a wait that gives up leaves nothing behind that blocks others.
 *
 * Lifetimes. `references` of a server: one of the runtime's list, one of each open client of a host
 * thread, one of each mst_client_hold. Destroying a server ends its shards; the rest goes with the
 * last reference, that of the list at the next create (when no body runs) or with the runtime. */
#ifndef MST_SERVER_IMPL_H
#define MST_SERVER_IMPL_H

#include "muster/server.h"
#include "ops_impl.h"
#include "variable_impl.h"

#include <pthread.h>

enum { MST_SERVER_RULES = 64 };

/* A rule. function NULL: one of the library's, by its number. */
typedef struct mst_rule {
    muster_rule number;
    muster_rule_function function;
    void *user;
    char *name;
    const muster_server *server;
} mst_rule;

/* What a client wants of a value. memory: host, contiguous, elements of the value's dtype. */
typedef struct mst_operation {
    const struct mst_value *value;
    const mst_rule *rule; /* NULL: receive */
    double scale;
    char *memory;
} mst_operation;

/* How shards are reached: in this process (mst_local_shards), or wherever a table of these
 * functions leads. Each is called by one thread at a time of a shard, its attendant. Local ones are
 * the only ones that have `memory`. */
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
    _Atomic bool queued; /* changes under the shard's lock */
} mst_node;

enum { MST_SHARD_ATTENDED = 1, MST_SHARD_QUEUED = 2 };
struct mst_shard {
    _Alignas(MST_CACHE_LINE) _Atomic uint32_t state; /* QUEUED changes under the lock */
    _Atomic uint32_t served;                         /* operations; written by the attendant */
    _Alignas(MST_CACHE_LINE) const mst_shard_table *table;
    muster_dtype dtype;    /* of the tensors that come */
    char *memory;          /* elements of the compute dtype */
    int64_t first, count;  /* elements */
    int64_t offset, bytes; /* of its part of a tensor */
    bool half;             /* f16 or bf16, which are held in f32 */
    _Alignas(MST_CACHE_LINE) pthread_mutex_t lock;
    mst_node *first_node, *last_node;
    char *block;    /* what memory lies in */
    float *widened; /* of f16 and bf16, for rules of the user's: a tensor's part in f32 */
    bool locked;    /* the lock exists */
};

typedef struct mst_value {
    muster_dtype dtype;
    int64_t elements, bytes; /* of a tensor */
    uintptr_t misaligned;    /* bits that an address of an element does not have */
    mst_shard *shards;
} mst_value;

typedef struct mst_counts {
    _Atomic int64_t sends, receives, bytes;
} mst_counts;

struct muster_request {
    muster_client *client;
    muster_request *next_free, *next_made;
    mst_operation operation;
    _Atomic uint64_t done;  /* shards that have been served, and one more when a device's tensor has been told */
    uint64_t target;        /* of done: finished */
    _Atomic int32_t status; /* the first failure of a shard */
    _Atomic bool failing;   /* somebody has set or sets status and message */
    char *copy;             /* for MUSTER_SEND_COPY; kept for the next one */
    int64_t copy_bytes;
    bool live;  /* taken, and not given back */
    bool begun; /* counted in the server's `begun` */
    /* stage.c */
    muster_request *next_waiting;
    bool waiting;          /* not begun at any shard: it is behind a copy from the device */
    struct mst_slot *slot; /* through which a tensor of the device goes; NULL: host memory */
    void *device_address;
    char message[MST_MESSAGE_SIZE];
    mst_node nodes[]; /* one for each shard */
};

/* One thread at a time is inside a client; the server's end waits until nobody is. */
struct muster_client {
    _Alignas(MST_CACHE_LINE) _Atomic uint32_t inside;
    int32_t first_shard; /* where its operations begin (backwards: end), so that clients do not meet at each shard */
    bool backwards;      /* the next one */
    muster_server *server;
    muster_worker *worker; /* NULL: of a host thread */
    uint64_t epoch;        /* of the run in which the worker used it last */
    muster_client *next_of_worker;
    muster_request *free, *made; /* touched by the client's thread only */
    uint64_t sequence;
    mst_counts counts;              /* what it has finished within its calls; written by its thread only */
    muster_client *previous, *next; /* of host threads, under the server's lock */
    struct mst_staging *staging;    /* of a worker whose device has memory of its own */
};

/* OPEN; REFUSING: no new operation begins, and waits go on; ENDING: the queues are empty, and waits
 * no longer touch the shards; ENDED: the shards' memory is gone. */
typedef enum { MST_SERVER_OPEN, MST_SERVER_REFUSING, MST_SERVER_ENDING, MST_SERVER_ENDED } mst_server_life;
struct muster_server {
    muster_runtime *runtime;
    char *name;
    int32_t count, shards, runtime_size;
    uint32_t forks; /* of the process, when it was made */
    mst_value *values;
    muster_client *workers; /* [runtime_size] */
    _Atomic int64_t references;
    _Atomic uint32_t life;        /* an mst_server_life */
    int32_t cpus;                 /* that the process may use */
    _Atomic int32_t client_count; /* of host threads that are open, and of workers */
    _Alignas(
        /* rung when a request is finished by another thread, and when an attendant leaves a queue
         * behind */
        MST_CACHE_LINE) mst_bell bell;
    _Atomic int64_t begun; /* requests that their call left unfinished, and that are not finished yet */
    mst_counts others;     /* of those that are */
    _Alignas(MST_CACHE_LINE) pthread_mutex_t lock;
    pthread_mutex_t ending; /* one destroy at a time */
    bool locked;            /* the locks exist */
    muster_client *clients; /* open ones of host threads */
    mst_counts closed;      /* of clients that are closed */
    mst_rule rules[MST_SERVER_RULES];
    _Atomic int32_t rule_count;
    int32_t progress_count; /* threads that apply operations; fixed at creation */
    pthread_t *progress;
    _Atomic uint64_t stop_progress;
    muster_server *next; /* in the list */
};

/* The servers of a runtime: the one object of this room that the runtime knows. */
typedef struct mst_server_list {
    mst_object object; /* first */
    pthread_mutex_t lock;
    muster_server *servers; /* also ended ones, until they are swept */
} mst_server_list;

/* shard.c */
muster_status mst_shard_open_local(mst_shard *shard, muster_dtype dtype, int64_t first, int64_t count);
void mst_shard_free(mst_shard *shard); /* what is left after table->close */
static inline bool mst_shard_try(mst_shard *shard) {
    uint32_t free = 0;
    return atomic_compare_exchange_strong_explicit(&shard->state, &free, MST_SHARD_ATTENDED, memory_order_seq_cst, memory_order_relaxed);
}
void mst_shard_left_queue(muster_server *server); /* someone may have to become its attendant */
static inline void mst_shard_leave(muster_server *server, mst_shard *shard) {
    if (__builtin_expect(atomic_fetch_sub(&shard->state, MST_SHARD_ATTENDED) & MST_SHARD_QUEUED, 0)) mst_shard_left_queue(server);
}
/* The operation on one shard, by its attendant. */
muster_status mst_shard_serve(mst_shard *shard, const mst_operation *operation);
void mst_shard_queue(mst_shard *shard, mst_node *node);
/* Takes the node out of the queue. false: it is not in it (any more). */
bool mst_shard_withdraw(mst_shard *shard, mst_node *node);
/* Serves the queue as its attendant until `node` is not in it (NULL: until it is empty). false:
 * another is the attendant, or there is no queue. */
bool mst_shard_attend(muster_server *server, mst_shard *shard, const mst_node *node);
static inline bool mst_shard_unattended(const mst_shard *shard) { return atomic_load(&((mst_shard *)shard)->state) == MST_SHARD_QUEUED; }

/* rule.c. apply: tensor in `dtype`, value in its compute dtype. */
muster_status mst_rule_apply(const mst_rule *rule, mst_shard *shard, const void *tensor, double scale);
/* A rule by its number for a value of this dtype; NULL: refused. */
const mst_rule *mst_rule_find(const muster_server *server, muster_rule number);

/* client.c. enter: the one thread that is inside (where: for messages); refuses when another is,
 * when the server is being destroyed, and a worker's client outside its body. */
muster_status mst_client_enter(muster_client *client, const char *where);
static inline void mst_client_leave(muster_client *client) { atomic_store_explicit(&client->inside, 0, memory_order_release); }
/* The same for waits, which go on while the server is being destroyed. */
muster_status mst_client_enter_wait(muster_client *client, const char *where);
/* The server whose rule of the user's this thread runs. */
/* server.c: has the process been forked since the server was made? forks: for a new server. */
uint32_t mst_server_forks(void);
bool mst_server_is_of_parent(const muster_server *server);
muster_status mst_server_refuse_child(const char *where);
extern _Thread_local const muster_server *mst_server_ruling __attribute__((tls_model("initial-exec")));
void mst_client_free(muster_client *client); /* its requests and copies; not itself */
void mst_client_hold(muster_client *client);
void mst_client_release(muster_client *client);

/* request.c */
muster_request *mst_request_take(muster_client *client);
void mst_request_give(muster_request *request);
void mst_request_fail(muster_request *request, muster_status status);
void mst_request_count_begun(muster_request *request);
/* So many more shards have been served, by whatever thread; the last one may end the request's
 * life. */
void mst_request_add_done(muster_request *request, uint64_t parts);
static inline bool mst_request_finished(const muster_request *request) {
    return atomic_load(&((muster_request *)request)->done) >= request->target;
}
/* Applies it to every shard that is free, and queues it at the others; lazily: at all. from: the
 * tensor itself, where operation.memory is a copy that is made of it only where it is queued. */
void mst_request_begin(muster_request *request, const char *from, bool lazily);
/* wait.c. help: becomes the attendant where it stands still. */
void mst_request_help(muster_request *request);
/* Until it is finished, helping; its outcome. A wait that fails takes back what has not been
 * applied, which finishes it, too; but TIMEOUT only if `withdraw`: else false, it goes on. */
bool mst_request_finish(muster_request *request, const char *where, bool withdraw, muster_status *status);

/* stage.c: tensors in the memory of a worker's device go through page-locked slots, one for sends
 * and one for receives of each value. Called by the worker's thread. */
muster_status mst_staging_open(muster_client *client); /* between mst_pool_enter and leave, as the next */
void mst_staging_close_all(muster_server *server);
bool mst_server_stages(const muster_server *server); /* it has some */
/* operation.memory of a request for a tensor of the device becomes its slot, and a send's copy is
 * issued. */
muster_status mst_stage_attach(muster_request *request, const char *where, void *device_address);
void mst_stage_detach(muster_request *request);
/* mst_request_begin, at once or behind what waits for its copy. */
void mst_stage_begin(muster_request *request, const char *from, bool lazily);
/* Begins whatever need not wait any longer, and issues the copy of this request (NULL: none) if
 * that is due. Never waits. */
void mst_stage_advance(muster_client *client, muster_request *request);
static inline bool mst_stage_due(const muster_request *request) {
    return request->slot && atomic_load(&((muster_request *)request)->done) + 1 == request->target && !request->operation.rule;
}
/* One request that has not begun is given up. */
void mst_stage_take_back(muster_request *request);

/* progress.c */
muster_status mst_progress_start(muster_server *server, int32_t threads);
void mst_progress_stop(muster_server *server);

/* server.c. drop: a reference. free: what is left of a server when its shards are closed, or it has
 * not become one. */
void mst_server_drop(muster_server *server);
void mst_server_free(muster_server *server);
void mst_server_close_shards(muster_server *server);
/* The list of a runtime's servers, made with the first; sweep: those that have ended go: both
 * between mst_pool_enter and leave. enlist: refuses a doubled name. */
muster_status mst_server_list_of(muster_runtime *runtime, const char *where, mst_server_list **list);
void mst_server_sweep(mst_server_list *list);
muster_status mst_server_enlist(mst_server_list *list, muster_server *server, const char *where);
/* More clients than CPUs: spinning takes them from whoever is waited for. */
static inline bool mst_server_crowded(const muster_server *server) {
    return atomic_load_explicit(&((muster_server *)server)->client_count, memory_order_relaxed) > server->cpus;
}

/* initial.c: fills the shards, which are there. Of variables: between mst_pool_enter and leave. */
muster_status mst_initial_tensors(muster_server *server, const muster_tensor *values);
muster_status mst_initial_variables(muster_server *server, muster_variable *const *variables, bool own);
muster_status mst_initial_function(muster_server *server, const muster_server_options *options);
/* count values of f16 or bf16 at the end of room for as many f32: converted in place. */
void mst_widen_in_place(muster_dtype dtype, void *room, int64_t count);

#endif
