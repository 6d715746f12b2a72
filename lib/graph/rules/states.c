/* The states of rules: variables that belong to a graph, and later to its function. */
#include "rules_private.h"
#include "variable_impl.h"

#include <stdio.h>
#include <string.h>

/* ---- creating ---- */

enum { STATE_NAME = 400 };

static bool name_is_taken(muster_runtime *runtime, const char *name) {
    muster_variable *found;
    return muster_variable_find(runtime, name, &found) == MUSTER_OK;
}

/* The variable, under the first of the names NAME, NAME#2, ... that is free. */
static muster_status variable_make(muster_runtime *runtime, const char *where, const char *base, const mst_type *type, const int64_t *shape,
                                   muster_variable **variable) {
    char name[STATE_NAME + 16], message[MST_MESSAGE_SIZE];
    snprintf(name, sizeof name, "%s", base);
    for (int32_t k = 2;; k++) {
        const muster_status status = mst_variable_create_in_portions(where, runtime, name, type->dtype, type->ndim, shape, variable);
        if (status != MUSTER_INVALID_ARGUMENT) return status;
        mst_error_save(message);
        if (!name_is_taken(runtime, name)) return mst_error_restore(status, message);
        snprintf(name, sizeof name, "%s#%d", base, (int)k);
    }
}

/* Until its end the variable counts one more user, so that the program cannot destroy it. */
static muster_status variable_hold(mst_graph *graph, const char *where, muster_variable *variable) {
    mst_pool *pool = graph->runtime->pool;
    MUSTER_TRY(mst_pool_enter(pool, where, 0));
    variable->users++;
    graph->rules->has_states = true;
    mst_pool_leave(pool);
    return MUSTER_OK;
}

muster_status mst_update_rule_state_make(mst_graph *graph, const char *where, const muster_variable *variable, const char *name,
                                         const mst_type *type, mst_update_rule_state *state) {
    char base[STATE_NAME];
    int64_t shape[MUSTER_MAX_DIMS];
    for (int32_t d = 0; d < type->ndim; d++) shape[d] = mst_dim_constant(graph, type->dims[d]);
    snprintf(base, sizeof base, "%.120s/%.200s/%s", graph->name, muster_variable_name(variable), name);
    *state = (mst_update_rule_state){.name = name, .update = -1};
    MUSTER_TRY(variable_make(graph->runtime, where, base, type, shape, &state->variable));
    const muster_status held = variable_hold(graph, where, state->variable);
    if (held != MUSTER_OK) {
        (void)muster_variable_destroy(state->variable);
        state->variable = NULL;
        return held;
    }
    state->node = muster_graph_parameter(graph->handle, state->variable);
    return mst_node_is_error(state->node) ? graph->status : MUSTER_OK;
}

/* ---- the end ---- */

static void state_end(mst_update_rule_state *state) {
    if (!state->variable) return;
    state->variable->users--;
    state->variable->object.destroy(&state->variable->object);
}

/* A closed runtime has ended its variables; one that cannot be entered, from a body, keeps them. */
static void states_end(mst_graph *graph, mst_update_rules *rules) {
    char message[MST_MESSAGE_SIZE];
    if (!rules->has_states || mst_pool_life_ended(graph->life)) return;
    mst_error_save(message);
    mst_pool *pool = graph->runtime->pool;
    if (mst_pool_enter_to_end(pool, "muster_graph_destroy") == MUSTER_OK) {
        for (int32_t e = 0; e < rules->entry_count; e++)
            for (int32_t s = 0; s < MST_UPDATE_RULE_STATES; s++) state_end(&rules->entries[e].states[s]);
        for (int32_t c = 0; c < rules->call_count; c++) state_end(&rules->calls[c].step);
        mst_pool_leave(pool);
    }
    (void)mst_error_restore(MUSTER_OK, message);
}

void mst_update_rules_end(mst_graph *graph) {
    mst_update_rules *rules = graph->rules;
    if (!rules) return;
    states_end(graph, rules);
    mst_free(rules->calls);
    mst_free(rules->entries);
    mst_free(rules);
    graph->rules = NULL;
}

/* ---- compiling ---- */

static const char where_compiles[] = "muster_graph_compile";

/* Portions of a compilation that has failed are for a program that is gone, and another one may get
 * its address. */
static muster_status state_split(const mst_graph *graph, const mst_update_rule_entry *entry, const mst_update_rule_state *state) {
    const int32_t axis = mst_variable_split_axis(entry->variable);
    if (state->variable->portions && state->variable->portions->owner) state->variable->portions->owner = graph;
    if (axis == mst_variable_split_axis(state->variable)) return MUSTER_OK;
    return mst_variable_lay_whole(where_compiles, state->variable, axis);
}

muster_status mst_update_rules_compile(mst_graph *graph, muster_graph_meaning meaning) {
    const mst_update_rules *rules = graph->status == MUSTER_OK ? graph->rules : NULL;
    for (int32_t e = 0; rules && e < rules->entry_count; e++)
        for (int32_t s = 0; s < rules->entries[e].state_count; s++)
            MUSTER_TRY(state_split(graph, &rules->entries[e], &rules->entries[e].states[s]));
    for (int32_t c = 0; rules && c < rules->call_count; c++) {
        const mst_update_rule_state *step = &rules->calls[c].step;
        /* integers have no average; every slice gives the same */
        if (step->update >= 0) graph->updates.items[step->update].mode = meaning == MUSTER_PER_WORKER ? MUSTER_MAX : MUSTER_AUTO;
    }
    return MUSTER_OK;
}

static muster_status state_lay(const mst_update_rule_state *state, const void *owner) {
    if (!state->variable || (state->variable->portions && state->variable->portions->owner == owner)) return MUSTER_OK;
    return mst_variable_lay_whole(where_compiles, state->variable, mst_variable_split_axis(state->variable));
}

muster_status mst_update_rules_lay(const mst_graph *graph, const void *owner) {
    const mst_update_rules *rules = graph->rules;
    for (int32_t e = 0; rules && e < rules->entry_count; e++)
        for (int32_t s = 0; s < rules->entries[e].state_count; s++) MUSTER_TRY(state_lay(&rules->entries[e].states[s], owner));
    for (int32_t c = 0; rules && c < rules->call_count; c++) MUSTER_TRY(state_lay(&rules->calls[c].step, owner));
    return MUSTER_OK;
}
