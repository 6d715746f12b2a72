/* Reductions that NCCL does not compute as the interface promises: NCCL exchanges the inputs, the
 * kernel of p2p combines them in rank order, and NCCL distributes the results. */
#include "nccl_issue_private.h"

#include "core/apply_private.h"
#include "p2p/p2p_reduce_private.h"

/* The elements that rank r combines. */
typedef struct range {
    int64_t begin, count;
} range;

static range segment_of(const mst_request *r, int32_t size, int32_t rank) {
    int64_t end, count = r->collective == MST_REDUCE ? r->input_count : r->output_count;
    range s;
    mst_segment(count, muster_dtype_size(r->dtype), size, rank, &s.begin, &end);
    s.count = end - s.begin;
    return s;
}

static range range_of(const mst_view *view, int32_t rank) {
    const mst_request *r = mst_view_own(view);
    if (r->collective == MST_REDUCE_SCATTER) return (range){mst_view_offset(view, rank), mst_view_part(view, rank)};
    return segment_of(r, view->size, rank);
}

/* A rank that has no output in a reduce needs staging memory for its segment of the result. */
static bool needs_result(const mst_request *r, int32_t rank) { return r->collective == MST_REDUCE && rank != r->root; }

int64_t mst_nccl_slots_bytes(const mst_view *view) {
    if (mst_request_applies(mst_view_own(view))) return mst_nccl_apply_bytes(view);
    const mst_request *r = mst_view_own(view);
    const int64_t vector = mst_device_staging_bytes(range_of(view, view->rank).count * mst_view_element(view));
    return vector * (mst_view_shards(view) - mst_request_shards(r) + needs_result(r, view->rank));
}

int64_t mst_nccl_expected_bytes(const muster_communicator *communicator, int32_t rank, const mst_request *r) {
    if (!mst_nccl_combines(r)) return 0;
    const int64_t element = muster_dtype_size(r->dtype);
    int64_t state, count = r->collective == MST_REDUCE_SCATTER ? r->output_count
                           : mst_request_applies(r)            ? mst_apply_extent(r->apply, communicator->size, rank, &state)
                                                               : segment_of(r, communicator->size, rank).count;
    if (mst_request_finishes(r)) return 0;
    const bool native = mst_request_shards(r) == 1 && mst_nccl_sums(r, communicator->world->fixed_order);
    return native ? 0 : mst_device_staging_bytes(count * element) * (mst_request_shards(r) * communicator->size + 1);
}

/* The address of a shard of rank r after the exchange. `slots` is the staging memory of this
 * request. */
static char *input_of(const mst_view *view, char *slots, int32_t rank, int64_t shard) {
    const mst_request *own_request = mst_view_own(view);
    const range mine = range_of(view, view->rank);
    const int64_t element = mst_view_element(view), vector = own_request->output_count * element;
    int64_t slot = 0;
    if (rank == view->rank) return (char *)own_request->input + shard * vector + mine.begin * element;
    for (int32_t r = 0; r < rank; r++) slot += r == view->rank ? 0 : mst_request_shards(view->requests[r]);
    return slots + (slot + shard) * mst_device_staging_bytes(mine.count * element);
}

muster_status mst_nccl_exchange(const mst_nccl_issue *c, const mst_view *view, char *slots) {
    if (mst_request_applies(mst_view_own(view))) return mst_nccl_apply_exchange(c, view, slots);
    const mst_request *own_request = mst_view_own(view);
    const int64_t element = mst_view_element(view), vector = own_request->output_count * element,
                  mine = range_of(view, c->rank).count * element;
    for (int32_t peer = 0; peer < c->size; peer++) {
        const range theirs = range_of(view, peer);
        if (peer == c->rank) continue;
        for (int64_t shard = 0; shard < mst_request_shards(own_request); shard++)
            MUSTER_TRY(
                mst_nccl_send(c, (const char *)own_request->input + shard * vector + theirs.begin * element, theirs.count * element, peer));
        for (int64_t shard = 0; shard < mst_request_shards(view->requests[peer]) && mine > 0; shard++)
            MUSTER_TRY(mst_nccl_receive(c, input_of(view, slots, peer, shard), mine, peer));
    }
    return MUSTER_OK;
}

static char *result_of(const mst_view *view, char *slots) {
    const mst_request *own_request = mst_view_own(view);
    const range mine = range_of(view, view->rank);
    const int64_t element = mst_view_element(view);
    if (needs_result(own_request, view->rank)) return slots + (mst_view_shards(view) - 1) * mst_device_staging_bytes(mine.count * element);
    return (char *)own_request->output + (own_request->collective == MST_REDUCE_SCATTER ? 0 : mine.begin * element);
}

muster_status mst_nccl_combine(const mst_nccl_issue *c, const mst_view *view, char *slots) {
    if (mst_request_applies(mst_view_own(view))) return mst_nccl_apply_rule(c, view, slots);
    const range mine = range_of(view, c->rank);
    mst_p2p_reduce_parameters p = mst_p2p_parameters(view);
    p.count = mine.count;
    if (p.count == 0) return MUSTER_OK;
    for (int32_t r = 0; r < c->size; r++)
        for (int64_t shard = 0; shard < mst_request_shards(view->requests[r]); shard++)
            p.input[p.inputs++] = input_of(view, slots, r, shard);
    p.output[p.outputs++] = result_of(view, slots);
    return mst_p2p_launch(c->worker, view, &p, mine.begin);
}

muster_status mst_nccl_spread(const mst_nccl_issue *c, const mst_view *view, char *slots) {
    if (mst_request_applies(mst_view_own(view))) return mst_nccl_apply_spread(c, view);
    const mst_request *own_request = mst_view_own(view);
    const int64_t element = mst_view_element(view), mine = range_of(view, c->rank).count * element;
    if (own_request->collective == MST_REDUCE_SCATTER) return MUSTER_OK;
    for (int32_t peer = 0; peer < c->size; peer++) {
        const range theirs = range_of(view, peer);
        const bool rooted = own_request->collective == MST_REDUCE;
        if (peer == c->rank) continue;
        if (!rooted || peer == own_request->root) MUSTER_TRY(mst_nccl_send(c, result_of(view, slots), mine, peer));
        if (!rooted || c->rank == own_request->root)
            MUSTER_TRY(mst_nccl_receive(c, (char *)own_request->output + theirs.begin * element, theirs.count * element, peer));
    }
    return MUSTER_OK;
}
