/* Calls that muster_runtime_cancel ends in one process. Each process begins every call, since the
 * order of calls is how they match, and so the call fails in all of them: in its begin round, or in
 * its end round, to which each brings what it has heard. All then have the same sentence, which
 * names the process that was told. */
#include "pool_impl.h"
#include "rounds_private.h"

#include <stdio.h>
#include <string.h>

void mst_ended_name(const mst_nodes *nodes) {
    char message[MST_MESSAGE_SIZE], name[MST_PROCESS_TEXT];
    mst_error_save(message);
    mst_nodes_process_text(nodes, nodes->process, name);
    (void)mst_error(MUSTER_CANCELLED, "%.*s, in %s", MST_MESSAGE_SIZE - 6 - (int)strlen(name), message, name);
}

muster_status mst_ended_refuse(const mst_nodes *nodes, const mst_round *round) {
    if (round->status != MUSTER_OK || !round->must_end || !round->must_end(round->must_end_context)) return round->status;
    (void)mst_error(MUSTER_CANCELLED, "%s: %s", round->where, mst_cancel_reason);
    mst_ended_name(nodes);
    return MUSTER_CANCELLED;
}

/* The thread's last error stays, since the call may return OK: the others may have ended by now. */
void mst_ended_report(mst_nodes *nodes, const mst_round *round) {
    char name[MST_PROCESS_TEXT];
    mst_control_message message = {
        .type = MST_CONTROL_FAILED, .epoch = nodes->rounds->epoch, .status = MUSTER_CANCELLED, .rank = -1, .process = nodes->process};
    snprintf(message.text, sizeof message.text, "%s: %s: %s, in %s", round->where, round->text, mst_cancel_reason,
             mst_nodes_process_text(nodes, nodes->process, name));
    pthread_mutex_lock(&nodes->wire->lock);
    mst_control_poison(&nodes->rounds->control, &message);
    pthread_mutex_unlock(&nodes->wire->lock);
}

/* Bodies here may have seen that another process ends the call, and then have returned anything. If
 * they have sealed the run and succeeded, no process that takes part is told any more; or the one
 * that was takes no part, as in a call on one device. */
muster_status mst_ended_hear(const mst_nodes *nodes, const mst_round *round) {
    char text[MST_MESSAGE_SIZE];
    if (round->status == MUSTER_CANCELLED || (round->status == MUSTER_OK && !round->must_end)) return round->status;
    return mst_rounds_failed_with(nodes, text) == MUSTER_CANCELLED ? mst_error_restore(MUSTER_CANCELLED, text) : round->status;
}
