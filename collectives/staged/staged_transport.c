/* The transport `staged`: its table and its state. It copies its members' tensors to host memory,
 * runs the algorithms of `host` on the copies, and copies the results back. */
#include "staged_private.h"

#include <stdio.h>

/* Memory on each worker's device, for the sums of an all_reduce_apply. */
static muster_status staged_open(muster_communicator *world) {
    const size_t bytes = (size_t)world->size * sizeof(mst_device_staging);
    world->open[MST_TRANSPORT_staged] = mst_alloc(bytes);
    return world->open[MST_TRANSPORT_staged] ? MUSTER_OK : mst_out_of_memory("muster_runtime_open: communicator", (int64_t)bytes);
}

static void staged_close(muster_communicator *world) {
    mst_device_staging *sums = world->open[MST_TRANSPORT_staged];
    for (int32_t r = 0; sums && r < world->size; r++) mst_device_staging_free(mst_pool_worker(world->pool, r)->device, &sums[r]);
    mst_free(sums);
}

static muster_status staged_create(const char *where, muster_communicator *communicator, const muster_communicator *parent) {
    bool on_host = true;
    mst_host_member *members;
    for (int32_t r = 0; r < communicator->size; r++) on_host &= mst_device_is_host(mst_member_device(communicator, r));
    if (on_host) return parent ? MUSTER_OK : mst_transport_refuse(communicator, &mst_transport_staged, "their memory is the host's");
    MUSTER_TRY(mst_host_members_make(where, communicator->size, &members));
    communicator->state[MST_TRANSPORT_staged] = members;
    return MUSTER_OK;
}

static void staged_destroy(muster_communicator *communicator) {
    mst_host_members_free(mst_staged_members(communicator), communicator->size);
}

static void staged_describe(const muster_communicator *communicator, char *text, size_t size) {
    snprintf(text, size, "%s", mst_staged_members(communicator) ? "copies in host memory" : "");
}

static int32_t staged_bid(const muster_communicator *communicator, const mst_request *request, const mst_view *view) {
    (void)communicator, (void)request, (void)view;
    return MST_BID_COPIES;
}

static muster_status staged_reserve(muster_communicator *communicator, muster_worker *worker, int64_t bytes) {
    if (mst_device_is_host(worker->device) && communicator->forced.algorithm != MST_ALGORITHM_reference) return MUSTER_OK;
    return mst_staging_begin(&mst_staged_members(communicator)[mst_communicator_rank(communicator, worker)].staging,
                             2 * mst_staging_bytes(bytes));
}

const mst_transport mst_transport_staged = {.name = "staged",
                                            .number = MST_TRANSPORT_staged,
                                            .describe = staged_describe,
                                            .open = staged_open,
                                            .close = staged_close,
                                            .create = staged_create,
                                            .destroy = staged_destroy,
                                            .bid = staged_bid,
                                            .prepare = mst_staged_prepare,
                                            .ends_at_arrival = mst_host_ends_at_arrival,
                                            .run = mst_staged_run,
                                            .finish = mst_staged_finish,
                                            .reserve = staged_reserve,
                                            .reserve_apply = mst_staged_apply_reserve,
                                            .messages = &mst_staged_messages};
