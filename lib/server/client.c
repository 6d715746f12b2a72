/* Clients: who may use one, and what its operations are checked for. */
#include "server_private.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

/* ---- who is inside ---- */

static muster_status client_refuse(muster_client *client, muster_status status) {
    mst_client_leave(client);
    return status;
}

/* Has the client's requests ended when the body of this run returns. */
static void client_join_run(muster_client *client);

static muster_status client_check_worker(muster_client *client, const char *where) {
    muster_worker *worker = client->worker;
    if (mst_current_worker() != worker)
        return mst_error(MUSTER_BAD_STATE, "%s: client: expected the client of the worker that calls, received that of rank %" PRId32,
                         where, worker->rank);
    if (client->epoch != worker->epoch) client_join_run(client);
    return MUSTER_OK;
}

static muster_status client_refuse_closed(const char *where) {
    return mst_error(MUSTER_BAD_STATE, "%s: client: expected an open one, received one that has been closed", where);
}

static muster_status client_enter(muster_client *client, const char *where, bool wait) {
    if (!client) return mst_error_null(where, "client", "a client");
    const muster_server *server = client->server;
    if (__builtin_expect(!server, 0)) return client_refuse_closed(where);
    if (__builtin_expect(mst_server_in_rule != NULL, 0)) return mst_server_refuse_in_rule(where);
    if (__builtin_expect(mst_server_is_from_before_fork(server), 0)) return mst_server_refuse_child(where);
    if (__builtin_expect(atomic_exchange(&client->inside, 1) != 0, 0))
        return mst_error(MUSTER_BAD_STATE, "%s: client: another thread is using it", where);
    if (client->worker) {
        const muster_status status = client_check_worker(client, where);
        if (__builtin_expect(status != MUSTER_OK, 0)) return client_refuse(client, status);
    }
    if (__builtin_expect(!wait && atomic_load(&((muster_server *)server)->life) != MST_SERVER_OPEN, 0))
        return client_refuse(client, mst_server_refuse_destroyed(server, where));
    return MUSTER_OK;
}

muster_status mst_client_enter(muster_client *client, const char *where) { return client_enter(client, where, false); }
muster_status mst_client_enter_wait(muster_client *client, const char *where) { return client_enter(client, where, true); }

/* ---- a worker's ---- */

/* Requests that the body has left unfinished may use memory that is freed with the run. */
static muster_status client_end_requests(muster_client *client) {
    muster_status first = MUSTER_OK;
    char message[MST_MESSAGE_SIZE];
    for (muster_request *request = client->made; request; request = request->next_made) {
        if (!request->live || mst_request_finished(request)) continue;
        muster_status status;
        mst_request_finish(request, "muster_worker_client", true, &status);
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
    if (!client->server) return client_refuse_closed(where);
    muster_server *server = client->server;
    if (client->worker)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: client: expected a client of muster_client_open, received the client of rank %" PRId32, where,
                         client->worker->rank);
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

/* ---- operations ---- */

typedef struct submission {
    const char *where, *event;
    int32_t index;
    const mst_rule *rule; /* NULL: receive */
    double scale;
    const muster_tensor *tensor;
    int32_t flags;
} submission;

static bool client_surely_fits(const mst_value *value, const muster_tensor *tensor) {
    return tensor->dtype == value->dtype && tensor->ndim == 1 && tensor->shape[0] == value->elements && tensor->strides[0] == 1 &&
           tensor->data && tensor->byte_offset >= 0 && (tensor->reserved0 | tensor->reserved[1]) == 0 &&
           (((uintptr_t)tensor->data + (uintptr_t)tensor->byte_offset) & value->misaligned) == 0;
}

static muster_status client_check_fit(const submission *o, const mst_value *value) {
    const muster_tensor *tensor = o->tensor;
    if (__builtin_expect(client_surely_fits(value, tensor), 1)) return MUSTER_OK;
    MUSTER_TRY(mst_tensor_check(*tensor, o->where, "tensor"));
    if (tensor->dtype != value->dtype)
        return mst_error(MUSTER_DTYPE_MISMATCH, "%s: tensor: expected %s as in value %" PRId32 ", received %s", o->where,
                         muster_dtype_name(value->dtype), o->index, muster_dtype_name(tensor->dtype));
    if (muster_tensor_count(*tensor) != value->elements)
        return mst_error(MUSTER_SHAPE_MISMATCH, "%s: tensor: expected %" PRId64 " elements as in value %" PRId32 ", received %" PRId64,
                         o->where, value->elements, o->index, muster_tensor_count(*tensor));
    if (!mst_tensor_contiguous(*tensor))
        return mst_error(MUSTER_UNSUPPORTED, "%s: tensor: expected contiguous elements, received strided ones", o->where);
    return MUSTER_OK;
}

static muster_status client_check_device(const submission *o, const muster_client *client) {
    const muster_worker *worker = client->worker;
    const int32_t device = o->tensor->device;
    if (device == MUSTER_DEVICE_HOST || (worker && device == worker->rank)) return MUSTER_OK;
    if (worker)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: tensor: expected host memory or that of rank %" PRId32 ", received device %" PRId32,
                         o->where, worker->rank, device);
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: tensor: expected host memory, received device %" PRId32, o->where, device);
}

/* Reserves memory for the copy before anything else changes. */
static muster_status client_reserve_copy(muster_request *request, const char *where, int64_t bytes) {
    if (request->copy_bytes >= bytes) return MUSTER_OK;
    char *copy = mst_alloc_uninitialised((size_t)bytes);
    if (!copy) return mst_out_of_memory(where, bytes);
    mst_free(request->copy);
    request->copy = copy;
    request->copy_bytes = bytes;
    return MUSTER_OK;
}

static muster_status client_prepare(muster_client *client, const submission *o, muster_request **request, char **from) {
    const mst_value *value = &client->server->values[o->index];
    const bool zero = o->rule && o->rule->number == MUSTER_RULE_ZERO;
    muster_worker *worker = client->worker;
    if (!zero) {
        MUSTER_TRY(client_check_fit(o, value));
        MUSTER_TRY(client_check_device(o, client));
    }
    const bool staged = !zero && o->tensor->device != MUSTER_DEVICE_HOST && !mst_device_is_host(worker->device);
    if (worker && worker->device->queued) MUSTER_TRY(mst_worker_sync(worker));
    muster_request *taken = mst_request_take(client);
    if (!taken) return mst_out_of_memory(o->where, sizeof *taken);
    *from = zero ? NULL : muster_tensor_address(*o->tensor);
    taken->operation = (mst_operation){.value = value, .rule = o->rule, .scale = o->scale, .memory = *from};
    muster_status status = MUSTER_OK;
    if (staged) {
        status = mst_stage_attach(taken, o->where, *from);
        *from = taken->operation.memory;
    } else if (o->flags & MUSTER_SEND_COPY && !zero) {
        status = client_reserve_copy(taken, o->where, value->bytes);
        taken->operation.memory = taken->copy;
    }
    if (status == MUSTER_OK)
        *request = taken;
    else
        mst_request_give(taken);
    return status;
}

/* An operation that was completed within the call needs no handle. If it failed, the wait reports
 * that. */
static muster_status client_conclude(muster_request *made, const submission *o, muster_request **request) {
    muster_status status = MUSTER_OK;
    if (__builtin_expect(mst_request_finished(made) && atomic_load_explicit(&made->status, memory_order_relaxed) == MUSTER_OK, 1)) {
        mst_request_give(made);
        return MUSTER_OK;
    }
    if (request && (!mst_request_finished(made) || atomic_load_explicit(&made->status, memory_order_relaxed) != MUSTER_OK)) {
        *request = made;
        return MUSTER_OK;
    }
    mst_request_finish(made, o->where, true, &status);
    mst_request_give(made);
    return status;
}

static muster_status client_submit_inside(muster_client *client, const submission *o, muster_request **request) {
    muster_request *made;
    muster_worker *worker = client->worker;
    char *from;
    uint64_t event = 0;
    MUSTER_TRY(client_prepare(client, o, &made, &from));
    if (worker) event = mst_record_begin(&worker->recorder, MST_EVENT_SERVER, o->event, ++client->sequence, made->operation.value->bytes);
    const bool lazily = request && client->server->progress_count > 0 && !(o->flags & MUSTER_SEND_COPY);
    if (client->staging)
        mst_stage_begin(made, from, lazily);
    else
        mst_request_begin(made, from, lazily);
    const muster_status status = client_conclude(made, o, request);
    if (worker) mst_record_end(&worker->recorder, event);
    return status;
}

static muster_status client_submit(muster_client *client, const submission *o, muster_request **request) {
    if (request) *request = NULL;
    MUSTER_TRY(client_enter(client, o->where, false));
    muster_status status;
    if (o->index < 0 || o->index >= client->server->count)
        status = mst_error(MUSTER_OUT_OF_RANGE, "%s: index: expected 0 to %" PRId32 ", received %" PRId32, o->where,
                           client->server->count - 1, o->index);
    else
        status = client_submit_inside(client, o, request);
    mst_client_leave(client);
    return status;
}

static muster_status client_find_rule(const muster_client *client, const char *where, int32_t index, muster_rule number,
                                      const mst_rule **rule) {
    const muster_server *server = client->server;
    *rule = mst_rule_find(server, number);
    if (!*rule)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: rule: expected a rule of server '%.200s', received %" PRId32, where, server->name,
                         number);
    if (number == MUSTER_RULE_ADD_SCALED && index >= 0 && index < server->count && !mst_dtype_is_float(server->values[index].dtype))
        return mst_error(MUSTER_UNSUPPORTED,
                         "%s: rule: expected a rule for %s, the elements of value %" PRId32 ", received MUSTER_RULE_ADD_SCALED", where,
                         muster_dtype_name(server->values[index].dtype), index);
    return MUSTER_OK;
}

muster_status muster_client_send(muster_client *client, int32_t index, muster_rule rule, double scale, muster_tensor tensor, int32_t flags,
                                 muster_request **request) {
    submission o = {
        .where = "muster_client_send", .event = "server_send", .index = index, .scale = scale, .tensor = &tensor, .flags = flags};
    if (request) *request = NULL;
    if (!client) return mst_error_null(o.where, "client", "a client");
    if (__builtin_expect(!client->server, 0)) return client_refuse_closed(o.where);
    if (flags & ~MUSTER_SEND_COPY)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: flags: expected 0 or MUSTER_SEND_COPY, received %" PRId32, o.where, flags);
    MUSTER_TRY(client_find_rule(client, o.where, index, rule, &o.rule));
    if (rule == MUSTER_RULE_ADD_SCALED && !isfinite(scale))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: scale: expected a finite number, received %g", o.where, scale);
    return client_submit(client, &o, request);
}

muster_status muster_client_receive(muster_client *client, int32_t index, muster_tensor tensor, muster_request **request) {
    const submission o = {.where = "muster_client_receive", .event = "server_receive", .index = index, .tensor = &tensor};
    return client_submit(client, &o, request);
}
