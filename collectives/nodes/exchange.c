/* Reductions by direct exchange: every member sends slice j of its values to member j, which folds
 * them in the order of the members, and sends the result to whom it belongs. A chunk of the result
 * leaves as soon as it is folded.
 *
 * all_reduce of N bytes: every member moves 2 N (M - 1) / M bytes in 2 steps. With slices of one
 * chunk, n = N / M, LogGP (see broadcast.c) gives
 *     T = 2 ((M - 2) s(n) + L + 2 o + n G) + fold,
 * with longer ones the second step begins after the first chunk of c, and results take turns with
 * values, so that a member sends 2 (M - 1) n / c chunks without a pause:
 *     T = (2 (M - 1) (n / c) - 1) s(c) + L + 2 o + c G + fold.
 * It sends and receives at the same time. reduce_scatter is the first step alone;
 * reduce is the first step and a gather; "gather" of a reduce has one slice, which is root's. */
#include "flow_private.h"

#include <string.h>

enum { EXCHANGE_WINDOW = 2 };

static int32_t exchange_flows(int32_t size) { return 4 * size; }

static bool exchange_serves(const mst_schedule *schedule, const mst_move *move) {
    (void)schedule;
    return move->kind == MST_MOVE_ALL_REDUCE || move->kind == MST_MOVE_REDUCE_SCATTER || move->kind == MST_MOVE_REDUCE;
}

/* Does this member send the results of its slice to that one, or get those of that one's? */
static bool exchange_returns(const mst_move *move, int32_t member) {
    return move->kind == MST_MOVE_ALL_REDUCE || (move->kind == MST_MOVE_REDUCE && member == move->root);
}

static void exchange_slices(mst_schedule *schedule) {
    const mst_move *move = schedule->move;
    const mst_channel *channel = schedule->channel;
    const int64_t size = muster_dtype_size(move->dtype);
    if (move->kind == MST_MOVE_REDUCE_SCATTER) {
        mst_schedule_set_offsets(channel, move->bytes, schedule->offsets);
        return;
    }
    for (int32_t i = 0; i <= channel->size; i++)
        schedule->offsets[i] = schedule->algorithm == MST_MOVE_EXCHANGE ? mst_schedule_slice(channel, move->count, size, i) * size
                               : i <= move->root                        ? 0
                                                                        : move->count * size;
}

/* Each member has 4 flows in this order, at 4 (its distance - 1). */
enum { EXCHANGE_IN, EXCHANGE_OUT, EXCHANGE_RESULT_IN, EXCHANGE_RESULT_OUT, EXCHANGE_FLOWS };

static mst_flow *exchange_flow(const mst_schedule *schedule, int32_t distance, int32_t which) {
    return &schedule->flows[EXCHANGE_FLOWS * (distance - 1) + which];
}

/* The slots of the member from which this distance receives; those of distance `size` are for
 * results. */
static char *exchange_slots(const mst_schedule *schedule, int32_t distance) {
    return mst_schedule_slots(schedule) + (distance - 1) * EXCHANGE_WINDOW * schedule->chunk;
}

/* Of reduce: does this member fold for root? Its own memory is not written. */
static bool exchange_folds_for_root(const mst_schedule *schedule) {
    return schedule->move->kind == MST_MOVE_REDUCE && schedule->channel->rank != schedule->move->root;
}

static char *exchange_result(const mst_schedule *schedule) {
    const mst_move *move = schedule->move;
    if (exchange_folds_for_root(schedule)) return exchange_slots(schedule, schedule->channel->size);
    return (char *)move->to + (move->kind == MST_MOVE_REDUCE_SCATTER ? 0 : schedule->offsets[schedule->channel->rank]);
}

static void exchange_add(mst_schedule *schedule, int32_t distance) {
    const mst_move *move = schedule->move;
    const int32_t size = schedule->channel->size, rank = schedule->channel->rank;
    const int32_t to = (rank + distance) % size, from = (rank - distance + size) % size;
    const int64_t *offsets = schedule->offsets, chunk = schedule->chunk, slice = offsets[rank + 1] - offsets[rank];
    const int64_t other = offsets[to + 1] - offsets[to];
    mst_flow *flow = mst_flow_add(schedule, false, from, MST_KIND_DATA, exchange_slots(schedule, distance), slice, chunk, EXCHANGE_WINDOW);
    flow->slots = EXCHANGE_WINDOW;
    flow = mst_flow_add(schedule, true, to, MST_KIND_DATA, (char *)(uintptr_t)move->from + offsets[to], other, chunk, EXCHANGE_WINDOW);
    flow->allowed = flow->chunks;
    flow->answered = exchange_returns(move, rank);
    char *back = exchange_returns(move, rank) ? (char *)move->to + offsets[to] : NULL;
    mst_flow_add(schedule, false, to, MST_KIND_RESULT, back, back ? other : 0, chunk, EXCHANGE_WINDOW);
    flow = mst_flow_add(schedule, true, from, MST_KIND_RESULT, exchange_result(schedule), exchange_returns(move, from) ? slice : 0, chunk,
                        EXCHANGE_WINDOW);
    if (exchange_folds_for_root(schedule)) flow->slots = EXCHANGE_WINDOW;
}

static void exchange_begin(mst_schedule *schedule) {
    const int32_t size = schedule->channel->size, rank = schedule->channel->rank;
    exchange_slices(schedule);
    schedule->chunk = mst_schedule_chunk(schedule, EXCHANGE_WINDOW * (int64_t)size);
    schedule->chunks = mst_flow_chunks(schedule->offsets[rank + 1] - schedule->offsets[rank], schedule->chunk);
    for (int32_t distance = 1; distance < size; distance++) exchange_add(schedule, distance);
}

/* Is chunk schedule->folded here from all, and is there room for its result? */
static bool exchange_ready(const mst_schedule *schedule) {
    if (schedule->folded == schedule->chunks) return false;
    for (int32_t distance = 1; distance < schedule->channel->size; distance++) {
        if (exchange_flow(schedule, distance, EXCHANGE_IN)->done <= schedule->folded) return false;
        const mst_flow *result = exchange_flow(schedule, distance, EXCHANGE_RESULT_OUT);
        if (result->slots && result->chunks && result->done + EXCHANGE_WINDOW <= schedule->folded) return false;
    }
    return true;
}

static void exchange_fold_batch(mst_schedule *schedule) {
    const mst_move *move = schedule->move;
    const int32_t size = schedule->channel->size, rank = schedule->channel->rank;
    const int64_t element = muster_dtype_size(move->dtype), chunk = schedule->chunk, slot = schedule->folded % EXCHANGE_WINDOW * chunk;
    const int64_t slice = schedule->offsets[rank + 1] - schedule->offsets[rank],
                  bytes = mst_flow_chunk_bytes(slice, chunk, schedule->folded);
    const int64_t batch = mst_fold_batch(schedule, size), left = bytes / element - schedule->batch, count = left < batch ? left : batch;
    const int64_t at = schedule->batch * element, place = schedule->folded * chunk + at;
    for (int32_t distance = 1; distance < size; distance++)
        schedule->inputs[(rank - distance + size) % size] = exchange_slots(schedule, distance) + slot + at;
    const char *values = move->mine ? move->mine : move->from;
    char *result = exchange_result(schedule) + (exchange_folds_for_root(schedule) ? slot + at : place);
    schedule->inputs[rank] = values + schedule->offsets[rank] + place;
    mst_fold(schedule, result, schedule->inputs, count);
    if (move->also) memcpy((char *)move->also + schedule->offsets[rank] + place, result, (size_t)(count * element));
    schedule->machine.moved = true;
    schedule->batch += count;
    if (count < left) return;
    schedule->batch = 0;
    schedule->folded++;
}

static bool exchange_advance(mst_schedule *schedule) {
    const bool in_place = schedule->move->from == schedule->move->to;
    if (exchange_ready(schedule)) exchange_fold_batch(schedule);
    for (int32_t distance = 1; distance < schedule->channel->size; distance++) {
        exchange_flow(schedule, distance, EXCHANGE_IN)->allowed = schedule->folded + EXCHANGE_WINDOW;
        exchange_flow(schedule, distance, EXCHANGE_RESULT_OUT)->allowed = schedule->folded;
        mst_flow *result = exchange_flow(schedule, distance, EXCHANGE_RESULT_IN);
        /* In place a chunk is not received before it is sent. */
        result->allowed = in_place ? exchange_flow(schedule, distance, EXCHANGE_OUT)->done : result->chunks;
    }
    return schedule->folded == schedule->chunks;
}

const mst_schedule_row mst_schedule_exchange = {exchange_flows, exchange_begin, exchange_advance, exchange_serves, NULL};
