/* A rank that has returned from its task will not enter what others wait for. So a process that
 * waits for a while asks the one that it waits for. No deadline is needed: the question stays in
 * the wire until that process waits, too, at the latest for the end of the call. A question is
 * asked again, ever more rarely, since a process drops those that it cannot answer. */
#include "rounds_private.h"

enum { RETURNED_FIRST_NS = 2000000, RETURNED_LONGEST_NS = 100000000 };
static const int64_t first_patience_ns = 1000000000, longest_patience_ns = 60LL * 1000000000;

void mst_returned_rest(mst_returned *returned, int64_t now_ns) {
    returned->pause_ns = RETURNED_FIRST_NS;
    returned->ask_ns = now_ns + RETURNED_FIRST_NS;
    returned->patience_ns = first_patience_ns;
}

static void ask_later(mst_returned *returned, int64_t now_ns) {
    returned->ask_ns = now_ns + returned->pause_ns;
    returned->pause_ns = returned->pause_ns * 2 < RETURNED_LONGEST_NS ? returned->pause_ns * 2 : RETURNED_LONGEST_NS;
}

static void ask(mst_nodes *nodes, mst_nodes_wait *wait, mst_returned *returned, int64_t now_ns) {
    mst_control_message question = {.type = MST_CONTROL_RETURNED, .epoch = wait->waiter.epoch, .lane = wait->waiter.lane};
    returned->process = wait->wants->wanted(wait->wants->context, &question.wanted);
    if (returned->process < 0)
        ask_later(returned, now_ns);
    else
        (void)mst_control_ask(&nodes->rounds->control, &wait->waiter.returned, &question, returned->process); /* or in the next turn */
    returned->asked_ns = now_ns;
}

/* An answer to the question before is ignored from now on. */
static void ask_again(mst_returned *returned, mst_control_question *question) {
    question->number = 0;
    returned->patience_ns = returned->patience_ns * 2 < longest_patience_ns ? returned->patience_ns * 2 : longest_patience_ns;
}

bool mst_returned_look(mst_nodes *nodes, mst_nodes_wait *wait, mst_returned *returned, int64_t now_ns) {
    mst_control_question *question = &wait->waiter.returned;
    if (question->number == 0) {
        if (now_ns >= returned->ask_ns) ask(nodes, wait, returned, now_ns);
        return false;
    }
    if (!question->answered) {
        const bool late = now_ns - returned->asked_ns >= returned->patience_ns;
        if (late && !mst_control_is_leaving(&nodes->rounds->control, question)) ask_again(returned, question);
        return false;
    }
    returned->patience_ns = first_patience_ns;
    if (question->answer.rank != MST_CONTROL_NO_RANK && wait->wants->holds(wait->wants->context)) return true;
    question->number = 0;
    ask_later(returned, now_ns);
    return false;
}
