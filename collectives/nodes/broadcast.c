/* Broadcast by a binary tree of chunks, which are passed on as they come. Member v, counted from
 * the root, has the children 2 v + 1 and 2 v + 2.
 *
 * A member receives N bytes and sends 2 N at most, in C = N / c chunks. By LogGP (latency L,
 * overhead o, gap G per byte, g per message), messages of c bytes that a member sends are s(c) =
 * max(o, g + c G) apart; 2 o, if that is more, where it receives as many meanwhile. A chunk is at
 * the first child after t = L + 2 o + c G, at the second one s(c) later, and the depth is D =
 * floor(log2 M). The last chunk leaves the root 2 (C - 1) s(c) after the first one, so
 *     T <= 2 (C - 1) s(c) + D (t + s(c)).
 * The last sender knows L - o later that its message has been matched. */
#include "flow_private.h"

enum { BROADCAST_LEAST = 8 * 1024, BROADCAST_BATCHES = 8 };

static int32_t broadcast_flows(int32_t size) {
    (void)size;
    return 3;
}

static bool broadcast_serves(const mst_schedule *schedule, const mst_move *move) {
    (void)schedule;
    return move->kind == MST_MOVE_BROADCAST;
}

static void broadcast_begin(mst_schedule *schedule) {
    const mst_move *move = schedule->move;
    const int32_t size = schedule->channel->size, number = (schedule->channel->rank - move->root + size) % size;
    /* So many chunks that the lowest members of the tree begin early, where some pass them on. */
    int64_t chunk = size > 3 ? (move->count / BROADCAST_BATCHES + 63) / 64 * 64 : MST_MESSAGE_BYTES;
    chunk = chunk < BROADCAST_LEAST ? BROADCAST_LEAST : chunk < MST_MESSAGE_BYTES ? chunk : MST_MESSAGE_BYTES;
    const int64_t all = mst_flow_chunks(move->count, chunk);
    if (number) {
        const int32_t parent = ((number - 1) / 2 + move->root) % size;
        mst_flow_add(schedule, false, parent, MST_KIND_DATA, move->to, move->count, chunk, 4)->allowed = all;
    }
    for (int64_t child = 2 * (int64_t)number + 1; child <= 2 * (int64_t)number + 2 && child < size; child++) {
        const int32_t member = (int32_t)((child + move->root) % size);
        mst_flow_add(schedule, true, member, MST_KIND_DATA, move->to, move->count, chunk, 4)->allowed = number ? 0 : all;
    }
}

static bool broadcast_advance(mst_schedule *schedule) {
    if (schedule->channel->rank == schedule->move->root) return true;
    for (int32_t i = 1; i < schedule->flow_count; i++) schedule->flows[i].allowed = schedule->flows[0].done;
    return true;
}

const mst_schedule_row mst_schedule_tree = {broadcast_flows, broadcast_begin, broadcast_advance, broadcast_serves, NULL};
