/* The tensors of muster_runtime_tensor_create, as tensors.c keeps them and tensor_copy.c moves
 * them. */
#ifndef MST_TENSORS_IMPL_H
#define MST_TENSORS_IMPL_H

#include "runtime_impl.h"

/* With the pool's turn. The run of `task` on the worker of one device; `argument` reaches it
 * through mst_on_device. */
typedef struct mst_on_device {
    int32_t rank;
    muster_status (*task)(muster_worker *worker, void *argument);
    void *argument;
} mst_on_device;
muster_status mst_runtime_run_on(muster_runtime *runtime, mst_on_device on);

/* The tensor is well-formed and, if it is on a device, all of it lies in one that create gave. */
muster_status mst_runtime_check_placed(muster_runtime *runtime, muster_tensor tensor, const char *where, const char *what);

#endif
