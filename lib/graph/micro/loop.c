/* The loop over micro-batches as a program of its own. */
#include "../observe_private.h"
#include "micro_private.h"

static const char where[] = "muster_graph_compile";

static muster_status port_add(mst_ports *ports, muster_expr *node) {
    MUSTER_TRY(mst_grow((void **)&ports->items, &ports->capacity, ports->count + 1, sizeof *ports->items, where));
    ports->items[ports->count++] = (mst_graph_port){.name = "", .node = node, .written = node};
    return MUSTER_OK;
}

static bool is_in_loop(const mst_graph_program *program, const muster_expr *node) { return program->phase[node->id] == MST_PHASE_LOOP; }

/* Values in the loop that outputs, updates or nodes behind the loop need leave it. */
static muster_status outputs_find(const mst_graph_program *program, struct mst_loop *loop) {
    const mst_graph *graph = program->graph;
    const mst_ports *const lists[] = {&graph->outputs, &graph->updates, &graph->scalars};
    bool *leaves = mst_alloc((size_t)graph->node_count);
    if (!leaves) return mst_out_of_memory(where, graph->node_count);
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (int32_t i = 0; i < lists[l]->count; i++)
            if (lists[l]->items[i].node) leaves[lists[l]->items[i].node->id] = true;
    for (int32_t at = 0; at < program->count; at++) {
        const muster_expr *node = program->order[at];
        for (int32_t i = 0; !is_in_loop(program, node) && i < node->input_count; i++)
            if (!mst_program_operand_is_number(program, node, i)) leaves[node->inputs[i]->id] = true;
    }
    muster_status status = MUSTER_OK;
    for (int32_t at = 0; at < program->count && status == MUSTER_OK; at++)
        if (is_in_loop(program, program->order[at]) && leaves[program->order[at]->id])
            status = port_add(&loop->graph.outputs, program->order[at]);
    mst_free(leaves);
    return status;
}

/* Everything that is not in the loop is given to it, if it is needed there. */
static muster_status given_set(const mst_graph_program *program, mst_graph_program *inner) {
    const int32_t nodes = program->graph->node_count;
    inner->given_of = mst_alloc((size_t)nodes * sizeof *inner->given_of);
    if (!inner->given_of) return mst_out_of_memory(where, (int64_t)nodes * (int64_t)sizeof *inner->given_of);
    for (int32_t id = 0; id < nodes; id++) inner->given_of[id] = program->phase[id] == MST_PHASE_LOOP ? -1 : 0;
    return MUSTER_OK;
}

static muster_status given_number(struct mst_loop *loop) {
    mst_graph_program *inner = loop->program;
    for (int32_t at = 0; at < inner->count; at++) {
        muster_expr *node = inner->order[at];
        if (inner->given_of[node->id] < 0) continue;
        inner->given_of[node->id] = loop->graph.inputs.count;
        MUSTER_TRY(port_add(&loop->graph.inputs, node));
    }
    inner->input_count = loop->graph.inputs.count;
    return MUSTER_OK;
}

static muster_status combined_find(struct mst_loop *loop) {
    const mst_graph_program *inner = loop->program;
    loop->combined = mst_alloc((size_t)inner->count * sizeof *loop->combined);
    if (!loop->combined) return mst_out_of_memory(where, (int64_t)inner->count * (int64_t)sizeof *loop->combined);
    for (int32_t at = 0; at < inner->count; at++) loop->combined[at] = -1;
    for (int32_t o = 0; o < inner->output_count; o++) {
        const muster_expr *node = loop->graph.outputs.items[o].node;
        if (node->distribution.kind == MST_PARTIAL) loop->combined[inner->position[node->id]] = o;
    }
    loop->program->combined = loop->combined;
    return MUSTER_OK;
}

static muster_status loop_fill(mst_graph_program *program, struct mst_loop *loop, bool unfused) {
    mst_graph_program *inner = loop->program;
    loop->graph = *program->graph;
    loop->graph.inputs = loop->graph.outputs = loop->graph.variables = loop->graph.updates = loop->graph.scalars = (mst_ports){0};
    *inner = (mst_graph_program){.graph = &loop->graph,
                                 .checked = program->checked,
                                 .distributed = true,
                                 .exchanges = program->exchanges || program->pass,
                                 .unshared = program->unshared,
                                 .channels_last = program->channels_last,
                                 .timed = program->timed,
                                 .observed = program->timed};
    MUSTER_TRY(outputs_find(program, loop));
    inner->output_count = loop->graph.outputs.count;
    MUSTER_TRY(given_set(program, inner));
    if (!unfused) MUSTER_TRY(mst_program_groups_make(inner));
    MUSTER_TRY(mst_graph_program_order(inner));
    MUSTER_TRY(given_number(loop));
    inner->base_count = 1 + inner->input_count + inner->output_count;
    return combined_find(loop);
}

muster_status mst_loop_make(mst_graph_program *program, int64_t micro_batches, bool unfused) {
    struct mst_loop *loop = mst_alloc(sizeof *loop);
    mst_graph_program *inner = mst_alloc(sizeof *inner);
    if (!loop || !inner) {
        mst_free(loop);
        mst_free(inner);
        return mst_out_of_memory(where, (int64_t)sizeof *loop);
    }
    loop->micro_batches = micro_batches;
    loop->program = inner;
    program->loop = loop;
    return loop_fill(program, loop, unfused);
}

muster_status mst_loop_name_steps(struct mst_loop *loop) { return mst_graph_program_name_steps(loop->program); }

void mst_loop_free(struct mst_loop *loop) {
    if (!loop) return;
    mst_graph_program_parts_free(loop->program);
    mst_free(loop->program->given_of);
    mst_free(loop->program);
    mst_free(loop->graph.inputs.items);
    mst_free(loop->graph.outputs.items);
    mst_free(loop->combined);
    mst_free(loop);
}
