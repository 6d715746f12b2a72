/* all_reduce_apply between peers: the kernel that combines in rank order writes the sums of this
 * rank's portion to staging memory, the rule updates this rank's own parameters, and copies bring
 * the new values to the other ranks' parameters. */
#include "core/apply_private.h"
#include "p2p_private.h"
#include "p2p_reduce_private.h"

int64_t mst_p2p_apply_bytes(const muster_communicator *communicator, int32_t rank, const mst_request *request) {
    int64_t begin, end;
    if (!mst_request_applies(request)) return 0;
    mst_apply_portion(request->dtype, request->output_count, communicator->size, rank, &begin, &end);
    return (end - begin) * muster_dtype_size(request->dtype);
}

muster_status mst_p2p_apply_reserve(muster_communicator *communicator, muster_worker *worker, const mst_request *request) {
    return mst_device_staging_begin(worker, &mst_p2p_of(communicator)->workers[worker->rank].staging,
                                    mst_p2p_apply_bytes(communicator, mst_communicator_rank(communicator, worker), request));
}

/* One kernel for as many segments as lie one behind the other in the vectors of all ranks. */
static muster_status sum_portion(muster_worker *worker, const mst_view *view, int64_t begin, int64_t end, char *sums) {
    mst_apply_iterator iterator = mst_apply_iterate(mst_view_offer(view, view->rank), begin, end);
    mst_apply_range range;
    while (mst_apply_next(&iterator, &range)) {
        mst_p2p_reduce_parameters p = mst_p2p_parameters(view);
        mst_apply_join(view, &iterator, &range);
        p.count = range.count;
        for (int32_t r = 0; r < view->size; r++)
            for (int64_t shard = 0; shard < view->requests[r]->shards; shard++)
                p.input[p.inputs++] = (void *)(uintptr_t)mst_apply_input(view, r, shard, &range);
        p.output[p.outputs++] = sums + (range.at - begin) * mst_view_element(view);
        MUSTER_TRY(mst_p2p_launch(worker, view, &p, 0));
    }
    return MUSTER_OK;
}

static muster_status spread(muster_worker *worker, const mst_view *view, int64_t begin, int64_t end) {
    const mst_apply_offer *own_offer = mst_view_offer(view, view->rank);
    const int64_t element = mst_view_element(view);
    mst_apply_iterator iterator = mst_apply_iterate(own_offer, begin, end);
    mst_apply_range range;
    while (mst_apply_next(&iterator, &range)) {
        const void *values = mst_apply_parameter(own_offer, range.segment, range.first, element);
        for (int32_t i = 1; i < view->size; i++)
            MUSTER_TRY(worker->device->memory->copy(worker->device, mst_apply_output(view, (view->rank + i) % view->size, &range), values,
                                                    range.count * element));
    }
    return MUSTER_OK;
}

muster_status mst_p2p_apply(muster_worker *worker, const mst_view *view, char *sums) {
    int64_t begin, end;
    mst_view_portion(view, view->rank, &begin, &end);
    MUSTER_TRY(sum_portion(worker, view, begin, end, sums));
    MUSTER_TRY(mst_apply_sums(view, worker, sums));
    MUSTER_TRY(mst_apply_locals(view, worker));
    return spread(worker, view, begin, end);
}
