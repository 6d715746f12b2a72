/* Which elementwise operations one step computes together. Two nodes of one shape, one of which
 * uses the other, belong together unless a value between them must be complete before the other
 * begins: x and x - mean(x) do not. Each node has a level, which is the largest number of steps
 * that must be complete before it begins. Nodes that are connected and have the same level are a
 * group, so that no path leaves a group and comes back. A node whose value is wanted late joins
 * those that want it: in rate * gradient + 0.9 * speed, the second product waits for the first. */
#include "program_private.h"

typedef struct fusing {
    mst_graph_program *program;
    int32_t *level;  /* by id */
    int32_t *uses;   /* by id: the operands, outputs and updates that the node is, and that are not in its group */
    int32_t *parent; /* by id: a node of the same group, of a smaller id; a node is its own at the root */
    int32_t *group;  /* by id of a root: the group that members are added to now, or -1 */
    int32_t *open;   /* by group: how many members are results so far */
    int64_t capacity, open_capacity;
} fusing;

/* What is given is no step, and the loop over micro-batches has groups of its own. */
static bool node_fuses(const mst_graph_program *program, const muster_expr *node) {
    return node->op->elementwise && mst_program_given(program, node) < 0 && mst_program_phase(program, node) != MST_PHASE_LOOP;
}

static bool edge_fuses(const mst_graph_program *program, const muster_expr *from, const muster_expr *to) {
    return node_fuses(program, from) && node_fuses(program, to) && mst_same_dims(&from->type, &to->type) &&
           mst_same_distribution(from->distribution, to->distribution) &&
           mst_program_phase(program, from) == mst_program_phase(program, to);
}

/* Numbers are not operands of a node that may become a member: the loops take them as they are. */
static bool is_constant(const fusing *f, const muster_expr *node, int32_t i) {
    return mst_operand_is_number(node, i) || (node_fuses(f->program, node) && mst_node_is_number(node->inputs[i]));
}

static void count_uses(fusing *f) {
    const mst_graph *graph = f->program->graph;
    for (int32_t i = 0; i < graph->outputs.count; i++) f->uses[graph->outputs.items[i].node->id]++;
    for (int32_t i = 0; i < graph->updates.count; i++)
        if (graph->updates.items[i].node) f->uses[graph->updates.items[i].node->id]++;
    for (int32_t i = 0; i < graph->scalars.count; i++) f->uses[graph->scalars.items[i].node->id]++;
    for (int32_t id = graph->node_count - 1; id >= 0; id--) {
        const muster_expr *node = graph->nodes[id];
        for (int32_t i = 0; f->uses[id] && i < mst_program_operands(f->program, node); i++)
            if (!is_constant(f, node, i)) f->uses[node->inputs[i]->id]++;
    }
}

static int32_t root_of(fusing *f, int32_t id) {
    while (f->parent[id] != id) id = f->parent[id] = f->parent[f->parent[id]];
    return id;
}

static void join(fusing *f, int32_t a, int32_t b) {
    const int32_t x = root_of(f, a), y = root_of(f, b);
    f->parent[x > y ? x : y] = x > y ? y : x;
}

static void find_levels(fusing *f) {
    const mst_graph *graph = f->program->graph;
    for (int32_t id = 0; id < graph->node_count; id++) {
        const muster_expr *node = graph->nodes[id];
        for (int32_t i = 0; f->uses[id] && i < mst_program_operands(f->program, node); i++) {
            if (is_constant(f, node, i)) continue;
            const int32_t level = f->level[node->inputs[i]->id] + !edge_fuses(f->program, node->inputs[i], node);
            if (level > f->level[id]) f->level[id] = level;
        }
    }
}

/* late[id]: twice the highest level that the uses of the node allow, and 1 more if no node that
 * has this level could be in one group with it. */
static void raise_levels(fusing *f, int32_t *late) {
    const mst_graph *graph = f->program->graph;
    for (int32_t id = 0; id < graph->node_count; id++) late[id] = INT32_MAX;
    for (int32_t id = graph->node_count - 1; id >= 0; id--) {
        const muster_expr *node = graph->nodes[id];
        if (!f->uses[id]) continue;
        if (late[id] != INT32_MAX && !(late[id] & 1)) f->level[id] = late[id] / 2;
        for (int32_t i = 0; i < mst_program_operands(f->program, node); i++) {
            if (is_constant(f, node, i)) continue;
            const bool fuses = edge_fuses(f->program, node->inputs[i], node);
            const int32_t bound = 2 * (f->level[id] - !fuses) + !fuses;
            if (bound < late[node->inputs[i]->id]) late[node->inputs[i]->id] = bound;
        }
    }
}

static void join_nodes(fusing *f) {
    const mst_graph *graph = f->program->graph;
    for (int32_t id = 0; id < graph->node_count; id++) f->parent[id] = id;
    for (int32_t id = 0; id < graph->node_count; id++) {
        const muster_expr *node = graph->nodes[id];
        for (int32_t i = 0; f->uses[id] && i < mst_program_operands(f->program, node); i++)
            if (!is_constant(f, node, i) && edge_fuses(f->program, node->inputs[i], node) && f->level[node->inputs[i]->id] == f->level[id])
                join(f, node->inputs[i]->id, id);
    }
}

/* ---- members, in the order of their numbers ---- */

/* How many operands the group gets, and how many results it loses, with this node as a member. */
static void count_changes(const fusing *f, const mst_fused_group *group, const muster_expr *node, int32_t *operands, int32_t *closed) {
    *operands = *closed = 0;
    for (int32_t i = 0; i < node->input_count; i++) {
        bool again = false; /* x * x */
        for (int32_t k = 0; k < i; k++) again = again || node->inputs[k] == node->inputs[i];
        if (is_constant(f, node, i) || again) continue;
        const int32_t found = mst_group_find(group, node->inputs[i]);
        int32_t times = 0;
        for (int32_t k = i; k < node->input_count; k++) times += node->inputs[k] == node->inputs[i];
        *operands += found < 0;
        *closed += found >= 0 && found < MST_GROUP_MEMBERS && f->uses[node->inputs[i]->id] == times;
    }
}

static void member_add(fusing *f, mst_fused_group *group, muster_expr *node) {
    for (int32_t i = 0; i < node->input_count; i++) {
        if (is_constant(f, node, i)) continue;
        const int32_t found = mst_group_find(group, node->inputs[i]);
        if (found < 0) group->operands[group->operand_count++] = node->inputs[i];
        if (found >= 0 && found < MST_GROUP_MEMBERS) f->uses[node->inputs[i]->id]--;
    }
    group->members[group->member_count++] = node;
}

static bool group_takes(fusing *f, int32_t at, const muster_expr *node) {
    const mst_fused_group *group = &f->program->groups[at];
    int32_t operands, closed;
    count_changes(f, group, node, &operands, &closed);
    if (group->member_count == MST_GROUP_MEMBERS || group->operand_count + operands > MST_GROUP_OPERANDS ||
        f->open[at] + 1 - closed > MST_GROUP_RESULTS)
        return false;
    f->open[at] += 1 - closed;
    return true;
}

/* Adds the node to the group of its root, if that has room, else to a new one. */
static muster_status group_add(fusing *f, int32_t root, muster_expr *node) {
    mst_graph_program *program = f->program;
    if (f->group[root] < 0 || !group_takes(f, f->group[root], node)) {
        const int32_t made = program->group_count;
        MUSTER_TRY(mst_grow((void **)&program->groups, &f->capacity, made + 1, sizeof *program->groups, "muster_graph_compile"));
        MUSTER_TRY(mst_grow((void **)&f->open, &f->open_capacity, made + 1, sizeof *f->open, "muster_graph_compile"));
        f->open[made] = 1;
        f->group[root] = program->group_count++;
    }
    program->group_of[node->id] = f->group[root];
    member_add(f, &program->groups[f->group[root]], node);
    return MUSTER_OK;
}

/* A group of one is none. */
static void drop_single_groups(mst_graph_program *program) {
    int32_t kept = 0;
    for (int32_t g = 0; g < program->group_count; g++) {
        const bool single = program->groups[g].member_count < 2;
        for (int32_t i = 0; i < program->groups[g].member_count; i++)
            program->group_of[program->groups[g].members[i]->id] = single ? -1 : kept;
        if (!single) program->groups[kept++] = program->groups[g];
    }
    program->group_count = kept;
}

static void find_results(const fusing *f) {
    for (int32_t g = 0; g < f->program->group_count; g++) {
        mst_fused_group *group = &f->program->groups[g];
        for (int32_t i = 0; i < group->member_count; i++)
            if (f->uses[group->members[i]->id]) group->results[group->result_count++] = i;
    }
}

/* `members` counts those of each root. */
static muster_status fill_groups(fusing *f, int32_t *members) {
    const mst_graph *graph = f->program->graph;
    for (int32_t id = 0; id < graph->node_count; id++) {
        f->group[id] = -1;
        if (f->uses[id] && node_fuses(f->program, graph->nodes[id])) members[root_of(f, id)]++;
    }
    for (int32_t id = 0; id < graph->node_count; id++) {
        if (!f->uses[id] || !node_fuses(f->program, graph->nodes[id])) continue;
        const int32_t root = root_of(f, id);
        if (members[root] > 1) MUSTER_TRY(group_add(f, root, graph->nodes[id]));
    }
    drop_single_groups(f->program);
    find_results(f);
    return MUSTER_OK;
}

muster_status mst_graph_program_fuse(mst_graph_program *program) {
    const size_t nodes = (size_t)program->graph->node_count;
    fusing f = {.program = program};
    int32_t *arrays = mst_alloc(5 * nodes * sizeof *arrays);
    program->group_of = mst_alloc_uninitialised(nodes * sizeof *program->group_of);
    if (!arrays || !program->group_of) {
        mst_free(arrays);
        return mst_out_of_memory("muster_graph_compile", (int64_t)(5 * nodes * sizeof *arrays));
    }
    for (size_t id = 0; id < nodes; id++) program->group_of[id] = -1;
    f.level = arrays;
    f.uses = arrays + nodes;
    f.parent = arrays + 2 * nodes;
    f.group = arrays + 3 * nodes;
    count_uses(&f);
    find_levels(&f);
    raise_levels(&f, f.parent); /* which is not in use yet */
    join_nodes(&f);
    const muster_status status = fill_groups(&f, arrays + 4 * nodes);
    mst_free(f.open);
    mst_free(arrays);
    return status;
}
