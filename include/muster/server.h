/* muster/server.h: a parameter server: values that many clients change and read without waiting for
 * each other. Each value is cut into shards, which are kept in host memory; clients send tensors,
 * which a rule works into the value, and receive what it holds.
 *
 * The contract.
 * - A send is done when it has been applied on ALL shards; a receive when all of them have been
 * copied. wait, test and wait_all tell.
 *   Whoever begins a receive after that sees the send.
 * - Each shard is read and changed as a whole: a receive sees of every send all or nothing within
 * one shard. Across shards nothing is
 *   promised while sends run.
 * - The operations of one client are applied in the order in which it began them, on every shard,
 * waited for or not. Between clients
 *   there is no order but by waiting.
 * - A receive cannot be starved: on every shard, operations are served in the order in which they
 * came to it. One that finds a shard
 *   busy may look at it for some microseconds before it takes its place; nobody is overtaken once
 *   it has one.
 * - The memory of a send must not change, and that of a receive not be touched, until the operation
 * is done; a send with
 *   MUSTER_SEND_COPY has taken a copy when it returns.
 * - An operation that is refused has touched nothing, and harms nobody else's.
 * - destroy lets what has begun end, and then refuses what comes.
 *
 * Who applies. Without a thread of the server's, an operation is applied by the call that begins
 * it, on every shard that is free; what is left waits in the queues of its shards and is applied by
 * whoever comes there next, at the latest by its own client's wait. With such threads
 * (options.progress), operations that are begun with a handle are left to them. */
#ifndef MUSTER_SERVER_H
#define MUSTER_SERVER_H

#include "muster/variable.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_server muster_server;
typedef struct muster_client muster_client;
/* A send or receive that has begun. */
typedef struct muster_request muster_request;

/* What a send does to the value, element by element. Frozen numbers; user rules are numbered from
 * MUSTER_RULE_USER. */
typedef int32_t muster_rule;
enum {
    MUSTER_RULE_ZERO = 1,       /* value = 0; the tensor is not looked at and may be "no tensor" */
    MUSTER_RULE_COPY = 2,       /* value = tensor */
    MUSTER_RULE_ADD = 3,        /* value = value + tensor */
    MUSTER_RULE_ADD_SCALED = 4, /* value = value + scale * tensor; float values */
    MUSTER_RULE_USER = 64,
};

/* value[count], of one shard, changes by tensor[count]. dtype: of both (f32 where the value is f16
 * or bf16). first: the shard's first element in the value. Runs in a thread of the server's or of
 * any client, several shards at the same time, one at a time of each; must not call a server
 * (BAD_STATE). A status other than OK becomes the request's; the rule must then have left the shard
 * as it was. It is not called for shards without elements. */
typedef muster_status (*muster_rule_function)(void *user, muster_dtype dtype, void *value, const void *tensor, int64_t first, int64_t count,
                                              double scale);
/* Fills value[count], elements [first, first + count) of value `index`, at creation, in the thread
 * that creates. dtype: f32 where the value is f16 or bf16. A status other than OK becomes the
 * creation's. */
typedef muster_status (*muster_initial_function)(void *user, int32_t index, muster_dtype dtype, void *value, int64_t first, int64_t count);

/* Where a variable's initial value comes from. */
enum {
    MUSTER_INITIAL_MASTER = 0, /* the replica of rank 0 */
    /* shard r from the replica of rank r (one shard per device; replicas of as many elements) */
    MUSTER_INITIAL_OWN = 1,
};

/* An option struct: the rules are in muster/status.h. */
typedef struct muster_server_options {
    size_t struct_size; /* set by muster_server_options_init */
    int32_t shards;     /* of each value, at most 4096; 0: one per device. Shard k of n elements in s shards has n / s, one more if
                       * k < n mod s; so that some may be empty */
    int32_t initial;    /* of variables */
    int32_t progress;   /* threads that apply operations, at most 64; 0: one where a CPU is left beside the workers, else none;
                       * negative: none */
    int32_t reserved;
    /* not NULL: initial values come from it, for tensors and variables; their own values are not
     * looked at */
    muster_initial_function fill;
    void *fill_user;
} muster_server_options;
MUSTER_API void muster_server_options_init_sized(muster_server_options *options, size_t size);
static inline void muster_server_options_init(muster_server_options *options) {
    muster_server_options_init_sized(options, sizeof *options);
}

/* A server of `count` values (1 or more), with the dtypes and element counts of these tensors
 * (host, contiguous) or variables: f32, f64, i64, and f16 and bf16, which are held in f32 and
 * rounded when received. The values are copied. Lives until destroyed, or the runtime closes, and
 * its name is unique among the runtime's servers. create waits its turn behind running calls.
 * destroy does not: it may be called while a function runs whose workers use the server. It refuses
 * what comes (BAD_STATE), and waits for what has begun; when that makes no progress for the
 * runtime's fail_after_ns, it returns TIMEOUT, and may be called again. Clients and requests of a
 * server that was destroyed may still be waited for and closed (workers' until the runtime creates
 * its next server), and answer BAD_STATE to operations; the server's pointer is good for nothing
 * but for that answer in bodies that run.
 * Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, OVERFLOW, UNSUPPORTED (options of a newer header),
 * SYSTEM (no thread), BAD_STATE (inside a body or a rule, after fork; destroyed before), what a
 * device or `fill` says. Threads: any. */
MUSTER_API muster_status muster_server_create(muster_runtime *runtime, const char *name, const muster_tensor *values, int32_t count,
                                              const muster_server_options *options, muster_server **server);
MUSTER_API muster_status muster_server_create_from(muster_runtime *runtime, const char *name, muster_variable *const *variables,
                                                   int32_t count, const muster_server_options *options, muster_server **server);
MUSTER_API muster_status muster_server_destroy(muster_server *server);

/* How many values; of one of them the elements (-1: no such value); how many shards; first element
 * and elements of a shard of a value (OUT_OF_RANGE: no such). Threads: any. */
MUSTER_API int32_t muster_server_count(const muster_server *server);
MUSTER_API int64_t muster_server_elements(const muster_server *server, int32_t index);
MUSTER_API int32_t muster_server_shards(const muster_server *server);
MUSTER_API muster_status muster_server_shard(const muster_server *server, int32_t index, int32_t shard, int64_t *first, int64_t *elements);

/* A rule of the user's, by its number for sends. At most 64 per server (OUT_OF_RANGE), each with a
 * name of its own. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, BAD_STATE (destroyed). Threads: any. */
MUSTER_API muster_status muster_server_add_rule(muster_server *server, const char *name, muster_rule_function function, void *user,
                                                muster_rule *rule);

/* A client: whose operations keep their order. One thread at a time uses it (BAD_STATE where two
 * meet). worker's: the one of this worker, the same at each call, used inside bodies only; it needs
 * no close, and what a body has begun and not waited for ends before its worker goes on, so its
 * memory has to outlive the body. open and close: for host threads; close waits for what the client
 * has begun, and takes requests with it that were not waited for; on TIMEOUT the client stays.
 * Errors: INVALID_ARGUMENT, BAD_STATE (the server is being destroyed), OUT_OF_MEMORY. */
MUSTER_API muster_status muster_client_open(muster_server *server, muster_client **client);
MUSTER_API muster_status muster_client_close(muster_client *client);
MUSTER_API muster_status muster_worker_client(muster_worker *worker, muster_server *server, muster_client **client);

/* send works `tensor` into value `index` by the rule; receive copies the value into `tensor`.
 * tensor: contiguous, the value's dtype and element count, any shape; in host memory, or, for a
 * worker's client, on the worker's device. Both return without waiting for another client, with a
 * handle that wait or a successful test gives back: NULL where the operation was
 * done at once. request NULL: they return when the operation is done; a TIMEOUT then gives up what
 * has not been applied, and some shards may have been. On a GPU the worker's stream is not stopped:
 * a send takes the tensor as the operations before it leave it, and what the worker issues after a
 * receive is done sees what was received. A value has memory for one send and one receive of each
 * worker in flight; the next one
 * waits. flags: MUSTER_SEND_COPY. scale: for ADD_SCALED and user rules.
 * Errors: INVALID_ARGUMENT (unknown rule, wrong element count or dtype, with both), OUT_OF_RANGE
 * (index), BAD_STATE (server destroyed, another thread in this client, a worker's client outside
 * its body, inside a rule of this server), OUT_OF_MEMORY; of the operation itself, from wait, or
 * where there is no handle from here: what a user's rule returned, TIMEOUT, ABORTED (the worker's
 * call is lost), what a device says. */
enum { MUSTER_SEND_COPY = 1 };
MUSTER_API muster_status muster_client_send(muster_client *client, int32_t index, muster_rule rule, double scale, muster_tensor tensor,
                                            int32_t flags, muster_request **request);
MUSTER_API muster_status muster_client_receive(muster_client *client, int32_t index, muster_tensor tensor, muster_request **request);

/* wait: until it is done; sets *request to NULL whatever the outcome; but not on TIMEOUT: when its
 * shards have made no progress for fail_after_ns of the runtime, or of the call where a worker
 * waits. The request then stays, and its memory must. A request that is NULL is done. After
 * warn_after_ns a line says what is waited for.
 * test: *done 1 and *request NULL if it is done, with its outcome, else 0; never waits, but may
 * apply operations where no thread of the server's does.
 * wait_all: all of them, also after a failure; the first failure is returned. Threads: that of the
 * client. */
MUSTER_API muster_status muster_request_wait(muster_request **request);
MUSTER_API muster_status muster_request_test(muster_request **request, int32_t *done);
MUSTER_API muster_status muster_requests_wait_all(muster_request **requests, int32_t count);

/* What the server has done since it was made. A result struct: the rules are in muster/status.h.
 * Errors: INVALID_ARGUMENT (NULL, struct_size). Threads: any. */
typedef struct muster_server_statistics {
    size_t struct_size;             /* set by muster_server_statistics_init */
    int64_t sends, receives, bytes; /* done without failure, of all clients; bytes of their tensors */
} muster_server_statistics;
static inline void muster_server_statistics_init(muster_server_statistics *statistics) {
    if (statistics) statistics->struct_size = sizeof *statistics;
}
MUSTER_API muster_status muster_server_get_statistics(const muster_server *server, muster_server_statistics *statistics);

#ifdef __cplusplus
}
#endif
#endif
