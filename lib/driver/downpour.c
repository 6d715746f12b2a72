/* Downpour SGD: gradients are accumulated on the device, and sent every send_frequency steps. */
#include "driver_private.h"

/* sum += gradient; a gradient of f16 or bf16 is converted first, since operands have one dtype. */
static muster_status downpour_add(const muster_driver *driver, muster_worker *worker, muster_tensor gradient, muster_tensor sum) {
    if (gradient.dtype == sum.dtype) return muster_binary_op(worker, MUSTER_ADD, sum, gradient, sum);
    muster_tensor wide = sum;
    wide.data = driver->widened;
    MUSTER_TRY(muster_copy(worker, gradient, wide));
    return muster_binary_op(worker, MUSTER_ADD, sum, wide, sum);
}

/* The accumulated gradient becomes what is sent: in the memory of the last send where the dtypes
 * differ, else in its own, and the next sum begins in the memory of the last send. A failure leaves
 * the value as it was, and the next step hands it over. */
static muster_status downpour_hand_over(const muster_driver *driver, muster_worker *worker, int32_t index) {
    mst_driver_value *value = &driver->values[index];
    const muster_tensor sum = mst_driver_device(driver, index, 0);
    if (sum.dtype != value->dtype) {
        MUSTER_TRY(muster_copy(worker, sum, mst_driver_device(driver, index, 1)));
    } else {
        void *address = value->outgoing[0];
        value->outgoing[0] = value->outgoing[1];
        value->outgoing[1] = address;
    }
    value->updated = false;
    value->fresh = value->ready = true;
    return MUSTER_OK;
}

muster_status mst_downpour_accumulate(muster_driver *driver, muster_worker *worker, const muster_tensor *gradients) {
    for (; driver->accumulated < driver->count; driver->accumulated++) {
        const int32_t i = driver->accumulated;
        if (driver->values[i].updated) MUSTER_TRY(downpour_hand_over(driver, worker, i));
        const muster_tensor sum = mst_driver_device(driver, i, 0), gradient = mst_driver_flat(gradients[i]);
        if (driver->values[i].fresh)
            MUSTER_TRY(muster_copy(worker, gradient, sum));
        else
            MUSTER_TRY(downpour_add(driver, worker, gradient, sum));
        driver->values[i].fresh = false;
    }
    return MUSTER_OK;
}

static muster_status downpour_update(const muster_driver *driver, muster_worker *worker, int32_t index) {
    const muster_tensor sum = mst_driver_device(driver, index, 0);
    const uint64_t errors = mst_error_count();
    if (driver->options.local_update)
        return mst_driver_part_status(driver, "local_update",
                                      driver->options.local_update(worker, index, sum, driver->options.local_update_user), errors);
    if (mst_dtype_is_float(driver->values[index].dtype)) return MUSTER_OK; /* the rule that adds floats negates them */
    return muster_unary_op(worker, MUSTER_NEG, sum, sum);
}

static muster_status downpour_prepare(const muster_driver *driver, muster_worker *worker, int32_t index) {
    mst_driver_value *value = &driver->values[index];
    bool done;
    MUSTER_TRY(mst_driver_wait(&value->sending, &done));
    if (!value->updated) MUSTER_TRY(downpour_update(driver, worker, index));
    value->updated = true;
    return downpour_hand_over(driver, worker, index);
}

static muster_status downpour_send(muster_driver *driver, muster_worker *worker) {
    for (; driver->sent < driver->count; driver->sent++) {
        const int32_t i = driver->sent;
        mst_driver_value *value = &driver->values[i];
        /* A send of an earlier step that had failed has sent it on this step. */
        if (value->fresh && !value->ready) continue;
        const bool negates = !driver->options.local_update && mst_dtype_is_float(value->dtype);
        if (!value->ready) MUSTER_TRY(downpour_prepare(driver, worker, i));
        MUSTER_TRY(muster_client_send(driver->client, i, negates ? MUSTER_RULE_ADD_SCALED : MUSTER_RULE_ADD, negates ? -1 : 1,
                                      mst_driver_device(driver, i, 1), 0, &value->sending));
        value->ready = false;
    }
    driver->sent = 0;
    return MUSTER_OK;
}

static const mst_driver_kind downpour_kind = {
    .create = "muster_downpour_create", .copies = 2, .accumulates = true, .integrate = mst_driver_copy, .send = downpour_send};

muster_status muster_downpour_create(muster_worker *worker, muster_server *server, const muster_driver_options *options,
                                     muster_driver **driver) {
    return mst_driver_make(&downpour_kind, worker, server, options, driver);
}
