/* all_gather of parts of any size, N bytes together, by a ring of chunks or by Bruck's algorithm.
 *
 * ring: every member passes on what it gets from the one before it, beginning with its own part. It
 * sends all parts but that of the next member: (M - 1) N / M bytes where all are equal. By LogGP
 * (see broadcast.c), with n = N / M in chunks of c,
 *     T = (M - 1) (n / c) s(c) + L + 2 o + (M - 2) (L + 2 o - o) where the first chunks go round,
 * which is (M - 1) (L + 2 o + n G) for parts of one chunk.
 *
 * bruck: in step k a member has the parts of the 2^k members from itself on, sends them (as many as
 * are missing there) to the member 2^k before it, and gets as many from the one 2^k after it. The
 * parts lie where they belong all the time, so what passes the end of the concatenation is a second
 * message. It moves the same bytes in log2(M) steps:
 *     T <= ceil(log2 M) (L + 3 o) + (M - 1) n G, two messages a step costing o more. */
#include "all_gather_private.h"

enum { ALL_GATHER_STEPS = 31 };

static bool all_gather_serves(const mst_schedule *schedule, const mst_move *move) {
    (void)schedule;
    return move->kind == MST_MOVE_ALL_GATHER;
}

static void all_gather_begin(mst_schedule *schedule) {
    const mst_move *move = schedule->move;
    const int32_t rank = schedule->channel->rank;
    mst_schedule_set_offsets(schedule->channel, move->bytes, schedule->offsets);
    mst_schedule_copy(schedule, (char *)move->to + schedule->offsets[rank], move->from, move->bytes[rank]);
}

/* ---- ring ---- */

static int32_t ring_flows(int32_t size) {
    (void)size;
    return 2;
}

static void ring_begin(mst_schedule *schedule) {
    const mst_move *move = schedule->move;
    const int32_t size = schedule->channel->size, rank = schedule->channel->rank;
    all_gather_begin(schedule);
    if (size == 1) return;
    const int32_t before = (rank - 1 + size) % size, after = (rank + 1) % size;
    mst_flow *from = mst_flow_add_ring(schedule, false, before, move->to, before, MST_MESSAGE_BYTES, 4);
    mst_flow_add_ring(schedule, true, after, move->to, rank, MST_MESSAGE_BYTES, 4);
    from->allowed = from->chunks;
}

static bool ring_advance(mst_schedule *schedule) {
    if (!schedule->flow_count || schedule->copy_bytes) return true;
    const int64_t part = mst_flow_chunks(schedule->move->bytes[schedule->channel->rank], MST_MESSAGE_BYTES);
    schedule->flows[1].allowed = part + schedule->flows[0].done;
    return true;
}

const mst_schedule_row mst_schedule_ring = {ring_flows, ring_begin, ring_advance, all_gather_serves, NULL};

/* ---- bruck ---- */

int32_t mst_bruck_flows(int32_t size) {
    (void)size;
    return 4 * ALL_GATHER_STEPS;
}

/* Adds flows for the parts [first, first + count), around the end of the concatenation. */
static void bruck_add(mst_schedule *schedule, bool sends, int32_t member, char *at, int32_t first, int32_t count) {
    const int32_t size = schedule->channel->size;
    const int64_t *offsets = schedule->offsets;
    const int32_t end = first + count, middle = end < size ? end : size;
    mst_flow *flow =
        mst_flow_add(schedule, sends, member, MST_KIND_DATA, at + offsets[first], offsets[middle] - offsets[first], MST_MESSAGE_BYTES, 2);
    flow->allowed = flow->chunks;
    if (end <= size) return;
    flow->answered = offsets[end - size] > 0; /* the second one is behind it */
    flow = mst_flow_add(schedule, sends, member, MST_KIND_DATA, at, offsets[end - size], MST_MESSAGE_BYTES, 2);
    flow->allowed = flow->chunks;
}

bool mst_bruck_advance(mst_schedule *schedule, char *at) {
    const int32_t size = schedule->channel->size, rank = schedule->channel->rank;
    for (int32_t i = schedule->next; i < schedule->flow_count; i++)
        if (!schedule->flows[i].sends && !mst_flow_ended(&schedule->flows[i])) return false;
    const int32_t distance = schedule->step ? 2 * schedule->step : 1;
    schedule->step = distance;
    if (distance >= size || distance < 0) return true;
    const int32_t count = distance < size - distance ? distance : size - distance;
    schedule->next = schedule->flow_count;
    bruck_add(schedule, false, (rank + distance) % size, at, (rank + distance) % size, count);
    bruck_add(schedule, true, (rank - distance + size) % size, at, rank, count);
    return false;
}

static bool bruck_advance(mst_schedule *schedule) {
    if (schedule->copy_bytes) return false;
    return schedule->segment || (schedule->segment = mst_bruck_advance(schedule, schedule->move->to));
}

const mst_schedule_row mst_schedule_bruck = {mst_bruck_flows, all_gather_begin, bruck_advance, all_gather_serves, NULL};
