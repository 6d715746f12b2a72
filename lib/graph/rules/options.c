/* The rules, and reading their options. */
#include "options_impl.h"
#include "rules_private.h"

#include <math.h>
#include <stddef.h>

static const mst_update_rule rules[] = {
#define STATES(...) \
    { __VA_ARGS__ }
#define OPTIONS(...) \
    { __VA_ARGS__ }
#define RULE(number, name, states, options, text) [MUSTER_##number] = {name, states, options, text},
#include "rules.def"
#undef RULE
#undef OPTIONS
#undef STATES
};

const mst_update_rule *mst_update_rule_find(muster_update_rule rule) {
    return rule > 0 && rule < (muster_update_rule)(sizeof rules / sizeof *rules) ? &rules[rule] : NULL;
}

void muster_rule_options_init_sized(muster_rule_options *options, size_t size) { mst_options_init(options, size); }
void muster_state_description_init_sized(muster_state_description *description, size_t size) { mst_options_init(description, size); }

/* A number of the options. below: 0: there is no bound. */
typedef struct option_row {
    const char *name;
    size_t offset;
    double below;
    bool of_rule, negative; /* not every rule has it; a negative number is 0 */
} option_row;

#define ROW(name, ...) \
    { #name, offsetof(muster_rule_options, name), __VA_ARGS__ }
static const option_row rows[] = {ROW(learning_rate, 0, true, false),
                                  ROW(momentum, 1, true, true),
                                  ROW(beta1, 1, true, true),
                                  ROW(beta2, 1, true, true),
                                  ROW(rho, 1, true, true),
                                  ROW(epsilon, 0, true, true),
                                  ROW(weight_decay, 0, false, false),
                                  ROW(decoupled_weight_decay, 0, false, false),
                                  ROW(clip_norm, 0, false, false)};

static double *number_of(const option_row *row, muster_rule_options *options) { return (double *)(void *)((char *)options + row->offset); }

static muster_status row_read(const char *where, const mst_update_rule *rule, const option_row *row, muster_rule_options *known) {
    muster_rule_options defaults = rule->defaults;
    const double otherwise = *number_of(row, &defaults), given = *number_of(row, known);
    if (row->of_rule && otherwise == 0 && given != 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: %s: expected 0, since rule %s has no such option, received %g", where,
                         row->name, rule->name, given);
    if (!isfinite(given) || (given < 0 && !row->negative) || (row->below > 0 && given >= row->below))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: %s: expected a finite number of at least 0%s%s, received %g", where,
                         row->name, row->below > 0 ? " and below 1" : "",
                         row->negative ? ", where 0 is the default and a negative number means 0" : "", given);
    *number_of(row, known) = given < 0 ? 0 : given == 0 && row->of_rule ? otherwise : given;
    return MUSTER_OK;
}

muster_status mst_update_rule_options_read(const char *where, const mst_update_rule *rule, const muster_rule_options *options,
                                           muster_rule_options *known) {
    MUSTER_TRY(mst_options_read(where, "muster_rule_options", options, known, sizeof *known));
    if (known->rate && known->learning_rate != 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: learning_rate: expected 0, since `rate` is given, received %g", where,
                         known->learning_rate);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) MUSTER_TRY(row_read(where, rule, &rows[i], known));
    return MUSTER_OK;
}
