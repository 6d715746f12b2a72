/* Clients: who may use one, and their life. */
#include "server_private.h"

#include <inttypes.h>
#include <stddef.h>

/* ---- who is inside ---- */

static muster_status client_refuse(muster_client *client, muster_status status) {
    mst_client_leave(client);
    return status;
}

/* Has the client's requests ended when the body of this run returns. */
static void client_join_run(muster_client *client);

/* Where a client of a host thread, or a driver, keeps the server, its workers may have gone with
 * the runtime: nothing of a worker is read but by itself. */
static int32_t client_rank(const muster_client *client) { return (int32_t)(client - client->server->workers); }

static muster_status client_check_worker(muster_client *client, const char *where) {
    muster_worker *worker = client->worker;
    if (mst_current_worker() != worker)
        return mst_error(MUSTER_BAD_STATE, "%s: client: expected the client of the worker that calls, received that of rank %" PRId32,
                         where, client_rank(client));
    if (client->epoch != worker->epoch) client_join_run(client);
    return MUSTER_OK;
}

muster_status mst_client_refuse_closed(const char *where) {
    return mst_error(MUSTER_BAD_STATE, "%s: client: expected an open one, received one that has been closed", where);
}

static muster_status client_enter(muster_client *client, const char *where, bool wait) {
    if (!client) return mst_error_null(where, "client", "a client");
    const muster_server *server = client->server;
    if (__builtin_expect(!server, 0)) return mst_client_refuse_closed(where);
    if (__builtin_expect(mst_server_in_rule != NULL, 0)) return mst_server_refuse_in_rule(where);
    if (__builtin_expect(mst_server_is_from_before_fork(server), 0)) return mst_server_refuse_child(where);
    if (__builtin_expect(atomic_exchange(&client->inside, 1) != 0, 0))
        return mst_error(MUSTER_BAD_STATE, "%s: client: another thread is using it", where);
    if (client->worker) {
        muster_status status = client_check_worker(client, where);
        if (status == MUSTER_OK && !wait) status = mst_worker_check(client->worker, where); /* an ended call sends nothing */
        if (__builtin_expect(status != MUSTER_OK, 0)) return client_refuse(client, status);
    }
    if (__builtin_expect(!wait && atomic_load(&((muster_server *)server)->life) != MST_SERVER_OPEN, 0))
        return client_refuse(client, mst_server_refuse_destroyed(server, where));
    return MUSTER_OK;
}

muster_status mst_client_enter(muster_client *client, const char *where) { return client_enter(client, where, false); }
muster_status mst_client_enter_wait(muster_client *client, const char *where) { return client_enter(client, where, true); }

/* ---- a worker's ---- */

/* Requests that the body has left unfinished may use memory that is freed with the run. Those of a
 * call that was ended go on to their end. */
static muster_status client_end_requests(muster_client *client) {
    muster_status first = MUSTER_OK;
    char message[MST_MESSAGE_SIZE];
    const bool drains = mst_pool_aborted(client->worker) && mst_pool_aborted_status(client->worker) == MUSTER_CANCELLED;
    for (muster_request *request = client->made; request; request = request->next_made) {
        muster_status status = MUSTER_OK;
        const bool left = request->left, ends = (request->live || left) && !mst_request_finished(request);
        if (!ends && !left) continue;
        request->left = false;
        request->drains = drains;
        if (ends) mst_request_finish(request, "muster_worker_client", true, &status);
        if (left) mst_request_give(request);
        if ((status != MUSTER_TIMEOUT && status != MUSTER_ABORTED) || first != MUSTER_OK) continue;
        first = status;
        mst_error_save(message);
    }
    return first == MUSTER_OK ? MUSTER_OK : mst_error_restore(first, message);
}

static muster_status client_end_run(muster_worker *worker, mst_exit_hook *hook) {
    (void)worker;
    muster_client *client = (muster_client *)((char *)hook - offsetof(muster_client, end_of_run));
    atomic_exchange(&client->inside, 1);
    const muster_status status = client_end_requests(client);
    mst_client_leave(client);
    return status;
}

static void client_join_run(muster_client *client) {
    client->epoch = client->worker->epoch;
    client->end_of_run.run = client_end_run;
    mst_worker_add_exit_hook(client->worker, &client->end_of_run);
}

muster_status muster_worker_client(muster_worker *worker, muster_server *server, muster_client **client) {
    static const char where[] = "muster_worker_client";
    if (!client) return mst_error_null(where, "client", "the address of a pointer");
    *client = NULL;
    if (!worker) return mst_error_null(where, "worker", "the worker of the running function");
    if (!server) return mst_error_null(where, "server", "a server");
    if (!server->runtime->pool) return mst_server_refuse_destroyed(server, where);
    if (worker->pool != server->runtime->pool)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: server: expected a server of the worker's runtime, received '%.200s' of another runtime", where,
                         server->name);
    muster_client *found = &server->workers[worker->rank];
    MUSTER_TRY(client_enter(found, where, false));
    mst_client_leave(found);
    *client = found;
    return MUSTER_OK;
}

/* ---- a host thread's ---- */

static muster_status client_link(muster_client *client, const char *where) {
    muster_server *server = client->server;
    if (atomic_load(&server->life) != MST_SERVER_OPEN) return mst_server_refuse_destroyed(server, where);
    client->next = server->clients;
    if (client->next) client->next->previous = client;
    server->clients = client;
    atomic_fetch_add(&server->references, 1);
    client->first_shard = atomic_fetch_add(&server->client_count, 1) % server->shards;
    return MUSTER_OK;
}

static void client_unlink(muster_client *client) {
    muster_server *server = client->server;
    if (client->previous)
        client->previous->next = client->next;
    else
        server->clients = client->next;
    if (client->next) client->next->previous = client->previous;
    atomic_fetch_sub(&server->client_count, 1);
    atomic_fetch_add(&server->closed.sends, atomic_load(&client->counts.sends));
    atomic_fetch_add(&server->closed.receives, atomic_load(&client->counts.receives));
    atomic_fetch_add(&server->closed.bytes, atomic_load(&client->counts.bytes));
}

muster_status muster_client_open(muster_server *server, muster_client **client) {
    static const char where[] = "muster_client_open";
    if (!client) return mst_error_null(where, "client", "the address of a pointer");
    *client = NULL;
    if (!server) return mst_error_null(where, "server", "a server");
    if (mst_server_is_from_before_fork(server)) return mst_server_refuse_child(where);
    muster_client *opened = mst_alloc(sizeof *opened);
    if (!opened) return mst_out_of_memory(where, sizeof *opened);
    opened->server = server;
    pthread_mutex_lock(&server->lock);
    const muster_status status = client_link(opened, where);
    pthread_mutex_unlock(&server->lock);
    if (status == MUSTER_OK)
        *client = opened;
    else
        mst_free(opened);
    return status;
}

void mst_client_free(muster_client *client) {
    while (client->made) {
        muster_request *next = client->made->next_made;
        mst_free(client->made->copy);
        client->made->live = false;
        mst_retire(client->made);
        client->made = next;
    }
    client->free = NULL;
    client->worker = NULL;
    client->server = NULL;
}

static muster_status client_finish_requests(muster_client *client, const char *where) {
    for (muster_request *request = client->made; request; request = request->next_made) {
        muster_status status;
        if (request->live && !mst_request_finish(request, where, false, &status)) return status;
    }
    return MUSTER_OK;
}

muster_status muster_client_close(muster_client *client) {
    static const char where[] = "muster_client_close";
    if (!client) return MUSTER_OK;
    if (!client->server) return mst_client_refuse_closed(where);
    muster_server *server = client->server;
    if (client->worker)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: client: expected a client of muster_client_open, received the client of rank %" PRId32, where,
                         client_rank(client));
    MUSTER_TRY(client_enter(client, where, true));
    const muster_status status = client_finish_requests(client, where);
    mst_client_leave(client);
    MUSTER_TRY(status);
    pthread_mutex_lock(&server->lock);
    client_unlink(client);
    pthread_mutex_unlock(&server->lock);
    mst_client_free(client);
    mst_retire(client);
    mst_server_drop(server);
    return MUSTER_OK;
}

void mst_client_hold(muster_client *client) { atomic_fetch_add(&client->server->references, 1); }
void mst_client_release(muster_client *client) { mst_server_drop(client->server); }
void mst_client_leave_wait(muster_client *client) { mst_client_leave(client); }
