/* The states of rules in a pass. Each device has memory only for the elements that it updates. */
#include "pass_private.h"
#include "variable_impl.h"

static const char where[] = "muster_graph_compile";

typedef struct portion_list {
    mst_portion *items;
    int64_t capacity;
    int32_t count;
} portion_list;

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
    const int32_t devices = program->graph->runtime->total;
    for (int32_t v = 0; v < pass->vector_count; v++) {
        const mst_pass_vector *vector = &pass->vectors[v];
        const mst_apply_layout layout = mst_pass_layout(program, vector);
        int64_t before = 0;
        for (int32_t i = vector->first; i < vector->first + vector->count; i++) {
            const mst_update_rule_entry *entry = &program->graph->rules->entries[pass->rules[i].entry];
            const int64_t count = mst_pass_parameter_count(program, &pass->rules[i]);
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
    const size_t bytes = (size_t)pass->count * (size_t)program->graph->runtime->total * sizeof *pass->first_states;
    pass->first_states = mst_alloc(bytes);
    if (!pass->first_states) return mst_out_of_memory(where, (int64_t)bytes);
    const muster_status status = states_lay(program, &list);
    mst_free(list.items);
    return status;
}
