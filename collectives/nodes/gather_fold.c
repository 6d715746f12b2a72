/* Reductions of little data: everyone who needs the result gets all values, and folds them.
 *
 * all_reduce: the values are gathered by Bruck's algorithm, then folded. Every member sends (M - 1)
 * N bytes in ceil(log2 M) steps; by LogGP (see all_gather.c)
 *     T <= ceil(log2 M) (L + 3 o) + (M - 1) N G + fold of M N bytes.
 * What does not fit into scratch memory M times is done in segments, one after the other. reduce:
 * all send to root, which folds: the exchange with one slice (exchange.c). */
#include "all_gather_private.h"

static int32_t gather_fold_flows(int32_t size) {
    const int32_t gather = mst_bruck_flows(size), exchange = mst_schedule_exchange.flows(size);
    return gather > exchange ? gather : exchange;
}

static bool gather_fold_serves(const mst_schedule *schedule, const mst_move *move) {
    (void)schedule;
    return move->kind == MST_MOVE_ALL_REDUCE || move->kind == MST_MOVE_REDUCE;
}

/* schedule->segment elements are done; `chunk` elements are the segment; folded < 0: they are on
 * their way, else folded elements of it are done. */
static void gather_fold_begin_segment(mst_schedule *schedule) {
    const mst_move *move = schedule->move;
    const int32_t size = schedule->channel->size, rank = schedule->channel->rank;
    const int64_t element = muster_dtype_size(move->dtype);
    const int64_t most = (schedule->scratch_bytes - MST_ACCUMULATOR_BYTES) / size / 64 * 64 / element,
                  left = move->count - schedule->segment;
    schedule->chunk = left < most ? left : most;
    schedule->folded = -1;
    schedule->step = schedule->next = 0;
    mst_flows_clear(schedule);
    /* Each part begins at a cache line. */
    const int64_t part = (schedule->chunk * element + 63) / 64 * 64;
    for (int32_t i = 0; i <= size; i++) schedule->offsets[i] = i * part;
    mst_schedule_copy(schedule, mst_schedule_slots(schedule) + schedule->offsets[rank],
                      (const char *)move->from + schedule->segment * element, schedule->chunk * element);
}

static void gather_fold_begin(mst_schedule *schedule) {
    if (schedule->move->kind == MST_MOVE_REDUCE)
        mst_schedule_exchange.begin(schedule);
    else
        gather_fold_begin_segment(schedule);
}

static void gather_fold_batch(mst_schedule *schedule) {
    const mst_move *move = schedule->move;
    const int32_t size = schedule->channel->size;
    const int64_t element = muster_dtype_size(move->dtype), batch = mst_fold_batch(schedule, size);
    const int64_t left = schedule->chunk - schedule->folded, count = left < batch ? left : batch;
    for (int32_t i = 0; i < size; i++)
        schedule->inputs[i] = mst_schedule_slots(schedule) + schedule->offsets[i] + schedule->folded * element;
    if (count) mst_fold(schedule, (char *)move->to + (schedule->segment + schedule->folded) * element, schedule->inputs, count);
    schedule->machine.moved = true;
    schedule->folded += count;
}

static bool gather_fold_advance(mst_schedule *schedule) {
    if (schedule->move->kind == MST_MOVE_REDUCE) return mst_schedule_exchange.advance(schedule);
    if (schedule->copy_bytes) return false;
    if (schedule->folded < 0) {
        if (!mst_bruck_advance(schedule, mst_schedule_slots(schedule))) return false;
        schedule->folded = 0;
    }
    if (schedule->folded < schedule->chunk) gather_fold_batch(schedule);
    if (schedule->folded < schedule->chunk) return false;
    if (schedule->segment + schedule->chunk == schedule->move->count) return true;
    if (!mst_flows_ended(schedule)) return false;
    schedule->segment += schedule->chunk;
    gather_fold_begin_segment(schedule);
    return false;
}

const mst_schedule_row mst_schedule_gather_fold = {gather_fold_flows, gather_fold_begin, gather_fold_advance, gather_fold_serves, NULL};
