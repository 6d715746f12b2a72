/* Staging memory on a worker's device, for the transports between devices. */
#ifndef MST_DEVICE_STAGING_PRIVATE_H
#define MST_DEVICE_STAGING_PRIVATE_H

#include "transport_private.h"

/* A staging buffer that only grows. All communicators of the worker share it. Every use of it ends
 * before the worker's next collective begins: the worker's queue, and the events that the queue
 * waits for, enforce this order. */
typedef struct mst_device_staging {
    char *memory;
    int64_t capacity, used;
} mst_device_staging;

/* Starts a new round: everything taken before is given back, and there is room for `bytes`, the sum
 * of mst_device_staging_bytes over the buffers that will be taken. */
muster_status mst_device_staging_begin(muster_worker *worker, mst_device_staging *staging, int64_t bytes);
int64_t mst_device_staging_bytes(int64_t bytes);
void *mst_device_staging_take(mst_device_staging *staging, int64_t bytes);
/* Call it between runs, or after the worker's device is lost. */
void mst_device_staging_free(mst_device *device, mst_device_staging *staging);

/* Can the devices of these workers move tensors between each other? Each needs memory of its own,
 * queues, events and kernels, and all must have the same backend. */
bool mst_devices_move_tensors(const mst_pool *pool);

/* For the prepare step: if request i would overwrite its input before the peers have read it, the
 * peers are offered a copy of the input. mst_device_copy_bytes returns the staging memory that the
 * copy needs; it is 0 if no copy is needed, or if the peers are offered a copy already. */
int64_t mst_device_copy_bytes(const mst_batch *batch, int32_t i);
muster_status mst_device_offer_copy(mst_batch *batch, int32_t i, mst_device_staging *staging);

#endif
