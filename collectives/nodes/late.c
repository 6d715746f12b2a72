/* Who is late? The process that this one waits for is asked whom it waits for, then that one, and
 * so on. Processes that wait answer from their loops; the chain ends at one that does not. */
#include "rounds_private.h"

#include <inttypes.h>
#include <stdio.h>

enum { LATE_SHORTEST_NS = 150000000, LATE_LONGEST_NS = 1000000000 };

/* A process that waits looks every millisecond, but it may lack a CPU for longer: on a busy machine
 * 75 ms named processes that only waited for their turn. */
static int64_t patience_ns(const mst_nodes_wait *wait) {
    const int64_t ns = wait->fail_after_ns < 0 ? LATE_LONGEST_NS : wait->fail_after_ns / 4;
    return ns < LATE_SHORTEST_NS ? LATE_SHORTEST_NS : ns > LATE_LONGEST_NS ? LATE_LONGEST_NS : ns;
}

/* The call that all have begun last, which may be in progress. */
static const char *last_call(const mst_rounds *rounds, uint64_t *number) {
    *number = mst_call_number(rounds->begun ? rounds->text_epoch : rounds->last_epoch);
    return rounds->begun ? rounds->text : rounds->last;
}

/* What this process knows of one that does not answer: both have been through the same rounds. */
static void silent_text(const mst_nodes *nodes, const mst_nodes_wait *wait, mst_late *late) {
    const mst_rounds *rounds = nodes->rounds;
    const bool closing = rounds->arrival.input.kind == MST_ROUND_CLOSE;
    uint64_t number;
    const char *last = last_call(rounds, &number), *what = closing ? "does not answer" : "has made no call";
    if (wait->phase == MST_WAIT_CALL || (rounds->begun && !closing))
        snprintf(late->text, sizeof late->text, "does not answer; it is in call %" PRIu64 " (%s)", mst_call_number(rounds->epoch),
                 rounds->text);
    else if (last[0])
        snprintf(late->text, sizeof late->text, "%s; its last was call %" PRIu64 " (%s)", what, number, last);
    else
        snprintf(late->text, sizeof late->text, "%s%s", what, closing ? "" : " yet");
    late->silent = true;
    late->done = true;
}

/* Asks the last process of the path. Where no slot is free, the next turn tries again. */
static void ask(mst_nodes *nodes, mst_nodes_wait *wait, mst_late *late, int64_t now_ns) {
    const mst_control_message question = {.type = MST_CONTROL_QUESTION, .epoch = wait->waiter.epoch, .lane = wait->waiter.lane};
    late->held = !mst_control_ask(&nodes->rounds->control, &wait->waiter.late, &question, late->path[late->hops - 1]);
    if (!late->held) late->asked_ns = now_ns;
}

static void ask_next(mst_nodes *nodes, mst_nodes_wait *wait, mst_late *late, int32_t process, int64_t now_ns) {
    late->path[late->hops++] = process;
    late->asked_ns = now_ns;
    ask(nodes, wait, late, now_ns);
}

/* The slots stay taken for as long as a process that has stopped does not take what is on its way
 * to it: so this must end, too. */
static void held_text(const mst_nodes *nodes, const mst_nodes_wait *wait, mst_late *late) {
    const int32_t process = late->path[late->hops - 1], by = mst_control_held_by(&nodes->rounds->control, process);
    if (by == process) {
        silent_text(nodes, wait, late);
        return;
    }
    char name[MST_PROCESS_TEXT];
    snprintf(late->text, sizeof late->text, "cannot be asked what it waits for, because %s takes no messages",
             mst_nodes_process_text(nodes, by, name));
    late->done = true;
}

static bool is_known(const mst_nodes *nodes, const mst_late *late, int32_t process) {
    bool known = process == nodes->process;
    for (int32_t i = 0; i < late->hops; i++) known |= late->path[i] == process;
    return known;
}

void mst_late_look(mst_nodes *nodes, mst_nodes_wait *wait, mst_late *late, int64_t now_ns) {
    if (late->done) return;
    if (late->asked_ns == 0) {
        const int32_t first = wait->waiter.machine->waits_for(wait->waiter.machine);
        if (first >= 0) {
            ask_next(nodes, wait, late, first, now_ns);
        } else {
            snprintf(late->text, sizeof late->text, "have not sent what it needs");
            late->done = true;
        }
        return;
    }
    const bool patient = now_ns - late->asked_ns < patience_ns(wait);
    if (late->held) {
        if (patient)
            ask(nodes, wait, late, now_ns);
        else
            held_text(nodes, wait, late);
        return;
    }
    if (!wait->waiter.late.answered) {
        if (!patient) silent_text(nodes, wait, late);
        return;
    }
    const mst_control_message *answer = &wait->waiter.late.answer;
    const int32_t next = answer->process;
    if (next >= 0 && !is_known(nodes, late, next) && late->hops < (int32_t)(sizeof late->path / sizeof late->path[0])) {
        ask_next(nodes, wait, late, next, now_ns);
        return;
    }
    char name[MST_PROCESS_TEXT];
    if (next >= 0)
        snprintf(late->text, sizeof late->text, "waits in %.160s for %s", answer->text, mst_nodes_process_text(nodes, next, name));
    else
        snprintf(late->text, sizeof late->text, "is in %.160s", answer->text[0] ? answer->text : "a wait of its own");
    late->done = true;
}

bool mst_late_is_lost(mst_suspicion *suspicion, mst_nodes_wait *wait, bool names) {
    enum { MOST_SEARCHES = 4, AGAIN_NS = 1000000000 };
    const int32_t before = suspicion->searches ? suspicion->process : -1;
    if ((names && wait->late == before) || suspicion->searches++ == MOST_SEARCHES) return true;
    suspicion->process = names ? wait->late : -1;
    if (wait->fail_after_ns > AGAIN_NS) wait->fail_after_ns = AGAIN_NS;
    return false;
}
