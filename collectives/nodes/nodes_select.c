/* How a reduction moves between processes, as its communicator was asked to. */
#include "names_private.h"
#include "nodes_transport_private.h"

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
