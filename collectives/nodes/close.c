/* The close of a runtime of several processes: this one's, and what it learns of others'. */
#include "rounds_private.h"

#include "clock_impl.h"

#include <inttypes.h>

static const char where[] = "muster_runtime_close";

/* ---- who has closed ---- */

muster_status mst_close_refuse(const mst_nodes *nodes, const char *caller, int32_t process) {
    char name[MST_PROCESS_TEXT];
    return mst_error(MUSTER_BAD_STATE, "%s: %s has closed its runtime, without which there are no calls", caller,
                     mst_nodes_process_text(nodes, process, name));
}

/* Tells all that the process takes part in no call from this epoch on. */
static void report_closed(mst_nodes *nodes, int32_t process, uint64_t epoch) {
    const mst_control_message message = {
        .type = MST_CONTROL_CLOSED, .epoch = epoch, .status = mst_close_refuse(nodes, where, process), .rank = -1, .process = process};
    mst_rounds_poison(nodes, message);
}

/* An arrival has completed in which some close and some do not. Others may have given it up, and
 * would wait in the next call for those that close. */
static void report_mixed_close(mst_nodes *nodes) {
    nodes->wire->stale = true;
    report_closed(nodes, nodes->rounds->arrival.header.kind.most_at, nodes->rounds->epoch + 1);
}

static muster_status note_closed(mst_nodes *nodes, const char *caller, int32_t process) {
    nodes->rounds->closed = process;
    return mst_close_refuse(nodes, caller, process);
}

muster_status mst_close_seen(mst_nodes *nodes, const char *caller) {
    report_mixed_close(nodes);
    return note_closed(nodes, caller, nodes->rounds->arrival.header.kind.most_at);
}

/* The other process has kept its wire, too. */
muster_status mst_close_told(mst_nodes *nodes, const char *caller) {
    pthread_mutex_lock(&nodes->wire->lock);
    const int32_t process = nodes->rounds->control.poison[MST_CONTROL_CLOSED].process;
    pthread_mutex_unlock(&nodes->wire->lock);
    nodes->wire->stale = true;
    return note_closed(nodes, caller, process);
}

bool mst_close_is_mixed(const mst_arrival_header *header) {
    return header->kind.least != header->kind.most && header->kind.most == MST_ROUND_CLOSE;
}

/* ---- this process closes ---- */

/* The last epoch that has been given up; 0: none, or all that follow. */
static uint64_t given_up(mst_nodes *nodes) {
    pthread_mutex_lock(&nodes->wire->lock);
    const uint64_t last = atomic_load(&nodes->rounds->control.poisoned[MST_CONTROL_GIVEN_UP]);
    pthread_mutex_unlock(&nodes->wire->lock);
    return last == MST_CONTROL_FOR_EVER ? 0 : last;
}

/* Others may have given up calls without this process, because they have waited too long for it or
 * could not begin them (SYSTEM), and all go on behind those. */
static muster_status arrive_to_close(mst_nodes *nodes, mst_nodes_wait *wait) {
    const int64_t until_ns = mst_now_ns() + wait->fail_after_ns;
    uint64_t last = nodes->rounds->epoch;
    for (;;) {
        const uint64_t epoch = last + 1;
        mst_arrival_input input = {.kind = MST_ROUND_CLOSE, .rank = -1};
        mst_rounds_enter(nodes, epoch);
        const muster_status status = mst_rounds_arrive(nodes, &input, wait);
        last = given_up(nodes);
        wait->fail_after_ns = until_ns - mst_now_ns();
        if ((status != MUSTER_TIMEOUT && status != MUSTER_SYSTEM) || last < epoch) return status;
        if (wait->fail_after_ns <= 0)
            return mst_error(MUSTER_TIMEOUT, "%s: other processes have given up call %" PRIu64 ", and do not close with this one", where,
                             mst_call_number(last));
    }
}

muster_status mst_rounds_close(mst_nodes *nodes, int64_t patience_ns) {
    const mst_rounds *rounds = nodes->rounds;
    mst_nodes_wait wait = {
        .waiter = {.doing = "the close of the runtime"}, .where = where, .warn_after_ns = -1, .fail_after_ns = patience_ns};
    const muster_status status = arrive_to_close(nodes, &wait);
    if (status == MUSTER_TIMEOUT && rounds->log) rounds->log(rounds->log_user, MUSTER_LOG_WARNING, muster_last_error());
    if (status == MUSTER_TIMEOUT) report_closed(nodes, nodes->process, rounds->epoch);
    if (status == MUSTER_OK && mst_close_is_mixed(&rounds->arrival.header)) report_mixed_close(nodes);
    return status;
}
