/* Downpour SGD: gradients are accumulated where they are, and sent every send_frequency steps. */
#include "update_impl.h"

muster_status mst_downpour_accumulate(muster_update *update, muster_worker *worker, const muster_tensor *gradients) {
    for (; update->accumulated < update->count; update->accumulated++) {
        const int32_t i = update->accumulated;
        const muster_tensor sum = mst_update_device(update, i, 0), gradient = mst_update_flat(gradients[i]);
        if (update->values[i].fresh)
            MUSTER_TRY(muster_copy(worker, gradient, sum));
        else
            MUSTER_TRY(muster_binary_op(worker, MUSTER_ADD, sum, gradient, sum));
        update->values[i].fresh = false;
    }
    return MUSTER_OK;
}

/* What has been accumulated becomes what is sent, and the memory of the last send is where the next
 * sum begins. */
static muster_status prepare(muster_update *update, muster_worker *worker, int32_t index) {
    mst_update_value *value = &update->values[index];
    const muster_tensor sum = mst_update_device(update, index, 0);
    bool done;
    muster_status status = mst_update_wait(&value->sending, &done);
    if (status != MUSTER_OK) return status;
    const uint64_t errors = mst_error_count();
    if (update->options.local_update)
        MUSTER_TRY(
            mst_update_told("local_update", update->options.local_update(worker, index, sum, update->options.local_update_user), errors));
    else if (!mst_dtype_is_float(value->dtype)) /* floats are negated on their way into the server */
        MUSTER_TRY(muster_unary_op(worker, MUSTER_NEG, sum, sum));
    void *address = value->outgoing[0];
    value->outgoing[0] = value->outgoing[1];
    value->outgoing[1] = address;
    value->fresh = value->ready = true;
    return MUSTER_OK;
}

static muster_status send(muster_update *update, muster_worker *worker) {
    for (; update->sent < update->count; update->sent++) {
        const int32_t i = update->sent;
        mst_update_value *value = &update->values[i];
        /* sent when a send that had failed was made up for, on the same step */
        if (value->fresh && !value->ready) continue;
        const bool negates = !update->options.local_update && mst_dtype_is_float(value->dtype);
        if (!value->ready) MUSTER_TRY(prepare(update, worker, i));
        MUSTER_TRY(muster_client_send(update->client, i, negates ? MUSTER_RULE_ADD_SCALED : MUSTER_RULE_ADD, negates ? -1 : 1,
                                      mst_update_device(update, i, 1), 0, &value->sending));
        value->ready = false;
    }
    update->sent = 0;
    return MUSTER_OK;
}

static const mst_update_kind kind = {
    .create = "muster_downpour_create", .copies = 2, .accumulates = true, .integrate = mst_update_copy, .send = send};

muster_status muster_downpour_create(muster_worker *worker, muster_server *server, const muster_update_options *options,
                                     muster_update **update) {
    return mst_update_make(&kind, worker, server, options, update);
}
