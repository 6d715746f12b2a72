/* Reductions by a chain: a running sum goes from member 0 to the last one, chunk by chunk; each
 * adds its values. That is a left fold in the order of the members, and of the values of each where
 * it brings several. The result goes back along the chain (all_reduce), or to root at once
 * (reduce).
 *
 * all_reduce of N bytes in C = N / c chunks: every member moves 2 N bytes. By LogGP (see
 * broadcast.c), with f the time to fold a chunk, a chunk takes M - 1 messages there and M - 1 back:
 *     T = 2 (M - 1) (L + 2 o + c G) + (M - 1) f + (C - 1) max(2 s(c), s(c) + f)
 * because a member in the middle sends each chunk in both directions. c = sqrt(N (L + 2 o) / (G M))
 * is about the best. f16 and bf16 do not go this way: each member would round the sum. */
#include "flow_private.h"

#include <string.h>

enum { CHAIN_WINDOW = 4, CHAIN_LEAST = 4096, CHAIN_BATCHES = 16 };

static int32_t chain_flows(int32_t size) {
    (void)size;
    return 4;
}

static bool chain_serves(const mst_schedule *schedule, const mst_move *move) {
    (void)schedule;
    return (move->kind == MST_MOVE_ALL_REDUCE || move->kind == MST_MOVE_REDUCE) && mst_dtype_compute(move->dtype) == move->dtype;
}

/* The flows; those that a member does not have are empty. */
enum { CHAIN_IN, CHAIN_OUT, CHAIN_RESULT_IN, CHAIN_RESULT_OUT };

/* Does member 0 send its values as they are? */
static bool chain_begins_plain(const mst_move *move) { return !move->fold && !move->scales; }

static void chain_begin(mst_schedule *schedule) {
    const mst_move *move = schedule->move;
    const int32_t last = schedule->channel->size - 1, rank = schedule->channel->rank;
    const int64_t bytes = move->count * muster_dtype_size(move->dtype), most = mst_schedule_chunk(schedule, CHAIN_WINDOW);
    int64_t chunk = (bytes / CHAIN_BATCHES + 63) / 64 * 64;
    chunk = chunk < CHAIN_LEAST ? CHAIN_LEAST : chunk;
    schedule->chunk = chunk = chunk < most ? chunk : most;
    schedule->chunks = mst_flow_chunks(bytes, chunk);
    const bool all = move->kind == MST_MOVE_ALL_REDUCE;
    char *slots = mst_schedule_slots(schedule);
    mst_flow *in = mst_flow_add(schedule, false, rank - 1, MST_KIND_DATA, slots, rank ? bytes : 0, chunk, CHAIN_WINDOW);
    const bool plain = !rank && chain_begins_plain(move);
    mst_flow *out = mst_flow_add(schedule, true, rank + 1, MST_KIND_DATA, plain ? (char *)(uintptr_t)move->from : slots,
                                 rank < last ? bytes : 0, chunk, CHAIN_WINDOW);
    in->slots = CHAIN_WINDOW;
    out->slots = plain ? 0 : CHAIN_WINDOW;
    out->answered = all;
    const bool gets = rank < last && (all || rank == move->root);
    mst_flow_add(schedule, false, all ? rank + 1 : last, MST_KIND_RESULT, move->to, gets ? bytes : 0, chunk, CHAIN_WINDOW);
    /* The last member of a reduce keeps results in the slots until they are at root. */
    const bool gives = all ? rank > 0 : rank == last && move->root != last;
    mst_flow *back = mst_flow_add(schedule, true, all ? rank - 1 : move->root, MST_KIND_RESULT, all ? move->to : slots, gives ? bytes : 0,
                                  chunk, CHAIN_WINDOW);
    if (!all) back->slots = CHAIN_WINDOW;
}

/* Where the next chunk is folded. */
static char *chain_slot(const mst_schedule *schedule) {
    return mst_schedule_slots(schedule) + schedule->folded % CHAIN_WINDOW * schedule->chunk;
}

/* The chunks whose slots are free again. */
static int64_t chain_freed(const mst_schedule *schedule) {
    const mst_flow *out = &schedule->flows[CHAIN_OUT], *back = &schedule->flows[CHAIN_RESULT_OUT];
    if (out->chunks) return out->done;
    return back->slots && back->chunks ? back->done : schedule->folded;
}

static void chain_fold_batch(mst_schedule *schedule) {
    const mst_move *move = schedule->move;
    const int64_t element = muster_dtype_size(move->dtype), place = schedule->folded * schedule->chunk;
    const int64_t bytes = mst_flow_chunk_bytes(move->count * element, schedule->chunk, schedule->folded);
    const int64_t batch = mst_fold_batch(schedule, 2), left = bytes / element - schedule->batch, count = left < batch ? left : batch;
    const bool first = schedule->channel->rank == 0, last = schedule->channel->rank == schedule->channel->size - 1;
    char *slot = chain_slot(schedule) + schedule->batch * element;
    mst_fold_own(schedule, slot, place / element + schedule->batch, count, first);
    if (last && (move->kind == MST_MOVE_ALL_REDUCE || move->root == schedule->channel->rank))
        memcpy((char *)move->to + place + schedule->batch * element, slot, (size_t)(count * element));
    schedule->machine.moved = true;
    schedule->batch += count;
    if (count < left) return;
    schedule->batch = 0;
    schedule->folded++;
}

static bool chain_advance(mst_schedule *schedule) {
    const mst_move *move = schedule->move;
    const int32_t rank = schedule->channel->rank, last = schedule->channel->size - 1;
    mst_flow *in = &schedule->flows[CHAIN_IN], *out = &schedule->flows[CHAIN_OUT];
    mst_flow *result = &schedule->flows[CHAIN_RESULT_IN], *back = &schedule->flows[CHAIN_RESULT_OUT];
    const bool plain = !rank && last && chain_begins_plain(move);
    if (plain) schedule->folded = schedule->chunks;
    const bool here = !rank || in->done > schedule->folded;
    if (schedule->folded < schedule->chunks && here && schedule->folded < chain_freed(schedule) + CHAIN_WINDOW) chain_fold_batch(schedule);
    in->allowed = chain_freed(schedule) + CHAIN_WINDOW;
    out->allowed = schedule->folded;
    /* In place a chunk of the result is not received before the values there are used. */
    result->allowed = plain && move->from == move->to ? out->done : schedule->folded;
    back->allowed = rank == last ? schedule->folded : result->done;
    return schedule->folded == schedule->chunks;
}

const mst_schedule_row mst_schedule_chain = {chain_flows, chain_begin, chain_advance, chain_serves, NULL};
