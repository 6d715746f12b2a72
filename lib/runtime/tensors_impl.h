/* The tensors of muster_runtime_tensor_create, which tensors.c keeps and tensor_copy.c copies. */
#ifndef MST_TENSORS_IMPL_H
#define MST_TENSORS_IMPL_H

#include "runtime_impl.h"

/* A task for the worker of one device, which receives `argument`. */
typedef struct mst_on_device {
    int32_t rank;
    muster_status (*task)(muster_worker *worker, void *argument);
    void *argument;
} mst_on_device;
/* Between mst_pool_enter and mst_pool_leave. Runs the task and synchronizes the device. */
muster_status mst_runtime_run_on(muster_runtime *runtime, mst_on_device on);

/* Tensors that lie `stride` bytes apart: an array of them, or members of other structs. */
typedef struct mst_tensor_list {
    const muster_tensor *first;
    size_t stride;
} mst_tensor_list;
static inline const muster_tensor *mst_tensor_of(mst_tensor_list list, int32_t index) {
    return (const muster_tensor *)((const char *)list.first + (size_t)index * list.stride);
}
/* muster_runtime_infer_device for the function `where`, which calls the tensors `what`. */
muster_status mst_runtime_infer_device(muster_runtime *runtime, mst_tensor_list tensors, int32_t count, const char *where, const char *what,
                                       int32_t *rank);

/* Fails unless the tensor is well-formed and, if it is on a device, lies entirely within the memory
 * of one tensor of muster_runtime_tensor_create. */
muster_status mst_runtime_check_placed(muster_runtime *runtime, muster_tensor tensor, const char *where, const char *what);

/* Between mst_pool_enter and mst_pool_leave. Can code of the device `rank` address the memory of
 * the device `other`? Always, if they are the same. */
muster_status mst_runtime_peer_access(const muster_runtime *runtime, int32_t rank, int32_t other, bool *access);
/* Between mst_pool_enter and mst_pool_leave. muster_runtime_tensor_copy of tensors that have been
 * checked: equal dtypes and shapes, and memory that is there. */
muster_status mst_runtime_copy_placed(muster_runtime *runtime, muster_tensor from, muster_tensor to, const char *where);

#endif
