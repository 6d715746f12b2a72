/* A process that is lost: it has ended, or is silent for longer than the deadline of an end
 * round. */
#include "rounds_private.h"

#include "clock_impl.h"
#include "locale_impl.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LOST_LISTED = 64, LOST_NAP_NS = 1000000, LOST_HAND_OVER_NS = 200000000, LOST_NAME_NS = 1000000000 };

/* The lowest of the processes that the wire knows to have ended; -1: it knows none. */
static int32_t lost_of_wire(const mst_nodes *nodes) {
    const mst_wire *wire = nodes->wire;
    int32_t ranks[LOST_LISTED], count = 0, lowest = -1;
    if (!wire->table->lost || wire->table->lost(wire->state, ranks, LOST_LISTED, &count) != MUSTER_WIRE_OK) return -1;
    for (int32_t i = 0; i < count && i < LOST_LISTED; i++)
        if (lowest < 0 || ranks[i] < lowest) lowest = ranks[i];
    return lowest;
}

static void nap(void) {
    const struct timespec time = {.tv_nsec = LOST_NAP_NS};
    nanosleep(&time, NULL);
}

/* A process can learn that the wire is revoked before its own MPI knows of whom that is. */
static int32_t find_lost(mst_nodes *nodes) {
    const int64_t until = mst_now_ns() + LOST_NAME_NS;
    for (;;) {
        pthread_mutex_lock(&nodes->wire->lock);
        const int32_t lost = lost_of_wire(nodes);
        pthread_mutex_unlock(&nodes->wire->lock);
        if (lost >= 0 || !nodes->wire->table->lost || mst_now_ns() >= until) return lost;
        nap();
    }
}

/* Until the poison is on its way to all neighbours: earlier poison may take up its place for a
 * moment, and the program may not come back to the wire for long. */
static void hand_over(mst_nodes *nodes) {
    mst_control *control = &nodes->rounds->control;
    const int64_t until = mst_now_ns() + LOST_HAND_OVER_NS;
    for (bool waits = true; waits && mst_now_ns() < until;) {
        pthread_mutex_lock(&nodes->wire->lock);
        waits = mst_control_progress(control, nodes->rounds->epoch) <= MST_PROGRESS_DONE && control->to_flood[MST_CONTROL_GIVEN_UP];
        pthread_mutex_unlock(&nodes->wire->lock);
        if (waits) nap();
    }
}

/* Makes sure that all processes learn of it: where the wire can revoke its communicator, it ends
 * all of their waits; else the control messages do. */
static void spread(mst_nodes *nodes, const char *message) {
    mst_control_message poison = {
        .type = MST_CONTROL_GIVEN_UP, .epoch = MST_CONTROL_FOR_EVER, .status = MUSTER_NODE_LOST, .rank = -1, .process = nodes->process};
    snprintf(poison.text, sizeof poison.text, "%s", message);
    pthread_mutex_lock(&nodes->wire->lock);
    nodes->rounds->control.without_wait = "a call that has lost a process";
    mst_control_poison(&nodes->rounds->control, &poison);
    if (nodes->wire->table->revoke) nodes->wire->table->revoke(nodes->wire->state);
    pthread_mutex_unlock(&nodes->wire->lock);
    hand_over(nodes);
}

/* Ends the launch, after a while in which the other processes can say what they know. */
static void end_launch(mst_nodes *nodes, const char *message) {
    mst_rounds *rounds = nodes->rounds;
    char line[MST_MESSAGE_SIZE + 128];
    mst_snprintf(line, sizeof line, "muster: %s; the launch is aborted in %.3g s (the option on_lost)", message,
                 (double)rounds->lost_grace_ns * 1e-9);
    if (rounds->log) rounds->log(rounds->log_user, MUSTER_LOG_ERROR, line);
    const int64_t until = mst_now_ns() + rounds->lost_grace_ns;
    while (mst_now_ns() < until) {
        pthread_mutex_lock(&nodes->wire->lock);
        mst_control_progress(&rounds->control, rounds->epoch);
        pthread_mutex_unlock(&nodes->wire->lock);
        nap();
    }
    pthread_mutex_lock(&nodes->wire->lock);
    nodes->wire->table->abort(nodes->wire->state, 1);
    pthread_mutex_unlock(&nodes->wire->lock);
}

muster_status mst_nodes_lose_as(mst_nodes *nodes, const char *message) {
    pthread_mutex_lock(&nodes->wire->lock);
    const bool first = !atomic_load(&nodes->lost);
    if (first) snprintf(nodes->rounds->lost, sizeof nodes->rounds->lost, "%s", message);
    if (first) nodes->rounds->lost_ns = mst_now_ns();
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
    const int32_t lost = process >= 0 ? process : find_lost(nodes);
    mst_error(MUSTER_NODE_LOST, "%s: %s %s: it is lost, and this runtime can only be closed", where,
              lost >= 0 ? mst_nodes_process_text(nodes, lost, name) : "another process", why);
    mst_error_save(message);
    return mst_nodes_lose_as(nodes, message);
}

void mst_nodes_linger(mst_nodes *nodes) {
    if (!atomic_load(&nodes->lost) || !nodes->wire->table->lost) return;
    while (mst_now_ns() < nodes->rounds->lost_ns + LOST_NAME_NS) nap();
}

muster_status mst_nodes_lost_before(const mst_nodes *nodes, const char *where) {
    const char *said = nodes->rounds->lost, *behind = strstr(said, ": "); /* the function that was called then */
    return mst_error(MUSTER_NODE_LOST, "%s: %s", where,
                     behind ? behind + 2 : "a process has been lost before; this runtime can only be closed");
}
