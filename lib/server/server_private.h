/* A server, and the list of a runtime's servers.
 *
 * A server has references: one of the runtime's list, one of each open client of a host thread, one
 * of each mst_client_hold. Destroying a server ends its shards. The rest goes with the last
 * reference: that of the list, which is dropped at the next create (when no body runs) or with the
 * runtime. */
#ifndef MST_SERVER_PRIVATE_H
#define MST_SERVER_PRIVATE_H

#include "client_private.h"
#include "ops_impl.h"
#include "request_private.h"
#include "server_impl.h"
#include "stage_private.h"
#include "variable_impl.h"

enum { MST_SERVER_RULES = 64 };

/* OPEN; REFUSING: no new operation begins, and waits go on; ENDING: the queues are empty, and waits
 * no longer touch the shards; ENDED: the shards' memory is gone. */
typedef enum { MST_SERVER_OPEN, MST_SERVER_REFUSING, MST_SERVER_ENDING, MST_SERVER_ENDED } mst_server_life;
struct muster_server {
    muster_runtime *runtime;
    char *name;
    int32_t count, shards, runtime_size;
    uint32_t forks; /* of the process, when the server was made */
    mst_value *values;
    muster_client *workers; /* [runtime_size] */
    _Atomic int64_t references;
    _Atomic uint32_t life;        /* an mst_server_life */
    int32_t cpus;                 /* that the process may use */
    _Atomic int32_t client_count; /* of workers, and of host threads that are open */
    /* Notified when another thread finishes a request, and when a combiner leaves a queue
     * behind. */
    _Alignas(MST_CACHE_LINE) mst_eventcount eventcount;
    _Atomic uint64_t started; /* 1: the drivers may use its values (start.c) */
    _Atomic int64_t begun;    /* requests that their call left unfinished, and that are not finished yet */
    mst_counts others;        /* completed operations whose call had left them unfinished */
    _Alignas(MST_CACHE_LINE) pthread_mutex_t lock;
    pthread_mutex_t ending; /* one destroy at a time */
    bool locked;            /* the locks exist */
    _Atomic bool abandoned; /* its creation inside bodies has failed: the next sweep ends it */
    muster_client *clients; /* open clients of host threads */
    mst_counts closed;      /* of clients that are closed */
    mst_rule rules[MST_SERVER_RULES];
    _Atomic int32_t rule_count;
    mst_owned *owned;       /* the rules' `user` pointers that the library ends; guarded by `lock` */
    int32_t progress_count; /* threads that apply operations; fixed at creation */
    pthread_t *progress;
    _Atomic uint64_t stop_progress;
    muster_server *next; /* in the list */
};

/* The servers of a runtime: the one object of this module that the runtime knows. */
typedef struct mst_server_list {
    mst_object object; /* first */
    pthread_mutex_t lock;
    muster_server *servers; /* includes servers that have ended, until the next sweep */
} mst_server_list;

/* server.c. drop: one reference. free: what is left of a server when its shards are closed, or of
 * one whose creation has failed. */
void mst_server_drop(muster_server *server);
void mst_server_free(muster_server *server);
void mst_server_close_shards(muster_server *server);
/* The list of a runtime's servers, made with the first server. Between mst_pool_enter and leave,
 * as sweep, which drops the servers that have ended. */
muster_status mst_server_list_get(muster_runtime *runtime, const char *where, mst_server_list **list);
void mst_server_sweep(mst_server_list *list);
/* The `user` pointers of a server that has ended; nothing calls its rules any more. */
mst_owned *mst_server_take_owned(muster_server *server);
/* For a listed server whose creation inside bodies has failed: it refuses everything, and the next
 * sweep, or the runtime's close, ends it. */
void mst_server_abandon(muster_server *server);
/* Refuses a name that another server of the list has. */
muster_status mst_server_enlist(mst_server_list *list, muster_server *server, const char *where);
/* Forks of this process so far, for a new server; whether one followed since the server was
 * made. */
uint32_t mst_server_forks(void);
bool mst_server_is_from_before_fork(const muster_server *server);
/* Errors: in a child of fork; on a server that has been destroyed; inside a rule. */
muster_status mst_server_refuse_child(const char *where);
muster_status mst_server_refuse_destroyed(const muster_server *server, const char *where);
muster_status mst_server_refuse_in_rule(const char *where);
/* More clients than CPUs: a client that spins takes the CPU from the one that it waits for. */
static inline bool mst_server_oversubscribed(const muster_server *server) {
    return atomic_load_explicit(&((muster_server *)server)->client_count, memory_order_relaxed) > server->cpus;
}

/* operation.c: an operation on every value, from or to tensors or, of a worker's client, its
 * replicas of variables. */
typedef struct mst_operation_list {
    const char *where, *what; /* what: the argument that holds them */
    bool sends;
    muster_rule rule;
    double scale;
    int32_t flags;
    const muster_tensor *tensors; /* NULL: variables */
    muster_variable *const *variables;
    int32_t count;
    muster_request **requests; /* NULL: each is waited for */
} mst_operation_list;
muster_status mst_operations_run(const mst_operation_list *list, muster_client *client);
muster_status mst_operations_check_count(const mst_operation_list *list, const muster_server *server);

/* progress.c */
muster_status mst_progress_start(muster_server *server, const char *where, int32_t threads);
void mst_progress_stop(muster_server *server);

/* initial.c: fills the shards, which exist. Of variables: between mst_pool_enter and leave.
 * per_rank: shard r from the replica of rank r; else all from that of rank 0. */
muster_status mst_initial_tensors(muster_server *server, const muster_tensor *values);
muster_status mst_initial_variables(muster_server *server, muster_variable *const *variables, bool per_rank);
/* In a body: the shard of this worker's rank or, on rank 0 unless per_rank, all shards. */
muster_status mst_initial_of_worker(muster_server *server, muster_worker *worker, const muster_tensor *values, bool per_rank);
muster_status mst_initial_function(muster_server *server, const char *where, const muster_server_options *options);
/* count values of f16 or bf16, which lie at the end of memory for as many f32: converted in
 * place. */
void mst_widen_in_place(muster_dtype dtype, void *memory, int64_t count);

#endif
