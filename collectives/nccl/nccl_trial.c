/* The trial of a new communicator.
 *
 * NCCL makes its connections when they are first used (since 2.22 also those of collectives): the
 * rings, trees and switch connections of each algorithm, and those to each peer of messages. There
 * it takes device memory and shared memory, starts threads, and waits for the host threads of the
 * other ranks, whose driver may be busy. So all of it is done here, while nothing is in flight, and
 * an NCCL that fails at it is not used at all.
 *
 * NCCL chooses the algorithm by the size, too: trees sum few bytes, rings or a switch many. */
#include "nccl_private.h"

#include "cuda/cuda_impl.h"

enum {
    SMALL = 8,
    MOST_BYTES = 4 << 20,
    LEAST_BYTES = 64 << 10,
    DIVISOR = 16, /* the trials take at most the free memory of the slab divided by this */
    MESSAGE = 256,
};

typedef struct trial {
    mst_nccl_worker *nccl_worker;
    mst_nccl_handle *handle;
    const mst_nccl_api *api;
    struct CUstream_st *stream;
    char *memory;
    size_t bytes; /* of each rank's part; `size` parts fit into the memory */
} trial;

/* ---- memory ---- */

static int64_t common_bytes(const mst_nccl *nccl) {
    int64_t bytes = MOST_BYTES;
    for (int32_t r = 0; r < nccl->size; r++) {
        const int64_t most = mst_cuda_free_block(nccl->workers[r].worker->device) / DIVISOR;
        if (most < bytes) bytes = most;
    }
    return bytes < LEAST_BYTES ? LEAST_BYTES : bytes;
}

muster_status mst_nccl_trial_open(mst_nccl *nccl) {
    nccl->trial_bytes = common_bytes(nccl);
    for (int32_t r = 0; r < nccl->size; r++) {
        mst_device *device = nccl->workers[r].worker->device;
        MUSTER_TRY(device->memory->allocate(device, nccl->trial_bytes, &nccl->workers[r].trial));
    }
    return MUSTER_OK;
}

void mst_nccl_trial_close(mst_nccl *nccl) {
    for (int32_t r = 0; r < nccl->size; r++) {
        mst_device *device = nccl->workers[r].worker->device;
        if (nccl->workers[r].trial && !device->lost) device->memory->release(device, nccl->workers[r].trial);
        nccl->workers[r].trial = NULL;
    }
}

/* ---- the steps: each is one group, and in place ---- */

/* A type that NVSwitches sum (ncclNvlsSupported in NCCL), else the switch is not connected. */
enum { TYPE = MST_NCCL_FLOAT64 };
static size_t elements(size_t bytes) { return bytes / sizeof(double); }

#define CALL MST_NCCL_CALL

static muster_status sum(const trial *t, size_t bytes) {
    return CALL(t, ncclAllReduce, t->memory, t->memory, elements(bytes), TYPE, MST_NCCL_SUM, t->handle->comm, t->stream);
}

static muster_status small_sum(const trial *t) { return sum(t, SMALL); }
static muster_status large_sum(const trial *t) { return sum(t, t->bytes * (size_t)t->handle->size); }

static char *part_of(const trial *t, int32_t rank) { return t->memory + (size_t)rank * t->bytes; }

static muster_status reduce_scatter(const trial *t) {
    return CALL(t, ncclReduceScatter, t->memory, part_of(t, t->handle->rank), elements(t->bytes), TYPE, MST_NCCL_SUM, t->handle->comm,
                t->stream);
}

static muster_status all_gather(const trial *t) {
    return CALL(t, ncclAllGather, part_of(t, t->handle->rank), t->memory, elements(t->bytes), TYPE, t->handle->comm, t->stream);
}

static muster_status reduce(const trial *t) {
    return CALL(t, ncclReduce, t->memory, t->memory, elements(t->bytes), TYPE, MST_NCCL_SUM, 0, t->handle->comm, t->stream);
}

static muster_status broadcast(const trial *t) {
    return CALL(t, ncclBroadcast, t->memory, t->memory, elements(t->bytes), TYPE, 0, t->handle->comm, t->stream);
}

/* A message from each rank to each other one. */
static muster_status messages(const trial *t) {
    const int32_t size = t->handle->size, rank = t->handle->rank;
    const size_t bytes = t->bytes / 2 / (size_t)size < MESSAGE ? 1 : MESSAGE;
    char *sent = t->memory, *received = t->memory + bytes * (size_t)size;
    for (int32_t peer = 0; peer < size; peer++) {
        if (peer == rank) continue;
        MUSTER_TRY(CALL(t, ncclSend, sent + bytes * (size_t)peer, bytes, MST_NCCL_UINT8, peer, t->handle->comm, t->stream));
        MUSTER_TRY(CALL(t, ncclRecv, received + bytes * (size_t)peer, bytes, MST_NCCL_UINT8, peer, t->handle->comm, t->stream));
    }
    return MUSTER_OK;
}

/* ---- the trial ---- */

static muster_status grouped(const trial *t, muster_status (*step)(const trial *t)) {
    MUSTER_TRY(CALL(t, ncclGroupStart));
    return mst_nccl_group_end(t->nccl_worker, t->handle, step(t), t->nccl_worker->nccl->world->nccl_create_ns);
}

static muster_status run_steps(const trial *t) {
    static muster_status (*const steps[])(const trial *) = {small_sum, large_sum, reduce_scatter, all_gather, reduce, broadcast, messages};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        MUSTER_TRY(grouped(t, steps[i]));
        MUSTER_TRY(mst_worker_sync(t->nccl_worker->worker));
    }
    return MUSTER_OK;
}

muster_status mst_nccl_trial(mst_nccl_worker *nccl_worker, mst_nccl_handle *handle) {
    muster_worker *worker = nccl_worker->worker;
    const trial t = {.nccl_worker = nccl_worker,
                     .handle = handle,
                     .api = nccl_worker->nccl->api,
                     .stream = mst_cuda_stream(worker->device),
                     .memory = nccl_worker->trial,
                     .bytes = (size_t)(nccl_worker->nccl->trial_bytes / handle->size) & -sizeof(double)};
    if (!handle->comm)
        return mst_error(MUSTER_ABORTED, "NCCL: rank %d has lost its communicator before its trial", mst_worker_public_rank(worker));
    worker->device->in_flight = true;
    nccl_worker->used = worker->epoch;
    const muster_status status = run_steps(&t);
    /* The other ranks may be inside NCCL and wait for data that this rank will not send. */
    if (status != MUSTER_OK) mst_pool_abort(worker, status);
    return status;
}
