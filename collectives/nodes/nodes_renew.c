/* After a move that was given up: what of it is still under way would meet the next one, since data
 * carry no numbers. So the moves of the communicator go on another lane of the wire, in other
 * memory. Arrivals and messages carry the number of their call, and keep their lane. */
#include "nodes_transport_private.h"
#include "slabs_private.h"

static const char where[] = "a communicator after a transfer that was given up";

/* The first lane that is free in all of these processes; -1: none. */
static int32_t free_lane(const mst_rank_span *span, const uint64_t (*used)[MST_NODES_LANE_WORDS]) {
    for (int32_t i = 0; i < MST_NODES_PART_LANES; i++) {
        const int32_t lane = mst_nodes_lane_at(span, i);
        bool is_free = true;
        for (int32_t p = 0; p < span->processes && is_free; p++) is_free = !(used[p][lane / 64] >> lane % 64 & 1);
        if (is_free) return lane;
    }
    return -1;
}

/* What the wire may still use is leaked, and counted. */
static void give_up_memory(mst_nodes_state *state) {
    if (state->block) mst_wire_memory_free(state->block, state->block_bytes, mst_nodes_in_flight(state));
    if (state->prepared) mst_schedule_free(&state->schedule);
    mst_slices_free(state->slices);
    state->slices = NULL;
    state->block = NULL;
    state->prepared = false;
}

/* A lane on which this process has given up a move is not used again. */
void mst_nodes_leave_lanes(mst_nodes_state *state, mst_nodes_lanes *lanes) {
    const bool other = state->moves.lane != state->span->lane;
    if (other && !state->broken) mst_nodes_lanes_give(lanes, state->moves.lane);
    if (!state->spoilt && (other || !state->broken)) mst_nodes_lanes_give(lanes, state->span->lane);
}

static void move_to(mst_nodes_state *state, int32_t lane) {
    const bool other = state->moves.lane != state->span->lane;
    if (other && !state->broken) mst_nodes_lanes_give(mst_nodes_lanes_of(state->communicator), state->moves.lane);
    state->spoilt |= !other && state->broken;
    give_up_memory(state);
    state->moves.lane = lane;
    state->broken = false;
}

/* One attempt to take the same lane in all processes; *taken: all have it. */
static muster_status take_lane(mst_nodes_state *state, muster_worker *worker, bool *taken) {
    const mst_rank_span *span = state->span;
    mst_nodes_lanes *lanes = mst_nodes_lanes_of(state->communicator);
    uint64_t mine[MST_NODES_LANE_WORDS];
    MUSTER_TRY(mst_nodes_grow(&state->gathered_lanes, span->processes * (int64_t)sizeof mine));
    mst_nodes_lanes_copy(lanes, mine);
    MUSTER_TRY(mst_nodes_gather_all(state, worker, where, mine, sizeof mine, state->gathered_lanes.at));
    const int32_t lane = free_lane(span, (const uint64_t(*)[MST_NODES_LANE_WORDS])state->gathered_lanes.at);
    if (lane < 0) return mst_error(MUSTER_OUT_OF_RANGE, "%s: all %d lanes between processes are in use", where, MST_NODES_PART_LANES);
    const bool here = mst_nodes_lanes_take(lanes, lane); /* false: a split of this process has been faster */
    const uint64_t word = here;
    const muster_status status = mst_nodes_gather_all(state, worker, where, &word, sizeof word, state->gathered_lanes.at);
    *taken = status == MUSTER_OK;
    for (int32_t p = 0; p < span->processes && *taken; p++) *taken = ((const uint64_t *)state->gathered_lanes.at)[p] != 0;
    if (*taken)
        move_to(state, lane);
    else if (here)
        mst_nodes_lanes_give(lanes, lane);
    return status;
}

muster_status mst_nodes_renew(mst_nodes_state *state, muster_worker *worker) {
    for (bool taken = false; !taken;) MUSTER_TRY(take_lane(state, worker, &taken));
    return MUSTER_OK;
}
