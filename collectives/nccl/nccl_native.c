/* Collectives that NCCL does by itself: reductions that it computes as the interface promises, and
 * everything that only moves data. The table of the values is in nccl_run.c. */
#include "nccl_issue_private.h"

#define CALL MST_NCCL_CALL

/* ---- which ---- */

/* Negative: NCCL has no such type, or does not combine it as promised. */
static int type_of(const mst_request *r) {
    switch (r->dtype) {
    case MUSTER_I8:
        return MST_NCCL_INT8;
    case MUSTER_U8:
        return MST_NCCL_UINT8;
    case MUSTER_I32:
        return MST_NCCL_INT32;
    case MUSTER_U32:
        return MST_NCCL_UINT32;
    case MUSTER_I64:
        return MST_NCCL_INT64;
    case MUSTER_U64:
        return MST_NCCL_UINT64;
    case MUSTER_F32:
        return MST_NCCL_FLOAT32;
    case MUSTER_F64:
        return MST_NCCL_FLOAT64;
    default:
        return -1;
    }
}

static unsigned int operation_of(const mst_request *r) {
    switch (r->reduction) {
    case MUSTER_PROD:
        return MST_NCCL_PROD;
    case MUSTER_MAX:
        return MST_NCCL_MAX;
    case MUSTER_MIN:
        return MST_NCCL_MIN;
    case MUSTER_AVG:
        return MST_NCCL_AVG;
    default:
        return MST_NCCL_SUM;
    }
}

static bool even(const mst_view *view) {
    for (int32_t r = 1; r < view->size; r++)
        if (mst_view_part(view, r) != mst_view_part(view, 0)) return false;
    return true;
}

static bool one_shard_each(const mst_view *view) {
    for (int32_t r = 0; r < view->size; r++)
        if (view->requests[r]->shards != 1) return false;
    return true;
}

bool mst_nccl_combines(const mst_request *r) {
    return r->collective == MST_ALL_REDUCE || r->collective == MST_ALL_REDUCE_AXPY || mst_request_applies(r) ||
           r->collective == MST_REDUCE || r->collective == MST_REDUCE_SCATTER;
}

bool mst_nccl_sums(const mst_request *r, bool fixed_order) {
    const bool floats = mst_dtype_is_float(r->dtype), extreme = r->reduction == MUSTER_MAX || r->reduction == MUSTER_MIN;
    return r->collective != MST_ALL_REDUCE_AXPY && !mst_request_applies(r) && type_of(r) >= 0 && !(floats && (extreme || fixed_order));
}

bool mst_nccl_native(const mst_view *view, bool fixed_order) {
    const mst_request *r = mst_view_own(view);
    if (!mst_nccl_combines(r)) return true;
    if (!mst_nccl_sums(r, fixed_order)) return false;
    if (r->collective == MST_ALL_REDUCE) return one_shard_each(view);
    return r->collective != MST_REDUCE_SCATTER || even(view);
}

/* ---- reductions ---- */

static muster_status reduce_natively(const mst_nccl_issue *c, const mst_view *view) {
    const mst_request *r = mst_view_own(view);
    const unsigned int type = (unsigned int)type_of(r), op = operation_of(r);
    if (r->collective == MST_ALL_REDUCE)
        return CALL(c, ncclAllReduce, r->input, r->output, (size_t)r->input_count, type, op, c->handle->comm, c->stream);
    if (r->collective == MST_REDUCE)
        return CALL(c, ncclReduce, r->input, r->output, (size_t)r->input_count, type, op, r->root, c->handle->comm, c->stream);
    return CALL(c, ncclReduceScatter, r->input, r->output, (size_t)r->output_count, type, op, c->handle->comm, c->stream);
}

/* ---- moving ---- */

static muster_status copy(const mst_nccl_issue *c, void *to, const void *from, int64_t bytes) {
    return bytes == 0 || to == from ? MUSTER_OK : c->worker->device->memory->copy(c->worker->device, to, from, bytes);
}

static muster_status broadcast(const mst_nccl_issue *c, const mst_view *view) {
    const mst_request *r = mst_view_own(view);
    return CALL(c, ncclBroadcast, c->rank == r->root ? r->input : r->output, r->output, (size_t)(r->output_count * mst_view_element(view)),
                MST_NCCL_UINT8, r->root, c->handle->comm, c->stream);
}

/* The address of rank r's part in the concatenation at `base`. */
static void *part_at(const mst_view *view, const void *base, int32_t rank) {
    return mst_at(base, mst_view_offset(view, rank) * mst_view_element(view));
}
static int64_t part_bytes(const mst_view *view, int32_t rank) { return mst_view_part(view, rank) * mst_view_element(view); }

static muster_status all_gather(const mst_nccl_issue *c, const mst_view *view) {
    const mst_request *r = mst_view_own(view);
    if (even(view))
        return CALL(c, ncclAllGather, r->input, r->output, (size_t)part_bytes(view, c->rank), MST_NCCL_UINT8, c->handle->comm, c->stream);
    MUSTER_TRY(copy(c, part_at(view, r->output, c->rank), r->input, part_bytes(view, c->rank)));
    for (int32_t peer = 0; peer < c->size; peer++) {
        if (peer == c->rank) continue;
        MUSTER_TRY(mst_nccl_send(c, r->input, part_bytes(view, c->rank), peer));
        MUSTER_TRY(mst_nccl_receive(c, part_at(view, r->output, peer), part_bytes(view, peer), peer));
    }
    return MUSTER_OK;
}

static muster_status gather(const mst_nccl_issue *c, const mst_view *view) {
    const mst_request *r = mst_view_own(view);
    if (even(view) && c->api->ncclGather)
        return CALL(c, ncclGather, r->input, r->output, (size_t)part_bytes(view, c->rank), MST_NCCL_UINT8, r->root, c->handle->comm,
                    c->stream);
    if (c->rank != r->root) return mst_nccl_send(c, r->input, part_bytes(view, c->rank), r->root);
    MUSTER_TRY(copy(c, part_at(view, r->output, c->rank), r->input, part_bytes(view, c->rank)));
    for (int32_t peer = 0; peer < c->size; peer++)
        if (peer != c->rank) MUSTER_TRY(mst_nccl_receive(c, part_at(view, r->output, peer), part_bytes(view, peer), peer));
    return MUSTER_OK;
}

static muster_status scatter(const mst_nccl_issue *c, const mst_view *view) {
    const mst_request *r = mst_view_own(view);
    if (even(view) && c->api->ncclScatter)
        return CALL(c, ncclScatter, r->input, r->output, (size_t)part_bytes(view, c->rank), MST_NCCL_UINT8, r->root, c->handle->comm,
                    c->stream);
    if (c->rank != r->root) return mst_nccl_receive(c, r->output, part_bytes(view, c->rank), r->root);
    MUSTER_TRY(copy(c, r->output, part_at(view, r->input, c->rank), part_bytes(view, c->rank)));
    for (int32_t peer = 0; peer < c->size; peer++)
        if (peer != c->rank) MUSTER_TRY(mst_nccl_send(c, part_at(view, r->input, peer), part_bytes(view, peer), peer));
    return MUSTER_OK;
}

/* The input is never the output here, because prepare has offered a copy. */
static muster_status all_to_all(const mst_nccl_issue *c, const mst_view *view) {
    const mst_request *r = mst_view_own(view);
    const int64_t element = mst_view_element(view);
    if (!r->send_counts && c->api->ncclAlltoAll)
        return CALL(c, ncclAlltoAll, r->input, r->output, (size_t)(r->input_count / c->size * element), MST_NCCL_UINT8, c->handle->comm,
                    c->stream);
    for (int32_t peer = 0; peer < c->size; peer++) {
        mst_block away = mst_view_block(view, c->rank, peer), home = mst_view_block(view, peer, c->rank);
        if (peer == c->rank) {
            MUSTER_TRY(copy(c, home.to, home.from, home.count * element));
        } else {
            MUSTER_TRY(mst_nccl_send(c, away.from, away.count * element, peer));
            MUSTER_TRY(mst_nccl_receive(c, home.to, home.count * element, peer));
        }
    }
    return MUSTER_OK;
}

/* ---- all of them ---- */

muster_status mst_nccl_do_natively(const mst_nccl_issue *c, const mst_view *view) {
    const mst_request *r = mst_view_own(view);
    switch (r->collective) {
    case MST_ALL_REDUCE:
    case MST_REDUCE:
    case MST_REDUCE_SCATTER:
        return reduce_natively(c, view);
    case MST_BROADCAST:
        return broadcast(c, view);
    case MST_ALL_GATHER:
        return all_gather(c, view);
    case MST_GATHER:
        return gather(c, view);
    case MST_SCATTER:
        return scatter(c, view);
    case MST_ALL_TO_ALL:
        return all_to_all(c, view);
    default:
        return MUSTER_OK; /* a barrier has nothing to move */
    }
}
