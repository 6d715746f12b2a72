#include "device_staging_private.h"

enum { ALIGNMENT = 256 };
int64_t mst_device_staging_bytes(int64_t bytes) { return (bytes + ALIGNMENT - 1) & -(int64_t)ALIGNMENT; }

/* The queues of the peers may still use the old buffer. After the sync they do not, because this
 * worker's queue has waited for them. */
muster_status mst_device_staging_begin(muster_worker *worker, mst_device_staging *staging, int64_t bytes) {
    mst_device *device = worker->device;
    staging->used = 0;
    if (bytes <= staging->capacity) return MUSTER_OK;
    if (staging->memory) {
        MUSTER_TRY(mst_worker_sync(worker));
        device->memory->release(device, staging->memory);
        staging->memory = NULL;
        staging->capacity = 0;
    }
    void *address = NULL;
    MUSTER_TRY(mst_worker_allocate(worker, bytes, &address));
    staging->memory = address;
    staging->capacity = bytes;
    return MUSTER_OK;
}

void *mst_device_staging_take(mst_device_staging *staging, int64_t bytes) {
    void *address = staging->memory + staging->used;
    staging->used += mst_device_staging_bytes(bytes);
    return address;
}

void mst_device_staging_free(mst_device *device, mst_device_staging *staging) {
    if (staging->memory && !device->lost) device->memory->release(device, staging->memory);
    *staging = (mst_device_staging){.memory = NULL};
}

/* ---- devices ---- */

static bool moves_tensors(const mst_device *device) { return !mst_device_is_host(device) && device->queue && device->code; }

bool mst_devices_move_tensors(const mst_pool *pool) {
    for (int32_t r = 0; r < mst_pool_size(pool); r++) {
        const mst_device *device = mst_pool_worker((mst_pool *)(uintptr_t)pool, r)->device;
        if (!moves_tensors(device) || device->table != mst_pool_worker((mst_pool *)(uintptr_t)pool, 0)->device->table) return false;
    }
    return true;
}

/* ---- inputs that are overwritten ---- */

int64_t mst_device_copy_bytes(const mst_batch *batch, int32_t i) {
    return mst_request_overwrites_input(&batch->offered[i]) ? mst_device_staging_bytes(mst_request_input_bytes(&batch->offered[i])) : 0;
}

muster_status mst_device_offer_copy(mst_batch *batch, int32_t i, mst_device_staging *staging) {
    mst_device *device = batch->worker->device;
    mst_request *offered = &batch->offered[i];
    if (!mst_request_overwrites_input(offered)) return MUSTER_OK;
    const int64_t bytes = mst_request_input_bytes(offered);
    void *copy = mst_device_staging_take(staging, bytes);
    MUSTER_TRY(device->memory->copy(device, copy, offered->input, bytes));
    offered->input = copy;
    return MUSTER_OK;
}
