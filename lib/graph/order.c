/* The order in which nodes are computed: depth first from the outputs, then from the updates, so
 * that a value is used soon after it was made. Of several, the one that fewer steps lead to comes
 * first: the gradients of the last layer before those of the first, whatever the order of the
 * parameters, so that no gradient of an activation waits for the others. It is the same on every
 * worker. */
#include "program_private.h"
#include "rules/rules_private.h"

#include <stdlib.h>
#include <string.h>

bool mst_operand_is_number(const muster_expr *node, int32_t i) {
    if (!(node->op->flags & MST_OPERATOR_NUMBERS) || !mst_node_is_number(node->inputs[i])) return false;
    return i == 1 || !mst_node_is_number(node->inputs[1]);
}

bool mst_program_operand_is_number(const mst_graph_program *program, const muster_expr *node, int32_t i) {
    return mst_program_group(program, node) < 0 ? mst_operand_is_number(node, i) : mst_node_is_number(node->inputs[i]);
}

/* A step that waits for its operands: a node, or a group. */
typedef struct visit {
    muster_expr **nodes;
    int32_t count, member, operand;
} visit;

enum { NOT_VISITED = -1, WAITS = -2 };

static void visit_begin(mst_graph_program *program, visit *v, const muster_expr *node) {
    const int32_t at = mst_program_group(program, node);
    mst_fused_group *group = at < 0 ? NULL : &program->groups[at];
    v->nodes = group ? group->members : &program->graph->nodes[node->id];
    v->count = group ? group->member_count : 1;
    v->member = v->operand = 0;
    for (int32_t i = 0; i < v->count; i++) program->position[v->nodes[i]->id] = WAITS;
}

/* An operand that is not yet in the order, or NULL. */
static muster_expr *visit_next(const mst_graph_program *program, visit *v) {
    for (; v->member < v->count; v->member++, v->operand = 0) {
        const muster_expr *node = v->nodes[v->member];
        while (v->operand < mst_program_operands(program, node)) {
            const int32_t i = v->operand++;
            if (program->position[node->inputs[i]->id] == NOT_VISITED && !mst_program_operand_is_number(program, node, i))
                return node->inputs[i];
        }
    }
    return NULL;
}

static void visit_from(mst_graph_program *program, muster_expr *root, visit *stack) {
    int32_t depth = 0;
    if (program->position[root->id] != NOT_VISITED) return;
    visit_begin(program, &stack[depth++], root);
    while (depth) {
        visit *top = &stack[depth - 1];
        muster_expr *operand = visit_next(program, top);
        if (operand) {
            visit_begin(program, &stack[depth++], operand);
            continue;
        }
        for (int32_t i = 0; i < top->count; i++) {
            program->position[top->nodes[i]->id] = program->count;
            program->order[program->count++] = top->nodes[i];
        }
        depth--;
    }
}

/* A value that is wanted, and the length of the longest path to it. */
typedef struct goal {
    muster_expr *node;
    int32_t level, number;
} goal;

static int by_level(const void *a, const void *b) {
    const goal *x = a, *y = b;
    if (x->level != y->level) return x->level < y->level ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static void levels_find(const mst_graph_program *program, int32_t *level) {
    const mst_graph *graph = program->graph;
    for (int32_t id = 0; id < graph->node_count; id++) {
        const muster_expr *node = graph->nodes[id];
        level[id] = 0;
        for (int32_t i = 0; i < mst_program_operands(program, node); i++)
            if (level[node->inputs[i]->id] >= level[id]) level[id] = level[node->inputs[i]->id] + 1;
    }
}

static void visit_goals(mst_graph_program *program, visit *stack, goal *goals, int32_t count) {
    qsort(goals, (size_t)count, sizeof *goals, by_level);
    for (int32_t i = 0; i < count; i++) visit_from(program, goals[i].node, stack);
}

static void visit_ports(mst_graph_program *program, visit *stack, const mst_ports *ports, const int32_t *level, goal *goals) {
    int32_t count = 0;
    for (int32_t i = 0; i < ports->count; i++)
        if (ports->items[i].node) goals[count++] = (goal){ports->items[i].node, level[ports->items[i].node->id], i};
    visit_goals(program, stack, goals, count);
}

/* The norm of clipped gradients needs all of them, in the order of the parameters. `needed`: by id,
 * all false. */
static void visit_clipped(mst_graph_program *program, visit *stack, const int32_t *level, goal *goals, bool *needed) {
    const mst_graph *graph = program->graph;
    int32_t count = 0;
    for (int32_t i = 0; i < graph->updates.count; i++)
        if (graph->updates.items[i].node) needed[graph->updates.items[i].node->id] = true;
    for (int32_t id = graph->node_count - 1; id >= 0; id--)
        for (int32_t i = 0; needed[id] && i < graph->nodes[id]->input_count; i++) needed[graph->nodes[id]->inputs[i]->id] = true;
    for (int32_t e = 0; graph->rules && e < graph->rules->entry_count; e++) {
        const mst_update_rule_entry *entry = &graph->rules->entries[e];
        if (entry->clipped != entry->gradient && needed[entry->summed->id])
            goals[count++] = (goal){entry->summed, level[entry->summed->id], e};
    }
    visit_goals(program, stack, goals, count);
    memset(needed, 0, (size_t)graph->node_count * sizeof *needed);
}

/* What is before the loop over micro-batches comes first, then the loop; each in the order in which
 * it was. */
static muster_status phases_separate(mst_graph_program *program) {
    muster_expr **order = mst_alloc((size_t)program->count * sizeof *order);
    int32_t count = 0;
    if (!order) return mst_out_of_memory("muster_graph_compile", (int64_t)program->count * (int64_t)sizeof *order);
    for (int32_t phase = MST_PHASE_BEFORE; phase <= MST_PHASE_AFTER; phase++)
        for (int32_t at = 0; at < program->count; at++)
            if (mst_program_phase(program, program->order[at]) == phase) order[count++] = program->order[at];
    for (int32_t at = 0; at < count; at++) {
        program->order[at] = order[at];
        program->position[order[at]->id] = at;
    }
    mst_free(order);
    return MUSTER_OK;
}

/* The gradients of the pass, in the order in which the graph has made them: that of the last layer
 * first, for which the fewest steps are needed. Before them the numbers of eager updates. */
static void visit_gradients(mst_graph_program *program, visit *stack, bool *is_gradient) {
    const mst_graph *graph = program->graph;
    for (int32_t i = 0; i < graph->updates.count; i++)
        if (graph->updates.items[i].pass == MST_PORT_GRADIENT) is_gradient[graph->updates.items[i].node->id] = true;
    for (int32_t i = 0; i < graph->scalars.count && program->eager; i++) visit_from(program, graph->scalars.items[i].node, stack);
    for (int32_t id = 0; id < graph->node_count; id++)
        if (is_gradient[id]) visit_from(program, graph->nodes[id], stack);
}

muster_status mst_graph_program_order(mst_graph_program *program) {
    const mst_graph *graph = program->graph;
    const size_t nodes = (size_t)graph->node_count;
    const size_t ports = (size_t)(graph->outputs.count + graph->updates.count) + 1;
    visit *stack = mst_alloc(nodes * sizeof *stack);
    goal *goals = mst_alloc(ports * sizeof *goals);
    int32_t *level = mst_alloc(nodes * sizeof *level);
    bool *is_gradient = mst_alloc(nodes * sizeof *is_gradient);
    program->order = mst_alloc(nodes * sizeof *program->order);
    program->position = mst_alloc(nodes * sizeof *program->position);
    program->results = mst_alloc(nodes * sizeof *program->results);
    if (!stack || !goals || !level || !is_gradient || !program->order || !program->position || !program->results) {
        mst_free(stack);
        mst_free(goals);
        mst_free(level);
        mst_free(is_gradient);
        return mst_out_of_memory("muster_graph_compile", (int64_t)(nodes * sizeof *stack));
    }
    for (size_t id = 0; id < nodes; id++) program->position[id] = NOT_VISITED;
    levels_find(program, level);
    visit_ports(program, stack, &graph->outputs, level, goals);
    if (!program->pass && !program->given_of) visit_clipped(program, stack, level, goals, is_gradient);
    if (program->overlaps || program->eager) visit_gradients(program, stack, is_gradient);
    mst_free(is_gradient);
    visit_ports(program, stack, &graph->updates, level, goals);
    for (int32_t i = 0; i < graph->scalars.count; i++) visit_from(program, graph->scalars.items[i].node, stack);
    mst_free(stack);
    mst_free(goals);
    mst_free(level);
    if (program->phase) MUSTER_TRY(phases_separate(program));
    for (int32_t p = 0; p < program->count; p++)
        for (int32_t r = 0; r < MST_RESULTS; r++) program->results[p][r] = -1;
    for (int32_t p = 0; p < program->count; p++)
        if (mst_node_is(program->order[p], MST_OPERATOR_result) && mst_program_operands(program, program->order[p]))
            program->results[program->position[program->order[p]->inputs[0]->id]][program->order[p]->values[0].integer] = p;
    return MUSTER_OK;
}
