/* Scratch memory for helpers that give a tensor. After a failure it is "no tensor", and the first
 * operation on it returns the failure. */
#ifndef SCHEDULER_SCRATCH_H
#define SCHEDULER_SCRATCH_H

#include "muster/worker.h"

static inline muster_tensor scratch_tensor(muster_worker *worker, muster_dtype dtype, int32_t ndim, const int64_t *shape) {
    muster_tensor tensor = muster_tensor_none();
    return muster_worker_scratch(worker, dtype, ndim, shape, &tensor) == MUSTER_OK ? tensor : muster_tensor_none();
}

#endif
