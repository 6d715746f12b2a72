/* Tensors that the program creates on a device. Each device's own worker thread allocates the
 * memory, as it does all work of the device. The list is sorted by rank and address. It tells
 * whether a tensor has been destroyed or belongs to another runtime. */
#include "foreign_memory_impl.h"
#include "tensors_impl.h"

#include "muster/ops.h"
#include "tensor_impl.h"

#include <string.h>

typedef struct mst_placed {
    int32_t rank;
    char *address;
    int64_t bytes;
    /* The number that reserved[0] of the tensor and of its views holds. It tells this tensor from
     * an older one in the same memory. */
    int64_t number;
} mst_placed;

/* ---- the list ---- */

static bool lies_before(const mst_placed *placed, int32_t rank, const char *address) {
    return placed->rank < rank || (placed->rank == rank && (uintptr_t)placed->address <= (uintptr_t)address);
}

/* The number of tensors in the list that begin at or before the address. */
static int64_t count_before(const muster_runtime *runtime, int32_t rank, const char *address) {
    int64_t low = 0, high = runtime->placed_count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (lies_before(&runtime->placed[middle], rank, address))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The tensor whose memory holds the address or ends exactly there; NULL: none. */
static mst_placed *find(const muster_runtime *runtime, int32_t rank, const void *address) {
    const int64_t before = count_before(runtime, rank, address);
    if (before == 0) return NULL;
    mst_placed *placed = &runtime->placed[before - 1];
    return placed->rank == rank && (const char *)address - placed->address <= placed->bytes ? placed : NULL;
}

static void list(muster_runtime *runtime, mst_placed placed) {
    const int64_t at = count_before(runtime, placed.rank, placed.address);
    memmove(runtime->placed + at + 1, runtime->placed + at, (size_t)(runtime->placed_count - at) * sizeof placed);
    runtime->placed[at] = placed;
    runtime->placed_count++;
}

static void unlist(muster_runtime *runtime, const mst_placed *placed) {
    const int64_t at = placed - runtime->placed;
    runtime->placed_count--;
    memmove(runtime->placed + at, runtime->placed + at + 1, (size_t)(runtime->placed_count - at) * sizeof *placed);
}

int64_t mst_runtime_tensor_extent(const muster_runtime *runtime, int32_t rank, const void *address) {
    const mst_placed *placed = find(runtime, rank, address);
    const int64_t left = placed ? placed->bytes - ((const char *)address - placed->address) : -1;
    return left > 0 ? left : -1; /* an address at the end belongs to other memory */
}

void mst_runtime_release_tensors(muster_runtime *runtime) {
    while (runtime->placed_count > 0) {
        const mst_placed *placed = &runtime->placed[--runtime->placed_count];
        mst_device *device = runtime->devices[placed->rank];
        device->memory->release(device, placed->address);
    }
    mst_free(runtime->placed);
    mst_foreign_remove_all(runtime);
}

/* ---- one worker's work ---- */

static muster_status run_if_chosen(muster_worker *worker, void *argument) {
    const mst_on_device *on = argument;
    if (worker->rank != on->rank) return MUSTER_OK;
    MUSTER_TRY(on->task(worker, on->argument));
    return mst_worker_sync(worker);
}

muster_status mst_runtime_run_on(muster_runtime *runtime, mst_on_device on) {
    if (on.rank == 0) return mst_pool_run_single(runtime->pool, run_if_chosen, &on);
    return mst_pool_run(runtime->pool, run_if_chosen, &on);
}

/* ---- checks ---- */

static muster_status refuse_foreign(muster_runtime *runtime, muster_tensor tensor, const char *where, const char *what) {
    char text[MST_DEVICE_TEXT];
    return mst_error(
        MUSTER_INVALID_ARGUMENT,
        "%s: %s: expected memory of a tensor that muster_runtime_tensor_create gave and that was not destroyed, or memory that was "
        "wrapped or imported and not given back, received address %p on device %s",
        where, what, muster_tensor_address(tensor), mst_runtime_device_text(runtime, tensor.device, text));
}

static muster_status check_device(muster_runtime *runtime, muster_tensor tensor, const char *where, const char *what) {
    if (tensor.device >= 0 && tensor.device < runtime->size) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "%s: %s: expected memory of the host or of a device from 0 to %d, received memory of device %d", where, what,
                     (int)runtime->size - 1, (int)tensor.device);
}

static mst_placed *placed_of(const muster_runtime *runtime, muster_tensor tensor) {
    mst_placed *placed = find(runtime, tensor.device, tensor.data);
    const int64_t number = tensor.reserved[0]; /* 0: a view created from the address again, as reshape does */
    return placed && (number == 0 || number == placed->number) ? placed : NULL;
}

/* The range of bytes that the elements span, relative to `data`: from the first byte of the lowest
 * element to the byte after the highest one. The tensor has elements, and their sizes fit 64
 * bits. */
static void find_bounds(muster_tensor tensor, int64_t *low, int64_t *high) {
    const int64_t size = muster_dtype_size(tensor.dtype);
    *low = *high = tensor.byte_offset;
    for (int32_t d = 0; d < tensor.ndim; d++) {
        const int64_t span = (tensor.shape[d] - 1) * tensor.strides[d] * size;
        *(span < 0 ? low : high) += span;
    }
    *high += size;
}

static muster_status synchronized(muster_worker *worker, void *argument) {
    (void)worker, (void)argument;
    return MUSTER_OK;
}

/* Its device works after what other libraries have put into the default stream. The other devices
 * know nothing of that, so with several devices the host waits for it. */
static muster_status use_foreign(muster_runtime *runtime, muster_tensor tensor, const char *where, const char *what) {
    char place[MST_MESSAGE_SIZE / 2];
    mst_foreign_memory memory;
    mst_device *device = runtime->devices[tensor.device];
    if (!mst_foreign_find(runtime, &tensor, &memory)) return refuse_foreign(runtime, tensor, where, what);
    if (memory.bytes == 0) return MUSTER_OK;
    snprintf(place, sizeof place, "%s: %s", where, what);
    MUSTER_TRY(device->memory->adopt(device, memory.address, memory.bytes, place));
    if (mst_device_is_host(device) || runtime->size == 1) return MUSTER_OK;
    return mst_runtime_run_on(runtime, (mst_on_device){tensor.device, synchronized, NULL});
}

muster_status mst_runtime_check_placed(muster_runtime *runtime, muster_tensor tensor, const char *where, const char *what) {
    MUSTER_TRY(mst_tensor_check(tensor, where, what));
    if (tensor.device == MUSTER_DEVICE_HOST) return MUSTER_OK;
    MUSTER_TRY(check_device(runtime, tensor, where, what));
    const mst_placed *placed = placed_of(runtime, tensor);
    if (!placed) return use_foreign(runtime, tensor, where, what);
    if (muster_tensor_count(tensor) == 0) return MUSTER_OK;
    int64_t low, high;
    find_bounds(tensor, &low, &high);
    const int64_t base = (char *)tensor.data - placed->address;
    if (low >= -base && high <= placed->bytes - base) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "%s: %s: expected a view within the %lld bytes of its tensor, received one that takes bytes %lld to %lld", where, what,
                     (long long)placed->bytes, (long long)((uint64_t)base + (uint64_t)low), (long long)((uint64_t)base + (uint64_t)high));
}

/* ---- creating ---- */

typedef struct placing {
    const char *where;
    muster_tensor *tensor;
    int64_t bytes;
    void *address; /* NULL: not allocated yet */
} placing;

static muster_status place(muster_worker *worker, void *argument) {
    placing *p = argument;
    MUSTER_TRY(mst_worker_allocate(worker, p->bytes, &p->address));
    p->tensor->data = p->address;
    return muster_tensor_count(*p->tensor) > 0 ? muster_fill(worker, 0, *p->tensor) : MUSTER_OK;
}

/* An empty tensor gets an address of its own, too. */
static muster_status create(muster_runtime *runtime, placing *p) {
    MUSTER_TRY(
        mst_grow((void **)&runtime->placed, &runtime->placed_capacity, runtime->placed_count + 1, sizeof *runtime->placed, p->where));
    const muster_status status = mst_runtime_run_on(runtime, (mst_on_device){p->tensor->device, place, p});
    if (status == MUSTER_OK) {
        p->tensor->reserved[0] = ++runtime->placed_ever;
        list(runtime, (mst_placed){p->tensor->device, p->address, p->bytes, runtime->placed_ever});
        return MUSTER_OK;
    }
    if (!p->address) return status;
    char message[MST_MESSAGE_SIZE];
    mst_device *device = runtime->devices[p->tensor->device];
    mst_error_save(message);
    device->memory->release(device, p->address);
    return mst_error_restore(status, message);
}

static muster_status check_shape(muster_tensor made, const char *where) {
    static _Alignas(8) char place_holder[8];
    made.data = place_holder; /* only the sizes are checked; the data is aligned for every dtype */
    return mst_tensor_check(made, where, "shape");
}

muster_status muster_runtime_tensor_create(muster_runtime *runtime, const char *device, muster_dtype dtype, int32_t ndim,
                                           const int64_t *shape, muster_tensor *tensor) {
    static const char where[] = "muster_runtime_tensor_create";
    if (!tensor) return mst_error_null(where, "tensor", "the address of a tensor");
    *tensor = muster_tensor_none();
    if (!runtime) return mst_error_null(where, "runtime", "a runtime");
    if (muster_dtype_size(dtype) == 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: dtype: expected an element type, received %d", where, (int)dtype);
    muster_tensor made = muster_tensor_make(dtype, NULL, ndim, shape);
    MUSTER_TRY(check_shape(made, where));
    MUSTER_TRY(mst_runtime_find(runtime, device, where, "device", &made.device));
    const int64_t bytes = mst_tensor_bytes(made);
    placing p = {.where = where, .tensor = &made, .bytes = bytes > 0 ? bytes : 1};
    MUSTER_TRY(mst_pool_enter(runtime->pool, where, 0));
    const muster_status status = create(runtime, &p);
    mst_pool_leave(runtime->pool);
    if (status == MUSTER_OK) *tensor = made;
    return status;
}

/* ---- memory of other libraries ---- */

/* Host memory of the program is no memory of a GPU, even where addresses of both look alike. */
static muster_status refuse_other_devices(muster_runtime *runtime, const muster_tensor *tensor, const mst_span *span, const char *where) {
    char text[MST_DEVICE_TEXT];
    char *low = (char *)muster_tensor_address(*tensor) + span->low;
    for (int32_t r = 0; r < runtime->size; r++) {
        mst_device *device = runtime->devices[r];
        if (mst_device_is_host(device) || device->lost || device->memory->adopt(device, low, span->high - span->low, where)) continue;
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: tensor: expected memory of the host, received memory of device %s", where,
                         mst_runtime_device_text(runtime, r, text));
    }
    return MUSTER_OK;
}

static muster_status wrap(muster_runtime *runtime, muster_tensor *tensor, const char *where) {
    char place[80];
    mst_device *device = runtime->devices[tensor->device];
    const mst_span span = mst_tensor_span(tensor);
    if (span.high > span.low) {
        snprintf(place, sizeof place, "%s: tensor", where);
        MUSTER_TRY(device->memory->adopt(device, (char *)muster_tensor_address(*tensor) + span.low, span.high - span.low, place));
        if (mst_device_is_host(device)) MUSTER_TRY(refuse_other_devices(runtime, tensor, &span, where));
    }
    return mst_foreign_add(runtime, false, where, tensor);
}

muster_status muster_runtime_tensor_on(muster_runtime *runtime, const char *device, muster_tensor *tensor) {
    static const char where[] = "muster_runtime_tensor_on";
    if (!runtime) return mst_error_null(where, "runtime", "a runtime");
    if (!tensor) return mst_error_null(where, "tensor", "the address of a tensor");
    MUSTER_TRY(mst_tensor_check(*tensor, where, "tensor"));
    if (tensor->device != MUSTER_DEVICE_HOST)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: tensor: expected one without a device (MUSTER_DEVICE_HOST), received one of device %d", where,
                         (int)tensor->device);
    muster_tensor made = *tensor;
    MUSTER_TRY(mst_runtime_find(runtime, device, where, "device", &made.device));
    MUSTER_TRY(mst_pool_enter(runtime->pool, where, 0));
    const muster_status status = wrap(runtime, &made, where);
    mst_pool_leave(runtime->pool);
    if (status == MUSTER_OK) *tensor = made;
    return status;
}

/* ---- destroying ---- */

/* What muster_runtime_tensor_on wrapped is no longer a tensor of the device; its memory stays. */
static muster_status unwrap(muster_runtime *runtime, muster_tensor tensor, const char *where) {
    mst_foreign_memory memory;
    if (!mst_foreign_find(runtime, &tensor, &memory)) return refuse_foreign(runtime, tensor, where, "tensor");
    if (memory.imported)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: tensor: expected one of the runtime, received an imported one, which "
                         "muster_dlpack_release gives back",
                         where);
    mst_foreign_remove(memory.number);
    return MUSTER_OK;
}

static muster_status destroy(muster_runtime *runtime, muster_tensor tensor, const char *where) {
    MUSTER_TRY(check_device(runtime, tensor, where, "tensor"));
    mst_placed *placed = placed_of(runtime, tensor);
    if (!placed) return unwrap(runtime, tensor, where);
    if (muster_tensor_address(tensor) != (void *)placed->address)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: tensor: expected one that begins where its memory does, received one that begins %lld bytes behind", where,
                         (long long)((char *)muster_tensor_address(tensor) - placed->address));
    mst_device *device = runtime->devices[placed->rank];
    device->memory->release(device, placed->address);
    unlist(runtime, placed);
    return MUSTER_OK;
}

muster_status muster_runtime_tensor_destroy(muster_runtime *runtime, muster_tensor tensor) {
    static const char where[] = "muster_runtime_tensor_destroy";
    if (!runtime) return mst_error_null(where, "runtime", "a runtime");
    if (tensor.dtype == MUSTER_DTYPE_NONE) return MUSTER_OK;
    if (tensor.device == MUSTER_DEVICE_HOST)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: tensor: expected one that muster_runtime_tensor_create gave, received host memory",
                         where);
    MUSTER_TRY(mst_pool_enter_to_end(runtime->pool, where));
    const muster_status status = destroy(runtime, tensor, where);
    mst_pool_leave(runtime->pool);
    return status;
}
