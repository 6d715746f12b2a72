/* The rounds: all processes agree that they make the same call, and at its end on what has
 * failed. */
#include "nodes_data_private.h"
#include "rounds_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- one arrival of lane 0 ---- */

muster_status mst_rounds_arrive(mst_nodes *nodes, mst_arrival_input *input, mst_nodes_wait *wait) {
    mst_rounds *rounds = nodes->rounds;
    input->epoch = rounds->epoch;
    input->sequence = rounds->sequence++;
    input->matched = !mst_nodes_one_host(nodes); /* the program's own code may be next, which does not call the wire */
    if (input->rank < 0) input->rank = nodes->first ? mst_nodes_first(nodes) : nodes->process;
    mst_arrival_begin(&rounds->arrival, input);
    wait->phase = MST_WAIT_ROUND;
    wait->waiter.lane = 0;
    wait->waiter.epoch = rounds->epoch;
    wait->spin_ns = nodes->spin_ns;
    return mst_nodes_wait_run(nodes, wait, &rounds->arrival.machine);
}

void mst_rounds_enter(mst_nodes *nodes, uint64_t epoch) {
    pthread_mutex_lock(&nodes->wire->lock);
    nodes->rounds->epoch = epoch;
    pthread_mutex_unlock(&nodes->wire->lock);
    nodes->rounds->sequence = 0;
}

void mst_rounds_poison(mst_nodes *nodes, mst_control_message message) {
    mst_error_save(message.text);
    pthread_mutex_lock(&nodes->wire->lock);
    mst_control_poison(&nodes->rounds->control, &message);
    pthread_mutex_unlock(&nodes->wire->lock);
}

muster_status mst_rounds_give_up(mst_nodes *nodes, muster_status status) {
    const mst_control_message message = {
        .type = MST_CONTROL_GIVEN_UP, .epoch = nodes->rounds->epoch, .status = status, .rank = -1, .process = nodes->process};
    mst_rounds_poison(nodes, message);
    return status;
}

void mst_nodes_poison(mst_nodes *nodes, muster_status status, int32_t rank) {
    if (status == MUSTER_CANCELLED) mst_ended_name(nodes);
    const mst_control_message message = {
        .type = MST_CONTROL_FAILED, .epoch = nodes->rounds->epoch, .status = status, .rank = rank, .process = nodes->process};
    mst_rounds_poison(nodes, message);
}

muster_status mst_rounds_failed_with(const mst_nodes *nodes, char text[MST_MESSAGE_SIZE]) {
    const mst_control *control = &nodes->rounds->control;
    if (!mst_control_is_poisoned(control, MST_CONTROL_FAILED, nodes->rounds->epoch)) return MUSTER_OK;
    pthread_mutex_lock(&nodes->wire->lock);
    const muster_status status = control->poison[MST_CONTROL_FAILED].status;
    if (text) memcpy(text, control->poison[MST_CONTROL_FAILED].text, MST_MESSAGE_SIZE);
    pthread_mutex_unlock(&nodes->wire->lock);
    return status;
}

bool mst_nodes_given_up(const mst_nodes *nodes) {
    return mst_control_is_poisoned(&nodes->rounds->control, MST_CONTROL_GIVEN_UP, nodes->rounds->epoch);
}

void mst_rounds_sentences(mst_nodes *nodes, const mst_nodes_wait *wait, int32_t first, int32_t second, const char *mine,
                          char sentences[2][MST_MESSAGE_SIZE]) {
    memset(sentences, 0, 2 * MST_MESSAGE_SIZE);
    if (first == nodes->process) snprintf(sentences[0], MST_MESSAGE_SIZE, "%s", mine);
    if (second == nodes->process) snprintf(sentences[1], MST_MESSAGE_SIZE, "%s", mine);
    mst_nodes_wait again = *wait;
    mst_arrival_input input = {.kind = MST_ROUND_SENTENCES,
                               .payload = sentences,
                               .payload_bytes = 2 * MST_MESSAGE_SIZE,
                               .carry = true,
                               .carried = (first == nodes->process ? 1u : 0u) | (second == nodes->process ? 2u : 0u)};
    if (mst_rounds_arrive(nodes, &input, &again) == MUSTER_OK && mst_arrival_matches(&nodes->rounds->arrival))
        memcpy(sentences, nodes->rounds->arrival.all, 2 * MST_MESSAGE_SIZE);
    sentences[0][MST_MESSAGE_SIZE - 1] = sentences[1][MST_MESSAGE_SIZE - 1] = 0;
}

muster_status mst_rounds_failed(mst_nodes *nodes, const char *where, const mst_nodes_wait *wait, muster_status status) {
    const mst_arrival_header header = nodes->rounds->arrival.header;
    char mine[MST_MESSAGE_SIZE] = "", sentences[2][MST_MESSAGE_SIZE], name[MST_PROCESS_TEXT];
    if (status != MUSTER_OK) mst_error_save(mine);
    mst_rounds_sentences(nodes, wait, header.at, -1, mine, sentences);
    mst_nodes_process_text(nodes, header.at, name);
    if (!sentences[0][0]) return mst_error(header.status, "%s: %s failed with %s", where, name, muster_status_name(header.status));
    if (strstr(sentences[0], name) || header.status == MUSTER_CANCELLED) return mst_error_restore(header.status, sentences[0]);
    return mst_error(header.status, "%.*s, in %s", MST_MESSAGE_SIZE - 6 - (int)strlen(name), sentences[0], name);
}

/* ---- what a round has shown ---- */

static muster_status verdict(mst_nodes *nodes, const mst_round *round, const mst_nodes_wait *wait) {
    const mst_arrival_header *header = &nodes->rounds->arrival.header;
    if (mst_close_is_mixed(header)) return mst_close_seen(nodes, round->where);
    if (header->kind.least != header->kind.most)
        return mst_error(MUSTER_INTERNAL, "%s: rounds %d and %d in processes %d and %d", round->where, (int)header->kind.least,
                         (int)header->kind.most, (int)header->kind.least_at, (int)header->kind.most_at);
    if (header->status != MUSTER_OK) return mst_rounds_failed(nodes, round->where, wait, round->status);
    if (header->payload.least != header->payload.most)
        return mst_rounds_differ(nodes, round, wait, header->payload.least_at, header->payload.most_at);
    if (header->least != header->most) return mst_rounds_differ(nodes, round, wait, header->least_at, header->most_at);
    return MUSTER_OK;
}

/* ---- begin and end ---- */

static mst_nodes_wait wait_of(const mst_nodes *nodes, const mst_round *round, const char *doing) {
    return (mst_nodes_wait){.waiter = {.doing = doing},
                            .where = round->where,
                            .warn_after_ns = round->warn_after_ns ? round->warn_after_ns : nodes->warn_after_ns,
                            .fail_after_ns = round->fail_after_ns ? round->fail_after_ns : nodes->fail_after_ns};
}

static muster_status refused_before(const mst_nodes *nodes, const mst_round *round) {
    if (atomic_load(&nodes->lost)) return mst_nodes_lost_before(nodes, round->where);
    if (nodes->rounds->closed >= 0) return mst_close_refuse(nodes, round->where, nodes->rounds->closed);
    if (round->payload_bytes < 0 || round->payload_bytes > MST_ROUND_BYTES)
        return mst_error(MUSTER_INTERNAL, "%s: a round of %d bytes", round->where, (int)round->payload_bytes);
    return MUSTER_OK;
}

static mst_arrival_input input_of(const mst_round *round, mst_round_kind kind) {
    return (mst_arrival_input){.signature = round->signature,
                               .kind = kind,
                               .status = round->status,
                               .rank = round->rank,
                               .payload = round->payload,
                               .payload_bytes = round->payload_bytes};
}

static muster_status arrive_to_begin(mst_nodes *nodes, const mst_round *round, mst_nodes_wait *wait) {
    mst_rounds *rounds = nodes->rounds;
    mst_arrival_input input = input_of(round, MST_ROUND_BEGIN);
    input.number = mst_nodes_data_number(nodes);
    const muster_status status = mst_rounds_arrive(nodes, &input, wait);
    /* SYSTEM: MPI has failed here, or what has come is none of ours, which the others do not see */
    if ((status == MUSTER_TIMEOUT || status == MUSTER_SYSTEM) && !mst_nodes_given_up(nodes)) return mst_rounds_give_up(nodes, status);
    if (status == MUSTER_BAD_STATE) return mst_close_told(nodes, round->where);
    MUSTER_TRY(status);
    rounds->begun = true;
    return verdict(nodes, round, wait);
}

/* Some have begun transfers without the others. All learn it, and arrive once more when each has
 * made its data ready, or has no memory for that. */
static muster_status renew_data(mst_nodes *nodes, const mst_round *round, mst_nodes_wait *wait) {
    mst_round again = *round;
    nodes->rounds->begun = false;
    again.status = mst_nodes_data_renew(nodes, round->where, nodes->rounds->arrival.header.number.most);
    again.rank = -1;
    return arrive_to_begin(nodes, &again, wait);
}

static muster_status begin(mst_nodes *nodes, mst_round *round) {
    mst_rounds *rounds = nodes->rounds;
    char doing[MST_CALL_TEXT];
    round->text[MST_ROUND_TEXT - 1] = 0;
    round->all = NULL;
    MUSTER_TRY(refused_before(nodes, round));
    if (mst_wire_has_ended(nodes->wire))
        return mst_error(MUSTER_BAD_STATE,
                         "%s: expected MPI to be in use, but the program has called MPI_Finalize: it closes its runtimes before",
                         round->where);
    mst_rounds_enter(nodes, rounds->epoch + 1);
    if (rounds->begun) {
        memcpy(rounds->last, rounds->text, sizeof rounds->last);
        rounds->last_epoch = rounds->text_epoch;
    }
    rounds->begun = false;
    rounds->text_epoch = rounds->epoch;
    memcpy(rounds->text, round->text, sizeof rounds->text);
    snprintf(doing, sizeof doing, "call %" PRIu64 " (%s)", mst_call_number(rounds->epoch), round->text);
    mst_nodes_wait wait = wait_of(nodes, round, doing);
    round->status = mst_ended_refuse(nodes, round);
    MUSTER_TRY(arrive_to_begin(nodes, round, &wait));
    if (rounds->arrival.header.number.least != rounds->arrival.header.number.most) MUSTER_TRY(renew_data(nodes, round, &wait));
    round->all = rounds->arrival.all;
    return MUSTER_OK;
}

/* A process that answers is not lost: it waits in the call, where it has a deadline of its own. One
 * that does not answer may be in a body, and bodies may take as long as they like, unless the call
 * has failed: then the others have given up already. A call that is ended has not failed. */
static bool may_still_end(const mst_nodes *nodes, const mst_round *round, const mst_nodes_wait *wait) {
    if (mst_nodes_given_up(nodes)) return false;
    if (!wait->silent || round->status == MUSTER_CANCELLED) return true;
    const muster_status failed = mst_rounds_failed_with(nodes, NULL);
    return round->status == MUSTER_OK && (failed == MUSTER_OK || failed == MUSTER_CANCELLED);
}

/* A warning may not have had the time to find whom it is about. */
static void log_that_it_waits(const mst_nodes *nodes, const mst_nodes_wait *wait) {
    char line[MST_MESSAGE_SIZE + 40];
    if (wait->warn_after_ns < 0 || !nodes->rounds->log) return;
    snprintf(line, sizeof line, "muster: %s; it is waited for", muster_last_error());
    nodes->rounds->log(nodes->rounds->log_user, MUSTER_LOG_WARNING, line);
}

/* After a deadline. */
static muster_status wait_on(mst_nodes *nodes, const mst_round *round, mst_nodes_wait *wait) {
    mst_suspicion suspicion = {0};
    muster_status status = MUSTER_TIMEOUT;
    while (status == MUSTER_TIMEOUT) {
        if (may_still_end(nodes, round, wait))
            log_that_it_waits(nodes, wait);
        else if (mst_late_is_lost(&suspicion, wait, true))
            break;
        status = mst_nodes_wait_run(nodes, wait, &nodes->rounds->arrival.machine);
    }
    return status;
}

static muster_status end(mst_nodes *nodes, mst_round *round) {
    mst_rounds *rounds = nodes->rounds;
    char doing[MST_CALL_TEXT], mine[MST_MESSAGE_SIZE];
    round->status = mst_ended_hear(nodes, round);
    mst_error_save(mine);
    round->all = NULL;
    MUSTER_TRY(refused_before(nodes, round));
    snprintf(doing, sizeof doing, "the end of call %" PRIu64 " (%s)", mst_call_number(rounds->epoch), rounds->text);
    mst_nodes_wait wait = wait_of(nodes, round, doing);
    if (round->status == MUSTER_OK) wait.waiter.ended = round;
    if (round->status == MUSTER_OK && round->must_end) wait.round = round;
    mst_arrival_input input = input_of(round, MST_ROUND_END);
    muster_status status = mst_rounds_arrive(nodes, &input, &wait);
    if (status == MUSTER_TIMEOUT) status = wait_on(nodes, round, &wait);
    if (status == MUSTER_SYSTEM && !mst_nodes_given_up(nodes)) mst_rounds_give_up(nodes, status); /* the others do not see it */
    nodes->wire->stale |= status != MUSTER_OK || rounds->arrival.header.status != MUSTER_OK;
    if (status == MUSTER_TIMEOUT && wait.silent) {
        char text[MST_CALL_TEXT + 40];
        snprintf(text, sizeof text, "has not ended call %" PRIu64 " (%s)", mst_call_number(rounds->epoch), rounds->text);
        return mst_nodes_lose(nodes, round->where, wait.late, text);
    }
    MUSTER_TRY(status);
    if (round->status != MUSTER_OK) mst_error_restore(round->status, mine); /* waiting on has left words of its own */
    MUSTER_TRY(verdict(nodes, round, &wait));
    round->all = rounds->arrival.all;
    return MUSTER_OK;
}

/* Of this thread, since other threads make rounds of other calls. */
static _Thread_local uint64_t failed_rounds;

uint64_t mst_nodes_failed_rounds(void) { return failed_rounds; }

static muster_status counted(muster_status status) {
    failed_rounds += status != MUSTER_OK;
    return status;
}

muster_status mst_nodes_begin(mst_nodes *nodes, mst_round *round) { return counted(begin(nodes, round)); }
muster_status mst_nodes_end(mst_nodes *nodes, mst_round *round) { return counted(end(nodes, round)); }
