/* The transport `nccl`: its table. */
#include "nccl_private.h"
#include "p2p/p2p_reduce_private.h"

#include <stdio.h>

/* NCCL's own collectives are the best choice for large tensors. For smaller ones a kernel that
 * reads its peers' memory, or copies through host memory where the members are no peers, may begin
 * sooner (thresholds_impl.h); NCCL then bids nothing, so that no sharing transport serves. The
 * other reductions (see the table in nccl_run.c) need an exchange by NCCL and then Muster's kernel;
 * between peers the kernel needs no exchange, so `p2p` bids more for them. */
static int32_t nccl_bid(const muster_communicator *communicator, const mst_request *request, const mst_view *view) {
    if (!mst_nccl_ready(communicator)) return 0;
    const bool native = !view || mst_nccl_native(view, communicator->world->fixed_order);
    if (!native && !mst_p2p_combines(view)) return 0;
    int64_t in = mst_request_input_bytes(request), out = mst_request_output_bytes(request);
    const int64_t bytes = view ? mst_view_largest_bytes(view) : in > out ? in : out;
    const mst_thresholds *thresholds = &communicator->world->thresholds;
    const bool forced = communicator->forced.transport == &mst_transport_nccl, peers = communicator->state[MST_TRANSPORT_p2p];
    if (!forced && !peers && thresholds->staged_bytes > 0 && bytes <= thresholds->staged_bytes) return 0;
    return native && bytes > thresholds->p2p_bytes ? MST_BID_BEST : MST_BID_SPARE;
}

static void nccl_describe(const muster_communicator *communicator, char *text, size_t size) {
    const muster_communicator *world = communicator->world;
    const char *reason = world->reasons[MST_TRANSPORT_nccl];
    if (communicator->size == 1) return;
    if (mst_nccl_state_of(communicator))
        snprintf(text, size, "NCCL %s", mst_nccl_of(communicator)->version);
    else if (reason && mst_devices_move_tensors(world->pool))
        snprintf(text, size, "no NCCL: %.300s", reason);
}

const mst_transport mst_transport_nccl = {.name = "nccl",
                                          .number = MST_TRANSPORT_nccl,
                                          .sharing = true,
                                          .costly = true,
                                          .describe = nccl_describe,
                                          .open = mst_nccl_open,
                                          .close = mst_nccl_close,
                                          .recover = mst_nccl_recover,
                                          .create = mst_nccl_create,
                                          .destroy = mst_nccl_destroy,
                                          .join = &mst_nccl_join,
                                          .release = mst_nccl_release,
                                          .bid = nccl_bid,
                                          .prepare = mst_nccl_prepare,
                                          .run = mst_nccl_run,
                                          .reserve_apply = mst_nccl_apply_reserve};
