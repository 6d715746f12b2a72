/* Groups: the requests that a member records between group_begin and group_end, and how a batch of
 * requests is served. */
#include "rendezvous_private.h"

muster_status mst_group_begin(muster_communicator *communicator, muster_worker *worker, const char *where) {
    mst_group *group = &communicator->members[mst_communicator_rank(communicator, worker)].group;
    if (!group->requests) {
        /* Three arrays: the recorded requests, the sorted ones, and those offered to the other
         * members. */
        const size_t bytes = MST_GROUP_REQUESTS * (3 * sizeof(mst_request) + sizeof *group->winners);
        group->requests = mst_alloc(bytes);
        if (!group->requests) return mst_out_of_memory(where, (int64_t)bytes);
        group->winners = (uint8_t *)(group->requests + 3 * MST_GROUP_REQUESTS);
    }
    group->count = 0;
    group->epoch = worker->epoch;
    mst_worker_collectives *state = mst_collectives_of(worker);
    if (state->group_epoch != worker->epoch) state->open_groups = 0; /* those of an aborted run were never ended */
    state->group_epoch = worker->epoch;
    state->open_groups++;
    return MUSTER_OK;
}

muster_status mst_group_end(muster_communicator *communicator, muster_worker *worker) {
    mst_group *group = &communicator->members[mst_communicator_rank(communicator, worker)].group;
    group->epoch = 0;
    mst_collectives_of(worker)->open_groups--;
    return group->count == 0 ? MUSTER_OK : mst_communicator_run_of_body(communicator, worker, group->requests, group->count);
}

/* Sorts the requests into sorted[count]: first the collectives, then the messages, each in the
 * order of the calls. Returns the number of collectives. */
static int32_t sort_requests(const mst_request *requests, mst_request *sorted, int32_t count) {
    int32_t filled = 0;
    for (int32_t i = 0; i < count; i++) {
        if (!mst_request_is_message(&requests[i])) sorted[filled++] = requests[i];
    }
    int32_t collectives = filled;
    for (int32_t i = 0; i < count; i++) {
        if (mst_request_is_message(&requests[i])) sorted[filled++] = requests[i];
    }
    return collectives;
}

/* Messages are posted before the rendezvous and received after it, so both sides of a message may
 * be in groups. */
muster_status mst_batch_run(muster_communicator *communicator, muster_worker *worker, mst_request *requests, int32_t count) {
    if (count == 1 && !mst_request_is_message(requests)) return mst_rendezvous_run(communicator, worker, requests, NULL, 1);
    MUSTER_TRY(mst_refuse_aborted(communicator, worker, count == 1 ? mst_request_function(requests) : "muster_worker_group_end"));
    MUSTER_TRY(mst_messages_check(communicator, worker, requests, count));
    const mst_transport *between = communicator->span ? communicator->exclusive[MST_GROUP] : NULL;
    if (count == 1 && between) return between->message(communicator, worker, requests);
    if (count == 1) return mst_message_run(communicator, worker, requests);
    mst_request *sorted = requests + MST_GROUP_REQUESTS, *array = sorted + MST_GROUP_REQUESTS;
    int32_t collectives = sort_requests(requests, sorted, count);
    if (collectives == count) return mst_rendezvous_run(communicator, worker, sorted, array, count);
    if (between) return between->group(communicator, worker, sorted, array, collectives, sorted + collectives, count - collectives);
    muster_status status = mst_messages_post(communicator, worker, sorted + collectives, count - collectives);
    if (status == MUSTER_OK && collectives > 0) status = mst_rendezvous_run(communicator, worker, sorted, array, collectives);
    if (status == MUSTER_OK) status = mst_messages_receive(communicator, worker, sorted + collectives, count - collectives);
    return mst_messages_finish(communicator, worker, status);
}
