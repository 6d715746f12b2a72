/* How a collective moves between processes: as its communicator was asked to, or by the table of
 * ways. */
#include "names_private.h"
#include "nodes_transport_private.h"
#include "ways_private.h"

mst_move_algorithm mst_nodes_move_algorithm(const muster_communicator *communicator) {
    switch (mst_nodes_name_of(communicator)) {
    case MST_NODES_hierarchical:
    case MST_NODES_two_dimensional:
    case MST_NODES_non_cuda_aware:
        return MST_MOVE_EXCHANGE;
    default:
        return MST_MOVE_AUTOMATIC;
    }
}

/* The bytes of the whole vector, by which the table has its rows; -1: the table is not asked. Sums
 * of f16 and bf16 would travel as f32 and be added in any order: they keep theirs. */
static int64_t table_bytes(const mst_batch *batch, const mst_view *view) {
    const mst_request *here = mst_view_own(view);
    const int64_t element = muster_dtype_size(here->dtype);
    int64_t count = 0;
    switch (here->collective) {
    case MST_ALL_REDUCE:
    case MST_ALL_REDUCE_AXPY:
    case MST_REDUCE_SCATTER:
        return here->dtype == mst_dtype_compute(here->dtype) ? mst_nodes_vector(here) * element : -1;
    case MST_BROADCAST:
        return here->output_count * element;
    case MST_ALL_GATHER:
        for (int32_t r = 0; r < batch->communicator->span->size; r++) count += view->requests[r]->input_count;
        return count * element;
    default:
        return -1;
    }
}

void mst_nodes_choose(const mst_batch *batch, const mst_view *view, mst_move *move) {
    const muster_communicator *communicator = batch->communicator;
    const mst_nodes *nodes = communicator->span->nodes;
    if (mst_nodes_name_of(communicator) || communicator->world->fixed_order || !nodes->ways) return;
    const int64_t bytes = table_bytes(batch, view);
    if (bytes < 0 || !mst_ways_by_mpi(nodes, move->kind, bytes)) return;
    const bool summed = move->kind == MST_MOVE_ALL_REDUCE && mst_dtype_is_float(move->dtype);
    mst_move by_mpi = *move;
    by_mpi.any_order = !(summed && nodes->ways->differ);
    by_mpi.algorithm = MST_MOVE_MPI;
    if (mst_schedule_serves(&mst_nodes_of(communicator)->schedule, &by_mpi, MST_MOVE_MPI)) *move = by_mpi;
}

const char *mst_nodes_served(const mst_nodes_state *state) {
    const mst_nodes_name name = mst_nodes_name_of(state->communicator);
    if (!name && state->small.bytes > 0) return "arrival";
    return name ? mst_nodes_name_text((int32_t)name - 1) : mst_move_algorithm_name(state->schedule.algorithm);
}

muster_status mst_nodes_move_begin(mst_nodes_state *state, const mst_move *move) {
    const bool reduces = move->kind == MST_MOVE_ALL_REDUCE || move->kind == MST_MOVE_REDUCE;
    return state->slices && reduces && !move->fold ? mst_slices_begin(state->slices, move) : mst_schedule_begin(&state->schedule, move);
}

mst_machine *mst_nodes_moving(mst_nodes_state *state) {
    return state->slices && state->slices->running ? &state->slices->machine : &state->schedule.machine;
}
