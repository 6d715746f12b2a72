/* Creating a server inside a body: all workers of the call create it together, and each brings its
 * tensors. Rank 0 makes the server and tells the others where it is. A server that fails to become
 * one afterwards stays in the runtime's list until no body can use it. */
#include "communicator_impl.h"
#include "create_private.h"

#include <inttypes.h>

static const char create_name[] = "muster_worker_create_server";

static muster_status creation_check_worker(const muster_worker *worker, const muster_runtime *runtime) {
    if (!worker) return mst_error_null(create_name, "worker", "the worker of the running function");
    if (!runtime) return mst_error_null(create_name, "runtime", "a runtime");
    if (worker != mst_current_worker())
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: worker: expected the worker of the running function, received that of another thread", create_name);
    if (worker->pool != runtime->pool)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: runtime: expected the worker's runtime, received another one", create_name);
    MUSTER_TRY(mst_runtime_refuse_nodes(runtime, create_name, "parameter server"));
    if (worker->size == runtime->size) return MUSTER_OK;
    return mst_error(MUSTER_BAD_STATE, "%s: worker: expected a call on all %" PRId32 " devices, received a single call", create_name,
                     runtime->size);
}

/* ---- rank 0 ---- */

static muster_status creation_fill_and_list(mst_creation *c) {
    MUSTER_TRY(mst_creation_build(c));
    if (c->options.fill) MUSTER_TRY(mst_initial_function(c->server, c->where, &c->options));
    MUSTER_TRY(mst_progress_start(c->server, c->where, mst_creation_progress_threads(c)));
    return mst_server_enlist(c->list, c->server, c->where);
}

/* No other worker knows the server yet. */
static muster_status creation_lead(mst_creation *c) {
    char message[MST_MESSAGE_SIZE];
    MUSTER_TRY(mst_server_list_get(c->runtime, c->where, &c->list));
    const muster_status status = creation_fill_and_list(c);
    if (status == MUSTER_OK) return MUSTER_OK;
    mst_error_save(message);
    if (c->server) mst_server_dismantle(c->server);
    return mst_error_restore(status, message);
}

/* ---- every rank ---- */

static muster_status creation_learn_server(mst_creation *c) {
    int64_t address = (int64_t)(intptr_t)c->server;
    muster_tensor place;
    MUSTER_TRY(muster_worker_scratch(c->worker, MUSTER_I64, 0, NULL, &place));
    const muster_tensor host = muster_i64(&address);
    if (c->worker->rank == 0) MUSTER_TRY(muster_worker_write(c->worker, host, place));
    MUSTER_TRY(muster_worker_broadcast(c->worker, NULL, 0, place, place));
    MUSTER_TRY(muster_worker_read(c->worker, place, host));
    c->server = (muster_server *)(intptr_t)address;
    return MUSTER_OK;
}

static muster_status creation_compare(const mst_creation *c) {
    const muster_server *server = c->server;
    if (c->count != server->count)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: values: expected %" PRId32 " as on rank 0, received %" PRId32, c->where,
                         server->count, c->count);
    for (int32_t i = 0; i < c->count; i++) {
        const mst_value *value = &server->values[i];
        if (c->tensors[i].dtype != value->dtype)
            return mst_error(MUSTER_DTYPE_MISMATCH, "%s: values[%" PRId32 "]: expected %s as on rank 0, received %s", c->where, i,
                             muster_dtype_name(value->dtype), muster_dtype_name(c->tensors[i].dtype));
        if (muster_tensor_count(c->tensors[i]) != value->elements)
            return mst_error(MUSTER_SHAPE_MISMATCH,
                             "%s: values[%" PRId32 "]: expected %" PRId64 " elements as on rank 0, received %" PRId64, c->where, i,
                             value->elements, muster_tensor_count(c->tensors[i]));
    }
    return MUSTER_OK;
}

static muster_status creation_join(mst_creation *c) {
    MUSTER_TRY(creation_compare(c));
    MUSTER_TRY(mst_client_staging_open(&c->server->workers[c->worker->rank], c->where, true));
    if (!c->options.fill) MUSTER_TRY(mst_initial_of_worker(c->server, c->worker, c->tensors, c->options.initial == MUSTER_INITIAL_OWN));
    return muster_worker_barrier(c->worker, NULL);
}

static muster_status creation_together(mst_creation *c, const muster_tensor *values, muster_server **server) {
    MUSTER_TRY(creation_check_worker(c->worker, c->runtime));
    MUSTER_TRY(mst_creation_check(c, "values", values));
    if (c->worker->rank == 0) MUSTER_TRY(creation_lead(c));
    muster_status status = creation_learn_server(c);
    if (status == MUSTER_OK) status = creation_join(c);
    if (status == MUSTER_OK)
        *server = c->server;
    else if (c->server)
        mst_server_abandon(c->server);
    return status;
}

muster_status muster_worker_create_server(muster_worker *worker, muster_runtime *runtime, const char *name, const muster_tensor *values,
                                          int32_t count, const muster_server_options *options, muster_server **server) {
    mst_creation c = {.where = create_name, .runtime = runtime, .worker = worker, .name = name, .tensors = values, .count = count};
    muster_status status = mst_creation_begin(&c, options, server);
    if (status == MUSTER_OK) status = creation_together(&c, values, server);
    return mst_creation_end(&c, status);
}
