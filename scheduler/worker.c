/* What a task can ask of its worker. */
#include "muster/worker.h"

#include "pool_state_private.h"
#include "tensor_impl.h"

#include <inttypes.h>
#include <string.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

enum { SCRATCH_ALIGNMENT = 64, SCRATCH_BLOCK = 64 * 1024 };

int32_t muster_worker_rank(const muster_worker *worker) { return worker ? mst_worker_public_rank(worker) : -1; }
int32_t muster_worker_size(const muster_worker *worker) { return worker ? mst_worker_total(worker) : -1; }
const char *muster_worker_backend(const muster_worker *worker) { return worker ? worker->device->table->backend : NULL; }
bool mst_worker_failed_elsewhere(const muster_worker *worker) {
    const mst_pool *pool = worker->pool;
    return pool->elsewhere && pool->elsewhere(pool->elsewhere_context);
}

int32_t muster_worker_cancelled(const muster_worker *worker) {
    if (!worker) return 0;
    if (worker == mst_current_worker()) return mst_pool_aborted(worker) || mst_worker_failed_elsewhere(worker);
    return mst_run_aborted(worker->pool, worker->epoch) || mst_worker_must_end(worker) || mst_worker_failed_elsewhere(worker);
}

void mst_worker_waits_elsewhere(muster_worker *worker, bool waits) {
    atomic_store(&worker->pool->states[worker->rank].waits_elsewhere, waits);
}

void mst_pool_set_elsewhere(mst_pool *pool, mst_elsewhere elsewhere, void *context) {
    pool->elsewhere = elsewhere;
    pool->elsewhere_context = context;
}

muster_status mst_worker_refuse(const muster_worker *worker, const char *where) {
    if (!worker) return mst_error_null(where, "worker", "the worker of the running function");
    if (worker == mst_current_worker()) return mst_worker_ends(worker) ? mst_cancel_refuse(where) : MUSTER_OK;
    return mst_error(MUSTER_BAD_STATE,
                     "%s: worker: expected the worker that runs on this thread, received one outside of its body, or in a thread that "
                     "its body has started",
                     where);
}

/* ---- scratch ---- */

static const char scratch_name[] = "muster_worker_scratch"; /* in messages */

/* AddressSanitizer sees who uses memory of a block that nobody has asked for, or that was given
 * back: the block as a whole is one allocation to it. */
static void forbid(const muster_worker *worker, const mst_scratch_block *block, int64_t from) {
#ifdef __SANITIZE_ADDRESS__
    if (mst_device_is_host(worker->device)) ASAN_POISON_MEMORY_REGION((char *)block->address + from, (size_t)(block->bytes - from));
#else
    (void)worker, (void)block, (void)from;
#endif
}

static void allow(const muster_worker *worker, void *address, int64_t bytes) {
#ifdef __SANITIZE_ADDRESS__
    if (mst_device_is_host(worker->device)) ASAN_UNPOISON_MEMORY_REGION(address, (size_t)bytes);
#else
    (void)worker, (void)address, (void)bytes;
#endif
}

static void release_block(const muster_worker *worker, const mst_scratch_block *block) {
    allow(worker, block->address, block->bytes);
    worker->device->memory->release(worker->device, block->address);
}

static muster_status add_block(muster_worker *worker, int64_t bytes) {
    MUSTER_TRY(mst_grow((void **)&worker->scratch, &worker->scratch_capacity, worker->scratch_count + 1, sizeof(mst_scratch_block),
                        "the list of scratch blocks"));
    mst_scratch_block block = {.bytes = bytes > SCRATCH_BLOCK ? bytes : SCRATCH_BLOCK};
    MUSTER_TRY(mst_worker_allocate(worker, block.bytes, &block.address));
    worker->scratch[worker->scratch_count++] = block;
    forbid(worker, &block, 0);
    return MUSTER_OK;
}

/* Scratch memory is a stack: the bytes of the blocks in their order. A mark is a height of it. */
static int64_t scratch_height(const muster_worker *worker) {
    int64_t height = 0;
    for (int64_t i = 0; i < worker->scratch_top; i++) height += worker->scratch[i].bytes;
    return worker->scratch_count > 0 ? height + worker->scratch[worker->scratch_top].used : 0;
}

muster_status mst_worker_scratch_bytes(muster_worker *worker, int64_t bytes, void **address) {
    if (bytes < 0) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: bytes: expected 0 or more, received %" PRId64, scratch_name, bytes);
    if (bytes > INT64_MAX - SCRATCH_ALIGNMENT) return mst_error(MUSTER_OVERFLOW, "%s: bytes: %" PRId64 " overflows", scratch_name, bytes);
    int64_t rounded = bytes == 0 ? SCRATCH_ALIGNMENT : (bytes + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
    int64_t i = worker->scratch_top;
    while (i < worker->scratch_count && worker->scratch[i].bytes - worker->scratch[i].used < rounded) i++;
    if (i == worker->scratch_count) MUSTER_TRY(add_block(worker, rounded));
    worker->scratch_top = i;
    *address = (char *)worker->scratch[i].address + worker->scratch[i].used;
    allow(worker, *address, bytes);
    worker->scratch[i].used += rounded;
    const int64_t height = scratch_height(worker);
    if (height > worker->scratch_peak) worker->scratch_peak = height;
    return MUSTER_OK;
}

int64_t mst_worker_scratch_watch(muster_worker *worker) { return worker->scratch_peak = scratch_height(worker); }

void mst_worker_scratch_watched(muster_worker *worker, int64_t peak) {
    if (peak > worker->scratch_peak) worker->scratch_peak = peak;
}

/* One block of the sum serves the next run of the same kind without an allocation. Where the device
 * has no room for it, the old blocks do. */
static void merge_blocks(muster_worker *worker) {
    mst_device *device = worker->device;
    mst_scratch_block joined = {0};
    for (int64_t i = 0; i < worker->scratch_count; i++) joined.bytes += worker->scratch[i].bytes;
    if (device->memory->allocate(device, joined.bytes, &joined.address) != MUSTER_OK) return;
    for (int64_t i = 0; i < worker->scratch_count; i++) release_block(worker, &worker->scratch[i]);
    worker->scratch[0] = joined;
    worker->scratch_count = 1;
    forbid(worker, &joined, 0);
}

void mst_worker_scratch_rewind(muster_worker *worker) {
    for (int64_t i = 0; i < worker->scratch_count; i++) {
        worker->scratch[i].used = 0;
        forbid(worker, &worker->scratch[i], 0);
    }
    worker->scratch_top = 0;
}

int64_t muster_worker_scratch_mark(const muster_worker *worker) {
    return worker && worker == mst_current_worker() ? scratch_height(worker) : -1;
}

muster_status muster_worker_scratch_release(muster_worker *worker, int64_t mark) {
    MUSTER_TRY(mst_worker_check(worker, __func__));
    const int64_t height = scratch_height(worker);
    if (mark < 0 || mark > height || mark % SCRATCH_ALIGNMENT != 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: mark: expected one of this run, of at most %" PRId64 " bytes, received %" PRId64,
                         __func__, height, mark);
    int64_t i = 0, below = 0;
    while (i < worker->scratch_top && below + worker->scratch[i].bytes < mark) below += worker->scratch[i++].bytes;
    worker->scratch_top = i;
    for (const int64_t top = i; i < worker->scratch_count; i++) {
        worker->scratch[i].used = i == top ? mark - below : 0;
        forbid(worker, &worker->scratch[i], worker->scratch[i].used);
    }
    return MUSTER_OK;
}

void mst_worker_scratch_reset(muster_worker *worker) {
    mst_worker_scratch_rewind(worker);
    if (worker->scratch_count > 1 && !worker->device->lost) merge_blocks(worker);
}

void mst_worker_scratch_release(muster_worker *worker) {
    for (int64_t i = 0; i < worker->scratch_count; i++) release_block(worker, &worker->scratch[i]);
    mst_free(worker->scratch);
    worker->scratch = NULL;
    worker->scratch_count = worker->scratch_capacity = worker->scratch_top = 0;
}

static muster_status scratch_size(muster_dtype dtype, int32_t ndim, const int64_t *shape, int64_t *bytes) {
    *bytes = muster_dtype_size(dtype);
    if (*bytes == 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: dtype: expected an element type, received %" PRId32, scratch_name, dtype);
    if (ndim < 0 || ndim > MUSTER_MAX_DIMS)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: ndim: expected 0 to %d, received %" PRId32, scratch_name, MUSTER_MAX_DIMS, ndim);
    if (ndim > 0 && !shape)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: shape: expected %" PRId32 " sizes, received NULL", scratch_name, ndim);
    bool empty = false;
    for (int32_t i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: shape[%" PRId32 "]: expected 0 or more, received %" PRId64, scratch_name, i,
                             shape[i]);
        empty = empty || shape[i] == 0;
    }
    for (int32_t i = 0; i < ndim && !empty; i++) {
        if (!mst_multiply(*bytes, shape[i], bytes))
            return mst_error(MUSTER_OVERFLOW, "%s: shape: the size in bytes overflows 64 bits", scratch_name);
    }
    if (empty) *bytes = 0;
    return MUSTER_OK;
}

muster_status muster_worker_scratch(muster_worker *worker, muster_dtype dtype, int32_t ndim, const int64_t *shape, muster_tensor *tensor) {
    int64_t bytes;
    void *address = NULL;
    if (!tensor) return mst_error_null(scratch_name, "tensor", "the address of a tensor");
    muster_status status = mst_worker_check(worker, scratch_name);
    if (status == MUSTER_OK) {
        status = scratch_size(dtype, ndim, shape, &bytes);
        if (status == MUSTER_OK) status = mst_worker_scratch_bytes(worker, bytes, &address);
        if (status != MUSTER_OK) mst_worker_keep_failure(worker, status);
    }
    /* `shape` may be that of *tensor: it is read before *tensor is written */
    muster_tensor made = status == MUSTER_OK ? muster_tensor_make(dtype, address, ndim, shape) : muster_tensor_none();
    if (status == MUSTER_OK) made.device = worker->rank;
    *tensor = made;
    return status;
}

/* ---- copies ---- */

/* Where host code reads the device's memory, a host tensor is as good as one of the device. */
static bool on_device(const muster_worker *worker, muster_tensor tensor) {
    return tensor.device == worker->rank || (tensor.device == MUSTER_DEVICE_HOST && mst_device_is_host(worker->device));
}

muster_status mst_worker_kept_failure(const muster_worker *worker, const char *where, const char *what) {
    const muster_status status = worker->scratch_status;
    if (status == MUSTER_OK || worker->scratch_errors == mst_error_count()) return status;
    return mst_error(status,
                     "%s: %s: expected a tensor, received no tensor, since an earlier request of this body for memory failed with %s",
                     where, what, muster_status_name(status));
}

static bool in_host_memory(const muster_worker *worker, muster_tensor tensor) {
    return tensor.device == MUSTER_DEVICE_HOST || (tensor.device == worker->rank && mst_device_is_host(worker->device));
}

static muster_status check_copy(const muster_worker *worker, const char *where, muster_tensor device_tensor, muster_tensor host_tensor) {
    MUSTER_TRY(mst_worker_check(worker, where));
    /* "no tensor" from a scratch request that failed: that failure is the reason */
    if (mst_tensor_absent(&device_tensor)) MUSTER_TRY(mst_worker_kept_failure(worker, where, "device_tensor"));
    MUSTER_TRY(mst_tensor_check(device_tensor, where, "device_tensor"));
    MUSTER_TRY(mst_tensor_check(host_tensor, where, "host_tensor"));
    if (device_tensor.dtype != host_tensor.dtype)
        return mst_error(MUSTER_DTYPE_MISMATCH, "%s: host_tensor: expected %s as in device_tensor, received %s", where,
                         muster_dtype_name(device_tensor.dtype), muster_dtype_name(host_tensor.dtype));
    if (muster_tensor_count(device_tensor) != muster_tensor_count(host_tensor))
        return mst_error(MUSTER_SHAPE_MISMATCH, "%s: host_tensor: expected %" PRId64 " elements as in device_tensor, received %" PRId64,
                         where, muster_tensor_count(device_tensor), muster_tensor_count(host_tensor));
    if (!mst_tensor_contiguous(device_tensor))
        return mst_error(MUSTER_UNSUPPORTED, "%s: device_tensor: expected contiguous elements, received strided ones", where);
    if (!mst_tensor_contiguous(host_tensor))
        return mst_error(MUSTER_UNSUPPORTED, "%s: host_tensor: expected contiguous elements, received strided ones", where);
    if (!on_device(worker, device_tensor))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: device_tensor: expected memory of rank %" PRId32 ", received device %" PRId32, where,
                         mst_worker_public_rank(worker), device_tensor.device);
    if (!in_host_memory(worker, host_tensor))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: host_tensor: expected host memory, received memory of rank %" PRId32, where,
                         host_tensor.device);
    return MUSTER_OK;
}

muster_status muster_worker_read(muster_worker *worker, muster_tensor device_tensor, muster_tensor host_tensor) {
    MUSTER_TRY(check_copy(worker, "muster_worker_read", device_tensor, host_tensor));
    mst_device *device = worker->device;
    MUSTER_TRY(mst_worker_drain(worker));
    MUSTER_TRY(device->memory->copy_out(device, muster_tensor_address(host_tensor), muster_tensor_address(device_tensor),
                                        mst_tensor_bytes(device_tensor)));
    return mst_worker_sync(worker);
}

muster_status muster_worker_write(muster_worker *worker, muster_tensor host_tensor, muster_tensor device_tensor) {
    MUSTER_TRY(check_copy(worker, "muster_worker_write", device_tensor, host_tensor));
    mst_device *device = worker->device;
    MUSTER_TRY(mst_worker_drain(worker));
    MUSTER_TRY(device->memory->copy_in(device, muster_tensor_address(device_tensor), muster_tensor_address(host_tensor),
                                       mst_tensor_bytes(device_tensor)));
    return mst_worker_sync(worker);
}
