/* The slab of a device: segments of the driver's memory, handed out in blocks. Work runs in the
 * order of issue, so released memory may be reused at once. Only async copies need more than
 * that. */
#include "cuda_device_private.h"
#include "environment_impl.h"

#include <stdio.h>

enum {
    SLAB_DEFAULT = 64 << 20,
    SLAB_SHARE = 8,          /* the first segment takes at most the free memory divided by this */
    SEGMENT_UNIT = 2 << 20,  /* the driver's unit of allocation */
    SMALL_SLAB = 1 << 30,    /* up to this size each growth doubles the slab */
    LARGE_STEP = 256 << 20,  /* beyond it the slab grows by at least this, to leave memory to others */
    HEADROOM_DIVISOR = 20,   /* what stays free: the GPU's memory divided by this ... */
    HEADROOM_MOST = 1 << 30, /* ... and at most this */
};

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t round_segment(int64_t bytes) {
    return bytes > INT64_MAX - SEGMENT_UNIT ? bytes : (bytes + SEGMENT_UNIT - 1) / SEGMENT_UNIT * SEGMENT_UNIT;
}

/* The size that the settings or the environment give, else the default, or less on a device with
 * little free memory. */
static muster_status read_size(const mst_cuda *cuda, int64_t *bytes) {
    bool is_set;
    *bytes = larger(SEGMENT_UNIT, cuda->free_seen / SLAB_SHARE < SLAB_DEFAULT ? cuda->free_seen / SLAB_SHARE : SLAB_DEFAULT);
    if (cuda->settings.memory != 0) {
        *bytes = larger(cuda->settings.memory, 0);
        return MUSTER_OK;
    }
    return mst_environment_number("MUSTER_DEVICE_MEMORY", "a number of bytes", 0, INT64_MAX, bytes, &is_set);
}

/* ---- growing ---- */

static muster_status no_room(const mst_cuda *cuda, int64_t bytes, int64_t free_bytes, const char *when) {
    return mst_error(
        MUSTER_OUT_OF_MEMORY,
        "%s: out of memory: expected room for %lld bytes, received none: %lld of %lld bytes are in use, and the device has %lld free%s",
        cuda->head.name, (long long)bytes, (long long)cuda->slab.used, (long long)cuda->slab.total, (long long)free_bytes, when);
}

static muster_status read_free(mst_cuda *cuda, int64_t *free_bytes) {
    size_t left = 0, total = 0;
    MUSTER_TRY(MST_CU(cuda, cuMemGetInfo_v2, &left, &total));
    *free_bytes = (int64_t)left;
    return MUSTER_OK;
}

void mst_cuda_read_free(mst_device *device, int64_t *free_bytes) {
    mst_cuda *cuda = mst_cuda_of(device);
    mst_cuda_scope scope;
    char before[MST_MESSAGE_SIZE];
    mst_error_save(before);
    *free_bytes = -1;
    muster_status status = mst_cuda_begin(cuda, &scope);
    if (status == MUSTER_OK) status = mst_cuda_end(cuda, &scope, read_free(cuda, free_bytes));
    if (status == MUSTER_OK) return;
    *free_bytes = -1;
    (void)mst_error_restore(MUSTER_OK, before);
}

int64_t mst_cuda_free_block(const mst_device *device) { return mst_slab_largest(&mst_cuda_of(device)->slab); }

/* The list has capacity for one more segment. */
static muster_status add_segment(mst_cuda *cuda, mst_cu_address address, int64_t bytes) {
    muster_status status = mst_slab_add(&cuda->slab, address, bytes);
    if (status != MUSTER_OK) {
        (void)cuda->api->cuMemFree_v2(address);
        return status;
    }
    cuda->segments[cuda->segment_count++] = address;
    return MUSTER_OK;
}

void mst_cuda_keep_headroom(mst_device *device) { mst_cuda_of(device)->keeps_headroom = true; }

static bool is_headroom_left(const mst_cuda *cuda, int64_t bytes) {
    size_t left = 0, total = 0;
    if (!cuda->keeps_headroom || cuda->api->cuMemGetInfo_v2(&left, &total) != MST_CU_SUCCESS) return true;
    const int64_t headroom = (int64_t)(total / HEADROOM_DIVISOR);
    return (int64_t)left - bytes >= (headroom < HEADROOM_MOST ? headroom : HEADROOM_MOST);
}

/* Adds a segment for `needed` bytes, or a larger one if the device has the memory. */
static muster_status grow(mst_cuda *cuda, int64_t needed) {
    const int64_t step = cuda->slab.total < SMALL_SLAB ? cuda->slab.total : LARGE_STEP;
    int64_t bytes = round_segment(larger(needed, step));
    mst_cu_address address = 0;
    if (bytes > round_segment(needed) && !is_headroom_left(cuda, bytes)) bytes = round_segment(needed);
    MUSTER_TRY(mst_grow((void **)&cuda->segments, &cuda->segment_capacity, cuda->segment_count + 1, sizeof *cuda->segments,
                        "the list of segments of device memory"));
    mst_cu_result result = cuda->api->cuMemAlloc_v2(&address, (size_t)bytes);
    if (result == MST_CU_OUT_OF_MEMORY && bytes > round_segment(needed)) {
        bytes = round_segment(needed);
        result = cuda->api->cuMemAlloc_v2(&address, (size_t)bytes);
    }
    if (result == MST_CU_OUT_OF_MEMORY) {
        int64_t left = 0;
        MUSTER_TRY(read_free(cuda, &left));
        return no_room(cuda, needed, left, " (cuMemAlloc_v2)");
    }
    MUSTER_TRY(mst_cuda_check(cuda, result, "cuMemAlloc_v2"));
    MUSTER_TRY(add_segment(cuda, address, bytes));
    (void)read_free(cuda, &cuda->free_seen); /* only used in a message */
    return MUSTER_OK;
}

muster_status mst_cuda_open_memory(mst_cuda *cuda) {
    int64_t bytes = 0;
    snprintf(cuda->slab_what, sizeof cuda->slab_what, "%s: the list of the blocks of device memory", cuda->head.name);
    cuda->slab.what = cuda->slab_what;
    MUSTER_TRY(read_free(cuda, &cuda->free_seen));
    MUSTER_TRY(read_size(cuda, &bytes));
    return bytes > 0 ? grow(cuda, bytes) : MUSTER_OK;
}

void mst_cuda_close_memory(mst_cuda *cuda) {
    while (cuda->segment_count > 0) (void)cuda->api->cuMemFree_v2(cuda->segments[--cuda->segment_count]);
}

/* ---- allocating ---- */

static muster_status take(mst_cuda *cuda, int64_t bytes, uint64_t *address) {
    bool found = false;
    MUSTER_TRY(mst_slab_take(&cuda->slab, bytes, address, &found));
    if (found) return MUSTER_OK;
    if (cuda->head.in_flight) {
        cuda->wish = larger(cuda->wish, bytes);
        return no_room(cuda, bytes, cuda->free_seen,
                       " as far as is known; none of it can be taken while devices wait for each other: the next call will have it");
    }
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    MUSTER_TRY(mst_cuda_end(cuda, &scope, grow(cuda, bytes)));
    return mst_slab_take(&cuda->slab, bytes, address, &found);
}

/* Async copies may still be writing memory that has been released and is now allocated again, so
 * COMPUTE waits for them, and EXCHANGE where the memory is for it. */
static muster_status order_behind_copies(mst_cuda *cuda) {
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    muster_status status = mst_cuda_join(cuda, cuda->copy, cuda->compute);
    if (status == MUSTER_OK && mst_device_exchange_goes_on(&cuda->head)) status = mst_cuda_join(cuda, cuda->copy, cuda->exchange);
    MUSTER_TRY(mst_cuda_end(cuda, &scope, status));
    cuda->released_async = false;
    return MUSTER_OK;
}

/* The same of EXCHANGE. COPY waits for what COMPUTE waits for then. */
static muster_status order_behind_exchange(mst_cuda *cuda) {
    MUSTER_TRY(mst_device_exchange_end(&cuda->head));
    cuda->released_exchanged = false;
    cuda->release_unrecorded = true;
    return MUSTER_OK;
}

muster_status mst_cuda_allocate(mst_device *device, int64_t bytes, void **address) {
    mst_cuda *cuda = mst_cuda_of(device);
    *address = NULL;
    int64_t rounded = mst_slab_round(bytes);
    if (bytes < 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: allocate: expected a size from 0 up, received %lld bytes", cuda->head.name,
                         (long long)bytes);
    if (rounded < 0) return no_room(cuda, bytes, cuda->free_seen, "");
    if (mst_cuda_is_lost(cuda)) return mst_cuda_report_lost(cuda);
    if (cuda->released_async) MUSTER_TRY(order_behind_copies(cuda));
    if (cuda->released_exchanged) MUSTER_TRY(order_behind_exchange(cuda));
    uint64_t place = 0;
    MUSTER_TRY(take(cuda, rounded, &place));
    *address = (void *)(uintptr_t)place;
    return MUSTER_OK;
}

void mst_cuda_release(mst_device *device, void *address) {
    mst_cuda *cuda = mst_cuda_of(device);
    const uint64_t begin = (uint64_t)(uintptr_t)address;
    const int64_t bytes = address ? mst_slab_give(&cuda->slab, begin) : 0;
    if (bytes == 0) return;
    cuda->release_unrecorded = true;
    cuda->released_exchanged |= cuda->head.exchange_busy;
    if (begin < cuda->async_end && begin + (uint64_t)bytes > cuda->async_begin) cuda->released_async = true;
}

static muster_status make_room(mst_cuda *cuda, int64_t bytes) {
    if (mst_slab_largest(&cuda->slab) >= bytes) return MUSTER_OK;
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    return mst_cuda_end(cuda, &scope, grow(cuda, bytes));
}

/* An allocation that was refused in flight is only attempted: the call that needed it is over. */
muster_status mst_cuda_reserve(mst_device *device, int64_t bytes) {
    mst_cuda *cuda = mst_cuda_of(device);
    MUSTER_TRY(mst_cuda_check_between_calls(cuda, "reserve"));
    const int64_t wanted = mst_slab_round(larger(bytes, 0)), wish = cuda->wish;
    if (wanted < 0)
        return mst_error(MUSTER_OVERFLOW, "%s: reserve: expected a size that can be rounded up, received %lld bytes", cuda->label,
                         (long long)bytes);
    cuda->wish = 0;
    if (wish > wanted && make_room(cuda, wish) == MUSTER_OK) return MUSTER_OK;
    return bytes > 0 ? make_room(cuda, wanted) : MUSTER_OK;
}
