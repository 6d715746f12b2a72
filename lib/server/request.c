/* Requests: applied at once at the shards that are free, queued at the others. Waiting for them,
 * and asking whether they are done. */
#include "server_private.h"

#include <inttypes.h>
#include <string.h>

/* Polls of a shard that has a combiner, before the request is queued: SPIN_POLLS, and one more for
 * each SPIN_BYTES of the shard. That is a small part of the time that the operation takes by
 * itself. */
enum { SPIN_POLLS = 100, SPIN_BYTES = 4096, AHEAD_LINES = 4 };

/* ---- memory: a client keeps what it has needed ---- */

muster_request *mst_request_take(muster_client *client) {
    muster_request *request = client->free;
    if (request) {
        client->free = request->next_free;
    } else {
        const size_t bytes = sizeof *request + (size_t)client->server->shards * sizeof *request->nodes;
        request = mst_alloc(bytes);
        if (!request) return NULL;
        request->client = client;
        for (int32_t s = 0; s < client->server->shards; s++) request->nodes[s].request = request;
        request->next_made = client->made;
        client->made = request;
    }
    request->live = true;
    request->begun = request->waiting = request->left = request->drains = false;
    request->slot = NULL;
    request->target = MST_REQUEST_UNWATCHED + (uint64_t)client->server->shards;
    request->completion = (mst_completion){0};
    atomic_store_explicit(&request->done, MST_REQUEST_UNWATCHED, memory_order_relaxed);
    atomic_store_explicit(&request->status, MUSTER_OK, memory_order_relaxed);
    atomic_store_explicit(&request->failing, false, memory_order_relaxed);
    atomic_store_explicit(&request->leaving, false, memory_order_relaxed);
    return request;
}

void mst_request_give(muster_request *request) {
    if (request->left) return;
    if (request->slot) mst_stage_detach(request);
    request->live = false;
    request->next_free = request->client->free;
    request->client->free = request;
}

muster_status mst_request_reserve_copy(muster_request *request, const char *where, int64_t bytes) {
    if (request->copy_bytes >= bytes) return MUSTER_OK;
    char *copy = mst_alloc_uninitialised((size_t)bytes);
    if (!copy) return mst_out_of_memory(where, bytes);
    mst_free(request->copy);
    request->copy = copy;
    request->copy_bytes = bytes;
    return MUSTER_OK;
}

/* ---- the end ---- */

void mst_request_fail(muster_request *request, muster_status status) {
    if (atomic_exchange(&request->failing, true)) return;
    mst_error_save(request->message);
    atomic_store(&request->status, status);
}

static void request_count_shared(mst_counts *counts, bool send, int64_t bytes) {
    atomic_fetch_add_explicit(send ? &counts->sends : &counts->receives, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->bytes, bytes, memory_order_relaxed);
}

/* The same for counts that no other thread writes. */
static void request_count_private(mst_counts *counts, bool send, int64_t bytes) {
    _Atomic int64_t *number = send ? &counts->sends : &counts->receives;
    atomic_store_explicit(number, atomic_load_explicit(number, memory_order_relaxed) + 1, memory_order_relaxed);
    atomic_store_explicit(&counts->bytes, atomic_load_explicit(&counts->bytes, memory_order_relaxed) + bytes, memory_order_relaxed);
}

static int64_t request_bytes(const muster_request *request) { return request->operation.value->bytes; }

/* The rules of a server hold: a combiner may be the thread that tells. */
static void request_report(const muster_server *server, mst_completion completion) {
    const muster_server *outer = mst_server_in_rule;
    mst_server_in_rule = server;
    mst_completion_call(completion);
    mst_server_in_rule = outer;
}

/* After the last shard is counted the owner may free the request and the client: nothing of them is
 * touched. */
void mst_request_add_done(muster_request *request, uint64_t shards) {
    muster_server *server = request->client->server;
    const bool send = request->operation.rule != NULL, good = atomic_load(&request->status) == MUSTER_OK;
    const bool device = request->slot != NULL; /* the copy to the device may be due now */
    const uint64_t target = request->target;
    const int64_t bytes = request_bytes(request);
    mst_completion completion = {0};
    const uint64_t done = atomic_fetch_add(&request->done, shards) + shards;
    if (done + MST_REQUEST_UNWATCHED == target) {
        completion = request->completion;
        atomic_fetch_add(&request->done, MST_REQUEST_UNWATCHED);
    } else if (done < target) {
        if (device) mst_eventcount_notify(&server->eventcount);
        return;
    }
    if (good) request_count_shared(&server->others, send, bytes);
    atomic_fetch_sub(&server->begun, 1);
    mst_eventcount_notify(&server->eventcount);
    if (completion.function) request_report(server, completion);
}

bool mst_request_watch(muster_request *request, mst_completion completion) {
    request->completion = completion;
    if (atomic_fetch_sub(&request->done, MST_REQUEST_UNWATCHED) < request->target) return true;
    atomic_fetch_add(&request->done, MST_REQUEST_UNWATCHED); /* it had ended: only its owner touches it */
    return false;
}

muster_status mst_request_end(muster_request **request, const char *where) {
    muster_status status;
    if (!*request) return MUSTER_OK;
    mst_request_finish(*request, where, true, &status);
    mst_request_give(*request);
    *request = NULL;
    return status;
}

/* ---- the beginning ---- */

static void request_enqueue(muster_request *request, mst_shard *shard, mst_node *node, const char *from) {
    char *memory = request->operation.memory;
    if (!request->begun) mst_request_count_begun(request);
    if (memory != from && memory) {
        memcpy(memory + shard->offset, from + shard->offset, (size_t)shard->bytes);
    }
    mst_shard_queue(shard, node);
}

void mst_request_count_begun(muster_request *request) {
    request->begun = true;
    atomic_fetch_add(&request->client->server->begun, 1);
}

/* The combiner often is about to leave: clients that began together are done with one shard each at
 * nearly the same time. To wait for that costs less than the queue, from which another core might
 * apply an operation whose data is in this core's cache. */
static bool request_spin_for_shard(const muster_server *server, mst_shard *shard) {
    if (mst_server_oversubscribed(server)) return false;
    const int64_t polls = SPIN_POLLS + shard->bytes / SPIN_BYTES;
    for (int64_t poll = 0; poll < polls; poll++) {
        const uint32_t state = atomic_load_explicit(&shard->state, memory_order_relaxed);
        if (state == 0 && mst_shard_try(shard)) return true;
        if (state & MST_SHARD_QUEUED) return false;
        mst_pause();
    }
    return false;
}

/* The first lines of the shard come from the other core's cache while the line of its state does.
 * Without the prefetch they would come after the compare-and-swap. */
static inline void request_prefetch(const mst_shard *shard, bool writes) {
    for (int32_t line = 0; line < AHEAD_LINES; line++) {
        if (writes)
            __builtin_prefetch(shard->memory + line * MST_CACHE_LINE, 1);
        else
            __builtin_prefetch(shard->memory + line * MST_CACHE_LINE, 0);
    }
}

static int32_t shard_after(int32_t shard, int32_t shards) { return shard + 1 == shards ? 0 : shard + 1; }
static int32_t shard_before(int32_t shard, int32_t shards) { return shard == 0 ? shards - 1 : shard - 1; }

void mst_request_begin(muster_request *request, const char *from, bool lazily) {
    muster_client *client = request->client;
    muster_server *server = client->server;
    mst_operation direct = request->operation;
    direct.memory = (char *)from;
    uint64_t served = 0;
    /* The direction alternates: the shards that the operation before has touched last are still in
     * this core's cache. */
    const bool backwards = client->backwards;
    client->backwards = !backwards;
    int32_t at = backwards ? shard_before(client->first_shard, server->shards) : client->first_shard;
    for (int32_t i = 0; i < server->shards; i++, at = backwards ? shard_before(at, server->shards) : shard_after(at, server->shards)) {
        mst_shard *shard = &direct.value->shards[at];
        request_prefetch(shard, direct.rule != NULL);
        if (shard->count == 0) {
            served++;
        } else if (!lazily && (mst_shard_try(shard) || request_spin_for_shard(server, shard))) {
            const muster_status status = mst_shard_serve(shard, &direct);
            mst_shard_leave(server, shard);
            if (__builtin_expect(status != MUSTER_OK, 0)) mst_request_fail(request, status);
            served++;
        } else {
            request_enqueue(request, shard, &request->nodes[at], from);
            if (!lazily) mst_shard_combine(server, shard, &request->nodes[at]); /* unless there is a combiner by now */
        }
    }
    if (request->begun) {
        if (served) mst_request_add_done(request, served);
        if (lazily) mst_eventcount_notify(&server->eventcount);
    } else {
        if (atomic_load_explicit(&request->status, memory_order_relaxed) == MUSTER_OK)
            request_count_private(&client->counts, direct.rule != NULL, request_bytes(request));
        atomic_store_explicit(&request->done, request->target, memory_order_relaxed);
    }
}

/* ---- what programs call ---- */

muster_status mst_request_enter(muster_request **request, const char *where) {
    if (!request) return mst_error_null(where, "request", "the address of a pointer");
    if (!*request) return MUSTER_OK;
    muster_client *client = (*request)->client;
    MUSTER_TRY(mst_client_enter_wait(client, where));
    if (__builtin_expect((*request)->live, 1)) return MUSTER_OK;
    mst_client_leave(client);
    return mst_error(MUSTER_BAD_STATE, "%s: request: expected a pending request, received a copy of one that has ended", where);
}

static muster_status request_wait_entered(muster_request **request, const char *where) {
    muster_client *client = (*request)->client;
    muster_worker *worker = client->worker;
    uint64_t event = 0;
    if (worker) event = mst_record_begin(&worker->recorder, MST_EVENT_SERVER, "server_wait", ++client->sequence, request_bytes(*request));
    muster_status status;
    const bool ended = mst_request_finish(*request, where, false, &status);
    if (worker) mst_record_end(&worker->recorder, event);
    if (ended) {
        mst_request_give(*request);
        *request = NULL;
    }
    return status;
}

muster_status muster_request_wait(muster_request **request) {
    static const char where[] = "muster_request_wait";
    MUSTER_TRY(mst_request_enter(request, where));
    if (!*request) return MUSTER_OK;
    muster_client *client = (*request)->client;
    muster_status status = request_wait_entered(request, where);
    mst_client_leave(client);
    return status;
}

muster_status muster_request_test(muster_request **request, int32_t *done) {
    static const char where[] = "muster_request_test";
    if (!done) return mst_error_null(where, "done", "the address of a number");
    *done = 0;
    MUSTER_TRY(mst_request_enter(request, where));
    if (!*request) {
        *done = 1;
        return MUSTER_OK;
    }
    muster_client *client = (*request)->client;
    muster_status status = MUSTER_OK;
    if (client->staging) mst_stage_advance(client, *request);
    if (client->server->progress_count == 0) mst_request_progress(*request);
    if (client->staging) mst_stage_advance(client, *request);
    if (mst_request_finished(*request)) {
        mst_request_finish(*request, where, false, &status);
        mst_request_give(*request);
        *request = NULL;
        *done = 1;
    }
    mst_client_leave(client);
    return status;
}

muster_status muster_requests_wait_all(muster_request **requests, int32_t count) {
    static const char where[] = "muster_requests_wait_all";
    char message[MST_MESSAGE_SIZE];
    muster_status first = MUSTER_OK;
    if (count < 0) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: count: expected 0 or more, received %" PRId32, where, count);
    if (count > 0 && !requests)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: requests: expected %" PRId32 ", received NULL", where, count);
    for (int32_t i = 0; i < count; i++) {
        muster_status status = mst_request_enter(&requests[i], where);
        if (status == MUSTER_OK && requests[i]) {
            muster_client *client = requests[i]->client;
            status = request_wait_entered(&requests[i], where);
            mst_client_leave(client);
        }
        if (status == MUSTER_OK || first != MUSTER_OK) continue;
        first = status;
        mst_error_save(message);
    }
    return first == MUSTER_OK ? MUSTER_OK : mst_error_restore(first, message);
}
