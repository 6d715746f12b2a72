/* A rule becomes the updates of a parameter and of its states. */
#include "rules_private.h"
#include "text_private.h"

#include <stdio.h>

/* The names that a text begins with. */
typedef struct rule_names {
    const char *names[MST_UPDATE_RULE_NAMES];
    muster_expr *expressions[MST_UPDATE_RULE_NAMES];
    int32_t count;
} rule_names;

static void give(rule_names *given, const char *name, muster_expr *expression) {
    given->names[given->count] = name;
    given->expressions[given->count++] = expression;
}

static void give_number(rule_names *given, mst_graph *graph, const char *name, double value) {
    give(given, name, mst_apply(graph, MST_OPERATOR_number, NULL, 0, (mst_graph_value[]){{.number = value}}));
}

/* The value of one line of text. */
static muster_status line(mst_graph *graph, const char *where, const char *text, rule_names *given, muster_expr **value) {
    const char *const result = "result";
    return mst_text_of_rule(graph, where, text, MUSTER_DTYPE_NONE, &(mst_text_names){given->names, given->expressions, given->count},
                            &(mst_text_names){&result, value, 1});
}

static muster_expr *rate_of(mst_graph *graph, const mst_update_rule_call *call, muster_dtype real) {
    if (!call->options.rate)
        return mst_apply(graph, MST_OPERATOR_number, NULL, 0, (mst_graph_value[]){{.number = call->options.learning_rate}});
    return call->options.rate->type.dtype == MUSTER_DTYPE_NONE ? call->options.rate : mst_update_rule_cast(call->options.rate, real);
}

/* p and g as the rule sees them: in its dtype, after the two decays. */
static muster_status decay(mst_graph *graph, const char *where, const mst_update_rule_call *call, const mst_update_rule_entry *entry,
                           rule_names *given) {
    muster_expr *p = mst_update_rule_cast(entry->parameter, entry->real), *g = mst_update_rule_cast(entry->clipped, entry->real);
    rule_names names = {.count = 0};
    give(&names, "p", p);
    give(&names, "g", g);
    give(&names, "rate", rate_of(graph, call, entry->real));
    give_number(&names, graph, "coupled", call->options.weight_decay);
    give_number(&names, graph, "decoupled", call->options.decoupled_weight_decay);
    if (call->options.weight_decay > 0) MUSTER_TRY(line(graph, where, "g + coupled * p", &names, &g));
    if (call->options.decoupled_weight_decay > 0) MUSTER_TRY(line(graph, where, "p - rate * decoupled * p", &names, &p));
    give(given, "p", p);
    give(given, "g", g);
    give(given, "rate", names.expressions[2]);
    return MUSTER_OK;
}

static void give_options(mst_graph *graph, const mst_update_rule_call *call, rule_names *given) {
    give_number(given, graph, "momentum", call->options.momentum);
    give_number(given, graph, "beta1", call->options.beta1);
    give_number(given, graph, "beta2", call->options.beta2);
    give_number(given, graph, "rho", call->options.rho);
    give_number(given, graph, "epsilon", call->options.epsilon);
}

static muster_status update(mst_graph *graph, muster_variable *variable, muster_expr *value, int32_t *index) {
    MUSTER_TRY(muster_graph_update(graph->handle, variable, value, MUSTER_AUTO));
    *index = graph->updates.count - 1;
    return MUSTER_OK;
}

muster_status mst_update_rule_apply(mst_graph *graph, const char *where, mst_update_rule_call *call, mst_update_rule_entry *entry) {
    enum { RESULTS = 1 + MST_UPDATE_RULE_STATES, NAME = 24 };
    char place[MST_NODE_TEXT], names[RESULTS][NAME];
    const char *wanted[RESULTS];
    muster_expr *results[RESULTS];
    rule_names given = {.count = 0};
    int32_t count = 0;
    snprintf(place, sizeof place, "%s: rule %s of \"%.40s\"", where, call->rule->name, muster_variable_name(entry->variable));
    graph->origin = (mst_origin){0};
    MUSTER_TRY(decay(graph, place, call, entry, &given));
    give_options(graph, call, &given);
    for (int32_t s = 0; s < entry->state_count; s++) {
        give(&given, entry->states[s].name, entry->states[s].node);
        snprintf(names[count++], NAME, "new_%.16s", entry->states[s].name);
    }
    snprintf(names[count++], NAME, "new_p");
    if (call->step.variable) {
        give(&given, call->step.name, call->step.node);
        snprintf(names[count++], NAME, "new_%.16s", call->step.name);
    }
    for (int32_t i = 0; i < count; i++) wanted[i] = names[i];
    MUSTER_TRY(mst_text_of_rule(graph, place, call->rule->text, entry->real, &(mst_text_names){given.names, given.expressions, given.count},
                                &(mst_text_names){wanted, results, count}));
    for (int32_t s = 0; s < entry->state_count; s++)
        MUSTER_TRY(update(graph, entry->states[s].variable, results[s], &entry->states[s].update));
    muster_expr *value = mst_update_rule_cast(results[entry->state_count], entry->parameter->type.dtype);
    MUSTER_TRY(update(graph, entry->variable, value, &entry->update));
    if (!call->step.variable || call->step.update >= 0) return MUSTER_OK; /* the first parameter of the call has updated the step */
    return update(graph, call->step.variable, results[entry->state_count + 1], &call->step.update);
}
