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

/* What shard s has of a value with this distribution. */
static muster_tensor shard_of(mst_distribution distribution, const mst_sharing *sharing, const muster_tensor *tensor, int32_t s) {
    muster_tensor made = *tensor;
    if (distribution.kind == MST_PARTIAL) {
        made.byte_offset += s * made.strides[0] * (int64_t)muster_dtype_size(made.dtype);
        made.ndim--;
        for (int32_t d = 0; d < made.ndim; d++) {
            made.shape[d] = made.shape[d + 1];
            made.strides[d] = made.strides[d + 1];
        }
    } else if (distribution.kind == MST_CUT) {
        const int32_t axis = distribution.axis;
        const int64_t rows = sharing->shard_edges[sharing->shards_here], each = rows ? made.shape[axis] / rows : 0;
        made.byte_offset += sharing->shard_edges[s] * each * made.strides[axis] * (int64_t)muster_dtype_size(made.dtype);
        made.shape[axis] = (sharing->shard_edges[s + 1] - sharing->shard_edges[s]) * each;
    }
    return made;
}

/* Does any axis but the cut one reach as far in memory? Then the strides of a shard depend on how
 * many other shards are with the worker, and an operation may compute in another order. */
static bool is_layout_shared(mst_distribution distribution, const muster_tensor *tensor) {
    if (distribution.kind != MST_CUT) return false;
    const int32_t axis = distribution.axis;
    for (int32_t d = 0; d < tensor->ndim; d++)
        if (d != axis && tensor->shape[d] > 1 && llabs(tensor->strides[d]) >= llabs(tensor->strides[axis])) return true;
    return false;
}

/* The shard in a layout that does not depend on the number of devices. */
static muster_status shard_layout(muster_worker *worker, mst_distribution distribution, const muster_tensor *shard, muster_tensor *made) {
    *made = *shard;
    if (!is_layout_shared(distribution, shard)) return MUSTER_OK;
    return muster_worker_scratch(worker, shard->dtype, shard->ndim, shard->shape, made);
}

/* The tensors of one shard. */
typedef struct shard_run {
    muster_tensor in[MST_GRAPH_OPERANDS], out[MST_RESULTS];
    muster_tensor results[MST_RESULTS]; /* where the results belong */
    const muster_tensor *in_of[MST_GRAPH_OPERANDS];
    muster_tensor *out_of[MST_RESULTS];
} shard_run;

static muster_status shard_operands(muster_worker *worker, const mst_sharing *sharing, const mst_graph_program_step *step, int32_t s,
                                    shard_run *run) {
    for (int32_t i = 0; i < step->in_count; i++) {
        run->in_of[i] = step->in[i] ? &run->in[i] : NULL;
        if (!step->in[i]) continue;
        const mst_distribution distribution = step->node->inputs[i]->distribution;
        const muster_tensor shard = shard_of(distribution, sharing, step->in[i], s);
        MUSTER_TRY(shard_layout(worker, distribution, &shard, &run->in[i]));
        if (is_layout_shared(distribution, &shard)) MUSTER_TRY(muster_copy(worker, shard, run->in[i]));
    }
    return MUSTER_OK;
}

static mst_distribution distribution_of(const muster_expr *node, int32_t result) {
    const mst_distribution first = node->distribution;
    return result == 0 || !node->op->distribute_result ? first : node->op->distribute_result(first, result);
}

static muster_status shard_results(muster_worker *worker, const mst_sharing *sharing, const mst_graph_program_step *step, int32_t s,
                                   shard_run *run) {
    for (int32_t r = 0; r < MST_RESULTS; r++) {
        run->out_of[r] = &run->out[r];
        run->out[r] = run->results[r] = muster_tensor_none();
        if (r >= step->out_count || step->out[r]->dtype == MUSTER_DTYPE_NONE) continue;
        const mst_distribution distribution = distribution_of(step->node, r);
        run->results[r] = shard_of(distribution, sharing, step->out[r], s);
        MUSTER_TRY(shard_layout(worker, distribution, &run->results[r], &run->out[r]));
    }
    return MUSTER_OK;
}

static muster_status shard_write(muster_worker *worker, const muster_expr *node, const shard_run *run) {
    for (int32_t r = 0; r < MST_RESULTS; r++)
        if (run->results[r].dtype != MUSTER_DTYPE_NONE && is_layout_shared(distribution_of(node, r), &run->results[r]))
            MUSTER_TRY(muster_copy(worker, run->out[r], run->results[r]));
    return MUSTER_OK;
}

muster_status mst_step_run_shards(muster_worker *worker, const mst_instance *instance, mst_graph_program_step *step) {
    const mst_sharing *sharing = &instance->sharing;
    shard_run made;
    const mst_step_run run = {
        .node = step->node, .in = made.in_of, .out = made.out_of, .sizes = instance->sizes, .sharing = sharing, .state = &step->state};
    for (int32_t s = 0; s < sharing->shards_here; s++) {
        const int64_t mark = muster_worker_scratch_mark(worker);
        MUSTER_TRY(shard_operands(worker, sharing, step, s, &made));
        MUSTER_TRY(shard_results(worker, sharing, step, s, &made));
        MUSTER_TRY(step->node->op->run(worker, &run));
        MUSTER_TRY(shard_write(worker, step->node, &made));
        MUSTER_TRY(muster_worker_scratch_release(worker, mark));
    }
    return MUSTER_OK;
}
