/* The meeting places of the workers: one line per rank, on which the others wait. Waits end with arrival, with the loss of the run, with
 * the peer's return from its task, or with a deadline; the waiter itself watches all four. */
#include "pool_state_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct mst_party {
    mst_pool *pool;
    mst_party *next;
    mst_party_line *lines;
};

/* One wait of one rank for one peer. */
typedef struct meeting {
    mst_party *party;
    muster_worker *worker;
    const char *what;
    uint64_t tag;
    int32_t peer;
    bool leaving;   /* waits for the end of the peer's reading section rather than for its arrival */
    bool timed_out; /* this wait has poisoned the run */
} meeting;

/* ---- life ---- */

muster_status mst_party_create(mst_pool *pool, mst_party **party) {
    mst_party *made = mst_alloc(sizeof(*made));
    if (!made) return mst_out_of_memory("a party", sizeof(*made));
    size_t bytes = (size_t)pool->size * sizeof(mst_party_line);
    made->lines = mst_alloc(bytes);
    if (!made->lines) {
        mst_free(made);
        return mst_out_of_memory("the lines of a party", (int64_t)bytes);
    }
    made->pool = pool;
    made->next = pool->parties;
    pool->parties = made;
    *party = made;
    return MUSTER_OK;
}

void mst_party_destroy(mst_party *party) {
    if (!party) return;
    mst_party **link = &party->pool->parties;
    while (*link != party) link = &(*link)->next;
    *link = party->next;
    mst_free(party->lines);
    mst_free(party);
}

mst_party_line *mst_party_lines(mst_party *party) { return party->lines; }

uint64_t mst_party_tag(muster_worker *worker) { return (worker->epoch << MST_SEQUENCE_BITS) + ++worker->sequence; }

static void kick_line(mst_party_line *line) {
    mst_gate_kick(&line->gate);
    mst_gate_kick(&line->left);
}

void mst_parties_kick(mst_pool *pool, int32_t rank) {
    for (mst_party *party = pool->parties; party; party = party->next) {
        if (rank >= 0) {
            kick_line(&party->lines[rank]);
            continue;
        }
        for (int32_t each = 0; each < pool->size; each++) kick_line(&party->lines[each]);
    }
}

/* ---- what ends a wait ---- */

static bool peer_returned(const meeting *m) {
    return atomic_load(&m->party->pool->seats[m->peer].finished) >= m->worker->epoch;
}

static bool peer_reads(const meeting *m) { return atomic_load(&m->party->lines[m->peer].reading) != 0; }

/* In a lost run a rank may leave once the peer is outside its section: a peer that would begin one now sees the loss and turns back,
 * because it says "reading" before it looks, and the loss was seen here before `reading` was read. */
static bool must_stop(void *context) {
    const meeting *m = context;
    if (peer_returned(m)) return true;
    if (!mst_run_lost(m->party->pool, m->worker->epoch)) return false;
    return !m->leaving || !peer_reads(m);
}

static muster_status tell_lost(const meeting *m) {
    uint64_t word = atomic_load(&m->party->pool->failure);
    return mst_error(MUSTER_ABORTED, "%s: rank %" PRId32 " gave up because rank %" PRId32 " failed with %s", m->what, m->worker->rank,
                     mst_failure_rank(word), muster_status_name(mst_failure_code(word)));
}

static muster_status stop_reason(const meeting *m) {
    if (mst_run_lost(m->party->pool, m->worker->epoch)) return tell_lost(m);
    mst_error(MUSTER_INVALID_ARGUMENT, "%s: rank %" PRId32 " returned without entering %s, for which rank %" PRId32 " waits", m->what, m->peer,
              m->what, m->worker->rank);
    mst_pool_poison(m->worker, MUSTER_INVALID_ARGUMENT);
    return MUSTER_INVALID_ARGUMENT;
}

/* ---- deadlines ---- */

/* Does the late rank get on? Its recorder grows when it finishes something; the CPU time of its thread grows while user code computes,
 * which never counts against it. Waking up to look at a clock uses little: a 32nd of the time is the line between the two. */
typedef struct progress {
    uint64_t events;
    int64_t cpu_ns;
    int64_t at_ns; /* when it was last seen to get on */
    int64_t looked_ns;
} progress;

static int64_t cpu_time_ns(const meeting *m) {
    clockid_t clock;
    struct timespec time;
    /* rank 0 is the thread that runs right now: its seat was filled before this run's epoch was published */
    if (pthread_getcpuclockid(m->party->pool->seats[m->peer].thread, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void look_at_progress(const meeting *m, progress *seen, int64_t now) {
    uint64_t events = mst_recorder_progress(&m->party->pool->seats[m->peer].worker.recorder);
    int64_t cpu_ns = cpu_time_ns(m);
    if (events != seen->events || cpu_ns - seen->cpu_ns > (now - seen->looked_ns) / 32) seen->at_ns = now;
    seen->events = events;
    seen->cpu_ns = cpu_ns;
    seen->looked_ns = now;
}

static void warn(const meeting *m, int64_t waited_ns) {
    const mst_pool *pool = m->party->pool;
    char line[240];
    snprintf(line, sizeof(line), "muster: rank %" PRId32 " has waited %.3g s in %.60s #%" PRIu64 " for rank %" PRId32 "; the workers did last:",
             m->worker->rank, (double)waited_ns * 1e-9, m->what, m->worker->sequence, m->peer);
    pool->options.log(pool->options.log_user, line);
    mst_report_workers(pool);
}

static muster_status give_up(meeting *m, int64_t waited_ns) {
    char last[160];
    mst_recorder_last(&m->party->pool->seats[m->peer].worker.recorder, last, sizeof(last));
    mst_error(MUSTER_TIMEOUT, "%s: rank %" PRId32 " waited %.3g s for rank %" PRId32 ", which made no progress; rank %" PRId32 " did last: %s; rank %" PRId32
              " waits for %s #%" PRIu64,
              m->what, m->worker->rank, (double)waited_ns * 1e-9, m->peer, m->peer, last, m->worker->rank, m->what, m->worker->sequence);
    mst_pool_poison(m->worker, MUSTER_TIMEOUT);
    m->timed_out = true;
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

static muster_status end_of_slices(meeting *m, mst_gate *gate, mst_wait *wait) {
    const mst_pool_options *options = &m->party->pool->options;
    int64_t begin = mst_now_ns(), warn_left = options->warn_after_ns;
    progress seen = {.at_ns = begin, .looked_ns = begin};
    look_at_progress(m, &seen, begin);
    for (;;) {
        /* After giving up only the peer's reading section is left to wait for, and that has no deadline: it is library code. */
        wait->timeout_ns = m->timed_out ? -1 : slice_ns(warn_left, options->fail_after_ns);
        mst_wait_result result = mst_gate_wait(gate, m->tag, wait);
        wait->spin_ns = 0;
        if (result == MST_REACHED) return MUSTER_OK;
        if (result == MST_STOPPED) return stop_reason(m);
        int64_t now = mst_now_ns();
        look_at_progress(m, &seen, now);
        if (warn_left >= 0 && now - begin >= options->warn_after_ns) {
            warn(m, now - begin);
            warn_left = -1;
        } else if (warn_left >= 0) {
            warn_left = options->warn_after_ns - (now - begin);
        }
        if (options->fail_after_ns < 0 || now - seen.at_ns < options->fail_after_ns) continue;
        give_up(m, now - begin);
        if (!m->leaving) return MUSTER_TIMEOUT;
    }
}

static muster_status meet(meeting *m, mst_gate *gate) {
    if (__builtin_expect(!mst_gate_test_hook && atomic_load(&gate->value) >= m->tag, 1)) return MUSTER_OK;
    /* The spin alone, without a look at any clock, serves nearly every wait. */
    mst_wait wait = {.spin_ns = m->party->pool->options.spin_ns, .timeout_ns = m->party->pool->options.spin_ns, .stop = must_stop, .context = m};
    mst_wait_result result = mst_gate_wait(gate, m->tag, &wait);
    if (result == MST_REACHED) return MUSTER_OK;
    if (result == MST_STOPPED) return stop_reason(m);
    wait.spin_ns = 0;
    return end_of_slices(m, gate, &wait);
}

/* ---- the public side ---- */

void mst_party_arrive(mst_party *party, muster_worker *worker, uint64_t tag) { mst_gate_publish(&party->lines[worker->rank].gate, tag); }

muster_status mst_party_wait(mst_party *party, muster_worker *worker, int32_t peer, uint64_t tag, const char *what) {
    if (peer == worker->rank) return MUSTER_OK;
    meeting m = {.party = party, .worker = worker, .what = what, .tag = tag, .peer = peer};
    return meet(&m, &party->lines[peer].gate);
}

muster_status mst_party_wait_all(mst_party *party, muster_worker *worker, uint64_t tag, const char *what) {
    for (int32_t peer = 0; peer < worker->size; peer++) MUSTER_TRY(mst_party_wait(party, worker, peer, tag, what));
    return MUSTER_OK;
}

muster_status mst_party_read_begin(mst_party *party, muster_worker *worker, uint64_t tag) {
    mst_party_line *line = &party->lines[worker->rank];
    atomic_store(&line->reading, tag);
    if (__builtin_expect(!mst_run_lost(party->pool, worker->epoch), 1)) return MUSTER_OK;
    atomic_store(&line->reading, 0);
    mst_gate_kick(&line->left); /* a peer may have seen "reading" and gone to sleep */
    meeting m = {.party = party, .worker = worker, .what = "reading the other ranks' memory", .tag = tag};
    return tell_lost(&m);
}

void mst_party_read_end(mst_party *party, muster_worker *worker, uint64_t tag) {
    mst_party_line *line = &party->lines[worker->rank];
    atomic_store(&line->reading, 0);
    mst_gate_publish(&line->left, tag);
}

muster_status mst_party_leave(mst_party *party, muster_worker *worker, uint64_t tag, const char *what) {
    muster_status first = MUSTER_OK;
    for (int32_t peer = 0; peer < worker->size; peer++) { /* every peer, also after a failure: each may still be reading */
        if (peer == worker->rank) continue;
        meeting m = {.party = party, .worker = worker, .what = what, .tag = tag, .peer = peer, .leaving = true};
        muster_status status = meet(&m, &party->lines[peer].left);
        if (status == MUSTER_OK && m.timed_out) status = MUSTER_TIMEOUT;
        if (first == MUSTER_OK) first = status;
    }
    return first;
}
