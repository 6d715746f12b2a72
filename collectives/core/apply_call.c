/* all_reduce_apply: calling the rule, and what the phase SUM is for. */
#include "apply_private.h"

static muster_status call(const mst_apply_offer *offer, muster_worker *worker, mst_apply_part part) {
    if (!offer->function) return MUSTER_OK;
    if (offer->phase != MST_APPLY_SUM)
        part.before = part.after = mst_apply_parameter(offer, part.segment, part.first, muster_dtype_size(part.dtype));
    return offer->function(offer->context, worker, &part);
}

/* Step by step on host memory, so that what the rule reads and writes is in the cache; at once
 * elsewhere. */
static muster_status call_in_steps(const mst_apply_offer *offer, muster_worker *worker, mst_apply_part part) {
    const int64_t element = muster_dtype_size(part.dtype), left = part.count,
                  step = mst_device_is_host(worker->device) ? MST_APPLY_STEP / element : left;
    const char *gradient = part.gradient;
    for (int64_t at = 0; at < left; at += step) {
        mst_apply_part of_step = part;
        of_step.first += at;
        of_step.state += at;
        of_step.count = left - at < step ? left - at : step;
        of_step.gradient = gradient + at * element;
        MUSTER_TRY(call(offer, worker, of_step));
    }
    return MUSTER_OK;
}

static mst_apply_part part_of(const mst_apply_offer *offer, const mst_apply_range *range, const void *gradient) {
    return (mst_apply_part){.segment = range->segment,
                            .dtype = offer->layout.dtype,
                            .first = range->first,
                            .count = range->count,
                            .state = range->state,
                            .gradient = gradient};
}

muster_status mst_apply_call(const mst_view *view, muster_worker *worker, const mst_apply_range *range, const void *gradient) {
    const mst_apply_offer *offer = mst_view_offer(view, view->rank);
    return call(offer, worker, part_of(offer, range, gradient));
}

muster_status mst_apply_call_pair(const mst_view *view, muster_worker *worker, const mst_apply_range *range, const void *const gradients[2],
                                  void *copy, bool past_cache) {
    const mst_apply_offer *offer = mst_view_offer(view, view->rank);
    mst_apply_part part = part_of(offer, range, gradients[0]);
    part.second = gradients[1];
    part.copy = copy;
    part.past_cache = past_cache;
    return call(offer, worker, part);
}

muster_status mst_apply_sums(const mst_view *view, muster_worker *worker, const char *sums) {
    int64_t first;
    mst_apply_range range;
    mst_apply_iterator iterator = mst_view_iterate(view, view->rank);
    (void)mst_view_extent(view, view->rank, &first);
    while (mst_apply_next(&iterator, &range))
        MUSTER_TRY(mst_apply_call(view, worker, &range,
                                  sums ? sums + (range.state - first) * mst_view_element(view) : mst_apply_kept(view, &range)));
    return MUSTER_OK;
}

static muster_status apply_locals(const mst_apply_offer *offer, int32_t size, int32_t rank, muster_worker *worker) {
    int64_t state = mst_apply_portion(&offer->layout, size, rank);
    const bool more = offer->bucket + 1 < offer->layout.bucket_count && offer->bucket >= 0;
    for (int32_t i = 0; i < offer->segment_count && !more; i++) {
        const mst_apply_segment *segment = &offer->segments[i];
        if (!segment->local) continue;
        MUSTER_TRY(call_in_steps(
            offer, worker,
            (mst_apply_part){
                .segment = i, .dtype = offer->layout.dtype, .count = segment->count, .state = state, .gradient = segment->gradient}));
        state += segment->count;
    }
    return MUSTER_OK;
}

muster_status mst_apply_locals(const mst_view *view, muster_worker *worker) {
    return apply_locals(mst_view_offer(view, view->rank), view->size, view->rank, worker);
}

muster_status mst_apply_visit(const mst_apply_offer *offer, int32_t size, int32_t rank, muster_worker *worker) {
    mst_apply_range range;
    mst_apply_iterator iterator = mst_apply_iterate(offer, size, rank);
    while (mst_apply_next(&iterator, &range))
        MUSTER_TRY(call_in_steps(
            offer, worker, part_of(offer, &range, mst_apply_at(offer, offer->gradients, &range, muster_dtype_size(offer->layout.dtype)))));
    return apply_locals(offer, size, rank, worker);
}

muster_status mst_apply_alone(muster_communicator *communicator, muster_worker *worker, const mst_request *request) {
    mst_member *member = &communicator->members[0];
    const uint64_t event = mst_record_begin(&worker->recorder, MST_EVENT_COLLECTIVE, mst_collective_name(request->collective),
                                            ++worker->sequence, mst_request_input_bytes(request));
    if (request->apply->phase != MST_APPLY_SUM) {
        member->apply_tag = worker->sequence;
        atomic_store_explicit(&member->apply_written, member->apply_tag, memory_order_relaxed);
    }
    muster_status status = mst_apply_visit(request->apply, 1, 0, worker);
    mst_record_end(&worker->recorder, event);
    return status;
}
