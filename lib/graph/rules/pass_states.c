/* Of the states that a pass updates, each device keeps the elements that it updates. */
#include "pass_private.h"
#include "variable_impl.h"

static const char where[] = "muster_graph_compile";

typedef struct portion_list {
    mst_portion *items;
    int64_t capacity;
    int32_t count;
} portion_list;

static int64_t count_of(const mst_graph_program *program, const mst_pass_rule *rule) {
    const mst_type *type = &program->graph->rules->entries[rule->entry].parameter->type;
    int64_t count = 1;
    for (int32_t d = 0; d < type->ndim; d++) count *= mst_dim_constant(program->graph, type->dims[d]);
    return count;
}

mst_apply_layout mst_pass_layout(const mst_graph_program *program, int32_t first, int32_t *end) {
    const mst_pass *pass = program->pass;
    mst_apply_layout layout = {.dtype = mst_pass_dtype(program, &pass->rules[first])};
    for (*end = first; *end < pass->count && mst_pass_dtype(program, &pass->rules[*end]) == layout.dtype; ++*end)
        if (mst_pass_is_shared(program, &pass->rules[*end])) layout.count += count_of(program, &pass->rules[*end]);
    return layout;
}

/* The portions of the `count` elements from `before` on in the shared vector, and where the states
 * of each device begin. */
static muster_status portions_find(const mst_apply_layout *layout, int32_t devices, int64_t before, int64_t count, portion_list *list,
                                   int64_t *first_states) {
    list->count = 0;
    for (int32_t r = 0; r < devices; r++) {
        bool found = false;
        for (mst_apply_slice slice = {.next = 0}; mst_apply_next_slice(layout, devices, r, &slice);) {
            const int64_t begin = slice.begin > before ? slice.begin : before,
                          end = slice.end < before + count ? slice.end : before + count;
            if (begin >= end) continue;
            if (!found) first_states[r] = slice.state + begin - slice.begin;
            found = true;
            MUSTER_TRY(mst_grow((void **)&list->items, &list->capacity, list->count + 1, sizeof *list->items, where));
            list->items[list->count++] = (mst_portion){.rank = r, .begin = begin - before, .end = end - before};
        }
    }
    return MUSTER_OK;
}

static muster_status states_lay(const mst_graph_program *program, portion_list *list) {
    const mst_pass *pass = program->pass;
    const int32_t devices = program->graph->runtime->size;
    for (int32_t first = 0, end; first < pass->count; first = end) {
        const mst_apply_layout layout = mst_pass_layout(program, first, &end);
        int64_t before = 0;
        for (int32_t i = first; i < end; i++) {
            const mst_update_rule_entry *entry = &program->graph->rules->entries[pass->rules[i].entry];
            const int64_t count = count_of(program, &pass->rules[i]);
            if (!mst_pass_is_shared(program, &pass->rules[i])) continue;
            MUSTER_TRY(portions_find(&layout, devices, before, count, list, pass->first_states + (int64_t)i * devices));
            for (int32_t s = 0; s < entry->state_count; s++)
                MUSTER_TRY(mst_variable_lay_in_portions(where, entry->states[s].variable, list->items, list->count, program));
            before += count;
        }
    }
    return MUSTER_OK;
}

muster_status mst_pass_lay_states(mst_graph_program *program) {
    mst_pass *pass = program->pass;
    portion_list list = {.items = NULL};
    if (!pass) return MUSTER_OK;
    const size_t bytes = (size_t)pass->count * (size_t)program->graph->runtime->size * sizeof *pass->first_states;
    pass->first_states = mst_alloc(bytes);
    if (!pass->first_states) return mst_out_of_memory(where, (int64_t)bytes);
    const muster_status status = states_lay(program, &list);
    mst_free(list.items);
    return status;
}
