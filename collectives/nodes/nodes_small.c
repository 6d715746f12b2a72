/* Small collectives: what a process brings travels in the payload of the arrival, behind its
 * records, so nothing moves afterwards. Every process folds in the order in which a move would.
 *
 * Nobody knows what the others request when the payload is made. Processes that bring other numbers
 * of bytes learn that from the arrival, and all agree once more without the values. Where the bytes
 * are equal, but not the requests, the records say so, and the values are not looked at. */
#include "names_private.h"
#include "nodes_transport_private.h"

static bool is_reduction(mst_collective c) {
    return c == MST_ALL_REDUCE || c == MST_ALL_REDUCE_AXPY || c == MST_REDUCE || c == MST_REDUCE_SCATTER;
}
static bool is_joined(mst_collective c) { return c == MST_ALL_GATHER || c == MST_GATHER; }

/* Do the members of this process request the same, so that memory of the same size is there? */
static bool members_agree(const mst_batch *batch) {
    const mst_request *first = mst_nodes_offered(batch, 0, 0, true);
    for (int32_t m = 1; m < batch->communicator->size; m++) {
        const mst_request *r = mst_nodes_offered(batch, m, 0, true);
        if (r->collective != first->collective || r->reduction != first->reduction || r->dtype != first->dtype || r->root != first->root ||
            r->exact != first->exact || !mst_request_process_weights(r) != !mst_request_process_weights(first))
            return false;
        if (mst_nodes_vector(r) != mst_nodes_vector(first) && !is_joined(r->collective)) return false;
    }
    return true;
}

/* The vectors of a member, where it brings each by itself; of the member that has most. */
static int64_t most_shards(const mst_batch *batch) {
    int64_t most = 0;
    for (int32_t m = 0; m < batch->communicator->size; m++) {
        const int64_t shards = mst_request_shards(mst_nodes_offered(batch, m, 0, true));
        most = shards > most ? shards : most;
    }
    return most;
}

/* The scale of an average follows from the vectors of all ranks. Where they may be several, it is
 * not known yet. */
static bool has_scale(const mst_batch *batch) {
    for (int32_t m = 0; m < batch->communicator->size; m++)
        if (mst_request_shards(mst_nodes_offered(batch, m, 0, true)) != 1) return false;
    return true;
}

static bool multiplied(int64_t *bytes, int64_t by) { return mst_multiply(*bytes, by, bytes) && *bytes <= MST_NODES_PAYLOAD_BYTES; }

/* The bytes of one slot: of a vector, of a member's part. */
static int64_t slot_bytes(const mst_batch *batch) {
    const mst_request *r = mst_nodes_offered(batch, 0, 0, true);
    int64_t bytes = mst_nodes_vector(r);
    if (is_joined(r->collective))
        for (int32_t m = 0; m < batch->communicator->size; m++) {
            const int64_t count = mst_nodes_offered(batch, m, 0, true)->input_count;
            bytes = m == 0 || count > bytes ? count : bytes;
        }
    const bool partial = is_reduction(r->collective) && !mst_nodes_is_ordered(batch->communicator, r);
    if (!multiplied(&bytes, muster_dtype_size(partial ? mst_nodes_travelling(batch->communicator, r) : r->dtype))) return 0;
    return (bytes + 15) / 16 * 16; /* so that each slot is aligned */
}

mst_nodes_small mst_nodes_small_of(const mst_batch *batch) {
    const mst_request *r = mst_nodes_offered(batch, 0, 0, true);
    mst_nodes_small small = {.slots = 1};
    if (batch->count > 1 || mst_nodes_name_of(batch->communicator) || !members_agree(batch)) return small;
    if (!is_reduction(r->collective) && !is_joined(r->collective) && r->collective != MST_BROADCAST) return small;
    if (is_joined(r->collective)) small.slots = batch->communicator->span->most;
    if (is_reduction(r->collective)) {
        small.ordered = mst_nodes_is_ordered(batch->communicator, r);
        small.shards = most_shards(batch);
        if (small.ordered) small.slots = batch->communicator->span->most * small.shards;
        if (!small.ordered && r->reduction == MUSTER_AVG && r->collective != MST_ALL_REDUCE_AXPY && !has_scale(batch)) return small;
    }
    small.slot = slot_bytes(batch);
    small.bytes = small.slot;
    if (!multiplied(&small.bytes, small.slots)) small.bytes = 0;
    return small;
}

/* ---- what this process brings ---- */

/* sum[0, count) = the members' vectors from element `at` on, combined as for a move. Of an average
 * each member has one (has_scale). */
static void put_combined(const void *context, void *sum, int64_t at, int64_t count) {
    const mst_batch *batch = context;
    const mst_request *first = mst_nodes_offered(batch, 0, 0, true);
    const muster_reduction op = mst_nodes_op(first);
    const bool narrow = mst_nodes_is_narrow(batch->communicator, first);
    const double scale = 1.0 / (narrow ? batch->communicator->size : batch->communicator->span->size);
    int64_t combined = 0;
    for (int32_t m = 0; m < batch->communicator->size; m++) {
        const mst_request *r = mst_nodes_offered(batch, m, 0, true);
        for (int64_t s = 0; s < mst_request_shards(r); s++)
            mst_reduction_accumulate(op, r->dtype, sum,
                                     (const char *)r->input + (s * mst_nodes_vector(first) + at) * muster_dtype_size(r->dtype), count,
                                     scale, combined++ == 0);
    }
    if (combined == 0) mst_nodes_neutral(op, mst_dtype_compute(first->dtype), sum, count);
}

static void put_partial(const mst_batch *batch, char *to) {
    const mst_request *first = mst_nodes_offered(batch, 0, 0, true);
    const muster_dtype compute = mst_dtype_compute(first->dtype), travel = mst_nodes_travelling(batch->communicator, first);
    if (travel == compute)
        put_combined(batch, to, 0, mst_nodes_vector(first));
    else
        mst_nodes_narrow(travel, compute, to, mst_nodes_vector(first), put_combined, batch);
}

static void put_vectors(const mst_batch *batch, const mst_nodes_small *small, char *to) {
    for (int32_t m = 0; m < batch->communicator->size; m++) {
        const mst_request *r = mst_nodes_offered(batch, m, 0, true);
        const int64_t bytes = mst_nodes_vector(r) * muster_dtype_size(r->dtype);
        for (int64_t s = 0; s < mst_request_shards(r); s++)
            memcpy(to + (m * small->shards + s) * small->slot, (const char *)r->input + s * bytes, (size_t)bytes);
    }
}

static void put_parts(const mst_batch *batch, const mst_nodes_small *small, char *to) {
    for (int32_t m = 0; m < batch->communicator->size; m++) {
        const mst_request *r = mst_nodes_offered(batch, m, 0, true);
        const int64_t bytes = r->input_count * muster_dtype_size(r->dtype);
        if (bytes > 0) memcpy(to + m * small->slot, r->input, (size_t)bytes);
    }
}

void mst_nodes_small_put(const mst_batch *batch, const mst_nodes_small *small, char *to) {
    const mst_rank_span *span = batch->communicator->span;
    const mst_request *r = mst_nodes_offered(batch, 0, 0, true);
    memset(to, 0, (size_t)small->bytes);
    if (is_joined(r->collective)) {
        put_parts(batch, small, to);
    } else if (small->ordered) {
        put_vectors(batch, small, to);
    } else if (is_reduction(r->collective)) {
        put_partial(batch, to);
    } else if (span->process_of[r->root] == span->here) {
        const mst_request *root = mst_nodes_offered(batch, span->index_of[r->root], 0, true);
        memcpy(to, root->input, (size_t)(r->output_count * muster_dtype_size(r->dtype)));
    }
}

/* ---- what all have brought ---- */

static const char *slot_of(const mst_nodes_state *state, int32_t process, int64_t slot) {
    return state->small.all + process * state->small.stride + slot * state->small.slot;
}

/* What the processes have brought, combined as by a move. */
typedef struct partials {
    mst_nodes_state *state;
    mst_move move; /* its dtype, operation and weights */
} partials;

static void fold_partials(const void *context, void *sum, int64_t at, int64_t count) {
    const partials *all = context;
    const int64_t offset = at * muster_dtype_size(all->move.dtype);
    for (int32_t p = 0; p < all->state->span->processes; p++)
        mst_reduction_accumulate(all->move.op, all->move.dtype, sum, slot_of(all->state, p, 0) + offset, count,
                                 all->move.scales ? all->move.scales[p] : 1, p == 0);
}

/* The leader: the result in the dtype that travels, as from a move. */
void mst_nodes_small_fold(mst_nodes_state *state, const mst_batch *batch, const mst_view *view) {
    const mst_rank_span *span = state->span;
    const mst_request *here = mst_view_own(view);
    const muster_dtype compute = mst_dtype_compute(here->dtype);
    const muster_reduction op = mst_nodes_op(here);
    const int64_t count = mst_nodes_vector(here);
    int64_t combined = 0;
    if (!is_reduction(here->collective)) return;
    if (!state->small.ordered) {
        partials all = {.state = state};
        mst_nodes_set_reduction(batch, view, &all.move);
        if (all.move.dtype == compute)
            fold_partials(&all, state->small.result, 0, count);
        else
            mst_nodes_narrow(all.move.dtype, compute, state->small.result, count, fold_partials, &all);
        return;
    }
    const double scale = 1.0 / (double)mst_view_shards(view);
    for (int32_t r = 0; r < span->size; r++)
        for (int64_t s = 0; s < mst_request_shards(view->requests[r]); s++)
            mst_reduction_accumulate(op, here->dtype, state->small.result,
                                     slot_of(state, span->process_of[r], span->index_of[r] * state->small.shards + s), count, scale,
                                     combined++ == 0);
    if (combined == 0) mst_reduction_identity(op, compute, state->small.result, count);
}

/* Every member. */
void mst_nodes_small_take(const mst_nodes_state *state, const mst_batch *batch, const mst_view *view) {
    const mst_rank_span *span = state->span;
    const mst_request *here = mst_view_own(view);
    const int64_t element = mst_view_element(view);
    if (is_reduction(here->collective)) {
        const mst_nodes_buffer buffer = {.to = (char *)(uintptr_t)state->small.result};
        mst_nodes_fold_plan(batch, view).drain(batch, view, 0, &buffer);
    } else if (here->collective == MST_BROADCAST) {
        memcpy(here->output, slot_of(state, span->process_of[here->root], 0), (size_t)(here->output_count * element));
    } else if (here->collective == MST_ALL_GATHER || view->rank == here->root) {
        char *to = here->output;
        for (int32_t r = 0; r < span->size; r++) {
            const int64_t bytes = view->requests[r]->input_count * element;
            if (bytes > 0) memcpy(to, slot_of(state, span->process_of[r], span->index_of[r]), (size_t)bytes);
            to = mst_at(to, bytes);
        }
    }
}
