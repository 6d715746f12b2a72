/* Splits of communicators over several processes. Every process knows the colors and keys of all
 * ranks from the agreement, so each makes its members' parts alone; what they agree on besides is a
 * free lane for each part, and whether all could be made. A part whose members are in one process
 * is one of that process, as if there were no others. */
#include "names_private.h"
#include "nodes_transport_private.h"

static const char where[] = "muster_worker_split";

/* ---- who is in a part ---- */

static int32_t color_of(const mst_view *view, int32_t rank) { return view->requests[rank]->root; }

/* Lists the ranks of this color, ordered by key, then by rank. Returns their number. */
static int32_t members_of(const mst_view *view, int32_t color, int32_t *members) {
    int32_t count = 0;
    for (int32_t r = 0; r < view->size; r++) {
        if (color_of(view, r) != color) continue;
        int32_t at = count++;
        for (; at > 0 && view->requests[members[at - 1]]->key > view->requests[r]->key; at--) members[at] = members[at - 1];
        members[at] = r;
    }
    return count;
}

/* Does process p have a rank of this color? */
static bool has_color(const mst_rank_span *span, const mst_view *view, int32_t p, int32_t color) {
    for (int32_t r = 0; r < span->size; r++)
        if (span->process_of[r] == p && color_of(view, r) == color) return true;
    return false;
}

static bool spans(const mst_rank_span *span, const mst_view *view, int32_t color) {
    int32_t processes = 0;
    for (int32_t p = 0; p < span->processes; p++) processes += has_color(span, view, p, color);
    return processes > 1;
}

/* The first member of this process in the part makes it. */
static int32_t leader_of(const muster_communicator *communicator, const mst_view *view, int32_t color) {
    int32_t best = -1;
    for (int32_t m = 0; m < communicator->size; m++) {
        const int32_t r = communicator->span->ranks[m];
        if (color_of(view, r) == color && best < 0) best = m;
    }
    return best;
}

/* ---- lanes ---- */

/* The least color above `after` whose part spans processes; above INT32_MAX: there is none. */
static int64_t next_color(const mst_rank_span *span, const mst_view *view, int64_t after) {
    int64_t least = (int64_t)INT32_MAX + 1;
    for (int32_t r = 0; r < span->size; r++) {
        const int32_t color = color_of(view, r);
        if (color > after && color < least && spans(span, view, color)) least = color;
    }
    return least;
}

/* The first lane that is free in all processes of the part; takes it in `used`. -1: none. */
static int32_t choose_lane(const mst_rank_span *span, const mst_view *view, int32_t color, uint64_t (*used)[MST_NODES_LANE_WORDS]) {
    for (int32_t i = 0; i < MST_NODES_PART_LANES; i++) {
        const int32_t lane = mst_nodes_lane_at(span, i);
        const uint64_t bit = (uint64_t)1 << lane % 64;
        bool is_free = true;
        for (int32_t p = 0; p < span->processes && is_free; p++) is_free = !has_color(span, view, p, color) || !(used[p][lane / 64] & bit);
        if (!is_free) continue;
        for (int32_t p = 0; p < span->processes; p++)
            if (has_color(span, view, p, color)) used[p][lane / 64] |= bit;
        return lane;
    }
    return -1;
}

static void set_lane(mst_nodes_state *state, const mst_view *view, int32_t color, int32_t lane) {
    for (int32_t r = 0; r < view->size; r++)
        if (color_of(view, r) == color) atomic_store(&state->lanes[r], lane);
}

/* The lane of the rank's part, which the caller now has to give back; 0 or -1: it is another's. */
static int32_t claim_lane(mst_nodes_state *state, int32_t rank) { return atomic_exchange(&state->lanes[rank], 0); }

static void give_lane(const mst_batch *batch, int32_t lane) {
    if (lane > 0) mst_nodes_lanes_give(mst_nodes_lanes_of(batch->communicator), lane);
}

/* Gives back the lanes that no member has claimed for its part. */
static void return_lanes(mst_nodes_state *state, const mst_batch *batch, const mst_view *view) {
    const muster_communicator *communicator = batch->communicator;
    for (int32_t m = 0; m < communicator->size; m++) {
        const int32_t r = state->span->ranks[m], color = color_of(view, r);
        if (color >= 0 && leader_of(communicator, view, color) == m) give_lane(batch, claim_lane(state, r));
    }
}

/* The leader: all processes come to the same lanes, and each takes those of its own parts. */
static muster_status find_lanes(mst_nodes_state *state, const mst_batch *batch, const mst_view *view) {
    const mst_rank_span *span = state->span;
    mst_nodes_lanes *lanes = mst_nodes_lanes_of(batch->communicator);
    uint64_t mine[MST_NODES_LANE_WORDS];
    state->again = false;
    for (int32_t r = 0; r < span->size; r++) atomic_store(&state->lanes[r], 0);
    MUSTER_TRY(mst_nodes_grow(&state->gathered, span->processes * (int64_t)sizeof mine));
    mst_nodes_lanes_copy(lanes, mine);
    MUSTER_TRY(mst_nodes_gather_all(state, batch->worker, where, mine, sizeof mine, state->gathered.at));
    for (int64_t next = next_color(span, view, -1); next <= INT32_MAX; next = next_color(span, view, next)) {
        const int32_t color = (int32_t)next;
        const int32_t lane = choose_lane(span, view, color, state->gathered.at);
        if (lane < 0)
            return mst_error(MUSTER_OUT_OF_RANGE,
                             "%s: expected at most %d communicators over several processes in each of them, received more", where,
                             MST_NODES_PART_LANES);
        set_lane(state, view, color, lane);
        if (!has_color(span, view, span->here, color) || mst_nodes_lanes_take(lanes, lane)) continue;
        set_lane(state, view, color, -1); /* another split of this process has been faster */
        state->again = true;
    }
    return MUSTER_OK;
}

/* ---- making a part ---- */

static muster_status make_with_span(muster_communicator *parent, const int32_t *ranks, int32_t count, mst_rank_span *span,
                                    muster_communicator **part) {
    muster_communicator *world = parent->world;
    MUSTER_TRY(mst_communicator_make(where, parent->pool, ranks, count, world, world->forced, NULL, &span->local));
    const muster_status status = mst_communicator_make(where, parent->pool, ranks, count, parent, parent->forced, span, part);
    if (status != MUSTER_OK) mst_communicator_free(span->local);
    return status;
}

/* members[count]: ranks of the parent, in the order of the part. */
static muster_status make_part(muster_communicator *parent, int32_t *members, int32_t count, int32_t lane, muster_communicator **part) {
    const mst_rank_span *span = parent->span;
    int32_t *ranks = mst_alloc((size_t)count * sizeof *ranks), local = 0;
    mst_rank_span *made = NULL;
    if (!ranks) return mst_out_of_memory(where, (int64_t)count * 4);
    for (int32_t i = 0; i < count; i++) {
        if (span->process_of[members[i]] == span->here) ranks[local++] = parent->members[span->index_of[members[i]]].rank;
        members[i] = span->worker_of[members[i]];
    }
    muster_status status = MUSTER_OK;
    if (local == count) {
        const mst_forced inside = parent->forced.transport ? mst_nodes_name_of_one(parent->forced) : parent->world->forced;
        status = mst_communicator_make(where, parent->pool, ranks, count, parent->world, inside, NULL, part);
    } else {
        status = mst_rank_span_make(where, span->nodes, lane, members, count, &made);
        if (status == MUSTER_OK) status = make_with_span(parent, ranks, local, made, part);
        if (status != MUSTER_OK) mst_rank_span_free(made);
    }
    mst_free(ranks);
    return status;
}

/* Every member comes here; the leaders of parts make them. */
static void make_own(mst_nodes_state *state, const mst_batch *batch, const mst_view *view) {
    struct mst_nodes_made *made = &state->made[batch->rank];
    const int32_t color = color_of(view, view->rank);
    made->part = NULL;
    made->status = MUSTER_OK;
    if (color < 0 || leader_of(batch->communicator, view, color) != batch->rank) return;
    const int32_t lane = claim_lane(state, view->rank);
    if (!lane && spans(state->span, view, color)) return; /* the split has failed meanwhile: the lane is given back */
    int32_t *members = mst_alloc((size_t)view->size * sizeof *members);
    if (!members) {
        made->status = mst_out_of_memory(where, (int64_t)view->size * 4);
    } else {
        const int32_t count = members_of(view, color, members);
        made->status = make_part(batch->communicator, members, count, lane, &made->part);
    }
    if (made->status != MUSTER_OK) {
        mst_error_save(made->message);
        give_lane(batch, lane);
    }
    mst_free(members);
}

/* ---- have all been made? ---- */

enum { SPLIT_MESSAGE = 400 };
typedef struct split_result {
    int32_t status, rank;
    bool again;
    char message[SPLIT_MESSAGE];
} split_result;

static split_result result_of(const mst_nodes_state *state, const mst_batch *batch) {
    split_result result = {.again = state->again};
    for (int32_t m = 0; m < batch->communicator->size; m++) {
        const struct mst_nodes_made *made = &state->made[m];
        const int32_t rank = state->span->ranks[m];
        if (made->status == MUSTER_OK || (result.status != MUSTER_OK && result.rank < rank)) continue;
        result.status = made->status;
        result.rank = rank;
        memcpy(result.message, made->message, SPLIT_MESSAGE - 1);
    }
    return result;
}

/* The leader. All processes come to the same end: that of the lowest rank that has failed. */
static muster_status compare_results(mst_nodes_state *state, const mst_batch *batch) {
    const split_result mine = result_of(state, batch);
    MUSTER_TRY(mst_nodes_grow(&state->gathered, state->span->processes * (int64_t)sizeof mine));
    MUSTER_TRY(mst_nodes_gather_all(state, batch->worker, where, &mine, sizeof mine, state->gathered.at));
    const split_result *all = state->gathered.at, *worst = NULL;
    for (int32_t p = 0; p < state->span->processes; p++) {
        state->again |= all[p].again;
        if (all[p].status != MUSTER_OK && (!worst || all[p].rank < worst->rank)) worst = &all[p];
    }
    return worst ? mst_error_restore(worst->status, worst->message) : MUSTER_OK;
}

/* ---- the split ---- */

/* Parts that not all processes have made are freed by the members that have made them. */
static void free_own(mst_nodes_state *state, const mst_batch *batch) {
    mst_communicator_free(state->made[batch->rank].part);
    state->made[batch->rank].part = NULL;
}

/* One attempt. *again: another split of some process has taken a lane meanwhile. */
static muster_status attempt(mst_nodes_state *state, const mst_batch *batch, const mst_view *view, bool *again) {
    if (mst_nodes_leads(batch)) mst_nodes_conclude(state, find_lanes(state, batch, view));
    muster_status status = mst_nodes_join_members(batch);
    if (status == MUSTER_OK && !state->again) make_own(state, batch, view);
    if (status == MUSTER_OK) status = mst_nodes_join_members(batch);
    if (status == MUSTER_OK && mst_nodes_leads(batch)) mst_nodes_conclude(state, compare_results(state, batch));
    if (status == MUSTER_OK) status = mst_nodes_join_members(batch);
    *again = status == MUSTER_OK && state->again;
    if (status == MUSTER_OK && !*again) return MUSTER_OK;
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    if (mst_nodes_leads(batch)) return_lanes(state, batch, view);
    free_own(state, batch);
    return *again ? mst_nodes_join_members(batch) : mst_error_restore(status, message);
}

muster_status mst_nodes_split_run(mst_nodes_state *state, const mst_batch *batch) {
    const mst_view view = mst_nodes_view(state, batch, 0);
    bool again = true;
    state->made[batch->rank].part = NULL;
    state->made[batch->rank].status = MUSTER_OK;
    while (again) MUSTER_TRY(attempt(state, batch, &view, &again));
    return MUSTER_OK;
}

muster_status mst_nodes_split(muster_communicator *communicator, muster_worker *worker, int32_t color, int32_t key,
                              muster_communicator **part) {
    mst_nodes_state *state = mst_nodes_of(communicator);
    const int32_t member = mst_communicator_rank(communicator, worker);
    const mst_request request = {.collective = MST_SPLIT, .root = color, .key = key};
    const muster_status status = mst_rendezvous_run(communicator, worker, &request, NULL, 1);
    if (status != MUSTER_OK && !state->made[member].part) return status;
    int32_t leader = member;
    const mst_request *requests = state->requests.at;
    for (int32_t m = communicator->size; m-- > 0;)
        if (requests[state->span->ranks[m]].root == color) leader = m;
    muster_communicator *made = state->made[member].part;
    state->made[member].part = NULL;
    return mst_split_hand_out(communicator, worker, color, leader, made, status, part);
}
