/* muster_graph_minimise: its arguments, and the table of what it was asked for. */
#include "rules_private.h"

#include <stdio.h>
#include <string.h>

static const char where[] = "muster_graph_minimise";

/* ---- arguments ---- */

static muster_status rate_check(mst_graph *graph, muster_expr *rate) {
    char text[MST_NODE_TEXT];
    if (!rate) return MUSTER_OK;
    MUSTER_TRY(mst_expr_check(graph, rate, where, "options: rate"));
    if (mst_node_is_error(rate)) return graph->status;
    if (rate->type.ndim == 0 && (rate->type.dtype == MUSTER_DTYPE_NONE || mst_dtype_is_float(rate->type.dtype))) return MUSTER_OK;
    return mst_error(rate->type.ndim ? MUSTER_SHAPE_MISMATCH : MUSTER_DTYPE_MISMATCH,
                     "%s: options: rate: expected a scalar of a float dtype, received %s", where, mst_node_text(rate, NULL, text));
}

/* The variable of a parameter; NULL: it is none. */
static muster_variable *variable_of(const mst_graph *graph, const muster_expr *node) {
    if (!mst_node_is(node, MST_OPERATOR_parameter)) return NULL;
    const mst_graph_port *port = &graph->variables.items[node->at];
    return port->mode == MUSTER_USE_READ ? port->variable : NULL;
}

static muster_status parameter_check(mst_graph *graph, muster_expr *const *parameters, int32_t i) {
    char what[32], text[MST_NODE_TEXT];
    snprintf(what, sizeof what, "parameters[%d]", (int)i);
    MUSTER_TRY(mst_expr_check(graph, parameters[i], where, what));
    if (mst_node_is_error(parameters[i])) return graph->status;
    const muster_variable *variable = variable_of(graph, parameters[i]);
    if (!variable)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected an expression of muster_graph_parameter, received %s", where, what,
                         mst_node_text(parameters[i], NULL, text));
    if (!mst_dtype_is_float(parameters[i]->type.dtype))
        return mst_error(MUSTER_UNSUPPORTED, "%s: %s: expected one of a float dtype, received %s", where, what,
                         mst_node_text(parameters[i], NULL, text));
    const char *name = muster_variable_name(variable);
    for (int32_t e = 0; graph->rules && e < graph->rules->entry_count; e++)
        if (graph->rules->entries[e].variable == variable)
            return mst_error(MUSTER_INVALID_ARGUMENT,
                             "%s: %s: expected each parameter in one call, received \"%.60s\" again, which has rule %s", where, what, name,
                             graph->rules->calls[graph->rules->entries[e].call].rule->name);
    for (int32_t u = 0; u < graph->updates.count; u++)
        if (graph->updates.items[u].variable == variable)
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected a parameter without an update, received \"%.60s\", which has one",
                             where, what, name);
    for (int32_t k = 0; k < i; k++)
        if (parameters[k] == parameters[i])
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected each parameter once, received \"%.60s\" again", where, what, name);
    return MUSTER_OK;
}

static muster_status gradient_check(mst_graph *graph, muster_expr *parameter, muster_expr *gradient, int32_t i) {
    char what[32], expected[MST_NODE_TEXT], received[MST_NODE_TEXT];
    snprintf(what, sizeof what, "gradients[%d]", (int)i);
    MUSTER_TRY(mst_expr_check(graph, gradient, where, what));
    if (mst_node_is_error(gradient)) return graph->status;
    if (gradient->type.dtype == parameter->type.dtype && mst_same_dims(&gradient->type, &parameter->type)) return MUSTER_OK;
    return mst_error(gradient->type.dtype != parameter->type.dtype ? MUSTER_DTYPE_MISMATCH : MUSTER_SHAPE_MISMATCH,
                     "%s: %s: expected the shape and dtype of %s, received %s", where, what, mst_node_text(parameter, NULL, expected),
                     mst_node_text(gradient, NULL, received));
}

static muster_status minimise_check(mst_graph *graph, muster_expr *const *parameters, muster_expr *const *gradients, int32_t count,
                                    muster_update_rule rule, const muster_rule_options *options, mst_update_rule_call *call) {
    if (count < 0) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: count: expected 0 or more, received %d", where, (int)count);
    if (count > 0 && (!parameters || !gradients)) return mst_error_null(where, parameters ? "gradients" : "parameters", "expressions");
    *call = (mst_update_rule_call){.rule = mst_update_rule_find(rule), .count = count, .step = {.update = -1}};
    if (!call->rule)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: rule: expected a muster_update_rule, such as MUSTER_SGD, received %d", where,
                         (int)rule);
    MUSTER_TRY(mst_update_rule_options_read(where, call->rule, options, &call->options));
    MUSTER_TRY(rate_check(graph, call->options.rate));
    for (int32_t i = 0; i < count; i++) {
        MUSTER_TRY(parameter_check(graph, parameters, i));
        MUSTER_TRY(gradient_check(graph, parameters[i], gradients[i], i));
    }
    return MUSTER_OK;
}

/* ---- the table ---- */

static muster_status states_make(mst_graph *graph, mst_update_rule_call *call, mst_update_rule_entry *entry) {
    mst_type type = entry->parameter->type;
    type.dtype = entry->real;
    for (int32_t s = 0; call->rule->states[s]; s++) {
        const char *name = call->rule->states[s];
        if (strcmp(name, "step") != 0) {
            MUSTER_TRY(mst_update_rule_state_make(graph, where, entry->variable, name, &type, &entry->states[entry->state_count]));
            entry->state_count++;
        } else if (!call->step.variable) {
            MUSTER_TRY(mst_update_rule_state_make(graph, where, entry->variable, name, &(mst_type){.dtype = MUSTER_I64}, &call->step));
        }
    }
    return MUSTER_OK;
}

/* Room for one more call and `count` more entries. */
static muster_status table_grow(mst_graph *graph, int32_t count) {
    if (!graph->rules && !(graph->rules = mst_alloc(sizeof *graph->rules))) return mst_out_of_memory(where, sizeof *graph->rules);
    mst_update_rules *rules = graph->rules;
    MUSTER_TRY(mst_grow((void **)&rules->calls, &rules->call_capacity, rules->call_count + 1, sizeof *rules->calls, where));
    return mst_grow((void **)&rules->entries, &rules->entry_capacity, rules->entry_count + count, sizeof *rules->entries, where);
}

static muster_status table_add(mst_graph *graph, muster_expr *const *parameters, muster_expr *const *gradients, muster_expr *const *clipped,
                               const mst_update_rule_call *asked) {
    MUSTER_TRY(table_grow(graph, asked->count));
    mst_update_rules *rules = graph->rules;
    mst_update_rule_call *call = &rules->calls[rules->call_count++];
    *call = *asked;
    call->first = rules->entry_count;
    for (int32_t i = 0; i < asked->count; i++) {
        mst_update_rule_entry *entry = &rules->entries[rules->entry_count++];
        *entry = (mst_update_rule_entry){.call = rules->call_count - 1,
                                         .variable = variable_of(graph, parameters[i]),
                                         .parameter = parameters[i],
                                         .gradient = gradients[i],
                                         .clipped = clipped[i],
                                         .real = mst_dtype_compute(parameters[i]->type.dtype),
                                         .update = -1};
        MUSTER_TRY(states_make(graph, call, entry));
        MUSTER_TRY(mst_update_rule_apply(graph, where, call, entry));
    }
    return MUSTER_OK;
}

static muster_status minimise(mst_graph *graph, muster_expr *const *parameters, muster_expr *const *gradients,
                              const mst_update_rule_call *call) {
    muster_expr *const *used = gradients;
    muster_expr **clipped = NULL;
    if (call->options.clip_norm > 0) {
        if (!(clipped = mst_alloc((size_t)call->count * sizeof *clipped))) return mst_out_of_memory(where, call->count);
        graph->origin = (mst_origin){0};
        mst_update_rule_clip(graph, gradients, call->count, call->options.clip_norm, clipped);
        used = clipped;
    }
    const muster_status status = graph->status == MUSTER_OK ? table_add(graph, parameters, gradients, used, call) : graph->status;
    mst_free(clipped);
    return status;
}

muster_status muster_graph_minimise(muster_graph *handle, muster_expr *const *parameters, muster_expr *const *gradients, int32_t count,
                                    muster_update_rule rule, const muster_rule_options *options) {
    mst_update_rule_call call;
    MUSTER_TRY(mst_graph_check(handle, where));
    mst_graph *graph = handle->graph;
    muster_status status = mst_runtime_check_open(graph->runtime, where);
    if (status == MUSTER_OK) status = minimise_check(graph, parameters, gradients, count, rule, options, &call);
    if (status == MUSTER_OK && graph->status != MUSTER_OK) return mst_error_restore(graph->status, graph->message);
    if (status == MUSTER_OK && count > 0) status = minimise(graph, parameters, gradients, &call);
    return status == MUSTER_OK ? MUSTER_OK : mst_graph_keep(graph, status);
}
