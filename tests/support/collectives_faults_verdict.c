/* What must be told of a run in which one rank did something wrong; and the watch that ends a test
 * that hangs. */
#include "collectives_faults.h"

#include "base_check.h"
#include "base_pace.h"
#include "base_seed.h"
#include "device_discrete.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- judgement ---- */

static const char *complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *complain(const char *format, ...) {
    static _Thread_local char text[2 * MST_MESSAGE_SIZE + 200];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return text;
}

static const char *lacks(const char *message, const char *format, ...) __attribute__((format(printf, 2, 3)));
static const char *lacks(const char *message, const char *format, ...) {
    char wanted[160];
    va_list list;
    va_start(list, format);
    vsnprintf(wanted, sizeof wanted, format, list);
    va_end(list);
    return strstr(message, wanted) ? NULL : complain("\"%s\" lacks \"%s\"", message, wanted);
}

#define CHECK(complaint)                      \
    do {                                      \
        const char *complaint_ = (complaint); \
        if (complaint_) return complaint_;    \
    } while (0)

static const char *is_status(muster_status status, muster_status wanted, const char *message) {
    return status == wanted ? NULL
                            : complain("expected %s, received %s \"%s\"", muster_status_name(wanted), muster_status_name(status), message);
}

static bool has_messages(const faults_plan *plan) { return faults_sends(plan->calls[plan->step].kind); }

/* In messages, and in the parts of a split, a rank can be behind the others, so that a later
 * failure finds it there; so it can where it waits for its own device. */
static bool may_be_behind(const faults_plan *plan) {
    for (int32_t i = 0; i < plan->step; i++) {
        if (faults_sends(plan->calls[i].kind) || plan->calls[i].kind == FAULTS_SPLIT) return true;
    }
    return false;
}

static bool has_split(const faults_plan *plan) {
    for (int32_t i = 0; i < plan->step; i++) {
        if (plan->calls[i].kind == FAULTS_SPLIT) return true;
    }
    return false;
}

/* Of the ranks that did nothing wrong: they were told that another failed, or found it out
 * themselves with the status `found`. A rank may have finished with messages before anything went
 * wrong with them, but no rank finishes a collective that another has not entered. */
static const char *others_waited(const faults_plan *plan, muster_status found) {
    for (int32_t r = 0; r < plan->size; r++) {
        const faults_outcome *o = &plan->outcomes[r];
        if (r == plan->rank || o->status == found) continue;
        if (o->status == MUSTER_OK && has_messages(plan)) continue;
        if (o->status != MUSTER_ABORTED)
            return complain("rank %d: expected ABORTED, received %s \"%s\"", r, muster_status_name(o->status), o->message);
        const bool behind = may_be_behind(plan) || (strstr(o->message, "gave up waiting for its device") && o->steps < plan->step);
        if (!has_messages(plan) && !behind && o->steps != plan->step)
            return complain("rank %d did %d steps, not %d: \"%s\"", r, o->steps, plan->step, o->message);
        bool told = strstr(o->message, "gave up because rank") || strstr(o->message, "gave up waiting for its device") ||
                    strstr(o->message, "after the call was aborted") || strstr(o->message, "gave up because the call has failed") ||
                    (plan->process >= 0 && strstr(o->message, "gave up because process"));
        /* In a part of a split a worker that is no member has no rank, and is named as a worker. */
        if (has_split(plan) && strstr(o->message, "gave up because worker")) told = true;
        if (!told) return complain("rank %d was told nothing: \"%s\"", r, o->message);
    }
    return NULL;
}

static const char *all_right(const faults_plan *plan, muster_status status, const char *message) {
    CHECK(is_status(status, MUSTER_OK, message));
    for (int32_t r = 0; r < plan->size; r++) {
        if (plan->outcomes[r].steps != plan->steps)
            return complain("rank %d did %d steps, not %d", r, plan->outcomes[r].steps, plan->steps);
    }
    return NULL;
}

static const char *failed(const faults_plan *plan, muster_status status, const char *message) {
    CHECK(is_status(status, MUSTER_USER, message));
    CHECK(lacks(message, "the dog of rank %d ate it (rank %d)", plan->rank, plan->rank));
    return others_waited(plan, MUSTER_ABORTED);
}

static const char *returned(const faults_plan *plan, muster_status status, const char *message) {
    CHECK(is_status(status, MUSTER_INVALID_ARGUMENT, message));
    CHECK(lacks(message, ": rank %d returned without ", plan->rank));
    CHECK(lacks(message, ", for which rank "));
    return others_waited(plan, MUSTER_INVALID_ARGUMENT);
}

/* Of a wait for another process, whose ranks are not known. */
static bool waits_for_process(const faults_plan *plan, const char *message, int32_t process) {
    char wanted[64] = " for process ";
    if (process >= 0) snprintf(wanted, sizeof wanted, " for process %d (host ", (int)process);
    return plan->process >= 0 && strstr(message, " waited ") && strstr(message, wanted);
}

static const char *stayed_away(const faults_plan *plan, muster_status status, const char *message) {
    CHECK(is_status(status, MUSTER_TIMEOUT, message));
    if (waits_for_process(plan, message, has_messages(plan) ? -1 : plan->process)) {
    } else if (!has_messages(plan)) {
        CHECK(lacks(message, " for rank %d, which made no progress; rank %d did last: ", plan->rank, plan->rank));
    } else { /* it kept others from their messages, for which others wait again, also in what comes after them */
        CHECK(lacks(message, ", which made no progress; rank "));
    }
    CHECK(others_waited(plan, MUSTER_TIMEOUT));
    /* in another process what the others have sent may be there before their failure */
    if (plan->process >= 0 && plan->outcomes[plan->rank].status == MUSTER_OK) return NULL;
    return is_status(plan->outcomes[plan->rank].status, plan->late_entry ? MUSTER_ABORTED : MUSTER_OK, plan->outcomes[plan->rank].message);
}

/* Every rank has the same error; of several processes one may be told before it finds it out. */
static const char *agreed(const faults_plan *plan, muster_status status, const char *message) {
    for (int32_t r = 0; r < plan->size; r++) {
        const faults_outcome *o = &plan->outcomes[r];
        if (plan->process >= 0 && o->status == MUSTER_ABORTED && o->steps == plan->step && strstr(o->message, "gave up because")) continue;
        if (o->status != status)
            return complain("rank %d: expected %s as the caller, received %s \"%s\"", r, muster_status_name(status),
                            muster_status_name(o->status), o->message);
        if (strncmp(o->message, message, strlen(o->message)) != 0)
            return complain("rank %d: expected the caller's \"%s\", received \"%s\"", r, message, o->message);
        if (o->steps != plan->step) return complain("rank %d did %d steps, not %d: \"%s\"", r, o->steps, plan->step, o->message);
    }
    return NULL;
}

/* "collective mismatch: rank F called A, rank 0 called B": both ranks, and two different calls. */
static const char *both_named(const faults_plan *plan, const char *message) {
    char one[64];
    snprintf(one, sizeof one, "collective mismatch: rank %d called ", plan->rank == 0 ? 1 : plan->rank);
    const char *first = strstr(message, one), *second = strstr(message, ", rank 0 called "), *end = strstr(message, " (rank ");
    if (!first || !second || !end || end < second) return complain("\"%s\" does not name two ranks and their calls", message);
    first += strlen(one);
    size_t length = (size_t)(second - first);
    second += strlen(", rank 0 called ");
    if (length == (size_t)(end - second) && strncmp(first, second, length) == 0)
        return complain("\"%s\" names the same call twice", message);
    return NULL;
}

static const char *mismatched(const faults_plan *plan, muster_status status, const char *message) {
    faults_kind kind = plan->calls[plan->step].kind;
    bool sums = kind == FAULTS_ALL_GATHER_UNEVEN || kind == FAULTS_GATHER || kind == FAULTS_SCATTER;
    if (plan->fault == FAULT_COUNT && sums) { /* nobody knows which of the counts is the wrong one */
        CHECK(is_status(status, MUSTER_SHAPE_MISMATCH, message));
        CHECK(lacks(message, ", the sum of all ranks' "));
    } else if (plan->fault == FAULT_COUNT && kind == FAULTS_ALL_TO_ALL_UNEVEN) {
        CHECK(is_status(status, MUSTER_SHAPE_MISMATCH, message));
        CHECK(lacks(message, "rank %d sends %lld elements to rank 0, which expects ", plan->rank,
                    (long long)(plan->calls[plan->step].count + plan->rank % 3 + 1)));
    } else {
        CHECK(is_status(status, MUSTER_INVALID_ARGUMENT, message));
        CHECK(both_named(plan, message));
    }
    return agreed(plan, status, message);
}

static const char *wrong_message(const faults_plan *plan, muster_status status, const char *message) {
    bool stuck = plan->fault == FAULT_ROOT || plan->fault == FAULT_OTHER;
    if (stuck && status == MUSTER_TIMEOUT && waits_for_process(plan, message, -1)) return NULL;
    if (stuck && status == MUSTER_TIMEOUT) return lacks(message, ", which made no progress; rank ");
    CHECK(is_status(status, MUSTER_INVALID_ARGUMENT, message));
    if (stuck) return lacks(message, "rank");
    char wanted[2][40];
    snprintf(wanted[0], sizeof wanted[0], "recv: rank %d expected ", plan->rank);
    snprintf(wanted[1], sizeof wanted[1], " from rank %d, which waits to send ", plan->rank);
    if (!strstr(message, wanted[0]) && !strstr(message, wanted[1]))
        return complain("\"%s\" lacks \"%s\" or \"%s\"", message, wanted[0], wanted[1]);
    return others_waited(plan, MUSTER_INVALID_ARGUMENT);
}

static const char *out_of_memory(const faults_plan *plan, muster_status status, const char *message) {
    if (plan->allocations < plan->allocation) return all_right(plan, status, message);
    if (status == MUSTER_OK)
        return complain("allocation %lld of %lld failed and nobody noticed", (long long)plan->allocation, (long long)plan->allocations);
    CHECK(is_status(status, MUSTER_OUT_OF_MEMORY, message));
    CHECK(lacks(message, "out of memory, "));
    bool may_finish = has_messages(plan) || plan->calls[plan->step].kind == FAULTS_SPLIT; /* the other part */
    for (int32_t r = 0; r < plan->size; r++) {
        muster_status own = plan->outcomes[r].status;
        if (own == MUSTER_OUT_OF_MEMORY || own == MUSTER_ABORTED || (own == MUSTER_OK && may_finish)) continue;
        return complain("rank %d: expected ABORTED, received %s \"%s\"", r, muster_status_name(own), plan->outcomes[r].message);
    }
    return NULL;
}

/* Does a message begin as it must? Those of collectives begin with the public function. A body's
 * end is no function, and a rank may wait for its device outside of collectives, too. */
static bool is_named(const char *message) {
    return strncmp(message, "muster_", 7) == 0 || strncmp(message, "end of the body: ", 17) == 0 || strstr(message, " for its device ");
}

/* A message with USER is the program's own. */
static const char *unnamed(const faults_plan *plan, muster_status status, const char *message) {
    for (int32_t r = -1; r < plan->size; r++) {
        const muster_status code = r < 0 ? status : plan->outcomes[r].status;
        const char *text = r < 0 ? message : plan->outcomes[r].message;
        if (code != MUSTER_OK && code != MUSTER_USER && !is_named(text))
            return complain("the message of rank %d (-1: of the call) does not begin with a function: %s", r, text);
    }
    return NULL;
}

const char *faults_verdict(const faults_plan *plan, muster_status status, const char *message) {
    for (int32_t r = 0; r < plan->size; r++) {
        if (plan->outcomes[r].wrong && !plan->stubborn) return complain("%s", plan->outcomes[r].message);
    }
    const char *complaint = unnamed(plan, status, message);
    if (complaint) return complaint;
    if (plan->fault == FAULT_NONE || plan->fault == FAULT_DELAYS) return all_right(plan, status, message);
    if (plan->fault == FAULT_MEMORY) return out_of_memory(plan, status, message);
    if (plan->stubborn) return status == MUSTER_OK ? complain("expected a failure, received OK") : NULL;
    switch (plan->fault) {
    case FAULT_FAILS:
        return failed(plan, status, message);
    case FAULT_RETURNS:
        return returned(plan, status, message);
    case FAULT_STAYS_AWAY:
        return stayed_away(plan, status, message);
    default:
        return has_messages(plan) ? wrong_message(plan, status, message) : mismatched(plan, status, message);
    }
}

/* Will ranks be stuck until the deadline? */
static bool waits_for_deadline(const faults_plan *plan) {
    if (plan->fault == FAULT_NONE || plan->fault == FAULT_DELAYS || plan->fault == FAULT_MEMORY) return false;
    if (plan->fault == FAULT_STAYS_AWAY || plan->stubborn) return true;
    return has_messages(plan) && (plan->fault == FAULT_ROOT || plan->fault == FAULT_OTHER);
}

const char *faults_try(collectives_pool *c, faults_plan *plan, int64_t *repeated) {
    int64_t deadline = waits_for_deadline(plan) ? 16000000 : 0;
    for (;; deadline *= 2, ++*repeated) {
        muster_status status = faults_run(c, plan, deadline);
        const char *complaint = faults_verdict(plan, status, status == MUSTER_OK ? "" : muster_last_error());
        if (!complaint || status != MUSTER_TIMEOUT || deadline == 0 || deadline > 2000000000) return complaint;
    }
}

const char *faults_all_kinds(collectives_pool *c) {
    for (faults_kind kind = 0; kind < FAULTS_KINDS; kind++) {
        faults_plan plan = {
            .calls = {{.kind = kind, .op = MUSTER_SUM, .dtype = MUSTER_F32, .count = 17, .salt = kind}}, .steps = 1, .size = c->size};
        muster_status status = faults_run(c, &plan, 0);
        CHECK(faults_verdict(&plan, status, muster_last_error()));
    }
    return NULL;
}

/* ---- pools ---- */

void faults_log_nothing(void *user, muster_log_level level, const char *line) { (void)user, (void)level, (void)line; }

/* ---- the watch ---- */

static struct {
    pthread_mutex_t lock;
    char words[600];
    const mst_pool *pool;
    uint64_t said; /* how often something has been said */
} watched = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum { PATIENCE_S = 40 };

static void give_up(void) {
    fprintf(stderr, "nothing has ended for %d s and more: %s\n", PATIENCE_S, watched.words);
    for (int32_t r = 0; watched.pool && r < mst_pool_size(watched.pool); r++) {
        char last[160];
        fprintf(stderr, "  rank %d did last: %s\n", r,
                mst_recorder_last(&mst_pool_worker((mst_pool *)watched.pool, r)->recorder, last, sizeof last));
    }
    abort();
}

static void *watch(void *unused) {
    uint64_t seen = 0;
    for (int32_t quiet = 0;; quiet++) {
        sleep(1);
        pthread_mutex_lock(&watched.lock);
        if (watched.said != seen) quiet = 0;
        seen = watched.said;
        if (quiet >= PATIENCE_S && quiet >= PATIENCE_S * test_pace()) give_up();
        pthread_mutex_unlock(&watched.lock);
    }
    return unused;
}

void faults_watch(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, watch, NULL) == 0) pthread_detach(thread);
}

void faults_say(const mst_pool *pool, const char *format, ...) {
    va_list list;
    pthread_mutex_lock(&watched.lock);
    va_start(list, format);
    vsnprintf(watched.words, sizeof watched.words, format, list);
    va_end(list);
    watched.pool = pool;
    watched.said++;
    pthread_mutex_unlock(&watched.lock);
}

/* ---- seeds and size ---- */

uint64_t faults_seed(void) {
    uint64_t seed = test_seed();
    printf("seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    return seed;
}

extern void __ubsan_handle_add_overflow(void) __attribute__((weak)); /* there only in a build with that sanitizer */

bool faults_joint(void) { return processes_count() > 1; }

bool faults_whole(void) {
    if (faults_joint()) return false;
    if (test_is_full()) return true;
    /* each GPU of the simulated machine is several threads */
    if (collectives_devices() != COLLECTIVES_HOST_AND_DISCRETE) return false;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return false;
#else
    return __ubsan_handle_add_overflow == NULL;
#endif
}
