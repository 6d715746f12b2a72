/* One wait of one worker for a word of another. It ends with the word, with the abort of the run,
 * with the peer's return from its task, or with a deadline; the waiter itself checks all four. */
#include "locale_impl.h"
#include "peer_wait_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const mst_worker_state *peer_of(const mst_peer_wait *m) { return &m->worker->pool->states[m->peer]; }

static bool done_with_run(const mst_peer_wait *m, int32_t rank) {
    return atomic_load(&m->worker->pool->states[rank].done_with) >= m->worker->epoch;
}

/* Is only the last rendezvous of the run left for the waiting worker? */
static bool in_last_rendezvous(const mst_peer_wait *m) { return done_with_run(m, m->worker->rank); }

/* ---- what ends a wait ---- */

static bool peer_returned(const mst_peer_wait *m) {
    if (atomic_load(&peer_of(m)->finished) >= m->worker->epoch) return true;
    return !m->reading && done_with_run(m, m->peer) && !in_last_rendezvous(m);
}

/* What the run has failed with is stored before a worker finishes, so it is read behind that. */
bool mst_worker_has_returned(const muster_worker *worker, int32_t rank) {
    const mst_worker_state *state = &worker->pool->states[rank];
    const bool returned = atomic_load(&state->finished) >= worker->epoch || atomic_load(&state->done_with) >= worker->epoch;
    return returned && !mst_run_aborted(worker->pool, worker->epoch);
}

static bool peer_reads(const mst_peer_wait *m) { return m->reading && atomic_load(m->reading) == m->target; }

/* In an aborted run a rank may leave once the peer is outside its section. A peer that would begin
 * one now sees the abort and does not begin: it stores `reading` before it checks for the abort,
 * and the abort was seen here before `reading` was read. */
static bool must_stop(void *context) {
    const mst_peer_wait *m = context;
    if (peer_returned(m)) return true;
    return mst_pool_aborted(m->worker) && !peer_reads(m);
}

muster_status mst_peer_wait_aborted(muster_worker *worker, const mst_team *team, const char *what) {
    uint64_t word = atomic_load(&worker->pool->failure);
    char own_name[MST_RANK_TEXT], failed[MST_RANK_TEXT];
    if (mst_failure_code(word) == MUSTER_CANCELLED) return mst_cancel_refuse(what);
    return mst_error(MUSTER_ABORTED, "%s: %s gave up because %s failed with %s", what, mst_team_rank_text(team, worker->rank, own_name),
                     mst_team_rank_text(team, mst_failure_rank(word), failed), muster_status_name(mst_failure_code(word)));
}

static const char *own_text(const mst_peer_wait *m, char text[MST_RANK_TEXT]) { return mst_team_rank_text(m->team, m->worker->rank, text); }
static const char *peer_text(const mst_peer_wait *m, char text[MST_RANK_TEXT]) { return mst_team_rank_text(m->team, m->peer, text); }

/* Inside of a sentence a public function is named without its prefix. */
static const char *short_text(const char *what) {
    static const char prefix[] = "muster_worker_";
    return strncmp(what, prefix, sizeof prefix - 1) == 0 ? what + sizeof prefix - 1 : what;
}
static const char *short_name(const mst_peer_wait *m) { return short_text(m->what); }

static const char *tag_text(const mst_peer_wait *m, char text[32]) {
    text[0] = 0;
    if (m->message_tag >= 0) snprintf(text, 32, " with tag %" PRId64, m->message_tag);
    return text;
}

static muster_status stop_reason(const mst_peer_wait *m) {
    if (mst_run_aborted(m->worker->pool, m->worker->epoch)) return mst_peer_wait_aborted(m->worker, m->team, m->what);
    char tag[32], own_name[MST_RANK_TEXT], peer[MST_RANK_TEXT], absence[MST_ABSENCE_TEXT];
    /* Then the peer may have returned because it was told so. */
    if (mst_worker_failed_elsewhere(m->worker))
        return mst_error(MUSTER_ABORTED, "%s: %s gave up because the call has failed in another process", m->what, own_text(m, own_name));
    if (mst_worker_explain_absence(m->worker, m->peer, absence))
        mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s waits for %s, which %s", m->what, own_text(m, own_name), peer_text(m, peer), absence);
    else
        mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s returned without %s %s%s, for which %s waits", m->what, peer_text(m, peer), m->action,
                  short_name(m), tag_text(m, tag), own_text(m, own_name));
    mst_pool_abort(m->worker, MUSTER_INVALID_ARGUMENT);
    return MUSTER_INVALID_ARGUMENT;
}

/* ---- deadlines ---- */

/* Does the late rank make progress? Its recorder grows when it finishes something; the CPU time of
 * its thread grows while user code computes, which never counts against it. Waking up to read a
 * clock uses little: a thread that used more than a 32nd of the time computes. */
typedef struct progress {
    uint64_t events;
    int64_t cpu_ns;
    int64_t at_ns; /* when it was last seen to make progress */
    int64_t looked_ns;
} progress;

static int64_t cpu_time_ns(const mst_peer_wait *m) {
    clockid_t clock;
    struct timespec time;
    /* rank 0 is the thread of the run in progress: it was stored before this run's epoch was
     * published */
    if (pthread_getcpuclockid(peer_of(m)->thread, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void look_at_progress(const mst_peer_wait *m, progress *seen, int64_t now) {
    uint64_t events = mst_recorder_progress(&peer_of(m)->worker.recorder);
    int64_t cpu_ns = cpu_time_ns(m);
    if (events != seen->events || cpu_ns - seen->cpu_ns > (now - seen->looked_ns) / 32) seen->at_ns = now;
    seen->events = events;
    seen->cpu_ns = cpu_ns;
    seen->looked_ns = now;
}

/* Does the peer wait for somebody else: a worker that does not wait in turn for this one, or
 * another process? The worker that waits for the one at the end of that chain has the same
 * deadlines, and blames the right one. A chain that changes meanwhile may be misread, for the time
 * of one slice. */
static bool peer_waits_for_others(const mst_peer_wait *m) {
    const mst_pool *pool = m->worker->pool;
    int32_t rank = m->peer;
    for (int32_t hops = 0; hops < pool->size && rank != m->worker->rank; hops++) {
        const mst_worker_state *state = &pool->states[rank];
        const int32_t next = atomic_load(&state->waits_for);
        if (atomic_load(&state->waits_elsewhere)) return true;
        if (next == 0) return rank != m->peer;
        rank = next - 1;
    }
    return false; /* a cycle: everybody in it is late */
}

static void warn(const mst_peer_wait *m, int64_t waited_ns) {
    const mst_pool *pool = m->worker->pool;
    char line[240], own_name[MST_RANK_TEXT], peer[MST_RANK_TEXT];
    mst_snprintf(line, sizeof(line),
                 "muster: %s has waited %.3g s in %.60s #%" PRIu64 " for %s; the workers did last:", own_text(m, own_name),
                 (double)waited_ns * 1e-9, short_name(m), m->worker->sequence, peer_text(m, peer));
    mst_report_workers(pool, line);
}

static muster_status give_up(mst_peer_wait *m, int64_t waited_ns) {
    char last[160], tag[32], own_name[MST_RANK_TEXT], peer[MST_RANK_TEXT];
    own_text(m, own_name);
    peer_text(m, peer);
    mst_recorder_last(&peer_of(m)->worker.recorder, last, sizeof(last));
    mst_error(MUSTER_TIMEOUT, "%s: %s waited %.3g s for %s, which made no progress; %s did last: %s; %s waits for %s%s #%" PRIu64, m->what,
              own_name, (double)waited_ns * 1e-9, peer, peer, last, own_name, short_name(m), tag_text(m, tag), m->worker->sequence);
    mst_pool_abort(m->worker, MUSTER_TIMEOUT);
    m->gave_up = MUSTER_TIMEOUT;
    return MUSTER_TIMEOUT;
}

static int64_t smaller_deadline(int64_t a, int64_t b) {
    if (a < 0) return b;
    return b < 0 || a < b ? a : b;
}

/* Looks often enough to see the end of either deadline within an eighth of the failing one. */
static int64_t slice_ns(int64_t warn_left, int64_t fail_after) {
    int64_t slice = smaller_deadline(warn_left, fail_after < 0 ? -1 : fail_after / 8);
    return slice >= 0 && slice < 1000000 ? 1000000 : slice;
}

static muster_status end_of_slices(mst_peer_wait *m, mst_wait *wait) {
    mst_pool *pool = m->worker->pool;
    mst_eventcount *eventcount = &pool->states[m->peer].eventcount;
    const int64_t fail_after_ns = in_last_rendezvous(m) ? -1 : pool->fail_after_ns;
    const int64_t begin = mst_now_ns();
    int64_t warn_begin = begin, warn_left = pool->warn_after_ns;
    progress seen = {.at_ns = begin, .looked_ns = begin};
    look_at_progress(m, &seen, begin);
    for (;;) {
        /* After giving up only the peer's reading section is left to wait for, and that has no
         * deadline: it is library code. */
        wait->timeout_ns = m->gave_up ? -1 : slice_ns(warn_left, fail_after_ns);
        mst_wait_result result = mst_eventcount_wait(eventcount, m->word, m->target, wait);
        if (result == MST_REACHED) return m->gave_up;
        if (result == MST_STOPPED) return m->gave_up ? m->gave_up : stop_reason(m);
        if (m->gave_up) continue;
        int64_t now = mst_now_ns();
        look_at_progress(m, &seen, now);
        if (peer_waits_for_others(m)) seen.at_ns = warn_begin = now;
        if (warn_left >= 0 && now - warn_begin >= pool->warn_after_ns && now > warn_begin) {
            warn(m, now - begin);
            warn_left = -1;
        } else if (warn_left >= 0) {
            warn_left = pool->warn_after_ns - (now - warn_begin);
        }
        if (fail_after_ns < 0 || now - seen.at_ns < fail_after_ns) continue;
        give_up(m, now - begin);
        if (!m->reading) return MUSTER_TIMEOUT;
    }
}

/* ---- workers that wait for each other ---- */

static void report_cycle(const mst_peer_wait *m, const mst_peer_cycle *found) {
    static const char grouped[] = "; between muster_worker_group_begin and _end a send does not wait for its receive";
    char tag[32], own_name[MST_RANK_TEXT], peer[MST_RANK_TEXT], others[MST_MESSAGE_SIZE / 2] = "";
    own_text(m, own_name);
    size_t at = 0;
    for (int32_t i = 0; i < found->count && at < sizeof others; i++) {
        const bool last = i + 1 == found->count;
        const char *next = last ? own_name : mst_team_rank_text(m->team, found->ranks[i + 1], peer);
        at += (size_t)snprintf(others + at, sizeof others - at, ", which waits in %.40s for %s", short_text(found->what[i]), next);
    }
    mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s waits in %s%s for %s%s: %s can go on%s", m->what, own_name, short_name(m), tag_text(m, tag),
              peer_text(m, peer), others, found->count > 1 ? "none" : "neither", strcmp(short_name(m), "send") == 0 ? grouped : "");
}

/* Apart from the wait, which may be long: the lists lie on the stack. */
static __attribute__((noinline)) muster_status refuse_cycle(mst_peer_wait *m) {
    mst_peer_cycle found;
    if (!mst_peer_cycle_find(m, &found)) return MUSTER_OK;
    report_cycle(m, &found);
    mst_pool_abort(m->worker, MUSTER_INVALID_ARGUMENT);
    m->gave_up = MUSTER_INVALID_ARGUMENT;
    return MUSTER_INVALID_ARGUMENT;
}

/* The last rendezvous of a run has no deadline: who waits there blames nobody. */
static muster_status sleep_for_peer(mst_peer_wait *m, mst_wait *wait) {
    mst_worker_state *state = &m->worker->pool->states[m->worker->rank];
    if (in_last_rendezvous(m)) return end_of_slices(m, wait);
    mst_peer_wait_publish(state, m);
    muster_status status = refuse_cycle(m);
    if (status == MUSTER_OK || m->reading) status = end_of_slices(m, wait);
    mst_peer_wait_conceal(state);
    return status;
}

muster_status mst_peer_wait_run(mst_peer_wait *m) {
    if (__builtin_expect(!mst_wait_test_hook && atomic_load(m->word) >= m->target, 1)) return MUSTER_OK;
    const mst_pool *pool = m->worker->pool;
    /* Nearly every wait ends within the spin, before any deadline is computed. */
    mst_spin *spin = &pool->states[m->worker->rank].peer_spin;
    const int64_t spin_ns = mst_spin_ns(spin, pool->options.spin_ns);
    mst_wait wait = {
        .spin_ns = pool->options.spin_ns, .spin = spin, .yields = pool->yields, .timeout_ns = spin_ns, .stop = must_stop, .context = m};
    mst_wait_result result = mst_eventcount_wait(&pool->states[m->peer].eventcount, m->word, m->target, &wait);
    if (result == MST_REACHED) return MUSTER_OK;
    if (result == MST_STOPPED) return stop_reason(m);
    wait.spin_ns = 0;
    wait.spin = NULL;
    wait.yields = 0;
    const int64_t start_ns = mst_now_ns();
    const muster_status status = sleep_for_peer(m, &wait);
    if (status == MUSTER_OK) mst_spin_slept(spin, spin_ns + mst_now_ns() - start_ns, pool->options.spin_ns);
    return status;
}

uint64_t mst_next_tag(muster_worker *worker, uint64_t *epoch, uint64_t *sequence) {
    if (*epoch != worker->epoch) {
        *epoch = worker->epoch;
        *sequence = 0;
    }
    uint64_t tag = (worker->epoch << MST_SEQUENCE_BITS) + ++*sequence;
    if ((*sequence & ((1 << (MST_SEQUENCE_BITS - 1)) - 1)) == 0) {
        /* Tags of later epochs are coming into use: the next run begins above what this worker may
         * reach before it comes by here again. */
        uint64_t least = (tag >> MST_SEQUENCE_BITS) + 2, known = atomic_load(&worker->pool->least_epoch);
        while (known < least && !atomic_compare_exchange_weak(&worker->pool->least_epoch, &known, least)) {}
    }
    return tag;
}
