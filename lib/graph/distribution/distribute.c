/* Sharing a graph out: one sweep over the nodes that outputs and updates need, in the order of
 * their numbers. Each node is made again with a distribution, and with operands in the
 * distributions that its way needs. The cheapest way is taken, by the bytes that a worker receives
 * for the operands, later for a result of partial values or of other parts than those that are
 * wished (wishes.c), and by the work that the workers do more than once. */
#include "distribution_private.h"
#include "variable_impl.h"

#include <math.h>

static const char where[] = "muster_graph_compile";

/* ---- costs ---- */

/* What the node costs a worker to compute, as the bytes that it could receive meanwhile: a core
 * computes about 8 operations of a product while it receives a byte. */
static double work_of(const mst_distributing *d, const muster_expr *node) {
    enum { OPERATIONS_PER_BYTE = 8 };
    if (!node->op->operations) return mst_bytes_of(d, &node->type);
    return mst_elements_of(d, &node->type) * node->op->operations(node, d->sizes) / OPERATIONS_PER_BYTE;
}

/* ---- the way of a node ---- */

/* Of a gradient that is no partial sum every worker needs all, and makes the update of the whole
 * parameter, at three or more passes over it; of a partial sum each makes its part. */
static double update_cost(const mst_distributing *d, const muster_expr *node, mst_distribution result) {
    enum { PASSES = 3 };
    const double bytes = mst_bytes_of(d, &node->type);
    return mst_exchange_bytes(result, MST_DISTRIBUTED_SAME, bytes, d->workers) + PASSES * bytes * (d->workers - 1) / d->workers;
}

static bool is_cut_evenly(const mst_distributing *d, const muster_expr *node, mst_distribution distribution) {
    return distribution.kind == MST_CUT && !mst_axis_has_rows(d->graph, &node->type, distribution.axis);
}

/* With micro-batches, rows that are brought together take the memory that these should save. Layers
 * with split parameters do that all the same: their program wants it. */
static double rows_cost(const mst_distributing *d, const muster_expr *node, mst_distribution result, const mst_distribution *operands) {
    const double dear = 0x1p40;
    if (!d->micro_batches) return 0;
    bool gathers = false;
    for (int32_t i = 0; i < node->input_count; i++) {
        const muster_expr *operand = d->made[node->inputs[i]->id].nodes[0];
        const mst_distribution is = operand->distribution;
        if (is_cut_evenly(d, operand, is)) return 0;
        gathers = gathers || (is.kind == MST_CUT && !mst_same_distribution(is, operands[i]));
    }
    if (is_cut_evenly(d, node, result) && mst_same_distribution(result, d->wishes[node->id])) return 0;
    return gathers ? dear : 0;
}

/* Logical shards and micro-batches are rows: nothing else is cut. */
static bool cuts_others(const mst_distributing *d, const muster_expr *node, const mst_distribution *operands) {
    for (int32_t i = 0; i < node->input_count && d->rows_only; i++)
        if (is_cut_evenly(d, node->inputs[i], operands[i])) return true;
    return false;
}

static double way_cost(const mst_distributing *d, const muster_expr *node, mst_distribution result, const mst_distribution *operands) {
    if (cuts_others(d, node, operands)) return INFINITY;
    double cost = work_of(d, node) + rows_cost(d, node, result, operands);
    if (result.kind == MST_CUT) cost /= d->workers;
    bool parts = result.kind == MST_CUT && mst_axis_has_rows(d->graph, &node->type, result.axis);
    for (int32_t i = 0; i < node->input_count; i++) {
        int32_t from = 0;
        const mst_copies *value = &d->made[node->inputs[i]->id];
        const double bytes = mst_conversion_cost(d, value, operands[i], &from);
        parts = parts || value->nodes[0]->distribution.kind != MST_SAME;
        /* What the value cost includes the part that is wished. */
        if (bytes == (double)INFINITY || !mst_same_distribution(operands[i], d->wishes[node->inputs[i]->id])) cost += bytes;
    }
    /* What every worker has, every worker computes, rather than a part that is gathered later. */
    if (result.kind != MST_SAME && !parts) return INFINITY;
    mst_distribution needed = MST_DISTRIBUTED_SAME;
    const mst_distribution wish = d->wishes[node->id];
    if (wish.kind == MST_PARTIAL && result.kind != MST_PARTIAL) return cost + update_cost(d, node, result);
    if (wish.kind == MST_CUT && mst_exchange_between(result, wish) >= 0) needed = wish;
    if (result.kind == MST_CUT && needed.kind == MST_SAME) return cost;
    cost += mst_exchange_bytes(result, needed, mst_bytes_of(d, &node->type), d->workers);
    if (result.kind != MST_PARTIAL) return cost;
    for (int32_t i = 0; i < node->input_count; i++) /* the work of products of parts is shared, too */
        if (operands[i].kind == MST_CUT) return cost - work_of(d, node) * (d->workers - 1) / d->workers;
    return cost;
}

typedef struct choice {
    double cost;
    mst_distribution result, *operands, *tried;
} choice;

static void try_way(const mst_distributing *d, const muster_expr *node, mst_distribution result, choice *best) {
    const double cost = way_cost(d, node, result, best->tried);
    if (!(cost < best->cost)) return;
    best->cost = cost;
    best->result = result;
    mst_distribution *operands = best->operands;
    best->operands = best->tried;
    best->tried = operands;
}

static void try_result(const mst_distributing *d, const muster_expr *node, mst_distribution result, choice *best) {
    for (int32_t way = 0; way < MST_NODE_WAYS; way++) {
        const bool found = mst_has_result_in(node, result, way, best->tried) ||
                           (way == 0 && mst_is_rounded_before(node, result, d->wishes[node->id], best->tried));
        if (!found) return;
        try_way(d, node, result, best);
    }
}

/* Rows first: of equal costs the first is taken. */
static void choose(const mst_distributing *d, const muster_expr *node, choice *best) {
    static const int32_t reductions[] = {MUSTER_SUM, MUSTER_MAX, MUSTER_MIN, MUSTER_PROD};
    best->result = MST_DISTRIBUTED_SAME; /* whatever the costs are */
    for (int32_t i = 0; i < node->input_count; i++) best->operands[i] = MST_DISTRIBUTED_SAME;
    for (int32_t rows = 1; rows >= 0; rows--)
        for (int32_t a = 0; a < node->type.ndim; a++)
            if (mst_axis_has_rows(d->graph, &node->type, a) == (rows == 1) && node->type.dims[a] != MST_DIM_ONE && (rows || !d->rows_only))
                try_result(d, node, MST_DISTRIBUTED_CUT(a), best);
    const bool partial =
        !d->shards || (node->type.ndim < MUSTER_MAX_DIMS && node->input_count <= MST_GRAPH_OPERANDS && node->op->results < 2);
    for (size_t r = 0; r < sizeof reductions / sizeof *reductions && partial; r++)
        try_result(d, node, MST_DISTRIBUTED_PARTIAL(reductions[r]), best);
    for (int32_t i = 0; i < node->input_count; i++) best->tried[i] = MST_DISTRIBUTED_SAME;
    try_way(d, node, MST_DISTRIBUTED_SAME, best);
}

static muster_status choose_own_rows(const mst_distributing *d, const muster_expr *node, choice *best) {
    best->result = MST_DISTRIBUTED_CUT(0);
    (void)mst_has_result_in(node, best->result, 0, best->operands);
    for (int32_t i = 0; i < node->input_count; i++) {
        int32_t from = 0;
        mst_copies *operand = &d->made[node->inputs[i]->id];
        if (mst_conversion_cost(d, operand, best->operands[i], &from) < (double)INFINITY) continue;
        /* a maximum, a minimum or a product over the devices, of which each takes its part */
        if (mst_node_is_error(mst_value_convert(d, operand, MST_DISTRIBUTED_SAME))) return d->graph->latest;
    }
    return MUSTER_OK;
}

static muster_status node_distribute(mst_distributing *d, muster_expr *node, choice *best, muster_expr **inputs) {
    mst_graph *graph = d->graph;
    mst_copies *made = &d->made[node->id];
    made->count = 1;
    if (mst_node_is(node, MST_OPERATOR_input) || mst_node_is(node, MST_OPERATOR_parameter)) {
        made->nodes[0] = node;
        return MUSTER_OK;
    }
    best->cost = INFINITY;
    if (mst_node_is(node, MST_OPERATOR_result)) { /* as its operation is computed */
        best->operands[0] = d->made[node->inputs[0]->id].nodes[0]->distribution;
        best->result = mst_distribution_of_result(node, best->operands[0]);
    } else if (node->op->flags & MST_OPERATOR_OWN_ROWS) {
        MUSTER_TRY(choose_own_rows(d, node, best));
    } else {
        choose(d, node, best);
    }
    for (int32_t i = 0; i < node->input_count; i++) {
        inputs[i] = mst_value_convert(d, &d->made[node->inputs[i]->id], best->operands[i]);
        if (mst_node_is_error(inputs[i])) return graph->latest;
    }
    if (mst_travels_wide(d, node, best->result)) {
        made->nodes[0] = mst_node_combined(node, inputs, best->result);
        return mst_node_is_error(made->nodes[0]) ? graph->latest : MUSTER_OK;
    }
    made->nodes[0] = mst_node_with(node, inputs, best->result);
    if (d->shards && best->result.kind == MST_PARTIAL && !mst_node_is_error(made->nodes[0]))
        made->nodes[0] = mst_exchange_make(made->nodes[0], MST_DISTRIBUTED_SAME);
    return mst_node_is_error(made->nodes[0]) ? graph->latest : MUSTER_OK;
}

/* ---- the graph ---- */

static void find_used(mst_distributing *d) {
    const mst_graph *graph = d->graph;
    for (int32_t i = 0; i < graph->outputs.count; i++) d->used[graph->outputs.items[i].node->id] = true;
    for (int32_t i = 0; i < graph->updates.count; i++)
        if (graph->updates.items[i].node) d->used[graph->updates.items[i].node->id] = true;
    for (int32_t i = 0; i < graph->scalars.count; i++) d->used[graph->scalars.items[i].node->id] = true;
    for (int32_t id = d->count - 1; id >= 0; id--)
        for (int32_t i = 0; d->used[id] && i < graph->nodes[id]->input_count; i++) d->used[graph->nodes[id]->inputs[i]->id] = true;
}

static mst_distribution variable_distribution(const muster_variable *variable, bool rows) {
    const int32_t axis = rows ? 0 : variable->object.runtime->total > 1 ? mst_variable_split_axis(variable) : -1;
    return axis < 0 ? MST_DISTRIBUTED_SAME : MST_DISTRIBUTED_CUT(axis);
}

/* Scattered inputs and variables with rows are cut at the rows; split variables where they are. */
static void leaves_distribute(mst_graph *graph) {
    for (int32_t i = 0; i < graph->inputs.count; i++) {
        mst_graph_port *port = &graph->inputs.items[i];
        port->node->distribution = port->mode == MUSTER_BROADCAST ? MST_DISTRIBUTED_SAME : MST_DISTRIBUTED_CUT(0);
    }
    for (int32_t i = 0; i < graph->variables.count; i++) {
        mst_graph_port *port = &graph->variables.items[i];
        port->node->distribution = variable_distribution(port->variable, port->mode == MUSTER_USE_READ_SLICEABLE);
    }
}

/* A value with rows goes to the caller row by row, a sum of partial values as one; all others are
 * brought to every worker first. */
static mst_distribution output_distribution(const mst_distributing *d, const muster_expr *node) {
    const mst_distribution is = node->distribution;
    if (node->type.ndim && mst_dim_is_rows(d->graph, node->type.dims[0])) return MST_DISTRIBUTED_CUT(0);
    if (is.kind == MST_PARTIAL && !d->graph->runtime->logical_shards) return is;
    return MST_DISTRIBUTED_SAME;
}

static mst_distribution update_distribution(const mst_graph *graph, const mst_graph_port *port) {
    for (int32_t i = 0; i < graph->variables.count; i++)
        if (graph->variables.items[i].variable == port->variable) return graph->variables.items[i].node->distribution;
    return variable_distribution(port->variable, port->node->type.ndim && mst_axis_has_rows(graph, &port->node->type, 0));
}

/* A gradient is summed by the pass that makes the update. If every worker has it, every worker
 * makes the update. */
static mst_distribution gradient_distribution(const mst_distributing *d, const mst_graph_port *port) {
    const mst_distribution is = d->made[port->node->id].nodes[0]->distribution, update = update_distribution(d->graph, port);
    return update.kind == MST_SAME && is.kind == MST_PARTIAL && is.op == MUSTER_SUM ? is : update;
}

static muster_status port_distribute(mst_distributing *d, mst_graph_port *port, mst_distribution wanted) {
    muster_expr *node = mst_value_convert(d, &d->made[port->node->id], wanted);
    if (mst_node_is_error(node)) return d->graph->latest;
    port->node = node;
    return MUSTER_OK;
}

static muster_status distribute_all(mst_distributing *d) {
    mst_graph *graph = d->graph;
    int32_t most = 1;
    for (int32_t id = 0; id < d->count; id++)
        if (d->used[id] && graph->nodes[id]->input_count > most) most = graph->nodes[id]->input_count;
    muster_expr **inputs = mst_alloc((size_t)most * sizeof *inputs);
    mst_distribution *tables = mst_alloc((size_t)most * 2 * sizeof *tables);
    choice best = {.operands = tables, .tried = tables ? tables + most : NULL};
    muster_status status = inputs && tables ? MUSTER_OK : mst_out_of_memory(where, (int64_t)most * (int64_t)sizeof *inputs);
    for (int32_t id = 0; status == MUSTER_OK && id < d->count; id++)
        if (d->used[id]) status = node_distribute(d, graph->nodes[id], &best, inputs);
    for (int32_t i = 0; status == MUSTER_OK && i < graph->outputs.count; i++) {
        mst_graph_port *port = &graph->outputs.items[i];
        status = port_distribute(d, port, output_distribution(d, d->made[port->node->id].nodes[0]));
    }
    for (int32_t i = 0; status == MUSTER_OK && i < graph->updates.count; i++) {
        mst_graph_port *port = &graph->updates.items[i];
        if (port->pass == MST_PORT_ALONE)
            status = port_distribute(d, port, update_distribution(graph, port));
        else if (port->pass == MST_PORT_GRADIENT)
            status = port_distribute(d, port, gradient_distribution(d, port));
    }
    for (int32_t i = 0; status == MUSTER_OK && i < graph->scalars.count; i++)
        status = port_distribute(d, &graph->scalars.items[i], MST_DISTRIBUTED_SAME);
    mst_free(inputs);
    mst_free(tables);
    return status;
}

muster_status mst_graph_distribute(mst_graph *graph, int64_t rows, bool micro_batches) {
    enum { NAMED_SIZE = 32 };
    mst_distributing d = {
        .graph = graph, .count = graph->node_count, .workers = graph->runtime->total, .shards = graph->runtime->logical_shards > 0};
    if (d.shards) d.workers = graph->runtime->logical_shards;
    const bool alone = !d.shards && d.workers == 1;
    if (alone) d.workers = 2; /* micro-batches */
    d.micro_batches = micro_batches;
    d.rows_only = d.shards || alone;
    for (int32_t s = 0; s < MST_SIZES; s++) d.sizes[s] = s == MST_SIZE_ROWS ? rows : NAMED_SIZE;
    d.used = mst_alloc((size_t)d.count);
    d.made = mst_alloc((size_t)d.count * sizeof *d.made);
    d.wishes = mst_alloc((size_t)d.count * sizeof *d.wishes);
    muster_status status = d.used && d.made && d.wishes ? MUSTER_OK : mst_out_of_memory(where, (int64_t)d.count * (int64_t)sizeof *d.made);
    if (status == MUSTER_OK) {
        graph->simplifying = true;
        leaves_distribute(graph);
        find_used(&d);
        if (!d.rows_only) mst_graph_wish(graph, d.used, d.count, d.wishes);
        status = distribute_all(&d);
        graph->simplifying = false;
        graph->origin = (mst_origin){0};
        graph->status = MUSTER_OK; /* memory that runs out here spoils no expression of the program */
    }
    mst_free(d.used);
    mst_free(d.made);
    mst_free(d.wishes);
    return status;
}
