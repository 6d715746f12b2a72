/* Memory of a worker's device for copies, of the transports between devices. */
#ifndef MST_DEVICE_STAGING_PRIVATE_H
#define MST_DEVICE_STAGING_PRIVATE_H

#include "transport_private.h"

/* Grows, and is kept. Shared by all communicators of the worker: what uses it is done, in the order
 * of the worker's queue and of the events that it waits for, before the worker's next collective
 * begins. */
typedef struct mst_device_staging {
    char *memory;
    int64_t capacity, used;
} mst_device_staging;

/* begin: makes room for `bytes`, the sum of mst_device_staging_bytes of what will be taken; what
 * was taken before is given back. */
muster_status mst_device_staging_begin(muster_worker *worker, mst_device_staging *staging, int64_t bytes);
int64_t mst_device_staging_bytes(int64_t bytes);
void *mst_device_staging_take(mst_device_staging *staging, int64_t bytes);
/* Between runs, or when the worker's device is lost. */
void mst_device_staging_free(mst_device *device, mst_device_staging *staging);

/* Can devices of these workers work together: memory of their own, queues, events, kernels, and one
 * backend? */
bool mst_devices_move_tensors(const mst_pool *pool);

/* Prepare of a request whose input is overwritten before the peers have read it: they are offered a
 * copy. bytes: what that takes, 0 where it is not so, or the copy is there already. */
int64_t mst_device_copy_bytes(const mst_batch *batch, int32_t i);
muster_status mst_device_offer_copy(mst_batch *batch, int32_t i, mst_device_staging *staging);

#endif
