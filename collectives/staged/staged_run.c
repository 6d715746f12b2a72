/* Serves a batch through host memory. A rank offers copies of its tensors in host memory, and the
 * algorithms of `host` run on the copies. A rank on the host device offers what it would in the
 * transport `host`. */
#include "staged_private.h"

muster_status mst_staged_copy_out(muster_worker *worker, void *to_host, const void *from_device, int64_t bytes) {
    if (bytes == 0) return MUSTER_OK;
    if (mst_device_is_host(worker->device)) return memcpy(to_host, from_device, (size_t)bytes), MUSTER_OK;
    MUSTER_TRY(worker->device->memory->copy_out(worker->device, to_host, from_device, bytes));
    return mst_worker_sync(worker);
}

muster_status mst_staged_copy_in(muster_worker *worker, void *to_device, const void *from_host, int64_t bytes) {
    if (bytes == 0 || to_device == from_host) return MUSTER_OK;
    if (mst_device_is_host(worker->device)) return memcpy(to_device, from_host, (size_t)bytes), MUSTER_OK;
    MUSTER_TRY(worker->device->memory->copy_in(worker->device, to_device, from_host, bytes));
    return mst_worker_sync(worker);
}

static bool on_host(const mst_batch *batch) { return mst_device_is_host(batch->worker->device); }
static mst_staging *staging_of(const mst_batch *batch) { return &mst_staged_members(batch->communicator)[batch->rank].staging; }
static mst_momentum *own_momentum(const mst_batch *batch) { return &batch->member->momentum[batch->tag & 1]; }

/* Bytes of staging that request i needs beyond its slot. */
static int64_t staged_bytes(const mst_batch *batch, int32_t i, mst_offer offer) {
    const mst_request *request = &batch->requests[i];
    const bool copies_input = offer == MST_OFFER_COPY || (offer == MST_OFFER_TENSORS && !on_host(batch));
    return (copies_input ? mst_staging_bytes(mst_request_input_bytes(request)) : 0) +
           (on_host(batch) ? 0 : mst_staging_bytes(mst_request_output_bytes(request)) * (mst_request_momentum(request) ? 2 : 1));
}

static muster_status offer_input(const mst_batch *batch, int32_t i, mst_offer offer) {
    const mst_request *request = &batch->requests[i];
    const int64_t bytes = mst_request_input_bytes(request);
    if (offer == MST_OFFER_TENSORS && on_host(batch)) return MUSTER_OK;
    char *copy = offer == MST_OFFER_SLOT ? mst_host_offer_slot(batch, i, &mst_staged_members(batch->communicator)[batch->rank])
                                         : mst_staging_take(staging_of(batch), bytes);
    if (request->input) batch->offered[i].input = copy;
    return mst_staged_copy_out(batch->worker, copy, request->input, bytes);
}

static muster_status offer_output(const mst_batch *batch, int32_t i) {
    const mst_request *request = &batch->requests[i];
    const int64_t bytes = mst_request_output_bytes(request);
    if (on_host(batch) || !request->output) return MUSTER_OK;
    void *copy = batch->offered[i].output = mst_staging_take(staging_of(batch), bytes);
    return request->collective == MST_ALL_REDUCE_AXPY ? mst_staged_copy_out(batch->worker, copy, request->output, bytes) : MUSTER_OK;
}

static muster_status offer_velocity(const mst_batch *batch, int32_t i) {
    const mst_momentum *momentum = mst_request_momentum(&batch->requests[i]);
    const int64_t bytes = mst_request_output_bytes(&batch->requests[i]);
    if (!momentum || on_host(batch)) return MUSTER_OK;
    own_momentum(batch)->velocity = mst_staging_take(staging_of(batch), bytes);
    return mst_staged_copy_out(batch->worker, own_momentum(batch)->velocity, momentum->velocity, bytes);
}

static muster_status offer_all(mst_batch *batch) {
    int64_t staged = 0;
    for (int32_t i = 0; i < batch->count; i++) staged += staged_bytes(batch, i, mst_algorithm_at(batch->offered[i].algorithm)->offer);
    if (staged > 0) MUSTER_TRY(mst_staging_begin(staging_of(batch), staged));
    for (int32_t i = 0; i < batch->count; i++) {
        MUSTER_TRY(offer_input(batch, i, mst_algorithm_at(batch->offered[i].algorithm)->offer));
        MUSTER_TRY(offer_output(batch, i));
        MUSTER_TRY(offer_velocity(batch, i));
    }
    return MUSTER_OK;
}

muster_status mst_staged_prepare(mst_batch *batch) {
    if (mst_request_applies(batch->requests)) return mst_staged_apply_prepare(batch);
    for (int32_t i = 0; i < batch->count; i++) {
        /* Do not use slots for momentum. With `inline` every rank updates the whole velocity, while
         * the transports between devices, which may serve the next step, update only the rank's own
         * segment. */
        const bool no_slot = batch->count > 1 || mst_request_momentum(&batch->requests[i]);
        batch->offered[i].algorithm = (uint8_t)mst_host_select(batch, i, no_slot);
    }
    return offer_all(batch);
}

muster_status mst_staged_prepare_direct(mst_batch *batch) {
    for (int32_t i = 0; i < batch->count; i++) {
        const bool copies = mst_request_overwrites_input(&batch->requests[i]);
        batch->offered[i].algorithm = copies ? MST_ALGORITHM_reference : MST_ALGORITHM_direct;
    }
    return offer_all(batch);
}

muster_status mst_staged_run(const mst_batch *batch) {
    if (mst_request_applies(batch->requests)) return mst_staged_apply_run(batch);
    return mst_host_run(batch, mst_staged_members(batch->communicator), NULL);
}

muster_status mst_staged_finish(const mst_batch *batch) {
    if (mst_request_applies(batch->requests)) return mst_staged_apply_finish(batch);
    for (int32_t i = 0; i < batch->count && !on_host(batch); i++) {
        const mst_request *request = &batch->requests[i];
        const mst_momentum *momentum = mst_request_momentum(request);
        const int64_t bytes = mst_request_output_bytes(request);
        MUSTER_TRY(mst_staged_copy_in(batch->worker, request->output, batch->offered[i].output, bytes));
        if (momentum) MUSTER_TRY(mst_staged_copy_in(batch->worker, momentum->velocity, own_momentum(batch)->velocity, bytes));
    }
    return MUSTER_OK;
}
