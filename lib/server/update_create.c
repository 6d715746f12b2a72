/* Making and ending drivers, and their options. */
#include "options_impl.h"
#include "update_impl.h"

#include "communicator_impl.h"
#include "runtime_impl.h"
#include "server_impl.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void muster_update_options_init(muster_update_options *options) {
    if (options)
        *options = (muster_update_options){
            .struct_size = sizeof *options, .update_frequency = 25, .init_delay = 100, .send_frequency = 1, .beta = 0.9};
}

static muster_status read_options(const char *where, const muster_update_options *given, muster_update_options *options) {
    muster_update_options_init(options);
    return mst_options_read(where, "muster_update_options_init", given, options, sizeof *options);
}

static muster_status refuse_below(const char *where, const char *what, int64_t value, int64_t least) {
    if (value >= least) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: %s: expected %" PRId64 " or more, received %" PRId64, where, what, least,
                     value);
}

static muster_status check_options(const char *where, const muster_update_options *options) {
    MUSTER_TRY(refuse_below(where, "update_frequency", options->update_frequency, 1));
    MUSTER_TRY(refuse_below(where, "init_delay", options->init_delay, 0));
    MUSTER_TRY(refuse_below(where, "prefetch", options->prefetch, 0));
    MUSTER_TRY(refuse_below(where, "send_frequency", options->send_frequency, 1));
    MUSTER_TRY(refuse_below(where, "integrating", options->integrating, 0));
    if (options->prefetch > options->update_frequency)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: options: prefetch: expected at most update_frequency, %" PRId64 ", received %" PRId64, where,
                         options->update_frequency, options->prefetch);
    if (!isfinite(options->beta) || options->beta < 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: beta: expected a finite number that is not negative, received %g", where,
                         options->beta);
    return MUSTER_OK;
}

static muster_status check_worker(const char *where, const muster_worker *worker) {
    if (worker && worker == mst_current_worker()) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: worker: expected the worker of the running function, received %s", where,
                     worker ? "another" : "NULL");
}

/* ---- memory ---- */

static void free_value(muster_update *update, mst_update_value *value) {
    for (int i = 1; i >= 0; i--) {
        update->device->table->release(update->device, value->outgoing[i]);
        mst_free(value->fetched[i]);
    }
}

/* Nothing is under way. */
static void free_update(muster_update *update) {
    for (int32_t i = update->values ? update->count - 1 : -1; i >= 0; i--) free_value(update, &update->values[i]);
    mst_free(update->values);
    update->device->table->release(update->device, update->flag);
    if (update->client) mst_client_release(update->client);
    mst_free(update);
}

static muster_status make_value(muster_update *update, muster_worker *worker, mst_update_value *value) {
    const int64_t bytes = value->elements * muster_dtype_size(value->dtype);
    const int32_t fetches = update->options.prefetch == update->options.update_frequency ? 2 : 1;
    for (int32_t i = 0; i < fetches; i++) {
        value->fetched[i] = mst_alloc((size_t)bytes);
        if (!value->fetched[i]) return mst_out_of_memory(update->kind->create, bytes);
    }
    for (int32_t i = 0; i < update->kind->copies; i++) MUSTER_TRY(mst_worker_allocate(worker, bytes, &value->outgoing[i]));
    value->fresh = true;
    return MUSTER_OK;
}

static muster_status make_values(muster_update *update, muster_worker *worker, const muster_server *server) {
    const int64_t bytes = update->count * (int64_t)sizeof *update->values;
    update->values = mst_alloc((size_t)bytes);
    if (!update->values) return mst_out_of_memory(update->kind->create, bytes);
    for (int32_t i = 0; i < update->count; i++) {
        mst_update_value *value = &update->values[i];
        value->dtype = server->values[i].dtype;
        value->elements = server->values[i].elements;
        MUSTER_TRY(make_value(update, worker, value));
    }
    return MUSTER_OK;
}

static muster_status check_values(const mst_update_kind *kind, const muster_server *server) {
    for (int32_t i = 0; kind->floats_only && i < server->count; i++) {
        const muster_dtype dtype = server->values[i].dtype;
        if (!mst_dtype_is_float(dtype))
            return mst_error(MUSTER_UNSUPPORTED, "%s: server: expected float values, received %s as value %" PRId32, kind->create,
                             muster_dtype_name(dtype), i);
    }
    return MUSTER_OK;
}

/* ---- groups ---- */

static muster_status find_root(muster_update *update, const muster_worker *worker) {
    const muster_communicator *group = update->options.group;
    const int32_t rank = group ? muster_communicator_rank(group, worker) : 0;
    update->root = rank == 0;
    if (rank >= 0) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: group: expected one that this worker is a member of", update->kind->create);
}

/* The last thing of a creation: whoever waits in it for a worker whose creation has failed is told
 * when the body of that one returns. */
static muster_status count_integrating(muster_update *update, muster_worker *worker) {
    int32_t groups = muster_worker_size(worker);
    if (update->options.integrating > 0) {
        groups = update->options.integrating;
    } else if (update->options.group) {
        muster_tensor host = muster_i32(&groups), flag = muster_i32(update->flag);
        groups = update->root;
        flag.device = worker->rank;
        MUSTER_TRY(muster_worker_write(worker, host, flag));
        MUSTER_TRY(muster_worker_all_reduce(worker, NULL, MUSTER_SUM, flag, flag));
        MUSTER_TRY(muster_worker_read(worker, flag, host));
    }
    update->alpha = update->options.beta / groups;
    return MUSTER_OK;
}

/* ---- create and destroy ---- */

static const char destroy_name[] = "muster_update_destroy";

static int64_t later(int64_t step, int64_t by) {
    int64_t sum;
    return __builtin_add_overflow(step, by, &sum) ? INT64_MAX : sum;
}

static muster_status fill_update(muster_update *update, muster_worker *worker, muster_server *server) {
    MUSTER_TRY(find_root(update, worker));
    MUSTER_TRY(check_values(update->kind, server));
    if (update->root) {
        MUSTER_TRY(muster_worker_client(worker, server, &update->client));
        mst_client_hold(update->client);
        MUSTER_TRY(make_values(update, worker, server));
    }
    if (update->options.group) MUSTER_TRY(mst_worker_allocate(worker, sizeof(int32_t), &update->flag));
    return update->kind->floats_only ? count_integrating(update, worker) : MUSTER_OK;
}

muster_status mst_update_make(const mst_update_kind *kind, muster_worker *worker, muster_server *server, const muster_update_options *given,
                              muster_update **update) {
    muster_update_options options;
    if (!update) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: update: expected the address of a pointer, received NULL", kind->create);
    *update = NULL;
    MUSTER_TRY(check_worker(kind->create, worker));
    if (!server) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: server: expected a server, received NULL", kind->create);
    MUSTER_TRY(read_options(kind->create, given, &options));
    MUSTER_TRY(check_options(kind->create, &options));
    muster_update *made = mst_alloc(sizeof *made);
    if (!made) return mst_out_of_memory(kind->create, sizeof *made);
    made->kind = kind;
    made->options = options;
    made->pool = worker->pool;
    made->device = worker->device;
    made->rank = worker->rank;
    made->count = muster_server_count(server);
    made->step = made->sent_at = -1;
    made->integrate_at = later(options.init_delay, options.update_frequency);
    made->send_at = kind->sends_integrations ? INT64_MAX : later(options.init_delay, options.send_frequency);
    const muster_status status = fill_update(made, worker, server);
    if (status != MUSTER_OK) {
        free_update(made);
        return status;
    }
    *update = made;
    return MUSTER_OK;
}

/* Ends an operation: what cannot be waited for is taken back. */
static void settle(muster_request **request, muster_status *first, char message[MST_MESSAGE_SIZE]) {
    muster_status status;
    if (!*request) return;
    mst_request_finish(*request, destroy_name, true, &status);
    mst_request_give(*request);
    *request = NULL;
    if (status == MUSTER_OK || *first != MUSTER_OK) return;
    *first = status;
    mst_error_save(message);
}

static muster_status settle_all(muster_update *update) {
    char message[MST_MESSAGE_SIZE];
    muster_status first = MUSTER_OK;
    for (int32_t i = 0; update->values && i < update->count; i++) {
        settle(&update->values[i].sending, &first, message);
        for (int32_t which = 0; which < 2; which++) settle(&update->values[i].receiving[which], &first, message);
    }
    return first == MUSTER_OK ? MUSTER_OK : mst_error_restore(first, message);
}

static muster_status destroy_in_body(muster_update *update, muster_worker *worker) {
    if (worker->pool != update->pool || worker->rank != update->rank)
        return mst_error(MUSTER_BAD_STATE, "%s: update: expected to be in a body of its worker, rank %" PRId32 ", or in none", destroy_name,
                         update->rank);
    muster_status status = MUSTER_OK;
    if (update->client) {
        MUSTER_TRY(mst_client_enter_wait(update->client, destroy_name));
        status = settle_all(update);
        mst_client_leave(update->client);
    }
    if (mst_worker_sync(worker) != MUSTER_OK)
        return mst_error(MUSTER_BAD_STATE,
                         "%s: update: the call is lost, and the device may still use its memory: destroy it outside bodies", destroy_name);
    free_update(update);
    return status;
}

/* The end of each body has ended what was under way. */
static muster_status destroy_outside(muster_update *update) {
    mst_pool *pool = update->pool;
    MUSTER_TRY(mst_pool_enter(pool, destroy_name, 0));
    const muster_status status = settle_all(update);
    free_update(update);
    mst_pool_leave(pool);
    return status;
}

muster_status muster_update_destroy(muster_update *update) {
    if (!update) return MUSTER_OK;
    if (update->phase != MST_UPDATE_OUTSIDE)
        return mst_error(MUSTER_BAD_STATE, "%s: update: expected no part of it to be running", destroy_name);
    muster_worker *worker = mst_current_worker();
    return worker ? destroy_in_body(update, worker) : destroy_outside(update);
}
