/* A process that is lost: it has ended, or is silent for longer than the deadline of an end
 * round. */
#include "rounds_private.h"

#include "clock_impl.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LOST_LISTED = 64, LOST_NAP_NS = 1000000 };

/* The lowest of the processes that the wire knows to have ended; -1: it knows none. */
static int32_t lost_of_wire(const mst_nodes *nodes) {
    const mst_wire *wire = nodes->wire;
    int32_t ranks[LOST_LISTED], count = 0, lowest = -1;
    if (!wire->table->lost || wire->table->lost(wire->state, ranks, LOST_LISTED, &count) != MUSTER_WIRE_OK) return -1;
    for (int32_t i = 0; i < count && i < LOST_LISTED; i++)
        if (lowest < 0 || ranks[i] < lowest) lowest = ranks[i];
    return lowest;
}

/* Makes sure that all processes learn of it: where the wire can revoke its communicator, it ends
 * all of their waits; else the control messages do. */
static void spread(mst_nodes *nodes, const char *message) {
    mst_control_message poison = {
        .type = MST_CONTROL_GIVEN_UP, .epoch = nodes->rounds->epoch, .status = MUSTER_NODE_LOST, .rank = -1, .process = nodes->process};
    snprintf(poison.text, sizeof poison.text, "%s", message);
    pthread_mutex_lock(&nodes->wire->lock);
    mst_control_poison(&nodes->rounds->control, &poison);
    if (nodes->wire->table->revoke) nodes->wire->table->revoke(nodes->wire->state);
    pthread_mutex_unlock(&nodes->wire->lock);
}

/* Ends the launch, after a while in which the other processes can say what they know. */
static void end_launch(mst_nodes *nodes, const char *message) {
    mst_rounds *rounds = nodes->rounds;
    char line[MST_MESSAGE_SIZE + 128];
    snprintf(line, sizeof line, "muster: %s; the launch is aborted in %.3g s (the option on_lost)", message,
             (double)rounds->lost_grace_ns * 1e-9);
    if (rounds->log) rounds->log(rounds->log_user, MUSTER_LOG_ERROR, line);
    const int64_t until = mst_now_ns() + rounds->lost_grace_ns;
    while (mst_now_ns() < until) {
        const struct timespec nap = {.tv_nsec = LOST_NAP_NS};
        pthread_mutex_lock(&nodes->wire->lock);
        mst_control_progress(&rounds->control, rounds->epoch);
        pthread_mutex_unlock(&nodes->wire->lock);
        nanosleep(&nap, NULL);
    }
    pthread_mutex_lock(&nodes->wire->lock);
    nodes->wire->table->abort(nodes->wire->state, 1);
    pthread_mutex_unlock(&nodes->wire->lock);
}

muster_status mst_nodes_lose_as(mst_nodes *nodes, const char *message) {
    pthread_mutex_lock(&nodes->wire->lock);
    const bool first = !atomic_load(&nodes->lost);
    if (first) snprintf(nodes->rounds->lost, sizeof nodes->rounds->lost, "%s", message);
    atomic_store(&nodes->lost, true);
    pthread_mutex_unlock(&nodes->wire->lock);
    if (first) {
        spread(nodes, message);
        if (nodes->rounds->on_lost == MST_LOST_ABORT) end_launch(nodes, message);
    }
    return mst_error_restore(MUSTER_NODE_LOST, message);
}

muster_status mst_nodes_lose(mst_nodes *nodes, const char *where, int32_t process, const char *why) {
    char name[MST_PROCESS_TEXT], message[MST_MESSAGE_SIZE];
    pthread_mutex_lock(&nodes->wire->lock);
    const int32_t lost = process >= 0 ? process : lost_of_wire(nodes);
    pthread_mutex_unlock(&nodes->wire->lock);
    mst_error(MUSTER_NODE_LOST, "%s: %s %s: it is lost, and this runtime can only be closed", where,
              lost >= 0 ? mst_nodes_process_text(nodes, lost, name) : "another process", why);
    mst_error_save(message);
    return mst_nodes_lose_as(nodes, message);
}

muster_status mst_nodes_lost_before(const mst_nodes *nodes, const char *where) {
    const char *said = nodes->rounds->lost, *behind = strstr(said, ": "); /* the function that was called then */
    return mst_error(MUSTER_NODE_LOST, "%s: %s", where,
                     behind ? behind + 2 : "a process has been lost before; this runtime can only be closed");
}
