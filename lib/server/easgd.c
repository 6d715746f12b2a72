/* Elastic averaging: worker and server are drawn to each other, by the same difference. With x the
 * parameters and c what was fetched, x becomes x - alpha (x - c) and the server's value c' becomes
 * c' + alpha (x - c), so that the sum of the server's value and of all workers' parameters stays
 * what it is. Zhang, Choromanska, LeCun (2015), Algorithm 1. */
#include "update_impl.h"

/* x - c for all values before any x moves: what can fail has failed by then, and nothing has
 * changed. */
static muster_status subtract(muster_update *update, muster_worker *worker, const muster_tensor *parameters) {
    MUSTER_TRY(mst_update_wait_sends(update)); /* of this memory */
    for (int32_t i = 0; i < update->count; i++) {
        const muster_tensor difference = mst_update_device(update, i, 0);
        MUSTER_TRY(muster_worker_write(worker, mst_update_host(update, i, update->current), difference));
        MUSTER_TRY(muster_scale_add(worker, 1, mst_update_flat(parameters[i]), -1, difference));
    }
    update->subtracted = true;
    return MUSTER_OK;
}

static muster_status integrate(muster_update *update, muster_worker *worker, const muster_tensor *parameters) {
    if (!update->subtracted) MUSTER_TRY(subtract(update, worker, parameters));
    for (; update->moved < update->count; update->moved++) {
        const int32_t i = update->moved;
        MUSTER_TRY(muster_scale_add(worker, -update->alpha, mst_update_device(update, i, 0), 1, mst_update_flat(parameters[i])));
    }
    for (int32_t i = 0; i < update->count; i++) update->values[i].ready = true;
    update->moved = 0;
    update->subtracted = false;
    return MUSTER_OK;
}

static muster_status send(muster_update *update, muster_worker *worker) {
    (void)worker;
    if (!update->values[update->sent].ready)
        return mst_error(MUSTER_BAD_STATE, "muster_update_step: the driver's own send: expected its own integrate before it");
    for (; update->sent < update->count; update->sent++) {
        const int32_t i = update->sent;
        MUSTER_TRY(muster_client_send(update->client, i, MUSTER_RULE_ADD_SCALED, update->alpha, mst_update_device(update, i, 0), 0,
                                      &update->values[i].sending));
        update->values[i].ready = false;
    }
    update->sent = 0;
    return MUSTER_OK;
}

static const mst_update_kind kind = {
    .create = "muster_easgd_create", .copies = 1, .floats_only = true, .sends_integrations = true, .integrate = integrate, .send = send};

muster_status muster_easgd_create(muster_worker *worker, muster_server *server, const muster_update_options *options,
                                  muster_update **update) {
    return mst_update_make(&kind, worker, server, options, update);
}
