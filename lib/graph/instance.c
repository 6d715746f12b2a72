/* Making an instance: the steps that the wanted outputs need, and the place of every value. */
#include "instance_private.h"

#include <string.h>

muster_status mst_making_failed(void) { return mst_out_of_memory("muster_function_call", (int64_t)sizeof(mst_instance)); }

/* ---- which values are needed, and where they lie ---- */

static void find_needed(mst_making *m) {
    const mst_graph_program *p = m->program;
    for (int32_t o = 0; o < p->output_count; o++)
        if (m->instance->targets[o].dtype != MUSTER_DTYPE_NONE)
            m->needed[p->position[p->graph->outputs.items[o].node->id]] = MST_USED_OUTSIDE;
    for (int32_t u = 0; u < p->update_count; u++)
        if (p->graph->updates.items[u].node) m->needed[p->position[p->graph->updates.items[u].node->id]] = MST_USED_OUTSIDE;
    for (int32_t i = 0; i < p->graph->scalars.count; i++) m->needed[p->position[p->graph->scalars.items[i].node->id]] = MST_USED_OUTSIDE;
    for (int32_t at = 0; m->leaves && at < p->count; at++) m->leaves[at] = m->needed[at];
    for (int32_t at = p->count - 1; at >= 0; at--) {
        const muster_expr *node = p->order[at];
        for (int32_t i = 0; m->needed[at] && i < mst_program_operands(p, node); i++) {
            if (mst_program_operand_is_number(p, node, i) || mst_value_comes_from_elsewhere(m, node)) continue;
            const bool inside = mst_program_group(p, node) >= 0 && mst_program_group(p, node) == mst_program_group(p, node->inputs[i]);
            uint8_t *needed = &m->needed[p->position[node->inputs[i]->id]];
            if (*needed != MST_USED_OUTSIDE) *needed = inside ? MST_USED : MST_USED_OUTSIDE;
            if (m->leaves && mst_program_phase(p, node) == MST_PHASE_AFTER) m->leaves[p->position[node->inputs[i]->id]] = true;
        }
    }
}

/* ---- the list of addresses ---- */

static int64_t value_offset(const mst_making *m, int32_t at) {
    const int32_t buffer = m->plan.values[at].buffer;
    const int64_t within = m->instance->tensors[at].byte_offset;
    if (buffer < 0) return within;
    int32_t root = buffer;
    while (m->plan.buffers[root].shared >= 0) root = m->plan.buffers[root].shared;
    return m->plan.buffers[root].offset + within;
}

/* Sorted by base, by counting. */
static void places_make(mst_making *m) {
    mst_instance *instance = m->instance;
    const int32_t bases = m->program->base_count, values = m->value_count;
    int32_t *first = instance->first_place;
    for (int32_t at = 0; at < values; at++)
        if (m->plan.values[at].base != MST_BASE_NONE) first[m->plan.values[at].base + 1]++;
    for (int32_t base = 0; base < bases; base++) first[base + 1] += first[base];
    for (int32_t at = values - 1; at >= 0; at--) {
        const int32_t base = m->plan.values[at].base;
        if (base == MST_BASE_NONE) continue;
        instance->places[--first[base + 1]] = (mst_place){&instance->tensors[at], value_offset(m, at)};
        instance->tensors[at].byte_offset = 0;
    }
    /* first[base + 1] went down to where base begins */
    for (int32_t base = 0; base < bases; base++) first[base] = first[base + 1];
    first[bases] = 0;
    for (int32_t at = 0; at < values; at++) first[bases] += m->plan.values[at].base != MST_BASE_NONE;
}

/* ---- all of it ---- */

static bool instance_memory(mst_making *m) {
    const mst_graph_program *p = m->program;
    mst_arena *memory = &m->instance->memory;
    /* with a limit each value may be made again */
    const size_t values = (size_t)mst_value_count(p) * (m->limit ? 2 : 1), bases = (size_t)p->base_count;
    int64_t *row_edges = NULL;
    if (p->distributed) {
        const mst_sharing *sharing = m->sharing;
        const size_t edges = (size_t)sharing->size + 1 + (sharing->shards_here ? (size_t)sharing->shards_here + 1 : 0);
        if (!(row_edges = mst_arena_take(memory, edges * sizeof *row_edges))) return false;
        memcpy(row_edges, sharing->row_edges, edges * sizeof *row_edges);
        m->instance->sharing = *sharing;
        m->instance->sharing.row_edges = m->instance->row_edges = row_edges;
        m->instance->sharing.shard_edges = row_edges + sharing->size + 1;
    }
    m->instance->given = mst_arena_take(memory, (size_t)(p->input_count + p->variable_count + 1) * sizeof(muster_tensor));
    m->instance->targets = mst_arena_take(memory, (size_t)(p->output_count + p->update_count + 1) * sizeof(muster_tensor));
    m->instance->tensors = mst_arena_take(memory, (values + 1) * sizeof(muster_tensor));
    m->instance->steps = mst_arena_take(memory, (values + 1) * sizeof(mst_graph_program_step));
    m->instance->places = mst_arena_take(memory, (values + 1) * sizeof(mst_place));
    m->instance->first_place = mst_arena_take(memory, (bases + 2) * sizeof(int32_t));
    m->instance->addresses = mst_arena_take(memory, (bases + 1) * sizeof(char *));
    if (p->checked) m->instance->dead = mst_arena_take(memory, (values + 1) * sizeof(mst_dead_range));
    m->needed = mst_alloc(values + 1);
    if (p->loop) m->leaves = mst_alloc((values + 1) * sizeof *m->leaves);
    m->plan.values = mst_alloc((values + 1) * sizeof *m->plan.values);
    m->plan.buffers = mst_alloc((values + 1) * sizeof *m->plan.buffers);
    return m->instance->given && m->instance->targets && m->instance->tensors && m->instance->steps && m->instance->places &&
           m->instance->first_place && m->instance->addresses && (m->instance->dead || !p->checked) && m->needed &&
           (m->leaves || !p->loop) && m->plan.values && m->plan.buffers;
}

static muster_status group_prepare(const mst_making *m, mst_graph_program_step *step) {
    const mst_graph_program *p = m->program;
    mst_arena *memory = &m->instance->memory;
    const int32_t number = (int32_t)(step->group - p->groups);
    MUSTER_TRY(mst_fused_launch_make(memory, p->fused, m->rank, number, step->group, step->in, step->out, &step->launch));
    return step->launch ? MUSTER_OK : mst_tile_make(memory, step->group, step->in, step->out, &step->tile);
}

/* A device must not allocate memory while a collective is in flight on it, so the scratch memory of
 * all steps is taken before the first: an exchange needs copies of its operand and of its result,
 * and so do other operations, which may compute in a wider dtype. */
static void scratch_find(mst_making *m) {
    enum { COPIES = 2, SLACK = 4096 };
    mst_instance *instance = m->instance;
    if (!(m->program->exchanges || m->program->pass) || mst_device_is_host(m->program->graph->runtime->devices[m->rank])) return;
    for (int32_t s = 0; s < instance->step_count; s++) {
        const mst_graph_program_step *step = &instance->steps[s];
        int64_t bytes = step->loop ? mst_loop_scratch_bytes(step->loop) : SLACK;
        for (int32_t i = 0; !step->loop && i < step->in_count; i++)
            if (step->in[i]) bytes += COPIES * muster_tensor_bytes(*step->in[i]);
        for (int32_t r = 0; !step->loop && r < step->out_count; r++) bytes += COPIES * muster_tensor_bytes(*step->out[r]);
        if (bytes > instance->scratch_bytes) instance->scratch_bytes = bytes;
    }
    const int64_t of_clipping = mst_pass_clip_bytes(m->program);
    if (of_clipping > instance->scratch_bytes) instance->scratch_bytes = of_clipping;
    instance->exchanged = instance->scratch_bytes;
}

/* The steps of all values, with that of the loop before what needs its results. */
static muster_status values_make(mst_making *m, const muster_tensor *given) {
    const mst_graph_program *p = m->program;
    bool looped = !p->loop;
    for (int32_t at = 0; at < p->count; at++) {
        const int32_t phase = mst_program_phase(p, p->order[at]);
        if (!looped && phase == MST_PHASE_AFTER) MUSTER_TRY(mst_loop_add(m));
        looped = looped || phase == MST_PHASE_AFTER;
        if (phase != MST_PHASE_LOOP && (m->needed[at] || mst_program_group(p, p->order[at]) >= 0)) MUSTER_TRY(mst_value_make(m, at, given));
        if (p->combined) MUSTER_TRY(mst_combined_add(m, at));
    }
    return looped ? MUSTER_OK : mst_loop_add(m);
}

void mst_scalars_stay(mst_making *m) {
    const mst_graph_program *p = m->program;
    for (int32_t i = 0; i < p->graph->scalars.count; i++) {
        const int32_t buffer = m->plan.values[p->position[p->graph->scalars.items[i].node->id]].buffer;
        if (buffer >= 0) m->plan.buffers[buffer].last = m->instance->step_count;
    }
}

static muster_status instance_fill(mst_making *m, const muster_tensor *given) {
    const mst_graph_program *p = m->program;
    mst_instance *instance = m->instance;
    if (m->sizes)
        memcpy(instance->sizes, m->sizes, sizeof instance->sizes);
    else
        MUSTER_TRY(mst_instance_sizes(m, given));
    for (int32_t i = 0; i < p->input_count + p->variable_count; i++) instance->given[i] = given[i];
    for (int32_t o = 0; o < p->output_count; o++) instance->targets[o] = m->out[o];
    for (int32_t u = 0; u < p->update_count; u++) instance->targets[p->output_count + u] = m->updates[u];
    for (int32_t at = 0; at < mst_value_count(p); at++) m->plan.values[at] = (mst_plan_value){.base = MST_BASE_NONE, .buffer = -1};
    find_needed(m);
    MUSTER_TRY(values_make(m, given));
    MUSTER_TRY(mst_targets_make(m));
    mst_scalars_stay(m);
    MUSTER_TRY(mst_plan_memory(&m->plan));
    if (m->limit) MUSTER_TRY(mst_recompute(m));
    places_make(m);
    for (int32_t s = 0; s < instance->step_count; s++) {
        mst_graph_program_step *step = &instance->steps[s];
        if (step->group) MUSTER_TRY(group_prepare(m, step));
    }
    scratch_find(m);
    MUSTER_TRY(mst_pass_schedule(m));
    return mst_pass_prepare(p, m->rank, instance);
}

/* The memory of a micro-batch, or 0. */
static int64_t loop_bytes(const mst_instance *instance) {
    for (int32_t s = 0; s < instance->step_count; s++)
        if (instance->steps[s].loop) return mst_loop_block_bytes(instance->steps[s].loop);
    return 0;
}

static muster_status instance_make(mst_making *m, const muster_tensor *given, mst_instance **instance) {
    m->instance = mst_alloc(sizeof(mst_instance));
    if (!m->instance) return mst_making_failed();
    m->value_count = mst_value_count(m->program);
    m->plan.program = m->program;
    m->plan.instance = m->instance;
    const muster_status status = instance_memory(m) ? instance_fill(m, given) : mst_making_failed();
    mst_free(m->needed);
    mst_free(m->leaves);
    mst_free(m->plan.values);
    mst_free(m->plan.buffers);
    if (status != MUSTER_OK) {
        mst_instance_free(m->instance);
        return status;
    }
    *instance = m->instance;
    return MUSTER_OK;
}

muster_status mst_instance_make(const mst_graph_program *program, int32_t rank, const muster_tensor *given, const muster_tensor *out,
                                const muster_tensor *updates, mst_instance **instance) {
    mst_making m = {.program = program,
                    .rank = rank,
                    .out = out,
                    .updates = updates,
                    .sharing = &program->ranks[rank].sharing,
                    .limit = program->memory_limit};
    mst_making less = m;
    mst_instance *unlimited;
    MUSTER_TRY(instance_make(&m, given, &unlimited));
    const int64_t block = loop_bytes(unlimited), over = unlimited->arena_bytes - program->memory_limit;
    if (!program->memory_limit || !block || over <= 0) {
        *instance = unlimited;
        return MUSTER_OK;
    }
    less.loop_limit = block > over ? block - over : 1;
    const muster_status status = instance_make(&less, given, instance);
    if (status == MUSTER_OK) (*instance)->unlimited_bytes = unlimited->unlimited_bytes;
    mst_instance_free(unlimited);
    return status;
}

muster_status mst_instance_make_loop(const mst_graph_program *program, int32_t rank, const mst_sharing *sharing,
                                     const int64_t sizes[MST_SIZES], int64_t limit, const muster_tensor *given, const muster_tensor *out,
                                     mst_instance **instance) {
    mst_making m = {.program = program, .rank = rank, .out = out, .sharing = sharing, .sizes = sizes, .limit = limit};
    return instance_make(&m, given, instance);
}

void mst_instance_free(mst_instance *instance) {
    if (!instance) return;
    for (int32_t s = 0; s < instance->step_count; s++)
        if (instance->steps[s].state) instance->steps[s].node->op->release(instance->steps[s].state);
    for (int32_t s = 0; s < instance->step_count; s++) mst_loop_run_free(instance->steps[s].loop);
    mst_arena_free(&instance->memory);
    mst_free(instance);
}
