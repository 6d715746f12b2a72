/* Update rules: what muster_graph_minimise was asked for. The graph keeps a table of it, one entry
 * for each parameter, so that a pass may replace the updates by something else. */
#ifndef MST_RULES_PRIVATE_H
#define MST_RULES_PRIVATE_H

#include "graph_private.h"
#include "muster/rule.h"
#include "runtime_impl.h"

/* ---- the rules ---- */

enum { MST_UPDATE_RULE_STATES = 3 };
/* Beyond the states: p, g, rate and the numbers. */
enum { MST_UPDATE_RULE_NUMBERS = 5, MST_UPDATE_RULE_NAMES = 3 + MST_UPDATE_RULE_NUMBERS + MST_UPDATE_RULE_STATES };
typedef struct mst_update_rule {
    const char *name;
    const char *states[MST_UPDATE_RULE_STATES + 1]; /* NULL ends the list */
    muster_rule_options defaults;                   /* 0: the rule does not have the option */
    const char *text;
} mst_update_rule;
/* NULL: there is no such rule. */
const mst_update_rule *mst_update_rule_find(muster_update_rule rule);

/* ---- what the program asked for ---- */

/* A variable that belongs to the graph, and later to the function. */
typedef struct mst_update_rule_state {
    const char *name;
    muster_variable *variable;
    muster_expr *node; /* its value before the call */
    int32_t update;    /* the index of its update in the graph */
} mst_update_rule_state;

/* One call of muster_graph_minimise. */
typedef struct mst_update_rule_call {
    const mst_update_rule *rule;
    muster_rule_options options; /* defaults filled in; numbers that are not negative; rate: NULL or as given */
    int32_t first, count;        /* its entries */
    mst_update_rule_state step;  /* variable NULL: the rule counts no steps */
} mst_update_rule_call;

typedef struct mst_update_rule_entry {
    int32_t call; /* the index */
    muster_variable *variable;
    muster_expr *parameter;
    muster_expr *gradient;   /* as the program wrote it */
    muster_expr *clipped;    /* the same unless the call clips */
    muster_expr *simplified; /* the same, as the graph is compiled */
    muster_expr *summed;     /* `gradient`, as the graph is compiled: what a pass sums before it clips */
    muster_dtype real;       /* of the computation and the states */
    int32_t state_count;     /* without "step" */
    mst_update_rule_state states[MST_UPDATE_RULE_STATES];
    int32_t update; /* the index of the parameter's update in the graph */
} mst_update_rule_entry;

typedef struct mst_update_rules {
    mst_update_rule_call *calls;
    int64_t call_capacity;
    int32_t call_count;
    mst_update_rule_entry *entries;
    int64_t entry_capacity;
    int32_t entry_count;
    bool has_states;
} mst_update_rules;

/* ---- options.c ---- */

/* Reads and checks options, and fills the defaults in. Errors: INVALID_ARGUMENT, UNSUPPORTED. */
muster_status mst_update_rule_options_read(const char *where, const mst_update_rule *rule, const muster_rule_options *options,
                                           muster_rule_options *known);

/* ---- clip.c ---- */

/* clipped[i] = gradients[i] min(1, norm / their norm): the error node where that fails. */
void mst_update_rule_clip(mst_graph *graph, muster_expr *const *gradients, int32_t count, double norm, muster_expr **clipped);
/* The node in this dtype: itself if it has it. */
muster_expr *mst_update_rule_cast(muster_expr *node, muster_dtype dtype);

/* ---- apply.c ---- */

/* Makes the updates of the entry and of its states. Errors: those of the expressions. */
muster_status mst_update_rule_apply(mst_graph *graph, const char *where, mst_update_rule_call *call, mst_update_rule_entry *entry);

/* ---- states.c ---- */

/* Makes a variable of zeros with the dims of `type`, called after the graph, the variable and the
 * state. Errors: OUT_OF_MEMORY, BAD_STATE, those of the devices. */
muster_status mst_update_rule_state_make(mst_graph *graph, const char *where, const muster_variable *variable, const char *name,
                                         const mst_type *type, mst_update_rule_state *state);

#endif
