/* Which rules of a pass are a single loop: those without decays, on f32 and f64. */
#include "loops_private.h"
#include "pass_private.h"

static muster_update_rule rule_number(const mst_update_rule *rule) {
    for (muster_update_rule number = MUSTER_SGD; number <= MUSTER_ADAMAX; number++)
        if (mst_update_rule_find(number) == rule) return number;
    return 0;
}

/* The rate, or the scale that has it as a factor: the only scalar among the operands, else a
 * number. */
static bool rate_find(const mst_update_rule_call *call, const mst_pass_rule *rule, int32_t count, const muster_tensor *const *in,
                      mst_rule_use *use) {
    int32_t scalars = 0;
    for (int32_t i = 0; i < count; i++)
        if (rule->operands[i].kind == MST_PASS_SCALAR) {
            use->rate = in[i];
            scalars++;
        }
    return scalars == 1 || (scalars == 0 && !call->options.rate && !call->step.variable);
}

bool mst_rule_loop_find(const mst_graph_program *program, const mst_pass_rule *rule, const muster_tensor *const *in, mst_rule_use *use) {
    const mst_update_rules *rules = program->graph->rules;
    const mst_update_rule_entry *entry = &rules->entries[rule->entry];
    const mst_update_rule_call *call = &rules->calls[entry->call];
    const muster_rule_options *o = &call->options;
    const muster_dtype dtype = mst_pass_dtype(program, rule);
    const muster_update_rule number = rule_number(call->rule);
    *use = (mst_rule_use){.numbers = {o->learning_rate, o->momentum, o->beta1, o->beta2, o->rho, o->epsilon}};
    if (!number || (dtype != MUSTER_F32 && dtype != MUSTER_F64) || entry->real != dtype) return false;
    if (o->weight_decay > 0 || o->decoupled_weight_decay > 0) return false;
    if (!rate_find(call, rule, program->groups[rule->group].operand_count, in, use)) return false;
    if (use->rate && use->rate->dtype != dtype) return false;
    use->loops = dtype == MUSTER_F32 ? mst_rule_loops_f32[number] : mst_rule_loops_f64[number];
    return true;
}

void mst_rule_loop_run(const mst_rule_use *use, const mst_rule_vectors *vectors, int64_t count) {
    mst_rule_numbers numbers = use->numbers;
    if (use->rate) mst_convert(MUSTER_F64, &numbers.rate, use->rate->dtype, muster_tensor_address(*use->rate), 1);
    const mst_rule_loop loop = !vectors->gradients[1] ? use->loops.single : vectors->past_cache ? use->loops.streaming : use->loops.pair;
    loop(&numbers, vectors, count);
}
