/* Tiny collectives: every rank computes its own output, whole, from the copies beside the lines,
 * and touches nothing else of the others. */
#include "view_impl.h"

static void all_reduce(const mst_view *view) { mst_combine(view, 0, mst_view_own(view)->output_count, 0, view->rank, view->rank + 1); }

static void all_reduce_axpy(const mst_view *view) {
    mst_combine_axpy(view, 0, mst_view_own(view)->output_count, view->rank, view->rank + 1);
}

static void reduce(const mst_view *view) {
    const mst_request *own = mst_view_own(view);
    if (view->rank == own->root) mst_combine(view, 0, own->input_count, 0, view->rank, view->rank + 1);
}

static void reduce_scatter(const mst_view *view) {
    int64_t offset = mst_view_offset(view, view->rank);
    mst_combine(view, offset, offset + mst_view_own(view)->output_count, offset, view->rank, view->rank + 1);
}

static void broadcast(const mst_view *view) {
    const mst_request *own = mst_view_own(view);
    mst_copy_bytes(own->output, view->requests[own->root]->input, own->output_count * mst_view_element(view));
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
    const mst_request *own = mst_view_own(view);
    int64_t element = mst_view_element(view);
    const void *from = mst_at(view->requests[own->root]->input, mst_view_offset(view, view->rank) * element);
    mst_copy_bytes(own->output, from, own->output_count * element);
}

static void all_to_all(const mst_view *view) {
    for (int32_t r = 0; r < view->size; r++) {
        mst_parcel parcel = mst_view_parcel(view, r, view->rank);
        mst_copy_bytes(parcel.to, parcel.from, parcel.count * mst_view_element(view));
    }
}

const mst_algorithm mst_algorithm_inline = {.name = "inline",
                                            .kind = MST_INLINE,
                                            .serve = {[MST_ALL_REDUCE] = all_reduce,
                                                      [MST_ALL_REDUCE_AXPY] = all_reduce_axpy,
                                                      [MST_REDUCE] = reduce,
                                                      [MST_BROADCAST] = broadcast,
                                                      [MST_ALL_GATHER] = all_gather,
                                                      [MST_GATHER] = gather,
                                                      [MST_SCATTER] = scatter,
                                                      [MST_REDUCE_SCATTER] = reduce_scatter,
                                                      [MST_ALL_TO_ALL] = all_to_all}};
