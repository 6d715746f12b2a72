/* Which nodes run before the loop over micro-batches, in it, and behind it. A node is in the
 * loop if the rows of a micro-batch suffice for its value, or for its part of a partial value,
 * and nothing that it needs is behind the loop. An exchange ends the loop: what needs its result
 * needs all rows. */
#include "micro_private.h"

typedef struct phasing {
    const mst_graph *graph;
    int8_t *phase; /* by id; MST_PHASE_NONE: the program does not need the node */
    bool *ports;   /* by id: an output or an update */
    bool *leaves;  /* by id: an output, an update, or something behind the loop needs the value */
    bool *looped;  /* by id: something in the loop needs the value, or what is made from it before the loop */
} phasing;

static bool is_given(const muster_expr *node) { return mst_node_is(node, MST_OPERATOR_input) || mst_node_is(node, MST_OPERATOR_parameter); }

static void ports_find(phasing *p, const mst_ports *ports) {
    for (int32_t i = 0; i < ports->count; i++) {
        if (!ports->items[i].node) continue;
        p->phase[ports->items[i].node->id] = MST_PHASE_BEFORE;
        p->ports[ports->items[i].node->id] = p->leaves[ports->items[i].node->id] = true;
    }
}

static void used_find(phasing *p) {
    for (int32_t id = 0; id < p->graph->node_count; id++) p->phase[id] = MST_PHASE_NONE;
    ports_find(p, &p->graph->outputs);
    ports_find(p, &p->graph->updates);
    ports_find(p, &p->graph->scalars);
    for (int32_t id = p->graph->node_count - 1; id >= 0; id--)
        for (int32_t i = 0; p->phase[id] != MST_PHASE_NONE && i < p->graph->nodes[id]->input_count; i++)
            p->phase[p->graph->nodes[id]->inputs[i]->id] = MST_PHASE_BEFORE;
}

/* A partial value must be partial because of the rows: the sum of a partial value that is the same
 * for every micro-batch would count it several times. */
static bool partial_is_in_loop(const phasing *p, const muster_expr *node) {
    bool rows = false;
    for (int32_t i = 0; i < node->input_count; i++) {
        const muster_expr *operand = node->inputs[i];
        const bool in_loop = p->phase[operand->id] == MST_PHASE_LOOP;
        if (operand->distribution.kind == MST_PARTIAL && !in_loop) return false;
        rows = rows || in_loop || mst_value_has_slices(operand);
    }
    return rows;
}

static bool node_is_in_loop(const phasing *p, const muster_expr *node) {
    if (is_given(node) || mst_node_exchanges(node) || mst_node_is(node, MST_OPERATOR_part)) return false;
    for (int32_t i = 0; i < node->input_count; i++)
        if (p->phase[node->inputs[i]->id] == MST_PHASE_AFTER) return false;
    if (mst_node_is(node, MST_OPERATOR_result)) return p->phase[node->inputs[0]->id] == MST_PHASE_LOOP;
    if (node->distribution.kind == MST_PARTIAL) return partial_is_in_loop(p, node);
    return mst_value_has_slices(node);
}

static void phases_set(phasing *p) {
    for (int32_t id = 0; id < p->graph->node_count; id++) {
        const muster_expr *node = p->graph->nodes[id];
        if (p->phase[id] == MST_PHASE_NONE) continue;
        if (node_is_in_loop(p, node)) {
            p->phase[id] = MST_PHASE_LOOP;
            continue;
        }
        for (int32_t i = 0; i < node->input_count; i++)
            if (p->phase[node->inputs[i]->id] != MST_PHASE_BEFORE) p->phase[id] = MST_PHASE_AFTER;
    }
}

/* Is the memory that the loop saves by computing the value lost again, since all of the value
 * leaves the loop, as do all of its operands? Then it is computed behind the loop, when it is
 * needed. */
static bool saves_nothing(const phasing *p, const muster_expr *node) {
    if (!mst_value_has_slices(node) || p->looped[node->id] || mst_node_is(node, MST_OPERATOR_result) || node->op->results > 1) return false;
    for (int32_t i = 0; i < node->input_count; i++)
        if (p->phase[node->inputs[i]->id] == MST_PHASE_LOOP && !p->leaves[node->inputs[i]->id]) return false;
    return true;
}

/* From the end: what needs a node has its phase already. */
static void phases_finish(phasing *p) {
    for (int32_t id = p->graph->node_count - 1; id >= 0; id--) {
        const muster_expr *node = p->graph->nodes[id];
        if (p->phase[id] == MST_PHASE_NONE) continue;
        if (p->phase[id] == MST_PHASE_LOOP && saves_nothing(p, node) && !p->ports[id]) p->phase[id] = MST_PHASE_AFTER;
        if (p->phase[id] == MST_PHASE_BEFORE && !p->looped[id] && !is_given(node)) p->phase[id] = MST_PHASE_AFTER;
        for (int32_t i = 0; i < node->input_count; i++) {
            const int32_t operand = node->inputs[i]->id;
            if (p->phase[id] == MST_PHASE_AFTER)
                p->leaves[operand] = true;
            else
                p->looped[operand] = true;
        }
    }
}

muster_status mst_phases_find(mst_graph_program *program) {
    const size_t nodes = (size_t)program->graph->node_count;
    phasing p = {.graph = program->graph, .phase = mst_alloc(nodes), .ports = mst_alloc(3 * nodes * sizeof(bool))};
    bool any = false;
    program->phase = p.phase;
    if (!p.phase || !p.ports) {
        mst_free(p.ports);
        return mst_out_of_memory("muster_graph_compile", 4 * (int64_t)nodes);
    }
    p.leaves = p.ports + nodes;
    p.looped = p.leaves + nodes;
    used_find(&p);
    phases_set(&p);
    phases_finish(&p);
    for (size_t id = 0; id < nodes; id++) any = any || p.phase[id] == MST_PHASE_LOOP;
    mst_free(p.ports);
    if (any) return MUSTER_OK;
    mst_free(program->phase);
    program->phase = NULL;
    return MUSTER_OK;
}
