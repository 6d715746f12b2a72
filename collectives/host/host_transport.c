/* The transport between ranks on host memory: its table and its state. */
#include "host_private.h"
#include "stores_private.h"

#include <stdio.h>

/* ---- state ---- */

muster_status mst_host_members_make(const char *where, int32_t size, mst_host_member **members) {
    const size_t bytes = (size_t)size * sizeof **members;
    /* Not cleared, so that the thread that uses a slot is the first to access it. */
    *members = mst_alloc_uninitialised(bytes);
    if (!*members) return mst_out_of_memory(where, (int64_t)bytes);
    for (int32_t r = 0; r < size; r++) (*members)[r].staging = (*members)[r].mail = (mst_staging){.memory = NULL};
    return MUSTER_OK;
}

void mst_host_members_free(mst_host_member *members, int32_t size) {
    for (int32_t r = 0; members && r < size; r++) {
        mst_free(members[r].staging.memory);
        mst_free(members[r].mail.memory);
    }
    mst_free(members);
}

static mst_host_member *members_of(const muster_communicator *communicator) { return communicator->state[MST_TRANSPORT_host]; }

/* The choice of stores. The transport `staged` uses it, too. */
static muster_status host_open(muster_communicator *world) {
    mst_stores *stores = mst_alloc(sizeof *stores);
    if (!stores) return mst_out_of_memory("muster_runtime_open: communicator", sizeof *stores);
    world->open[MST_TRANSPORT_host] = stores;
    return mst_stores_read(world->stream_bytes, stores);
}

static void host_close(muster_communicator *world) { mst_free(world->open[MST_TRANSPORT_host]); }

static muster_status host_create(const char *where, muster_communicator *communicator, const muster_communicator *parent) {
    mst_host_member *members;
    (void)parent;
    for (int32_t r = 0; r < communicator->size; r++)
        if (!mst_device_is_host(mst_member_device(communicator, r))) return MUSTER_OK;
    MUSTER_TRY(mst_host_members_make(where, communicator->size, &members));
    communicator->state[MST_TRANSPORT_host] = members;
    return MUSTER_OK;
}

static void host_destroy(muster_communicator *communicator) { mst_host_members_free(members_of(communicator), communicator->size); }

/* ---- the table ---- */

const char *mst_host_algorithm_name(int32_t algorithm) {
    const mst_algorithm *found = mst_algorithm_at(algorithm + 1);
    return found ? found->name : NULL;
}

static void host_describe(const muster_communicator *communicator, char *text, size_t size) {
    if (!members_of(communicator)) return;
    const size_t at = (size_t)snprintf(text, size, "host memory, ");
    mst_stores_describe(communicator->world->open[MST_TRANSPORT_host], text + at, size - at);
}

static int32_t host_bid(const muster_communicator *communicator, const mst_request *request, const mst_view *view) {
    (void)communicator, (void)request, (void)view;
    return MST_BID_COPIES;
}

static muster_status host_prepare(mst_batch *batch) {
    mst_host_member *member = &members_of(batch->communicator)[batch->rank];
    int64_t copies = 0;
    for (int32_t i = 0; i < batch->count; i++) {
        const int32_t algorithm = mst_host_select(batch, i, batch->count > 1);
        batch->offered[i].algorithm = (uint8_t)algorithm;
        if (mst_algorithm_at(algorithm)->offer == MST_OFFER_COPY && !mst_request_finishes(&batch->requests[i]))
            copies += mst_staging_bytes(mst_request_input_bytes(&batch->requests[i]));
    }
    if (copies > 0) MUSTER_TRY(mst_staging_begin(&member->staging, copies));
    for (int32_t i = 0; i < batch->count; i++) {
        const mst_offer offer = mst_algorithm_at(batch->offered[i].algorithm)->offer;
        const int64_t bytes = mst_request_input_bytes(&batch->requests[i]);
        if (offer == MST_OFFER_TENSORS || mst_request_finishes(&batch->requests[i])) continue;
        char *copy = offer == MST_OFFER_SLOT ? mst_host_offer_slot(batch, i, member) : mst_staging_take(&member->staging, bytes);
        if (bytes > 0) memcpy(copy, batch->requests[i].input, (size_t)bytes);
        if (batch->requests[i].input) batch->offered[i].input = copy;
    }
    return MUSTER_OK;
}

static muster_status host_run(const mst_batch *batch) { return mst_host_run(batch, members_of(batch->communicator), NULL); }

static muster_status host_reserve(muster_communicator *communicator, muster_worker *worker, int64_t bytes) {
    if (communicator->forced.algorithm != MST_ALGORITHM_reference) return MUSTER_OK;
    return mst_staging_begin(&members_of(communicator)[mst_communicator_rank(communicator, worker)].staging, 2 * mst_staging_bytes(bytes));
}

static muster_status host_reserve_apply(muster_communicator *communicator, muster_worker *worker, const mst_request *request) {
    return host_reserve(communicator, worker, mst_request_input_bytes(request));
}

static muster_status host_take(const mst_mail *mail, int32_t from, const mst_request *wanted, const mst_message *message) {
    const int64_t bytes = mst_message_bytes(wanted);
    (void)mail, (void)from;
    if (bytes > 0 && wanted->output != message->data) memcpy(wanted->output, message->data, (size_t)bytes);
    return MUSTER_OK;
}

static const mst_message_table host_messages = {.take = host_take};

const mst_transport mst_transport_host = {.name = "host",
                                          .number = MST_TRANSPORT_host,
                                          .algorithm_name = mst_host_algorithm_name,
                                          .describe = host_describe,
                                          .open = host_open,
                                          .close = host_close,
                                          .create = host_create,
                                          .destroy = host_destroy,
                                          .bid = host_bid,
                                          .prepare = host_prepare,
                                          .ends_at_arrival = mst_host_ends_at_arrival,
                                          .run = host_run,
                                          .reserve = host_reserve,
                                          .reserve_apply = host_reserve_apply,
                                          .messages = &host_messages};
