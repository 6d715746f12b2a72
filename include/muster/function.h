/* muster/function.h: functions, which are created once and called many times. A call runs a body on
 * every device.
 *
 * A function belongs to its runtime: it lives until it is destroyed or the runtime closes. create,
 * destroy, the functions that describe it and the setters wait in the queue behind running calls.
 * Errors of all of them: INVALID_ARGUMENT (NULL, an unknown number, a name that is empty or taken,
 * an object of another runtime), OUT_OF_MEMORY, BAD_STATE (inside a body, after fork). What a
 * function adds to these is said there. */
#ifndef MUSTER_FUNCTION_H
#define MUSTER_FUNCTION_H

#include "muster/buffer.h"
#include "muster/cuda.h"
#include "muster/ops.h"
#include "muster/runtime.h"
#include "muster/tensor.h"
#include "muster/variable.h"
#include "muster/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_function muster_function;

/* A body: the code that a worker runs.
 * - in[i]: the worker's rows of input i if it is scattered, all of it if it is broadcast.
 * - out[i]: the memory for output i. A reduced output has the shape of the caller's tensor. A
 *   gathered output has the caller's trailing dimensions and this worker's rows.
 *   Both are contiguous, with the strides of muster_tensor_make: element k of in[i] is element k of
 *   the memory at its address. What the caller passes with other strides is copied, unless the port
 *   has MUSTER_STRIDED. out[i].dtype is
 *   MUSTER_DTYPE_NONE, and its data NULL, for an output that this call does not want: a body that
 *   writes outputs by their address checks that first. The memory of outputs, and that of
 *   muster_worker_update, is not initialised: the body writes every element, since what it leaves
 *   is collected too.
 * Views are valid until the body returns. A returned status that is no muster_status reaches the
 * caller as MUSTER_USER. Rank 0 runs in the caller's thread with host devices or one GPU, and in a
 * thread of its own with several GPUs. */
typedef muster_status (*muster_body)(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user);

/* A body for one backend ("host", "cuda"). With backend NULL the body uses worker operations only,
 * and runs on every backend. The layout is frozen. */
typedef struct muster_backend_body {
    const char *backend;
    muster_body body;
} muster_backend_body;

/* Creates a function with one body of worker operations. `user` is passed to every body; the
 * library never reads or writes what it points to. The name is copied; names of functions are
 * unique in a runtime. Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_function_create(muster_runtime *runtime, const char *name, muster_body body, void *user,
                                                                 muster_function **function);
/* The same with one body per backend; `bodies` is copied. A device runs the body of its backend,
 * else the one with backend NULL. Errors: also UNSUPPORTED (a device has neither; the message names
 * it). Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_function_create_with(muster_runtime *runtime, const char *name,
                                                                      const muster_backend_body *bodies, int32_t body_count, void *user,
                                                                      muster_function **function);
/* The same, and the library ends `user`: destroy(user) is called once, when muster_function_destroy
 * or muster_runtime_close has ended the function, or before an error is returned (muster/status.h).
 * destroy NULL: nothing is called. Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_function_create_owned(muster_runtime *runtime, const char *name,
                                                                       const muster_backend_body *bodies, int32_t body_count, void *user,
                                                                       muster_destroy_function destroy, muster_function **function);
/* Waits for running calls, and for asynchronous calls that were made before. Accepts NULL. No
 * thread may use the function later. Threads: any. */
MUSTER_API muster_status muster_function_destroy(muster_function *function);
/* The function of this name in *function, which becomes NULL where there is none
 * (INVALID_ARGUMENT). Waits in the queue behind running calls. Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_function_find(muster_runtime *runtime, const char *name, muster_function **function);

/* The description of the function: its inputs and outputs, in the order in which calls pass them.
 * It must be complete before the first call; later changes are refused with BAD_STATE. Scattered
 * inputs and gathered outputs have ndim >= 1 (else INVALID_ARGUMENT). Names are copied, and are
 * unique among the inputs, and among the outputs, of the function. Errors: also UNSUPPORTED (a mode
 * that the dtype does not have, such as the average of an integer). Threads of these functions and
 * of the setters below: owner. */
typedef int32_t muster_input_mode;
enum muster_input_mode_value { /* numbers that no output has */
                               MUSTER_SCATTER = 17,
                               MUSTER_BROADCAST = 18,
                               /* scattered, but the caller's tensor holds only the rows of the
                                * selected batch: row i is the i-th selected row */
                               MUSTER_MINIBATCH = 19,
                               /* A flag, added to one of the three (MUSTER_BROADCAST |
                                * MUSTER_INPUT_HOST): the body reads the input by its address, in
                                * host memory, on GPUs too. Nothing is copied to the device, and
                                * in[i].device is MUSTER_DEVICE_HOST. For indices, sizes and
                                * parameters that host code reads. Operations on a GPU refuse such
                                * a tensor; muster_worker_write copies it. Work that is queued on
                                * the device and reads it must end before the body returns. */
                               MUSTER_INPUT_HOST = 64
};
typedef int32_t muster_collect_mode; /* MUSTER_SUM to MUSTER_AVG of ops.h, and: */
enum muster_collect_mode_value {
    MUSTER_GATHER = 6, /* concatenated along axis 0 in rank order */
    /* not combined: the value of the first worker that runs the body (of its last slice): rank 0,
     * or where rank 0 has no rows and the function does not run without rows, the first rank that
     * has rows; with logical shards the first shard. Refused where no worker runs the body */
    MUSTER_MASTER = 7
};
/* A flag, added to the mode of an input or output (MUSTER_SCATTER | MUSTER_STRIDED): the body looks
 * at the strides of in[i] or out[i], which may be those of the caller's tensor, negative or 0 too.
 * Nothing is copied on CPU devices. Without it what is not contiguous is copied: each worker copies
 * its rows, one slice at a time; a broadcast input is copied once per process; a gathered output
 * reaches the caller's rows after the body has returned OK. */
enum muster_port_flag_value { MUSTER_STRIDED = 128 };
MUSTER_API MUSTER_NODISCARD muster_status muster_function_input(muster_function *function, const char *name, muster_dtype dtype,
                                                                int32_t ndim, muster_input_mode mode);
MUSTER_API MUSTER_NODISCARD muster_status muster_function_output(muster_function *function, const char *name, muster_dtype dtype,
                                                                 int32_t ndim, muster_collect_mode mode);
/* Declares that the body uses this variable, through muster_worker_variable: it reads it, or also
 * writes it in place (READ_WRITE). READ_SLICEABLE: replica_batch selects among its rows, and slices
 * cut them. In a function that scatters nothing, the rows of the sliceable variables are the
 * worker's rows, which determine its weight, first row and total; the variables must then have
 * equal numbers of rows on each worker. A sliceable variable has ndim >= 1. The variable cannot be
 * destroyed before the function. */
typedef int32_t muster_variable_use;
enum muster_variable_use_value { MUSTER_USE_READ = 1, MUSTER_USE_READ_WRITE = 2, MUSTER_USE_READ_SLICEABLE = 3 };
MUSTER_API MUSTER_NODISCARD muster_status muster_function_variable(muster_function *function, muster_variable *variable,
                                                                   muster_variable_use use);
/* Declares that the body writes a new value of the variable with muster_worker_update. Every slice
 * sees the original value. The new values are accumulated over the slices by `mode` (sum, prod,
 * max, min, avg by weight; MUSTER_MASTER keeps the last slice's), and applied on each worker after
 * all workers have succeeded. Workers do not communicate. A worker without rows keeps its value,
 * and so does a worker whose average has weight 0. A second update of the same variable is refused
 * (INVALID_ARGUMENT), and so is a mode that the dtype does not have (UNSUPPORTED). */
MUSTER_API MUSTER_NODISCARD muster_status muster_function_update(muster_function *function, muster_variable *variable,
                                                                 muster_collect_mode mode);

/* One line of a description: what one of the four functions above takes. The layout is frozen. */
typedef int32_t muster_port_kind;
enum muster_port_kind_value {
    MUSTER_PORT_INPUT = 1,    /* muster_function_input */
    MUSTER_PORT_OUTPUT = 2,   /* muster_function_output */
    MUSTER_PORT_VARIABLE = 3, /* muster_function_variable */
    MUSTER_PORT_UPDATE = 4    /* muster_function_update */
};
typedef struct muster_port {
    muster_port_kind kind;
    int32_t mode; /* muster_input_mode, muster_collect_mode, muster_variable_use, or muster_collect_mode */
    /* Inputs and outputs. For variables and updates they are ignored, and describe the variable
     * where a description is read back. */
    const char *name;
    muster_dtype dtype;
    int32_t ndim;
    muster_variable *variable; /* variables and updates; NULL otherwise */
} muster_port;
/* Adds `count` ports to the description, in their order, or none of them: after an error the
 * description is as it was. Errors and threads: as the four functions. */
MUSTER_API MUSTER_NODISCARD muster_status muster_function_describe(muster_function *function, const muster_port *ports, int32_t count);
/* Reads the description back: the number of ports (-1 for NULL), and port `index` of them: the
 * inputs first, then the outputs, then variables and updates, variable by variable. A variable that
 * was declared twice in the same use is one port. The name belongs to the function, and for
 * variables to the runtime. Errors: INVALID_ARGUMENT (NULL), OUT_OF_RANGE (no such port; *port
 * keeps its value), BAD_STATE (after fork). Threads: owner; after the first call any, also inside a
 * body. */
MUSTER_API int32_t muster_function_port_count(const muster_function *function);
MUSTER_API MUSTER_NODISCARD muster_status muster_function_port(const muster_function *function, int32_t index, muster_port *port);

/* With several processes (muster/nodes.h): which process passes which rows of an input. */
typedef int32_t muster_source;
enum muster_source_value {
    /* Every process passes the same whole tensor and uses its rows of it, so nothing travels. With
     * MUSTER_CHECK=1 in the environment the processes compare the contents, and the call is refused
     * where they differ. */
    MUSTER_SOURCE_ALL = 0,
    /* Each process passes rows of its own. The rows of the call are those of process 0, then those
     * of process 1, and so on; the numbers may differ, and may be 0. Selections of
     * muster_call_options.batch select rows of this process's tensor. Not for MUSTER_BROADCAST. */
    MUSTER_SOURCE_OWN = 1,
    /* Process 0 passes the whole tensor, the others muster_tensor_none(). Each process receives the
     * rows that it computes, or all of a MUSTER_BROADCAST. */
    MUSTER_SOURCE_MASTER = 2
};
/* Sets the source of an input, which is MUSTER_SOURCE_ALL otherwise. With one process every source
 * means the same. All processes make the same description. Errors: INVALID_ARGUMENT (no such input,
 * no such source, MUSTER_SOURCE_OWN of a MUSTER_BROADCAST), UNSUPPORTED (MUSTER_SOURCE_OWN in the
 * reproducible mode), BAD_STATE (the function has been called). Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_function_set_source(muster_function *function, const char *input, muster_source source);
/* Which process gets an output. */
typedef int32_t muster_target;
enum muster_target_value {
    MUSTER_TARGET_ALL = 0, /* every process passes a whole tensor, and all get the same bits */
    /* MUSTER_GATHER only: each process passes a tensor for the rows that its own devices compute */
    MUSTER_TARGET_OWN = 1,
    MUSTER_TARGET_MASTER = 2 /* process 0 passes a tensor, the others muster_tensor_none() */
};
/* Sets the target of an output, which is MUSTER_TARGET_ALL otherwise. Errors: INVALID_ARGUMENT (no
 * such output, no such target, MUSTER_TARGET_OWN of an output that is not gathered), BAD_STATE (the
 * function has been called). Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_function_set_target(muster_function *function, const char *output, muster_target target);

/* Creates one buffer (muster/buffer.h) for each input: empty, with the input's dtype and ndim. They
 * are registered (muster_runtime_register_buffer), so that GPUs copy from them directly, also after
 * they have grown. buffers[count] are in the order of the description, and count is the number of
 * inputs. muster_buffer_tensor gives the tensor for a call. They belong to the caller. After an
 * error there are none, and the entries are NULL or unchanged. Errors: INVALID_ARGUMENT (another
 * count, an oversize outside [1, 2]), OUT_OF_MEMORY, BAD_STATE (inside a body, after fork).
 * Threads: owner. */
MUSTER_API MUSTER_NODISCARD muster_status muster_function_buffers(muster_function *function, double oversize, muster_buffer **buffers,
                                                                  int32_t count);

/* By default a worker without rows does not run the body. With runs = 1 it does, with inputs of 0
 * rows, as is necessary for bodies with collectives, since every worker must enter these. The
 * values that it writes to its outputs are not collected, nor are the rows that it gives to a
 * gathered output: a body that moves rows between workers (a sort) must have rows on all of
 * them. */
MUSTER_API MUSTER_NODISCARD muster_status muster_function_set_runs_without_rows(muster_function *function, int32_t runs);

/* How the body runs with logical shards (muster/runtime.h; S shards in all, S / N on each of N
 * devices).
 *
 * together = 0, the default: the body runs once for every shard that has rows, with that shard's
 * rows, weight, first row and slices (which cut each shard). If nothing is scattered, a shard
 * counts as a worker would: its first row is its number, of S rows. Rank and size stay those of the
 * device, and a body that divides work by them would do it S / N times. So a function without
 * scattered inputs and sliceable variables must say 0 or 1 here; else its calls are refused with
 * UNSUPPORTED where S is not N. With 0 it divides by muster_worker_shard and muster_worker_shards.
 * Sums, products, averages, max
 * and min combine the shards' values in the order of the shards; gathered rows are in that order;
 * replica_batch may give one selection per shard. Each device keeps its shards' values of every
 * output until the end of the call. A single call runs all S shards on the master, and gives the
 * same bits.
 * Anything that would depend on the number of devices is refused: collectives in such a body and,
 * at the first call, variables that it writes in place (MUSTER_USE_READ_WRITE) and updates that
 * sum, multiply or average floats. Other updates accumulate over the device's own shards. A
 * MUSTER_MASTER update takes the value of the first of them, so that the master's replica is shard
 * 0's on any number of devices.
 *
 * together = 1: the body runs once per device, with the rows of all its shards, and treats the
 * shards itself. muster_worker_shards_here and muster_worker_shard_rows tell which rows belong to
 * which shard; muster_worker_all_reduce_shards combines one value per shard in shard order.
 * Collectives, variables and updates are allowed, and the body is responsible for equal bits: rows
 * that it computes together, and muster_worker_all_reduce, may round differently for another number
 * of devices. Float outputs collected by sum, prod or avg, and slices, are refused. No effect
 * without logical shards. */
MUSTER_API MUSTER_NODISCARD muster_status muster_function_set_shards_together(muster_function *function, int32_t together);

/* What happens where a body uses CUDA's default stream: see muster_default_stream in muster/cuda.h.
 * No effect on devices that are no GPUs. Errors: also INVALID_ARGUMENT (an unknown mode). */
MUSTER_API MUSTER_NODISCARD muster_status muster_function_set_default_stream(muster_function *function, muster_default_stream mode);

/* An option struct: the rules are in muster/status.h. */
typedef struct muster_call_options {
    size_t struct_size;                    /* set by muster_call_options_init */
    muster_selection batch;                /* rows of the scattered inputs, before the scatter; must not be empty */
    const muster_selection *replica_batch; /* rows of the sliceable variables, after the scatter, inside each worker */
    /* The number of selections in replica_batch, all of one kind. 0: none, and replica_batch is
     * NULL; 1: the same selection for all workers; N: one per worker (with logical shards: one per
     * shard). */
    int32_t replica_batch_count;
    int32_t reserved;
    int64_t slices; /* the number of slices into which a worker cuts its rows; 0: 1 */
    /* How long this call may wait behind calls of other threads; 0: for ever. With several
     * processes leave it 0: a process whose call gives up its place does not tell the others, which
     * wait for it in the call (fail_after_ns). */
    int64_t queue_timeout_ns;
    /* Deadlines of this call's waits, as in muster_runtime_options. 0: the runtime's; negative:
     * never. Transfers of inputs and outputs between processes have the runtime's. */
    int64_t warn_after_ns;
    int64_t fail_after_ns;
    /* For outputs whose rows are known only after the call: NULL, or one entry for each output, in
     * the order in which the call passes them. Where an entry is not NULL, the call passes
     * muster_tensor_none() as that output, and the library fills the buffer: see "Outputs of any
     * number of rows" below. */
    muster_buffer *const *output_buffers;
} muster_call_options;
MUSTER_API void muster_call_options_init_sized(muster_call_options *options, size_t size);
static inline void muster_call_options_init(muster_call_options *options) { muster_call_options_init_sized(options, sizeof *options); }

/* Outputs of any number of rows. With a buffer (output_buffers) in place of a tensor, a gathered
 * output gets as many rows as the bodies give (muster_worker_output_rows), which may be none: the
 * rows of the workers one after the other, in the order of the ranks. The buffer has the output's
 * dtype and ndim, and its sizes behind axis 0 are those of the result; its rows so far do not
 * matter. Before the first call muster_buffer_set_shape(buffer, ndim, {0, k, ...}) says them.
 * The buffer belongs to the caller. The library uses it until the call has ended (of an
 * asynchronous one: until wait has returned or test has reported the end), and nobody else may use
 * it meanwhile, nor may two outputs of a call have one buffer. Its storage grows where the rows do
 * not fit, with the buffer's own spare room, and is used again by the next call; views made before
 * by muster_buffer_tensor end. A call that fails leaves the buffer as it was. Errors:
 * INVALID_ARGUMENT (a tensor beside the buffer; a buffer twice), BAD_STATE (a buffer that was
 * destroyed), UNSUPPORTED (the output is not gathered; several processes), DTYPE_MISMATCH,
 * SHAPE_MISMATCH (another ndim; the sizes of a row have not been said), OVERFLOW, OUT_OF_MEMORY. */

/* Scatters the inputs, runs the body on every device, and collects the outputs into the caller's
 * tensors. Of n selected rows, N devices get contiguous parts in the order of their ranks: rank r
 * has the rows from floor(r n / N) up to floor((r + 1) n / N), and with logical shards shard s of S
 * those from floor(s n / S) on. So with fewer rows than devices the lower ranks have none (of 1 row
 * on 2 devices rank 1 has it). Such a rank does not run the body and brings nothing to an output.
 * inputs and outputs are in the order of the description. An output given as muster_tensor_none()
 * is neither computed nor collected. Arrays of 0 tensors and options may be NULL. The tensors'
 * memory must stay valid until the call returns. Calls from several threads are served in order.
 * GPUs reduce large outputs between themselves (docs/gpus.md). Floating-point sums, products and
 * averages may then be rounded in another order. In the reproducible mode the host combines them.
 * A tensor lies in host memory, or on a device of the runtime (muster_runtime_tensor_create). The
 * worker of that device, and those of virtual devices of the same GPU, use its rows where they are,
 * if the tensor is contiguous and no index list selects its rows. A value that the call combines is
 * copied to the tensor. Other devices with access to the memory copy their rows from it and to it;
 * where there is no such access the rows pass through host memory. Tensors of host devices are used
 * in place by all host devices. When the call returns, its outputs are complete on every device.
 * Outputs have memory of their own: an output that shares a byte with an input or with another
 * output is refused, and so is an output with several elements at one address (a stride of 0, say).
 * Views that interleave without touching are allowed, such as the even columns of a matrix as an
 * input and the odd ones as an output. Views so entangled that the search for a shared byte would
 * take tens of thousands of steps are refused too. Inputs may share memory.
 * A call that is refused has touched nothing. A call that fails later leaves the outputs undefined
 * and applies no update; the runtime stays usable. Only a graph with update rules on several
 * devices can fail while it updates: the message then names what is undefined, and later calls
 * that read it are refused until it is set (muster/variable.h).
 * Errors: INVALID_ARGUMENT (NULL, wrong numbers of tensors, a tensor that was destroyed or lies on
 * a device that the runtime does not have, an output that shares memory, an empty batch; the
 * weights of an average are all 0), SHAPE_MISMATCH (dimensions, or numbers of rows),
 * DTYPE_MISMATCH, OUT_OF_RANGE (a selection beyond the rows), OVERFLOW (the size of a tensor),
 * UNSUPPORTED (a result over no rows that has no value; what the reproducible mode refuses; options
 * of a newer header), OUT_OF_MEMORY, BAD_STATE (inside a body, after fork; a
 * variable that it reads is undefined), TIMEOUT (queue_timeout_ns, or a deadline of a wait),
 * CANCELLED (muster_runtime_cancel),
 * errors of a device, and any error that a body returned, with its rank. Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_function_call(muster_function *function, const muster_tensor *inputs, int32_t input_count,
                                                               const muster_tensor *outputs, int32_t output_count,
                                                               const muster_call_options *options);
/* The same with inputs and outputs by name, in any order. Outputs that are not named are neither
 * computed nor collected. An unknown name, a name that is given twice, and a missing input are
 * INVALID_ARGUMENT. Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_function_call_named(muster_function *function, const char *const *input_names,
                                                                     const muster_tensor *inputs, int32_t input_count,
                                                                     const char *const *output_names, const muster_tensor *outputs,
                                                                     int32_t output_count, const muster_call_options *options);
/* The same on the master's device alone; no other worker wakes. It runs in the caller's thread, or
 * with several GPUs in the thread of rank 0. Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_function_call_single(muster_function *function, const muster_tensor *inputs,
                                                                      int32_t input_count, const muster_tensor *outputs,
                                                                      int32_t output_count, const muster_call_options *options);
/* Makes everything ready for a muster_function_call with these arguments, and does not run it:
 * checks the arguments as muster_function_call does, completes the description, plans, and reserves
 * memory on the devices. The next call, if it has tensors of the same shapes and strides, only
 * runs. The memory of inputs and outputs is not touched. Scratch memory, and rows that a body gives
 * by muster_worker_output_rows, are not known before the body has run once. Errors: as
 * muster_function_call, without those of a run. Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_function_prepare(muster_function *function, const muster_tensor *inputs,
                                                                  int32_t input_count, const muster_tensor *outputs, int32_t output_count,
                                                                  const muster_call_options *options);

/* Writes the weight that each device had in the function's last call into weights[count]; count is
 * the number of devices. A weight is the sum over the device's slices and shards: its number of
 * rows, unless the body set other weights. It is 0 for a device without rows, for the devices that
 * a single call left out, and before the first call. muster_variables_all_reduce_weighted takes
 * these weights. After a call that failed they are undefined. Waits in the queue behind running
 * calls. Errors: INVALID_ARGUMENT, BAD_STATE (inside a body, after fork). Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_function_weights(muster_function *function, int32_t count, double *weights);

/* The same as muster_function_call, but returns at once, with a handle in *pending. The call takes
 * its place in the order of calls now. When its turn comes, a thread of the runtime makes it, and
 * serves rank 0 where the caller's thread would.
 * Arguments that muster_function_call refuses are refused here, at once. With several processes the
 * others are told when they make the call, and get the same error. Checks that depend on variables
 * or on the memory of devices (which calls before this one may change), or on how the rows are
 * distributed over the devices, are made later; wait returns their errors and any other later
 * failure. muster_runtime_tensor_destroy waits for the calls before it, so that a tensor of a
 * device may be destroyed as soon as the call has its place in the order.
 * The tensor descriptors, options and selections are copied. The memory of tensors and of index
 * lists is used until wait has returned or test has reported the end: until then it must stay valid
 * and must not be written, and outputs must not be read.
 * With one process at most 64 calls of a runtime may be waiting. One more waits here until one of
 * them begins, and takes its place in the order then; TIMEOUT after queue_timeout_ns. In a
 * completion function it is refused with BAD_STATE, since the thread that runs the calls would wait
 * for itself. With several processes there is no such limit: a call that one process refuses fails
 * in all, and their queues are not equally full. A refusal for lack of memory may return only when
 * the others make the call; in a completion function it returns at once, and the others are not
 * told: they wait for the call until their deadline.
 * queue_timeout_ns counts from this call; that it has passed is noticed when the calls before this
 * one have ended. Closing the runtime waits for all pending calls; their handles stay valid. The
 * handle belongs to the caller, who ends it with wait or destroy.
 * Errors: as muster_function_call, SYSTEM (no thread). Threads: any. */
typedef struct muster_pending muster_pending;
MUSTER_API MUSTER_NODISCARD muster_status muster_function_call_async(muster_function *function, const muster_tensor *inputs,
                                                                     int32_t input_count, const muster_tensor *outputs,
                                                                     int32_t output_count, const muster_call_options *options,
                                                                     muster_pending **pending);
/* Waits until the call has ended, returns its status and message, ends the handle and sets *pending
 * to NULL. A NULL handle has ended. Refused with BAD_STATE inside a body, and unless the call has
 * ended inside a completion function and after fork; the handle then stays valid. Errors: also
 * INVALID_ARGUMENT (NULL). Threads: owner. */
MUSTER_API MUSTER_NODISCARD muster_status muster_pending_wait(muster_pending **pending);
/* If the call has ended: *done = 1, *pending = NULL, and the status and message are the call's.
 * Else *done = 0. Does not wait. Errors: also INVALID_ARGUMENT (NULL). Threads: owner. */
MUSTER_API MUSTER_NODISCARD muster_status muster_pending_test(muster_pending **pending, int32_t *done);
/* Like muster_pending_wait, but without the status and message of the call. Accepts NULL. Threads:
 * owner. */
MUSTER_API muster_status muster_pending_destroy(muster_pending *pending);

/* For event loops: tells the program when the call has ended, instead of a thread that waits. Once
 * per handle. notify calls the function, with `user`; notify_fd adds 1 to an eventfd (it writes the
 * number 1 as 8 bytes; other descriptors work where they take that). Many calls may share one
 * function or descriptor. The news comes once, whatever the outcome, from the thread that made the
 * call or, if the call had ended before (or the handle is NULL), at once in the calling thread.
 * From then on muster_pending_test reports the end. It also comes if the handle is ended meanwhile:
 * `user`, or the descriptor, must stay valid until then, at most until the runtime has closed. In
 * the function, the handle may be tested, waited for, and destroyed by its owner, and asynchronous
 * calls may be made.
 * Errors: INVALID_ARGUMENT (NULL, a closed descriptor), BAD_STATE (the second of one handle).
 * Threads: owner. */
MUSTER_API MUSTER_NODISCARD muster_status muster_pending_notify(muster_pending *pending, muster_completion_function function, void *user);
MUSTER_API MUSTER_NODISCARD muster_status muster_pending_notify_fd(muster_pending *pending, int32_t fd);

/* Inside a body: says that this worker (in this slice) has `rows` rows of gathered output `index`.
 * *output becomes a view of that many rows to write, which is valid until the body returns, or "no
 * tensor" if the call does not want the output. Errors: BAD_STATE (not the worker of a running
 * body), INVALID_ARGUMENT (NULL, negative rows), OUT_OF_RANGE (no such output), UNSUPPORTED (the
 * output is not gathered), OVERFLOW, OUT_OF_MEMORY, and errors of the device. Threads: worker. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_output_rows(muster_worker *worker, int32_t index, int64_t rows,
                                                                    muster_tensor *output);
/* Inside a body: *tensor becomes the memory for the new value of the variable, in the shape of the
 * replica, valid until the body returns; after a failure, "no tensor". Errors: BAD_STATE (not the
 * worker of a running body), INVALID_ARGUMENT (NULL, a variable of which the function declared no
 * update), OUT_OF_MEMORY, and errors of the device. Threads: worker. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_update(muster_worker *worker, muster_variable *variable, muster_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
