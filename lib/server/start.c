/* The start of training over a server: its values become the parameters of one worker, and all
 * other workers wait for that before they use them. */
#include "locale_impl.h"
#include "server_private.h"

#include <inttypes.h>
#include <stdio.h>

/* An aborted call and the end of a server do not notify the eventcount. */
enum { START_POLL_NS = 5000000 };

bool mst_server_has_started(const muster_client *client) { return atomic_load(&client->server->started) == 1; }

void mst_server_start(muster_client *client) {
    atomic_store(&client->server->started, 1);
    mst_eventcount_notify(&client->server->eventcount);
}

static void start_warn(const muster_client *client, const char *where, int64_t waited_ns) {
    const mst_pool_options *settings = mst_pool_settings(client->server->runtime->pool);
    char line[400];
    mst_snprintf(line, sizeof line,
                 "muster: %s: server '%.200s': rank %" PRId32 " has waited %.3g s for the first worker's driver to start the server", where,
                 client->server->name, client->worker->rank, (double)waited_ns * 1e-9);
    settings->log(settings->log_user, MUSTER_LOG_WARNING, line);
}

static muster_status start_check(const muster_client *client, const char *where, int64_t waited_ns, int64_t fail_after_ns) {
    const muster_server *server = client->server;
    if (mst_pool_aborted(client->worker))
        return mst_error(mst_pool_aborted_status(client->worker),
                         "%s: server '%.200s': rank %" PRId32 " gave up because the call was aborted", where, server->name,
                         client->worker->rank);
    if (atomic_load(&((muster_server *)server)->life) != MST_SERVER_OPEN) return mst_server_refuse_destroyed(server, where);
    char absence[MST_ABSENCE_TEXT];
    if (mst_worker_explain_absence(client->worker, 0, absence))
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: server '%.200s': rank %" PRId32 " waits for the driver of rank 0 to start the server, but rank 0 %s", where,
                         server->name, client->worker->rank, absence);
    if (client->worker->rank != 0 && mst_worker_has_returned(client->worker, 0) && !mst_server_has_started(client))
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: server '%.200s': rank %" PRId32
                         " waits for the driver of rank 0 to start the server, but the body of rank 0 has returned before its driver made "
                         "more than init_delay steps",
                         where, server->name, client->worker->rank);
    if (fail_after_ns < 0 || waited_ns < fail_after_ns) return MUSTER_OK;
    return mst_error(MUSTER_TIMEOUT,
                     "%s: server '%.200s': rank %" PRId32
                     " has waited %.3g s for the first worker's driver to reach init_delay and start the server",
                     where, server->name, client->worker->rank, (double)waited_ns * 1e-9);
}

static muster_status start_wait(muster_client *client, const char *where) {
    muster_server *server = client->server;
    const int64_t begin_ns = mst_now_ns();
    mst_wait wait = {.spin_ns = mst_server_oversubscribed(server) ? 0 : mst_pool_settings(server->runtime->pool)->spin_ns,
                     .timeout_ns = START_POLL_NS};
    int64_t warn_after_ns, fail_after_ns;
    mst_worker_deadlines(client->worker, &warn_after_ns, &fail_after_ns);
    while (mst_eventcount_wait(&server->eventcount, &server->started, 1, &wait) != MST_REACHED) {
        const int64_t waited_ns = mst_now_ns() - begin_ns;
        wait.spin_ns = 0;
        MUSTER_TRY(start_check(client, where, waited_ns, fail_after_ns));
        if (warn_after_ns < 0 || waited_ns < warn_after_ns) continue;
        start_warn(client, where, waited_ns);
        warn_after_ns = -1;
    }
    return MUSTER_OK;
}

muster_status mst_server_await_start(muster_client *client, const char *where) {
    if (mst_server_has_started(client)) return MUSTER_OK;
    mst_recorder *recorder = &client->worker->recorder;
    const uint64_t event = mst_record_begin(recorder, MST_EVENT_SERVER, "server_start", ++client->sequence, 0);
    const muster_status status = start_wait(client, where);
    mst_record_end(recorder, event);
    return status;
}
