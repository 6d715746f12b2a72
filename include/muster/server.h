/* muster/server.h: a parameter server: values that many clients change and read without waiting for
 * each other. Each value is cut into shards, which are kept in host memory. A client sends tensors,
 * which a rule combines with the value, and receives copies of the value.
 *
 * The contract.
 * - A send is done when it has been applied on ALL shards; a receive is done when all shards have
 *   been copied. wait, test and wait_all report this. A receive that begins after a send is done
 *   sees that send.
 * - Each shard is read and changed atomically: within one shard, a receive sees all or nothing of
 *   each send. Across shards nothing is guaranteed while sends run.
 * - The operations of one client are applied on every shard in the order in which the client began
 *   them, whether it waited for them or not. Between clients there is no order except through
 *   waiting.
 * - A receive cannot starve: each shard serves operations in the order of their arrival. An
 *   operation that finds a shard busy may poll it for some microseconds before it joins the queue;
 *   nothing overtakes an operation that is in the queue.
 * - The memory of a send must not change, and that of a receive must not be accessed, until the
 *   operation is done. A send with MUSTER_SEND_COPY has taken its copy when it returns.
 * - An operation that is refused has touched nothing, and does not affect other clients.
 * - destroy lets operations that have begun end, and refuses new ones.
 *
 * Which thread applies an operation. Without server threads, the call that begins an operation
 * applies it on every shard that is free. The rest waits in the queues of the shards; the next call
 * that visits a shard applies it, at the latest the client's own wait. With server threads
 * (options.progress), these apply all operations that are begun with a handle.
 *
 * Errors. Every function that returns a status returns INVALID_ARGUMENT for NULL where an object is
 * needed. After fork, create, destroy, add_rule and the functions of clients and requests return
 * BAD_STATE. Inside a rule, these do so as well, but for add_rule and muster_client_open. What a
 * function adds to these is said there. */
#ifndef MUSTER_SERVER_H
#define MUSTER_SERVER_H

#include "muster/runtime.h"
#include "muster/tensor.h"
#include "muster/variable.h"
#include "muster/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_server muster_server;
typedef struct muster_client muster_client;
/* A send or receive that has begun. */
typedef struct muster_request muster_request;

/* The rule by which a send changes the value, element by element. Frozen numbers; user rules are
 * numbered from MUSTER_RULE_USER. */
typedef int32_t muster_rule;
enum muster_rule_value {
    MUSTER_RULE_ZERO = 1,       /* value = 0; the tensor is ignored and may be "no tensor" */
    MUSTER_RULE_COPY = 2,       /* value = tensor */
    MUSTER_RULE_ADD = 3,        /* value = value + tensor */
    MUSTER_RULE_ADD_SCALED = 4, /* value = value + scale * tensor; float values */
    MUSTER_RULE_USER = 64,
};

/* A user rule: changes value[count], the elements of one shard, by tensor[count]. dtype is the
 * dtype of both (f32 if the value is f16 or bf16); first is the index of the shard's first element
 * in the value. The rule runs in a thread of the server or of any client: for several shards at the
 * same time, but once at a time for each shard. It is not called for shards without elements. It
 * must not call a server, nor close a runtime (BAD_STATE). A status other than OK becomes the
 * status of the request; the rule must then have left the shard unchanged. */
typedef muster_status (*muster_rule_function)(void *user, muster_dtype dtype, void *value, const void *tensor, int64_t first, int64_t count,
                                              double scale);
/* Fills value[count] with the initial elements [first, first + count) of value `index`, in the
 * thread that creates the server. dtype is f32 if the value is f16 or bf16. A status other than OK
 * becomes the status of the creation. It must not close the runtime (BAD_STATE). */
typedef muster_status (*muster_initial_function)(void *user, int32_t index, muster_dtype dtype, void *value, int64_t first, int64_t count);

/* The source of the initial value of a variable, or of muster_worker_create_server. */
enum muster_initial_source {
    MUSTER_INITIAL_MASTER = 0, /* the replica, or tensor, of rank 0 */
    /* shard r comes from the replica, or tensor, of rank r; requires one shard per device, and
     * replicas with equal numbers of elements */
    MUSTER_INITIAL_OWN = 1,
};

/* An option struct: the rules are in muster/status.h. */
typedef struct muster_server_options {
    size_t struct_size; /* set by muster_server_options_init */
    /* The number of shards of each value, at most 4096; 0: one per device. Shard k of n elements in
     * s shards has n / s elements, and one more if k < n mod s. Shards may be empty. */
    int32_t shards;
    int32_t initial; /* the source of the initial values: of variables, and in bodies */
    /* The number of server threads that apply operations, at most 64. 0: one if the workers leave a
     * CPU free, else none; negative: none. */
    int32_t progress;
    int32_t reserved;
    /* If not NULL, it provides the initial values of tensors and variables, whose own values are
     * ignored. */
    muster_initial_function fill;
    void *fill_user;
    /* Ends fill_user when the creation has ended, in either outcome (muster/status.h). Inside a
     * body each worker's is called, although only rank 0's `fill` is. */
    muster_destroy_function fill_destroy;
} muster_server_options;
MUSTER_API void muster_server_options_init_sized(muster_server_options *options, size_t size);
static inline void muster_server_options_init(muster_server_options *options) {
    muster_server_options_init_sized(options, sizeof *options);
}

/* Creates a server of `count` values (1 or more), with copies of these host, contiguous tensors as
 * the initial values. Dtypes: f32, f64, i64, f16 and bf16; the last two are stored in f32 and
 * rounded when received. The name is unique among the runtime's servers. The server lives until it
 * is destroyed or the runtime closes. create waits in the queue behind running calls.
 * Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, OVERFLOW, UNSUPPORTED (another dtype, a strided tensor,
 * options of a newer header), SYSTEM (no thread), BAD_STATE (inside a body or a rule, after fork),
 * and errors of a device or of `fill`. Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_server_create(muster_runtime *runtime, const char *name, const muster_tensor *values,
                                                               int32_t count, const muster_server_options *options, muster_server **server);
/* The same with the dtypes, element counts and values of variables. */
MUSTER_API MUSTER_NODISCARD muster_status muster_server_create_from(muster_runtime *runtime, const char *name,
                                                                    muster_variable *const *variables, int32_t count,
                                                                    const muster_server_options *options, muster_server **server);
/* Creates a server inside a body. All workers of the call enter, each with tensors of its own in
 * host memory or on its device, with the same dtypes and element counts; all get the same server.
 * With MUSTER_INITIAL_MASTER the values are those of rank 0; with MUSTER_INITIAL_OWN shard r comes
 * from rank r. The name, options, fill and everything else are rank 0's. A worker that is refused
 * ends the call, as in a collective (muster/communicator.h): either all workers get the server or
 * the call fails. Memory for tensors on GPUs is not page-locked here, so that each of their sends
 * and receives waits for the device; muster_server_create avoids that.
 * Errors: as muster_server_create, SHAPE_MISMATCH and DTYPE_MISMATCH (other than on rank 0),
 * INVALID_ARGUMENT (a runtime other than the worker's), BAD_STATE (a call on one of several
 * devices), and those of collectives. Threads: worker. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_create_server(muster_worker *worker, muster_runtime *runtime, const char *name,
                                                                      const muster_tensor *values, int32_t count,
                                                                      const muster_server_options *options, muster_server **server);
/* Refuses new operations (BAD_STATE) and waits for those that have begun. It does not wait for
 * running calls: it may be called while a function runs whose workers use the server. It returns
 * TIMEOUT when the operations make no progress for the runtime's fail_after_ns, and may then be
 * called again.
 * Clients and requests of a destroyed server may still be waited for and closed (those of workers
 * until the runtime creates its next server); new operations on them return BAD_STATE. The server's
 * pointer must not be used any more, except in bodies that still run, where its functions return
 * BAD_STATE.
 * Errors: TIMEOUT, BAD_STATE (inside a body or a rule, after fork; already destroyed). Threads:
 * any. */
MUSTER_API muster_status muster_server_destroy(muster_server *server);

/* The number of values; -1 for NULL. Threads: any. */
MUSTER_API int32_t muster_server_count(const muster_server *server);
/* The number of elements of a value; -1 if there is no such value. Threads: any. */
MUSTER_API int64_t muster_server_elements(const muster_server *server, int32_t index);
/* The number of shards of each value; -1 for NULL. Threads: any. */
MUSTER_API int32_t muster_server_shards(const muster_server *server);
/* The first element of a shard of a value, and its number of elements. Errors: OUT_OF_RANGE (no
 * such value or shard), BAD_STATE (destroyed). Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_server_shard(const muster_server *server, int32_t index, int32_t shard, int64_t *first,
                                                              int64_t *elements);

/* Adds a user rule; *rule is its number for sends. At most 64 per server (OUT_OF_RANGE); names are
 * unique in the server. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, BAD_STATE (destroyed). Threads:
 * any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_server_add_rule(muster_server *server, const char *name, muster_rule_function function,
                                                                 void *user, muster_rule *rule);
/* The same, and the library ends `user`: destroy(user) is called once, when muster_server_destroy
 * or muster_runtime_close has ended the server, or before an error is returned (muster/status.h).
 * destroy NULL: nothing is called. Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_server_add_rule_owned(muster_server *server, const char *name,
                                                                       muster_rule_function function, void *user,
                                                                       muster_destroy_function destroy, muster_rule *rule);

/* Opens a client for host threads. Operations of one client keep their order. One thread at a time
 * uses a client; a second one at the same time gets BAD_STATE. The caller owns the client and
 * closes it. Errors: INVALID_ARGUMENT, BAD_STATE (the server is being destroyed), OUT_OF_MEMORY.
 * Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_client_open(muster_server *server, muster_client **client);
/* Waits for the operations that the client has begun, and ends the requests that were not waited
 * for. Accepts NULL. Errors, after which the client stays open: TIMEOUT, INVALID_ARGUMENT (the
 * client of a worker), BAD_STATE (another thread is in this client). Threads: the client's. */
MUSTER_API muster_status muster_client_close(muster_client *client);
/* The client of this worker: the same at each call, used inside bodies only, and never closed.
 * Operations that a body has begun and not waited for end before its worker goes on, so their
 * memory must outlive the body. The server owns it. Errors: as muster_client_open; BAD_STATE
 * outside the worker's body. Threads: worker. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_client(muster_worker *worker, muster_server *server, muster_client **client);

/* send changes value `index` by `tensor` and the rule; receive copies the value into `tensor`.
 * `tensor` is contiguous, with the value's dtype and element count and any shape. It is in host
 * memory or, for a worker's client, on the worker's device. flags: MUSTER_SEND_COPY. scale: for
 * ADD_SCALED and user rules.
 * With a request, both return without waiting for another client. *request is a handle that wait or
 * a successful test ends, or NULL if the operation was done at once. With request NULL they return
 * when the operation is done. A TIMEOUT then gives up the shards that are left, and others may
 * already have been changed.
 * On a GPU the worker's stream does not stop: a send takes the tensor as the operations before it
 * leave it, and work that the worker issues after a receive is done sees the received values. A
 * value has memory for one send and one receive of each worker in flight; the next one waits.
 * Errors: INVALID_ARGUMENT (unknown rule, memory of another device), DTYPE_MISMATCH, SHAPE_MISMATCH
 * (another number of elements), UNSUPPORTED (a strided tensor; a rule that the dtype does not
 * have), OUT_OF_RANGE (index), BAD_STATE (server destroyed, another thread in this client, a
 * worker's client outside its body, inside a rule of this server), OUT_OF_MEMORY. Errors of the
 * operation itself come from wait, or from here without a handle: errors of a user rule, TIMEOUT,
 * ABORTED (the worker's call was aborted), CANCELLED, errors of a device. After ABORTED what was
 * left of the operation is given up. After CANCELLED, with which muster_runtime_cancel ends the
 * worker's call, a send goes on without its tensor, whose memory is the body's again, and is
 * applied before the call returns; a receive is given up. No operation begins in such a call any
 * more. Threads: the client's. */
enum muster_send_flag { MUSTER_SEND_COPY = 1 };
MUSTER_API MUSTER_NODISCARD muster_status muster_client_send(muster_client *client, int32_t index, muster_rule rule, double scale,
                                                             muster_tensor tensor, int32_t flags, muster_request **request);
MUSTER_API MUSTER_NODISCARD muster_status muster_client_receive(muster_client *client, int32_t index, muster_tensor tensor,
                                                                muster_request **request);

/* A send or a receive of every value at once, such as the parameters of a graph: tensors[i] belongs
 * to value i, and count is the server's number of values. What is said above holds for each of
 * them; they begin in the order of the values. All are checked before the first begins, so that
 * what is refused has touched nothing.
 * requests[count] become the handles, for muster_requests_wait_all. With requests NULL they return
 * when all operations are done. An error that comes later than the checks ends the list: what had
 * begun is waited for, no handle is left, and the values behind it are untouched.
 * Errors: also INVALID_ARGUMENT (NULL, another count). Threads: the client's. */
MUSTER_API MUSTER_NODISCARD muster_status muster_client_send_all(muster_client *client, muster_rule rule, double scale,
                                                                 const muster_tensor *tensors, int32_t count, int32_t flags,
                                                                 muster_request **requests);
MUSTER_API MUSTER_NODISCARD muster_status muster_client_receive_all(muster_client *client, const muster_tensor *tensors, int32_t count,
                                                                    muster_request **requests);
/* The same of variables, and waits: variables[i] belongs to value i, as muster_server_create_from
 * makes a server of them.
 * - A worker's client sends the worker's replicas, and receives into them. The body's function has
 *   declared the variables, to receive with MUSTER_USE_READ_WRITE.
 * - A client of host threads sends the master's replicas; a receive makes every replica on every
 *   device the received value, in the shape of the master's replica. Both wait in the queue behind
 *   running calls, and take host memory for a copy of all values.
 * Errors: also INVALID_ARGUMENT (a variable that is not declared so), and those of
 * muster_variable_get and muster_variables_broadcast. Threads: the client's. */
MUSTER_API MUSTER_NODISCARD muster_status muster_client_send_variables(muster_client *client, muster_rule rule, double scale,
                                                                       muster_variable *const *variables, int32_t count);
MUSTER_API MUSTER_NODISCARD muster_status muster_client_receive_variables(muster_client *client, muster_variable *const *variables,
                                                                          int32_t count);

/* Waits until the operation is done, and sets *request to NULL whatever the outcome. The exception
 * is TIMEOUT, when the shards have made no progress for fail_after_ns of the runtime or, in a
 * worker, of the call: the request then stays, and so must its memory. A NULL request is done.
 * After warn_after_ns the log says what is waited for.
 * Errors: those of the operation, as above; INVALID_ARGUMENT (NULL), BAD_STATE (a copy of a handle
 * that has ended, another thread is in this client, a worker's client outside its body); *request
 * then stays. Threads: the client's. */
MUSTER_API MUSTER_NODISCARD muster_status muster_request_wait(muster_request **request);
/* If the operation is done: *done = 1, *request = NULL, and the status is its outcome. Else *done =
 * 0. Never waits, but may apply operations if the server has no threads. Errors: as
 * muster_request_wait. Threads: the client's. */
MUSTER_API MUSTER_NODISCARD muster_status muster_request_test(muster_request **request, int32_t *done);
/* Waits for all requests, even after a failure; returns the first failure. Threads: the
 * client's. */
MUSTER_API MUSTER_NODISCARD muster_status muster_requests_wait_all(muster_request **requests, int32_t count);

/* For event loops: tells the program when the operation is done, instead of a thread that waits, as
 * muster_pending_notify and muster_pending_notify_fd (muster/function.h) do for calls. For clients
 * of muster_client_open, and servers with threads of their own (options.progress 1 or more), which
 * apply operations that nobody waits for; else UNSUPPORTED. The function runs in a thread of the
 * server, or in any thread that is inside a client of it: it must not call a server (BAD_STATE),
 * not even to end this request. The news comes once, also if a wait gives the operation up; at
 * once, in the calling thread, if the operation is done or the request NULL, which send and receive
 * give when they have done the operation themselves. `user`, or the descriptor, must stay valid
 * until then, at most until muster_server_destroy has returned or the runtime has closed.
 * Errors: also INVALID_ARGUMENT (a closed descriptor), BAD_STATE (a copy of a handle that has
 * ended, another thread is in this client, the second of one request). Threads: the client's. */
MUSTER_API MUSTER_NODISCARD muster_status muster_request_notify(muster_request *request, muster_completion_function function, void *user);
MUSTER_API MUSTER_NODISCARD muster_status muster_request_notify_fd(muster_request *request, int32_t fd);

/* Totals since the creation of the server. A result struct: the rules are in muster/status.h.
 * Errors: INVALID_ARGUMENT (NULL, struct_size). Threads: any. */
typedef struct muster_server_statistics {
    size_t struct_size;             /* set by muster_server_statistics_init */
    int64_t sends, receives, bytes; /* operations of all clients that succeeded, and the bytes of their tensors */
} muster_server_statistics;
static inline void muster_server_statistics_init(muster_server_statistics *statistics) {
    if (statistics) statistics->struct_size = sizeof *statistics;
}
MUSTER_API MUSTER_NODISCARD muster_status muster_server_get_statistics(const muster_server *server, muster_server_statistics *statistics);

#ifdef __cplusplus
}
#endif
#endif
