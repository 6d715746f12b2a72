/* Which values lie with their channels last: the channels of a place behind each other, then the
 * places. Convolutions on CPU cores take them so without a reordering, and so do pooling, batch
 * normalisation and elementwise operations. The shape of a value stays (n, c, ...), and its strides
 * say how it lies. One sweep over the nodes: convolutions begin a chain, and what follows them
 * takes their layout. All else is in row-major order, and reads operands by their strides. */
#include "program_private.h"

enum { CHANNELS = 1, FIRST = CHANNELS + 1, MOST_AXES = FIRST + 3 };

static bool begins_chain(const muster_expr *node) {
    return mst_node_is(node, MST_OPERATOR_convolution) || mst_node_is(node, MST_OPERATOR_convolution_data);
}

/* Its results lie as its first operand does. */
static bool follows_first(const muster_expr *node) {
    static const int32_t followers[] = {MST_OPERATOR_max_pool,
                                        MST_OPERATOR_max_pool_gradient,
                                        MST_OPERATOR_max_pool_take,
                                        MST_OPERATOR_average_pool,
                                        MST_OPERATOR_average_pool_gradient,
                                        MST_OPERATOR_sum_pool,
                                        MST_OPERATOR_sum_pool_gradient,
                                        MST_OPERATOR_normalised,
                                        MST_OPERATOR_normalised_rows};
    bool follows = false;
    for (size_t i = 0; i < sizeof followers / sizeof *followers; i++) follows = follows || mst_node_is(node, followers[i]);
    return follows;
}

/* An elementwise operation follows any operand of its own shape: a residual sum whose operands lie
 * differently has to read one of them by strides anyway. */
static bool follows_any(const bool *last, const muster_expr *node) {
    bool any = false;
    for (int32_t i = 0; i < node->input_count; i++)
        any = any || (last[node->inputs[i]->id] && mst_same_dims(&node->inputs[i]->type, &node->type));
    return any;
}

muster_status mst_graph_program_layout(mst_graph_program *program) {
    const mst_graph *graph = program->graph;
    for (int32_t r = 0; r < graph->runtime->size; r++)
        if (!mst_device_is_host(graph->runtime->devices[r])) return MUSTER_OK;
    bool *last = mst_alloc((size_t)graph->node_count * sizeof *last);
    if (!last) return mst_out_of_memory("muster_graph_compile", graph->node_count);
    for (int32_t id = 0; id < graph->node_count; id++) {
        const muster_expr *node = graph->nodes[id];
        if (node->type.ndim <= FIRST - 1 || node->type.ndim > MOST_AXES || !mst_node_is_known(node)) continue;
        last[id] =
            begins_chain(node) || (follows_first(node) && last[node->inputs[0]->id]) || (node->op->elementwise && follows_any(last, node));
    }
    program->channels_last = last;
    return MUSTER_OK;
}

/* Where there is one channel, or one place, the order is the same, and so are the strides. */
void mst_layout_set(const mst_graph_program *program, const muster_expr *node, muster_tensor *tensor) {
    int64_t places = 1, elements;
    if (!program->channels_last || !program->channels_last[node->id] || tensor->ndim != node->type.ndim) return;
    for (int32_t d = FIRST; d < tensor->ndim; d++) places *= tensor->shape[d];
    if (places <= 1 || tensor->shape[CHANNELS] <= 1) return;
    tensor->strides[CHANNELS] = 1;
    elements = tensor->shape[CHANNELS];
    for (int32_t d = tensor->ndim - 1; d >= FIRST; d--) {
        tensor->strides[d] = elements;
        elements *= tensor->shape[d];
    }
}
