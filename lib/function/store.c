/* Stores: memory of a function that is kept from call to call, and replaced when more is needed. */
#include "place_private.h"

void mst_host_store_free(mst_store *store) {
    mst_free(store->address);
    *store = (mst_store){0};
}

muster_status mst_host_store_reserve(mst_store *store, int64_t bytes, const char *what) {
    if (bytes <= store->capacity && store->address) return MUSTER_OK;
    void *address = mst_alloc_uninitialised((size_t)bytes);
    if (!address) return mst_out_of_memory(what, bytes);
    mst_free(store->address);
    *store = (mst_store){.address = address, .capacity = bytes};
    return MUSTER_OK;
}

void mst_device_store_free(mst_device *device, mst_store *store) {
    device->memory->release(device, store->address);
    *store = (mst_store){0};
}

muster_status mst_device_store_reserve(mst_device *device, mst_store *store, int64_t bytes) {
    if (bytes <= store->capacity && store->address) return MUSTER_OK;
    void *address;
    /* Nothing uses the old block: every run has waited for its device. A wait here would have no
     * deadline. */
    MUSTER_TRY(device->memory->allocate(device, bytes, &address));
    device->memory->release(device, store->address);
    *store = (mst_store){.address = address, .capacity = bytes};
    return MUSTER_OK;
}

muster_status mst_worker_store_reserve(muster_worker *worker, mst_store *store, int64_t bytes) {
    if (bytes <= store->capacity && store->address) return MUSTER_OK;
    void *address;
    /* Queued work may still use the old block. */
    if (!mst_device_is_host(worker->device) || worker->device->queued) MUSTER_TRY(mst_worker_sync(worker));
    MUSTER_TRY(mst_worker_allocate(worker, bytes, &address));
    worker->device->memory->release(worker->device, store->address);
    *store = (mst_store){.address = address, .capacity = bytes};
    return MUSTER_OK;
}

void mst_locked_store_free(mst_device *device, mst_store *store) {
    if (device->host_memory)
        device->host_memory->release(device, store->address);
    else
        mst_free(store->address);
    *store = (mst_store){0};
}

muster_status mst_locked_store_reserve(mst_device *device, mst_store *store, int64_t bytes, const char *what) {
    void *address;
    if (bytes <= store->capacity && store->address) return MUSTER_OK;
    if (!device->host_memory) return mst_host_store_reserve(store, bytes, what);
    MUSTER_TRY(device->host_memory->allocate(device, bytes, &address));
    device->host_memory->release(device, store->address);
    *store = (mst_store){.address = address, .capacity = bytes};
    return MUSTER_OK;
}
