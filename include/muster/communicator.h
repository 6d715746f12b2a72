/* muster/communicator.h: the collectives that workers enter together, inside a function body. Threads: worker.
 *
 * SPMD: every worker of the call enters the same collectives in the same order, also a worker without rows. A worker that fails or
 * returns without entering ends the call: everyone waiting returns MUSTER_ABORTED and the caller gets the original error. Workers
 * that enter different collectives (operation, dtype, element count, root) get an error that names both ranks. Tensors are
 * contiguous, in the memory of the worker's device, and of equal dtype and element count on every rank. */
#ifndef MUSTER_COMMUNICATOR_H
#define MUSTER_COMMUNICATOR_H

#include "muster/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* output = op over the ranks of input; the same value, bit for bit, on every rank (ranks are combined in rank order). In place when both
 * are the same memory; otherwise they must not overlap. MUSTER_AVG: equal weights, float dtypes, cannot overflow in the sum.
 * f16 and bf16 accumulate in f32. */
MUSTER_API muster_status muster_worker_all_reduce(muster_worker *worker, muster_reduction op, muster_tensor input, muster_tensor output);

/* The root's tensor is copied into everybody's. */
MUSTER_API muster_status muster_worker_broadcast(muster_worker *worker, int32_t root, muster_tensor tensor);

/* Returns once every worker of the call has entered. */
MUSTER_API muster_status muster_worker_barrier(muster_worker *worker);

#ifdef __cplusplus
}
#endif
#endif
