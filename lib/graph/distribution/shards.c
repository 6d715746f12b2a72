/* Steps of a runtime with logical shards: values whose bits could depend on the rows that are
 * computed together are computed shard by shard, so that they do not depend on the number of
 * devices. */
#include "../program_private.h"

#include <stdlib.h>

bool mst_step_is_by_shard(const muster_expr *node, const mst_sharing *sharing) {
    if (!sharing || !sharing->shards_here || mst_node_exchanges(node) || mst_node_is(node, MST_OPERATOR_part)) return false;
    if (node->distribution.kind == MST_PARTIAL) return true;
    return node->distribution.kind == MST_CUT && node->op->flags & MST_OPERATOR_BY_SHARD;
}

/* What shard s has of a value of the node. */
static muster_tensor shard_of(const muster_expr *node, const mst_sharing *sharing, const muster_tensor *tensor, int32_t s) {
    muster_tensor made = *tensor;
    if (node->distribution.kind == MST_PARTIAL) {
        made.byte_offset += s * made.strides[0] * (int64_t)muster_dtype_size(made.dtype);
        made.ndim--;
        for (int32_t d = 0; d < made.ndim; d++) {
            made.shape[d] = made.shape[d + 1];
            made.strides[d] = made.strides[d + 1];
        }
    } else if (node->distribution.kind == MST_CUT) {
        const int32_t axis = node->distribution.axis;
        const int64_t rows = sharing->shard_edges[sharing->shards_here], each = rows ? made.shape[axis] / rows : 0;
        made.byte_offset += sharing->shard_edges[s] * each * made.strides[axis] * (int64_t)muster_dtype_size(made.dtype);
        made.shape[axis] = (sharing->shard_edges[s + 1] - sharing->shard_edges[s]) * each;
    }
    return made;
}

/* Does any axis but the cut one reach as far in memory? Then the strides of a shard depend on how
 * many other shards are with the worker, and an operation may compute in another order. */
static bool is_layout_shared(const muster_expr *node, const muster_tensor *tensor) {
    if (node->distribution.kind != MST_CUT) return false;
    const int32_t axis = node->distribution.axis;
    for (int32_t d = 0; d < tensor->ndim; d++)
        if (d != axis && tensor->shape[d] > 1 && llabs(tensor->strides[d]) >= llabs(tensor->strides[axis])) return true;
    return false;
}

/* The shard in a layout that does not depend on the number of devices. */
static muster_status shard_read(muster_worker *worker, const muster_expr *node, const muster_tensor *shard, muster_tensor *read) {
    *read = *shard;
    if (!is_layout_shared(node, shard)) return MUSTER_OK;
    *read = muster_worker_scratch(worker, shard->dtype, shard->ndim, shard->shape);
    return muster_copy(worker, *shard, *read);
}

muster_status mst_step_run_shards(muster_worker *worker, const mst_instance *instance, mst_graph_program_step *step) {
    const mst_sharing *sharing = &instance->sharing;
    const muster_expr *node = step->node;
    muster_tensor in[MST_GRAPH_OPERANDS], out;
    const muster_tensor *in_of[MST_GRAPH_OPERANDS];
    muster_tensor none = muster_tensor_none(), *out_of[MST_RESULTS] = {&out, &none, &none};
    const mst_step_run run = {
        .node = node, .in = in_of, .out = out_of, .sizes = instance->sizes, .sharing = sharing, .state = &step->state};
    for (int32_t s = 0; s < sharing->shards_here; s++) {
        const int64_t mark = muster_worker_scratch_mark(worker);
        for (int32_t i = 0; i < step->in_count; i++) {
            in_of[i] = step->in[i] ? &in[i] : NULL;
            if (!step->in[i]) continue;
            const muster_tensor shard = shard_of(node->inputs[i], sharing, step->in[i], s);
            MUSTER_TRY(shard_read(worker, node->inputs[i], &shard, &in[i]));
        }
        const muster_tensor result = shard_of(node, sharing, step->out[0], s);
        out = result;
        if (is_layout_shared(node, &result)) out = muster_worker_scratch(worker, result.dtype, result.ndim, result.shape);
        MUSTER_TRY(node->op->run(worker, &run));
        if (is_layout_shared(node, &result)) MUSTER_TRY(muster_copy(worker, out, result));
        MUSTER_TRY(muster_worker_scratch_release(worker, mark));
    }
    return MUSTER_OK;
}
