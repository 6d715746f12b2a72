/* One step of a driver: what is due, in its order, and what an earlier step has failed to do. */
#include "driver_private.h"
#include "options_impl.h"

#include "communicator_impl.h"

#include <inttypes.h>

static const mst_driver_kind base_kind = {.create = "muster_driver_create", .integrate = mst_driver_copy};

muster_status muster_driver_create(muster_worker *worker, muster_server *server, const muster_driver_options *options,
                                   muster_driver **driver) {
    return mst_driver_make(&base_kind, worker, server, options, driver);
}

/* ---- checks ---- */

static const char where[] = "muster_driver_step";

static muster_status step_check_tensor(const muster_driver *driver, const muster_worker *worker, const char *what, int32_t index,
                                       muster_tensor tensor) {
    const mst_driver_value *value = &driver->values[index];
    char name[32];
    snprintf(name, sizeof name, "%s[%" PRId32 "]", what, index);
    MUSTER_TRY(mst_tensor_check(tensor, where, name));
    if (tensor.dtype != value->dtype)
        return mst_error(MUSTER_DTYPE_MISMATCH, "%s: %s: expected %s as on the server, received %s", where, name,
                         muster_dtype_name(value->dtype), muster_dtype_name(tensor.dtype));
    if (muster_tensor_count(tensor) != value->elements)
        return mst_error(MUSTER_SHAPE_MISMATCH, "%s: %s: expected %" PRId64 " elements as on the server, received %" PRId64, where, name,
                         value->elements, muster_tensor_count(tensor));
    if (!mst_tensor_contiguous(tensor))
        return mst_error(MUSTER_UNSUPPORTED, "%s: %s: expected contiguous elements, received strided ones", where, name);
    if (tensor.device != worker->rank && !(tensor.device == MUSTER_DEVICE_HOST && mst_device_is_host(worker->device)))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected memory of rank %" PRId32 ", received device %" PRId32, where, name,
                         worker->rank, tensor.device);
    return MUSTER_OK;
}

static muster_status step_check_tensors(const muster_driver *driver, const muster_worker *worker, const char *what,
                                        const muster_tensor *tensors) {
    for (int32_t i = 0; driver->root && tensors && i < driver->count; i++)
        MUSTER_TRY(step_check_tensor(driver, worker, what, i, tensors[i]));
    return MUSTER_OK;
}

/* The check of a function that takes the driver's worker, outside the parts. */
static muster_status step_check_worker(const char *name, const muster_driver *driver, const muster_worker *worker) {
    if (!driver) return mst_error_null(name, "driver", "a driver");
    MUSTER_TRY(mst_driver_check_open(driver, name));
    if (!worker || worker != mst_current_worker() || worker->rank != driver->rank || worker->pool != driver->pool)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: worker: expected the worker of rank %" PRId32 ", which created the driver, received %s", name, driver->rank,
                         worker ? "another worker" : "NULL");
    if (driver->phase != MST_DRIVER_OUTSIDE) return mst_error(MUSTER_BAD_STATE, "%s: driver: called inside one of its own parts", name);
    return MUSTER_OK;
}

static muster_status step_check(const muster_driver *driver, const muster_worker *worker, int64_t step, const muster_tensor *parameters,
                                const muster_tensor *gradients, int32_t count) {
    MUSTER_TRY(step_check_worker(where, driver, worker));
    if (step < 0 || step < driver->step)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: step: expected %" PRId64 " or more, received %" PRId64, where,
                         driver->step < 0 ? 0 : driver->step, step);
    if (count != driver->count)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: count: expected the %" PRId32 " of the server, received %" PRId32, where,
                         driver->count, count);
    if (!parameters) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: parameters: expected %" PRId32 " tensors, received NULL", where, count);
    if (!gradients && driver->kind->accumulates && driver->root)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: gradients: expected %" PRId32 " tensors, received NULL", where, count);
    MUSTER_TRY(step_check_tensors(driver, worker, "parameters", parameters));
    return driver->kind->accumulates ? step_check_tensors(driver, worker, "gradients", gradients) : MUSTER_OK;
}

/* ---- the parts in their order ---- */

/* The first of start, start + every, ... that is above `step`. */
static int64_t step_next_above(int64_t start, int64_t every, int64_t step) {
    int64_t skip, next;
    if (start > step) return start;
    return __builtin_mul_overflow((step - start) / every + 1, every, &skip) || __builtin_add_overflow(start, skip, &next) ? INT64_MAX
                                                                                                                          : next;
}

static bool step_is_due(const muster_driver *driver, int64_t at) { return at != INT64_MAX && driver->step >= at; }
static bool step_integrates(const muster_driver *driver) { return step_is_due(driver, driver->integrate_at); }

static muster_status step_send(muster_driver *driver, muster_worker *worker, const muster_tensor *parameters,
                               const muster_tensor *gradients) {
    MUSTER_TRY(mst_driver_send(driver, worker, driver->step, parameters, gradients));
    driver->send_due = false;
    driver->sent_at = driver->step;
    return MUSTER_OK;
}

/* Has the send of this step anything left to send? A send that failed earlier may have been made up
 * for on this step. It has then sent this step's gradient, too, unless it was half done. */
static bool step_has_more_to_send(const muster_driver *driver) {
    if (driver->sent_at != driver->step) return true;
    for (int32_t i = 0; driver->kind->accumulates && i < driver->count; i++) {
        if (!driver->values[i].fresh) return true;
    }
    return false;
}

/* The fetch of the next integration. */
static muster_status step_fetch_if_due(muster_driver *driver, muster_worker *worker) {
    const bool never = driver->integrate_at == INT64_MAX;
    if (driver->fetched || never || driver->step < driver->integrate_at - driver->options.prefetch) return MUSTER_OK;
    MUSTER_TRY(mst_driver_fetch(driver, worker, driver->step, driver->current));
    driver->fetched = true;
    return MUSTER_OK;
}

/* A prefetch as long as the update frequency is due with the integration before. */
static muster_status step_fetch_ahead_if_due(muster_driver *driver, muster_worker *worker) {
    if (driver->ahead || !step_integrates(driver) || driver->options.prefetch != driver->options.update_frequency) return MUSTER_OK;
    MUSTER_TRY(mst_driver_fetch(driver, worker, driver->step, 1 - driver->current));
    driver->ahead = true;
    return MUSTER_OK;
}

static muster_status step_until_integrated(muster_driver *driver, muster_worker *worker, const muster_tensor *parameters,
                                           const muster_tensor *gradients) {
    if (driver->step >= driver->options.init_delay) MUSTER_TRY(mst_driver_start(driver, parameters));
    if (driver->kind->accumulates && driver->step > driver->options.init_delay)
        MUSTER_TRY(mst_downpour_accumulate(driver, worker, gradients));
    if (driver->send_due) MUSTER_TRY(step_send(driver, worker, parameters, gradients)); /* a send that has failed before */
    MUSTER_TRY(step_fetch_if_due(driver, worker));
    MUSTER_TRY(step_fetch_ahead_if_due(driver, worker));
    if (!step_integrates(driver) || driver->worked_in) return MUSTER_OK;
    MUSTER_TRY(mst_driver_integrate(driver, worker, driver->step, parameters));
    driver->worked_in = true;
    return MUSTER_OK;
}

static void step_advance(muster_driver *driver) {
    driver->send_due = driver->kind->sends_integrations;
    driver->integrate_at = step_next_above(driver->integrate_at, driver->options.update_frequency, driver->step);
    driver->last = driver->current;
    if (driver->options.prefetch == driver->options.update_frequency) driver->current = 1 - driver->current;
    driver->fetched = driver->ahead;
    driver->ahead = driver->worked_in = false;
}

static muster_status step_after_integration(muster_driver *driver, muster_worker *worker, const muster_tensor *parameters,
                                            const muster_tensor *gradients) {
    MUSTER_TRY(step_fetch_if_due(driver, worker));
    if (step_is_due(driver, driver->send_at)) {
        driver->send_due = step_has_more_to_send(driver);
        driver->send_at = step_next_above(driver->send_at, driver->options.send_frequency, driver->step);
    }
    return driver->send_due ? step_send(driver, worker, parameters, gradients) : MUSTER_OK;
}

/* ---- groups ---- */

/* Rank 0 broadcasts its status, so that all members integrate or none does. Then it broadcasts its
 * parameters. */
static muster_status step_broadcast_integration(muster_driver *driver, muster_worker *worker, muster_status status,
                                                const muster_tensor *parameters) {
    muster_communicator *group = driver->options.group;
    char message[MST_MESSAGE_SIZE];
    int32_t code = status;
    muster_tensor host = muster_i32(&code), flag = muster_i32(driver->flag);
    flag.device = worker->rank;
    if (status != MUSTER_OK) mst_error_save(message);
    if (driver->root) MUSTER_TRY(muster_worker_write(worker, host, flag));
    MUSTER_TRY(muster_worker_broadcast(worker, group, 0, flag, flag));
    MUSTER_TRY(muster_worker_read(worker, flag, host));
    if (status != MUSTER_OK) return mst_error_restore(status, message);
    if (code != MUSTER_OK)
        return mst_error(MUSTER_ABORTED, "%s: rank 0 of the group has failed to integrate: %s", where, muster_status_name(code));
    for (int32_t i = 0; i < driver->count; i++) MUSTER_TRY(muster_worker_broadcast(worker, group, 0, parameters[i], parameters[i]));
    return MUSTER_OK;
}

muster_status muster_driver_step(muster_driver *driver, muster_worker *worker, int64_t step, const muster_tensor *parameters,
                                 const muster_tensor *gradients, int32_t count, int32_t *integrated) {
    if (integrated) *integrated = 0;
    MUSTER_TRY(step_check(driver, worker, step, parameters, gradients, count));
    driver->where = where;
    if (step > driver->step) driver->accumulated = 0;
    driver->step = step;
    muster_status status = driver->root ? step_until_integrated(driver, worker, parameters, gradients) : MUSTER_OK;
    if (step_integrates(driver)) {
        if (driver->options.group) status = step_broadcast_integration(driver, worker, status, parameters);
        if (status != MUSTER_OK) return status;
        step_advance(driver);
        if (integrated) *integrated = 1;
    }
    if (status != MUSTER_OK) return status;
    return driver->root ? step_after_integration(driver, worker, parameters, gradients) : MUSTER_OK;
}

/* ---- flush ---- */

static bool step_has_unsent(const muster_driver *driver) {
    if (driver->send_due) return true;
    for (int32_t i = 0; driver->kind->accumulates && i < driver->count; i++) {
        if (!driver->values[i].fresh || driver->values[i].ready) return true;
    }
    return false;
}

muster_status muster_driver_flush(muster_driver *driver, muster_worker *worker) {
    static const char flush_name[] = "muster_driver_flush";
    MUSTER_TRY(step_check_worker(flush_name, driver, worker));
    driver->where = flush_name;
    if (!driver->root) return MUSTER_OK;
    if (step_has_unsent(driver)) MUSTER_TRY(step_send(driver, worker, NULL, NULL));
    return mst_driver_wait_sends(driver);
}

/* ---- questions ---- */

muster_status muster_driver_get_counts(const muster_driver *driver, muster_driver_counts *counts) {
    if (!driver) return mst_error_null("muster_driver_get_counts", "driver", "a driver");
    MUSTER_TRY(mst_driver_check_exists(driver, "muster_driver_get_counts"));
    if (!counts) return mst_error_null("muster_driver_get_counts", "counts", "the address of the counts");
    return mst_result_write("muster_driver_get_counts", "counts", "muster_driver_counts", &driver->counts, sizeof driver->counts, counts);
}

muster_client *muster_driver_client(muster_driver *driver) { return driver ? driver->client : NULL; }
double muster_driver_alpha(const muster_driver *driver) { return driver ? driver->alpha : 0; }

static muster_status step_check_value(const char *function, muster_driver *driver, int32_t index, muster_tensor *tensor) {
    if (!tensor) return mst_error_null(function, "tensor", "the address of a tensor");
    *tensor = muster_tensor_none();
    if (!driver) return mst_error_null(function, "driver", "a driver");
    MUSTER_TRY(mst_driver_check_exists(driver, function));
    if (!driver->values)
        return mst_error(MUSTER_BAD_STATE, "%s: driver: expected that of rank 0 of its group, which has the values, received another's",
                         function);
    if (index < 0 || index >= driver->count)
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: index: expected 0 to %" PRId32 ", received %" PRId32, function, driver->count - 1,
                         index);
    return MUSTER_OK;
}

muster_status muster_driver_fetched(muster_driver *driver, int32_t index, muster_tensor *tensor) {
    MUSTER_TRY(step_check_value("muster_driver_fetched", driver, index, tensor));
    const mst_driver_phase phase = driver->phase;
    *tensor = mst_driver_host(driver, index,
                              phase == MST_DRIVER_FETCH       ? driver->filling
                              : phase == MST_DRIVER_INTEGRATE ? driver->current
                                                              : driver->last);
    return MUSTER_OK;
}

muster_status muster_driver_outgoing(muster_driver *driver, int32_t index, muster_tensor *tensor) {
    MUSTER_TRY(step_check_value("muster_driver_outgoing", driver, index, tensor));
    if (driver->kind->copies == 0)
        return mst_error(MUSTER_UNSUPPORTED,
                         "muster_driver_outgoing: driver: expected one of Downpour or EASGD, received one of muster_driver_create, which "
                         "sends nothing of its own");
    *tensor = mst_driver_device(driver, index, 0);
    return MUSTER_OK;
}
