/* all_reduce_apply through host memory. The states of a rank lie on its device, so the rule runs
 * there. A rank on a device offers a copy of its gradients, and host memory for the whole shared
 * vector. It sums its portion in that memory, copies the sums to its device, applies the rule
 * there, and copies the new values back and to all other ranks. When all have left, it copies
 * the other ranks' portions to its device. */
#include "staged_private.h"

static mst_device_staging *sums_of(const muster_communicator *communicator, const muster_worker *worker) {
    mst_device_staging *sums = communicator->world->open[MST_TRANSPORT_staged];
    return &sums[worker->rank];
}

static mst_apply_offer *own_offer(const mst_batch *batch) { return &batch->member->apply[batch->tag & 1]; }

static int64_t vector_bytes(const mst_request *request) { return request->output_count * muster_dtype_size(request->dtype); }

/* A copy of the gradients, the shared vector, and the sums on the device. */
static muster_status take_device(const muster_communicator *communicator, muster_worker *worker, const mst_request *request) {
    const int32_t rank = mst_communicator_rank(communicator, worker);
    int64_t begin, end;
    mst_apply_portion(request->dtype, request->output_count, communicator->size, rank, &begin, &end);
    MUSTER_TRY(mst_device_staging_begin(worker, sums_of(communicator, worker), (end - begin) * muster_dtype_size(request->dtype)));
    return mst_staging_begin(&mst_staged_members(communicator)[rank].staging,
                             mst_staging_bytes(mst_request_input_bytes(request)) + mst_staging_bytes(vector_bytes(request)));
}

muster_status mst_staged_apply_reserve(muster_communicator *communicator, muster_worker *worker, const mst_request *request) {
    if (!mst_device_is_host(worker->device)) return take_device(communicator, worker, request);
    if (communicator->forced.algorithm != MST_ALGORITHM_reference) return MUSTER_OK;
    return mst_staging_begin(&mst_staged_members(communicator)[mst_communicator_rank(communicator, worker)].staging,
                             mst_staging_bytes(mst_request_input_bytes(request)));
}

static muster_status prepare_device(const mst_batch *batch, mst_staging *staging) {
    const mst_request *request = batch->requests;
    const int64_t input = mst_request_input_bytes(request);
    MUSTER_TRY(take_device(batch->communicator, batch->worker, request));
    void *copy = mst_staging_take(staging, input);
    own_offer(batch)->staged = mst_staging_take(staging, vector_bytes(request));
    if (request->input) batch->offered->input = copy;
    return mst_staged_copy_out(batch->worker, copy, request->input, input);
}

static muster_status prepare_host(const mst_batch *batch, mst_staging *staging) {
    const int64_t bytes = mst_request_input_bytes(batch->requests);
    if (mst_algorithm_at(batch->offered->algorithm)->offer == MST_OFFER_TENSORS || bytes == 0) return MUSTER_OK;
    MUSTER_TRY(mst_staging_begin(staging, mst_staging_bytes(bytes)));
    void *copy = mst_staging_take(staging, bytes);
    batch->offered->input = copy;
    return mst_staged_copy_out(batch->worker, copy, batch->requests->input, bytes);
}

muster_status mst_staged_apply_prepare(const mst_batch *batch) {
    mst_staging *staging = &mst_staged_members(batch->communicator)[batch->rank].staging;
    batch->offered->algorithm = (uint8_t)mst_host_select(batch, 0, true);
    return mst_device_is_host(batch->worker->device) ? prepare_host(batch, staging) : prepare_device(batch, staging);
}

/* Copies the elements [begin, end) of the shared vector between this rank's parameters and its
 * staging memory. */
static muster_status copy_parameters(const mst_batch *batch, int64_t begin, int64_t end, bool out) {
    mst_device *device = batch->worker->device;
    const mst_apply_offer *offer = own_offer(batch);
    const int64_t element = muster_dtype_size(batch->requests->dtype);
    mst_apply_iterator iterator = mst_apply_iterate(offer, begin, end);
    mst_apply_range range;
    while (mst_apply_next(&iterator, &range)) {
        void *parameter = mst_apply_parameter(offer, range.segment, range.first, element), *staged = offer->staged + range.at * element;
        MUSTER_TRY(out ? device->memory->copy_out(device, staged, parameter, range.count * element)
                       : device->memory->copy_in(device, parameter, staged, range.count * element));
    }
    return MUSTER_OK;
}

static void spread(const mst_batch *batch, const mst_view *view, int64_t begin, int64_t end) {
    const mst_apply_offer *offer = own_offer(batch);
    const int64_t element = mst_view_element(view);
    mst_apply_iterator iterator = mst_apply_iterate(offer, begin, end);
    mst_apply_range range;
    while (mst_apply_next(&iterator, &range))
        for (int32_t r = 0; r < view->size; r++)
            if (r != view->rank)
                memcpy(mst_apply_output(view, r, &range), offer->staged + range.at * element, (size_t)(range.count * element));
}

muster_status mst_staged_apply_run(const mst_batch *batch) {
    mst_host_member *members = mst_staged_members(batch->communicator);
    if (mst_device_is_host(batch->worker->device)) return mst_host_run(batch, members, NULL);
    const mst_view view = mst_batch_view(batch, 0);
    const int64_t element = mst_view_element(&view);
    int64_t begin, end;
    mst_view_portion(&view, view.rank, &begin, &end);
    char *sums = own_offer(batch)->staged + begin * element, *on_device = sums_of(batch->communicator, batch->worker)->memory;
    MUSTER_TRY(mst_host_run(batch, members, sums));
    MUSTER_TRY(mst_staged_copy_in(batch->worker, on_device, sums, (end - begin) * element));
    MUSTER_TRY(mst_apply_sums(&view, batch->worker, on_device));
    MUSTER_TRY(mst_apply_locals(&view, batch->worker));
    MUSTER_TRY(copy_parameters(batch, begin, end, true));
    MUSTER_TRY(mst_worker_sync(batch->worker));
    spread(batch, &view, begin, end);
    return MUSTER_OK;
}

muster_status mst_staged_apply_finish(const mst_batch *batch) {
    const mst_request *request = batch->requests;
    int64_t begin, end;
    if (mst_device_is_host(batch->worker->device)) return MUSTER_OK;
    mst_apply_portion(request->dtype, request->output_count, batch->communicator->size, batch->rank, &begin, &end);
    MUSTER_TRY(copy_parameters(batch, 0, begin, false));
    MUSTER_TRY(copy_parameters(batch, end, request->output_count, false));
    return mst_worker_sync(batch->worker);
}
