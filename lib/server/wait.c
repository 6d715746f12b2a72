/* Waiting for an operation: helping, sleeping, deadlines, and taking it back. */
#include "server_impl.h"

#include <inttypes.h>
#include <stdio.h>

/* With more clients than CPUs a wait gives its CPU away so often before it sleeps. */
enum { YIELDS = 64, DEVICE_POLL_NS = 20000 };

static bool touches_shards(const muster_request *request) { return atomic_load(&request->client->server->life) != MST_SERVER_ENDING; }

/* Its node waits in the queue of a shard that has no attendant. */
static bool stands_still(const muster_request *request, int32_t shard) {
    return atomic_load(&((muster_request *)request)->nodes[shard].queued) && mst_shard_unattended(&request->operation.value->shards[shard]);
}

void mst_request_help(muster_request *request) {
    muster_server *server = request->client->server;
    if (!touches_shards(request)) return;
    for (int32_t s = 0; s < server->shards; s++) {
        if (stands_still(request, s)) mst_shard_attend(server, &request->operation.value->shards[s], &request->nodes[s]);
    }
}

static bool run_lost(const muster_request *request) { return request->client->worker && mst_pool_poisoned(request->client->worker); }

static bool must_look(void *context) {
    muster_request *request = context;
    if (run_lost(request) || mst_stage_due(request)) return true;
    if (!touches_shards(request)) return false;
    for (int32_t s = 0; s < request->client->server->shards; s++) {
        if (stands_still(request, s)) return true;
    }
    return false;
}

static bool never(void *context) {
    (void)context;
    return false;
}

/* What is in no queue any more is being applied by somebody, who reads or writes the memory of this
 * request: that is waited for. */
static void take_back(muster_request *request, muster_status status) {
    muster_server *server = request->client->server;
    uint64_t withdrawn = 0;
    mst_request_fail(request, status);
    if (request->waiting) mst_stage_take_back(request);
    if (mst_request_finished(request)) return;
    for (int32_t s = 0; s < server->shards && touches_shards(request); s++) {
        if (atomic_load(&request->nodes[s].queued))
            withdrawn += mst_shard_withdraw(&request->operation.value->shards[s], &request->nodes[s]);
    }
    if (withdrawn) mst_request_add_done(request, withdrawn);
    const mst_wait wait = {.timeout_ns = -1, .stop = never};
    mst_bell_wait(&server->bell, &request->done, (uint64_t)server->shards, &wait);
    mst_stage_advance(request->client, request);
}

enum { LOST_POLL_NS = 5000000 };

/* ---- deadlines: the shards that are waited for have to get on ---- */

typedef struct patience {
    const char *where;
    int64_t begin_ns, progress_ns, warn_after_ns, fail_after_ns;
    uint64_t served;
    bool warned;
} patience;

static uint64_t served_so_far(const muster_request *request) {
    uint64_t served = 0;
    for (int32_t s = 0; s < request->client->server->shards; s++)
        served += atomic_load_explicit(&request->operation.value->shards[s].served, memory_order_relaxed);
    return served;
}

static void be_patient(patience *p, const muster_request *request, const char *where) {
    const mst_pool_options *settings = mst_pool_settings(request->client->server->runtime->pool);
    *p = (patience){.where = where,
                    .warn_after_ns = settings->warn_after_ns,
                    .fail_after_ns = settings->fail_after_ns,
                    .served = served_so_far(request)};
    if (request->client->worker) mst_worker_deadlines(request->client->worker, &p->warn_after_ns, &p->fail_after_ns);
    p->begin_ns = p->progress_ns = mst_now_ns();
}

static int64_t slice_ns(const patience *p) {
    int64_t slice = p->fail_after_ns < 0 ? -1 : p->fail_after_ns / 8;
    if (!p->warned && p->warn_after_ns >= 0 && (slice < 0 || p->warn_after_ns < slice)) slice = p->warn_after_ns;
    return slice >= 0 && slice < 1000000 ? 1000000 : slice;
}

static int32_t late_shard(const muster_request *request) {
    for (int32_t s = 0; s < request->client->server->shards; s++) {
        if (atomic_load(&((muster_request *)request)->nodes[s].queued)) return s;
    }
    return 0;
}

static muster_status look_at_clock(patience *p, const muster_request *request) {
    const muster_server *server = request->client->server;
    const int64_t now = mst_now_ns();
    const uint64_t served = served_so_far(request);
    const int32_t value = (int32_t)(request->operation.value - server->values);
    if (served != p->served) p->progress_ns = now;
    p->served = served;
    if (!p->warned && p->warn_after_ns >= 0 && now - p->begin_ns >= p->warn_after_ns) {
        char line[400];
        const mst_pool_options *settings = mst_pool_settings(server->runtime->pool);
        snprintf(line, sizeof line,
                 "muster: %s: server '%.200s': has waited %.3g s for shard %" PRId32 " of value %" PRId32
                 ", which another client's operation holds",
                 p->where, server->name, (double)(now - p->begin_ns) * 1e-9, late_shard(request), value);
        settings->log(settings->log_user, line);
        p->warned = true;
    }
    if (p->fail_after_ns < 0 || now - p->progress_ns < p->fail_after_ns) return MUSTER_OK;
    return mst_error(MUSTER_TIMEOUT,
                     "%s: server '%.200s': waited %.3g s for shard %" PRId32 " of value %" PRId32
                     ", which another client's operation holds without progress",
                     p->where, server->name, (double)(now - p->begin_ns) * 1e-9, late_shard(request), value);
}

static muster_status lost(const muster_request *request, const char *where) {
    return mst_error(MUSTER_ABORTED, "%s: server '%.200s': rank %" PRId32 " gave up because the call is lost", where,
                     request->client->server->name, request->client->worker->rank);
}

static muster_status wait_for(muster_request *request, const char *where) {
    muster_server *server = request->client->server;
    const mst_pool_options *settings = mst_pool_settings(server->runtime->pool);
    const bool crowded = mst_server_crowded(server);
    mst_wait wait = {.spin_ns = crowded ? 0 : settings->spin_ns, .yields = crowded ? YIELDS : 0, .stop = must_look, .context = request};
    wait.timeout_ns = wait.spin_ns;
    patience p;
    bool clock = false;
    for (int64_t look = 0;; look++) {
        if (request->client->staging) mst_stage_advance(request->client, request);
        mst_request_help(request);
        if (mst_request_finished(request)) return MUSTER_OK;
        if (run_lost(request)) return lost(request, where);
        /* nobody rings when its copy has been made */
        if (request->waiting) wait.timeout_ns = look < 64 ? 0 : DEVICE_POLL_NS;
        const mst_wait_result result = mst_bell_wait(&server->bell, &request->done, request->target, &wait);
        if (result == MST_REACHED) return MUSTER_OK;
        if (result == MST_STOPPED) continue;
        if (clock)
            MUSTER_TRY(look_at_clock(&p, request));
        else
            be_patient(&p, request, where);
        clock = true;
        wait.spin_ns = 0;
        wait.timeout_ns = slice_ns(&p);
        if (request->client->worker && (wait.timeout_ns < 0 || wait.timeout_ns > LOST_POLL_NS))
            wait.timeout_ns = LOST_POLL_NS; /* a call that is lost rings no server's bell */
    }
}

bool mst_request_finish(muster_request *request, const char *where, bool withdraw, muster_status *status) {
    if (__builtin_expect(!mst_request_finished(request), 0)) {
        *status = wait_for(request, where);
        if (*status == MUSTER_TIMEOUT && !withdraw) return false;
        if (*status != MUSTER_OK) take_back(request, *status);
    }
    *status = atomic_load(&request->status);
    if (*status != MUSTER_OK) mst_error_restore(*status, request->message);
    return true;
}
