/* The parts of a step on rank 0 of a group: the program's, or the driver's own where the program
 * has none. */
#include "driver_private.h"
#include "dtype_impl.h"
#include "server_impl.h"

#include <inttypes.h>

/* ---- views ---- */

muster_tensor mst_driver_host(const muster_driver *driver, int32_t index, int32_t which) {
    const mst_driver_value *value = &driver->values[index];
    return muster_tensor_make(value->dtype, value->fetched[which], 1, &value->elements);
}

muster_tensor mst_driver_device(const muster_driver *driver, int32_t index, int32_t which) {
    const mst_driver_value *value = &driver->values[index];
    const bool accumulates = driver->kind->accumulates && which == 0;
    const muster_dtype dtype = accumulates ? mst_dtype_compute(value->dtype) : value->dtype;
    muster_tensor tensor = muster_tensor_make(dtype, value->outgoing[which], 1, &value->elements);
    tensor.device = driver->rank;
    return tensor;
}

muster_tensor mst_driver_flat(muster_tensor tensor) {
    return muster_tensor_reshape(tensor, 1, (const int64_t[]){muster_tensor_count(tensor)});
}

/* ---- waits ---- */

muster_status mst_driver_wait(muster_request **request, bool *done) {
    const muster_status status = *request ? muster_request_wait(request) : MUSTER_OK;
    *done = !*request;
    return status;
}

void mst_driver_keep_first(muster_status *first, muster_status status, char message[MST_MESSAGE_SIZE]) {
    if (status == MUSTER_OK || *first != MUSTER_OK) return;
    *first = status;
    mst_error_save(message);
}

muster_status mst_driver_wait_sends(muster_driver *driver) {
    char message[MST_MESSAGE_SIZE];
    muster_status first = MUSTER_OK;
    bool done;
    for (int32_t i = 0; driver->values && i < driver->count; i++)
        mst_driver_keep_first(&first, mst_driver_wait(&driver->values[i].sending, &done), message);
    return first == MUSTER_OK ? MUSTER_OK : mst_error_restore(first, message);
}

muster_status mst_driver_wait_receives(muster_driver *driver, int32_t which, bool *intact) {
    char message[MST_MESSAGE_SIZE];
    muster_status first = MUSTER_OK;
    *intact = true;
    for (int32_t i = 0; driver->values && i < driver->count; i++) {
        bool done;
        const muster_status status = mst_driver_wait(&driver->values[i].receiving[which], &done);
        mst_driver_keep_first(&first, status, message);
        if (status != MUSTER_OK && done) *intact = false;
    }
    return first == MUSTER_OK ? MUSTER_OK : mst_error_restore(first, message);
}

/* ---- the driver's own ---- */

static muster_status default_fetch(muster_driver *driver) {
    bool intact;
    MUSTER_TRY(mst_driver_wait_receives(driver, driver->filling, &intact)); /* the receives of a fetch that has failed */
    MUSTER_TRY(mst_driver_wait_sends(driver));
    for (int32_t i = 0; i < driver->count; i++)
        MUSTER_TRY(muster_client_receive(driver->client, i, mst_driver_host(driver, i, driver->filling),
                                         &driver->values[i].receiving[driver->filling]));
    return MUSTER_OK;
}

muster_status mst_driver_copy(muster_driver *driver, muster_worker *worker, const muster_tensor *parameters) {
    for (int32_t i = 0; i < driver->count; i++)
        MUSTER_TRY(muster_worker_write(worker, mst_driver_host(driver, i, driver->current), mst_driver_flat(parameters[i])));
    return MUSTER_OK;
}

static muster_status parts_refuse_outside(const char *where, const muster_driver *driver, const muster_worker *worker,
                                          mst_driver_phase phase) {
    if (!driver) return mst_error_null(where, "driver", "a driver");
    MUSTER_TRY(mst_driver_check_exists(driver, where));
    if (!worker || worker != mst_current_worker() || worker->rank != driver->rank)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: worker: expected the worker that the part received, received %s", where,
                         worker ? "another" : "NULL");
    if (driver->phase != phase) return mst_error(MUSTER_BAD_STATE, "%s: driver: called outside the part that replaces it", where);
    return MUSTER_OK;
}

muster_status muster_driver_default_fetch(muster_driver *driver, muster_worker *worker) {
    MUSTER_TRY(parts_refuse_outside("muster_driver_default_fetch", driver, worker, MST_DRIVER_FETCH));
    return default_fetch(driver);
}

muster_status muster_driver_default_integrate(muster_driver *driver, muster_worker *worker, const muster_tensor *parameters,
                                              int32_t count) {
    static const char where[] = "muster_driver_default_integrate";
    MUSTER_TRY(parts_refuse_outside(where, driver, worker, MST_DRIVER_INTEGRATE));
    if (count != driver->count)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: count: expected the %" PRId32 " that the part was given, received %" PRId32, where,
                         driver->count, count);
    if (!parameters) return mst_error_null(where, "parameters", "those that the part was given");
    return driver->kind->integrate(driver, worker, parameters);
}

muster_status muster_driver_default_send(muster_driver *driver, muster_worker *worker) {
    MUSTER_TRY(parts_refuse_outside("muster_driver_default_send", driver, worker, MST_DRIVER_SEND));
    return driver->kind->send ? driver->kind->send(driver, worker) : MUSTER_OK;
}

/* ---- the start of the server ---- */

muster_status mst_driver_start(muster_driver *driver, const muster_tensor *parameters) {
    if (!driver->first || driver->options.keep_initial || mst_server_has_started(driver->client)) return MUSTER_OK;
    for (int32_t i = 0; i < driver->count; i++)
        MUSTER_TRY(muster_client_send(driver->client, i, MUSTER_RULE_COPY, 1, mst_driver_flat(parameters[i]), 0, NULL));
    mst_server_start(driver->client);
    return MUSTER_OK;
}

static muster_status driver_await_start(const muster_driver *driver) {
    return driver->options.keep_initial ? MUSTER_OK : mst_server_await_start(driver->client, driver->where);
}

/* ---- the program's, or else these ---- */

muster_status mst_driver_part_status(const muster_driver *driver, const char *what, muster_status status, uint64_t errors) {
    if (status == MUSTER_OK) return status;
    if (status < 0 || status > MST_STATUS_LAST) status = MUSTER_USER;
    if (mst_error_count() != errors) return status;
    return mst_error(status, "%s: %s failed with %s and gave no reason", driver->where, what, muster_status_name(status));
}

muster_status mst_driver_fetch(muster_driver *driver, muster_worker *worker, int64_t step, int32_t which) {
    const muster_driver_parts *parts = &driver->options.parts;
    MUSTER_TRY(driver_await_start(driver));
    driver->phase = MST_DRIVER_FETCH;
    driver->filling = which;
    const uint64_t errors = mst_error_count();
    const muster_status status = parts->fetch
                                     ? mst_driver_part_status(driver, "fetch", parts->fetch(driver, worker, step, parts->user), errors)
                                     : default_fetch(driver);
    driver->phase = MST_DRIVER_OUTSIDE;
    driver->counts.fetches += status == MUSTER_OK;
    return status;
}

muster_status mst_driver_integrate(muster_driver *driver, muster_worker *worker, int64_t step, const muster_tensor *parameters) {
    const muster_driver_parts *parts = &driver->options.parts;
    bool intact;
    muster_status status = mst_driver_wait_receives(driver, driver->current, &intact);
    if (!intact) driver->fetched = false;
    if (status != MUSTER_OK) return status;
    driver->phase = MST_DRIVER_INTEGRATE;
    const uint64_t errors = mst_error_count();
    status = parts->integrate
                 ? mst_driver_part_status(driver, "integrate",
                                          parts->integrate(driver, worker, step, parameters, driver->count, parts->user), errors)
                 : driver->kind->integrate(driver, worker, parameters);
    driver->phase = MST_DRIVER_OUTSIDE;
    driver->counts.integrations += status == MUSTER_OK;
    return status;
}

muster_status mst_driver_send(muster_driver *driver, muster_worker *worker, int64_t step, const muster_tensor *parameters,
                              const muster_tensor *gradients) {
    const muster_driver_parts *parts = &driver->options.parts;
    if (!parts->send && !driver->kind->send) return MUSTER_OK;
    MUSTER_TRY(driver_await_start(driver));
    driver->phase = MST_DRIVER_SEND;
    const uint64_t errors = mst_error_count();
    const muster_status status =
        parts->send ? mst_driver_part_status(driver, "send",
                                             parts->send(driver, worker, step, parameters, gradients, driver->count, parts->user), errors)
                    : driver->kind->send(driver, worker);
    driver->phase = MST_DRIVER_OUTSIDE;
    if (status != MUSTER_OK) return status;
    /* the driver's own send does so by itself */
    for (int32_t i = 0; parts->send && i < driver->count; i++) driver->values[i].fresh = true;
    driver->counts.sends++;
    return MUSTER_OK;
}
