/* The steps of an all_reduce_apply over several processes on one member. */
#include "nodes_apply_private.h"
#include "staged/staged_private.h"

/* ---- portions ---- */

mst_nodes_chunk mst_nodes_chunk_of(const mst_nodes_apply *a, int32_t rank, int64_t round, int64_t step) {
    int64_t first;
    const int64_t extent = mst_apply_extent(a->offer, a->view.size, rank, &first), begin = round * step;
    if (begin >= extent) return (mst_nodes_chunk){extent, extent};
    return (mst_nodes_chunk){begin, extent - begin < step ? extent : begin + step};
}

mst_nodes_ranges mst_nodes_ranges_of(const mst_nodes_apply *a, int32_t rank, int64_t begin, int64_t end) {
    mst_nodes_ranges ranges = {.begin = begin, .end = end};
    (void)mst_apply_extent(a->offer, a->view.size, rank, &ranges.first);
    ranges.iterator = mst_apply_iterate(a->offer, a->view.size, rank);
    return ranges;
}

bool mst_nodes_ranges_next(mst_nodes_ranges *ranges, mst_apply_range *range, int64_t *at) {
    while (ranges->begin < ranges->end && mst_apply_next(&ranges->iterator, range)) {
        const int64_t first = range->state - ranges->first, last = first + range->count;
        if (first >= ranges->end) return false;
        const int64_t begin = first > ranges->begin ? first : ranges->begin, end = last < ranges->end ? last : ranges->end;
        if (begin >= end) continue;
        range->first += begin - first;
        range->at += begin - first;
        range->state += begin - first;
        range->count = end - begin;
        *at = begin - ranges->begin;
        return true;
    }
    return false;
}

/* ---- failures ---- */

void mst_nodes_apply_note(mst_nodes_apply *a, muster_status status) {
    if (status == MUSTER_OK || a->status != MUSTER_OK) return;
    a->status = status;
    mst_error_save(a->message);
}

static muster_status outcome(const mst_nodes_apply *a) {
    return a->status == MUSTER_OK ? MUSTER_OK : mst_error_restore(a->status, a->message);
}

/* ---- rounds ---- */

static mst_nodes_buffer *buffer_of(const mst_nodes_apply *a, int64_t round) {
    return &a->state->buffers[(a->round + round) % MST_NODES_BUFFERS];
}

static muster_status begin_move(const mst_nodes_apply *a, const mst_nodes_apply_plan *plan, int64_t round) {
    mst_nodes_buffer *buffer = buffer_of(a, round);
    plan->move(a, round, buffer);
    return mst_schedule_begin(&a->state->schedule, &buffer->move);
}

/* As the rounds of other collectives, but what fails on this member does not end them. */
static muster_status run_rounds(mst_nodes_apply *a, const mst_nodes_apply_plan *plan) {
    const bool leads = mst_nodes_leads(a->batch);
    for (int64_t step = 0; plan->rounds > 0 && step <= plan->rounds; step++) {
        muster_status status = leads && step > 0 ? begin_move(a, plan, step - 1) : MUSTER_OK;
        if (step < plan->rounds) plan->fill(a, step, buffer_of(a, step));
        if (leads && step > 0) {
            if (status == MUSTER_OK) status = mst_nodes_drive(a->state, a->batch->worker, a->batch->function);
            mst_nodes_conclude(a->state, status);
        }
        MUSTER_TRY(mst_nodes_join_members(a->batch));
        if (step > 0) plan->drain(a, step - 1, buffer_of(a, step - 1));
    }
    a->round += plan->rounds;
    return MUSTER_OK;
}

/* ---- the rule ---- */

/* On a device the sums lie in host memory, and go where the rule finds them. */
static muster_status apply_on_device(const mst_nodes_apply *a) {
    char *sums = NULL;
    if (a->offer->phase == MST_APPLY_WHOLE) MUSTER_TRY(mst_staged_apply_copy_sums(a->batch, &a->view, &sums));
    if (a->offer->phase == MST_APPLY_SUM) MUSTER_TRY(mst_staged_apply_keep_sums(a->batch, &a->view));
    MUSTER_TRY(mst_apply_sums(&a->view, a->batch->worker, sums));
    MUSTER_TRY(mst_apply_locals(&a->view, a->batch->worker));
    if (a->offer->phase == MST_APPLY_SUM) return MUSTER_OK;
    MUSTER_TRY(mst_staged_apply_copy_parameters(a->batch, a->view.rank, true));
    return mst_worker_sync(a->batch->worker);
}

/* On host memory the rule has been called for the sums as they came, but for FINISH. */
static muster_status apply_here(const mst_nodes_apply *a) {
    if (!mst_device_is_host(a->batch->worker->device)) return apply_on_device(a);
    if (a->offer->phase == MST_APPLY_FINISH) return mst_apply_visit(a->offer, a->view.size, a->view.rank, a->batch->worker);
    return mst_apply_locals(&a->view, a->batch->worker);
}

static mst_nodes_apply apply_of(mst_nodes_state *state, const mst_batch *batch) {
    mst_nodes_apply a = {.state = state, .batch = batch, .view = mst_nodes_view(state, batch, 0)};
    a.offer = mst_view_offer(&a.view, a.view.rank);
    a.dtype = a.offer->layout.dtype;
    a.compute = mst_dtype_compute(a.dtype);
    a.element = muster_dtype_size(a.dtype);
    a.travel = mst_nodes_travelling(batch->communicator, mst_view_own(&a.view));
    a.travel_element = muster_dtype_size(a.travel);
    if (a.travel != a.compute) a.weights = state->weights.at;
    for (int32_t r = 0; r < a.view.size; r++) {
        int64_t first;
        const int64_t extent = mst_apply_extent(a.offer, a.view.size, r, &first);
        if (extent > a.extent) a.extent = extent;
    }
    return a;
}

muster_status mst_nodes_apply_run(mst_nodes_state *state, const mst_batch *batch) {
    mst_nodes_apply a = apply_of(state, batch);
    const mst_nodes_apply_plan sum = mst_nodes_apply_sum_plan(&a), spread = mst_nodes_apply_spread_plan(&a);
    mst_nodes_apply_note(&a, mst_rendezvous_begin_writes(batch));
    if (a.offer->phase != MST_APPLY_FINISH) MUSTER_TRY(run_rounds(&a, &sum));
    if (a.status == MUSTER_OK) mst_nodes_apply_note(&a, apply_here(&a));
    if (a.offer->phase != MST_APPLY_SUM) MUSTER_TRY(run_rounds(&a, &spread));
    return outcome(&a);
}
