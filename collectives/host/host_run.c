/* Serving a batch by the algorithms on host memory. */
#include "host_private.h"
#include "stores_private.h"

/* The size of the count arrays of an uneven all_to_all, which follow the data in the slot. */
static int64_t counts_bytes(const mst_batch *batch, const mst_request *request) {
    return mst_request_is_uneven(request) ? (int64_t)sizeof(int64_t) * batch->communicator->size : 0;
}

int32_t mst_host_select(const mst_batch *batch, int32_t i, bool in_batch) {
    const mst_request *request = &batch->requests[i];
    const bool shared_cores = mst_pool_settings(batch->communicator->pool)->spin_ns == 0;
    const int64_t bytes = mst_request_input_bytes(request) + 2 * counts_bytes(batch, request);
    return mst_algorithm_select(request->collective, shared_cores, bytes, in_batch, batch->communicator->forced.algorithm);
}

char *mst_host_offer_slot(const mst_batch *batch, int32_t i, mst_host_member *member) {
    const mst_request *request = &batch->requests[i];
    char *slot = member->slots[batch->tag & 1];
    const int64_t counts = counts_bytes(batch, request);
    if (counts == 0) return slot;
    char *behind = slot + MST_SLOT_BYTES - 2 * counts;
    memcpy(behind, request->send_counts, (size_t)counts);
    memcpy(behind + counts, request->recv_counts, (size_t)counts);
    batch->offered[i].send_counts = (const int64_t *)behind;
    batch->offered[i].recv_counts = (const int64_t *)(behind + counts);
    return slot;
}

static const mst_algorithm *common_algorithm(const mst_view *view) {
    for (int32_t r = 1; r < view->size; r++) {
        if (view->requests[r]->algorithm != view->requests[0]->algorithm) return &mst_algorithm_direct;
    }
    return mst_algorithm_at(view->requests[0]->algorithm);
}

bool mst_host_ends_at_arrival(mst_batch *batch) {
    const mst_algorithm *algorithm = common_algorithm(&batch->view);
    batch->plan = algorithm;
    return algorithm->offer == MST_OFFER_SLOT;
}

static muster_status run_one(const mst_batch *batch, mst_view *view, const mst_algorithm *algorithm, mst_host_member *members, char *sums) {
    const mst_collective collective = view->requests[0]->collective;
    batch->member->served_algorithm = algorithm->name;
    if (!algorithm->run[collective]) return MUSTER_OK; /* a barrier has nothing to do */
    muster_communicator *world = batch->communicator->world;
    mst_stores *stores = world->open[MST_TRANSPORT_host];
    mst_stores_use use;
    mst_apply_use apply = {batch->worker, !mst_device_is_host(batch->worker->device), sums, MUSTER_OK, false};
    view->apply = &apply;
    view->chunk = members[batch->rank].chunk;
    view->stores = &use;
    mst_stores_begin(stores, collective, mst_view_touched_bytes(view), batch->tag, batch->worker->rank == 0, &use);
    algorithm->run[collective](view);
    if (mst_stores_end(stores, collective, &use)) atomic_fetch_add(&world->revision, 1);
    batch->member->served_streaming = use.asked && use.streaming;
    batch->member->served_pairs = apply.pairs;
    return apply.status;
}

muster_status mst_host_run(const mst_batch *batch, mst_host_member *members, char *sums) {
    for (int32_t i = 0; i < batch->count; i++) {
        mst_view view = mst_batch_view(batch, i);
        MUSTER_TRY(run_one(batch, &view, batch->count == 1 ? batch->plan : common_algorithm(&view), members, sums));
    }
    return MUSTER_OK;
}
