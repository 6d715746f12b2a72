/* On which host a member of a communicator is, and where among those of its host. */
#include "communicator_impl.h"
#include "nodes/nodes_impl.h"

/* The number of a member's host; without several processes there is one. */
static int32_t place_host(const muster_communicator *communicator, int32_t rank) {
    const mst_rank_span *span = communicator->span;
    return span ? span->nodes->host_of[span->numbers[span->process_of[rank]]] : 0;
}

/* Has no smaller rank the same host? */
static bool place_begins_host(const muster_communicator *communicator, int32_t rank) {
    for (int32_t r = 0; r < rank; r++)
        if (place_host(communicator, r) == place_host(communicator, rank)) return false;
    return true;
}

muster_status muster_communicator_place(const muster_communicator *communicator, int32_t rank, muster_place *place) {
    static const char where[] = "muster_communicator_place";
    if (!communicator) return mst_error_null(where, "communicator", "a communicator");
    if (!place) return mst_error_null(where, "place", "the address of a muster_place");
    const int32_t size = mst_communicator_total(communicator), last = size - 1;
    if (rank < 0 || rank > last) return mst_error(MUSTER_OUT_OF_RANGE, "%s: rank: expected 0 to %d, received %d", where, last, rank);
    muster_place found = {0};
    bool counted = false; /* the hosts before this one */
    for (int32_t r = 0; r < size; r++) {
        const bool same = place_host(communicator, r) == place_host(communicator, rank);
        found.intra_size += same;
        found.intra_rank += same && r < rank;
        counted |= same;
        if (!place_begins_host(communicator, r)) continue;
        found.inter_size++;
        found.inter_rank += !counted;
    }
    *place = found;
    return MUSTER_OK;
}
