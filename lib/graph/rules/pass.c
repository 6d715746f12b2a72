/* Which updates one pass can make. */
#include "pass_private.h"

#include <string.h>

/* ---- the group of a rule ---- */

typedef struct pass_making {
    mst_graph_program *program;
    const mst_update_rule_entry *entry;
    const bool *read; /* by id: an output, a gradient or another update needs the node */
    mst_pass_rule *rule;
    mst_fused_group *group;
} pass_making;

/* What the node is as an operand of the group; false: it is none. */
static bool operand_kind(const pass_making *m, const muster_expr *node, mst_pass_value *value) {
    const mst_update_rule_entry *entry = m->entry;
    *value = (mst_pass_value){.kind = MST_PASS_STATE};
    for (; value->index < entry->state_count; value->index++)
        if (node == entry->states[value->index].node) return true;
    value->index = 0;
    value->kind = node == entry->simplified ? MST_PASS_GRADIENT : node == entry->parameter ? MST_PASS_PARAMETER : MST_PASS_SCALAR;
    return value->kind != MST_PASS_SCALAR || (node->type.ndim == 0 && entry->parameter->type.ndim > 0);
}

static bool operand_add(pass_making *m, muster_expr *node, mst_pass_value value) {
    mst_fused_group *group = m->group;
    if (group->operand_count == MST_GROUP_OPERANDS) return false;
    m->rule->operands[group->operand_count] = value;
    group->operands[group->operand_count++] = node;
    return true;
}

/* In the order of their numbers, as members are. */
static bool member_add(mst_fused_group *group, muster_expr *node) {
    int32_t at = group->member_count;
    if (group->member_count == MST_GROUP_MEMBERS) return false;
    for (; at > 0 && group->members[at - 1]->id > node->id; at--) group->members[at] = group->members[at - 1];
    group->members[at] = node;
    group->member_count++;
    return true;
}

/* Everything between the new values and the operands. The nodes wait in `pending`. */
static bool group_fill(pass_making *m, muster_expr *const *roots, int32_t count) {
    muster_expr *pending[MST_GROUP_MEMBERS * MST_GRAPH_OPERANDS];
    int32_t waiting = 0;
    mst_pass_value value;
    for (int32_t r = 0; r < count; r++) pending[waiting++] = roots[r];
    while (waiting) {
        muster_expr *node = pending[--waiting];
        if (mst_group_find(m->group, node) >= 0) continue;
        if (operand_kind(m, node, &value)) {
            if (!operand_add(m, node, value)) return false;
            continue;
        }
        if (!node->op->elementwise || !mst_same_dims(&node->type, &m->entry->parameter->type) || !member_add(m->group, node)) return false;
        for (int32_t i = 0; i < node->input_count; i++)
            if (!mst_node_is_number(node->inputs[i])) pending[waiting++] = node->inputs[i];
    }
    return true;
}

/* The roots are results; each is a member. */
static bool results_find(pass_making *m, muster_expr *const *roots, int32_t count) {
    mst_fused_group *group = m->group;
    for (int32_t i = 0; i < group->member_count; i++)
        for (int32_t r = 0; r < count; r++) {
            if (group->members[i] != roots[r]) continue;
            if (group->result_count == MST_GROUP_RESULTS) return false;
            m->rule->results[group->result_count] = (mst_pass_value){.kind = r == 0 ? MST_PASS_PARAMETER : MST_PASS_STATE, .index = r - 1};
            group->results[group->result_count++] = i;
            break;
        }
    return group->result_count == count;
}

static bool clips(const mst_graph *graph, const mst_update_rule_entry *entry) {
    return graph->rules->calls[entry->call].options.clip_norm > 0;
}

/* The rule takes the clipped gradient as its operand. */
static bool rule_find(pass_making *m) {
    const mst_graph *graph = m->program->graph;
    const mst_update_rule_entry *entry = m->entry;
    muster_expr *roots[1 + MST_UPDATE_RULE_STATES] = {graph->updates.items[entry->update].node};
    const muster_dtype dtype = entry->parameter->type.dtype;
    if (entry->gradient->type.dtype != dtype || (clips(graph, entry) && dtype != MUSTER_F32 && dtype != MUSTER_F64)) return false;
    for (int32_t s = 0; s < entry->state_count; s++) /* no device would have all of it */
        if (m->read[entry->states[s].node->id]) return false;
    for (int32_t s = 0; s < entry->state_count; s++) roots[1 + s] = graph->updates.items[entry->states[s].update].node;
    return group_fill(m, roots, 1 + entry->state_count) && results_find(m, roots, 1 + entry->state_count);
}

/* ---- the program ---- */

static muster_status scalars_add(mst_graph *graph, mst_pass_rule *rule, const mst_fused_group *group) {
    for (int32_t i = 0; i < group->operand_count; i++) {
        if (rule->operands[i].kind != MST_PASS_SCALAR) continue;
        int32_t at = 0;
        while (at < graph->scalars.count && graph->scalars.items[at].written != group->operands[i]) at++;
        if (at == graph->scalars.count) {
            MUSTER_TRY(mst_grow((void **)&graph->scalars.items, &graph->scalars.capacity, at + 1, sizeof *graph->scalars.items,
                                "muster_graph_compile"));
            graph->scalars.items[graph->scalars.count++] =
                (mst_graph_port){.name = "", .node = group->operands[i], .written = group->operands[i]};
        }
        rule->operands[i].index = at;
    }
    return MUSTER_OK;
}

static int32_t variable_number(const mst_graph *graph, const muster_variable *variable) {
    for (int32_t v = 0; v < graph->variables.count; v++)
        if (graph->variables.items[v].variable == variable) return v;
    return -1;
}

static muster_status rule_take(mst_graph_program *program, mst_pass_rule *rule, const mst_fused_group *group) {
    mst_graph *graph = program->graph;
    const mst_update_rule_entry *entry = &graph->rules->entries[rule->entry];
    MUSTER_TRY(scalars_add(graph, rule, group));
    rule->parameter = variable_number(graph, entry->variable);
    for (int32_t s = 0; s < entry->state_count; s++) rule->states[s] = variable_number(graph, entry->states[s].variable);
    graph->updates.items[entry->update].pass = MST_PORT_GRADIENT;
    graph->updates.items[entry->update].node = clips(graph, entry) ? entry->summed : entry->simplified;
    for (int32_t s = 0; s < entry->state_count; s++) {
        graph->updates.items[entry->states[s].update].pass = MST_PORT_STATE;
        graph->updates.items[entry->states[s].update].node = NULL;
    }
    return MUSTER_OK;
}

/* An insertion that keeps the order of equal dtypes. */
static mst_pass_rule *rule_insert(mst_graph_program *program, const mst_pass_rule *rule, const mst_fused_group *group) {
    mst_pass *pass = program->pass;
    int32_t at = pass->count++;
    for (; at > 0 && mst_pass_dtype(program, &pass->rules[at - 1]) > mst_pass_dtype(program, rule); at--) {
        pass->rules[at] = pass->rules[at - 1];
        program->pass_groups[at] = program->pass_groups[at - 1];
    }
    pass->rules[at] = *rule;
    program->pass_groups[at] = *group;
    return &pass->rules[at];
}

static void rules_unread(const mst_update_rules *rules, bool *update_read) {
    for (int32_t e = 0; e < rules->entry_count; e++) {
        const mst_update_rule_entry *entry = &rules->entries[e];
        update_read[entry->update] = false;
        for (int32_t s = 0; s < entry->state_count; s++) update_read[entry->states[s].update] = false;
    }
}

/* What is needed besides the updates of rules. `updates`: room for a mark of each update. */
static void read_find(const mst_graph *graph, bool *read, bool *updates) {
    const mst_update_rules *rules = graph->rules;
    for (int32_t u = 0; u < graph->updates.count; u++) updates[u] = true;
    rules_unread(rules, updates);
    for (int32_t u = 0; u < graph->updates.count; u++)
        if (updates[u]) read[graph->updates.items[u].node->id] = true;
    for (int32_t o = 0; o < graph->outputs.count; o++) read[graph->outputs.items[o].node->id] = true;
    for (int32_t e = 0; e < rules->entry_count; e++) read[rules->entries[e].simplified->id] = true;
    for (int32_t c = 0; c < rules->call_count; c++)
        if (rules->calls[c].options.rate) read[rules->calls[c].options.rate->id] = true;
    for (int32_t id = graph->node_count - 1; id >= 0; id--)
        for (int32_t i = 0; read[id] && i < graph->nodes[id]->input_count; i++) read[graph->nodes[id]->inputs[i]->id] = true;
}

static bool entry_find(mst_graph_program *program, const bool *read, int32_t entry, mst_pass_rule *rule, mst_fused_group *group) {
    pass_making m = {.program = program, .entry = &program->graph->rules->entries[entry], .read = read, .rule = rule, .group = group};
    *rule = (mst_pass_rule){.entry = entry, .clip = -1};
    *group = (mst_fused_group){.member_count = 0};
    return rule_find(&m);
}

/* The norm is that of all gradients of the call, so the pass makes all of its updates or none. */
static bool call_passes(mst_graph_program *program, const bool *read, const mst_update_rule_call *call) {
    mst_pass_rule rule;
    mst_fused_group group;
    bool all = true;
    for (int32_t e = call->first; all && call->options.clip_norm > 0 && e < call->first + call->count; e++)
        all = entry_find(program, read, e, &rule, &group);
    return all;
}

static muster_status call_take(mst_graph_program *program, const bool *read, const mst_update_rule_call *call) {
    mst_pass *pass = program->pass;
    const bool is_clipped = call->options.clip_norm > 0;
    if (!call_passes(program, read, call)) return MUSTER_OK;
    for (int32_t e = call->first; e < call->first + call->count; e++) {
        mst_pass_rule rule;
        mst_fused_group group;
        if (!entry_find(program, read, e, &rule, &group)) continue;
        if (is_clipped) rule.clip = pass->clip_count;
        MUSTER_TRY(rule_take(program, rule_insert(program, &rule, &group), &group));
    }
    if (is_clipped && call->count) pass->norms[pass->clip_count++] = call->options.clip_norm;
    return MUSTER_OK;
}

muster_status mst_pass_find(mst_graph_program *program) {
    const mst_update_rules *rules = program->graph->rules;
    if (!rules || !rules->entry_count) return MUSTER_OK;
    const size_t count = (size_t)rules->entry_count;
    program->pass = mst_alloc(sizeof *program->pass);
    program->pass_groups = mst_alloc(count * sizeof *program->pass_groups);
    if (program->pass) program->pass->rules = mst_alloc(count * sizeof *program->pass->rules);
    if (program->pass) program->pass->norms = mst_alloc((size_t)rules->call_count * sizeof *program->pass->norms);
    if (!program->pass || !program->pass_groups || !program->pass->rules || !program->pass->norms)
        return mst_out_of_memory("muster_graph_compile", (int64_t)(count * sizeof *program->pass_groups));
    const size_t bytes = (size_t)program->graph->node_count + (size_t)program->graph->updates.count;
    bool *read = mst_alloc(bytes);
    if (!read) return mst_out_of_memory("muster_graph_compile", (int64_t)bytes);
    read_find(program->graph, read, read + program->graph->node_count);
    muster_status status = MUSTER_OK;
    for (int32_t c = 0; c < rules->call_count && status == MUSTER_OK; c++) status = call_take(program, read, &rules->calls[c]);
    mst_free(read);
    if (status == MUSTER_OK && !program->pass->count) mst_pass_drop(program);
    return status;
}

/* No other node has these members; the groups stand behind those of the steps. */
muster_status mst_pass_groups(mst_graph_program *program) {
    int64_t capacity = 0;
    mst_fused_group *groups = NULL;
    const int32_t count = program->group_count + program->pass->count;
    MUSTER_TRY(mst_grow((void **)&groups, &capacity, count, sizeof *groups, "muster_graph_compile"));
    if (program->group_count) memcpy(groups, program->groups, (size_t)program->group_count * sizeof *groups);
    for (int32_t i = 0; i < program->pass->count; i++) {
        program->pass->rules[i].group = program->group_count + i;
        groups[program->group_count + i] = program->pass_groups[i];
    }
    mst_free(program->groups);
    mst_free(program->pass_groups);
    program->groups = groups;
    program->group_count = count;
    program->pass_groups = NULL;
    return MUSTER_OK;
}

bool mst_pass_writes(const mst_graph_program *program, int32_t variable) {
    for (int32_t i = 0; program->pass && i < program->pass->count; i++) {
        const mst_pass_rule *rule = &program->pass->rules[i];
        if (rule->parameter == variable) return true;
        for (int32_t s = 0; s < program->graph->rules->entries[rule->entry].state_count; s++)
            if (rule->states[s] == variable) return true;
    }
    return false;
}

void mst_pass_drop(mst_graph_program *program) {
    if (program->pass) {
        mst_free(program->pass->rules);
        mst_free(program->pass->vectors);
        mst_free(program->pass->bucket_ends);
        mst_free(program->pass->first_states);
        mst_free(program->pass->norms);
    }
    mst_free(program->pass);
    mst_free(program->pass_groups);
    program->pass = NULL;
    program->pass_groups = NULL;
}
