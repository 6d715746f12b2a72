/* Making nodes. Two nodes with the same operation, operands and attributes are one node, so that a
 * subexpression that a program writes twice is computed once. */
#include "graph_private.h"

#include <string.h>

static uint32_t mix(uint32_t hash, uint64_t value) {
    const uint64_t product = (hash ^ value) * 0x9e3779b97f4a7c15ull;
    return (uint32_t)(product >> 32) ^ (uint32_t)product;
}

static uint64_t bits_of(double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static uint32_t hash_draft(const mst_draft *draft) {
    uint32_t hash = mix((uint32_t)draft->op->id, (uint64_t)draft->count);
    for (int32_t i = 0; i < draft->count; i++) hash = mix(hash, (uint64_t)draft->inputs[i]->id);
    for (int32_t a = 0; a < mst_operator_attribute_count(draft->op); a++) {
        const mst_graph_value *value = &draft->values[a];
        hash = mix(mix(hash, bits_of(value->number)), (uint64_t)value->integer);
        for (int32_t i = 0; i < value->count; i++) hash = mix(hash, (uint64_t)value->list[i]);
    }
    const mst_distribution *d = &draft->distribution;
    return mix(hash, (uint64_t)draft->types[0].dtype | (uint64_t)d->kind << 8 | (uint64_t)d->axis << 16 | (uint64_t)d->op << 24);
}

static bool same_node(const muster_expr *node, const mst_draft *draft) {
    if (node->op != draft->op || node->input_count != draft->count || node->type.dtype != draft->types[0].dtype) return false;
    if (!mst_same_distribution(node->distribution, draft->distribution)) return false;
    if (draft->count && memcmp(node->inputs, draft->inputs, (size_t)draft->count * sizeof *node->inputs) != 0) return false;
    for (int32_t a = 0; a < mst_operator_attribute_count(draft->op); a++) {
        const mst_graph_value *x = &node->values[a], *y = &draft->values[a];
        if (bits_of(x->number) != bits_of(y->number) || x->integer != y->integer || x->count != y->count) return false;
        if (x->count && memcmp(x->list, y->list, (size_t)x->count * sizeof *x->list) != 0) return false;
    }
    return true;
}

static void table_put(muster_expr **table, int32_t size, muster_expr *node) {
    uint32_t slot = node->hash & (uint32_t)(size - 1);
    while (table[slot]) slot = (slot + 1) & (uint32_t)(size - 1);
    table[slot] = node;
}

static bool grow_node_table(mst_graph *graph) {
    const int32_t size = graph->table_size ? 2 * graph->table_size : 256;
    muster_expr **table = mst_alloc((size_t)size * sizeof *table);
    if (!table) return false;
    for (int32_t i = 0; i < graph->table_size; i++)
        if (graph->table[i]) table_put(table, size, graph->table[i]);
    mst_free(graph->table);
    graph->table = table;
    graph->table_size = size;
    return true;
}

static muster_expr *node_memory_failed(mst_graph *graph) {
    (void)mst_graph_fail(graph, MUSTER_OUT_OF_MEMORY, "graph \"%s\": out of memory for an expression", graph->name);
    return NULL;
}

muster_expr *mst_node_add(mst_graph *graph, const mst_operator *op, const mst_type *type, const char *name) {
    if (graph->node_count >= (graph->simplifying ? 4 * MST_GRAPH_NODES : MST_GRAPH_NODES)) {
        (void)mst_graph_fail(graph, MUSTER_UNSUPPORTED, "graph \"%s\": expected at most %d expressions, received one more", graph->name,
                             MST_GRAPH_NODES);
        return NULL;
    }
    if (mst_grow((void **)&graph->nodes, &graph->node_capacity, graph->node_count + 1, sizeof *graph->nodes, "a graph") != MUSTER_OK)
        return node_memory_failed(graph);
    muster_expr *node = mst_arena_take(&graph->arena, sizeof *node);
    if (!node) return node_memory_failed(graph);
    *node = (muster_expr){.graph = graph, .op = op, .type = *type, .name = name, .id = graph->node_count, .origin = graph->origin};
    graph->nodes[graph->node_count++] = node;
    return node;
}

/* Copies what the draft points to into the graph. */
static bool node_fill(muster_expr *node, const mst_draft *draft) {
    mst_arena *arena = &node->graph->arena;
    const int32_t attributes = mst_operator_attribute_count(draft->op);
    const int32_t results = draft->op->results > 1 ? draft->op->results : 1;
    node->inputs = mst_arena_take(arena, (size_t)(draft->count + 1) * sizeof *node->inputs);
    mst_graph_value *values = mst_arena_take(arena, (size_t)(attributes + 1) * sizeof *values);
    if (!node->inputs || !values) return false;
    node->input_count = draft->count;
    if (draft->count) memcpy(node->inputs, draft->inputs, (size_t)draft->count * sizeof *node->inputs);
    for (int32_t a = 0; a < attributes; a++) {
        values[a] = draft->values[a];
        if (!values[a].count) continue;
        int64_t *list = mst_arena_take(arena, (size_t)values[a].count * sizeof *list);
        if (!list) return false;
        memcpy(list, draft->values[a].list, (size_t)values[a].count * sizeof *list);
        values[a].list = list;
    }
    node->values = values;
    if (results == 1) return true;
    mst_type *more = mst_arena_take(arena, (size_t)(results - 1) * sizeof *more);
    if (!more) return false;
    memcpy(more, draft->types + 1, (size_t)(results - 1) * sizeof *more);
    node->more = more;
    return true;
}

/* A node that is made again keeps its first place, and remembers the others. */
static void remember_origin(muster_expr *node) {
    const mst_origin *origin = &node->graph->origin;
    mst_origin *at = &node->origin;
    if (!origin->where || origin->forward) return;
    for (int32_t i = 0; i < 8; i++, at = at->next) { /* a loop of the program makes one node very often */
        if (at->where == origin->where || (at->where && strcmp(at->where, origin->where) == 0)) return;
        if (at->next) continue;
        mst_origin *next = mst_arena_take(&node->graph->arena, sizeof *next);
        if (next) *next = *origin;
        at->next = next;
        return;
    }
}

void mst_node_inherit(muster_expr *node, const muster_expr *from, bool name) {
    mst_graph *graph = node->graph;
    const mst_origin before = graph->origin;
    if (mst_node_is(node, MST_OPERATOR_input) || mst_node_is(node, MST_OPERATOR_parameter)) return; /* nothing computes them */
    if (name && !node->name && !mst_node_is(node, MST_OPERATOR_full)) node->name = from->name;
    if (!node->origin.where && !node->origin.forward) node->origin.forward = from->origin.forward;
    for (const mst_origin *origin = &from->origin; origin; origin = origin->next) {
        graph->origin = (mst_origin){.where = origin->where};
        remember_origin(node);
    }
    graph->origin = before;
}

muster_expr *mst_node_make(mst_draft *draft) {
    mst_graph *graph = draft->graph;
    const bool unique = (draft->op->flags & MST_OPERATOR_UNIQUE) != 0;
    const uint32_t hash = unique ? 0 : hash_draft(draft);
    if (!unique) {
        if (2 * (graph->table_used + 1) > graph->table_size && !grow_node_table(graph)) {
            (void)node_memory_failed(graph);
            return graph->error;
        }
        uint32_t slot = hash & (uint32_t)(graph->table_size - 1);
        for (; graph->table[slot]; slot = (slot + 1) & (uint32_t)(graph->table_size - 1)) {
            if (graph->table[slot]->hash != hash || !same_node(graph->table[slot], draft)) continue;
            remember_origin(graph->table[slot]);
            return graph->table[slot];
        }
    }
    muster_expr *node = mst_node_add(graph, draft->op, &draft->types[0], NULL);
    if (!node) return graph->error;
    if (!node_fill(node, draft)) {
        graph->node_count--;
        (void)node_memory_failed(graph);
        return graph->error;
    }
    node->hash = hash;
    node->distribution = draft->distribution;
    if (!unique) {
        table_put(graph->table, graph->table_size, node);
        graph->table_used++;
    }
    return node;
}

muster_expr *mst_node_again(const muster_expr *node, muster_expr *const *inputs, mst_distribution distribution) {
    mst_draft draft = {.graph = node->graph,
                       .op = node->op,
                       .inputs = (muster_expr **)(uintptr_t)inputs,
                       .count = node->input_count,
                       .values = (mst_graph_value *)(uintptr_t)node->values,
                       .distribution = distribution};
    draft.types[0] = node->type;
    for (int32_t r = 1; r < node->op->results; r++) draft.types[r] = node->more[r - 1];
    return mst_node_make(&draft);
}
