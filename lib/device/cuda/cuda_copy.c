/* Copies. Page-locked host memory is copied directly. Other memory is staged through page-locked
 * chunks, because the driver would otherwise copy it while the caller waits, and might wait for
 * other work as well. Copies in release the host memory at once. Copies out are complete after the
 * next synchronize. */
#include "cuda_device_private.h"

#include <string.h>

static mst_cu_address address_of(const void *pointer) { return (mst_cu_address)(uintptr_t)pointer; }

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- opening and closing ---- */

static muster_status make_base(mst_cuda *cuda, char **base, int64_t bytes) {
    void *address = NULL;
    MUSTER_TRY(MST_CU(cuda, cuMemHostAlloc, &address, (size_t)bytes, MST_CU_HOST_ALLOC_PORTABLE));
    *base = address;
    return MUSTER_OK;
}

muster_status mst_cuda_open_staging(mst_cuda *cuda) {
    MUSTER_TRY(make_base(cuda, &cuda->in_base, (int64_t)MST_CUDA_CHUNKS * MST_CUDA_CHUNK));
    MUSTER_TRY(make_base(cuda, &cuda->out_base, (int64_t)MST_CUDA_OUT_SLOTS * MST_CUDA_COPY_MAX));
    for (int32_t i = 0; i < MST_CUDA_CHUNKS; i++) {
        cuda->chunks[i].base = cuda->in_base + (int64_t)i * MST_CUDA_CHUNK;
        for (int queue = 0; queue < 2; queue++) MUSTER_TRY(mst_cuda_make_event(cuda, &cuda->chunks[i].done[queue]));
    }
    for (int32_t i = 0; i < MST_CUDA_OUT_SLOTS; i++) {
        cuda->slots[i].base = cuda->out_base + (int64_t)i * MST_CUDA_COPY_MAX;
        MUSTER_TRY(mst_cuda_make_event(cuda, &cuda->slots[i].done));
    }
    return MUSTER_OK;
}

void mst_cuda_close_staging(mst_cuda *cuda) {
    for (int32_t i = MST_CUDA_OUT_SLOTS; i-- > 0;) mst_cuda_end_event(cuda, &cuda->slots[i].done);
    for (int32_t i = MST_CUDA_CHUNKS; i-- > 0;) {
        for (int queue = 2; queue-- > 0;) mst_cuda_end_event(cuda, &cuda->chunks[i].done[queue]);
    }
    if (cuda->out_base) (void)cuda->api->cuMemFreeHost(cuda->out_base);
    if (cuda->in_base) (void)cuda->api->cuMemFreeHost(cuda->in_base);
    memset(cuda->slots, 0, sizeof cuda->slots);
    memset(cuda->chunks, 0, sizeof cuda->chunks);
    cuda->in_base = cuda->out_base = NULL;
}

/* ---- copies in ---- */

/* Records the end of the transfers out of the current chunk. Then moves on to the next chunk, after
 * waiting until the transfers out of that one are complete. */
static muster_status next_chunk(mst_cuda *cuda) {
    mst_cuda_chunk *full = &cuda->chunks[cuda->chunk];
    for (int queue = 0; queue < 2; queue++) {
        if (full->waits[queue]) MUSTER_TRY(MST_CU(cuda, cuEventRecord, full->done[queue], mst_cuda_stream_of(cuda, (mst_queue)queue)));
    }
    int32_t next = (cuda->chunk + 1) % MST_CUDA_CHUNKS;
    mst_cuda_chunk *chunk = &cuda->chunks[next];
    for (int queue = 0; queue < 2; queue++) {
        if (chunk->waits[queue]) MUSTER_TRY(mst_cuda_wait_event(cuda, chunk->done[queue]));
        chunk->waits[queue] = false;
    }
    chunk->filled = 0;
    cuda->chunk = next;
    return MUSTER_OK;
}

static muster_status stage_in(mst_cuda *cuda, mst_queue queue, mst_cu_address to, const char *from, int64_t bytes) {
    while (bytes > 0) {
        if (cuda->chunks[cuda->chunk].filled == MST_CUDA_CHUNK) MUSTER_TRY(next_chunk(cuda));
        mst_cuda_chunk *chunk = &cuda->chunks[cuda->chunk];
        int64_t part = smaller(smaller(bytes, MST_CUDA_COPY_MAX), MST_CUDA_CHUNK - chunk->filled);
        char *staged = chunk->base + chunk->filled;
        memcpy(staged, from, (size_t)part);
        chunk->waits[queue] = true; /* even if the copy below fails: it may have started */
        chunk->filled = smaller(MST_CUDA_CHUNK, (chunk->filled + part + MST_CACHE_LINE - 1) / MST_CACHE_LINE * MST_CACHE_LINE);
        MUSTER_TRY(MST_CU(cuda, cuMemcpyHtoDAsync_v2, to, staged, (size_t)part, mst_cuda_stream_of(cuda, queue)));
        to += (mst_cu_address)part;
        from += part;
        bytes -= part;
    }
    return MUSTER_OK;
}

static muster_status bring_in(mst_cuda *cuda, mst_queue queue, void *to_device, const void *from_host, int64_t bytes) {
    bool locked = false;
    MUSTER_TRY(mst_cuda_find_locked(cuda, from_host, bytes, false, &locked));
    if (locked) return MST_CU(cuda, cuMemcpyHtoDAsync_v2, address_of(to_device), from_host, (size_t)bytes, mst_cuda_stream_of(cuda, queue));
    return stage_in(cuda, queue, address_of(to_device), from_host, bytes);
}

static muster_status copy_in(mst_cuda *cuda, void *to_device, const void *from_host, int64_t bytes) {
    MUSTER_TRY(mst_cuda_before_compute(cuda));
    return bring_in(cuda, MST_QUEUE_COMPUTE, to_device, from_host, bytes);
}

muster_status mst_cuda_copy_in(mst_device *device, void *to_device, const void *from_host, int64_t bytes) {
    mst_cuda *cuda = mst_cuda_of(device);
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    return mst_cuda_end(cuda, &scope, bytes > 0 ? copy_in(cuda, to_device, from_host, bytes) : MUSTER_OK);
}

/* The destination may be memory that was just released, and work issued before may still use it. */
static muster_status wait_for_released(mst_cuda *cuda) {
    if (cuda->release_unrecorded) MUSTER_TRY(mst_cuda_record_released(cuda));
    if (!cuda->release_recorded) return MUSTER_OK;
    MUSTER_TRY(MST_CU(cuda, cuStreamWaitEvent, cuda->copy, cuda->released, 0));
    cuda->release_recorded = false;
    return MUSTER_OK;
}

static void remember_async(mst_cuda *cuda, uint64_t begin, int64_t bytes) {
    uint64_t end = begin + (uint64_t)bytes;
    bool first = cuda->async_end == 0;
    if (first || begin < cuda->async_begin) cuda->async_begin = begin;
    if (first || end > cuda->async_end) cuda->async_end = end;
    cuda->async_used = cuda->copy_busy = true;
}

static muster_status copy_in_async(mst_cuda *cuda, void *to_device, const void *from_host, int64_t bytes) {
    MUSTER_TRY(wait_for_released(cuda));
    remember_async(cuda, address_of(to_device), bytes);
    return bring_in(cuda, MST_QUEUE_COPY, to_device, from_host, bytes);
}

muster_status mst_cuda_copy_in_async(mst_device *device, void *to_device, const void *from_host, int64_t bytes) {
    mst_cuda *cuda = mst_cuda_of(device);
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    return mst_cuda_end(cuda, &scope, bytes > 0 ? copy_in_async(cuda, to_device, from_host, bytes) : MUSTER_OK);
}

/* ---- copies out ---- */

/* Call it when the device has written the slot. */
static void deliver_slot(mst_cuda_slot *slot) {
    for (int32_t i = 0; i < slot->count; i++) memcpy(slot->parts[i].to, slot->base + slot->parts[i].offset, (size_t)slot->parts[i].bytes);
    slot->count = 0;
    slot->filled = 0;
}

muster_status mst_cuda_deliver(mst_cuda *cuda) {
    /* oldest first */
    for (int32_t i = 1; i <= MST_CUDA_OUT_SLOTS; i++) deliver_slot(&cuda->slots[(cuda->slot + i) % MST_CUDA_OUT_SLOTS]);
    for (int32_t i = 0; i < MST_CUDA_CHUNKS; i++) {
        cuda->chunks[i].filled = 0;
        cuda->chunks[i].waits[0] = cuda->chunks[i].waits[1] = false;
    }
    return MUSTER_OK;
}

void mst_cuda_discard(mst_cuda *cuda) {
    for (int32_t i = 0; i < MST_CUDA_OUT_SLOTS; i++) cuda->slots[i].count = 0;
}

static muster_status next_slot(mst_cuda *cuda) {
    MUSTER_TRY(MST_CU(cuda, cuEventRecord, cuda->slots[cuda->slot].done, cuda->compute));
    int32_t next = (cuda->slot + 1) % MST_CUDA_OUT_SLOTS;
    mst_cuda_slot *slot = &cuda->slots[next];
    if (slot->filled > 0) MUSTER_TRY(mst_cuda_wait_event(cuda, slot->done));
    deliver_slot(slot);
    cuda->slot = next;
    return MUSTER_OK;
}

static muster_status stage_out(mst_cuda *cuda, char *to, mst_cu_address from, int64_t bytes) {
    while (bytes > 0) {
        if (cuda->slots[cuda->slot].filled == MST_CUDA_COPY_MAX || cuda->slots[cuda->slot].count == MST_CUDA_OUT_PARTS)
            MUSTER_TRY(next_slot(cuda));
        mst_cuda_slot *slot = &cuda->slots[cuda->slot];
        int64_t part = smaller(bytes, MST_CUDA_COPY_MAX - slot->filled);
        MUSTER_TRY(MST_CU(cuda, cuMemcpyDtoHAsync_v2, slot->base + slot->filled, from, (size_t)part, cuda->compute));
        slot->parts[slot->count].to = to;
        slot->parts[slot->count].offset = slot->filled;
        slot->parts[slot->count++].bytes = part;
        slot->filled = smaller(MST_CUDA_COPY_MAX, (slot->filled + part + MST_CACHE_LINE - 1) / MST_CACHE_LINE * MST_CACHE_LINE);
        to += part;
        from += (mst_cu_address)part;
        bytes -= part;
    }
    return MUSTER_OK;
}

static muster_status copy_out(mst_cuda *cuda, void *to_host, const void *from_device, int64_t bytes) {
    bool locked = false;
    MUSTER_TRY(mst_cuda_before_compute(cuda));
    MUSTER_TRY(mst_cuda_find_locked(cuda, to_host, bytes, true, &locked));
    if (locked) return MST_CU(cuda, cuMemcpyDtoHAsync_v2, to_host, address_of(from_device), (size_t)bytes, cuda->compute);
    return stage_out(cuda, to_host, address_of(from_device), bytes);
}

muster_status mst_cuda_copy_out(mst_device *device, void *to_host, const void *from_device, int64_t bytes) {
    mst_cuda *cuda = mst_cuda_of(device);
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    return mst_cuda_end(cuda, &scope, bytes > 0 ? copy_out(cuda, to_host, from_device, bytes) : MUSTER_OK);
}

/* ---- on the device ---- */

static muster_status copy(mst_cuda *cuda, void *to_device, const void *from_device, int64_t bytes) {
    MUSTER_TRY(mst_cuda_before_compute(cuda));
    return MST_CU(cuda, cuMemcpyDtoDAsync_v2, address_of(to_device), address_of(from_device), (size_t)bytes,
                  mst_cuda_stream_of(cuda, cuda->head.work_queue));
}

muster_status mst_cuda_copy(mst_device *device, void *to_device, const void *from_device, int64_t bytes) {
    mst_cuda *cuda = mst_cuda_of(device);
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    return mst_cuda_end(cuda, &scope, bytes > 0 ? copy(cuda, to_device, from_device, bytes) : MUSTER_OK);
}
