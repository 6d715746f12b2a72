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

/* The bytes of the copy of the shared vector in host memory. Only a phase that writes parameters
 * needs one. */
static int64_t vector_bytes(const mst_request *request) {
    return request->apply->phase == MST_APPLY_SUM ? 0 : request->output_count * muster_dtype_size(request->dtype);
}

/* The bytes of the gradients that the phase reads: those of one bucket, or all. */
static void find_span(const mst_batch *batch, int64_t *begin, int64_t *end) {
    const mst_request *request = batch->requests;
    const mst_apply_offer *offer = own_offer(batch);
    const int64_t element = muster_dtype_size(request->dtype);
    mst_apply_iterator iterator = mst_apply_iterate(offer, 1, 0);
    mst_apply_range range;
    *begin = *end = 0;
    if (offer->bucket == MST_APPLY_ALL_BUCKETS && offer->phase != MST_APPLY_SUM) {
        *end = mst_request_finishes(request) ? 0 : mst_request_input_bytes(request);
        return;
    }
    for (bool begun = false; mst_apply_next(&iterator, &range); begun = true) {
        const int64_t at = (offer->segments[range.segment].offset + range.first) * element;
        if (!begun) *begin = at;
        *end = at + range.count * element;
    }
}

/* Takes staging memory: on the device for the sums, on the host for `input` bytes of gradients and
 * for the shared vector. */
static muster_status take_device(const muster_communicator *communicator, muster_worker *worker, const mst_request *request,
                                 int64_t input) {
    const int32_t rank = mst_communicator_rank(communicator, worker);
    const mst_apply_offer *offer = request->apply;
    const int64_t sums = offer->phase == MST_APPLY_WHOLE ? mst_apply_portion(&offer->layout, mst_communicator_total(communicator),
                                                                             mst_communicator_public(communicator, rank))
                                                         : 0;
    MUSTER_TRY(mst_device_staging_begin(worker, sums_of(communicator, worker), sums * muster_dtype_size(request->dtype)));
    return mst_staging_begin(&mst_staged_members(communicator)[rank].staging,
                             mst_staging_bytes(input) + mst_staging_bytes(vector_bytes(request)));
}

muster_status mst_staged_apply_reserve(muster_communicator *communicator, muster_worker *worker, const mst_request *request) {
    if (!mst_device_is_host(worker->device)) return take_device(communicator, worker, request, mst_request_input_bytes(request));
    if (communicator->forced.algorithm != MST_ALGORITHM_reference) return MUSTER_OK;
    return mst_staging_begin(&mst_staged_members(communicator)[mst_communicator_rank(communicator, worker)].staging,
                             mst_staging_bytes(mst_request_input_bytes(request)));
}

muster_status mst_staged_apply_prepare_device(const mst_batch *batch) {
    const mst_request *request = batch->requests;
    mst_staging *staging = &mst_staged_members(batch->communicator)[batch->rank].staging;
    int64_t begin, end;
    find_span(batch, &begin, &end);
    MUSTER_TRY(take_device(batch->communicator, batch->worker, request, end - begin));
    char *copy = mst_staging_take(staging, end - begin);
    own_offer(batch)->staged = mst_staging_take(staging, vector_bytes(request));
    if (request->input) batch->offered->input = (char *)((uintptr_t)copy - (uintptr_t)begin); /* where the vector would begin */
    return mst_staged_copy_out(batch->worker, copy, mst_at(request->input, begin), end - begin);
}

static muster_status prepare_host(const mst_batch *batch, mst_staging *staging) {
    const int64_t bytes = mst_request_input_bytes(batch->requests);
    if (mst_algorithm_at(batch->offered->algorithm)->offer == MST_OFFER_TENSORS || bytes == 0 || mst_request_finishes(batch->requests))
        return MUSTER_OK;
    MUSTER_TRY(mst_staging_begin(staging, mst_staging_bytes(bytes)));
    void *copy = mst_staging_take(staging, bytes);
    batch->offered->input = copy;
    return mst_staged_copy_out(batch->worker, copy, batch->requests->input, bytes);
}

muster_status mst_staged_apply_prepare(const mst_batch *batch) {
    mst_staging *staging = &mst_staged_members(batch->communicator)[batch->rank].staging;
    batch->offered->algorithm = (uint8_t)mst_host_select(batch, 0, true);
    return mst_device_is_host(batch->worker->device) ? prepare_host(batch, staging) : mst_staged_apply_prepare_device(batch);
}

muster_status mst_staged_apply_copy_parameters(const mst_batch *batch, int32_t rank, bool out) {
    mst_device *device = batch->worker->device;
    const mst_apply_offer *offer = own_offer(batch);
    const int64_t element = muster_dtype_size(batch->requests->dtype);
    mst_apply_iterator iterator = mst_apply_iterate(offer, mst_communicator_total(batch->communicator), rank);
    mst_apply_range range;
    while (mst_apply_next(&iterator, &range)) {
        void *parameter = mst_apply_parameter(offer, range.segment, range.first, element), *staged = offer->staged + range.at * element;
        MUSTER_TRY(out ? device->memory->copy_out(device, staged, parameter, range.count * element)
                       : device->memory->copy_in(device, parameter, staged, range.count * element));
    }
    return MUSTER_OK;
}

static void spread(const mst_batch *batch, const mst_view *view) {
    const mst_apply_offer *offer = own_offer(batch);
    const int64_t element = mst_view_element(view);
    mst_apply_iterator iterator = mst_view_iterate(view, view->rank);
    mst_apply_range range;
    while (mst_apply_next(&iterator, &range))
        for (int32_t r = 0; r < view->size; r++)
            if (r != view->rank)
                memcpy(mst_apply_output(view, r, &range), offer->staged + range.at * element, (size_t)(range.count * element));
}

/* In slices. */
muster_status mst_staged_apply_copy_sums(const mst_batch *batch, const mst_view *view, char **sums) {
    char *on_device = *sums = sums_of(batch->communicator, batch->worker)->memory;
    const mst_apply_offer *offer = own_offer(batch);
    const int64_t element = mst_view_element(view);
    mst_apply_slice slice = {.next = 0};
    int64_t first;
    (void)mst_view_extent(view, view->rank, &first);
    while (mst_apply_next_slice(&offer->layout, view->size, view->rank, &slice)) {
        if (offer->bucket != MST_APPLY_ALL_BUCKETS && slice.next != offer->bucket + 1) continue;
        MUSTER_TRY(mst_staged_copy_in(batch->worker, on_device + (slice.state - first) * element, offer->staged + slice.begin * element,
                                      (slice.end - slice.begin) * element));
    }
    return MUSTER_OK;
}

muster_status mst_staged_apply_keep_sums(const mst_batch *batch, const mst_view *view) {
    mst_device *device = batch->worker->device;
    const mst_apply_offer *offer = own_offer(batch);
    const int64_t element = mst_view_element(view);
    char *copy = (char *)(uintptr_t)batch->offered->input;
    mst_apply_iterator iterator = mst_view_iterate(view, view->rank);
    mst_apply_range range;
    while (mst_apply_next(&iterator, &range))
        MUSTER_TRY(device->memory->copy_in(device, mst_apply_kept(view, &range), mst_apply_at(offer, copy, &range, element),
                                           range.count * element));
    return mst_worker_sync(batch->worker);
}

static muster_status sum_on_device(const mst_batch *batch, const mst_view *view) {
    MUSTER_TRY(mst_host_run(batch, mst_staged_members(batch->communicator), (char *)(uintptr_t)batch->offered->input));
    MUSTER_TRY(mst_staged_apply_keep_sums(batch, view));
    MUSTER_TRY(mst_apply_sums(view, batch->worker, NULL));
    return mst_apply_locals(view, batch->worker);
}

muster_status mst_staged_apply_run(const mst_batch *batch) {
    mst_host_member *members = mst_staged_members(batch->communicator);
    if (mst_device_is_host(batch->worker->device)) return mst_host_run(batch, members, NULL);
    const mst_view view = mst_batch_view(batch, 0);
    const uint8_t phase = own_offer(batch)->phase;
    char *on_device = NULL;
    if (phase == MST_APPLY_SUM) return sum_on_device(batch, &view);
    if (phase == MST_APPLY_WHOLE) {
        MUSTER_TRY(mst_host_run(batch, members, own_offer(batch)->staged));
        MUSTER_TRY(mst_staged_apply_copy_sums(batch, &view, &on_device));
    }
    MUSTER_TRY(mst_apply_sums(&view, batch->worker, on_device));
    MUSTER_TRY(mst_apply_locals(&view, batch->worker));
    MUSTER_TRY(mst_staged_apply_copy_parameters(batch, view.rank, true));
    MUSTER_TRY(mst_worker_sync(batch->worker));
    spread(batch, &view);
    return MUSTER_OK;
}

muster_status mst_staged_apply_finish(const mst_batch *batch) {
    if (mst_device_is_host(batch->worker->device) || own_offer(batch)->phase == MST_APPLY_SUM) return MUSTER_OK;
    for (int32_t r = 0; r < mst_communicator_total(batch->communicator); r++)
        if (r != mst_communicator_public(batch->communicator, batch->rank)) MUSTER_TRY(mst_staged_apply_copy_parameters(batch, r, false));
    return mst_worker_sync(batch->worker);
}
