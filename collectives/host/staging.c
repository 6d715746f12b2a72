/* Host memory that stands in for tensors: of devices that host code cannot read, and for the
 * reference algorithm. */
#include "host_impl.h"

#include <string.h>

int64_t mst_aside_bytes(int64_t bytes) { return (bytes + MST_CACHE_LINE - 1) & -(int64_t)MST_CACHE_LINE; }

muster_status mst_aside_begin(mst_aside *aside, int64_t bytes) {
    aside->used = 0;
    if (bytes <= aside->capacity) return MUSTER_OK;
    char *grown = mst_alloc_uninitialised((size_t)bytes);
    if (!grown) return mst_out_of_memory("collective: host memory for copies", bytes);
    mst_free(aside->memory);
    aside->memory = grown;
    aside->capacity = bytes;
    return MUSTER_OK;
}

void *mst_aside_take(mst_aside *aside, int64_t bytes) {
    void *address = aside->memory + aside->used;
    aside->used += mst_aside_bytes(bytes);
    return address;
}

muster_status mst_copy_out(muster_worker *worker, void *to_host, const void *from_device, int64_t bytes) {
    if (bytes == 0) return MUSTER_OK;
    if (mst_device_is_host(worker->device)) return memcpy(to_host, from_device, (size_t)bytes), MUSTER_OK;
    MUSTER_TRY(worker->device->memory->copy_out(worker->device, to_host, from_device, bytes));
    return mst_worker_sync(worker);
}

muster_status mst_copy_in(muster_worker *worker, void *to_device, const void *from_host, int64_t bytes) {
    if (bytes == 0 || to_device == from_host) return MUSTER_OK;
    if (mst_device_is_host(worker->device)) return memcpy(to_device, from_host, (size_t)bytes), MUSTER_OK;
    MUSTER_TRY(worker->device->memory->copy_in(worker->device, to_device, from_host, bytes));
    return mst_worker_sync(worker);
}
