/* The parts of a step as rank 0 of a group makes them: the program's where it has replaced them,
 * else the driver's own. */
#include "update_impl.h"

#include <inttypes.h>

/* ---- views ---- */

muster_tensor mst_update_host(const muster_update *update, int32_t index, int32_t which) {
    const mst_update_value *value = &update->values[index];
    return muster_tensor_make(value->dtype, value->fetched[which], 1, &value->elements);
}

muster_tensor mst_update_device(const muster_update *update, int32_t index, int32_t which) {
    const mst_update_value *value = &update->values[index];
    muster_tensor tensor = muster_tensor_make(value->dtype, value->outgoing[which], 1, &value->elements);
    tensor.device = update->rank;
    return tensor;
}

muster_tensor mst_update_flat(muster_tensor tensor) {
    return muster_tensor_reshape(tensor, 1, (const int64_t[]){muster_tensor_count(tensor)});
}

/* ---- waits ---- */

muster_status mst_update_wait(muster_request **request, bool *done) {
    const muster_status status = *request ? muster_request_wait(request) : MUSTER_OK;
    *done = !*request;
    return status;
}

/* The message that stays is that of the first failure. */
static void keep_first(muster_status *first, muster_status status, char message[MST_MESSAGE_SIZE]) {
    if (status == MUSTER_OK || *first != MUSTER_OK) return;
    *first = status;
    mst_error_save(message);
}

muster_status mst_update_wait_sends(muster_update *update) {
    char message[MST_MESSAGE_SIZE];
    muster_status first = MUSTER_OK;
    bool done;
    for (int32_t i = 0; update->values && i < update->count; i++)
        keep_first(&first, mst_update_wait(&update->values[i].sending, &done), message);
    return first == MUSTER_OK ? MUSTER_OK : mst_error_restore(first, message);
}

muster_status mst_update_wait_receives(muster_update *update, int32_t which, bool *intact) {
    char message[MST_MESSAGE_SIZE];
    muster_status first = MUSTER_OK;
    *intact = true;
    for (int32_t i = 0; update->values && i < update->count; i++) {
        bool done;
        const muster_status status = mst_update_wait(&update->values[i].receiving[which], &done);
        keep_first(&first, status, message);
        if (status != MUSTER_OK && done) *intact = false;
    }
    return first == MUSTER_OK ? MUSTER_OK : mst_error_restore(first, message);
}

/* ---- the driver's own ---- */

static muster_status own_fetch(muster_update *update) {
    bool intact;
    MUSTER_TRY(mst_update_wait_receives(update, update->filling, &intact)); /* of a fetch that has failed */
    MUSTER_TRY(mst_update_wait_sends(update));
    for (int32_t i = 0; i < update->count; i++)
        MUSTER_TRY(muster_client_receive(update->client, i, mst_update_host(update, i, update->filling),
                                         &update->values[i].receiving[update->filling]));
    return MUSTER_OK;
}

muster_status mst_update_copy(muster_update *update, muster_worker *worker, const muster_tensor *parameters) {
    for (int32_t i = 0; i < update->count; i++)
        MUSTER_TRY(muster_worker_write(worker, mst_update_host(update, i, update->current), mst_update_flat(parameters[i])));
    return MUSTER_OK;
}

static muster_status refuse_outside(const char *where, const muster_update *update, const muster_worker *worker, mst_update_phase phase) {
    if (!update) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: update: expected a driver, received NULL", where);
    if (!worker || worker != mst_current_worker() || worker->rank != update->rank)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: worker: expected the one that the part was given", where);
    if (update->phase != phase) return mst_error(MUSTER_BAD_STATE, "%s: expected to be called by the part that replaces it", where);
    return MUSTER_OK;
}

muster_status muster_update_own_fetch(muster_update *update, muster_worker *worker) {
    MUSTER_TRY(refuse_outside("muster_update_own_fetch", update, worker, MST_UPDATE_FETCH));
    return own_fetch(update);
}

muster_status muster_update_own_integrate(muster_update *update, muster_worker *worker, const muster_tensor *parameters, int32_t count) {
    static const char where[] = "muster_update_own_integrate";
    MUSTER_TRY(refuse_outside(where, update, worker, MST_UPDATE_INTEGRATE));
    if (!parameters || count != update->count)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: parameters: expected the %" PRId32 " that the part was given, received %s%" PRId32,
                         where, update->count, parameters ? "" : "NULL and ", count);
    return update->kind->integrate(update, worker, parameters);
}

muster_status muster_update_own_send(muster_update *update, muster_worker *worker) {
    MUSTER_TRY(refuse_outside("muster_update_own_send", update, worker, MST_UPDATE_SEND));
    return update->kind->send ? update->kind->send(update, worker) : MUSTER_OK;
}

/* ---- the program's, or else these ---- */

muster_status mst_update_told(const char *what, muster_status status, uint64_t errors) {
    if (status == MUSTER_OK) return status;
    if (status < 0 || status > MUSTER_INTERNAL) status = MUSTER_USER;
    if (mst_error_count() != errors) return status;
    return mst_error(status, "muster_update_step: %s failed with %s and gave no reason", what, muster_status_name(status));
}

muster_status mst_update_fetch(muster_update *update, muster_worker *worker, int64_t step, int32_t which) {
    const muster_update_parts *parts = &update->options.parts;
    update->phase = MST_UPDATE_FETCH;
    update->filling = which;
    const uint64_t errors = mst_error_count();
    const muster_status status =
        parts->fetch ? mst_update_told("fetch", parts->fetch(update, worker, step, parts->user), errors) : own_fetch(update);
    update->phase = MST_UPDATE_OUTSIDE;
    update->counts.fetches += status == MUSTER_OK;
    return status;
}

muster_status mst_update_integrate(muster_update *update, muster_worker *worker, int64_t step, const muster_tensor *parameters) {
    const muster_update_parts *parts = &update->options.parts;
    bool intact;
    muster_status status = mst_update_wait_receives(update, update->current, &intact);
    if (!intact) update->fetched = false;
    if (status != MUSTER_OK) return status;
    update->phase = MST_UPDATE_INTEGRATE;
    const uint64_t errors = mst_error_count();
    status = parts->integrate
                 ? mst_update_told("integrate", parts->integrate(update, worker, step, parameters, update->count, parts->user), errors)
                 : update->kind->integrate(update, worker, parameters);
    update->phase = MST_UPDATE_OUTSIDE;
    update->counts.integrations += status == MUSTER_OK;
    return status;
}

muster_status mst_update_send(muster_update *update, muster_worker *worker, int64_t step, const muster_tensor *parameters,
                              const muster_tensor *gradients) {
    const muster_update_parts *parts = &update->options.parts;
    if (!parts->send && !update->kind->send) return MUSTER_OK;
    update->phase = MST_UPDATE_SEND;
    const uint64_t errors = mst_error_count();
    const muster_status status =
        parts->send ? mst_update_told("send", parts->send(update, worker, step, parameters, gradients, update->count, parts->user), errors)
                    : update->kind->send(update, worker);
    update->phase = MST_UPDATE_OUTSIDE;
    if (status != MUSTER_OK) return status;
    /* the driver's own does so by itself */
    for (int32_t i = 0; parts->send && i < update->count; i++) update->values[i].fresh = true;
    update->counts.sends++;
    return MUSTER_OK;
}
