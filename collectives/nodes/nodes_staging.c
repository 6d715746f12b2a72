/* What members offer to the others of their process: their tensors, or copies of them in host
 * memory. */
#include "nodes_staging_private.h"

#include "staged/staged_private.h"

/* The state of `staged`, which frees it. */
muster_status mst_nodes_staging_create(const char *where, muster_communicator *communicator) {
    mst_host_member *members;
    MUSTER_TRY(mst_host_members_make(where, communicator->size, &members));
    communicator->state[MST_TRANSPORT_staged] = members;
    return MUSTER_OK;
}

muster_status mst_nodes_prepare(mst_batch *batch) {
    if (!mst_request_applies(batch->requests)) return mst_staged_prepare_direct(batch);
    return mst_device_is_host(batch->worker->device) ? MUSTER_OK : mst_staged_apply_prepare_device(batch);
}
muster_status mst_nodes_finish(const mst_batch *batch) { return mst_staged_finish(batch); }

muster_status mst_nodes_reserve(muster_communicator *communicator, muster_worker *worker, int64_t bytes) {
    if (mst_device_is_host(worker->device)) return MUSTER_OK;
    return mst_staging_begin(&mst_staged_members(communicator)[mst_communicator_rank(communicator, worker)].staging,
                             2 * mst_staging_bytes(bytes));
}

muster_status mst_nodes_reserve_apply(muster_communicator *communicator, muster_worker *worker, const mst_request *request) {
    return mst_device_is_host(worker->device) ? MUSTER_OK : mst_staged_apply_reserve(communicator, worker, request);
}

static int64_t message_bytes(const mst_request *r) {
    return muster_dtype_size(r->dtype) * (r->collective == MST_SEND ? r->input_count : r->output_count);
}

muster_status mst_nodes_stage(muster_communicator *communicator, muster_worker *worker, const mst_request *requests, int32_t count,
                              mst_request *staged) {
    mst_staging *staging = &mst_staged_members(communicator)[mst_communicator_rank(communicator, worker)].mail;
    int64_t bytes = 0;
    memcpy(staged, requests, (size_t)count * sizeof *staged);
    if (mst_device_is_host(worker->device)) return MUSTER_OK;
    for (int32_t i = 0; i < count; i++) bytes += mst_staging_bytes(message_bytes(&requests[i]));
    MUSTER_TRY(mst_staging_begin(staging, bytes));
    for (int32_t i = 0; i < count; i++) {
        staged[i].input = staged[i].output = mst_staging_take(staging, message_bytes(&requests[i]));
        if (requests[i].collective == MST_SEND)
            MUSTER_TRY(mst_staged_copy_out(worker, staged[i].output, requests[i].input, message_bytes(&requests[i])));
    }
    return MUSTER_OK;
}

muster_status mst_nodes_unstage(muster_worker *worker, const mst_request *requests, int32_t count, const mst_request *staged) {
    for (int32_t i = 0; i < count; i++)
        if (requests[i].collective == MST_RECV && requests[i].output != staged[i].output)
            MUSTER_TRY(mst_staged_copy_in(worker, requests[i].output, staged[i].output, message_bytes(&requests[i])));
    return MUSTER_OK;
}
