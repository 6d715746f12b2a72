/* all_reduce_apply by NCCL: NCCL exchanges the gradients of each portion, Muster's kernel sums them
 * in rank order, to staging memory or, between two phases, over this rank's gradients, the rule
 * updates the owner's parameters, and NCCL brings the new values from there into the parameters of
 * all other ranks, segment by segment. */
#include "nccl_issue_private.h"

#include "core/apply_private.h"
#include "p2p/p2p_reduce_private.h"

/* The bytes of one vector in the slots. */
static int64_t vector_bytes(const mst_view *view) {
    int64_t state;
    return mst_device_staging_bytes(mst_view_extent(view, view->rank, &state) * mst_view_element(view));
}

/* Where the range begins in such a vector, in bytes. */
static int64_t offset_of(const mst_view *view, const mst_apply_range *range) {
    int64_t state;
    (void)mst_view_extent(view, view->rank, &state);
    return (range->state - state) * mst_view_element(view);
}

int64_t mst_nccl_apply_bytes(const mst_view *view) {
    const uint8_t phase = mst_view_offer(view, view->rank)->phase;
    if (phase == MST_APPLY_FINISH) return 0;
    return vector_bytes(view) * (mst_view_shards(view) - mst_view_own(view)->shards + (phase == MST_APPLY_WHOLE));
}

/* The slots hold a vector for each shard of the other ranks, and then the sums of a whole step. */
static char *slot_of(const mst_view *view, char *slots, int32_t rank, int64_t shard) {
    int64_t before = 0;
    for (int32_t r = 0; r < rank; r++) before += r == view->rank ? 0 : view->requests[r]->shards;
    return slots + (before + shard) * vector_bytes(view);
}
/* NULL: they are kept between two phases. */
static char *sums_of(const mst_view *view, char *slots) {
    return mst_view_offer(view, view->rank)->phase == MST_APPLY_WHOLE ? slot_of(view, slots, view->size, 0) : NULL;
}

static muster_status send_gradients(const mst_nccl_issue *c, const mst_view *view, int32_t peer) {
    for (int64_t shard = 0; shard < mst_view_own(view)->shards; shard++) {
        mst_apply_iterator iterator = mst_view_iterate(view, peer);
        mst_apply_range range;
        while (mst_apply_next(&iterator, &range)) {
            mst_apply_join(view, &iterator, &range);
            MUSTER_TRY(mst_nccl_send(c, mst_apply_input(view, view->rank, shard, &range), range.count * mst_view_element(view), peer));
        }
    }
    return MUSTER_OK;
}

static muster_status receive_gradients(const mst_nccl_issue *c, const mst_view *view, char *slots, int32_t peer) {
    const int64_t element = mst_view_element(view);
    for (int64_t shard = 0; shard < view->requests[peer]->shards; shard++) {
        mst_apply_iterator iterator = mst_view_iterate(view, view->rank);
        mst_apply_range range;
        while (mst_apply_next(&iterator, &range)) {
            char *slot = slot_of(view, slots, peer, shard) + offset_of(view, &range);
            mst_apply_join(view, &iterator, &range);
            MUSTER_TRY(mst_nccl_receive(c, slot, range.count * element, peer));
        }
    }
    return MUSTER_OK;
}

muster_status mst_nccl_apply_exchange(const mst_nccl_issue *c, const mst_view *view, char *slots) {
    if (mst_view_offer(view, view->rank)->phase == MST_APPLY_FINISH) return MUSTER_OK;
    for (int32_t peer = 0; peer < c->size; peer++) {
        if (peer == c->rank) continue;
        MUSTER_TRY(send_gradients(c, view, peer));
        MUSTER_TRY(receive_gradients(c, view, slots, peer));
    }
    return MUSTER_OK;
}

static muster_status sum_range(const mst_nccl_issue *c, const mst_view *view, char *slots, const mst_apply_range *range) {
    const int64_t at = offset_of(view, range);
    char *sums = sums_of(view, slots);
    mst_p2p_reduce_parameters p = mst_p2p_parameters(view);
    p.count = range->count;
    for (int32_t r = 0; r < view->size; r++)
        for (int64_t shard = 0; shard < view->requests[r]->shards; shard++)
            p.input[p.inputs++] =
                r == view->rank ? (void *)(uintptr_t)mst_apply_input(view, r, shard, range) : slot_of(view, slots, r, shard) + at;
    p.output[p.outputs++] = sums ? sums + at : mst_apply_kept(view, range);
    return mst_p2p_launch(c->worker, view, &p, 0);
}

muster_status mst_nccl_apply_rule(const mst_nccl_issue *c, const mst_view *view, char *slots) {
    mst_apply_iterator iterator = mst_view_iterate(view, view->rank);
    mst_apply_range range;
    while (mst_view_offer(view, view->rank)->phase != MST_APPLY_FINISH && mst_apply_next(&iterator, &range)) {
        mst_apply_join(view, &iterator, &range);
        MUSTER_TRY(sum_range(c, view, slots, &range));
    }
    MUSTER_TRY(mst_apply_sums(view, c->worker, sums_of(view, slots)));
    return mst_apply_locals(view, c->worker);
}

/* The values of the portion of rank `of` go from its parameters to those of all others. */
static muster_status move_parameters(const mst_nccl_issue *c, const mst_view *view, int32_t owner, int32_t peer) {
    const int64_t element = mst_view_element(view);
    mst_apply_iterator iterator = mst_view_iterate(view, owner);
    mst_apply_range range;
    while (mst_apply_next(&iterator, &range)) {
        void *parameter = mst_apply_parameter(mst_view_offer(view, view->rank), range.segment, range.first, element);
        MUSTER_TRY(owner == view->rank ? mst_nccl_send(c, parameter, range.count * element, peer)
                                       : mst_nccl_receive(c, parameter, range.count * element, peer));
    }
    return MUSTER_OK;
}

muster_status mst_nccl_apply_spread(const mst_nccl_issue *c, const mst_view *view) {
    if (mst_view_offer(view, view->rank)->phase == MST_APPLY_SUM) return MUSTER_OK;
    for (int32_t peer = 0; peer < c->size; peer++) {
        if (peer == c->rank) continue;
        MUSTER_TRY(move_parameters(c, view, c->rank, peer));
        MUSTER_TRY(move_parameters(c, view, peer, peer));
    }
    return MUSTER_OK;
}
