/* Elastic averaging: worker and server move towards each other by the same difference. With x the
 * parameters and c what was fetched, x becomes x - alpha (x - c), and the server's value c' becomes
 * c' + alpha (x - c). So the sum of the server's value and of all workers' parameters does not
 * change. Zhang, Choromanska, LeCun (2015), Algorithm 1. */
#include "driver_private.h"

/* Computes x - c for all values before any x changes: if that fails, nothing has changed. */
static muster_status easgd_subtract(muster_driver *driver, muster_worker *worker, const muster_tensor *parameters) {
    MUSTER_TRY(mst_driver_wait_sends(driver)); /* which read this memory */
    for (int32_t i = 0; i < driver->count; i++) {
        const muster_tensor difference = mst_driver_device(driver, i, 0);
        MUSTER_TRY(muster_worker_write(worker, mst_driver_host(driver, i, driver->current), difference));
        MUSTER_TRY(muster_scale_add(worker, 1, mst_driver_flat(parameters[i]), -1, difference));
    }
    driver->subtracted = true;
    return MUSTER_OK;
}

static muster_status easgd_integrate(muster_driver *driver, muster_worker *worker, const muster_tensor *parameters) {
    if (!driver->subtracted) MUSTER_TRY(easgd_subtract(driver, worker, parameters));
    for (; driver->moved < driver->count; driver->moved++) {
        const int32_t i = driver->moved;
        MUSTER_TRY(muster_scale_add(worker, -driver->alpha, mst_driver_device(driver, i, 0), 1, mst_driver_flat(parameters[i])));
    }
    for (int32_t i = 0; i < driver->count; i++) driver->values[i].ready = true;
    driver->moved = 0;
    driver->subtracted = false;
    return MUSTER_OK;
}

static muster_status easgd_send(muster_driver *driver, muster_worker *worker) {
    (void)worker;
    if (!driver->values[driver->sent].ready)
        return mst_error(MUSTER_BAD_STATE, "%s: the driver's own send: expected its own integrate before it", driver->where);
    for (; driver->sent < driver->count; driver->sent++) {
        const int32_t i = driver->sent;
        MUSTER_TRY(muster_client_send(driver->client, i, MUSTER_RULE_ADD_SCALED, driver->alpha, mst_driver_device(driver, i, 0), 0,
                                      &driver->values[i].sending));
        driver->values[i].ready = false;
    }
    driver->sent = 0;
    return MUSTER_OK;
}

static const mst_driver_kind easgd_kind = {.create = "muster_easgd_create",
                                           .copies = 1,
                                           .floats_only = true,
                                           .sends_integrations = true,
                                           .integrate = easgd_integrate,
                                           .send = easgd_send};

muster_status muster_easgd_create(muster_worker *worker, muster_server *server, const muster_driver_options *options,
                                  muster_driver **driver) {
    return mst_driver_make(&easgd_kind, worker, server, options, driver);
}
