/* Sizes of axes: a number times powers of named sizes. Each different size is stored once. */
#include "graph_private.h"

#include <stdio.h>
#include <string.h>

static const char where[] = "the size of an axis";

static uint32_t hash_monomial(const mst_monomial *m) {
    uint64_t hash = (uint64_t)m->factor * 0x9e3779b97f4a7c15ull, powers;
    memcpy(&powers, m->powers, sizeof powers);
    hash = (hash ^ powers) * 0xff51afd7ed558ccdull;
    return (uint32_t)(hash >> 32);
}

static bool grow_table(mst_graph *graph) {
    const int32_t size = graph->dim_table_size ? 2 * graph->dim_table_size : 64;
    int32_t *table = mst_alloc((size_t)size * sizeof *table);
    if (!table) return false;
    for (int32_t i = 0; i < graph->dim_count; i++) {
        uint32_t slot = hash_monomial(&graph->dims[i]) & (uint32_t)(size - 1);
        while (table[slot]) slot = (slot + 1) & (uint32_t)(size - 1);
        table[slot] = i + 1;
    }
    mst_free(graph->dim_table);
    graph->dim_table = table;
    graph->dim_table_size = size;
    return true;
}

static mst_dim dim_find(mst_graph *graph, const mst_monomial *m) {
    if (2 * (graph->dim_count + 1) > graph->dim_table_size && !grow_table(graph)) {
        (void)mst_graph_fail(graph, MUSTER_OUT_OF_MEMORY, "%s: out of memory", where);
        return MST_DIM_NONE;
    }
    const uint32_t mask = (uint32_t)(graph->dim_table_size - 1);
    uint32_t slot = hash_monomial(m) & mask;
    for (; graph->dim_table[slot]; slot = (slot + 1) & mask)
        if (!memcmp(&graph->dims[graph->dim_table[slot] - 1], m, sizeof *m)) return graph->dim_table[slot] - 1;
    const muster_status status = mst_grow((void **)&graph->dims, &graph->dim_capacity, graph->dim_count + 1, sizeof *graph->dims, where);
    if (status != MUSTER_OK) {
        (void)mst_graph_keep(graph, status);
        return MST_DIM_NONE;
    }
    graph->dims[graph->dim_count] = *m;
    graph->dim_table[slot] = graph->dim_count + 1;
    return graph->dim_count++;
}

mst_dim mst_dim_number(mst_graph *graph, int64_t number) { return dim_find(graph, &(mst_monomial){.factor = number}); }

mst_dim mst_dim_size(mst_graph *graph, int32_t size) {
    mst_monomial m = {.factor = 1};
    m.powers[size] = 1;
    return dim_find(graph, &m);
}

static mst_dim dim_too_large(mst_graph *graph, mst_dim a, const char *how, mst_dim b) {
    char first[64], second[64], place[MST_NODE_TEXT];
    (void)mst_dim_print(graph, a, first, sizeof first);
    (void)mst_dim_print(graph, b, second, sizeof second);
    (void)mst_origin_text(&graph->origin, place);
    (void)mst_graph_fail(graph, MUSTER_OVERFLOW, "%s%smuster_expr_%s: expected sizes that 64 bits hold, received %s %s %s", place,
                         *place ? ": " : "", graph->op ? graph->op->name : "apply", first, how, second);
    return MST_DIM_NONE;
}

mst_dim mst_dim_multiply(mst_graph *graph, mst_dim a, mst_dim b) {
    if (a < 0 || b < 0) return MST_DIM_NONE;
    mst_monomial m = graph->dims[a];
    const mst_monomial *by = &graph->dims[b];
    if (!mst_multiply(m.factor, by->factor, &m.factor)) return dim_too_large(graph, a, "times", b);
    for (int32_t s = 0; s < MST_SIZES; s++) {
        if (m.powers[s] + by->powers[s] > INT8_MAX) return dim_too_large(graph, a, "times", b);
        m.powers[s] = (int8_t)(m.factor ? m.powers[s] + by->powers[s] : 0);
    }
    return dim_find(graph, &m);
}

static mst_dim dim_refuse(mst_graph *graph, mst_dim a, const char *what, mst_dim b) {
    char first[64], second[64];
    (void)mst_dim_print(graph, a, first, sizeof first);
    (void)mst_dim_print(graph, b, second, sizeof second);
    (void)mst_error(MUSTER_SHAPE_MISMATCH, "%s %s %s", first, what, second);
    return MST_DIM_NONE;
}

mst_dim mst_dim_divide(mst_graph *graph, mst_dim a, mst_dim b) {
    static const char what[] = "is no multiple of";
    mst_monomial m = graph->dims[a];
    const mst_monomial *by = &graph->dims[b];
    if (by->factor == 0 || m.factor % by->factor != 0) return dim_refuse(graph, a, what, b);
    m.factor /= by->factor;
    for (int32_t s = 0; s < MST_SIZES; s++) {
        if (by->powers[s] > m.powers[s]) return dim_refuse(graph, a, what, b);
        m.powers[s] = (int8_t)(m.powers[s] - by->powers[s]);
    }
    return dim_find(graph, &m);
}

mst_dim mst_dim_add(mst_graph *graph, mst_dim a, mst_dim b) {
    mst_monomial m = graph->dims[a];
    const mst_monomial *other = &graph->dims[b];
    if (m.factor == 0) return b;
    if (other->factor == 0) return a;
    if (memcmp(m.powers, other->powers, sizeof m.powers) != 0) return dim_refuse(graph, a, "cannot be added to", b);
    if (__builtin_add_overflow(m.factor, other->factor, &m.factor)) return dim_too_large(graph, a, "plus", b);
    return dim_find(graph, &m);
}

bool mst_dim_is_rows(const mst_graph *graph, mst_dim dim) {
    const mst_monomial rows = {.factor = 1, .powers = {1}};
    return memcmp(&graph->dims[dim], &rows, sizeof rows) == 0;
}

int64_t mst_dim_constant(const mst_graph *graph, mst_dim dim) {
    static const int8_t none[MST_SIZES];
    return memcmp(graph->dims[dim].powers, none, sizeof none) == 0 ? graph->dims[dim].factor : -1;
}

int64_t mst_dim_value(const mst_graph *graph, mst_dim dim, const int64_t sizes[MST_SIZES]) {
    const mst_monomial *m = &graph->dims[dim];
    int64_t value = m->factor;
    for (int32_t s = 0; s < graph->size_count; s++)
        for (int32_t i = 0; i < m->powers[s]; i++)
            if (!mst_multiply(value, sizes[s], &value)) return -1;
    return value;
}

/* Products of sizes have entries below those of sizes. */
enum { DIM_ENTRIES = -(1 << 20) };

mst_dim mst_dim_read(mst_graph *graph, int64_t entry) {
    if (entry >= 0) return mst_dim_number(graph, entry);
    if (entry <= DIM_ENTRIES) return DIM_ENTRIES - entry < graph->dim_count ? (mst_dim)(DIM_ENTRIES - entry) : MST_DIM_NONE;
    const int64_t size = MUSTER_ROWS - entry;
    return size >= 0 && size < graph->size_count ? mst_dim_size(graph, (int32_t)size) : MST_DIM_NONE;
}

int64_t mst_dim_entry(const mst_graph *graph, mst_dim dim) {
    const mst_monomial *m = &graph->dims[dim];
    const int64_t constant = mst_dim_constant(graph, dim);
    if (constant >= 0) return constant;
    for (int32_t s = 0; s < graph->size_count; s++) {
        mst_monomial single = {.factor = 1};
        single.powers[s] = 1;
        if (memcmp(m, &single, sizeof single) == 0) return MUSTER_ROWS - s;
    }
    return DIM_ENTRIES - (int64_t)dim;
}

int32_t mst_dim_print(const mst_graph *graph, mst_dim dim, char *text, size_t size) {
    const mst_monomial *m = &graph->dims[dim];
    int32_t length = 0, factors = 0;
    text[0] = 0;
    for (int32_t s = 0; s < graph->size_count && length < (int32_t)size; s++) {
        if (!m->powers[s]) continue;
        length += snprintf(text + length, size - (size_t)length, "%s%s", factors++ ? " " : "", graph->size_names[s]);
        if (m->powers[s] > 1 && length < (int32_t)size) length += snprintf(text + length, size - (size_t)length, "^%d", (int)m->powers[s]);
    }
    if (!factors) return snprintf(text, size, "%lld", (long long)m->factor);
    if (m->factor != 1 && length < (int32_t)size) length += snprintf(text + length, size - (size_t)length, " %lld", (long long)m->factor);
    return length < (int32_t)size ? length : (int32_t)size - 1;
}
