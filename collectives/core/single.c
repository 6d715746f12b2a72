/* The communicator of one rank: nearly every collective is a copy on its device, or nothing. */
#include "apply_private.h"
#include "rendezvous_private.h"

static muster_status copy(muster_worker *worker, const mst_request *r) {
    int64_t bytes = mst_request_input_bytes(r);
    uint64_t event =
        mst_record_begin(&worker->recorder, MST_EVENT_COLLECTIVE, mst_collective_name(r->collective), ++worker->sequence, bytes);
    muster_status status = r->input == r->output || !r->output || bytes == 0
                               ? MUSTER_OK
                               : worker->device->memory->copy(worker->device, r->output, r->input, bytes);
    mst_record_end(&worker->recorder, event);
    return status;
}

/* A reduction of bools turns every nonzero byte into 1. */
static bool normalises(const mst_request *r) { return r->reduction && r->dtype == MUSTER_BOOL; }

/* Is the collective a plain copy? If not, it takes the general path, which combines shards,
 * computes, serves messages of the rank to itself, and checks counts. */
static bool is_copy(const mst_request *r) {
    if (normalises(r)) return false;
    switch (r->collective) {
    case MST_ALL_REDUCE:
        return r->shards == 1;
    case MST_ALL_REDUCE_AXPY:
    case MST_ALL_REDUCE_APPLY:
    case MST_SEND:
    case MST_RECV:
        return false;
    default:
        return !r->output || r->input_count == r->output_count;
    }
}

muster_status mst_single_run(muster_communicator *communicator, muster_worker *worker, mst_request *requests, int32_t count) {
    MUSTER_TRY(mst_refuse_aborted(communicator, worker, mst_request_function(requests)));
    if (mst_request_applies(requests) && requests->shards == 1) return mst_apply_alone(communicator, worker, requests);
    for (int32_t i = 0; i < count; i++) {
        if (!is_copy(&requests[i])) return mst_batch_run(communicator, worker, requests, count);
    }
    for (int32_t i = 0; i < count; i++) MUSTER_TRY(copy(worker, &requests[i]));
    return MUSTER_OK;
}
