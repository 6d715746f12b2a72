/* all_reduce_apply between ranks on host memory: a portion goes through the first-level cache step
 * by step. The sum is in the chunk, the rule overwrites this rank's own parameter, and the other
 * ranks' parameters are copied from there. So each gradient, parameter and state is read from
 * memory once. Between two ranks a rule may do all of that by itself, in one loop. */
#include "combine_private.h"
#include "host_apply_private.h"
#include "many_private.h"

enum {
    LISTED = 16,                    /* the number of addresses of inputs kept on the stack; if there are more, they are read one by one */
    WIDE_BYTES = 2 * MST_APPLY_STEP /* a sum of f16 or bf16 in its compute dtype */
};
_Static_assert((int)MST_APPLY_STEP + (int)WIDE_BYTES <= (int)MST_CHUNK_BYTES, "a sum, and before it the sum in the compute dtype");

/* ---- sums ---- */

static int64_t list_inputs(const mst_view *view, const mst_apply_range *range, const void *inputs[LISTED]) {
    int64_t listed = 0;
    for (int32_t r = 0; r < view->size; r++)
        for (int64_t shard = 0; shard < view->requests[r]->shards && listed < LISTED; shard++)
            inputs[listed++] = mst_apply_input(view, r, shard, range);
    return listed;
}

static void accumulate_each(const mst_view *view, const mst_apply_range *range, muster_dtype dtype, void *accumulator) {
    bool first = true;
    for (int32_t r = 0; r < view->size; r++) {
        for (int64_t shard = 0; shard < view->requests[r]->shards; shard++) {
            const void *input = mst_apply_input(view, r, shard, range);
            mst_reduction_accumulate(MUSTER_SUM, dtype, accumulator, input, range->count, 1, first);
            first = false;
        }
    }
}

void mst_combine_sum(const mst_view *view, const mst_apply_range *range, void *to) {
    const muster_dtype dtype = mst_view_own(view)->dtype, compute = mst_dtype_compute(dtype);
    const int64_t inputs = mst_view_shards(view);
    const void *listed[LISTED];
    void *accumulator = compute == dtype ? to : view->chunk + MST_APPLY_STEP;
    if (inputs > LISTED) {
        accumulate_each(view, range, dtype, accumulator);
    } else {
        list_inputs(view, range, listed);
        if (inputs == 2) {
            mst_reduction_pair(MUSTER_SUM, dtype, to, NULL, listed[0], listed[1], range->count, 1);
            return;
        }
        mst_many_accumulate(MUSTER_SUM, dtype, accumulator, listed, inputs, range->count, 1);
    }
    if (compute != dtype) mst_convert(dtype, to, compute, accumulator, range->count);
}

/* ---- the rule ---- */

static void spread(const mst_view *view, const mst_apply_range *range, bool past_cache) {
    const int64_t element = mst_view_element(view), bytes = range->count * element;
    const void *values = mst_apply_parameter(mst_view_offer(view, view->rank), range->segment, range->first, element);
    for (int32_t i = 1; i < view->size; i++) {
        const int32_t rank = (view->rank + i) % view->size;
        (past_cache ? mst_stream_bytes : mst_copy_bytes)(mst_apply_output(view, rank, range), values, bytes);
    }
}

/* A single vector of gradients is its own sum. */
static const void *single_input(const mst_view *view, const mst_apply_range *range) {
    int32_t rank = 0;
    while (view->requests[rank]->shards == 0) rank++;
    return mst_apply_input(view, rank, 0, range);
}

static muster_status apply_step(const mst_view *view, mst_host_sum sum, const mst_apply_range *range, bool single, bool past_cache) {
    const void *gradient = view->chunk;
    if (mst_view_offer(view, view->rank)->phase == MST_APPLY_FINISH)
        gradient = mst_apply_kept(view, range);
    else if (single)
        gradient = single_input(view, range);
    else
        sum(view, range, view->chunk);
    MUSTER_TRY(mst_apply_call(view, view->apply->worker, range, gradient));
    spread(view, range, past_cache);
    return MUSTER_OK;
}

/* A rule that adds two gradients by itself, and writes both parameters, needs neither the sum in
 * the chunk nor copies. */
static bool takes_pairs(const mst_view *view, mst_host_sum sum) {
    const mst_apply_offer *offer = mst_view_offer(view, view->rank);
    return offer->pairs && offer->phase == MST_APPLY_WHOLE && !view->apply->on_device && view->size == 2 && mst_view_shards(view) == 2 &&
           sum == mst_combine_sum;
}

static muster_status apply_pair(const mst_view *view, const mst_apply_range *range, bool past_cache) {
    const void *listed[LISTED];
    list_inputs(view, range, listed);
    return mst_apply_call_pair(view, view->apply->worker, range, listed, mst_apply_output(view, 1 - view->rank, range), past_cache);
}

/* In the phase SUM the sum goes where an input lies, which is read only when its turn comes: so it
 * is made in the chunk. */
static muster_status keep_step(const mst_view *view, mst_host_sum sum, const mst_apply_range *range) {
    const mst_apply_offer *offer = mst_view_offer(view, view->rank);
    const int64_t element = mst_view_element(view);
    const mst_apply_use *use = view->apply;
    if (offer->phase == MST_APPLY_WHOLE) return sum(view, range, use->sums + range->at * element), MUSTER_OK;
    sum(view, range, view->chunk);
    memcpy(mst_apply_at(offer, use->on_device ? use->sums : offer->gradients, range, element), view->chunk,
           (size_t)(range->count * element));
    return use->on_device ? MUSTER_OK : mst_apply_call(view, use->worker, range, view->chunk);
}

static bool only_sums(const mst_view *view) { return view->apply->on_device || mst_view_offer(view, view->rank)->phase == MST_APPLY_SUM; }

static muster_status apply_in_steps(const mst_view *view, mst_host_sum sum, const mst_apply_range *range, bool past_cache) {
    const int64_t step = MST_APPLY_STEP / mst_view_element(view);
    const bool single = mst_view_shards(view) == 1;
    for (int64_t at = 0; at < range->count; at += step) {
        mst_apply_range of_step = *range;
        of_step.first += at;
        of_step.at += at;
        of_step.state += at;
        of_step.count = range->count - at < step ? range->count - at : step;
        MUSTER_TRY(only_sums(view) ? keep_step(view, sum, &of_step) : apply_step(view, sum, &of_step, single, past_cache));
    }
    return MUSTER_OK;
}

static muster_status apply_portion(const mst_view *view, mst_host_sum sum, bool past_cache) {
    mst_apply_range range;
    mst_apply_iterator iterator = mst_view_iterate(view, view->rank);
    view->apply->pairs = takes_pairs(view, sum);
    while (mst_apply_next(&iterator, &range))
        MUSTER_TRY(view->apply->pairs ? apply_pair(view, &range, past_cache) : apply_in_steps(view, sum, &range, past_cache));
    return MUSTER_OK;
}

void mst_host_apply(const mst_view *view, mst_host_sum sum) {
    const bool past_cache = !only_sums(view) && view->size > 1 && mst_stores_stream(view->stores);
    view->apply->status = apply_portion(view, sum, past_cache);
    if (past_cache) mst_stream_end();
    if (view->apply->status == MUSTER_OK && !view->apply->on_device) view->apply->status = mst_apply_locals(view, view->apply->worker);
}
