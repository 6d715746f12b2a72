/* The states of a compiled function, as the program reaches them. */
#include "options_impl.h"
#include "owner_impl.h"
#include "program_private.h"
#include "rules_private.h"
#include "variable_impl.h"

#include <stdio.h>
#include <string.h>

/* ---- finding a state ---- */

/* The states in order: those of the entries of a call, then its step. state NULL: no more. */
typedef struct state_place {
    const mst_update_rule_call *call;
    const mst_update_rule_entry *entry; /* of a step: the first of the call */
    const mst_update_rule_state *state;
} state_place;

static state_place state_at(const mst_update_rules *rules, int32_t index) {
    for (int32_t c = 0; rules && c < rules->call_count; c++) {
        const mst_update_rule_call *call = &rules->calls[c];
        for (int32_t e = call->first; e < call->first + call->count; e++) {
            const mst_update_rule_entry *entry = &rules->entries[e];
            if (index < entry->state_count) return (state_place){call, entry, &entry->states[index]};
            index -= entry->state_count;
        }
        if (call->step.variable && index-- == 0) return (state_place){call, &rules->entries[call->first], &call->step};
    }
    return (state_place){NULL, NULL, NULL};
}

static int32_t state_count(const mst_update_rules *rules) {
    int32_t count = 0;
    while (state_at(rules, count).state) count++;
    return count;
}

static const mst_update_rule_entry *entry_of(const mst_update_rules *rules, const muster_variable *variable) {
    for (int32_t e = 0; rules && e < rules->entry_count; e++)
        if (rules->entries[e].variable == variable) return &rules->entries[e];
    return NULL;
}

/* The names of a parameter's states, for a message. */
static const char *names_text(const mst_update_rule_call *call, char *text, size_t size) {
    size_t length = 0;
    text[0] = 0;
    for (int32_t s = 0; call->rule->states[s] && length < size; s++)
        length += (size_t)snprintf(text + length, size - length, "%s\"%s\"", s ? ", " : "", call->rule->states[s]);
    return *text ? text : "none";
}

/* The names of the variables with states. */
static const char *variables_text(const mst_update_rules *rules, char *text, size_t size) {
    size_t length = 0;
    text[0] = 0;
    for (int32_t e = 0; rules && e < rules->entry_count && length < size; e++)
        length +=
            (size_t)snprintf(text + length, size - length, "%s\"%.60s\"", e ? ", " : "", muster_variable_name(rules->entries[e].variable));
    return *text ? text : "none";
}

/* The caller has entered the function: the program's variables may be asked for their names. */
static muster_status state_find(const mst_update_rules *rules, const char *where, const muster_variable *variable, const char *name,
                                mst_update_rule_state *state) {
    char text[300];
    const mst_update_rule_entry *entry = entry_of(rules, variable);
    if (!entry)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: variable: expected one that muster_graph_minimise has updated (%s), received another", where,
                         variables_text(rules, text, sizeof text));
    const mst_update_rule_call *call = &rules->calls[entry->call];
    *state = call->step;
    for (int32_t s = 0; s < entry->state_count; s++)
        if (strcmp(entry->states[s].name, name) == 0) *state = entry->states[s];
    if (state->variable && strcmp(state->name, name) == 0) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected a state of \"%.60s\" (rule %s: %s), received \"%.60s\"", where,
                     muster_variable_name(variable), call->rule->name, names_text(call, text, sizeof text), name);
}

/* ---- the public functions ---- */

static const char what[] = "one that muster_graph_compile gave";

muster_status muster_function_state_count(muster_function *function, int32_t *count) {
    static const char where[] = "muster_function_state_count";
    void *user;
    if (!count) return mst_error_null(where, "count", "the address of a number");
    *count = 0;
    MUSTER_TRY(mst_function_enter(function, mst_graph_program_body, where, what, &user));
    *count = state_count(((mst_graph_program *)user)->graph->rules);
    mst_function_leave(function);
    return MUSTER_OK;
}

static muster_status describe(const mst_graph *graph, const char *where, int32_t index, muster_state_description *description) {
    const state_place place = index < 0 ? (state_place){NULL, NULL, NULL} : state_at(graph->rules, index);
    if (!place.state) {
        const int32_t count = state_count(graph->rules);
        if (!count)
            return mst_error(MUSTER_OUT_OF_RANGE, "%s: index: expected none, since the function has no states, received %d", where,
                             (int)index);
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: index: expected 0 to %d, received %d", where, (int)count - 1, (int)index);
    }
    const mst_type *type = &place.state->node->type;
    muster_state_description known = {.name = place.state->name,
                                      .rule = place.call->rule->name,
                                      .variable = place.entry->variable,
                                      .dtype = type->dtype,
                                      .ndim = type->ndim};
    for (int32_t d = 0; d < type->ndim; d++) known.shape[d] = mst_dim_constant(graph, type->dims[d]);
    return mst_result_write(where, "description", "muster_state_description", &known, sizeof known, description);
}

muster_status muster_function_state_describe(muster_function *function, int32_t index, muster_state_description *description) {
    static const char where[] = "muster_function_state_describe";
    void *user;
    if (!description) return mst_error_null(where, "description", "the address of a muster_state_description");
    MUSTER_TRY(mst_function_enter(function, mst_graph_program_body, where, what, &user));
    const muster_status status = describe(((mst_graph_program *)user)->graph, where, index, description);
    mst_function_leave(function);
    return status;
}

/* Is the value a host tensor of the state's dtype and shape? */
static muster_status value_check(const mst_graph *graph, const char *where, const mst_update_rule_state *state, muster_tensor value) {
    char expected[MST_NODE_TEXT], received[128];
    const mst_type *type = &state->node->type;
    MUSTER_TRY(mst_tensor_check(value, where, "value"));
    if (value.device != MUSTER_DEVICE_HOST)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: value: expected a host tensor, received one of device %d", where, (int)value.device);
    if (value.dtype != type->dtype)
        return mst_error(MUSTER_DTYPE_MISMATCH, "%s: value: state \"%s\": expected %s, received %s", where, state->name,
                         muster_dtype_name(type->dtype), muster_dtype_name(value.dtype));
    bool same = value.ndim == type->ndim;
    for (int32_t d = 0; same && d < type->ndim; d++) same = value.shape[d] == mst_dim_constant(graph, type->dims[d]);
    if (same) return MUSTER_OK;
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s: value: state \"%s\": expected shape %s, received %s", where, state->name,
                     mst_type_text(graph, type, expected), mst_shape_text(received, value.ndim, value.shape));
}

/* The state of this name, for a value. */
static muster_status state_open(muster_function *function, const char *where, const muster_variable *variable, const char *name,
                                muster_tensor value, mst_update_rule_state *state) {
    void *user;
    if (!function) return mst_error_null(where, "function", "a function");
    muster_runtime *runtime = ((mst_object *)function)->runtime;
    const muster_status entered = mst_function_enter(function, mst_graph_program_body, where, what, &user);
    if (entered == MUSTER_INVALID_ARGUMENT) return mst_variables_refuse(runtime, where, name, entered); /* another function's body */
    MUSTER_TRY(entered);
    const mst_graph *graph = ((const mst_graph_program *)user)->graph;
    muster_status status = !variable ? mst_error_null(where, "variable", "a variable")
                           : !name   ? mst_error_null(where, "name", "the name of a state")
                                     : state_find(graph->rules, where, variable, name, state);
    if (status == MUSTER_OK) status = value_check(graph, where, state, value);
    mst_function_leave(function);
    return status == MUSTER_OK ? MUSTER_OK : mst_variables_refuse(runtime, where, name, status);
}

muster_status muster_function_state_get(muster_function *function, muster_variable *variable, const char *name, muster_tensor value) {
    mst_update_rule_state state;
    MUSTER_TRY(state_open(function, "muster_function_state_get", variable, name, value, &state));
    return muster_variable_get_whole(state.variable, value);
}

muster_status muster_function_state_set(muster_function *function, muster_variable *variable, const char *name, muster_tensor value) {
    mst_update_rule_state state;
    MUSTER_TRY(state_open(function, "muster_function_state_set", variable, name, value, &state));
    return muster_variable_set_whole(state.variable, value);
}
