/* Values in other distributions than those in which they were computed: by an exchange, or by the
 * same operation once more where that costs nothing. */
#include "distribution_private.h"

#include <math.h>

double mst_elements_of(const mst_distributing *d, const mst_type *type) {
    double elements = 1;
    for (int32_t a = 0; a < type->ndim; a++) {
        const int64_t size = mst_dim_value(d->graph, type->dims[a], d->sizes);
        elements *= size < 0 ? 0x1p62 : (double)size;
    }
    return elements;
}

double mst_bytes_of(const mst_distributing *d, const mst_type *type) {
    return mst_elements_of(d, type) * (double)muster_dtype_size(type->dtype);
}

muster_expr *mst_node_with(const muster_expr *node, muster_expr *const *inputs, mst_distribution distribution) {
    mst_graph *graph = node->graph;
    graph->origin = node->origin;
    graph->origin.next = NULL;
    muster_expr *made = mst_node_again(node, inputs, distribution);
    if (!mst_node_is_error(made) && made != node) mst_node_inherit(made, node, true);
    return made;
}

bool mst_has_result_in(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands) {
    if (node->op->flags & MST_OPERATOR_UNIQUE) return false;
    if (node->op->distribute) return node->op->distribute(node, result, way, operands);
    return node->op->elementwise && mst_distribute_elementwise(node, result, way, operands);
}

/* Can the node compute its result in this distribution at once, from the operands as they are? */
static bool is_made_again(const muster_expr *node, mst_distribution wanted) {
    mst_distribution operands[MST_NODE_WAYS * MST_GRAPH_OPERANDS];
    if (node->input_count > MST_NODE_WAYS * MST_GRAPH_OPERANDS) return false;
    if (mst_node_is(node, MST_OPERATOR_input) || mst_node_is(node, MST_OPERATOR_parameter)) return false;
    if (mst_node_is(node, MST_OPERATOR_part)) return false; /* it is of this distribution only */
    for (int32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i]->distribution.kind != MST_SAME) return false;
    if (wanted.kind == MST_SAME) return true;
    if (!mst_has_result_in(node, wanted, 0, operands)) return false;
    for (int32_t i = 0; i < node->input_count; i++)
        if (operands[i].kind != MST_SAME) return false;
    return true;
}

static muster_expr *copy_in(const mst_copies *value, mst_distribution wanted) {
    for (int32_t c = 0; c < value->count; c++)
        if (mst_same_distribution(value->nodes[c]->distribution, wanted)) return value->nodes[c];
    return NULL;
}

/* A view, such as a transpose, costs nothing in another distribution if its operands have been
 * brought to the one that it needs there. inputs[] become these, if it is not NULL. */
static bool is_viewed_again(const mst_distributing *d, const mst_copies *value, mst_distribution wanted, muster_expr **inputs) {
    const muster_expr *node = d->graph->nodes[value - d->made];
    mst_distribution operands[MST_GRAPH_OPERANDS];
    if (!node->op->view || !node->input_count || node->input_count > MST_GRAPH_OPERANDS) return false;
    if (node->op->flags & MST_OPERATOR_OWN_ROWS) return false;
    for (int32_t i = 0; i < node->input_count; i++) operands[i] = MST_DISTRIBUTED_SAME;
    if (wanted.kind != MST_SAME && !mst_has_result_in(node, wanted, 0, operands)) return false;
    for (int32_t i = 0; i < node->input_count; i++) {
        muster_expr *copy = copy_in(&d->made[node->inputs[i]->id], operands[i]);
        if (!copy) return false;
        if (inputs) inputs[i] = copy;
    }
    return true;
}

double mst_conversion_cost(const mst_distributing *d, const mst_copies *value, mst_distribution wanted, int32_t *from) {
    double best = INFINITY;
    if (is_viewed_again(d, value, wanted, NULL)) return 0;
    for (int32_t c = 0; c < value->count; c++) {
        const muster_expr *node = value->nodes[c];
        double cost = INFINITY;
        if (mst_same_distribution(node->distribution, wanted) || is_made_again(node, wanted))
            cost = 0;
        else if (mst_exchange_between(node->distribution, wanted) >= 0)
            cost = mst_exchange_bytes(node->distribution, wanted, mst_bytes_of(d, &node->type), d->workers);
        if (cost < best) {
            best = cost;
            *from = c;
        }
    }
    return best;
}

muster_expr *mst_exchange_make(const muster_expr *node, mst_distribution wanted) {
    mst_graph *graph = node->graph;
    muster_expr *operand = (muster_expr *)(uintptr_t)node;
    mst_draft draft = {.graph = graph,
                       .op = mst_operators[mst_exchange_between(node->distribution, wanted)],
                       .inputs = &operand,
                       .count = 1,
                       .distribution = wanted};
    draft.types[0] = node->type;
    graph->origin = node->origin;
    graph->origin.next = NULL;
    return mst_node_make(&draft);
}

muster_expr *mst_value_convert(const mst_distributing *d, mst_copies *value, mst_distribution wanted) {
    int32_t from = 0;
    muster_expr *inputs[MST_GRAPH_OPERANDS], *made = copy_in(value, wanted);
    if (made) return made;
    if (mst_conversion_cost(d, value, wanted, &from) == (double)INFINITY) return d->graph->error;
    const muster_expr *node = value->nodes[from];
    if (is_viewed_again(d, value, wanted, inputs))
        made = mst_node_with(node, inputs, wanted);
    else
        made = is_made_again(node, wanted) ? mst_node_with(node, node->inputs, wanted) : mst_exchange_make(node, wanted);
    if (!mst_node_is_error(made) && value->count < MST_VALUE_COPIES) value->nodes[value->count++] = made;
    return made;
}
