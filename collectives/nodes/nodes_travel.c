/* Sums and averages in the wire dtype (the option wire_dtype). A process combines the values of its
 * ranks in the compute dtype, and rounds its result once, to the wire dtype. What all processes
 * have sent is added up in the compute dtype, and rounded once more for the way back, so that all
 * of them get the same bits.
 *
 * For an average each process sends the average of its own ranks, and the others multiply that by
 * its part of all vectors. A part of the whole average would be smaller: in f16 it would be lost
 * where there are many ranks. And no sum of averages is larger than the largest of them, so f16
 * does not overflow either. */
#include "nodes_transport_private.h"

bool mst_nodes_is_narrow(const muster_communicator *communicator, const mst_request *r) {
    const muster_reduction op = mst_request_applies(r) ? MUSTER_SUM : mst_nodes_op(r);
    if (!communicator->world->wire_dtype || r->exact || (op != MUSTER_SUM && op != MUSTER_AVG)) return false;
    return mst_dtype_is_float(r->dtype) && mst_dtype_compute(r->dtype) == MUSTER_F32;
}

muster_dtype mst_nodes_travelling(const muster_communicator *communicator, const mst_request *r) {
    return mst_nodes_is_narrow(communicator, r) ? communicator->world->wire_dtype : mst_dtype_compute(r->dtype);
}

/* ---- weights ---- */

double mst_nodes_own_scale(const mst_batch *batch, const mst_view *view) {
    const mst_rank_span *span = batch->communicator->span;
    int64_t vectors = 0;
    if (!mst_nodes_is_narrow(batch->communicator, mst_view_own(view))) return 1.0 / (double)mst_view_shards(view);
    for (int32_t m = 0; m < batch->communicator->size; m++) vectors += mst_request_shards(view->requests[span->ranks[m]]);
    return 1.0 / (double)vectors;
}

static bool travel_is_average(const mst_request *r) { return !mst_request_applies(r) && mst_nodes_op(r) == MUSTER_AVG; }

const double *mst_nodes_weights(mst_nodes_state *state, const mst_view *view) {
    const mst_rank_span *span = state->span;
    const mst_request *here = mst_view_own(view);
    double *weights = state->weights.at, all = 0;
    if (mst_request_process_weights(here)) return mst_request_process_weights(here);
    if (!mst_nodes_is_narrow(state->communicator, here) || (!travel_is_average(here) && !mst_request_applies(here))) return NULL;
    memset(weights, 0, (size_t)span->processes * sizeof *weights);
    for (int32_t r = 0; r < span->size; r++) {
        const double vectors = (double)mst_request_shards(view->requests[r]);
        weights[span->process_of[r]] += vectors;
        all += vectors;
    }
    for (int32_t p = 0; p < span->processes && all > 0; p++) weights[p] /= all;
    return weights;
}

void mst_nodes_set_reduction(const mst_batch *batch, const mst_view *view, mst_move *move) {
    const mst_request *here = mst_view_own(view);
    move->dtype = mst_nodes_travelling(batch->communicator, here);
    move->scales = mst_nodes_weights(mst_nodes_of(batch->communicator), view);
    /* The inputs of another average have their weights already. */
    move->op = move->scales ? MUSTER_AVG : mst_nodes_op(here) == MUSTER_AVG ? MUSTER_SUM : mst_nodes_op(here);
}

/* ---- rounding ---- */

void mst_nodes_narrow(muster_dtype wire, muster_dtype compute, void *to, int64_t count,
                      void (*combine)(const void *context, void *sum, int64_t first, int64_t count), const void *context) {
    _Alignas(MST_CACHE_LINE) char sums[MST_NODES_ROUNDED_BYTES];
    const int64_t most = MST_NODES_ROUNDED_BYTES / muster_dtype_size(compute);
    for (int64_t first = 0; first < count; first += most) {
        const int64_t here = count - first < most ? count - first : most;
        combine(context, sums, first, here);
        mst_convert(wire, (char *)to + first * muster_dtype_size(wire), compute, sums, here);
    }
}
