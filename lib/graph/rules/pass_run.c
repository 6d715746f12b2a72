/* Running updates in one pass. */
#include "loops_private.h"
#include "op_impl.h"
#include "pass_private.h"

#include <string.h>

enum { PASS_ALIGNMENT = 64 };

/* The rule of one parameter, for an instance: a group over vectors. */
struct mst_pass_run {
    const mst_pass_rule *rule;
    int64_t first_state; /* of the parameter, in the vector of all states of the device */
    muster_tensor in[MST_GROUP_OPERANDS], out[MST_GROUP_RESULTS];
    const muster_tensor *in_of[MST_GROUP_OPERANDS];
    muster_tensor *out_of[MST_GROUP_RESULTS];
    mst_tile_program *tile;
    mst_fused_launch *launch;
    bool is_loop; /* on the host: a single loop in place of the group */
    mst_rule_use loop;
};

/* What a rule gets: of one vector. */
typedef struct mst_pass_context {
    const mst_graph_program *program;
    struct mst_pass_run *runs; /* of the segments */
    const muster_tensor *variables;
    const mst_pass_norms *norms; /* while gradients are clipped; else NULL */
} pass_context;

/* ---- where gradients lie ---- */

/* The bytes of memory for a gradient, which has the dtype of its parameter. */
static int64_t gradient_bytes(const mst_graph_program *program, const muster_tensor *given, int32_t rule) {
    const muster_tensor *parameter = &given[program->input_count + program->pass->rules[rule].parameter];
    return (muster_tensor_bytes(*parameter) + PASS_ALIGNMENT - 1) / PASS_ALIGNMENT * PASS_ALIGNMENT;
}

/* One block of scratch memory for the gradients of each dtype, which are one vector. */
muster_status mst_pass_targets(muster_worker *worker, const mst_graph_program *program, const muster_tensor *given,
                               muster_tensor *updates) {
    const mst_pass *pass = program->pass;
    int64_t bytes = 0;
    for (int32_t i = 0; i < pass->count; i++) bytes += gradient_bytes(program, given, i);
    muster_tensor block;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_U8, 1, (const int64_t[]){bytes ? bytes : 1}, &block));
    char *at = muster_tensor_address(block);
    for (int32_t i = 0; i < pass->count; i++) {
        const muster_tensor *parameter = &given[program->input_count + pass->rules[i].parameter];
        muster_tensor gradient = muster_tensor_make(mst_pass_dtype(program, &pass->rules[i]), at, parameter->ndim, parameter->shape);
        gradient.device = block.device;
        updates[program->graph->rules->entries[pass->rules[i].entry].update] = gradient;
        at += gradient_bytes(program, given, i);
    }
    return MUSTER_OK;
}

/* Memory of the collectives, before the first of a run. */
muster_status mst_pass_reserve(muster_worker *worker, const mst_graph_program *program, const mst_instance *instance) {
    const mst_pass *pass = program->pass;
    for (int32_t v = 0; v < pass->vector_count; v++) {
        const mst_pass_vector *vector = &pass->vectors[v];
        const mst_apply_layout layout = mst_pass_layout(program, vector);
        int64_t bytes = 0;
        for (int32_t i = vector->first; i < vector->first + vector->count; i++) bytes += gradient_bytes(program, instance->given, i);
        MUSTER_TRY(mst_worker_reserve_apply(worker, &layout, bytes / muster_dtype_size(layout.dtype)));
    }
    return MUSTER_OK;
}

/* ---- the rules of an instance ---- */

static muster_status run_make(const mst_graph_program *program, int32_t rank, mst_instance *instance, struct mst_pass_run *run) {
    const mst_pass_rule *rule = run->rule;
    const mst_fused_group *group = &program->groups[rule->group];
    const int64_t step = MST_APPLY_STEP / (int64_t)muster_dtype_size(mst_pass_dtype(program, rule));
    for (int32_t i = 0; i < group->operand_count; i++) {
        if (rule->operands[i].kind == MST_PASS_SCALAR) {
            const muster_expr *scalar = program->graph->scalars.items[rule->operands[i].index].node;
            run->in_of[i] = &instance->tensors[program->position[scalar->id]];
            continue;
        }
        run->in[i] = muster_tensor_make(group->operands[i]->type.dtype, NULL, 1, &step);
        run->in[i].device = instance->device;
        run->in_of[i] = &run->in[i];
    }
    for (int32_t r = 0; r < group->result_count; r++) {
        run->out[r] = muster_tensor_make(group->members[group->results[r]]->type.dtype, NULL, 1, &step);
        run->out[r].device = instance->device;
        run->out_of[r] = &run->out[r];
    }
    MUSTER_TRY(mst_fused_launch_make(&instance->memory, program->fused, rank, rule->group, group, run->in_of, run->out_of, &run->launch));
    run->is_loop = !run->launch && mst_rule_loop_find(program, rule, run->in_of, &run->loop);
    return run->launch ? MUSTER_OK : mst_tile_make(&instance->memory, group, run->in_of, run->out_of, &run->tile);
}

muster_status mst_pass_prepare(const mst_graph_program *program, int32_t rank, mst_instance *instance) {
    const muster_runtime *runtime = program->graph->runtime;
    if (!program->pass) return MUSTER_OK;
    instance->device = rank;
    instance->pass = mst_arena_take(&instance->memory, (size_t)program->pass->count * sizeof *instance->pass);
    instance->segments = mst_arena_take(&instance->memory, (size_t)program->pass->count * sizeof *instance->segments);
    instance->undefined = mst_arena_take(&instance->memory, (size_t)program->pass->count * sizeof *instance->undefined);
    instance->requests = mst_arena_take(&instance->memory, (size_t)program->pass->vector_count * sizeof *instance->requests);
    instance->pass_context = mst_arena_take(&instance->memory, (size_t)program->pass->vector_count * sizeof *instance->pass_context);
    if (!instance->pass || !instance->segments || !instance->undefined || !instance->requests || !instance->pass_context)
        return mst_out_of_memory("muster_function_call", (int64_t)sizeof *instance->pass);
    for (int32_t i = 0; i < program->pass->count; i++) {
        instance->pass[i].rule = &program->pass->rules[i];
        instance->pass[i].first_state = program->pass->first_states[(int64_t)i * runtime->total + runtime->first + rank];
        MUSTER_TRY(run_make(program, rank, instance, &instance->pass[i]));
    }
    return MUSTER_OK;
}

/* ---- the pass ---- */

static char *value_address(const pass_context *c, const struct mst_pass_run *run, mst_pass_value value, const mst_apply_part *part,
                           bool after) {
    const mst_pass_rule *rule = run->rule;
    if (value.kind == MST_PASS_GRADIENT) return (char *)(uintptr_t)part->gradient;
    if (value.kind == MST_PASS_PARAMETER) return after ? part->after : (char *)(uintptr_t)part->before;
    const muster_tensor *state = &c->variables[rule->states[value.index]];
    /* the device has those of its portions, or, of a parameter of its own, all */
    const int64_t at = mst_pass_is_shared(c->program, rule) ? part->state - run->first_state : part->first;
    return (char *)muster_tensor_address(*state) + at * (int64_t)muster_dtype_size(state->dtype);
}

static void loop_apply(const pass_context *c, const struct mst_pass_run *run, const mst_apply_part *part) {
    const int32_t states = c->program->graph->rules->entries[run->rule->entry].state_count;
    mst_rule_vectors vectors = {
        .gradients = {part->gradient, part->second}, .parameter = part->after, .copy = part->copy, .past_cache = part->past_cache};
    for (int32_t s = 0; s < states; s++)
        vectors.states[s] = value_address(c, run, (mst_pass_value){.kind = MST_PASS_STATE, .index = s}, part, true);
    mst_rule_loop_run(&run->loop, &vectors, part->count);
}

static muster_status rule_apply(void *context, muster_worker *worker, const mst_apply_part *part) {
    const pass_context *c = context;
    struct mst_pass_run *run = &c->runs[part->segment];
    const mst_fused_group *group = &c->program->groups[run->rule->group];
    if (run->rule->clip >= 0) MUSTER_TRY(mst_pass_scale(worker, c->norms, run->rule->clip, part));
    if (run->is_loop && part->before == part->after) {
        loop_apply(c, run, part);
        return MUSTER_OK;
    }
    for (int32_t i = 0; i < group->operand_count; i++)
        if (run->rule->operands[i].kind != MST_PASS_SCALAR) run->in[i].data = value_address(c, run, run->rule->operands[i], part, false);
    for (int32_t r = 0; r < group->result_count; r++) run->out[r].data = value_address(c, run, run->rule->results[r], part, true);
    if (run->launch) return mst_fused_launch_run_first(worker, run->launch, part->count);
    mst_tile_run_first(run->tile, part->count);
    return MUSTER_OK;
}

static void vector_open(const mst_graph_program *program, mst_instance *instance, const muster_tensor *variables,
                        const muster_tensor *updates, int32_t v) {
    const mst_pass_vector *vector = &program->pass->vectors[v];
    const mst_apply_layout layout = mst_pass_layout(program, vector);
    const mst_pass_rule *rules = &program->pass->rules[vector->first];
    const int64_t size = (int64_t)muster_dtype_size(layout.dtype);
    char *begin = muster_tensor_address(updates[program->graph->rules->entries[rules[0].entry].update]), *end = begin;
    for (int32_t i = 0; i < vector->count; i++) {
        const muster_tensor *gradient = &updates[program->graph->rules->entries[rules[i].entry].update];
        const muster_tensor *parameter = &variables[rules[i].parameter];
        char *address = muster_tensor_address(*gradient);
        end = address + muster_tensor_bytes(*gradient);
        instance->segments[vector->first + i] = (mst_apply_segment){.offset = (address - begin) / size,
                                                                    .count = muster_tensor_count(*parameter),
                                                                    .parameter = muster_tensor_address(*parameter),
                                                                    .gradient = address,
                                                                    .local = !mst_pass_is_shared(program, &rules[i])};
    }
    const int64_t length = (end - begin) / size;
    instance->pass_context[v] = (pass_context){.program = program, .runs = &instance->pass[vector->first], .variables = variables};
    instance->requests[v] = (mst_apply_request){.gradients = muster_tensor_make(layout.dtype, begin, 1, &length),
                                                .segments = &instance->segments[vector->first],
                                                .segment_count = vector->count,
                                                .bucket_ends = layout.bucket_ends,
                                                .bucket_count = layout.bucket_count,
                                                .function = rule_apply,
                                                .context = &instance->pass_context[v],
                                                .undefined = &instance->undefined[vector->first]};
    instance->requests[v].gradients.device = instance->device;
    instance->requests[v].pairs = true;
    for (int32_t i = 0; i < vector->count; i++) instance->requests[v].pairs &= instance->pass[vector->first + i].is_loop;
}

void mst_pass_open(const mst_graph_program *program, mst_instance *instance, const muster_tensor *given, const muster_tensor *updates) {
    for (int32_t v = 0; v < program->pass->vector_count; v++) vector_open(program, instance, given + program->input_count, updates, v);
    instance->next_bucket = 0;
    instance->begins_at = program->pass->bucket_count ? (instance->buckets[0].step < 0 ? 0 : instance->buckets[0].step) : -1;
}

/* writes: not the sums alone. */
static muster_status vector_end(const mst_graph_program *program, const mst_instance *instance, int32_t v, bool writes,
                                muster_status status) {
    const mst_pass_vector *vector = &program->pass->vectors[v];
    mst_graph_program_rank *rank = &program->ranks[instance->device];
    if (status != MUSTER_OK)
        mst_pass_note_written(rank, vector->first, vector->count, &instance->undefined[vector->first]);
    else if (writes)
        mst_pass_note_written(rank, vector->first, vector->count, NULL);
    return status;
}

muster_status mst_pass_bucket_run(muster_worker *worker, const mst_graph_program *program, mst_instance *instance,
                                  const mst_pass_bucket *bucket) {
    mst_apply_request request = instance->requests[bucket->vector];
    if (program->eager)
        return vector_end(program, instance, bucket->vector, true, mst_worker_apply_begin(worker, NULL, &request, bucket->bucket));
    request.function = NULL; /* the sums alone */
    return vector_end(program, instance, bucket->vector, false, mst_worker_apply_sum_begin(worker, NULL, &request, bucket->bucket));
}

static muster_status vector_run(muster_worker *worker, const mst_graph_program *program, const mst_instance *instance, int32_t v) {
    const mst_apply_request *request = &instance->requests[v];
    const bool is_summed = program->pass->vectors[v].bucket_count > 0 || program->pass->clip_count > 0;
    if (!is_summed) return mst_worker_all_reduce_apply(worker, NULL, request);
    return program->eager ? MUSTER_OK : mst_worker_apply_finish(worker, NULL, request);
}

/* ---- with clipped gradients ---- */

/* The sums of the vectors without buckets; those of buckets have begun before. In host memory a
 * gradient is squared while its sum is in the cache. */
static muster_status sums_run(muster_worker *worker, const mst_graph_program *program, const mst_instance *instance,
                              mst_pass_norms *norms) {
    for (int32_t v = 0; v < program->pass->vector_count; v++) {
        const mst_pass_vector *vector = &program->pass->vectors[v];
        mst_apply_request request = instance->requests[v];
        if (vector->bucket_count) continue;
        norms->rules = &program->pass->rules[vector->first];
        request.function = mst_device_is_host(worker->device) ? mst_pass_square : NULL;
        request.context = norms;
        MUSTER_TRY(mst_worker_apply_sum(worker, NULL, &request, MST_APPLY_ALL_BUCKETS));
    }
    return mst_worker_exchange_end(worker);
}

/* What has not been squared yet: on devices each norm by itself. */
static muster_status squares_run(muster_worker *worker, const mst_graph_program *program, const mst_instance *instance,
                                 mst_pass_norms *norms) {
    const bool on_host = mst_device_is_host(worker->device);
    for (norms->clip = 0; norms->clip < (on_host ? 1 : program->pass->clip_count); norms->clip++) {
        for (int32_t v = 0; v < program->pass->vector_count; v++) {
            const mst_pass_vector *vector = &program->pass->vectors[v];
            mst_apply_request request = instance->requests[v];
            if (on_host && !vector->bucket_count) continue;
            norms->rules = &program->pass->rules[vector->first];
            request.function = mst_pass_square;
            request.context = norms;
            MUSTER_TRY(mst_worker_apply_visit(worker, NULL, &request));
        }
        if (!on_host) MUSTER_TRY(mst_pass_squares_end(worker, norms));
    }
    return MUSTER_OK;
}

/* No parameter is written before all devices know the norms. */
static muster_status norms_find(muster_worker *worker, const mst_graph_program *program, mst_instance *instance, mst_pass_norms *norms) {
    MUSTER_TRY(mst_pass_norms_begin(worker, program, norms));
    MUSTER_TRY(sums_run(worker, program, instance, norms));
    MUSTER_TRY(squares_run(worker, program, instance, norms));
    MUSTER_TRY(mst_pass_factors_find(worker, norms));
    for (int32_t v = 0; v < program->pass->vector_count; v++) instance->pass_context[v].norms = norms;
    return MUSTER_OK;
}

muster_status mst_pass_run(muster_worker *worker, const mst_graph_program *program, mst_instance *instance) {
    mst_pass_norms norms;
    MUSTER_TRY(mst_pass_begin(worker, program, instance, instance->step_count));
    const int64_t mark = muster_worker_scratch_mark(worker);
    if (program->pass->clip_count) MUSTER_TRY(norms_find(worker, program, instance, &norms));
    for (int32_t v = 0; v < program->pass->vector_count; v++)
        MUSTER_TRY(vector_end(program, instance, v, true, vector_run(worker, program, instance, v)));
    MUSTER_TRY(muster_worker_scratch_release(worker, mark));
    return mst_worker_exchange_end(worker);
}
