/* Buckets of gradients. Where the devices exchange beside their computation, the gradients of a run
 * are divided into buckets in the order in which its steps make them, and the exchange of a bucket
 * begins as soon as all of it is there. */
#include "../instance_private.h"
#include "pass_private.h"

#include <string.h>

/* The first bucket is smaller, so that the exchange begins early: nothing else waits for it. */
enum { BUCKET_BYTES = 25 << 20, FIRST_PART = 25 };

/* ---- the buckets of a program ---- */

int64_t mst_pass_parameter_count(const mst_graph_program *program, const mst_pass_rule *rule) {
    const mst_type *type = &program->graph->rules->entries[rule->entry].parameter->type;
    int64_t count = 1;
    for (int32_t d = 0; d < type->ndim; d++) count *= mst_dim_constant(program->graph, type->dims[d]);
    return count;
}

static int32_t place_in_order(const mst_graph_program *program, const mst_pass_rule *rule) {
    return program->position[mst_pass_port(program, rule)->node->id];
}

static bool comes_before(const mst_graph_program *program, const mst_pass_rule *a, const mst_pass_rule *b) {
    const muster_dtype x = mst_pass_dtype(program, a), y = mst_pass_dtype(program, b);
    return x != y ? x < y : place_in_order(program, a) < place_in_order(program, b);
}

/* Merges two sorted runs; `spare` holds the first. */
static void rules_merge(const mst_graph_program *program, mst_pass_rule *rules, int32_t middle, int32_t count, mst_pass_rule *spare) {
    int32_t left = 0, right = middle;
    memcpy(spare, rules, (size_t)middle * sizeof *spare);
    for (int32_t to = 0; left < middle; to++)
        rules[to] = right < count && comes_before(program, &rules[right], &spare[left]) ? rules[right++] : spare[left++];
}

static void rules_sort(const mst_graph_program *program, mst_pass_rule *rules, int32_t count, mst_pass_rule *spare) {
    const int32_t middle = count / 2;
    if (count < 2) return;
    rules_sort(program, rules, middle, spare);
    rules_sort(program, rules + middle, count - middle, spare);
    rules_merge(program, rules, middle, count, spare);
}

/* A bucket ends behind the parameter with which it has its bytes. */
static void buckets_find(const mst_graph_program *program, mst_pass_vector *vector, int64_t bytes) {
    mst_pass *pass = program->pass;
    const int64_t element = muster_dtype_size(mst_pass_dtype(program, &pass->rules[vector->first]));
    int64_t least = bytes / FIRST_PART, begin = 0;
    vector->first_bucket = pass->bucket_count;
    for (int32_t i = vector->first; i < vector->first + vector->count; i++) {
        if (!mst_pass_is_shared(program, &pass->rules[i])) continue;
        vector->shared += mst_pass_parameter_count(program, &pass->rules[i]);
        if (!bytes || (vector->shared - begin) * element < least || vector->shared == begin) continue;
        pass->bucket_ends[pass->bucket_count++] = begin = vector->shared;
        least = bytes;
    }
    if (bytes && vector->shared > begin) pass->bucket_ends[pass->bucket_count++] = vector->shared;
    if (pass->bucket_count == vector->first_bucket + 1 && !program->eager) pass->bucket_count--; /* there is nothing to begin early */
    vector->bucket_count = pass->bucket_count - vector->first_bucket;
}

muster_status mst_pass_arrange(mst_graph_program *program, int64_t bucket_bytes) {
    mst_pass *pass = program->pass;
    const size_t count = pass ? (size_t)pass->count : 0;
    const int64_t bytes = !program->overlaps && !program->eager ? 0 : bucket_bytes > 0 ? bucket_bytes : BUCKET_BYTES;
    if (!pass) return MUSTER_OK;
    mst_pass_rule *spare = mst_alloc(count * sizeof *spare);
    pass->vectors = mst_alloc(count * sizeof *pass->vectors);
    pass->bucket_ends = mst_alloc(count * sizeof *pass->bucket_ends);
    if (spare && bytes) rules_sort(program, pass->rules, pass->count, spare);
    mst_free(spare);
    if (!spare || !pass->vectors || !pass->bucket_ends) return mst_out_of_memory("muster_graph_compile", (int64_t)(count * sizeof *spare));
    for (int32_t first = 0, end; first < pass->count; first = end) {
        end = first + 1;
        while (end < pass->count && mst_pass_dtype(program, &pass->rules[end]) == mst_pass_dtype(program, &pass->rules[first])) end++;
        mst_pass_vector *vector = &pass->vectors[pass->vector_count++];
        *vector = (mst_pass_vector){.first = first, .count = end - first};
        buckets_find(program, vector, bytes);
    }
    return MUSTER_OK;
}

mst_apply_layout mst_pass_layout(const mst_graph_program *program, const mst_pass_vector *vector) {
    return (mst_apply_layout){.dtype = mst_pass_dtype(program, &program->pass->rules[vector->first]),
                              .count = vector->shared,
                              .bucket_ends = vector->bucket_count ? program->pass->bucket_ends + vector->first_bucket : NULL,
                              .bucket_count = vector->bucket_count};
}

/* ---- when they begin ---- */

/* By base: the last step that touches memory of it, or -1. */
static void note_use(const mst_making *m, const muster_tensor *tensor, int32_t step, int32_t *last) {
    if (!tensor || tensor == &m->instance->none) return;
    const int32_t base = m->plan.values[tensor - m->instance->tensors].base;
    if (base != MST_BASE_NONE && base != MST_BASE_ARENA && last[base] < step) last[base] = step;
}

static void notes_fill(const mst_making *m, int32_t *last) {
    for (int32_t base = 0; base < m->program->base_count; base++) last[base] = -1;
    for (int32_t s = 0; s < m->instance->step_count; s++) {
        const mst_graph_program_step *step = &m->instance->steps[s];
        if (step->copy_from >= 0) note_use(m, &m->instance->tensors[step->copy_from], s, last);
        for (int32_t i = 0; i < step->in_count; i++) note_use(m, step->in[i], m->until ? m->until[s] : s, last);
        for (int32_t r = 0; r < step->out_count; r++) note_use(m, step->out[r], s, last);
    }
}

/* The step behind which all numbers are there that the rules need. */
static int32_t scalars_step(const mst_making *m) {
    const mst_ports *scalars = &m->program->graph->scalars;
    int32_t last = -1;
    for (int32_t i = 0; i < scalars->count; i++) {
        const muster_tensor *scalar = &m->instance->tensors[m->program->position[scalars->items[i].node->id]];
        int32_t found = m->instance->step_count - 1;
        for (int32_t s = 0; s < m->instance->step_count; s++)
            for (int32_t r = 0; r < m->instance->steps[s].out_count; r++)
                if (m->instance->steps[s].out[r] == scalar) found = s;
        if (found > last) last = found;
    }
    return last;
}

static int32_t later(int32_t a, int32_t b) { return a > b ? a : b; }

/* A sum is written over the gradient. An eager update also writes the parameter. */
static int32_t rule_step(const mst_making *m, const mst_pass_rule *rule, const int32_t *last) {
    const mst_graph_program *p = m->program;
    const int32_t gradient = last[mst_base_update(p, p->graph->rules->entries[rule->entry].update)];
    return p->eager ? later(gradient, last[mst_base_variable(p, rule->parameter)]) : gradient;
}

static void vector_schedule(const mst_making *m, int32_t v, const int32_t *last, int32_t numbers) {
    const mst_graph_program *p = m->program;
    const mst_pass_vector *vector = &p->pass->vectors[v];
    int32_t bucket = 0;
    int64_t shared = 0;
    for (int32_t b = 0; b < vector->bucket_count; b++)
        m->instance->buckets[vector->first_bucket + b] = (mst_pass_bucket){.vector = v, .bucket = b, .step = numbers};
    for (int32_t i = vector->first; i < vector->first + vector->count && vector->bucket_count; i++) {
        const mst_pass_rule *rule = &p->pass->rules[i];
        const bool is_shared = mst_pass_is_shared(p, rule);
        /* local parameters are updated with the last bucket */
        mst_pass_bucket *its = &m->instance->buckets[vector->first_bucket + (is_shared ? bucket : vector->bucket_count - 1)];
        if (is_shared || p->eager) its->step = later(its->step, rule_step(m, rule, last));
        if (!is_shared) continue;
        shared += mst_pass_parameter_count(p, rule);
        while (bucket < vector->bucket_count - 1 && shared >= p->pass->bucket_ends[vector->first_bucket + bucket]) bucket++;
    }
}

/* By steps; those of one step in the order of their numbers. */
static void buckets_sort(mst_pass_bucket *buckets, int32_t count) {
    for (int32_t i = 1; i < count; i++) {
        const mst_pass_bucket bucket = buckets[i];
        int32_t at = i;
        for (; at > 0 && buckets[at - 1].step > bucket.step; at--) buckets[at] = buckets[at - 1];
        buckets[at] = bucket;
    }
}

muster_status mst_pass_schedule(mst_making *m) {
    const mst_graph_program *p = m->program;
    mst_instance *instance = m->instance;
    instance->begins_at = -1;
    if (!p->pass || !p->pass->bucket_count) return MUSTER_OK;
    int32_t *last = mst_alloc((size_t)p->base_count * sizeof *last);
    instance->buckets = mst_arena_take(&instance->memory, (size_t)p->pass->bucket_count * sizeof *instance->buckets);
    if (!last || !instance->buckets) {
        mst_free(last);
        return mst_making_failed();
    }
    notes_fill(m, last);
    const int32_t numbers = p->eager ? scalars_step(m) : -1;
    for (int32_t v = 0; v < p->pass->vector_count; v++) vector_schedule(m, v, last, numbers);
    mst_free(last);
    buckets_sort(instance->buckets, p->pass->bucket_count);
    return MUSTER_OK;
}

/* ---- beginning ---- */

muster_status mst_pass_begin(muster_worker *worker, const mst_graph_program *program, mst_instance *instance, int32_t step) {
    const int32_t count = program->pass->bucket_count;
    while (instance->next_bucket < count && instance->buckets[instance->next_bucket].step <= step) {
        const mst_pass_bucket *bucket = &instance->buckets[instance->next_bucket++];
        MUSTER_TRY(mst_pass_bucket_run(worker, program, instance, bucket));
    }
    instance->begins_at = instance->next_bucket < count ? later(instance->buckets[instance->next_bucket].step, 0) : -1;
    return MUSTER_OK;
}
