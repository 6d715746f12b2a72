/* One step of a driver: what is due, in its order, and what is left over from a step that
 * failed. */
#include "update_impl.h"

#include "communicator_impl.h"

#include <inttypes.h>

static const mst_update_kind kind = {.create = "muster_update_create", .integrate = mst_update_copy};

muster_status muster_update_create(muster_worker *worker, muster_server *server, const muster_update_options *options,
                                   muster_update **update) {
    return mst_update_make(&kind, worker, server, options, update);
}

/* ---- checks ---- */

static const char where[] = "muster_update_step";

static muster_status check_tensor(const muster_update *update, const muster_worker *worker, const char *what, int32_t index,
                                  muster_tensor tensor) {
    const mst_update_value *value = &update->values[index];
    char name[32];
    snprintf(name, sizeof name, "%s[%" PRId32 "]", what, index);
    MUSTER_TRY(mst_tensor_check(tensor, where, name));
    if (tensor.dtype != value->dtype)
        return mst_error(MUSTER_DTYPE_MISMATCH, "%s: %s: expected %s as on the server, received %s", where, name,
                         muster_dtype_name(value->dtype), muster_dtype_name(tensor.dtype));
    if (muster_tensor_count(tensor) != value->elements)
        return mst_error(MUSTER_SHAPE_MISMATCH, "%s: %s: expected %" PRId64 " elements as on the server, received %" PRId64, where, name,
                         value->elements, muster_tensor_count(tensor));
    if (!mst_tensor_contiguous(tensor)) return mst_error(MUSTER_UNSUPPORTED, "%s: %s: expected contiguous elements", where, name);
    if (tensor.device != worker->rank && !(tensor.device == MUSTER_DEVICE_HOST && mst_device_is_host(worker->device)))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected memory of rank %" PRId32 ", received device %" PRId32, where, name,
                         worker->rank, tensor.device);
    return MUSTER_OK;
}

static muster_status check_tensors(const muster_update *update, const muster_worker *worker, const char *what,
                                   const muster_tensor *tensors) {
    for (int32_t i = 0; update->root && tensors && i < update->count; i++) MUSTER_TRY(check_tensor(update, worker, what, i, tensors[i]));
    return MUSTER_OK;
}

static muster_status check_step(const muster_update *update, const muster_worker *worker, int64_t step, const muster_tensor *parameters,
                                const muster_tensor *gradients, int32_t count) {
    if (!update) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: update: expected a driver, received NULL", where);
    if (!worker || worker != mst_current_worker() || worker->rank != update->rank || worker->pool != update->pool)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: worker: expected that of rank %" PRId32 ", which has made the driver", where,
                         update->rank);
    if (update->phase != MST_UPDATE_OUTSIDE) return mst_error(MUSTER_BAD_STATE, "%s: update: expected no part of it to be running", where);
    if (step < 0 || step < update->step)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: step: expected %" PRId64 " or more, received %" PRId64, where,
                         update->step < 0 ? 0 : update->step, step);
    if (count != update->count)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: count: expected the %" PRId32 " of the server, received %" PRId32, where,
                         update->count, count);
    if (!parameters) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: parameters: expected %" PRId32 " tensors, received NULL", where, count);
    if (!gradients && update->kind->accumulates && update->root)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: gradients: expected %" PRId32 " tensors, received NULL", where, count);
    MUSTER_TRY(check_tensors(update, worker, "parameters", parameters));
    return update->kind->accumulates ? check_tensors(update, worker, "gradients", gradients) : MUSTER_OK;
}

/* ---- the parts in their order ---- */

/* The first of start, start + every, ... that is above `step`. */
static int64_t next_above(int64_t start, int64_t every, int64_t step) {
    int64_t skip, next;
    if (start > step) return start;
    return __builtin_mul_overflow((step - start) / every + 1, every, &skip) || __builtin_add_overflow(start, skip, &next) ? INT64_MAX
                                                                                                                          : next;
}

static bool reached(const muster_update *update, int64_t at) { return at != INT64_MAX && update->step >= at; }
static bool integrates(const muster_update *update) { return reached(update, update->integrate_at); }

static muster_status send(muster_update *update, muster_worker *worker, const muster_tensor *parameters, const muster_tensor *gradients) {
    MUSTER_TRY(mst_update_send(update, worker, update->step, parameters, gradients));
    update->send_due = false;
    update->sent_at = update->step;
    return MUSTER_OK;
}

/* One that has failed may have been made up for on this step, of which nothing is left then, unless
 * it had got half way. */
static bool has_more_to_send(const muster_update *update) {
    if (update->sent_at != update->step) return true;
    for (int32_t i = 0; update->kind->accumulates && i < update->count; i++) {
        if (!update->values[i].fresh) return true;
    }
    return false;
}

/* Of the next integration. */
static muster_status fetch_if_due(muster_update *update, muster_worker *worker) {
    const bool never = update->integrate_at == INT64_MAX;
    if (update->fetched || never || update->step < update->integrate_at - update->options.prefetch) return MUSTER_OK;
    MUSTER_TRY(mst_update_fetch(update, worker, update->step, update->current));
    update->fetched = true;
    return MUSTER_OK;
}

/* A prefetch as long as the update frequency is due with the integration before. */
static muster_status fetch_ahead_if_due(muster_update *update, muster_worker *worker) {
    if (update->ahead || !integrates(update) || update->options.prefetch != update->options.update_frequency) return MUSTER_OK;
    MUSTER_TRY(mst_update_fetch(update, worker, update->step, 1 - update->current));
    update->ahead = true;
    return MUSTER_OK;
}

static muster_status until_integrated(muster_update *update, muster_worker *worker, const muster_tensor *parameters,
                                      const muster_tensor *gradients) {
    if (update->kind->accumulates && update->step > update->options.init_delay)
        MUSTER_TRY(mst_downpour_accumulate(update, worker, gradients));
    if (update->send_due) MUSTER_TRY(send(update, worker, parameters, gradients)); /* which has failed before */
    MUSTER_TRY(fetch_if_due(update, worker));
    MUSTER_TRY(fetch_ahead_if_due(update, worker));
    if (!integrates(update) || update->worked_in) return MUSTER_OK;
    MUSTER_TRY(mst_update_integrate(update, worker, update->step, parameters));
    update->worked_in = true;
    return MUSTER_OK;
}

static void advance(muster_update *update) {
    update->send_due = update->kind->sends_integrations;
    update->integrate_at = next_above(update->integrate_at, update->options.update_frequency, update->step);
    update->last = update->current;
    if (update->options.prefetch == update->options.update_frequency) update->current = 1 - update->current;
    update->fetched = update->ahead;
    update->ahead = update->worked_in = false;
}

static muster_status after_integration(muster_update *update, muster_worker *worker, const muster_tensor *parameters,
                                       const muster_tensor *gradients) {
    MUSTER_TRY(fetch_if_due(update, worker));
    if (reached(update, update->send_at)) {
        update->send_due = has_more_to_send(update);
        update->send_at = next_above(update->send_at, update->options.send_frequency, update->step);
    }
    return update->send_due ? send(update, worker, parameters, gradients) : MUSTER_OK;
}

/* ---- groups ---- */

/* Rank 0 says how it has fared, so that all integrate or none does; then all have its
 * parameters. */
static muster_status share(muster_update *update, muster_worker *worker, muster_status status, const muster_tensor *parameters) {
    muster_communicator *group = update->options.group;
    char message[MST_MESSAGE_SIZE];
    int32_t code = status;
    muster_tensor host = muster_i32(&code), flag = muster_i32(update->flag);
    flag.device = worker->rank;
    if (status != MUSTER_OK) mst_error_save(message);
    if (update->root) MUSTER_TRY(muster_worker_write(worker, host, flag));
    MUSTER_TRY(muster_worker_broadcast(worker, group, 0, flag, flag));
    MUSTER_TRY(muster_worker_read(worker, flag, host));
    if (status != MUSTER_OK) return mst_error_restore(status, message);
    if (code != MUSTER_OK)
        return mst_error(MUSTER_ABORTED, "%s: rank 0 of the group has failed to integrate: %s", where, muster_status_name(code));
    for (int32_t i = 0; i < update->count; i++) MUSTER_TRY(muster_worker_broadcast(worker, group, 0, parameters[i], parameters[i]));
    return MUSTER_OK;
}

muster_status muster_update_step(muster_update *update, muster_worker *worker, int64_t step, const muster_tensor *parameters,
                                 const muster_tensor *gradients, int32_t count, int32_t *integrated) {
    if (integrated) *integrated = 0;
    MUSTER_TRY(check_step(update, worker, step, parameters, gradients, count));
    if (step > update->step) update->accumulated = 0;
    update->step = step;
    muster_status status = update->root ? until_integrated(update, worker, parameters, gradients) : MUSTER_OK;
    if (integrates(update)) {
        if (update->options.group) status = share(update, worker, status, parameters);
        if (status != MUSTER_OK) return status;
        advance(update);
        if (integrated) *integrated = 1;
    }
    if (status != MUSTER_OK) return status;
    return update->root ? after_integration(update, worker, parameters, gradients) : MUSTER_OK;
}

/* ---- questions ---- */

muster_status muster_update_get_counts(const muster_update *update, muster_update_counts *counts) {
    if (!update) return mst_error(MUSTER_INVALID_ARGUMENT, "muster_update_get_counts: update: expected a driver, received NULL");
    if (!counts)
        return mst_error(MUSTER_INVALID_ARGUMENT, "muster_update_get_counts: counts: expected a place for the numbers, received NULL");
    *counts = update->counts;
    return MUSTER_OK;
}

muster_client *muster_update_client(muster_update *update) { return update ? update->client : NULL; }
double muster_update_alpha(const muster_update *update) { return update ? update->alpha : 0; }

static bool has(const muster_update *update, int32_t index) { return update && update->values && index >= 0 && index < update->count; }

muster_tensor muster_update_fetched(muster_update *update, int32_t index) {
    if (!has(update, index)) return muster_tensor_none();
    const mst_update_phase phase = update->phase;
    return mst_update_host(update, index,
                           phase == MST_UPDATE_FETCH       ? update->filling
                           : phase == MST_UPDATE_INTEGRATE ? update->current
                                                           : update->last);
}

muster_tensor muster_update_outgoing(muster_update *update, int32_t index) {
    return has(update, index) && update->kind->copies > 0 ? mst_update_device(update, index, 0) : muster_tensor_none();
}
