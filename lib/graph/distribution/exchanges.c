/* Exchanges: values that are needed in another distribution. Along the first axis a part of a value
 * lies in one piece, and the collectives work on the values where they are; along another axis the
 * parts are brought together in scratch memory. */
#include "distribution_private.h"
#include "muster/communicator.h"
#include "op_impl.h"
#include "variable_impl.h"

int64_t mst_cut_edge(const mst_graph *graph, mst_dim dim, const int64_t sizes[MST_SIZES], const mst_sharing *sharing, int32_t r) {
    const int64_t size = mst_dim_value(graph, dim, sizes), rows = sharing->rows;
    if (size <= 0) return size;
    if (graph->dims[dim].powers[MST_SIZE_ROWS] == 0) return mst_edge(size, sharing->size, r);
    return rows > 0 ? sharing->row_edges[r] * (size / rows) : 0;
}

void mst_local_shape(const mst_graph *graph, const mst_type *type, mst_distribution distribution, const int64_t sizes[MST_SIZES],
                     const mst_sharing *sharing, int64_t *shape) {
    for (int32_t d = 0; d < type->ndim; d++) {
        shape[d] = mst_dim_value(graph, type->dims[d], sizes);
        if (distribution.kind != MST_CUT || distribution.axis != d || shape[d] < 0) continue;
        shape[d] = mst_cut_edge(graph, type->dims[d], sizes, sharing, sharing->rank + 1) -
                   mst_cut_edge(graph, type->dims[d], sizes, sharing, sharing->rank);
    }
}

int32_t mst_exchange_between(mst_distribution from, mst_distribution to) {
    if (from.kind == MST_SAME && to.kind == MST_CUT) return MST_OPERATOR_part;
    if (from.kind == MST_PARTIAL && to.kind == MST_SAME) return MST_OPERATOR_all_reduce;
    if (from.kind == MST_PARTIAL && to.kind == MST_CUT) return from.op == MUSTER_SUM ? MST_OPERATOR_reduce_scatter : -1;
    if (from.kind == MST_CUT && to.kind == MST_SAME) return MST_OPERATOR_all_gather;
    if (from.kind == MST_CUT && to.kind == MST_CUT) return MST_OPERATOR_all_to_all;
    return -1;
}

double mst_exchange_bytes(mst_distribution from, mst_distribution to, double bytes, int32_t workers) {
    const double others = (double)(workers - 1) / workers;
    if (from.kind == MST_SAME || mst_same_distribution(from, to)) return 0;
    if (from.kind == MST_PARTIAL && to.kind == MST_SAME) return 2 * bytes * others;
    return from.kind == MST_CUT && to.kind == MST_CUT ? bytes / workers * others : bytes * others;
}

bool mst_node_exchanges(const muster_expr *node) {
    return mst_node_is(node, MST_OPERATOR_all_reduce) || mst_node_is(node, MST_OPERATOR_reduce_scatter) ||
           mst_node_is(node, MST_OPERATOR_all_gather) || mst_node_is(node, MST_OPERATOR_all_to_all);
}

/* ---- parts of tensors ---- */

static int64_t edge_of(const mst_step_run *run, int32_t axis, int32_t r) {
    return mst_cut_edge(run->node->graph, run->node->type.dims[axis], run->sizes, run->sharing, r);
}

/* The part of worker r of a tensor that is whole along the axis. */
static muster_tensor part_of(const mst_step_run *run, muster_tensor value, int32_t axis, int32_t r) {
    const int64_t begin = edge_of(run, axis, r), end = edge_of(run, axis, r + 1);
    value.byte_offset += begin * value.strides[axis] * (int64_t)muster_dtype_size(value.dtype);
    value.shape[axis] = end - begin;
    return value;
}

/* Do the parts along the axis lie one behind the other in a contiguous tensor? */
static bool parts_in_order(const muster_tensor *value, int32_t axis) {
    int64_t before = 1;
    for (int32_t d = 0; d < axis; d++) before *= value->shape[d];
    return before == 1;
}

/* The shape of the tensor in the contiguous memory that begins `first` elements into the block.
 * Scratch memory that failed stays "no tensor", so that operations on it return that failure. */
static muster_tensor laid_at(muster_tensor block, int64_t first, const muster_tensor *shape) {
    if (block.dtype == MUSTER_DTYPE_NONE) return block;
    muster_tensor made = *shape;
    int64_t stride = 1;
    made.data = block.data;
    made.device = block.device;
    made.byte_offset = block.byte_offset + first * (int64_t)muster_dtype_size(block.dtype);
    for (int32_t d = made.ndim - 1; d >= 0; d--) {
        made.strides[d] = stride;
        stride *= made.shape[d] > 0 ? made.shape[d] : 1;
    }
    return made;
}

static muster_status scratch_for(muster_worker *worker, const muster_tensor *like, muster_tensor *made) {
    return muster_worker_scratch(worker, like->dtype, 1, (const int64_t[]){muster_tensor_count(*like)}, made);
}

/* x, or a copy of it without gaps. */
static muster_status without_gaps(muster_worker *worker, const muster_tensor *x, muster_tensor *result) {
    *result = *x;
    if (muster_tensor_is_contiguous(*x)) return MUSTER_OK;
    MUSTER_TRY(muster_worker_scratch(worker, x->dtype, x->ndim, x->shape, result));
    return muster_copy(worker, *x, *result);
}

/* The parts of a tensor, that of each worker without gaps, one behind the other. */
static muster_status parts_pack(muster_worker *worker, const mst_step_run *run, const muster_tensor *x, int32_t axis,
                                muster_tensor *block) {
    if (muster_tensor_is_contiguous(*x) && parts_in_order(x, axis)) {
        *block = *x;
        return MUSTER_OK;
    }
    MUSTER_TRY(scratch_for(worker, x, block));
    int64_t first = 0;
    for (int32_t r = 0; r < run->sharing->size; r++) {
        const muster_tensor part = part_of(run, *x, axis, r);
        MUSTER_TRY(muster_copy(worker, part, laid_at(*block, first, &part)));
        first += muster_tensor_count(part);
    }
    return MUSTER_OK;
}

static muster_status parts_unpack(muster_worker *worker, const mst_step_run *run, muster_tensor block, int32_t axis, muster_tensor *y) {
    int64_t first = 0;
    for (int32_t r = 0; r < run->sharing->size; r++) {
        const muster_tensor part = part_of(run, *y, axis, r);
        MUSTER_TRY(muster_copy(worker, laid_at(block, first, &part), part));
        first += muster_tensor_count(part);
    }
    return MUSTER_OK;
}

/* ---- the operations ---- */

/* Every exchange is the identity of the whole value. */
static void gradient_exchange(mst_gradients *gradients, muster_expr *node, muster_expr *dy) { mst_gradient_add(gradients, node, 0, dy); }

/* One worker has the parts of all. */
static bool view_alone(const mst_step_run *run, muster_tensor *result) {
    if (!run->sharing || run->sharing->size > 1 || run->sharing->shards_here) return false;
    return mst_view_same(run, result);
}

static bool view_part(const mst_step_run *run, muster_tensor *result) {
    const muster_tensor *x = run->in[0];
    const muster_tensor part = part_of(run, *x, run->node->distribution.axis, run->sharing->rank);
    result->byte_offset = part.byte_offset;
    return mst_view_same(run, result);
}

static muster_status run_part(muster_worker *worker, const mst_step_run *run) {
    return muster_copy(worker, part_of(run, *run->in[0], run->node->distribution.axis, run->sharing->rank), *run->out[0]);
}

static muster_status all_reduce(muster_worker *worker, const mst_step_run *run, muster_tensor x) {
    const muster_reduction op = run->node->inputs[0]->distribution.op;
    if (run->sharing->shards_here) return muster_worker_all_reduce_shards(worker, muster_worker_communicator(worker), op, x, *run->out[0]);
    return muster_worker_all_reduce(worker, muster_worker_communicator(worker), op, x, *run->out[0]);
}

static muster_status run_all_reduce(muster_worker *worker, const mst_step_run *run) {
    const int64_t mark = muster_worker_scratch_mark(worker);
    muster_tensor x;
    MUSTER_TRY(without_gaps(worker, run->in[0], &x));
    mst_worker_set_exact(worker, true);
    const muster_status status = all_reduce(worker, run, x);
    mst_worker_set_exact(worker, false);
    return status == MUSTER_OK ? muster_worker_scratch_release(worker, mark) : status;
}

static muster_status run_reduce_scatter(muster_worker *worker, const mst_step_run *run) {
    const int64_t mark = muster_worker_scratch_mark(worker);
    muster_tensor block;
    MUSTER_TRY(parts_pack(worker, run, run->in[0], run->node->distribution.axis, &block));
    mst_worker_set_exact(worker, true);
    const muster_status status = muster_worker_reduce_scatter(worker, muster_worker_communicator(worker),
                                                              run->node->inputs[0]->distribution.op, block, *run->out[0]);
    mst_worker_set_exact(worker, false);
    return status == MUSTER_OK ? muster_worker_scratch_release(worker, mark) : status;
}

static muster_status run_all_gather(muster_worker *worker, const mst_step_run *run) {
    const int32_t axis = run->node->inputs[0]->distribution.axis;
    const int64_t mark = muster_worker_scratch_mark(worker);
    const bool in_order = parts_in_order(run->out[0], axis);
    muster_tensor x, block = *run->out[0];
    if (!in_order) MUSTER_TRY(scratch_for(worker, run->out[0], &block));
    MUSTER_TRY(without_gaps(worker, run->in[0], &x));
    MUSTER_TRY(muster_worker_all_gather(worker, muster_worker_communicator(worker), x, block));
    if (!in_order) MUSTER_TRY(parts_unpack(worker, run, block, axis, run->out[0]));
    return muster_worker_scratch_release(worker, mark);
}

/* Worker r gets what lies in its part along the new axis, and sends what lies in this worker's part
 * along the old one. */
static muster_status run_all_to_all(muster_worker *worker, const mst_step_run *run) {
    const int32_t from = run->node->inputs[0]->distribution.axis, to = run->node->distribution.axis, size = run->sharing->size;
    const int64_t mark = muster_worker_scratch_mark(worker);
    int64_t *send, few[64];
    muster_tensor block, received;
    MUSTER_TRY(scratch_for(worker, run->out[0], &received));
    send = 2 * size <= 64 ? few : mst_alloc((size_t)(2 * size) * sizeof *send);
    if (!send) return mst_out_of_memory("muster_function_call", 2 * (int64_t)size * (int64_t)sizeof *send);
    for (int32_t r = 0; r < size; r++) {
        send[r] = muster_tensor_count(part_of(run, *run->in[0], to, r));
        send[size + r] = muster_tensor_count(part_of(run, *run->out[0], from, r));
    }
    muster_status status = parts_pack(worker, run, run->in[0], to, &block);
    if (status == MUSTER_OK)
        status = muster_worker_all_to_all_uneven(worker, muster_worker_communicator(worker), block, send, received, send + size);
    if (send != few) mst_free(send);
    MUSTER_TRY(status);
    MUSTER_TRY(parts_unpack(worker, run, received, from, run->out[0]));
    return muster_worker_scratch_release(worker, mark);
}

#define EXCHANGE(op_name, text, ...)                                                                                                     \
    const mst_operator mst_operator_##op_name = {                                                                                        \
        MST_ANY_OPERATOR(op_name, text), .operands = {"x"}, .flags = MST_OPERATOR_HIDDEN, .infer = mst_draft_same, .run = run_##op_name, \
        .gradient = gradient_exchange,   __VA_ARGS__}
EXCHANGE(part, "the worker's part of a value that every worker has", .view = view_part);
EXCHANGE(all_reduce, "the value that partial values combine to, on every worker", .in_place = 1, .view = view_alone);
EXCHANGE(reduce_scatter, "the worker's part of the sum of partial values", .view = view_alone);
EXCHANGE(all_gather, "the whole value, on every worker, from the workers' parts", .view = view_alone);
EXCHANGE(all_to_all, "the worker's part along another axis", .view = view_alone);
