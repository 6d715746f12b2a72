/* States whose elements are up to date on the device that updates them only. */
#include "pass_private.h"
#include "variable_impl.h"

#include <string.h>

/* The rule that updates the state; NULL: none of the pass, or every device has the value. */
static const mst_pass_rule *rule_of(const mst_graph_program *program, const mst_update_rule_state *state) {
    for (int32_t i = 0; program->pass && i < program->pass->count; i++) {
        const mst_pass_rule *rule = &program->pass->rules[i];
        const mst_update_rule_entry *entry = &program->graph->rules->entries[rule->entry];
        for (int32_t s = 0; s < entry->state_count; s++)
            if (entry->states[s].variable == state->variable) return mst_pass_is_shared(program, rule) ? rule : NULL;
    }
    return NULL;
}

static int64_t count_of(const mst_graph_program *program, const mst_pass_rule *rule) {
    const mst_type *type = &program->graph->rules->entries[rule->entry].parameter->type;
    int64_t count = 1;
    for (int32_t d = 0; d < type->ndim; d++) count *= mst_dim_constant(program->graph, type->dims[d]);
    return count;
}

/* Where the parameter lies in the shared vector of its dtype, and the length of that. */
static int64_t place_of(const mst_graph_program *program, const mst_pass_rule *rule, int64_t *length) {
    int64_t place = 0;
    *length = 0;
    for (int32_t i = 0; i < program->pass->count; i++) {
        const mst_pass_rule *other = &program->pass->rules[i];
        if (other == rule) place = *length;
        if (mst_pass_dtype(program, other) == mst_pass_dtype(program, rule) && mst_pass_is_shared(program, other))
            *length += count_of(program, other);
    }
    return place;
}

muster_status mst_pass_join_state(const mst_graph_program *program, const mst_update_rule_state *state) {
    static const char where[] = "muster_function_state_get";
    const mst_pass_rule *rule = rule_of(program, state);
    int64_t shape[MUSTER_MAX_DIMS], length;
    if (!rule) return MUSTER_OK;
    const mst_type *type = &state->node->type;
    for (int32_t d = 0; d < type->ndim; d++) shape[d] = mst_dim_constant(program->graph, type->dims[d]);
    const int64_t place = place_of(program, rule, &length), count = count_of(program, rule), size = (int64_t)muster_dtype_size(type->dtype);
    const int32_t devices = program->graph->runtime->size;
    char *all = mst_alloc((size_t)(2 * count * size) + 1), *one = all + count * size;
    if (!all) return mst_out_of_memory(where, 2 * count * size);
    muster_status status = MUSTER_OK;
    const mst_apply_layout layout = {.dtype = mst_pass_dtype(program, rule), .count = length};
    for (int32_t r = 0; r < devices && status == MUSTER_OK; r++) {
        mst_apply_slice slice = {.next = 0};
        (void)mst_apply_next_slice(&layout, devices, r, &slice); /* there is one bucket */
        int64_t begin = slice.begin, end = slice.end;
        begin = begin < place ? place : begin;
        end = end > place + count ? place + count : end;
        if (begin >= end) continue;
        status = muster_variable_get(state->variable, r, muster_tensor_make(type->dtype, one, type->ndim, shape));
        memcpy(all + (begin - place) * size, one + (begin - place) * size, (size_t)((end - begin) * size));
    }
    if (status == MUSTER_OK) status = muster_variable_set_whole(state->variable, muster_tensor_make(type->dtype, all, type->ndim, shape));
    mst_free(all);
    return status;
}
