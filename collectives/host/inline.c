/* For tiny collectives. Every rank computes its whole output from the copies in the slots, and
 * accesses no other memory of the other ranks. */
#include "combine_private.h"

static void all_reduce(const mst_view *view) { mst_combine(view, 0, mst_view_own(view)->output_count, 0, view->rank, view->rank + 1); }

static void all_reduce_axpy(const mst_view *view) {
    mst_combine_axpy(view, 0, mst_view_own(view)->output_count, view->rank, view->rank + 1);
}

static void reduce(const mst_view *view) {
    const mst_request *own_request = mst_view_own(view);
    if (view->rank == own_request->root) mst_combine(view, 0, own_request->input_count, 0, view->rank, view->rank + 1);
}

static void reduce_scatter(const mst_view *view) {
    int64_t offset = mst_view_offset(view, view->rank);
    mst_combine(view, offset, offset + mst_view_own(view)->output_count, offset, view->rank, view->rank + 1);
}

static void broadcast(const mst_view *view) {
    const mst_request *own_request = mst_view_own(view);
    mst_copy_bytes(own_request->output, view->requests[own_request->root]->input, own_request->output_count * mst_view_element(view));
}

static void all_gather(const mst_view *view) {
    int64_t element = mst_view_element(view);
    char *to = mst_view_own(view)->output;
    for (int32_t r = 0; r < view->size; r++) {
        int64_t bytes = view->requests[r]->input_count * element;
        mst_copy_bytes(to, view->requests[r]->input, bytes);
        to = mst_at(to, bytes);
    }
}

static void gather(const mst_view *view) {
    if (view->rank == mst_view_own(view)->root) all_gather(view);
}

static void scatter(const mst_view *view) {
    const mst_request *own_request = mst_view_own(view);
    int64_t element = mst_view_element(view);
    const void *from = mst_at(view->requests[own_request->root]->input, mst_view_offset(view, view->rank) * element);
    mst_copy_bytes(own_request->output, from, own_request->output_count * element);
}

static void all_to_all(const mst_view *view) {
    for (int32_t r = 0; r < view->size; r++) {
        mst_block block = mst_view_block(view, r, view->rank);
        mst_copy_bytes(block.to, block.from, block.count * mst_view_element(view));
    }
}

const mst_algorithm mst_algorithm_inline = {.name = "inline",
                                            .offer = MST_OFFER_SLOT,
                                            .run = {[MST_ALL_REDUCE] = all_reduce,
                                                    [MST_ALL_REDUCE_AXPY] = all_reduce_axpy,
                                                    [MST_REDUCE] = reduce,
                                                    [MST_BROADCAST] = broadcast,
                                                    [MST_ALL_GATHER] = all_gather,
                                                    [MST_GATHER] = gather,
                                                    [MST_SCATTER] = scatter,
                                                    [MST_REDUCE_SCATTER] = reduce_scatter,
                                                    [MST_ALL_TO_ALL] = all_to_all},
                                            .selected = {[MST_ALL_REDUCE] = MST_UP_TO(256, 2048),
                                                         [MST_ALL_REDUCE_AXPY] = MST_UP_TO(256, 2048),
                                                         [MST_REDUCE] = MST_UP_TO(256, 4096),
                                                         [MST_BROADCAST] = MST_UP_TO(512, 8192),
                                                         [MST_ALL_GATHER] = MST_UP_TO(256, 4096),
                                                         [MST_GATHER] = MST_UP_TO(256, 4096),
                                                         [MST_SCATTER] = MST_UP_TO(512, MST_SLOT_BYTES),
                                                         [MST_REDUCE_SCATTER] = MST_UP_TO(512, 4096),
                                                         [MST_ALL_TO_ALL] = MST_UP_TO(512, 8192),
                                                         [MST_BARRIER] = MST_ANY_SIZE,
                                                         [MST_END_OF_BODY] = MST_ANY_SIZE}};
