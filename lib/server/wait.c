/* Waiting for a request: making progress, sleeping, deadlines, and cancelling. */
#include "locale_impl.h"
#include "server_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Yields of the CPU before a wait sleeps, with more clients than CPUs. */
enum { YIELDS = 64, DEVICE_POLL_NS = 20000 };

static bool request_touches_shards(const muster_request *request) {
    return atomic_load(&request->client->server->life) != MST_SERVER_ENDING;
}

/* The request is in the queue of a shard that has no combiner. */
static bool request_needs_combiner(const muster_request *request, int32_t shard) {
    return atomic_load(&((muster_request *)request)->nodes[shard].queued) &&
           mst_shard_needs_combiner(&request->operation.value->shards[shard]);
}

void mst_request_progress(muster_request *request) {
    muster_server *server = request->client->server;
    if (!request_touches_shards(request)) return;
    for (int32_t s = 0; s < server->shards; s++) {
        if (request_needs_combiner(request, s)) mst_shard_combine(server, &request->operation.value->shards[s], &request->nodes[s]);
    }
}

static bool request_run_aborted(const muster_request *request) {
    return request->client->worker && !request->drains && mst_pool_aborted(request->client->worker);
}

static bool request_must_wake(void *context) {
    muster_request *request = context;
    if (request_run_aborted(request) || mst_stage_due(request)) return true;
    if (!request_touches_shards(request)) return false;
    for (int32_t s = 0; s < request->client->server->shards; s++) {
        if (request_needs_combiner(request, s)) return true;
    }
    return false;
}

static bool request_never_wakes(void *context) {
    (void)context;
    return false;
}

/* A shard whose queue no longer has the request is applying it, and reads or writes its memory:
 * that is waited for. */
static void request_cancel(muster_request *request, muster_status status) {
    muster_server *server = request->client->server;
    uint64_t cancelled = 0;
    mst_request_fail(request, status);
    if (request->waiting) mst_stage_cancel(request);
    if (mst_request_finished(request)) return;
    for (int32_t s = 0; s < server->shards && request_touches_shards(request); s++) {
        if (atomic_load(&request->nodes[s].queued)) cancelled += mst_shard_cancel(&request->operation.value->shards[s], &request->nodes[s]);
    }
    if (cancelled) mst_request_add_done(request, cancelled);
    const mst_wait wait = {.timeout_ns = -1, .stop = request_never_wakes};
    /* all shards; a copy to the device is issued here */
    const uint64_t copies = request->target - MST_REQUEST_UNWATCHED - (uint64_t)server->shards;
    mst_eventcount_wait(&server->eventcount, &request->done, request->target - copies, &wait);
    mst_stage_advance(request->client, request);
}

enum { ABORT_POLL_NS = 5000000 };

/* ---- deadlines: the shards that are waited for have to get on ---- */

typedef struct request_deadline {
    const char *where;
    int64_t begin_ns, progress_ns, warn_after_ns, fail_after_ns;
    uint64_t served;
    bool warned;
} request_deadline;

static uint64_t request_shards_served(const muster_request *request) {
    uint64_t served = 0;
    for (int32_t s = 0; s < request->client->server->shards; s++)
        served += atomic_load_explicit(&request->operation.value->shards[s].served, memory_order_relaxed);
    return served;
}

static void deadline_start(request_deadline *p, const muster_request *request, const char *where) {
    const mst_pool_options *settings = mst_pool_settings(request->client->server->runtime->pool);
    *p = (request_deadline){.where = where,
                            .warn_after_ns = settings->warn_after_ns,
                            .fail_after_ns = settings->fail_after_ns,
                            .served = request_shards_served(request)};
    if (request->client->worker) mst_worker_deadlines(request->client->worker, &p->warn_after_ns, &p->fail_after_ns);
    p->begin_ns = p->progress_ns = mst_now_ns();
}

static int64_t deadline_slice_ns(const request_deadline *p) {
    int64_t slice = p->fail_after_ns < 0 ? -1 : p->fail_after_ns / 8;
    if (!p->warned && p->warn_after_ns >= 0 && (slice < 0 || p->warn_after_ns < slice)) slice = p->warn_after_ns;
    return slice >= 0 && slice < 1000000 ? 1000000 : slice;
}

static int32_t request_late_shard(const muster_request *request) {
    for (int32_t s = 0; s < request->client->server->shards; s++) {
        if (atomic_load(&((muster_request *)request)->nodes[s].queued)) return s;
    }
    return 0;
}

static muster_status deadline_check(request_deadline *p, const muster_request *request) {
    const muster_server *server = request->client->server;
    const int64_t now = mst_now_ns();
    const uint64_t served = request_shards_served(request);
    const int32_t value = (int32_t)(request->operation.value - server->values);
    if (served != p->served) p->progress_ns = now;
    p->served = served;
    if (!p->warned && p->warn_after_ns >= 0 && now - p->begin_ns >= p->warn_after_ns) {
        char line[400];
        const mst_pool_options *settings = mst_pool_settings(server->runtime->pool);
        mst_snprintf(line, sizeof line,
                     "muster: %s: server '%.200s': has waited %.3g s for shard %" PRId32 " of value %" PRId32
                     ", which another client's operation holds",
                     p->where, server->name, (double)(now - p->begin_ns) * 1e-9, request_late_shard(request), value);
        settings->log(settings->log_user, MUSTER_LOG_WARNING, line);
        p->warned = true;
    }
    if (p->fail_after_ns < 0 || now - p->progress_ns < p->fail_after_ns) return MUSTER_OK;
    return mst_error(MUSTER_TIMEOUT,
                     "%s: server '%.200s': waited %.3g s for shard %" PRId32 " of value %" PRId32
                     ", which another client's operation holds without progress",
                     p->where, server->name, (double)(now - p->begin_ns) * 1e-9, request_late_shard(request), value);
}

static muster_status request_aborted(const muster_request *request, const char *where) {
    return mst_error(mst_pool_aborted_status(request->client->worker),
                     "%s: server '%.200s': rank %" PRId32 " gave up because the call was aborted", where, request->client->server->name,
                     request->client->worker->rank);
}

static muster_status request_wait_until_done(muster_request *request, const char *where) {
    muster_server *server = request->client->server;
    const mst_pool_options *settings = mst_pool_settings(server->runtime->pool);
    const bool oversubscribed = mst_server_oversubscribed(server);
    mst_spin *spin = &request->client->spin;
    const int64_t spin_ns = oversubscribed ? 0 : mst_spin_ns(spin, settings->spin_ns);
    mst_wait wait = {.spin_ns = oversubscribed ? 0 : settings->spin_ns,
                     .spin = spin,
                     .timeout_ns = spin_ns,
                     .yields = oversubscribed ? YIELDS : 0,
                     .stop = request_must_wake,
                     .context = request};
    request_deadline p;
    bool clock = false;
    for (int64_t poll = 0;; poll++) {
        if (request->client->staging) mst_stage_advance(request->client, request);
        mst_request_progress(request);
        if (mst_request_finished(request)) return MUSTER_OK;
        if (request_run_aborted(request)) return request_aborted(request, where);
        /* no thread is woken when the copy has been made */
        if (request->waiting) wait.timeout_ns = poll < 64 ? 0 : DEVICE_POLL_NS;
        const mst_wait_result result = mst_eventcount_wait(&server->eventcount, &request->done, request->target, &wait);
        if (result == MST_REACHED) {
            if (clock && spin_ns > 0) mst_spin_slept(spin, spin_ns + mst_now_ns() - p.begin_ns, settings->spin_ns);
            return MUSTER_OK;
        }
        if (result == MST_STOPPED) continue;
        if (clock)
            MUSTER_TRY(deadline_check(&p, request));
        else
            deadline_start(&p, request, where);
        clock = true;
        wait.spin_ns = 0;
        wait.timeout_ns = deadline_slice_ns(&p);
        if (request->client->worker && (wait.timeout_ns < 0 || wait.timeout_ns > ABORT_POLL_NS))
            wait.timeout_ns = ABORT_POLL_NS; /* an aborted call does not wake the waiters of a server */
    }
}

/* ---- calls that are ended ---- */

static bool request_is_not_served(void *context) {
    const muster_request *request = context;
    for (int32_t s = 0; s < request->client->server->shards; s++)
        if (atomic_load(&((muster_request *)request)->nodes[s].serving)) return false;
    return true;
}

/* The caller's memory is free when this returns: shards that have not begun get a copy of it, and
 * those that have are waited for. */
static muster_status request_move(muster_request *request, const char *where) {
    muster_server *server = request->client->server;
    const int64_t bytes = request->operation.value->bytes;
    const mst_wait wait = {.timeout_ns = -1, .stop = request_is_not_served, .context = request};
    if (request->slot || !request->operation.memory || request->operation.memory == request->copy) return MUSTER_OK;
    MUSTER_TRY(mst_request_reserve_copy(request, where, bytes));
    memcpy(request->copy, request->operation.memory, (size_t)bytes);
    if (request->waiting) return request->operation.memory = request->copy, MUSTER_OK;
    atomic_store(&request->leaving, true);
    for (int32_t s = 0; s < server->shards; s++) /* those without elements queue nothing */
        mst_shard_move(&request->operation.value->shards[s], &request->nodes[s], request->copy);
    while (!request_is_not_served(request)) mst_eventcount_wait(&server->eventcount, &request->done, request->target, &wait);
    return MUSTER_OK;
}

/* Without memory for the copy the wait goes on to the end. */
static void request_leave(muster_request *request, const char *where) {
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    if (request_move(request, where) == MUSTER_OK) {
        request->left = true;
        request->live = false;
    } else {
        request->drains = true;
        const muster_status status = request_wait_until_done(request, where);
        if (status != MUSTER_OK) request_cancel(request, status);
    }
    (void)mst_error_restore(MUSTER_CANCELLED, message);
}

bool mst_request_finish(muster_request *request, const char *where, bool cancel, muster_status *status) {
    if (__builtin_expect(!mst_request_finished(request), 0)) {
        *status = request_wait_until_done(request, where);
        if (*status == MUSTER_TIMEOUT && !cancel) return false;
        if (*status == MUSTER_CANCELLED && request->operation.rule) return request_leave(request, where), true;
        if (*status != MUSTER_OK) request_cancel(request, *status);
    }
    *status = atomic_load(&request->status);
    if (*status != MUSTER_OK) mst_error_restore(*status, request->message);
    return true;
}
