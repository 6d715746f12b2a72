/* all_reduce_apply: the shared vector, its portions, and calling the rule. */
#include "apply_private.h"

/* ---- the shared vector ---- */

void mst_apply_portion(muster_dtype dtype, int64_t count, int32_t size, int32_t rank, int64_t *begin, int64_t *end) {
    mst_segment(count, muster_dtype_size(dtype), size, rank, begin, end);
}

int64_t mst_apply_states(muster_dtype dtype, const mst_apply_segment *segments, int32_t segment_count, int32_t size, int32_t rank) {
    int64_t shared = 0, local = 0, begin, end;
    for (int32_t i = 0; i < segment_count; i++) *(segments[i].local ? &local : &shared) += segments[i].count;
    mst_apply_portion(dtype, shared, size, rank, &begin, &end);
    return end - begin + local;
}

void mst_view_portion(const mst_view *view, int32_t rank, int64_t *begin, int64_t *end) {
    const mst_request *own_request = mst_view_own(view);
    mst_apply_portion(own_request->dtype, own_request->output_count, view->size, rank, begin, end);
}

mst_apply_iterator mst_apply_iterate(const mst_apply_offer *offer, int64_t begin, int64_t end) {
    return (mst_apply_iterator){.offer = offer, .begin = begin, .end = end};
}

bool mst_apply_next(mst_apply_iterator *iterator, mst_apply_range *range) {
    while (iterator->next < iterator->offer->segment_count && iterator->before < iterator->end) {
        const mst_apply_segment *segment = &iterator->offer->segments[iterator->next++];
        const int64_t before = iterator->before, after = before + segment->count;
        if (segment->local) continue;
        iterator->before = after;
        const int64_t begin = before > iterator->begin ? before : iterator->begin, end = after < iterator->end ? after : iterator->end;
        *range = (mst_apply_range){iterator->next - 1, begin - before, end - begin, begin};
        if (begin < end) return true;
    }
    return false;
}

/* ---- where things lie ---- */

void *mst_apply_parameter(const mst_apply_offer *offer, int32_t segment, int64_t first, int64_t element) {
    return (char *)offer->segments[segment].parameter + first * element;
}

void *mst_apply_output(const mst_view *view, int32_t rank, const mst_apply_range *range) {
    const mst_apply_offer *offer = mst_view_offer(view, rank);
    const int64_t element = mst_view_element(view);
    return offer->staged ? offer->staged + range->at * element : mst_apply_parameter(offer, range->segment, range->first, element);
}

const void *mst_apply_input(const mst_view *view, int32_t rank, int64_t shard, const mst_apply_range *range) {
    const mst_apply_offer *offer = mst_view_offer(view, rank);
    const int64_t at = shard * offer->length + offer->segments[range->segment].offset + range->first;
    return (const char *)view->requests[rank]->input + at * mst_view_element(view);
}

void mst_apply_join(const mst_view *view, mst_apply_iterator *iterator, mst_apply_range *range) {
    for (;;) {
        mst_apply_iterator peeked = *iterator;
        mst_apply_range next;
        if (!mst_apply_next(&peeked, &next)) return;
        for (int32_t r = 0; r < view->size; r++) {
            const mst_apply_segment *segments = mst_view_offer(view, r)->segments;
            const int64_t end = segments[range->segment].offset + range->first + range->count;
            if (segments[next.segment].offset + next.first != end) return;
        }
        range->count += next.count;
        *iterator = peeked;
    }
}

/* ---- calling the rule ---- */

static muster_status call(const mst_apply_offer *offer, muster_worker *worker, mst_apply_part part) {
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

muster_status mst_apply_call(const mst_view *view, muster_worker *worker, const mst_apply_range *range, const void *gradient) {
    int64_t begin, end;
    mst_view_portion(view, view->rank, &begin, &end);
    return call(mst_view_offer(view, view->rank), worker,
                (mst_apply_part){.segment = range->segment,
                                 .dtype = mst_view_own(view)->dtype,
                                 .first = range->first,
                                 .count = range->count,
                                 .state = range->at - begin,
                                 .gradient = gradient});
}

muster_status mst_apply_sums(const mst_view *view, muster_worker *worker, const void *sums) {
    int64_t begin, end;
    mst_apply_range range;
    mst_view_portion(view, view->rank, &begin, &end);
    mst_apply_iterator iterator = mst_apply_iterate(mst_view_offer(view, view->rank), begin, end);
    while (mst_apply_next(&iterator, &range))
        MUSTER_TRY(mst_apply_call(view, worker, &range, (const char *)sums + (range.at - begin) * mst_view_element(view)));
    return MUSTER_OK;
}

static muster_status apply_locals(const mst_apply_offer *offer, muster_worker *worker, muster_dtype dtype, int64_t state) {
    for (int32_t i = 0; i < offer->segment_count; i++) {
        const mst_apply_segment *segment = &offer->segments[i];
        if (!segment->local) continue;
        MUSTER_TRY(call_in_steps(
            offer, worker,
            (mst_apply_part){.segment = i, .dtype = dtype, .count = segment->count, .state = state, .gradient = segment->gradient}));
        state += segment->count;
    }
    return MUSTER_OK;
}

muster_status mst_apply_locals(const mst_view *view, muster_worker *worker) {
    int64_t begin, end;
    mst_view_portion(view, view->rank, &begin, &end);
    return apply_locals(mst_view_offer(view, view->rank), worker, mst_view_own(view)->dtype, end - begin);
}

/* ---- one rank ---- */

static muster_status apply_alone(muster_worker *worker, const mst_request *request) {
    const mst_apply_offer *offer = request->apply;
    const int64_t element = muster_dtype_size(request->dtype);
    int64_t state = 0;
    for (int32_t i = 0; i < offer->segment_count; i++) {
        const mst_apply_segment *segment = &offer->segments[i];
        if (segment->local) continue;
        MUSTER_TRY(call_in_steps(offer, worker,
                                 (mst_apply_part){.segment = i,
                                                  .dtype = request->dtype,
                                                  .count = segment->count,
                                                  .state = state,
                                                  .gradient = mst_at(request->input, segment->offset * element)}));
        state += segment->count;
    }
    return apply_locals(offer, worker, request->dtype, state);
}

muster_status mst_apply_alone(muster_communicator *communicator, muster_worker *worker, const mst_request *request) {
    mst_member *member = &communicator->members[0];
    const uint64_t event = mst_record_begin(&worker->recorder, MST_EVENT_COLLECTIVE, mst_collective_name(request->collective),
                                            ++worker->sequence, mst_request_input_bytes(request));
    member->apply_tag = worker->sequence;
    atomic_store_explicit(&member->apply_written, member->apply_tag, memory_order_relaxed);
    muster_status status = apply_alone(worker, request);
    mst_record_end(&worker->recorder, event);
    return status;
}

/* ---- do the tables match? ---- */

static muster_status tables_differ(const muster_communicator *communicator, const mst_view *view, int32_t rank) {
    const mst_apply_offer *a = mst_view_offer(view, 0), *b = mst_view_offer(view, rank);
    char zero[MST_RANK_TEXT], other[MST_RANK_TEXT];
    mst_member_text(communicator, 0, zero);
    mst_member_text(communicator, rank, other);
    if (a->segment_count != b->segment_count)
        return mst_error(MUSTER_INVALID_ARGUMENT, "all_reduce_apply: segments: expected as many as %s, %d, received %d of %s", zero,
                         a->segment_count, b->segment_count, other);
    for (int32_t i = 0; i < a->segment_count; i++) {
        const mst_apply_segment *x = &a->segments[i], *y = &b->segments[i];
        if (x->local != y->local)
            return mst_error(MUSTER_INVALID_ARGUMENT, "all_reduce_apply: segment %d: expected a %s one as on %s, received a %s one of %s",
                             i, x->local ? "local" : "shared", zero, y->local ? "local" : "shared", other);
        if (!x->local && x->count != y->count)
            return mst_error(MUSTER_INVALID_ARGUMENT, "all_reduce_apply: segment %d: expected %lld elements as on %s, received %lld of %s",
                             i, (long long)x->count, zero, (long long)y->count, other);
    }
    return MUSTER_OK;
}

muster_status mst_apply_check(const muster_communicator *communicator, const mst_view *view) {
    for (int32_t r = 1; r < view->size; r++)
        if (mst_view_offer(view, r)->table != mst_view_offer(view, 0)->table) MUSTER_TRY(tables_differ(communicator, view, r));
    return MUSTER_OK;
}
