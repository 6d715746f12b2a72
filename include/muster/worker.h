/* muster/worker.h: what a function body can ask of the worker that runs it. Threads of every
 * function here: worker. Asked of NULL, numbers are -1 (a weight and "cancelled" 0), and the
 * backend is NULL. */
#ifndef MUSTER_WORKER_H
#define MUSTER_WORKER_H

#include "muster/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The thread that drives one device, during one call. Valid only inside the body that received
 * it. */
typedef struct muster_worker muster_worker;

/* rank in [0, size); size = number of devices that take part (1 in a single call). */
MUSTER_API int32_t muster_worker_rank(const muster_worker *worker);
MUSTER_API int32_t muster_worker_size(const muster_worker *worker);

/* "host" or "cuda": the backend of this worker's device. */
MUSTER_API const char *muster_worker_backend(const muster_worker *worker);

/* Position of this worker's first row in the call's selected rows (in the current slice), its
 * number of rows, and the number of rows of the whole call. Where nothing is scattered: rank, 1 and
 * size, as if each worker had one row. */
MUSTER_API int64_t muster_worker_first_row(const muster_worker *worker);
MUSTER_API int64_t muster_worker_rows(const muster_worker *worker);
MUSTER_API int64_t muster_worker_total_rows(const muster_worker *worker);

/* In a runtime with logical shards (muster/runtime.h): the shard being run in [0, shards), or the
 * first one where the body runs once for all shards of its worker; the number of shards of the
 * call; and the number of shards in this run of the body. Elsewhere every worker is
 * one shard: rank, size and 1. */
MUSTER_API int32_t muster_worker_shard(const muster_worker *worker);
MUSTER_API int32_t muster_worker_shards(const muster_worker *worker);
MUSTER_API int32_t muster_worker_shards_here(const muster_worker *worker);
/* The rows of shard muster_worker_shard() + shard_in_rank, counted from this worker's first row.
 * Errors: INVALID_ARGUMENT, OUT_OF_RANGE. */
MUSTER_API muster_status muster_worker_shard_rows(const muster_worker *worker, int32_t shard_in_rank, int64_t *first_row, int64_t *rows);

/* The current slice in [0, slices) and the number of slices. */
MUSTER_API int64_t muster_worker_slice(const muster_worker *worker);
MUSTER_API int64_t muster_worker_slices(const muster_worker *worker);

/* The weight of this worker (and slice) in averages: its rows unless the body sets another. Refused
 * unless finite and >= 0; weights that are all 0 make an average of nothing, which is refused when
 * the outputs are collected. */
MUSTER_API double muster_worker_weight(const muster_worker *worker);
MUSTER_API muster_status muster_worker_set_weight(muster_worker *worker, double weight);

/* 1 once the call is aborted (another rank failed, or a deadline passed): a long body should check
 * it and return. */
MUSTER_API int32_t muster_worker_cancelled(const muster_worker *worker);

/* Contiguous scratch memory on the worker's device, 64-byte aligned, uninitialised, valid until the
 * body returns: a body with a loop takes it once, before the loop. Blocks are kept between calls: a
 * repeated call allocates nothing. On failure (memory, overflow, bad shape) gives "no tensor", sets
 * the last error, and every worker operation on it returns that failure. */
MUSTER_API muster_tensor muster_worker_scratch(muster_worker *worker, muster_dtype dtype, int32_t ndim, const int64_t *shape);

/* Copies between the worker's device and host memory, ordered with the worker's operations,
 * complete on return. Both tensors: same dtype and element count, contiguous. One of them on the
 * device, the other in host memory. */
MUSTER_API muster_status muster_worker_read(muster_worker *worker, muster_tensor device_tensor, muster_tensor host_tensor);
MUSTER_API muster_status muster_worker_write(muster_worker *worker, muster_tensor host_tensor, muster_tensor device_tensor);

#ifdef __cplusplus
}
#endif
#endif
