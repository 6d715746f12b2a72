/* The order of a rendezvous in the devices' queues. The rendezvous is the only wait of the host.
 *
 * A rank records an event in its queue before it arrives. To serve, it makes its queue wait for the
 * events of all others, does its work, and records another event. After all have left, its queue
 * waits for the second events of the others. So a rank's work from before the collective precedes
 * the collective, and its later work follows it. */
#include "p2p_private.h"

muster_status mst_p2p_record(const muster_communicator *communicator, muster_worker *worker, int32_t event) {
    mst_p2p_worker *p2p_worker = &mst_p2p_of(communicator)->workers[worker->rank];
    pthread_mutex_lock(&p2p_worker->recording);
    muster_status status = mst_device_event_record(p2p_worker->events[event], worker->device->work_queue);
    pthread_mutex_unlock(&p2p_worker->recording);
    return status;
}

muster_status mst_p2p_wait(const muster_communicator *communicator, muster_worker *worker, int32_t rank, int32_t event) {
    const int32_t other_rank = communicator->members[rank].rank;
    mst_p2p_worker *other = &mst_p2p_of(communicator)->workers[other_rank];
    if (other_rank == worker->rank) return MUSTER_OK;
    pthread_mutex_lock(&other->recording);
    muster_status status = mst_device_event_wait(worker->device, worker->device->work_queue, other->events[event]);
    pthread_mutex_unlock(&other->recording);
    return status;
}

static int32_t event_of(const mst_batch *batch, int32_t event) { return event + (int32_t)(batch->tag & 1); }

static muster_status wait_for_all(const mst_batch *batch, int32_t event) {
    for (int32_t r = 0; r < batch->communicator->size; r++)
        MUSTER_TRY(mst_p2p_wait(batch->communicator, batch->worker, r, event_of(batch, event)));
    return MUSTER_OK;
}

muster_status mst_p2p_prepare(mst_batch *batch) {
    mst_device_staging *staging = &mst_p2p_of(batch->communicator)->workers[batch->worker->rank].staging;
    int64_t bytes = mst_p2p_apply_bytes(batch->communicator, batch->rank, batch->requests);
    for (int32_t i = 0; i < batch->count; i++) bytes += mst_device_copy_bytes(batch, i);
    MUSTER_TRY(mst_device_staging_begin(batch->worker, staging, bytes));
    for (int32_t i = 0; i < batch->count; i++) MUSTER_TRY(mst_device_offer_copy(batch, i, staging));
    return mst_p2p_record(batch->communicator, batch->worker, event_of(batch, MST_P2P_ARRIVED));
}

muster_status mst_p2p_run(const mst_batch *batch) {
    MUSTER_TRY(wait_for_all(batch, MST_P2P_ARRIVED));
    for (int32_t i = 0; i < batch->count; i++) {
        if (batch->winners[i] != MST_TRANSPORT_p2p) continue;
        mst_view view = mst_batch_view(batch, i);
        if (mst_request_applies(batch->requests))
            MUSTER_TRY(mst_p2p_apply(batch->worker, &view, mst_p2p_of(batch->communicator)->workers[batch->worker->rank].staging.memory));
        else
            MUSTER_TRY(mst_p2p_serve(batch->worker, &view));
    }
    return mst_p2p_record(batch->communicator, batch->worker, event_of(batch, MST_P2P_ENDED));
}

muster_status mst_p2p_finish(const mst_batch *batch) { return wait_for_all(batch, MST_P2P_ENDED); }
