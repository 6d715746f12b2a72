/* muster/worker.h: what a function body can ask its worker. Threads of every function here: worker.
 * For a NULL worker, numbers are -1 (the weight and "cancelled" are 0) and the backend is NULL;
 * functions that return a status return INVALID_ARGUMENT. For a worker that the program has kept
 * after its body, functions that return a status return BAD_STATE, those that give a tensor give
 * "no tensor", and muster_worker_scratch_mark gives -1. The other numbers, the backend and
 * "cancelled" are read from the worker's memory without a check: for a kept worker they are
 * undefined, and after its runtime has closed they must not be asked for. */
#ifndef MUSTER_WORKER_H
#define MUSTER_WORKER_H

#include "muster/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The thread that drives one device, during one call. Valid only inside the body that received
 * it. */
typedef struct muster_worker muster_worker;

/* The rank, in [0, size), and the number of devices that take part in the call (1 in a single
 * call). */
MUSTER_API int32_t muster_worker_rank(const muster_worker *worker);
MUSTER_API int32_t muster_worker_size(const muster_worker *worker);

/* "host" or "cuda": the backend of this worker's device. */
MUSTER_API const char *muster_worker_backend(const muster_worker *worker);

/* first_row: the position of this worker's first row among the rows that the call selects (in the
 * current slice). rows: the number of this worker's rows. total_rows: the number of rows of the
 * whole call. In a call that scatters nothing they are rank, 1 and size, as if each worker had one
 * row. */
MUSTER_API int64_t muster_worker_first_row(const muster_worker *worker);
MUSTER_API int64_t muster_worker_rows(const muster_worker *worker);
MUSTER_API int64_t muster_worker_total_rows(const muster_worker *worker);

/* In a runtime with logical shards (muster/runtime.h): shard is the shard being run, in [0,
 * shards), or the worker's first shard if the body runs once for all of them; shards is the number
 * of shards of the call; shards_here is the number of shards in this run of the body. In other
 * runtimes every worker is one shard: rank, size and 1. */
MUSTER_API int32_t muster_worker_shard(const muster_worker *worker);
MUSTER_API int32_t muster_worker_shards(const muster_worker *worker);
MUSTER_API int32_t muster_worker_shards_here(const muster_worker *worker);
/* The rows of shard muster_worker_shard() + shard_in_rank; *first_row counts from this worker's
 * first row. Errors: INVALID_ARGUMENT, OUT_OF_RANGE. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_shard_rows(const muster_worker *worker, int32_t shard_in_rank, int64_t *first_row,
                                                                   int64_t *rows);

/* The current slice, in [0, slices), and the number of slices. */
MUSTER_API int64_t muster_worker_slice(const muster_worker *worker);
MUSTER_API int64_t muster_worker_slices(const muster_worker *worker);

/* The weight of this worker (and slice) in averages: its number of rows, unless the body sets
 * another. A weight must be finite and >= 0. If all weights are 0, collecting an averaged output
 * fails. Errors of set_weight: INVALID_ARGUMENT, BAD_STATE (outside a call). */
MUSTER_API double muster_worker_weight(const muster_worker *worker);
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_set_weight(muster_worker *worker, double weight);

/* 1 once the call is aborted (another rank failed, in any process, or a deadline passed). A long
 * body should check this and return. */
MUSTER_API int32_t muster_worker_cancelled(const muster_worker *worker);

/* Contiguous scratch memory on the worker's device, aligned to 64 bytes, uninitialised, valid until
 * the body returns. A body with a loop should take it once, before the loop. Blocks are kept
 * between calls, so a repeated call allocates nothing. A failure sets the last error and gives "no
 * tensor"; every worker operation on that tensor returns the same failure. Errors: INVALID_ARGUMENT
 * (no worker, no such dtype, a bad shape), OVERFLOW, OUT_OF_MEMORY, and errors of the device. */
MUSTER_API muster_tensor muster_worker_scratch(muster_worker *worker, muster_dtype dtype, int32_t ndim, const int64_t *shape);

/* Gives scratch memory back before the body returns, for a loop whose operations take some in every
 * round: release(mark) ends all scratch tensors that were taken after `mark` was returned; the
 * tensors before it stay. Work that is queued on the device still finds its memory, since later
 * work is ordered behind it. The mark of no worker is -1. Errors: INVALID_ARGUMENT (no worker;
 * no mark of this run of the body, or one before which scratch has been given back already). */
MUSTER_API int64_t muster_worker_scratch_mark(const muster_worker *worker);
MUSTER_API muster_status muster_worker_scratch_release(muster_worker *worker, int64_t mark);

/* Copy between the worker's device and host memory: one tensor is on the device, the other in host
 * memory. Both are contiguous, with the same dtype and element count. The copy is ordered with the
 * worker's operations and complete on return.
 * Errors: INVALID_ARGUMENT (memory of another device; no tensor), DTYPE_MISMATCH, SHAPE_MISMATCH
 * (different element counts), OVERFLOW, UNSUPPORTED (a strided tensor), and errors of the
 * device. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_read(muster_worker *worker, muster_tensor device_tensor, muster_tensor host_tensor);
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_write(muster_worker *worker, muster_tensor host_tensor,
                                                              muster_tensor device_tensor);

#ifdef __cplusplus
}
#endif
#endif
