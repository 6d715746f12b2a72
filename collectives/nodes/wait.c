/* The loop of a thread that waits for other processes: it lets the machine and the control messages
 * make progress, one batch of calls of the wire at a time, and looks at poison and at the clock. */
#include "rounds_private.h"

#include "clock_impl.h"
#include "locale_impl.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- between two turns ---- */

enum { WAIT_YIELDS = 50, WAIT_FIRST_SLEEP_NS = 20000, WAIT_LONGEST_SLEEP_NS = 1000000 };

typedef struct wait_pause {
    int64_t begin_ns;
    int32_t yields;
    int64_t sleep_ns;
} wait_pause;

static void rest(wait_pause *pause, const mst_nodes_wait *wait, int64_t now_ns) {
    if (now_ns - pause->begin_ns < wait->spin_ns) {
        mst_pause();
    } else if (pause->yields < WAIT_YIELDS) {
        pause->yields++;
        sched_yield();
    } else {
        const struct timespec time = {.tv_nsec = pause->sleep_ns};
        nanosleep(&time, NULL);
        pause->sleep_ns = pause->sleep_ns * 2 < WAIT_LONGEST_SLEEP_NS ? pause->sleep_ns * 2 : WAIT_LONGEST_SLEEP_NS;
    }
}

/* ---- what ends a wait ---- */

static muster_status by_poison(mst_nodes *nodes, const mst_nodes_wait *wait, mst_control_type type) {
    mst_control_message poison;
    pthread_mutex_lock(&nodes->wire->lock);
    poison = nodes->rounds->control.poison[type];
    pthread_mutex_unlock(&nodes->wire->lock);
    if (type != MST_CONTROL_FAILED) {
        if (poison.status == MUSTER_NODE_LOST) return mst_nodes_lose_as(nodes, poison.text);
        return mst_error_restore(poison.status, poison.text);
    }
    char self[MST_PROCESS_TEXT], other[MST_PROCESS_TEXT], rank[32] = "";
    if (poison.rank >= 0) snprintf(rank, sizeof rank, "rank %d in ", (int)poison.rank);
    return mst_error(MUSTER_ABORTED, "%s: %s gave up because %s%s failed with %s", wait->where,
                     mst_nodes_process_text(nodes, nodes->process, self), rank, mst_nodes_process_text(nodes, poison.process, other),
                     muster_status_name(poison.status));
}

static bool is_poisoned(const mst_nodes *nodes, const mst_nodes_wait *wait, mst_control_type *type) {
    const mst_control *control = &nodes->rounds->control;
    *type = MST_CONTROL_GIVEN_UP;
    if (mst_control_is_poisoned(control, *type, wait->waiter.epoch)) return true;
    *type = MST_CONTROL_CLOSED;
    if (mst_control_is_poisoned(control, *type, wait->waiter.epoch)) return true;
    *type = MST_CONTROL_FAILED;
    return wait->phase == MST_WAIT_CALL && mst_control_is_poisoned(control, *type, wait->waiter.epoch);
}

static muster_status ended(mst_nodes *nodes, const mst_nodes_wait *wait, mst_progress progress) {
    if (progress == MST_PROGRESS_DONE) return MUSTER_OK;
    if (progress == MST_PROGRESS_LOST) return mst_nodes_lose(nodes, wait->where, -1, "has ended");
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    return mst_error(MUSTER_SYSTEM, "%s: %s", wait->where, message);
}

/* ---- deadlines ---- */

enum { WAIT_SENTENCE = 1024 };

static const char *path_text(const mst_nodes *nodes, const mst_late *late, char text[128]) {
    text[0] = 0;
    char name[MST_PROCESS_TEXT];
    if (late->hops > 1) snprintf(text, 128, ", for which %s waits", mst_nodes_process_text(nodes, late->path[late->hops - 2], name));
    return text;
}

static void late_sentence(const mst_nodes *nodes, const mst_nodes_wait *wait, const mst_late *late, int64_t waited_ns,
                          char sentence[WAIT_SENTENCE]) {
    char self[MST_PROCESS_TEXT], name[MST_PROCESS_TEXT], path[128];
    mst_snprintf(sentence, WAIT_SENTENCE, "%s waited %.3g s in %.160s for %s%s, which %s",
                 mst_nodes_process_text(nodes, nodes->process, self), (double)waited_ns * 1e-9, wait->waiter.doing,
                 late->hops ? mst_nodes_process_text(nodes, late->path[late->hops - 1], name) : "other processes",
                 path_text(nodes, late, path), late->text);
}

/* Those that also wait learn the same message, with the status TIMEOUT. */
static muster_status give_up(mst_nodes *nodes, mst_nodes_wait *wait, const mst_late *late, int64_t waited_ns) {
    char sentence[WAIT_SENTENCE];
    late_sentence(nodes, wait, late, waited_ns, sentence);
    wait->late = late->hops ? late->path[late->hops - 1] : -1;
    wait->silent = late->silent;
    mst_error(MUSTER_TIMEOUT, "%s: %s", wait->where, sentence);
    if (wait->phase == MST_WAIT_CALL) mst_nodes_poison(nodes, MUSTER_TIMEOUT, -1);
    return MUSTER_TIMEOUT;
}

static void warn(const mst_nodes *nodes, const mst_nodes_wait *wait, const mst_late *late, int64_t waited_ns) {
    char sentence[WAIT_SENTENCE], line[WAIT_SENTENCE + 64];
    late_sentence(nodes, wait, late, waited_ns, sentence);
    snprintf(line, sizeof line, "muster: %s: %s", wait->where, sentence);
    if (nodes->rounds->log) nodes->rounds->log(nodes->rounds->log_user, MUSTER_LOG_WARNING, line);
}

/* ---- without a wait ---- */

bool mst_nodes_call_failed(void *context) {
    mst_nodes *nodes = context;
    const mst_control *control = &nodes->rounds->control;
    const uint64_t epoch = nodes->rounds->epoch;
    if (pthread_mutex_trylock(&nodes->wire->lock) == 0) { /* else another thread is taking what has come */
        (void)mst_control_progress(&nodes->rounds->control, epoch);
        pthread_mutex_unlock(&nodes->wire->lock);
    }
    return mst_control_is_poisoned(control, MST_CONTROL_FAILED, epoch) || mst_control_is_poisoned(control, MST_CONTROL_GIVEN_UP, epoch);
}

/* ---- the loop ---- */

typedef struct wait_state {
    int64_t begin_ns;
    bool warned, failing, returned;
    mst_late late;
    mst_returned asking;
    wait_pause pause;
} wait_state;

static void enter(mst_nodes *nodes, mst_nodes_wait *wait, mst_machine *machine) {
    wait->waiter.machine = machine;
    pthread_mutex_lock(&nodes->wire->lock);
    mst_control_enter(&nodes->rounds->control, &wait->waiter);
    pthread_mutex_unlock(&nodes->wire->lock);
}

static void leave(mst_nodes *nodes, mst_nodes_wait *wait) {
    pthread_mutex_lock(&nodes->wire->lock);
    mst_control_leave(&nodes->rounds->control, &wait->waiter);
    pthread_mutex_unlock(&nodes->wire->lock);
}

static void drive_unattended(mst_unattended *unattended) {
    if (unattended->progress != MST_PROGRESS_RUNNING) return;
    unattended->progress = unattended->machine->progress(unattended->machine);
    if (unattended->progress == MST_PROGRESS_FAILED) mst_error_save(unattended->message);
}

void mst_nodes_unattended_begin(mst_nodes *nodes, mst_unattended *unattended, mst_machine *machine) {
    *unattended = (mst_unattended){.machine = machine};
    pthread_mutex_lock(&nodes->wire->lock);
    unattended->next = nodes->rounds->unattended;
    nodes->rounds->unattended = unattended;
    drive_unattended(unattended);
    pthread_mutex_unlock(&nodes->wire->lock);
}

muster_status mst_nodes_unattended_end(mst_nodes *nodes, mst_unattended *unattended, const char *where) {
    pthread_mutex_lock(&nodes->wire->lock);
    mst_unattended **at = &nodes->rounds->unattended;
    while (*at != unattended) at = &(*at)->next;
    *at = unattended->next;
    pthread_mutex_unlock(&nodes->wire->lock);
    return unattended->progress == MST_PROGRESS_FAILED ? mst_error(MUSTER_SYSTEM, "%s: %s", where, unattended->message) : MUSTER_OK;
}

/* One turn. Control messages first: poison that is there already beats an arrival whose messages
 * are all there, because others have given it up. */
static mst_progress batch(mst_nodes *nodes, mst_nodes_wait *wait, wait_state *state, int64_t now_ns, bool looking) {
    mst_rounds *rounds = nodes->rounds;
    mst_machine *machine = wait->waiter.machine;
    pthread_mutex_lock(&nodes->wire->lock);
    mst_progress progress = mst_control_progress(&rounds->control, rounds->epoch);
    for (mst_unattended *unattended = rounds->unattended; unattended; unattended = unattended->next) drive_unattended(unattended);
    if (progress == MST_PROGRESS_DONE) progress = machine->progress(machine); /* RUNNING: more of them are there */
    if (progress == MST_PROGRESS_RUNNING && wait->wants) state->returned = mst_returned_look(nodes, wait, &state->asking, now_ns);
    if (progress == MST_PROGRESS_RUNNING && looking) mst_late_look(nodes, wait, &state->late, now_ns);
    pthread_mutex_unlock(&nodes->wire->lock);
    return progress;
}

/* Looks for the late process when a deadline has passed; true when it has been found, and the wait
 * ends. */
static bool at_deadline(const mst_nodes *nodes, mst_nodes_wait *wait, wait_state *state, int64_t now_ns) {
    const int64_t waited_ns = now_ns - state->begin_ns;
    const bool fails = wait->fail_after_ns >= 0 && waited_ns >= wait->fail_after_ns;
    if (fails && !state->failing) {
        state->failing = true;
        state->late = (mst_late){0}; /* what was found for the warning is old */
    }
    if (!state->late.done) return false;
    if (fails) return true;
    if (!state->warned) warn(nodes, wait, &state->late, waited_ns);
    state->warned = true;
    return false;
}

/* In one process a rank that has returned ends the call at once: so those that also wait learn of
 * it before the other ranks of this process have returned. */
static muster_status refuse(mst_nodes *nodes, mst_nodes_wait *wait, const wait_state *state) {
    const muster_status status = wait->wants->refuse(wait->wants->context, state->asking.process, &wait->waiter.returned.answer);
    wait->returned = true;
    mst_nodes_poison(nodes, status, -1);
    return status;
}

static bool is_looking(const mst_nodes_wait *wait, const wait_state *state, int64_t now_ns) {
    if (state->failing) return true;
    return !state->warned && wait->warn_after_ns >= 0 && now_ns - state->begin_ns >= wait->warn_after_ns;
}

static muster_status run(mst_nodes *nodes, mst_nodes_wait *wait) {
    int64_t now_ns = mst_now_ns();
    wait_state state = {.begin_ns = now_ns, .pause = {.begin_ns = now_ns, .sleep_ns = WAIT_FIRST_SLEEP_NS}};
    mst_returned_rest(&state.asking, now_ns);
    for (;;) {
        const mst_progress progress = batch(nodes, wait, &state, now_ns, is_looking(wait, &state, now_ns));
        mst_control_type poison;
        const bool poisoned = progress <= MST_PROGRESS_DONE && is_poisoned(nodes, wait, &poison);
        if (poisoned && (progress == MST_PROGRESS_RUNNING || wait->phase == MST_WAIT_ROUND)) return by_poison(nodes, wait, poison);
        if (progress != MST_PROGRESS_RUNNING) return ended(nodes, wait, progress);
        if (wait->aborted && wait->aborted(wait->context)) return MUSTER_ABORTED;
        if (wait->round && wait->round->must_end(wait->round->must_end_context)) {
            mst_ended_report(nodes, wait->round);
            wait->round = NULL;
        }
        if (state.returned) return refuse(nodes, wait, &state);
        now_ns = mst_now_ns();
        if (wait->waiter.machine->moved) { /* a deadline is for waits in which nothing moves */
            state.begin_ns = now_ns;
            state.failing = false;
            state.late = (mst_late){0};
            mst_returned_rest(&state.asking, now_ns);
            state.pause = (wait_pause){.begin_ns = now_ns, .sleep_ns = WAIT_FIRST_SLEEP_NS};
            continue;
        }
        if (at_deadline(nodes, wait, &state, now_ns)) return give_up(nodes, wait, &state.late, now_ns - state.begin_ns);
        rest(&state.pause, wait, now_ns);
    }
}

muster_status mst_nodes_wait_run(mst_nodes *nodes, mst_nodes_wait *wait, mst_machine *machine) {
    wait->late = -1;
    wait->silent = wait->returned = false;
    enter(nodes, wait, machine);
    const muster_status status = run(nodes, wait);
    leave(nodes, wait);
    return status;
}
