/* Ranks that have returned from their tasks without what ranks of other processes wait for: what a
 * communicator asks, answers, and says. */
#include "rounds_private.h"

#include "nodes_mail_private.h"
#include "nodes_transport_private.h"

#include "hash_impl.h"
#include "memory_impl.h"
#include "team_impl.h"

#include <stdio.h>

/* ---- answers ---- */

static bool has_returned(const mst_control_waiter *waiter, const mst_member *member) {
    return waiter->ended || mst_worker_has_returned(waiter->worker, member->rank);
}

static void explain(const mst_control_waiter *waiter, const mst_member *member, char text[MST_MESSAGE_SIZE]) {
    const mst_round *round = waiter->ended;
    char absence[MST_ABSENCE_TEXT];
    if (round && round->absence && round->absence(round->absence_context, member->rank, text, MST_MESSAGE_SIZE)) return;
    if (!round && mst_worker_explain_absence(waiter->worker, member->rank, absence)) snprintf(text, MST_MESSAGE_SIZE, "%s", absence);
}

/* Is nobody at the other end of the wait? Where a message is to be received and the note of its
 * receiver is here, nobody has sent it. Where one is to be sent, the sender knows by itself whether
 * a receiver has asked for it. */
static bool is_missing(mst_nodes_state *state, const mst_control_waiter *waiter, const mst_control_wanted *wanted) {
    return wanted->arrival > 0 || wanted->sends || mst_nodes_mail_waits(state->mail, waiter->epoch, wanted);
}

static int32_t lane_returned(mst_control_lane *lane, const mst_control_waiter *waiter, const mst_control_wanted *wanted,
                             char text[MST_MESSAGE_SIZE]) {
    mst_nodes_state *state = lane->owner;
    const muster_communicator *communicator = state->communicator;
    for (int32_t m = 0; m < communicator->size; m++) {
        const int32_t rank = state->span->ranks[m];
        if (wanted->arrival == 0 && rank != wanted->peer) continue;
        if (!has_returned(waiter, &communicator->members[m]) || !is_missing(state, waiter, wanted)) continue;
        explain(waiter, &communicator->members[m], text);
        return rank;
    }
    return MST_CONTROL_NO_RANK;
}

/* The parts of one split have different lanes. So all that have a lane, one after the other, differ
 * here: each split has a call and a number of arrivals of its own in its parent, which is told from
 * others on its own lane in the same way. */
static uint64_t birth_of(const mst_nodes_state *state, const muster_communicator *parent) {
    const mst_nodes_state *from = parent ? mst_nodes_of(parent) : NULL;
    if (!from) return 0;
    uint64_t hash = mst_hash_number(MST_HASH_START, (int64_t)from->lane->birth);
    hash = mst_hash_number(hash, from->channel.lane);
    hash = mst_hash_number(hash, (int64_t)from->epoch);
    hash = mst_hash_number(hash, (int64_t)from->arrivals);
    return mst_hash_number(hash, state->channel.lane);
}

muster_status mst_nodes_returned_open(mst_nodes_state *state, const char *where, const muster_communicator *parent) {
    mst_wire *wire = state->channel.wire;
    mst_control_lane *lane = mst_alloc(sizeof *lane);
    if (!lane) return mst_out_of_memory(where, sizeof *lane);
    *lane = (mst_control_lane){.lane = state->channel.lane, .birth = birth_of(state, parent), .returned = lane_returned, .owner = state};
    state->lane = lane;
    pthread_mutex_lock(&wire->lock);
    mst_control_add(&state->span->nodes->rounds->control, lane);
    pthread_mutex_unlock(&wire->lock);
    return MUSTER_OK;
}

void mst_nodes_returned_close(mst_nodes_state *state) {
    mst_wire *wire = state->channel.wire;
    pthread_mutex_lock(&wire->lock);
    mst_control_remove(&state->span->nodes->rounds->control, state->lane);
    state->lane = NULL;
    pthread_mutex_unlock(&wire->lock);
}

/* ---- errors ---- */

static const char *short_name(const char *what) {
    static const char prefix[] = "muster_worker_";
    return strncmp(what, prefix, sizeof prefix - 1) == 0 ? what + sizeof prefix - 1 : what;
}

/* As in one process (scheduler/peer_wait.c), with the processes of both. */
muster_status mst_nodes_refuse_returned(const mst_nodes_state *state, const char *what, const mst_control_wanted *wanted, int32_t rank,
                                        const char *why) {
    char waiting[MST_MEMBER_TEXT], other[MST_MEMBER_TEXT];
    mst_member_text(state->communicator, wanted->rank, waiting);
    mst_member_text(state->communicator, rank, other);
    if (why[0]) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s waits for %s, which %s", what, waiting, other, why);
    if (wanted->arrival > 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s returned without entering %s, for which %s waits", what, other, short_name(what),
                         waiting);
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s returned without %s the message of %s with tag %lld, for which %s waits", what, other,
                     wanted->sends ? "receiving" : "sending", short_name(what), (long long)wanted->tag, waiting);
}

/* ---- arrivals ---- */

int32_t mst_nodes_arrival_wanted(void *context, mst_control_wanted *wanted) {
    const mst_nodes_waiting *waiting = context;
    const mst_machine *machine = &waiting->state->arrival.machine;
    *wanted = (mst_control_wanted){.birth = waiting->state->lane->birth, .arrival = waiting->state->arrivals};
    return machine->waits_for(machine);
}

/* The arrival is not done, and never will be. */
bool mst_nodes_arrival_holds(void *context) { return (void)context, true; }

static int32_t first_rank_of(const mst_rank_span *span, int32_t process) {
    int32_t rank = 0;
    while (rank < span->size - 1 && span->numbers[span->process_of[rank]] != process) rank++;
    return rank;
}

muster_status mst_nodes_arrival_refuse(void *context, int32_t process, const mst_control_message *answer) {
    const mst_nodes_waiting *waiting = context;
    const mst_rank_span *span = waiting->state->span;
    const int32_t member = mst_communicator_rank(waiting->state->communicator, waiting->worker);
    const mst_control_wanted wanted = {.arrival = 1, .rank = span->ranks[member]};
    /* Else the process has released the communicator, and does not know its ranks any more. */
    const bool known = answer->rank >= 0 && answer->rank < span->size && span->numbers[span->process_of[answer->rank]] == process;
    waiting->state->returned = true;
    return mst_nodes_refuse_returned(waiting->state, waiting->what, &wanted, known ? answer->rank : first_rank_of(span, process),
                                     known ? answer->text : "");
}
