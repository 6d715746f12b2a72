/* For large collectives; each byte is moved once. Ranks read each other's inputs and write each
 * other's outputs. No other rank reads or writes the memory that a rank writes in the same
 * collective, even in place: only rank r accesses segment r of a reduction. */
#include "combine_private.h"
#include "host_apply_private.h"

static void all_reduce(const mst_view *view) {
    int64_t begin, end;
    mst_segment(mst_view_own(view)->output_count, mst_view_element(view), view->size, view->rank, &begin, &end);
    mst_combine(view, begin, end, 0, 0, view->size);
}

static void all_reduce_axpy(const mst_view *view) {
    int64_t begin, end;
    mst_segment(mst_view_own(view)->output_count, mst_view_element(view), view->size, view->rank, &begin, &end);
    mst_combine_axpy(view, begin, end, 0, view->size);
}

static void reduce(const mst_view *view) {
    const mst_request *own_request = mst_view_own(view);
    int64_t begin, end;
    mst_segment(own_request->input_count, mst_view_element(view), view->size, view->rank, &begin, &end);
    mst_combine(view, begin, end, 0, own_request->root, own_request->root + 1);
}

static void reduce_scatter(const mst_view *view) {
    int64_t offset = mst_view_offset(view, view->rank);
    mst_combine(view, offset, offset + mst_view_own(view)->output_count, offset, view->rank, view->rank + 1);
}

static void all_reduce_apply(const mst_view *view) { mst_host_apply(view, mst_combine_sum); }

/* Bypasses the cache if the collective is large. */
static void move(const mst_view *view, void *to, const void *from, int64_t count) {
    if (to != from && count > 0 && mst_stores_stream(view->stores)) {
        mst_stream_bytes(to, from, count * mst_view_element(view));
        mst_stream_end();
    } else {
        mst_copy_bytes(to, from, count * mst_view_element(view));
    }
}

/* Rank r copies segment r to all ranks. So the root works, too; one core alone cannot saturate
 * memory. */
static void broadcast(const mst_view *view) {
    const mst_request *own_request = mst_view_own(view);
    int64_t begin, end, element = mst_view_element(view);
    mst_segment(own_request->output_count, element, view->size, view->rank, &begin, &end);
    const void *from = mst_at(view->requests[own_request->root]->input, begin * element);
    for (int32_t r = 0; r < view->size; r++) move(view, mst_at(view->requests[r]->output, begin * element), from, end - begin);
}

/* Each rank begins with the next rank's part, so that the ranks do not all read the same memory
 * first. */
static void all_gather(const mst_view *view) {
    for (int32_t i = 1; i <= view->size; i++) {
        int32_t r = (view->rank + i) % view->size;
        void *to = mst_at(mst_view_own(view)->output, mst_view_offset(view, r) * mst_view_element(view));
        move(view, to, view->requests[r]->input, view->requests[r]->input_count);
    }
}

static void gather(const mst_view *view) {
    const mst_request *own_request = mst_view_own(view);
    void *to = mst_at(view->requests[own_request->root]->output, mst_view_offset(view, view->rank) * mst_view_element(view));
    move(view, to, own_request->input, own_request->input_count);
}

static void scatter(const mst_view *view) {
    const mst_request *own_request = mst_view_own(view);
    move(view, own_request->output,
         mst_at(view->requests[own_request->root]->input, mst_view_offset(view, view->rank) * mst_view_element(view)),
         own_request->output_count);
}

/* Only an all_to_all with equal parts can be in place. In an uneven one the addresses may be equal
 * only because the input has no elements. */
static bool in_place(const mst_view *view, int32_t rank) {
    const mst_request *request = view->requests[rank];
    return !request->send_counts && request->input == request->output;
}

/* Exchanges the blocks of two ranks for each other if one block, or each, lies where the other
 * goes. Each of the two ranks exchanges one half of them. */
static void exchange(const mst_view *view, int32_t peer) {
    mst_block away = mst_view_block(view, view->rank, peer), home = mst_view_block(view, peer, view->rank);
    int64_t element = mst_view_element(view), begin, end;
    mst_segment(home.count, element, 2, view->rank < peer ? 0 : 1, &begin, &end);
    for (int64_t at = begin * element; at < end * element; at += MST_CHUNK_BYTES) {
        int64_t left = end * element - at, bytes = left < MST_CHUNK_BYTES ? left : MST_CHUNK_BYTES;
        memcpy(view->chunk, (const char *)away.from + at, (size_t)bytes);
        memcpy((char *)home.to + at, (const char *)home.from + at, (size_t)bytes);
        memcpy((char *)away.to + at, view->chunk, (size_t)bytes);
    }
}

static void all_to_all(const mst_view *view) {
    for (int32_t i = 1; i <= view->size; i++) {
        int32_t peer = (view->rank + i) % view->size;
        if (peer != view->rank && (in_place(view, view->rank) || in_place(view, peer))) {
            exchange(view, peer);
        } else {
            mst_block block = mst_view_block(view, peer, view->rank);
            move(view, block.to, block.from, block.count);
        }
    }
}

const mst_algorithm mst_algorithm_direct = {.name = "direct",
                                            .offer = MST_OFFER_TENSORS,
                                            .run = {[MST_ALL_REDUCE] = all_reduce,
                                                    [MST_ALL_REDUCE_AXPY] = all_reduce_axpy,
                                                    [MST_ALL_REDUCE_APPLY] = all_reduce_apply,
                                                    [MST_REDUCE] = reduce,
                                                    [MST_BROADCAST] = broadcast,
                                                    [MST_ALL_GATHER] = all_gather,
                                                    [MST_GATHER] = gather,
                                                    [MST_SCATTER] = scatter,
                                                    [MST_REDUCE_SCATTER] = reduce_scatter,
                                                    [MST_ALL_TO_ALL] = all_to_all},
                                            .selected = {[MST_ALL_REDUCE] = MST_ANY_SIZE,
                                                         [MST_ALL_REDUCE_AXPY] = MST_ANY_SIZE,
                                                         [MST_ALL_REDUCE_APPLY] = MST_ANY_SIZE,
                                                         [MST_REDUCE] = MST_ANY_SIZE,
                                                         [MST_BROADCAST] = MST_ANY_SIZE,
                                                         [MST_ALL_GATHER] = MST_ANY_SIZE,
                                                         [MST_GATHER] = MST_ANY_SIZE,
                                                         [MST_SCATTER] = MST_ANY_SIZE,
                                                         [MST_REDUCE_SCATTER] = MST_ANY_SIZE,
                                                         [MST_ALL_TO_ALL] = MST_ANY_SIZE}};
