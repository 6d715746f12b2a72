/* muster/communicator.h: the collectives that workers enter together, inside a function body.
 * Threads of every function here: worker.
 *
 * SPMD: every member of the communicator enters the same collectives in the same order, also a
 * worker without rows. A worker that fails or returns without entering ends the call: everyone
 * waiting returns MUSTER_ABORTED and the caller gets the original error. Members that enter
 * different collectives (operation, op, dtype, count, root) all get an error that names two ranks
 * and what each of them entered.
 * No wait lasts for ever: see warn_after_ns and fail_after_ns of muster/runtime.h and
 * muster/function.h.
 *
 * communicator: NULL means all workers of the call. Ranks (root, to, from) are ranks of the
 * communicator. So are those in messages about a collective; where the worker has another number in
 * the runtime (muster_worker_rank), that stands behind it: "rank 1 (worker 3)"; a worker that is no
 * member is "worker 3". The "(rank 3)" at the very end of what the caller of the function is told
 * is the rank in the runtime, as in dumps. A body with collectives needs every worker, also one
 * without rows: muster_function_set_runs_without_rows. Tensors are contiguous, in the memory of the
 * worker's device (on the host backend any memory of the process will do, also the body's stack);
 * counts are elements of any size from 0. "In place" is always allowed in the form that each
 * function names; any other overlap of a rank's input and output is refused. On success the memory
 * belongs to the caller again on return, and work that is issued on the worker's device comes after
 * the collective; after a failure the outputs are undefined. Results are equal, bit for bit, on
 * every rank, and, but for the sums, products and averages of f32 and f64 by NCCL in the table
 * below, for every algorithm: values are combined in rank order (which of several NaNs a result
 * carries is not said), f16 and bf16 in f32 and rounded once at the end. MUSTER_AVG: equal weights,
 * float dtypes, cannot overflow in the sum.
 *
 *   dtype              op                host   GPUs, p2p   GPUs, NCCL
 *   i8 u8 i32 u32 i64 u64   sum prod max min   yes   the same    NCCL's own, the same bits
 *   i16                sum prod max min  yes    the same    ours, on data that NCCL moves
 *   bool               prod max min      yes    the same    ours
 *   f32 f64 sum prod avg yes the same NCCL's own, in an order that it chooses; in the reproducible
 *   mode, and over shards, ours
 *   f32 f64 max min yes the same ours: NCCL does not promise that a NaN gets through
 *   f16 bf16 all in f32, rounded once the same ours: NCCL does not document in which type it sums
 * avg of integers and sum of bools are refused everywhere. */
#ifndef MUSTER_COMMUNICATOR_H
#define MUSTER_COMMUNICATOR_H

#include "muster/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The workers that take part in a collective. */
typedef struct muster_communicator muster_communicator;

/* All workers of the call (in a single call: this worker alone). Its size; this worker's rank in
 * it, -1 if it is no member. */
MUSTER_API muster_communicator *muster_worker_communicator(muster_worker *worker);
MUSTER_API int32_t muster_communicator_size(const muster_communicator *communicator);
MUSTER_API int32_t muster_communicator_rank(const muster_communicator *communicator, const muster_worker *worker);

/* Every member of `communicator` enters; those with the same color form a new one, ranked by key,
 * equal keys by their old rank. A negative color: this worker joins none, and *part is NULL. All
 * members of a part get it or none does: after a failure *part is NULL and nothing stays. The new
 * one inherits the configuration (algorithms, deadlines). It lives on between calls, until every
 * member has released it or the runtime closes; a rank that has released it must not use it any
 * more. key may be negative. */
MUSTER_API muster_status muster_worker_split(muster_worker *worker, muster_communicator *communicator, int32_t color, int32_t key,
                                             muster_communicator **part);
MUSTER_API muster_status muster_worker_release(muster_worker *worker, muster_communicator *part);

/* output = op over the ranks of input. In place: the same memory. */
MUSTER_API muster_status muster_worker_all_reduce(muster_worker *worker, muster_communicator *communicator, muster_reduction op,
                                                  muster_tensor input, muster_tensor output);
/* input (shards, ...): this rank's logical shards, equal numbers or not. output (...) = op over all
 * shards of all ranks, combined in shard order: the same bits for every number of ranks over which
 * the same shards are spread. Not in place. */
MUSTER_API muster_status muster_worker_all_reduce_shards(muster_worker *worker, muster_communicator *communicator, muster_reduction op,
                                                         muster_tensor input, muster_tensor output);
/* parameter = parameter + alpha * (sum over the ranks of gradient), on every rank, in one pass over
 * the memory. `parameter` must hold the same values on every rank (as a variable's replicas do);
 * gradient keeps its values. Float dtypes. They must not overlap. */
MUSTER_API muster_status muster_worker_all_reduce_axpy(muster_worker *worker, muster_communicator *communicator, double alpha,
                                                       muster_tensor gradient, muster_tensor parameter);
/* The same with momentum: velocity = beta * velocity + alpha * (sum over the ranks of gradient);
 * parameter = parameter + velocity. Each rank keeps only the part of the velocity that it updates,
 * as large as the whole: the tensor belongs to this call, zero at first and never looked at by
 * anything else; what it holds depends on the number of ranks and on the algorithm. Not in a
 * group. */
MUSTER_API muster_status muster_worker_all_reduce_momentum(muster_worker *worker, muster_communicator *communicator, double alpha,
                                                           muster_tensor gradient, double beta, muster_tensor velocity,
                                                           muster_tensor parameter);
/* The root's output = op over the ranks of input; other ranks' output is not looked at. In place:
 * the root's input and output. */
MUSTER_API muster_status muster_worker_reduce(muster_worker *worker, muster_communicator *communicator, muster_reduction op, int32_t root,
                                              muster_tensor input, muster_tensor output);
/* The root's input is copied into everybody's output; other ranks' input is not looked at. In
 * place: the root's input and output. */
MUSTER_API muster_status muster_worker_broadcast(muster_worker *worker, muster_communicator *communicator, int32_t root,
                                                 muster_tensor input, muster_tensor output);
/* output = all inputs, one after another in rank order; inputs may differ in count. In place: input
 * is its own part of output. */
MUSTER_API muster_status muster_worker_all_gather(muster_worker *worker, muster_communicator *communicator, muster_tensor input,
                                                  muster_tensor output);
/* The same at the root; other ranks' output is not looked at. */
MUSTER_API muster_status muster_worker_gather(muster_worker *worker, muster_communicator *communicator, int32_t root, muster_tensor input,
                                              muster_tensor output);
/* The root's input is dealt out in rank order, each rank as much as its output holds. In place: the
 * root's output is its own part of input. */
MUSTER_API muster_status muster_worker_scatter(muster_worker *worker, muster_communicator *communicator, int32_t root, muster_tensor input,
                                               muster_tensor output);
/* op over the ranks of input, of which each rank gets its part, in rank order, as much as its
 * output holds. In place: output is its own part of input. */
MUSTER_API muster_status muster_worker_reduce_scatter(muster_worker *worker, muster_communicator *communicator, muster_reduction op,
                                                      muster_tensor input, muster_tensor output);
/* Part j of rank i's input becomes part i of rank j's output. Equal parts: counts divide by the
 * size. In place: the same memory.
 * uneven: send_counts[j] elements go to rank j, recv_counts[i] come from rank i; [size] each,
 * borrowed until return. Not in place. */
MUSTER_API muster_status muster_worker_all_to_all(muster_worker *worker, muster_communicator *communicator, muster_tensor input,
                                                  muster_tensor output);
MUSTER_API muster_status muster_worker_all_to_all_uneven(muster_worker *worker, muster_communicator *communicator, muster_tensor input,
                                                         const int64_t *send_counts, muster_tensor output, const int64_t *recv_counts);

/* One message, of equal dtype, count and tag (>= 0) on both sides. A send is a rendezvous: it
 * returns when the message has been received. Messages of a pair are received in the order in which
 * they were sent; asking for another tag than the next message's is an error at once, since neither
 * side could go on. To exchange messages both ways, or with itself, a rank puts them into a group.
 * A message to itself needs both sides in one group, and its memory apart or the same; group_end
 * refuses any other at once (INVALID_ARGUMENT). */
MUSTER_API muster_status muster_worker_send(muster_worker *worker, muster_communicator *communicator, int32_t to, int32_t tag,
                                            muster_tensor input);
MUSTER_API muster_status muster_worker_recv(muster_worker *worker, muster_communicator *communicator, int32_t from, int32_t tag,
                                            muster_tensor output);

/* Returns once every member has entered. */
MUSTER_API muster_status muster_worker_barrier(muster_worker *worker, muster_communicator *communicator);

/* Collectives and messages between begin and end, on this communicator, are only noted (their
 * arguments are checked, and send_counts and recv_counts must last until end) and run together, in
 * one round, at end. They must not depend on each other; within a pair, messages are matched by
 * tag. All members put the same collectives, in the same order, into the group. split and release
 * are refused in it. At most 1024 in a group. A body that returns with an open group fails with
 * BAD_STATE. */
MUSTER_API muster_status muster_worker_group_begin(muster_worker *worker, muster_communicator *communicator);
MUSTER_API muster_status muster_worker_group_end(muster_worker *worker, muster_communicator *communicator);

#ifdef __cplusplus
}
#endif
#endif
