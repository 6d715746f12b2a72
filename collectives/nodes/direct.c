/* gather, scatter and all_to_all: each part goes once, to where it belongs.
 *
 * scatter: root sends to 8 members at a time; gather: 8 members at a time send to root. More than 4
 * KiB wait for a message of no bytes from root, a credit, so that root need not take what it has no
 * receive for. Root moves N (M - 1) / M bytes, the others N / M. By LogGP (see broadcast.c), with n
 * = N / M in chunks of c:
 *     scatter: T = (M - 1) (n / c) s(c) + L + o;  gather: the same, with credits L + 2 o more.
 *
 * all_to_all: M - 1 rounds; in round r member m sends to m + r and receives from m - r, so that
 * nobody gets from two members at once; 8 rounds are in progress. Every member moves N bytes less
 * its own part, in both directions:
 *     T = (M - 1) (n / c) s(c) + L + o. */
#include "flow_private.h"

enum { DIRECT_ACTIVE = 8, DIRECT_EAGER = 4096 };

static int32_t direct_flows(int32_t size) { return 2 * size; }

static bool direct_serves(const mst_schedule *schedule, const mst_move *move) {
    (void)schedule;
    return move->kind == MST_MOVE_GATHER || move->kind == MST_MOVE_SCATTER || move->kind == MST_MOVE_ALL_TO_ALL;
}

/* Flows are in pairs that begin together: a token or nothing, and data; or both directions. */
static void direct_add(mst_schedule *schedule, bool sends, int32_t member, const void *at, int64_t bytes) {
    mst_flow_add(schedule, sends, member, MST_KIND_DATA, (void *)(uintptr_t)at, bytes, MST_MESSAGE_BYTES, 2);
}

static bool direct_credit(const mst_schedule *schedule, int64_t bytes) {
    return bytes > DIRECT_EAGER && schedule->channel->size - 1 > DIRECT_ACTIVE;
}

static void direct_begin_root(mst_schedule *schedule) {
    const mst_move *move = schedule->move;
    const int32_t size = schedule->channel->size, rank = schedule->channel->rank;
    const bool scatter = move->kind == MST_MOVE_SCATTER;
    char *all = scatter ? (char *)(uintptr_t)move->from : move->to;
    mst_schedule_set_offsets(schedule->channel, move->bytes, schedule->offsets);
    for (int32_t i = 1; i < size; i++) {
        const int32_t member = (rank + i) % size;
        direct_add(schedule, scatter, member, all + schedule->offsets[member], move->bytes[member]);
        if (!scatter && direct_credit(schedule, move->bytes[member]))
            mst_flow_add_token(schedule, true, member, MST_KIND_CREDIT);
        else
            direct_add(schedule, scatter, member, NULL, 0);
    }
    if (scatter && move->to) mst_schedule_copy(schedule, move->to, all + schedule->offsets[rank], move->bytes[rank]);
    if (!scatter) mst_schedule_copy(schedule, all + schedule->offsets[rank], move->from, move->bytes[rank]);
}

static void direct_begin_member(mst_schedule *schedule) {
    const mst_move *move = schedule->move;
    const int64_t bytes = move->bytes[schedule->channel->rank];
    const bool gather = move->kind == MST_MOVE_GATHER;
    direct_add(schedule, gather, move->root, gather ? move->from : move->to, bytes);
    if (gather && direct_credit(schedule, bytes)) mst_flow_add_token(schedule, false, move->root, MST_KIND_CREDIT)->allowed = 1;
}

static void direct_begin_all_to_all(mst_schedule *schedule) {
    const mst_move *move = schedule->move;
    const mst_channel *channel = schedule->channel;
    int64_t *offsets = schedule->offsets, *send_offsets = offsets + channel->size + 1;
    mst_schedule_set_offsets(channel, move->bytes, offsets);
    mst_schedule_set_offsets(channel, move->send_bytes, send_offsets);
    for (int32_t i = 1; i < channel->size; i++) {
        const int32_t to = (channel->rank + i) % channel->size, from = (channel->rank - i + channel->size) % channel->size;
        direct_add(schedule, false, from, (char *)move->to + offsets[from], move->bytes[from]);
        direct_add(schedule, true, to, (const char *)move->from + send_offsets[to], move->send_bytes[to]);
    }
    mst_schedule_copy(schedule, (char *)move->to + offsets[channel->rank], (const char *)move->from + send_offsets[channel->rank],
                      move->bytes[channel->rank]);
}

static void direct_begin(mst_schedule *schedule) {
    if (schedule->move->kind == MST_MOVE_ALL_TO_ALL)
        direct_begin_all_to_all(schedule);
    else if (schedule->channel->rank == schedule->move->root)
        direct_begin_root(schedule);
    else
        direct_begin_member(schedule);
}

/* schedule->step: the first pair that has not ended; schedule->next: the first that has not
 * begun. */
static bool direct_advance(mst_schedule *schedule) {
    mst_flow *flows = schedule->flows;
    if (schedule->move->kind != MST_MOVE_ALL_TO_ALL && schedule->channel->rank != schedule->move->root) {
        if (schedule->flow_count == 1 || mst_flow_ended(&flows[1])) flows[0].allowed = flows[0].chunks;
        return true;
    }
    const int32_t pairs = schedule->flow_count / 2;
    while (schedule->step < schedule->next && mst_flow_ended(&flows[2 * schedule->step]) && mst_flow_ended(&flows[2 * schedule->step + 1]))
        schedule->step++;
    for (; schedule->next < pairs && schedule->next - schedule->step < DIRECT_ACTIVE; schedule->next++)
        for (int32_t i = 0; i < 2; i++) {
            mst_flow *flow = &flows[2 * schedule->next + i];
            flow->allowed = flow->chunks;
        }
    return schedule->next == pairs;
}

const mst_schedule_row mst_schedule_direct = {direct_flows, direct_begin, direct_advance, direct_serves, NULL};
