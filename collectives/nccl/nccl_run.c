/* Collectives by NCCL. If NCCL combines the values as the interface promises, its own collective
 * serves the request. Otherwise NCCL exchanges the inputs, Muster's kernel combines them in rank
 * order, and NCCL distributes the results. Rank r combines segment r, as between peers, so the bits
 * are the same.
 *
 *   dtype x op                                 combined by
 *   i8 u8 i32 u32 i64 u64 x sum prod max min   NCCL: exact, in any order
 *   f32 f64 x sum prod avg                     NCCL, in an order that it chooses, the same on every
 *                                              rank; in a fixed order: Muster
 *   f32 f64 x max min                          Muster: NCCL does not promise that NaN gets through
 *   f16 bf16                                   Muster: NCCL does not document in which type it sums
 *   i16 bool                                   Muster: NCCL has no such types
 *   shards, axpy, momentum, apply              Muster
 *
 * A rendezvous uses at most two NCCL groups, with the kernels between them. Each group contains the
 * calls of all requests. */
#include "nccl_issue_private.h"

#include "cuda/cuda_impl.h"

/* Takes the staging memory even if another transport serves in the end. From here until the end of
 * the run some rank may be inside NCCL, and then no rank may ask the driver for memory. */
muster_status mst_nccl_prepare(mst_batch *batch) {
    mst_device_staging *staging = &mst_nccl_worker_of(batch->communicator, batch->worker)->staging;
    int64_t bytes = 0;
    bool expected = false;
    for (int32_t i = 0; i < batch->count; i++) {
        bytes += mst_device_copy_bytes(batch, i);
        if (mst_transport_winner(batch->communicator, &batch->requests[i], NULL) != &mst_transport_nccl) continue;
        bytes += mst_nccl_expected_bytes(batch->communicator, batch->rank, &batch->requests[i]);
        expected = true;
    }
    MUSTER_TRY(mst_device_staging_begin(batch->worker, staging, bytes));
    if (expected) batch->worker->device->in_flight = true;
    for (int32_t i = 0; i < batch->count; i++) MUSTER_TRY(mst_device_offer_copy(batch, i, staging));
    return MUSTER_OK;
}

muster_status mst_nccl_apply_reserve(muster_communicator *communicator, muster_worker *worker, const mst_request *request) {
    if (mst_transport_winner(communicator, request, NULL) != &mst_transport_nccl) return MUSTER_OK;
    return mst_device_staging_begin(worker, &mst_nccl_worker_of(communicator, worker)->staging,
                                    mst_nccl_expected_bytes(communicator, mst_communicator_rank(communicator, worker), request));
}

static bool goes_natively(const mst_nccl_issue *c, const mst_view *view) {
    return mst_nccl_native(view, c->batch->communicator->world->fixed_order);
}

static muster_status begin_request(const mst_nccl_issue *c, const mst_view *view, char *slots) {
    return goes_natively(c, view) ? mst_nccl_do_natively(c, view) : mst_nccl_exchange(c, view, slots);
}

typedef muster_status (*step)(const mst_nccl_issue *c, const mst_view *view, char *slots);
/* Runs a step for each request that NCCL serves, or, without `all`, only for those that Muster's
 * kernel combines. The slots of the latter lie one after the other. */
static muster_status each(const mst_nccl_issue *c, step step, bool all) {
    char *slots = c->staging->memory + c->staging->used;
    for (int32_t i = 0; i < c->batch->count; i++) {
        if (c->batch->winners[i] != MST_TRANSPORT_nccl) continue;
        mst_view view = mst_batch_view(c->batch, i);
        const bool native = goes_natively(c, &view);
        if (all || !native) MUSTER_TRY(step(c, &view, slots));
        if (!native) slots += mst_nccl_slots_bytes(&view);
    }
    return MUSTER_OK;
}

/* Runs a step inside an NCCL group. */
static muster_status grouped(const mst_nccl_issue *c, step step, bool all) {
    int64_t warn_after_ns, fail_after_ns;
    MUSTER_TRY(MST_NCCL_CALL(c, ncclGroupStart));
    mst_worker_deadlines(c->worker, &warn_after_ns, &fail_after_ns);
    return mst_nccl_group_end(c->nccl_worker, c->handle, each(c, step, all), fail_after_ns);
}

static muster_status make_slots(const mst_nccl_issue *c, bool *combined) {
    int64_t bytes = 0;
    for (int32_t i = 0; i < c->batch->count; i++) {
        if (c->batch->winners[i] != MST_TRANSPORT_nccl) continue;
        mst_view view = mst_batch_view(c->batch, i);
        if (goes_natively(c, &view)) continue;
        bytes += mst_nccl_slots_bytes(&view);
        *combined = true;
    }
    if (c->staging->used + bytes <= c->staging->capacity) return MUSTER_OK;
    if (c->staging->used == 0) return mst_device_staging_begin(c->worker, c->staging, bytes);
    return mst_error(MUSTER_OUT_OF_MEMORY,
                     "NCCL on %s: out of memory: expected room for %lld bytes beside %lld that are in use, received %lld",
                     c->worker->device->name, (long long)bytes, (long long)c->staging->used, (long long)c->staging->capacity);
}

static muster_status issue_all(const mst_nccl_issue *c) {
    bool combined = false;
    MUSTER_TRY(make_slots(c, &combined));
    MUSTER_TRY(grouped(c, begin_request, true));
    if (!combined) return MUSTER_OK;
    MUSTER_TRY(each(c, mst_nccl_combine, false));
    return grouped(c, mst_nccl_spread, false);
}

/* The other ranks may be inside NCCL and wait for data that this rank will not send. After a
 * failure of NCCL this rank's communicators end, also where no other rank has entered NCCL, which
 * would end its own. */
static muster_status issue_failed(mst_nccl_worker *nccl_worker, const char *function, muster_status status) {
    char message[MST_MESSAGE_SIZE];
    mst_pool_abort(nccl_worker->worker, mst_collective_error(function, status));
    if (!atomic_load(&nccl_worker->nccl->blamed)) return status;
    mst_error_save(message);
    mst_nccl_abort(nccl_worker);
    return mst_error_restore(status, message);
}

muster_status mst_nccl_run(const mst_batch *batch) {
    muster_worker *worker = batch->worker;
    mst_nccl_worker *nccl_worker = mst_nccl_worker_of(batch->communicator, worker);
    const mst_nccl_issue c = {.batch = batch,
                              .worker = worker,
                              .nccl_worker = nccl_worker,
                              .handle = mst_nccl_state_of(batch->communicator)->handles[batch->rank],
                              .api = nccl_worker->nccl->api,
                              .stream = mst_cuda_work_stream(worker->device),
                              .staging = &nccl_worker->staging,
                              .size = batch->communicator->size,
                              .rank = batch->rank};
    if (!c.handle || !c.handle->comm)
        return mst_error(MUSTER_ABORTED, "%s: rank %d has lost its NCCL communicator with the call", batch->function, batch->rank);
    worker->device->in_flight = true;
    nccl_worker->used = worker->epoch;
    nccl_worker->function = batch->function;
    const muster_status status = issue_all(&c);
    return status == MUSTER_OK ? MUSTER_OK : issue_failed(nccl_worker, batch->function, status);
}
