/* The sums of an all_reduce_apply over several processes. In a round each process sends every other
 * one its part of the sums of that process's ranks. */
#include "nodes_apply_private.h"

/* Elements of each portion in a round: as many as fit for all ranks, and from all processes. */
static int64_t sum_step(const mst_nodes_apply *a) {
    const mst_rank_span *span = a->state->span;
    const int64_t got = (int64_t)span->processes * span->most, parts = span->size > got ? span->size : got;
    const int64_t line = MST_CACHE_LINE / a->travel_element, step = mst_nodes_area_bytes(span) / a->travel_element / parts;
    return step >= line ? step / line * line : step > 0 ? step : 1;
}

static int64_t chunk_bytes(const mst_nodes_apply *a, int32_t rank, int64_t round) {
    const mst_nodes_chunk chunk = mst_nodes_chunk_of(a, rank, round, sum_step(a));
    return (chunk.end - chunk.begin) * a->travel_element;
}

static bool is_here(const mst_nodes_apply *a, int32_t rank) { return a->state->span->process_of[rank] == a->state->span->here; }

/* What stays in the process lies behind all that travels. */
static int64_t own_offset(const mst_nodes_apply *a, int64_t round) {
    int64_t bytes = 0;
    for (int32_t r = 0; r < a->view.size; r++) bytes += is_here(a, r) ? 0 : chunk_bytes(a, r, round);
    return bytes;
}

/* ---- filling ---- */

/* sum[0, range->count) = that of all members of the process, in rank order. */
static void combine(const mst_nodes_apply *a, const mst_apply_range *range, void *sum) {
    const mst_rank_span *span = a->state->span;
    bool begun = false;
    for (int32_t m = 0; m < a->batch->communicator->size; m++) {
        const int32_t rank = span->ranks[m];
        for (int64_t s = 0; s < mst_request_shards(a->view.requests[rank]); s++) {
            mst_reduction_accumulate(MUSTER_SUM, a->dtype, sum, mst_apply_input(&a->view, rank, s, range), range->count, 1, !begun);
            begun = true;
        }
    }
    if (!begun) mst_nodes_neutral(MUSTER_SUM, a->compute, sum, range->count);
    const double weight = a->weights ? a->weights[span->here] : 1;
    if (weight > 0 && weight < 1) mst_reduction_accumulate(MUSTER_AVG, a->compute, sum, sum, range->count, 1 / weight, true);
}

/* A range whose sums are rounded to the wire dtype. */
typedef struct narrowed {
    const mst_nodes_apply *a;
    const mst_apply_range *range;
} narrowed;

static mst_apply_range part_of(const mst_apply_range *range, int64_t first, int64_t count) {
    mst_apply_range part = *range;
    part.first += first;
    part.at += first;
    part.state += first;
    part.count = count;
    return part;
}

static void combine_chunk(const void *context, void *sum, int64_t first, int64_t count) {
    const narrowed *n = context;
    const mst_apply_range part = part_of(n->range, first, count);
    combine(n->a, &part, sum);
}

/* Each member fills its share of the elements. */
static void fill(const mst_nodes_apply *a, const mst_apply_range *range, char *to) {
    if (a->travel == a->compute)
        combine(a, range, to);
    else
        mst_nodes_narrow(a->travel, a->compute, to, range->count, combine_chunk, &(narrowed){a, range});
}

static void sum_fill(const mst_nodes_apply *a, int64_t round, mst_nodes_buffer *buffer) {
    int64_t sent = 0, kept = own_offset(a, round);
    for (int32_t r = 0; r < a->view.size; r++) {
        const mst_nodes_chunk chunk = mst_nodes_chunk_of(a, r, round, sum_step(a));
        int64_t *offset = is_here(a, r) ? &kept : &sent, begin, end, at;
        mst_segment(chunk.end - chunk.begin, a->travel_element, a->batch->communicator->size, a->batch->rank, &begin, &end);
        mst_nodes_ranges ranges = mst_nodes_ranges_of(a, r, chunk.begin + begin, chunk.begin + end);
        mst_apply_range range;
        while (mst_nodes_ranges_next(&ranges, &range, &at)) fill(a, &range, buffer->from + *offset + (begin + at) * a->travel_element);
        *offset += (chunk.end - chunk.begin) * a->travel_element;
    }
}

/* ---- moving ---- */

static void sum_move(const mst_nodes_apply *a, int64_t round, mst_nodes_buffer *buffer) {
    const mst_rank_span *span = a->state->span;
    int64_t here = 0;
    memset(buffer->send_bytes, 0, (size_t)span->processes * sizeof *buffer->send_bytes);
    for (int32_t r = 0; r < a->view.size; r++) {
        const int64_t bytes = chunk_bytes(a, r, round);
        if (is_here(a, r))
            here += bytes;
        else
            buffer->send_bytes[span->process_of[r]] += bytes;
    }
    for (int32_t p = 0; p < span->processes; p++) buffer->bytes[p] = p == span->here ? 0 : here;
    buffer->move = (mst_move){
        .kind = MST_MOVE_ALL_TO_ALL, .bytes = buffer->bytes, .send_bytes = buffer->send_bytes, .from = buffer->from, .to = buffer->to};
}

/* ---- emptying ---- */

typedef struct sums {
    _Alignas(MST_CACHE_LINE) char compute[MST_APPLY_STEP];
    char converted[MST_APPLY_STEP / 2]; /* to halves */
} sums;

/* [count] sums of what each process has, in the order of the processes. parts: what the first other
 * one has sent; kept: what this one has. */
static const char *fold(const mst_nodes_apply *a, const char *parts, int64_t part_bytes, const char *kept, int64_t count, sums *to) {
    const mst_rank_span *span = a->state->span;
    for (int32_t p = 0; p < span->processes; p++) {
        mst_reduction_accumulate(a->weights ? MUSTER_AVG : MUSTER_SUM, a->travel, to->compute, p == span->here ? kept : parts, count,
                                 a->weights ? a->weights[p] : 1, p == 0);
        if (p != span->here) parts += part_bytes;
    }
    if (a->compute == a->dtype) return to->compute;
    mst_convert(a->dtype, to->converted, a->compute, to->compute, count);
    return to->converted;
}

/* What becomes of a step of sums: the rule takes them on the host, and they are kept for it on a
 * device, and between the phases. */
static muster_status take(const mst_nodes_apply *a, const mst_apply_range *range, const char *sum) {
    const bool on_host = mst_device_is_host(a->batch->worker->device);
    const size_t bytes = (size_t)(range->count * a->element);
    if (a->offer->phase == MST_APPLY_WHOLE && !on_host) return memcpy(a->offer->staged + range->at * a->element, sum, bytes), MUSTER_OK;
    if (a->offer->phase == MST_APPLY_SUM) {
        char *vector = on_host ? a->offer->gradients : (char *)(uintptr_t)a->batch->offered->input;
        memcpy(mst_apply_at(a->offer, vector, range, a->element), sum, bytes);
    }
    return on_host ? mst_apply_call(&a->view, a->batch->worker, range, sum) : MUSTER_OK;
}

static void sum_drain(mst_nodes_apply *a, int64_t round, const mst_nodes_buffer *buffer) {
    sums made;
    const mst_nodes_chunk chunk = mst_nodes_chunk_of(a, a->view.rank, round, sum_step(a));
    const int64_t most = MST_APPLY_STEP / muster_dtype_size(a->compute);
    int64_t before = 0, all = 0, at;
    for (int32_t m = 0; m < a->batch->communicator->size; m++) {
        const int32_t r = a->state->span->ranks[m];
        if (r < a->view.rank) before += chunk_bytes(a, r, round);
        all += chunk_bytes(a, r, round);
    }
    const char *parts = buffer->to + before, *kept = buffer->from + own_offset(a, round) + before;
    mst_nodes_ranges ranges = mst_nodes_ranges_of(a, a->view.rank, chunk.begin, chunk.end);
    mst_apply_range range;
    while (a->status == MUSTER_OK && mst_nodes_ranges_next(&ranges, &range, &at)) {
        for (int64_t i = 0; i < range.count && a->status == MUSTER_OK; i += most) {
            const mst_apply_range step = part_of(&range, i, range.count - i < most ? range.count - i : most);
            const int64_t offset = (at + i) * a->travel_element;
            mst_nodes_apply_note(a, take(a, &step, fold(a, parts + offset, all, kept + offset, step.count, &made)));
        }
    }
}

mst_nodes_apply_plan mst_nodes_apply_sum_plan(const mst_nodes_apply *a) {
    const int64_t step = sum_step(a);
    return (mst_nodes_apply_plan){.rounds = (a->extent + step - 1) / step, .fill = sum_fill, .move = sum_move, .drain = sum_drain};
}
