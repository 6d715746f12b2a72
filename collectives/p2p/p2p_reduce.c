/* Collectives between devices that read and write each other's memory by address: virtual devices
 * of one GPU, and peers. As in the host's `direct`, no other rank reads or writes the memory that a
 * rank writes in the same collective, even in place: only rank r accesses segment r of a reduction.
 * No kernel waits for another; events order the devices' queues before and after. */
#include "p2p_private.h"
#include "p2p_reduce_private.h"

static mst_code_kernel reduce_kernel = {.name = "mst_p2p_reduce"}, reduce_integers_kernel = {.name = "mst_p2p_reduce_integers"};

bool mst_p2p_combines(const mst_view *view) { return view->size <= MST_P2P_OUTPUTS && mst_view_shards(view) <= MST_P2P_INPUTS; }

mst_p2p_reduce_parameters mst_p2p_parameters(const mst_view *view) {
    const mst_request *own_request = mst_view_own(view);
    const bool updates = own_request->collective == MST_ALL_REDUCE_AXPY;
    const mst_momentum *momentum = mst_view_momentum(view);
    return (mst_p2p_reduce_parameters){.dtype = own_request->dtype,
                                       .op = updates ? MUSTER_SUM : own_request->reduction,
                                       .scale = 1.0 / (double)mst_view_shards(view),
                                       .alpha = updates ? own_request->alpha : 0,
                                       .beta = momentum ? momentum->beta : 0};
}

muster_status mst_p2p_launch(muster_worker *worker, const mst_view *view, mst_p2p_reduce_parameters *p, int64_t begin) {
    const mst_request *own_request = mst_view_own(view);
    if (p->count == 0) return MUSTER_OK;
    if (own_request->collective == MST_ALL_REDUCE_AXPY) {
        const mst_momentum *momentum = mst_view_momentum(view);
        p->parameter = (char *)own_request->output + begin * mst_view_element(view);
        if (momentum) p->velocity = (char *)momentum->velocity + begin * mst_view_element(view);
    }
    mst_code_kernel *kernel = mst_dtype_is_float((muster_dtype)p->dtype) ? &reduce_kernel : &reduce_integers_kernel;
    return worker->device->code->launch(worker->device, kernel, p->count, p, sizeof *p);
}

/* Combines elements [begin, end) of all inputs in rank order into the outputs of ranks [first,
 * last); element e goes to index e - shift. */
static muster_status reduce_to(muster_worker *worker, const mst_view *view, int64_t begin, int64_t end, int64_t shift, int32_t first,
                               int32_t last) {
    const int64_t element = mst_view_element(view), vector = mst_view_own(view)->output_count * element;
    mst_p2p_reduce_parameters p = mst_p2p_parameters(view);
    if (begin == end) return MUSTER_OK;
    p.count = end - begin;
    for (int32_t r = 0; r < view->size; r++) {
        const char *input = view->requests[r]->input;
        for (int64_t shard = 0; shard < mst_request_shards(view->requests[r]); shard++)
            p.input[p.inputs++] = (char *)input + shard * vector + begin * element;
    }
    for (int32_t r = first; r < last; r++) p.output[p.outputs++] = (char *)view->requests[r]->output + (begin - shift) * element;
    return mst_p2p_launch(worker, view, &p, begin);
}

static muster_status all_reduce(muster_worker *worker, const mst_view *view) {
    int64_t begin, end;
    mst_segment(mst_view_own(view)->output_count, mst_view_element(view), view->size, view->rank, &begin, &end);
    return reduce_to(worker, view, begin, end, 0, 0, view->size);
}

static muster_status reduce(muster_worker *worker, const mst_view *view) {
    const mst_request *own_request = mst_view_own(view);
    int64_t begin, end;
    mst_segment(own_request->input_count, mst_view_element(view), view->size, view->rank, &begin, &end);
    return reduce_to(worker, view, begin, end, 0, own_request->root, own_request->root + 1);
}

static muster_status reduce_scatter(muster_worker *worker, const mst_view *view) {
    const int64_t offset = mst_view_offset(view, view->rank);
    return reduce_to(worker, view, offset, offset + mst_view_own(view)->output_count, offset, view->rank, view->rank + 1);
}

static muster_status move(muster_worker *worker, const mst_view *view, void *to, const void *from, int64_t count) {
    const int64_t bytes = count * mst_view_element(view);
    return to == from || bytes == 0 ? MUSTER_OK : worker->device->memory->copy(worker->device, to, from, bytes);
}

/* Rank r copies segment r to all ranks, so that all devices copy at the same time. */
static muster_status broadcast(muster_worker *worker, const mst_view *view) {
    const mst_request *own_request = mst_view_own(view);
    int64_t begin, end, element = mst_view_element(view);
    mst_segment(own_request->output_count, element, view->size, view->rank, &begin, &end);
    const void *from = mst_at(view->requests[own_request->root]->input, begin * element);
    for (int32_t r = 0; r < view->size; r++)
        MUSTER_TRY(move(worker, view, mst_at(view->requests[r]->output, begin * element), from, end - begin));
    return MUSTER_OK;
}

/* Each rank begins with the next rank's part, so that the ranks do not all read the same memory
 * first. */
static muster_status all_gather(muster_worker *worker, const mst_view *view) {
    for (int32_t i = 1; i <= view->size; i++) {
        int32_t r = (view->rank + i) % view->size;
        void *to = mst_at(mst_view_own(view)->output, mst_view_offset(view, r) * mst_view_element(view));
        MUSTER_TRY(move(worker, view, to, view->requests[r]->input, view->requests[r]->input_count));
    }
    return MUSTER_OK;
}

static muster_status gather(muster_worker *worker, const mst_view *view) {
    const mst_request *own_request = mst_view_own(view);
    void *to = mst_at(view->requests[own_request->root]->output, mst_view_offset(view, view->rank) * mst_view_element(view));
    return move(worker, view, to, own_request->input, own_request->input_count);
}

static muster_status scatter(muster_worker *worker, const mst_view *view) {
    const mst_request *own_request = mst_view_own(view);
    return move(worker, view, own_request->output,
                mst_at(view->requests[own_request->root]->input, mst_view_offset(view, view->rank) * mst_view_element(view)),
                own_request->output_count);
}

/* In place, the ranks offer copies of their inputs. */
static muster_status all_to_all(muster_worker *worker, const mst_view *view) {
    for (int32_t i = 1; i <= view->size; i++) {
        mst_block block = mst_view_block(view, (view->rank + i) % view->size, view->rank);
        MUSTER_TRY(move(worker, view, block.to, block.from, block.count));
    }
    return MUSTER_OK;
}

muster_status mst_p2p_serve(muster_worker *worker, const mst_view *view) {
    static muster_status (*const serve[MST_COLLECTIVE_COUNT])(muster_worker *, const mst_view *) = {
        [MST_ALL_REDUCE] = all_reduce, [MST_ALL_REDUCE_AXPY] = all_reduce,    [MST_REDUCE] = reduce,
        [MST_BROADCAST] = broadcast,   [MST_ALL_GATHER] = all_gather,         [MST_GATHER] = gather,
        [MST_SCATTER] = scatter,       [MST_REDUCE_SCATTER] = reduce_scatter, [MST_ALL_TO_ALL] = all_to_all};
    const mst_collective collective = mst_view_own(view)->collective;
    return serve[collective] ? serve[collective](worker, view) : MUSTER_OK; /* a barrier has nothing to move */
}
