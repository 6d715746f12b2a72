/* The order in which nodes are computed: depth first from the outputs, then from the updates, so
 * that a value is used soon after it was made. It is the same on every worker. */
#include "program_private.h"

bool mst_operand_is_number(const muster_expr *node, int32_t i) {
    if (!(node->op->flags & MST_OPERATOR_NUMBERS) || !mst_node_is_number(node->inputs[i])) return false;
    return i == 1 || !mst_node_is_number(node->inputs[1]);
}

typedef struct visit {
    muster_expr *node;
    int32_t operand;
} visit;

static void visit_from(mst_graph_program *program, muster_expr *root, visit *stack) {
    int32_t depth = 0;
    if (program->position[root->id] != -1) return;
    stack[depth++] = (visit){root, 0};
    program->position[root->id] = -2; /* on the stack */
    while (depth) {
        visit *top = &stack[depth - 1];
        if (top->operand == top->node->input_count) {
            program->position[top->node->id] = program->count;
            program->order[program->count++] = top->node;
            depth--;
            continue;
        }
        const int32_t i = top->operand++;
        muster_expr *input = top->node->inputs[i];
        if (program->position[input->id] != -1 || mst_operand_is_number(top->node, i)) continue;
        program->position[input->id] = -2;
        stack[depth++] = (visit){input, 0};
    }
}

muster_status mst_graph_program_order(mst_graph_program *program) {
    const mst_graph *graph = program->graph;
    const size_t nodes = (size_t)graph->node_count;
    visit *stack = mst_alloc(nodes * sizeof *stack);
    program->order = mst_alloc(nodes * sizeof *program->order);
    program->position = mst_alloc(nodes * sizeof *program->position);
    program->results = mst_alloc(nodes * sizeof *program->results);
    if (!stack || !program->order || !program->position || !program->results) {
        mst_free(stack);
        return mst_out_of_memory("muster_graph_compile", (int64_t)(nodes * sizeof *stack));
    }
    for (size_t id = 0; id < nodes; id++) program->position[id] = -1;
    for (int32_t i = 0; i < graph->outputs.count; i++) visit_from(program, graph->outputs.items[i].node, stack);
    for (int32_t i = 0; i < graph->updates.count; i++) visit_from(program, graph->updates.items[i].node, stack);
    mst_free(stack);
    for (int32_t p = 0; p < program->count; p++)
        for (int32_t r = 0; r < MST_RESULTS; r++) program->results[p][r] = -1;
    for (int32_t p = 0; p < program->count; p++)
        if (mst_node_is(program->order[p], MST_OPERATOR_result))
            program->results[program->position[program->order[p]->inputs[0]->id]][program->order[p]->values[0].integer] = p;
    return MUSTER_OK;
}
