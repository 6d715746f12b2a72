/* muster/function.h: register once, call, read the result. */
#ifndef MUSTER_FUNCTION_H
#define MUSTER_FUNCTION_H

#include "muster/variable.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_function muster_function;

/* What a worker runs. in[i]: the worker's rows of scattered input i, or all of a broadcast input.
 * out[i]: where output i goes; a reduced output has the shape of the caller's tensor, a gathered
 * one the caller's trailing dimensions and the rows of this worker; out[i].dtype is
 * MUSTER_DTYPE_NONE for an output that this call does not want. Views are valid until the body
 * returns. A status that is none of muster_status reaches the caller as MUSTER_USER. With host
 * devices, or one GPU, rank 0 runs in the thread of the caller; with several GPUs it has a thread
 * of its own. */
typedef muster_status (*muster_body)(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user);

/* A body for one backend ("host", "cuda"); backend NULL: worker operations only, runs on every
 * backend. Its layout is frozen. */
typedef struct muster_backend_body {
    const char *backend;
    muster_body body;
} muster_backend_body;

/* create: one body of worker operations. create_with: one body per backend; a backend's own goes
 * before the NULL one. A device of the runtime for which no body exists is refused, naming it.
 * `user` is passed to every body and never touched. Names of functions are unique in a runtime.
 * destroy waits for a running call. Threads: any. */
MUSTER_API muster_status muster_function_create(muster_runtime *runtime, const char *name, muster_body body, void *user,
                                                muster_function **function);
MUSTER_API muster_status muster_function_create_with(muster_runtime *runtime, const char *name, const muster_backend_body *bodies,
                                                     int32_t body_count, void *user, muster_function **function);
MUSTER_API muster_status muster_function_destroy(muster_function *function);

/* The description, in the order in which calls pass inputs and outputs. Complete before the first
 * call; later it is refused. Scattered inputs have ndim >= 1. Names are unique among the inputs
 * (outputs) of the function. Threads: owner. */
typedef int32_t muster_input_mode;
enum {
    MUSTER_SCATTER = 1,
    MUSTER_BROADCAST = 2,
    /* scattered, and already holding just the selected batch: row 0 belongs to the lowest
        * selected position */
    MUSTER_MINIBATCH = 3
};
typedef int32_t muster_collect_mode; /* MUSTER_SUM .. MUSTER_AVG of ops.h, and: */
enum {
    MUSTER_GATHER = 6, /* concatenated along axis 0 in rank order */
    MUSTER_MASTER =
        /* "none": the master's own value (of its last slice), with logical shards that of shard 0;
         * refused when that has no rows */
    7
};
MUSTER_API muster_status muster_function_input(muster_function *function, const char *name, muster_dtype dtype, int32_t ndim,
                                               muster_input_mode mode);
MUSTER_API muster_status muster_function_output(muster_function *function, const char *name, muster_dtype dtype, int32_t ndim,
                                                muster_collect_mode mode);
/* The body reads (and may write, in place) this variable with muster_worker_variable. sliceable:
 * replica_batch applies to its rows, and slices cut them. In a function that scatters nothing
 * the rows of the sliceable variables are the worker's rows (its weight, first row and total);
 * they must then agree on each worker. */
typedef int32_t muster_variable_use;
enum { MUSTER_READ = 1, MUSTER_READ_WRITE = 2, MUSTER_READ_SLICEABLE = 3 };
MUSTER_API muster_status muster_function_variable(muster_function *function, muster_variable *variable, muster_variable_use use);
/* The body writes a new value with muster_worker_update. Every slice sees the original value; the
 * values accumulate over the slices by `mode` (sum, prod, max, min, avg by weight; MUSTER_MASTER:
 * the last slice's) and are applied on each worker after all workers have succeeded. No
 * communication between workers. A worker without rows keeps its value, and so does one whose
 * average has the weight 0. */
MUSTER_API muster_status muster_function_update(muster_function *function, muster_variable *variable, muster_collect_mode mode);

/* By default a worker without rows does not run the body. With 1 it does, with inputs of 0 rows:
 * for bodies that enter collectives, which every worker must. What it leaves in its outputs enters
 * no collection. */
MUSTER_API muster_status muster_function_set_runs_without_rows(muster_function *function, int32_t runs);

/* With logical shards (muster/runtime.h: S of them, S / N for each of N devices) the body runs
 * once for every shard that has rows, with that shard's rows, weight, first row and slices
 * (which cut each shard); where nothing is scattered a shard counts as a worker would: its first
 * row is its number, of S rows. Sums, products, averages, max and min combine the shards' values
 * in the order of the shards, gathered rows follow in it, replica_batch may give one selection
 * per shard. Each device keeps its shards' values of every output until the end of the call. A
 * single call runs all S shards on the master, and gives the same bits. What would depend on the
 * number of devices is refused: collectives in such a body, and, at the first call, variables
 * that it writes in place (MUSTER_READ_WRITE) and updates that sum, multiply or average floats.
 * The other updates accumulate over the device's own shards, and a MUSTER_MASTER update is that
 * of the first of them, so that the master's replica is shard 0's on any number of devices.
 *
 * 1: such a body runs once per device instead, with the rows of all its shards, and does the
 * same for itself: muster_worker_shards_here and muster_worker_shard_rows say which rows are
 * whose, muster_worker_all_reduce_shards combines one value per shard in their order.
 * Collectives, variables and updates are free, and the bits are the body's affair: rows that it
 * computes together, and muster_worker_all_reduce, may round differently for another number of
 * devices. Refused with it: float outputs collected by sum, prod or avg, and slices. Of no
 * effect without logical shards. */
MUSTER_API muster_status muster_function_set_shards_together(muster_function *function, int32_t together);

/* An option struct: the rules are in muster/status.h. */
typedef struct muster_call_options {
    size_t struct_size;                    /* set by muster_call_options_init */
    muster_selection batch;                /* rows of the scattered inputs, before the scatter; must not be empty */
    const muster_selection *replica_batch; /* rows of the sliceable variables, after the scatter, inside each worker */
    /* 0: none; 1: the same for all workers; N: one per worker (with logical shards: per shard), all
     * of one kind */
    int32_t replica_batch_count;
    int32_t reserved;
    int64_t slices;           /* in how many slices a worker computes its rows; 0: 1 */
    int64_t queue_timeout_ns; /* how long this call may wait behind calls of other threads; 0: for ever */
    /* deadlines of this call's waits, as in muster_runtime_options; 0: the runtime's; negative:
     * never */
    int64_t warn_after_ns;
    int64_t fail_after_ns;
} muster_call_options;
MUSTER_API void muster_call_options_init_sized(muster_call_options *options, size_t size);
static inline void muster_call_options_init(muster_call_options *options) { muster_call_options_init_sized(options, sizeof *options); }

/* Scatters the inputs, runs on every device, collects the outputs into the caller's tensors, which
 * must not overlap the inputs. inputs[input_count], outputs[output_count]: in the order of the
 * description; an output given as muster_tensor_none() is not computed or collected. Arrays of 0
 * tensors and options may be NULL. A call that is refused has touched nothing; a call that fails
 * later leaves the outputs undefined, applies no update, and the runtime is usable again. Calls
 * from several threads are served in order. The tensors' memory must stay valid until the call
 * returns.
 * Errors: INVALID_ARGUMENT, SHAPE_MISMATCH, DTYPE_MISMATCH, OUT_OF_RANGE, BAD_STATE (inside a
 * function, after fork), TIMEOUT, and what the body returned, with its rank. Threads: any. */
MUSTER_API muster_status muster_function_call(muster_function *function, const muster_tensor *inputs, int32_t input_count,
                                              const muster_tensor *outputs, int32_t output_count, const muster_call_options *options);
/* Inputs by name, in any order; outputs by name, others are not wanted. */
MUSTER_API muster_status muster_function_call_named(muster_function *function, const char *const *input_names, const muster_tensor *inputs,
                                                    int32_t input_count, const char *const *output_names, const muster_tensor *outputs,
                                                    int32_t output_count, const muster_call_options *options);
/* On the master's device alone, in the caller's thread; no other worker wakes. */
MUSTER_API muster_status muster_function_call_single(muster_function *function, const muster_tensor *inputs, int32_t input_count,
                                                     const muster_tensor *outputs, int32_t output_count,
                                                     const muster_call_options *options);

/* The same as muster_function_call without waiting: returns at once with a handle. The call takes
 * its place in the order of calls now, and a thread of the runtime makes it when its turn comes;
 * that thread serves rank 0 where the caller's would. What muster_function_call refuses is refused
 * here, at once, except what depends on variables (calls before this one may change them) or on how
 * the rows fall on the devices; that, and whatever fails later, wait returns. The tensors, options
 * and selections are copied. The memory of the tensors and of index lists is read and written until
 * wait has returned or test has said so: until then it must stay valid and must not be written, and
 * outputs must not be read. At most 64 calls of a runtime may be waiting; one more is refused
 * (BAD_STATE). queue_timeout_ns counts from here; that it has passed is noticed when the calls
 * before this one have ended. Closing the runtime waits for all of them; the handles stay. Errors:
 * as muster_function_call, SYSTEM (no thread). Threads: any. */
typedef struct muster_pending muster_pending;
MUSTER_API muster_status muster_function_call_async(muster_function *function, const muster_tensor *inputs, int32_t input_count,
                                                    const muster_tensor *outputs, int32_t output_count, const muster_call_options *options,
                                                    muster_pending **pending);
/* wait: until the call has ended; gives its status and message, and ends the handle. destroy: the
 * same without them. test: *done = 1 if it has ended, else 0, without waiting. wait and destroy are
 * refused inside a body, and after fork unless the call had ended (BAD_STATE); the handle is then
 * still there. Threads: owner. */
MUSTER_API muster_status muster_pending_wait(muster_pending *pending);
MUSTER_API muster_status muster_pending_test(const muster_pending *pending, int32_t *done);
MUSTER_API muster_status muster_pending_destroy(muster_pending *pending);

/* Inside a body. output_rows: this worker (slice) has `rows` rows of gathered output `index`;
 * *output becomes a view of that many rows to write.
 * update: where the new value of the variable goes, in the shape of the replica. Threads:
 * worker. */
MUSTER_API muster_status muster_worker_output_rows(muster_worker *worker, int32_t index, int64_t rows, muster_tensor *output);
MUSTER_API muster_tensor muster_worker_update(muster_worker *worker, muster_variable *variable);

#ifdef __cplusplus
}
#endif
#endif
