/* The transport `buffer`: its table and its state. */
#include "buffer_private.h"

#include <stdio.h>

/* snippet: create */
static muster_status buffer_create(const char *where, muster_communicator *communicator, const muster_communicator *parent) {
    const size_t bytes = (size_t)communicator->size * sizeof(mst_buffer_member);
    for (int32_t r = 0; r < communicator->size; r++) {
        if (mst_device_is_host(mst_member_device(communicator, r))) continue;
        return parent ? MUSTER_OK : mst_transport_refuse(communicator, &mst_transport_buffer, "some of their memory is not the host's");
    }
    mst_buffer_member *members = mst_alloc_uninitialised(bytes);
    if (!members) return mst_out_of_memory(where, (int64_t)bytes);
    for (int32_t r = 0; r < communicator->size; r++) members[r].buffer = (mst_staging){.memory = NULL};
    communicator->state[MST_TRANSPORT_buffer] = members;
    return MUSTER_OK;
}
/* end of snippet */

static void buffer_destroy(muster_communicator *communicator) {
    mst_buffer_member *members = mst_buffer_members(communicator);
    for (int32_t r = 0; r < communicator->size; r++) mst_free(members[r].buffer.memory);
    mst_free(members);
}

static void buffer_describe(const muster_communicator *communicator, char *text, size_t size) {
    snprintf(text, size, "%s", mst_buffer_members(communicator) ? "copies in buffers" : "");
}

/* snippet: bid */
/* Less than the transport `host`, which copies less: this one serves only where it is requested by
 * name. It moves no messages, and no parameters that the other ranks write. */
static int32_t buffer_bid(const muster_communicator *communicator, const mst_request *request, const mst_view *view) {
    (void)communicator, (void)view;
    return mst_request_is_message(request) || mst_request_applies(request) ? 0 : MST_BID_COPIES - 1;
}
/* end of snippet */

static muster_status buffer_reserve(muster_communicator *communicator, muster_worker *worker, int64_t bytes) {
    if (communicator->forced.transport != &mst_transport_buffer) return MUSTER_OK;
    const int32_t rank = mst_communicator_rank(communicator, worker);
    return mst_staging_begin(&mst_buffer_members(communicator)[rank].buffer, 2 * mst_staging_bytes(bytes));
}

/* snippet: table */
const mst_transport mst_transport_buffer = {.name = "buffer",
                                            .number = MST_TRANSPORT_buffer,
                                            .describe = buffer_describe,
                                            .create = buffer_create,
                                            .destroy = buffer_destroy,
                                            .bid = buffer_bid,
                                            .prepare = mst_buffer_prepare,
                                            .run = mst_buffer_run,
                                            .reserve = buffer_reserve};
/* end of snippet */
