/* muster/communicator.h: the collectives that workers enter together, inside a function body.
 * Threads of every function here: worker.
 *  Order. Every member of the communicator enters the same collectives in the same order, even if
 * it has no rows: a function with collectives calls muster_function_set_runs_without_rows. A worker
 * that fails, or returns without entering, ends the call: every waiting member returns
 * MUSTER_ABORTED, and the caller of the function gets the original error. If members enter
 * different collectives (operation, op, dtype, count, root), all of them get an error that names
 * two ranks and what each of them entered. No wait lasts for ever: see warn_after_ns and
 * fail_after_ns of muster/runtime.h and muster/function.h.
 *  Ranks. The communicator NULL means all workers of the call. Arguments (root, to, from) and
 * messages about a collective count ranks of the communicator. A message adds the rank in the
 * runtime (muster_worker_rank) where it differs, "rank 1 (worker 3)", and names a worker that is no
 * member "worker 3". The "(rank 3)" at the very end of the caller's message is the rank in the
 * runtime, as in dumps.
 *  Tensors are contiguous and in the memory of the worker's device; on the host backend this is any
 * memory of the process, including the body's stack. Counts are numbers of elements, from 0 to any
 * size. "In place" is allowed in the form that each function names; any other overlap of a rank's
 * input and output is refused. After success the memory belongs to the caller again on return, and
 * work issued later on the worker's device runs after the collective. After a failure the outputs
 * are undefined.
 *  Results are bit for bit equal on every rank. They are also equal for every algorithm, except
 * sums, products and averages of f32 and f64 by NCCL (see the table). Values are combined in rank
 * order; f16 and bf16 are combined in f32 and rounded once at the end. If several values are NaN,
 * it is unspecified which one a result carries. MUSTER_AVG gives equal weights, takes float dtypes,
 * and cannot overflow in the sum.
 *  With several processes (muster/nodes.h) ranks and sizes count the workers of all of them. The
 * values of a process are combined in rank order, and then those of the processes: in their order,
 * or, where a table of measured sizes says so, by the MPI's own collectives in an order of its own
 * (the runtime's description has the rows; MUSTER_NODES_TABLE names a file of others). In the
 * reproducible mode all are combined in rank order. What is promised of the bits of a reduction
 * over several processes, by the way that it goes:
 *
 *   values and way                 the same on     from run to      however the ranks are
 *                                  every rank      run              spread over processes
 *   integers; max, min; any way    yes             yes              yes
 *   floats, reproducible mode      yes             yes              yes
 *   floats, "naive" and "flat"     yes             yes              yes
 *   floats, other ways of Muster   yes             yes              no
 *   sum, avg of f32, f64, the MPI  yes, but for    if the MPI       no
 *                                  which NaN (*)   does so (**)
 * (*) Tried when the runtime opens: an MPI that gives its processes different bits does not sum
 * floats. (**) The standard recommends it, and does not demand it.
 * With the option wire_dtype of muster/runtime.h sums and averages of f32, f16 and bf16 are rounded
 * on their way, and always go by ways of Muster.
 *  The table says who combines the values. The host and p2p support every line, with the same bits.
 *
 *   dtype                  op                over NCCL
 *   i8 u8 i32 u32 i64 u64  sum prod max min  NCCL; the same bits
 *   i16                    sum prod max min  Muster, on data that NCCL transfers
 *   bool                   prod max min      Muster
 *   f32 f64                sum prod avg      NCCL, in an order that it chooses; Muster in the
 *                                            reproducible mode and over shards
 *   f32 f64                max min           Muster: NCCL does not promise to propagate NaN
 *   f16 bf16               all               Muster: NCCL does not document its type for sums
 *  avg of integers and sum of bools are refused everywhere.
 *  Errors of the collectives. A rank that is refused alone, before it enters: INVALID_ARGUMENT (no
 * worker; a communicator of another runtime, or of which the worker is no member; a tensor in the
 * memory of another device; an overlap that is not allowed; an unknown op; a negative count or
 * tag), SHAPE_MISMATCH (element counts that do not match each other), DTYPE_MISMATCH (input and
 * output), OUT_OF_RANGE (root, to, from), OVERFLOW (a size that does not fit 64 bits), UNSUPPORTED
 * (a strided tensor; an op that the dtype does not have), BAD_STATE (outside the worker's body; a
 * body that runs once per logical shard; a communicator that this rank has released; one of
 * several ranks in a single call). The memory is then untouched, and the other members get ABORTED
 * once the body has returned this error.
 * On all ranks, once all have entered: INVALID_ARGUMENT (they entered different collectives; an
 * in-place part that is not the rank's own) and SHAPE_MISMATCH (the counts of different ranks do
 * not match).
 * At any time: OUT_OF_MEMORY, ABORTED, TIMEOUT (a deadline), and errors of the device.
 * Collectives of a group return the errors that concern one rank alone at once, the others at
 * group_end. */
#ifndef MUSTER_COMMUNICATOR_H
#define MUSTER_COMMUNICATOR_H

#include "muster/ops.h"
#include "muster/tensor.h"
#include "muster/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The workers that take part in a collective. */
typedef struct muster_communicator muster_communicator;

/* The communicator of all workers of the call; in a single call, of this worker alone. Owned by the
 * runtime. NULL for a NULL worker. */
MUSTER_API muster_communicator *muster_worker_communicator(muster_worker *worker);
/* The number of members (-1 for NULL), and the rank of this worker among them (-1 if it is no
 * member, or for NULL). */
MUSTER_API int32_t muster_communicator_size(const muster_communicator *communicator);
MUSTER_API int32_t muster_communicator_rank(const muster_communicator *communicator, const muster_worker *worker);

/* Where a member is: on which of the hosts that have members, and which of the members there it is.
 * Hosts count by the smallest rank that each has; the members of a host count in rank order,
 * whichever of its processes they are in. */
typedef struct muster_place {
    int32_t intra_rank, intra_size; /* among the members on the same host; their number */
    int32_t inter_rank, inter_size; /* the host among those of the communicator; their number */
} muster_place;
/* The place of the member of any process that has this rank in the communicator. All members of one
 * process are on one host. Sends nothing, and every member gets the same answer. After an error
 * *place is unchanged. Errors: INVALID_ARGUMENT (NULL), OUT_OF_RANGE (no such rank). */
MUSTER_API MUSTER_NODISCARD muster_status muster_communicator_place(const muster_communicator *communicator, int32_t rank,
                                                                    muster_place *place);

/* Splits a communicator. Every member enters. Members with the same color form a new communicator,
 * ranked by key and, for equal keys, by old rank. key may be negative. A member with a negative
 * color joins none; its *part is NULL. Either all members of a part get it or none does: after a
 * failure *part is NULL and nothing is kept. A part inherits the configuration (algorithms,
 * deadlines). It belongs to its members, and lives on between calls, until every member has
 * released it or the runtime closes.
 * Errors: as the collectives; BAD_STATE (an open group). A rank that is refused before it enters
 * finds *part unchanged. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_split(muster_worker *worker, muster_communicator *communicator, int32_t color,
                                                              int32_t key, muster_communicator **part);
/* Releases a part. A rank that has released it must not use it any more. Does not wait for the
 * other members. NULL is ignored. Errors: INVALID_ARGUMENT (no worker; the communicator of all
 * workers, or one of which this worker is no member), BAD_STATE (an open group; outside the
 * worker's body). */
MUSTER_API muster_status muster_worker_release(muster_worker *worker, muster_communicator *part);

/* output = op over the ranks of input. In place: the same memory. With MUSTER_CHECK=1 in the
 * environment this and the other reductions of floats but MAX and MIN are refused where an input is
 * NaN or infinite (INVALID_ARGUMENT, of the rank that brings it), or the result (OVERFLOW). */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_all_reduce(muster_worker *worker, muster_communicator *communicator,
                                                                   muster_reduction op, muster_tensor input, muster_tensor output);
/* output = sum over the ranks of (weight / W) * input, where W is the sum of all ranks' weights:
 * the average in which each rank counts by its weight, such as its rows (muster_worker_rows).
 * Weights are finite and not negative, and each rank passes its own. A rank of weight 0 brings
 * nothing, even where its input is NaN or infinite (NumPy's average would give NaN). It is computed
 * in f32, for f64 in f64, as the averaged outputs of a call are. Float dtypes. In place: the same
 * memory. It consists of two all_reduces, whose name messages about the other ranks have; on a GPU
 * it waits for the device in between. Not in a group. Errors: also INVALID_ARGUMENT (a weight; W is
 * 0 or overflows: on all ranks, and the output is untouched). */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_all_reduce_weighted(muster_worker *worker, muster_communicator *communicator,
                                                                            double weight, muster_tensor input, muster_tensor output);
/* input (shards, ...) holds this rank's logical shards; ranks may have different numbers of them.
 * output (...) = op over all shards of all ranks, combined in shard order: the bits do not depend
 * on how the shards are spread over ranks. Not in place. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_all_reduce_shards(muster_worker *worker, muster_communicator *communicator,
                                                                          muster_reduction op, muster_tensor input, muster_tensor output);
/* parameter = parameter + alpha * (sum over the ranks of gradient), on every rank, in one pass over
 * the memory. `parameter` must hold the same values on every rank, as a variable's replicas do;
 * gradient keeps its values. The two must not overlap. Float dtypes. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_all_reduce_axpy(muster_worker *worker, muster_communicator *communicator,
                                                                        double alpha, muster_tensor gradient, muster_tensor parameter);
/* The same with momentum: velocity = beta * velocity + alpha * (sum over the ranks of gradient);
 * parameter = parameter + velocity. Each rank maintains only the part of the velocity that it
 * updates, though its tensor has the size of the whole. The tensor belongs to this function: it
 * must be zero at first, and nothing else may use it, since its contents depend on the number of
 * ranks and on the algorithm. Not in a group. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_all_reduce_momentum(muster_worker *worker, muster_communicator *communicator,
                                                                            double alpha, muster_tensor gradient, double beta,
                                                                            muster_tensor velocity, muster_tensor parameter);
/* The root's output = op over the ranks of input. Other ranks' output is ignored. In place: the
 * root's input and output are the same memory. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_reduce(muster_worker *worker, muster_communicator *communicator,
                                                               muster_reduction op, int32_t root, muster_tensor input,
                                                               muster_tensor output);
/* Copies the root's input into every rank's output. Other ranks' input is ignored. In place: the
 * root's input and output are the same memory. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_broadcast(muster_worker *worker, muster_communicator *communicator, int32_t root,
                                                                  muster_tensor input, muster_tensor output);
/* output = all inputs, concatenated in rank order. Inputs may differ in count. In place: input is
 * the rank's own part of output. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_all_gather(muster_worker *worker, muster_communicator *communicator,
                                                                   muster_tensor input, muster_tensor output);
/* Like all_gather, at the root only. Other ranks' output is ignored. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_gather(muster_worker *worker, muster_communicator *communicator, int32_t root,
                                                               muster_tensor input, muster_tensor output);
/* Distributes the root's input in rank order; each rank gets as many elements as its output holds.
 * In place: the root's output is its own part of input. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_scatter(muster_worker *worker, muster_communicator *communicator, int32_t root,
                                                                muster_tensor input, muster_tensor output);
/* Computes op over the ranks of input and distributes the result in rank order; each rank gets as
 * many elements as its output holds. In place: output is the rank's own part of input. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_reduce_scatter(muster_worker *worker, muster_communicator *communicator,
                                                                       muster_reduction op, muster_tensor input, muster_tensor output);
/* Part j of rank i's input becomes part i of rank j's output. The parts are equal: the size of the
 * communicator divides the counts. In place: the same memory. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_all_to_all(muster_worker *worker, muster_communicator *communicator,
                                                                   muster_tensor input, muster_tensor output);
/* The same with parts of different sizes: send_counts[j] elements go to rank j, recv_counts[i]
 * elements come from rank i. Both arrays have one number per rank and are borrowed until return (in
 * a group, until its end). Not in place. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_all_to_all_uneven(muster_worker *worker, muster_communicator *communicator,
                                                                          muster_tensor input, const int64_t *send_counts,
                                                                          muster_tensor output, const int64_t *recv_counts);

/* Sends one message. dtype, count and tag (>= 0) must be equal on both sides. A send is a
 * rendezvous: it returns when the message has been received. Messages between two ranks are
 * received in the order in which they were sent; asking for another tag than that of the next
 * message is an error at once, since neither side could go on. To exchange messages in both
 * directions, or with itself, a rank puts them into a group. A message to itself needs both sides
 * in one group, and input and output must not overlap or must be the same memory; otherwise
 * group_end refuses it at once (INVALID_ARGUMENT). */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_send(muster_worker *worker, muster_communicator *communicator, int32_t to,
                                                             int32_t tag, muster_tensor input);
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_recv(muster_worker *worker, muster_communicator *communicator, int32_t from,
                                                             int32_t tag, muster_tensor output);

/* Returns once every member has entered. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_barrier(muster_worker *worker, muster_communicator *communicator);

/* A group: collectives and messages between begin and end, on this communicator, are checked and
 * recorded, and run together, in one rendezvous, at end. send_counts and recv_counts must stay
 * valid until end. The operations of a group must not depend on each other. All members put the
 * same collectives, in the same order, into the group; messages between two ranks are matched by
 * tag. split and release are refused in a group. A group holds at most 1024 operations. A body that
 * returns with an open group fails with BAD_STATE.
 * Errors: of begin, BAD_STATE (a group is open) and OUT_OF_MEMORY; of an operation in the group,
 * OUT_OF_RANGE (one more than 1024); of end, BAD_STATE (no group is open) and those of the
 * collectives in the group. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_group_begin(muster_worker *worker, muster_communicator *communicator);
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_group_end(muster_worker *worker, muster_communicator *communicator);

#ifdef __cplusplus
}
#endif
#endif
