/* The new values of an all_reduce_apply over several processes: each rank's go to all. */
#include "nodes_apply_private.h"

static int64_t spread_step(const mst_nodes_apply *a) {
    const int64_t line = MST_CACHE_LINE / a->element, step = mst_nodes_area_bytes(a->state->span) / a->element / a->view.size;
    return step >= line ? step / line * line : step > 0 ? step : 1;
}

static int64_t chunk_bytes(const mst_nodes_apply *a, int32_t rank, int64_t round) {
    const mst_nodes_chunk chunk = mst_nodes_chunk_of(a, rank, round, spread_step(a));
    return (chunk.end - chunk.begin) * a->element;
}

/* Between `packed` and where the values of a rank's chunk go on this rank. */
static void copy_chunk(const mst_nodes_apply *a, int32_t rank, int64_t round, char *packed, bool out) {
    const mst_nodes_chunk chunk = mst_nodes_chunk_of(a, rank, round, spread_step(a));
    mst_nodes_ranges ranges = mst_nodes_ranges_of(a, rank, chunk.begin, chunk.end);
    mst_apply_range range;
    int64_t at;
    while (mst_nodes_ranges_next(&ranges, &range, &at)) {
        char *values = mst_apply_output(&a->view, a->view.rank, &range), *there = packed + at * a->element;
        memcpy(out ? there : values, out ? values : there, (size_t)(range.count * a->element));
    }
}

static void spread_fill(const mst_nodes_apply *a, int64_t round, mst_nodes_buffer *buffer) {
    int64_t before = 0;
    for (int32_t m = 0; m < a->batch->rank; m++) before += chunk_bytes(a, a->state->span->ranks[m], round);
    copy_chunk(a, a->view.rank, round, buffer->from + before, true);
}

static void spread_move(const mst_nodes_apply *a, int64_t round, mst_nodes_buffer *buffer) {
    const mst_rank_span *span = a->state->span;
    memset(buffer->bytes, 0, (size_t)span->processes * sizeof *buffer->bytes);
    for (int32_t r = 0; r < a->view.size; r++) buffer->bytes[span->process_of[r]] += chunk_bytes(a, r, round);
    buffer->move = (mst_move){.kind = MST_MOVE_ALL_GATHER, .bytes = buffer->bytes, .from = buffer->from, .to = buffer->to};
}

/* After a failure here the values of this rank are as undefined as what it would write. */
static void spread_drain(mst_nodes_apply *a, int64_t round, const mst_nodes_buffer *buffer) {
    int64_t before = 0;
    for (int32_t r = 0; r < a->view.size; r++) {
        if (r != a->view.rank && a->status == MUSTER_OK) copy_chunk(a, r, round, buffer->to + before, false);
        before += chunk_bytes(a, r, round);
    }
}

mst_nodes_apply_plan mst_nodes_apply_spread_plan(const mst_nodes_apply *a) {
    const int64_t step = spread_step(a);
    return (mst_nodes_apply_plan){.rounds = (a->extent + step - 1) / step, .fill = spread_fill, .move = spread_move, .drain = spread_drain};
}
