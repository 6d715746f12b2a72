/* Collectives by NCCL. If NCCL combines the values as the interface promises, its own collective
 * serves the request. Otherwise NCCL exchanges the inputs, Muster's kernel combines them in rank
 * order, and NCCL distributes the results. Rank r combines segment r, as between peers, so the bits
 * are the same.
 *
 *   dtype x op                                 combined by
 *   i8 u8 i32 u32 i64 u64 x sum prod max min   NCCL: exact, in any order
 *   f32 f64 x sum prod avg                     NCCL, in an order that it chooses, the same on every
 *                                              rank; in a fixed order: Muster
 *   f32 f64 x max min                          Muster: NCCL does not promise that NaN gets through
 *   f16 bf16                                   Muster: NCCL does not document in which type it sums
 *   i16 bool                                   Muster: NCCL has no such types
 *   shards, axpy, momentum                     Muster
 *
 * A rendezvous uses at most two NCCL groups, with the kernels between them. Each group contains the
 * calls of all requests. */
#include "nccl_private.h"

#include "cuda/cuda_impl.h"
#include "p2p/p2p_reduce_private.h"

typedef struct issue {
    const mst_batch *batch;
    muster_worker *worker;
    mst_nccl_worker *nccl_worker;
    mst_nccl_handle *handle;
    const mst_nccl_api *api;
    struct CUstream_st *stream;
    mst_device_staging *staging;
    int32_t size, rank;
} issue;

static muster_status check(const issue *c, mst_nccl_result result, const char *symbol) {
    return mst_nccl_error(c->api, result, symbol, c->worker->device);
}
#define CALL(c, symbol, ...) check((c), (c)->api->symbol(__VA_ARGS__), #symbol)

/* ---- what NCCL does by itself ---- */

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

static bool combines(const mst_request *r) {
    return r->collective == MST_ALL_REDUCE || r->collective == MST_ALL_REDUCE_AXPY || r->collective == MST_REDUCE ||
           r->collective == MST_REDUCE_SCATTER;
}

bool mst_nccl_native(const mst_view *view, bool fixed_order) {
    const mst_request *r = mst_view_own(view);
    if (!combines(r)) return true;
    const bool floats = mst_dtype_is_float(r->dtype), extreme = r->reduction == MUSTER_MAX || r->reduction == MUSTER_MIN;
    if (r->collective == MST_ALL_REDUCE_AXPY || type_of(r) < 0 || (floats && (extreme || fixed_order))) return false;
    if (r->collective == MST_ALL_REDUCE) return one_shard_each(view);
    return r->collective != MST_REDUCE_SCATTER || even(view);
}

static muster_status reduce_natively(const issue *c, const mst_view *view) {
    const mst_request *r = mst_view_own(view);
    const unsigned int type = (unsigned int)type_of(r), op = operation_of(r);
    if (r->collective == MST_ALL_REDUCE)
        return CALL(c, ncclAllReduce, r->input, r->output, (size_t)r->input_count, type, op, c->handle->comm, c->stream);
    if (r->collective == MST_REDUCE)
        return CALL(c, ncclReduce, r->input, r->output, (size_t)r->input_count, type, op, r->root, c->handle->comm, c->stream);
    return CALL(c, ncclReduceScatter, r->input, r->output, (size_t)r->output_count, type, op, c->handle->comm, c->stream);
}

/* ---- moving ---- */

static muster_status send(const issue *c, const void *from, int64_t bytes, int32_t peer) {
    return bytes == 0 ? MUSTER_OK : CALL(c, ncclSend, from, (size_t)bytes, MST_NCCL_UINT8, peer, c->handle->comm, c->stream);
}

static muster_status receive(const issue *c, void *to, int64_t bytes, int32_t peer) {
    return bytes == 0 ? MUSTER_OK : CALL(c, ncclRecv, to, (size_t)bytes, MST_NCCL_UINT8, peer, c->handle->comm, c->stream);
}

static muster_status copy(const issue *c, void *to, const void *from, int64_t bytes) {
    return bytes == 0 || to == from ? MUSTER_OK : c->worker->device->memory->copy(c->worker->device, to, from, bytes);
}

static muster_status broadcast(const issue *c, const mst_view *view) {
    const mst_request *r = mst_view_own(view);
    return CALL(c, ncclBroadcast, c->rank == r->root ? r->input : r->output, r->output, (size_t)(r->output_count * mst_view_element(view)),
                MST_NCCL_UINT8, r->root, c->handle->comm, c->stream);
}

/* The address of rank r's part in the concatenation at `base`. */
static void *part_at(const mst_view *view, const void *base, int32_t rank) {
    return mst_at(base, mst_view_offset(view, rank) * mst_view_element(view));
}
static int64_t part_bytes(const mst_view *view, int32_t rank) { return mst_view_part(view, rank) * mst_view_element(view); }

static muster_status all_gather(const issue *c, const mst_view *view) {
    const mst_request *r = mst_view_own(view);
    if (even(view))
        return CALL(c, ncclAllGather, r->input, r->output, (size_t)part_bytes(view, c->rank), MST_NCCL_UINT8, c->handle->comm, c->stream);
    MUSTER_TRY(copy(c, part_at(view, r->output, c->rank), r->input, part_bytes(view, c->rank)));
    for (int32_t peer = 0; peer < c->size; peer++) {
        if (peer == c->rank) continue;
        MUSTER_TRY(send(c, r->input, part_bytes(view, c->rank), peer));
        MUSTER_TRY(receive(c, part_at(view, r->output, peer), part_bytes(view, peer), peer));
    }
    return MUSTER_OK;
}

static muster_status gather(const issue *c, const mst_view *view) {
    const mst_request *r = mst_view_own(view);
    if (even(view) && c->api->ncclGather)
        return CALL(c, ncclGather, r->input, r->output, (size_t)part_bytes(view, c->rank), MST_NCCL_UINT8, r->root, c->handle->comm,
                    c->stream);
    if (c->rank != r->root) return send(c, r->input, part_bytes(view, c->rank), r->root);
    MUSTER_TRY(copy(c, part_at(view, r->output, c->rank), r->input, part_bytes(view, c->rank)));
    for (int32_t peer = 0; peer < c->size; peer++)
        if (peer != c->rank) MUSTER_TRY(receive(c, part_at(view, r->output, peer), part_bytes(view, peer), peer));
    return MUSTER_OK;
}

static muster_status scatter(const issue *c, const mst_view *view) {
    const mst_request *r = mst_view_own(view);
    if (even(view) && c->api->ncclScatter)
        return CALL(c, ncclScatter, r->input, r->output, (size_t)part_bytes(view, c->rank), MST_NCCL_UINT8, r->root, c->handle->comm,
                    c->stream);
    if (c->rank != r->root) return receive(c, r->output, part_bytes(view, c->rank), r->root);
    MUSTER_TRY(copy(c, r->output, part_at(view, r->input, c->rank), part_bytes(view, c->rank)));
    for (int32_t peer = 0; peer < c->size; peer++)
        if (peer != c->rank) MUSTER_TRY(send(c, part_at(view, r->input, peer), part_bytes(view, peer), peer));
    return MUSTER_OK;
}

/* The input is never the output here, because prepare has offered a copy. */
static muster_status all_to_all(const issue *c, const mst_view *view) {
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
            MUSTER_TRY(send(c, away.from, away.count * element, peer));
            MUSTER_TRY(receive(c, home.to, home.count * element, peer));
        }
    }
    return MUSTER_OK;
}

/* ---- combining in rank order ---- */

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

static int64_t slots_bytes(const mst_view *view) {
    const mst_request *r = mst_view_own(view);
    const int64_t vector = mst_device_staging_bytes(range_of(view, view->rank).count * mst_view_element(view));
    return vector * (mst_view_shards(view) - mst_request_shards(r) + needs_result(r, view->rank));
}

/* The staging memory that the request needs, as far as this rank can tell before the others have
 * arrived. */
static int64_t expected_bytes(const mst_batch *batch, const mst_request *r) {
    if (!combines(r)) return 0;
    const muster_communicator *communicator = batch->communicator;
    const bool fixed_order = communicator->world->fixed_order;
    const int64_t element = muster_dtype_size(r->dtype);
    int64_t count = r->collective == MST_REDUCE_SCATTER ? r->output_count : segment_of(r, communicator->size, batch->rank).count;
    bool native = r->collective != MST_ALL_REDUCE_AXPY && type_of(r) >= 0 && mst_request_shards(r) == 1 &&
                  !(mst_dtype_is_float(r->dtype) && (fixed_order || r->reduction == MUSTER_MAX || r->reduction == MUSTER_MIN));
    return native ? 0 : mst_device_staging_bytes(count * element) * (mst_request_shards(r) * communicator->size + 1);
}

/* Takes the staging memory even if another transport serves in the end. From here until the end of
 * the run some rank may be inside NCCL, and then no rank may ask the driver for memory. */
muster_status mst_nccl_prepare(mst_batch *batch) {
    mst_device_staging *staging = &mst_nccl_worker_of(batch->communicator, batch->worker)->staging;
    int64_t bytes = 0;
    bool expected = false;
    for (int32_t i = 0; i < batch->count; i++) {
        bytes += mst_device_copy_bytes(batch, i);
        if (mst_transport_winner(batch->communicator, &batch->requests[i], NULL) != &mst_transport_nccl) continue;
        bytes += expected_bytes(batch, &batch->requests[i]);
        expected = true;
    }
    MUSTER_TRY(mst_device_staging_begin(batch->worker, staging, bytes));
    if (expected) batch->worker->device->in_flight = true;
    for (int32_t i = 0; i < batch->count; i++) MUSTER_TRY(mst_device_offer_copy(batch, i, staging));
    return MUSTER_OK;
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

static muster_status exchange(const issue *c, const mst_view *view, char *slots) {
    const mst_request *own_request = mst_view_own(view);
    const int64_t element = mst_view_element(view), vector = own_request->output_count * element,
                  mine = range_of(view, c->rank).count * element;
    for (int32_t peer = 0; peer < c->size; peer++) {
        const range theirs = range_of(view, peer);
        if (peer == c->rank) continue;
        for (int64_t shard = 0; shard < mst_request_shards(own_request); shard++)
            MUSTER_TRY(send(c, (const char *)own_request->input + shard * vector + theirs.begin * element, theirs.count * element, peer));
        for (int64_t shard = 0; shard < mst_request_shards(view->requests[peer]) && mine > 0; shard++)
            MUSTER_TRY(receive(c, input_of(view, slots, peer, shard), mine, peer));
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

static muster_status combine(const issue *c, const mst_view *view, char *slots) {
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

/* Sends the combined segments to all ranks, or to the root. */
static muster_status spread(const issue *c, const mst_view *view, char *slots) {
    const mst_request *own_request = mst_view_own(view);
    const int64_t element = mst_view_element(view), mine = range_of(view, c->rank).count * element;
    if (own_request->collective == MST_REDUCE_SCATTER) return MUSTER_OK;
    for (int32_t peer = 0; peer < c->size; peer++) {
        const range theirs = range_of(view, peer);
        const bool rooted = own_request->collective == MST_REDUCE;
        if (peer == c->rank) continue;
        if (!rooted || peer == own_request->root) MUSTER_TRY(send(c, result_of(view, slots), mine, peer));
        if (!rooted || c->rank == own_request->root)
            MUSTER_TRY(receive(c, (char *)own_request->output + theirs.begin * element, theirs.count * element, peer));
    }
    return MUSTER_OK;
}

/* ---- batches ---- */

static bool goes_natively(const issue *c, const mst_view *view) {
    return mst_nccl_native(view, c->batch->communicator->world->fixed_order);
}

static muster_status begin_request(const issue *c, const mst_view *view, char *slots) {
    if (!goes_natively(c, view)) return exchange(c, view, slots);
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

typedef muster_status (*step)(const issue *c, const mst_view *view, char *slots);
/* Runs a step for each request that NCCL serves, or, without `all`, only for those that Muster's
 * kernel combines. The slots of the latter lie one after the other. */
static muster_status each(const issue *c, step step, bool all) {
    char *slots = c->staging->memory + c->staging->used;
    for (int32_t i = 0; i < c->batch->count; i++) {
        if (c->batch->winners[i] != MST_TRANSPORT_nccl) continue;
        mst_view view = mst_batch_view(c->batch, i);
        const bool native = goes_natively(c, &view);
        if (all || !native) MUSTER_TRY(step(c, &view, slots));
        if (!native) slots += slots_bytes(&view);
    }
    return MUSTER_OK;
}

/* Runs a step inside an NCCL group, which must be ended even after a failure in it. */
static muster_status grouped(const issue *c, step step, bool all) {
    char message[MST_MESSAGE_SIZE];
    MUSTER_TRY(CALL(c, ncclGroupStart));
    muster_status status = each(c, step, all);
    if (status != MUSTER_OK) mst_error_save(message);
    mst_nccl_result result = c->api->ncclGroupEnd();
    if (status != MUSTER_OK) return mst_error_restore(status, message);
    return mst_nccl_synchronize(c->nccl_worker, c->handle, result, "ncclGroupEnd");
}

static muster_status make_slots(const issue *c, bool *combined) {
    int64_t bytes = 0;
    for (int32_t i = 0; i < c->batch->count; i++) {
        if (c->batch->winners[i] != MST_TRANSPORT_nccl) continue;
        mst_view view = mst_batch_view(c->batch, i);
        if (goes_natively(c, &view)) continue;
        bytes += slots_bytes(&view);
        *combined = true;
    }
    if (c->staging->used + bytes <= c->staging->capacity) return MUSTER_OK;
    if (c->staging->used == 0) return mst_device_staging_begin(c->worker, c->staging, bytes);
    return mst_error(MUSTER_OUT_OF_MEMORY,
                     "NCCL on %s: out of memory: expected room for %lld bytes beside %lld that are in use, received %lld",
                     c->worker->device->name, (long long)bytes, (long long)c->staging->used, (long long)c->staging->capacity);
}

static muster_status issue_all(const issue *c) {
    bool combined = false;
    MUSTER_TRY(make_slots(c, &combined));
    MUSTER_TRY(grouped(c, begin_request, true));
    if (!combined) return MUSTER_OK;
    MUSTER_TRY(each(c, combine, false));
    return grouped(c, spread, false);
}

muster_status mst_nccl_run(const mst_batch *batch) {
    muster_worker *worker = batch->worker;
    mst_nccl_worker *nccl_worker = mst_nccl_worker_of(batch->communicator, worker);
    const issue c = {.batch = batch,
                     .worker = worker,
                     .nccl_worker = nccl_worker,
                     .handle = mst_nccl_state_of(batch->communicator)->handles[batch->rank],
                     .api = nccl_worker->nccl->api,
                     .stream = mst_cuda_stream(worker->device),
                     .staging = &nccl_worker->staging,
                     .size = batch->communicator->size,
                     .rank = batch->rank};
    if (!c.handle || !c.handle->comm)
        return mst_error(MUSTER_ABORTED, "%s: rank %d has lost its NCCL communicator with the call", batch->function, batch->rank);
    worker->device->in_flight = true;
    nccl_worker->used = worker->epoch;
    nccl_worker->function = batch->function;
    muster_status status = issue_all(&c);
    /* The other ranks may be inside NCCL and wait for data that this rank will not send. */
    if (status != MUSTER_OK) mst_pool_abort(worker, mst_collective_error(batch->function, status));
    return status;
}
