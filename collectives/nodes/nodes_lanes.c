/* The lanes of the wire that are in use in this process. */
#include "nodes_data_private.h"
#include "nodes_transport_private.h"

muster_status mst_nodes_lanes_open(const char *where, mst_nodes_lanes **lanes) {
    *lanes = mst_alloc(sizeof **lanes);
    if (!*lanes) return mst_out_of_memory(where, sizeof **lanes);
    pthread_mutex_init(&(*lanes)->lock, NULL);
    (*lanes)->used[0] = 3; /* of the runtime, and of the communicator of all ranks */
    for (int32_t lane = MST_WIRE_LANES - MST_NODES_DATA_LANES; lane < MST_WIRE_LANES; lane++)
        (*lanes)->used[lane / 64] |= (uint64_t)1 << lane % 64;
    return MUSTER_OK;
}

void mst_nodes_lanes_close(mst_nodes_lanes *lanes) {
    if (!lanes) return;
    pthread_mutex_destroy(&lanes->lock);
    mst_free(lanes);
}

void mst_nodes_lanes_copy(mst_nodes_lanes *lanes, uint64_t used[MST_NODES_LANE_WORDS]) {
    pthread_mutex_lock(&lanes->lock);
    memcpy(used, lanes->used, sizeof lanes->used);
    pthread_mutex_unlock(&lanes->lock);
}

bool mst_nodes_lanes_take(mst_nodes_lanes *lanes, int32_t lane) {
    const uint64_t bit = (uint64_t)1 << lane % 64;
    pthread_mutex_lock(&lanes->lock);
    const bool taken = !(lanes->used[lane / 64] & bit);
    lanes->used[lane / 64] |= bit;
    pthread_mutex_unlock(&lanes->lock);
    return taken;
}

void mst_nodes_lanes_give(mst_nodes_lanes *lanes, int32_t lane) {
    pthread_mutex_lock(&lanes->lock);
    lanes->used[lane / 64] &= ~((uint64_t)1 << lane % 64);
    pthread_mutex_unlock(&lanes->lock);
}
