/* all_reduce_apply between peers: the kernel that combines in rank order writes the sums of this
 * rank's portion to staging memory, or over its gradients between two phases, the rule updates this
 * rank's own parameters, and copies bring the new values to the other ranks' parameters. */
#include "core/apply_private.h"
#include "p2p_private.h"
#include "p2p_reduce_private.h"

int64_t mst_p2p_apply_bytes(const muster_communicator *communicator, int32_t rank, const mst_request *request) {
    if (!mst_request_applies(request) || request->apply->phase != MST_APPLY_WHOLE) return 0;
    return mst_apply_portion(&request->apply->layout, communicator->size, rank) * muster_dtype_size(request->dtype);
}

muster_status mst_p2p_apply_reserve(muster_communicator *communicator, muster_worker *worker, const mst_request *request) {
    return mst_device_staging_begin(worker, &mst_p2p_of(communicator)->workers[worker->rank].staging,
                                    mst_p2p_apply_bytes(communicator, mst_communicator_rank(communicator, worker), request));
}

/* One kernel for as many segments as lie one behind the other in the vectors of all ranks. sums
 * NULL: they go where they are kept between the phases; the kernel has read an element of all ranks
 * before it writes it. */
static muster_status sum_portion(muster_worker *worker, const mst_view *view, char *sums) {
    mst_apply_iterator iterator = mst_view_iterate(view, view->rank);
    mst_apply_range range;
    int64_t begin;
    (void)mst_view_extent(view, view->rank, &begin);
    while (mst_apply_next(&iterator, &range)) {
        mst_p2p_reduce_parameters p = mst_p2p_parameters(view);
        const mst_apply_range first = range;
        mst_apply_join(view, &iterator, &range);
        p.count = range.count;
        for (int32_t r = 0; r < view->size; r++)
            for (int64_t shard = 0; shard < view->requests[r]->shards; shard++)
                p.input[p.inputs++] = (void *)(uintptr_t)mst_apply_input(view, r, shard, &range);
        p.output[p.outputs++] = sums ? sums + (first.state - begin) * mst_view_element(view) : mst_apply_kept(view, &first);
        MUSTER_TRY(mst_p2p_launch(worker, view, &p, 0));
    }
    return MUSTER_OK;
}

static muster_status spread(muster_worker *worker, const mst_view *view) {
    const mst_apply_offer *own_offer = mst_view_offer(view, view->rank);
    const int64_t element = mst_view_element(view);
    mst_apply_iterator iterator = mst_view_iterate(view, view->rank);
    mst_apply_range range;
    while (mst_apply_next(&iterator, &range)) {
        const void *values = mst_apply_parameter(own_offer, range.segment, range.first, element);
        for (int32_t i = 1; i < view->size; i++)
            MUSTER_TRY(worker->device->memory->copy(worker->device, mst_apply_output(view, (view->rank + i) % view->size, &range), values,
                                                    range.count * element));
    }
    return MUSTER_OK;
}

muster_status mst_p2p_apply(muster_worker *worker, const mst_view *view, char *staging) {
    const uint8_t phase = mst_view_offer(view, view->rank)->phase;
    char *sums = phase == MST_APPLY_WHOLE ? staging : NULL;
    if (phase != MST_APPLY_FINISH) MUSTER_TRY(sum_portion(worker, view, sums));
    MUSTER_TRY(mst_apply_sums(view, worker, sums));
    MUSTER_TRY(mst_apply_locals(view, worker));
    return phase == MST_APPLY_SUM ? MUSTER_OK : spread(worker, view);
}
