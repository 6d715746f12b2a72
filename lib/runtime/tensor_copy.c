/* Copies between host memory and the tensors of devices. The calling thread copies memory that host
 * code can read. The worker of a device copies the device's memory. Between two devices the
 * receiving device's worker copies if it has peer access to the other device. Otherwise the bytes
 * pass through host memory, chunk by chunk. */
#include "tensors_impl.h"

#include "muster/ops.h"
#include "tensor_impl.h"

#include <string.h>

int64_t mst_tensor_copy_chunk = 8 << 20;

typedef struct copying {
    muster_runtime *runtime;
    const char *where;
    char *staging; /* NULL: one side is contiguous host memory, which is used directly */
} copying;

/* The rank whose worker has to copy the tensor; -1: host code can read the memory. */
static int32_t copying_rank(const muster_runtime *runtime, muster_tensor tensor) {
    return tensor.device == MUSTER_DEVICE_HOST || mst_device_is_host(runtime->devices[tensor.device]) ? -1 : tensor.device;
}

static bool is_plain_host(const muster_runtime *runtime, muster_tensor tensor) {
    return copying_rank(runtime, tensor) < 0 && mst_tensor_contiguous(tensor);
}

/* ---- on one device ---- */

typedef struct device_copy {
    muster_tensor from, to;
} device_copy;

static muster_status copy_on_device(muster_worker *worker, void *argument) {
    const device_copy *copy = argument;
    if (!mst_tensor_contiguous(copy->from) || !mst_tensor_contiguous(copy->to)) return muster_copy(worker, copy->from, copy->to);
    return worker->device->memory->copy(worker->device, muster_tensor_address(copy->to), muster_tensor_address(copy->from),
                                        mst_tensor_bytes(copy->to));
}

/* `from` may lie on a device to which this one has peer access; its code then reads the address
 * directly. */
static muster_status copy_by(muster_runtime *runtime, int32_t rank, muster_tensor from, muster_tensor to) {
    device_copy copy = {from, to};
    copy.from.device = rank;
    return mst_runtime_run_on(runtime, (mst_on_device){rank, copy_on_device, &copy});
}

muster_status mst_runtime_peer_access(const muster_runtime *runtime, int32_t rank, int32_t other, bool *peer_access) {
    mst_device *device = runtime->devices[rank];
    *peer_access = rank == other;
    if (*peer_access || device->table != runtime->devices[other]->table || !device->code) return MUSTER_OK;
    return device->code->peer_access(device, runtime->devices[other], peer_access);
}

/* ---- between a device and host memory ---- */

typedef struct passage {
    muster_tensor tensor; /* the tensor on the device */
    char *host;           /* the same elements in host memory, contiguous */
} passage;

/* The contiguous place of the elements on the device: the tensor itself, or scratch memory to pack
 * them into. */
static muster_status contiguous_place(muster_worker *worker, muster_tensor tensor, muster_tensor *place) {
    *place = tensor;
    if (mst_tensor_contiguous(tensor)) return MUSTER_OK;
    void *address;
    MUSTER_TRY(mst_worker_scratch_bytes(worker, mst_tensor_bytes(tensor), &address));
    *place = muster_tensor_make(tensor.dtype, address, tensor.ndim, tensor.shape);
    place->device = tensor.device;
    return MUSTER_OK;
}

static muster_status bring_out(muster_worker *worker, void *argument) {
    const passage *p = argument;
    muster_tensor place;
    MUSTER_TRY(contiguous_place(worker, p->tensor, &place));
    if (!mst_tensor_contiguous(p->tensor)) MUSTER_TRY(muster_copy(worker, p->tensor, place));
    return worker->device->memory->copy_out(worker->device, p->host, muster_tensor_address(place), mst_tensor_bytes(place));
}

static muster_status bring_in(muster_worker *worker, void *argument) {
    const passage *p = argument;
    muster_tensor place;
    MUSTER_TRY(contiguous_place(worker, p->tensor, &place));
    MUSTER_TRY(worker->device->memory->copy_in(worker->device, muster_tensor_address(place), p->host, mst_tensor_bytes(place)));
    return mst_tensor_contiguous(p->tensor) ? MUSTER_OK : muster_copy(worker, place, p->tensor);
}

static muster_status fetch(const copying *c, muster_tensor from, char *to) {
    const int32_t rank = copying_rank(c->runtime, from);
    passage p = {from, to};
    if (rank >= 0) return mst_runtime_run_on(c->runtime, (mst_on_device){rank, bring_out, &p});
    mst_tensor_pack(to, from);
    return MUSTER_OK;
}

static muster_status store(const copying *c, char *from, muster_tensor to) {
    const int32_t rank = copying_rank(c->runtime, to);
    passage p = {to, from};
    if (rank >= 0) return mst_runtime_run_on(c->runtime, (mst_on_device){rank, bring_in, &p});
    mst_tensor_unpack(to, from);
    return MUSTER_OK;
}

/* Copies through the contiguous host memory of `from` or `to`, or else through the staging
 * buffer. */
static muster_status pass(const copying *c, muster_tensor from, muster_tensor to) {
    char *const source = is_plain_host(c->runtime, from) ? muster_tensor_address(from) : NULL;
    char *const target = is_plain_host(c->runtime, to) ? muster_tensor_address(to) : NULL;
    if (source) return store(c, source, to);
    if (target) return fetch(c, from, target);
    MUSTER_TRY(fetch(c, from, c->staging));
    return store(c, c->staging, to);
}

/* ---- chunk by chunk ---- */

/* A chunk covers `step` indices of this axis and all indices of the axes after it. */
typedef struct chunks {
    int32_t axis;
    int64_t step;
} chunks;

static chunks cut(muster_tensor tensor, int64_t limit) {
    int64_t inner = muster_dtype_size(tensor.dtype);
    int32_t axis = tensor.ndim - 1;
    /* skips the axes that fit into the limit as a whole */
    while (axis > 0 && inner * tensor.shape[axis] <= limit) inner *= tensor.shape[axis--];
    return (chunks){axis, limit / inner > 0 ? limit / inner : 1};
}

static muster_tensor chunk_at(muster_tensor tensor, const chunks *chunks, const int64_t *at) {
    for (int32_t d = 0; d <= chunks->axis; d++) {
        const int64_t left = tensor.shape[d] - at[d];
        tensor.byte_offset += at[d] * tensor.strides[d] * muster_dtype_size(tensor.dtype);
        tensor.shape[d] = d < chunks->axis ? 1 : left < chunks->step ? left : chunks->step;
    }
    return tensor;
}

/* Moves to the next chunk; false: that was the last. */
static bool advance(muster_tensor tensor, const chunks *chunks, int64_t *at) {
    for (int32_t d = chunks->axis; d >= 0; d--) {
        at[d] += d == chunks->axis ? chunks->step : 1;
        if (at[d] < tensor.shape[d]) return true;
        at[d] = 0;
    }
    return false;
}

static muster_status pass_chunks(copying *c, muster_tensor from, muster_tensor to) {
    const chunks chunks = cut(to, mst_tensor_copy_chunk);
    int64_t at[MUSTER_MAX_DIMS] = {0};
    muster_status status;
    do {
        status = pass(c, chunk_at(from, &chunks, at), chunk_at(to, &chunks, at));
    } while (status == MUSTER_OK && advance(to, &chunks, at));
    return status;
}

static muster_status pass_all(copying *c, muster_tensor from, muster_tensor to) {
    const bool plain_from = is_plain_host(c->runtime, from), plain_to = is_plain_host(c->runtime, to);
    const bool direct = (plain_from && mst_tensor_contiguous(to)) || (plain_to && mst_tensor_contiguous(from));
    if (direct || (plain_from && copying_rank(c->runtime, to) < 0) || (plain_to && copying_rank(c->runtime, from) < 0))
        return pass(c, from, to);
    if (plain_from || plain_to) return pass_chunks(c, from, to);
    const int64_t all = mst_tensor_bytes(to), bytes = all < mst_tensor_copy_chunk ? all : mst_tensor_copy_chunk;
    c->staging = mst_alloc_uninitialised((size_t)bytes);
    if (!c->staging) return mst_out_of_memory(c->where, bytes);
    const muster_status status = pass_chunks(c, from, to);
    mst_free(c->staging);
    return status;
}

/* ---- the public function ---- */

static muster_status check(muster_runtime *runtime, muster_tensor from, muster_tensor to, const char *where) {
    MUSTER_TRY(mst_runtime_check_placed(runtime, from, where, "from"));
    MUSTER_TRY(mst_runtime_check_placed(runtime, to, where, "to"));
    if (to.dtype != from.dtype)
        return mst_error(MUSTER_DTYPE_MISMATCH, "%s: to: expected the dtype of from, %s, received %s", where, muster_dtype_name(from.dtype),
                         muster_dtype_name(to.dtype));
    if (mst_tensor_same_shape(from, to)) return MUSTER_OK;
    char expected[128], received[128];
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s: to: expected the shape of from, %s, received %s", where,
                     mst_shape_text(expected, from.ndim, from.shape), mst_shape_text(received, to.ndim, to.shape));
}

static bool same_elements(muster_tensor a, muster_tensor b) {
    bool same = muster_tensor_address(a) == muster_tensor_address(b);
    for (int32_t d = 0; same && d < a.ndim; d++) same = a.strides[d] == b.strides[d] || a.shape[d] == 1;
    return same;
}

muster_status mst_runtime_copy_placed(muster_runtime *runtime, muster_tensor from, muster_tensor to, const char *where) {
    if (muster_tensor_count(to) == 0 || same_elements(from, to)) return MUSTER_OK;
    const int32_t source = copying_rank(runtime, from), target = copying_rank(runtime, to);
    if (source >= 0 && target >= 0) {
        bool peer_access;
        MUSTER_TRY(mst_runtime_peer_access(runtime, target, source, &peer_access));
        if (peer_access) return copy_by(runtime, target, from, to);
    }
    return pass_all(&(copying){.runtime = runtime, .where = where}, from, to);
}

muster_status muster_runtime_tensor_copy(muster_runtime *runtime, muster_tensor from, muster_tensor to) {
    static const char where[] = "muster_runtime_tensor_copy";
    if (!runtime) return mst_error_null(where, "runtime", "a runtime");
    MUSTER_TRY(mst_pool_enter(runtime->pool, where, 0));
    muster_status status = check(runtime, from, to, where);
    if (status == MUSTER_OK) status = mst_runtime_copy_placed(runtime, from, to, where);
    mst_pool_leave(runtime->pool);
    return status;
}
