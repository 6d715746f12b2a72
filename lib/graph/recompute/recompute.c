/* Recomputation in an instance: its steps, with those that make values again. */
#include "recompute_private.h"

#include <stdlib.h>
#include <string.h>

/* The lifetimes say what is needed at once, the plan what that takes in one block. So many plans
 * are tried. */
enum { MOST_PLANS = 8 };

/* A value that a step makes again. */
typedef struct again {
    int32_t before, step, buffer;
} again;

/* ---- the lifetimes without recomputation ---- */

static muster_status use_note(mst_recomputing *r, int32_t buffer, int32_t step) {
    if (buffer < 0) return MUSTER_OK;
    if (r->lives[buffer].last < step) r->lives[buffer].last = step;
    return mst_lifetime_use_add(r, buffer, step);
}

static muster_status lives_find(mst_recomputing *r) {
    const mst_graph_program *p = r->m->program;
    for (int32_t b = 0; b < r->buffer_count; b++)
        r->lives[b] = (mst_lifetime){.made = -1, .last = -1, .again = -1, .last_again = -1, .uses = -1};
    for (int32_t s = 0; s < r->step_count; s++) {
        const mst_graph_program_step *step = &r->steps[s];
        if (step->copy_from >= 0) MUSTER_TRY(use_note(r, r->m->plan.values[step->copy_from].buffer, s));
        for (int32_t i = 0; i < step->in_count; i++) MUSTER_TRY(use_note(r, mst_recompute_buffer(r, step->in[i]), s));
        for (int32_t o = 0; step->copy_from < 0 && o < step->out_count; o++) {
            const int32_t buffer = mst_recompute_buffer(r, step->out[o]);
            if (buffer < 0) continue;
            r->lives[buffer].made = r->lives[buffer].last = s;
            r->lives[buffer].result = o;
        }
    }
    for (int32_t i = 0; i < p->graph->scalars.count; i++) {
        const int32_t buffer = r->m->plan.values[p->position[p->graph->scalars.items[i].node->id]].buffer;
        if (buffer < 0) continue;
        r->lives[buffer].stays = true;
        r->lives[buffer].last = r->step_count;
    }
    return MUSTER_OK;
}

/* ---- the steps with recomputation ---- */

/* The value at a position as a step finds it that has this number. */
static int32_t place_at(mst_recomputing *r, int32_t at, int32_t step) {
    mst_making *m = r->m;
    const int32_t buffer = m->plan.values[at].buffer;
    if (buffer < 0 || r->lives[buffer].again < 0 || step < r->lives[buffer].again) return at;
    if (r->places[at] >= 0) return r->places[at];
    const int32_t made = m->value_count++;
    if (r->copies[buffer] < 0) {
        r->copies[buffer] = m->plan.buffer_count++;
        m->plan.buffers[r->copies[buffer]] = (mst_plan_buffer){.bytes = m->plan.buffers[buffer].bytes};
    }
    m->instance->tensors[made] = m->instance->tensors[at];
    m->plan.values[made] = (mst_plan_value){.base = MST_BASE_ARENA, .buffer = r->copies[buffer]};
    return r->places[at] = made;
}

static const muster_tensor *tensor_at(mst_recomputing *r, const muster_tensor *tensor, int32_t step) {
    const mst_instance *instance = r->m->instance;
    if (!tensor || tensor == &instance->none) return tensor;
    return &instance->tensors[place_at(r, (int32_t)(tensor - instance->tensors), step)];
}

/* Takes back what an earlier attempt has changed. */
static void steps_restore(mst_recomputing *r) {
    mst_making *m = r->m;
    m->value_count = r->value_count;
    m->plan.buffer_count = r->buffer_count;
    for (int32_t at = 0; at < r->value_count; at++) r->places[at] = -1;
    for (int32_t b = 0; b < r->buffer_count; b++) r->copies[b] = -1;
}

static bool is_made_later(const mst_lifetime *life) { return life->again >= 0 && life->last == life->made; }

/* Adds a step that makes the value of the buffer again, or the result to the step before it, if
 * that makes another result of the same. */
static muster_status again_add(mst_recomputing *r, const again *which, bool joins) {
    mst_making *m = r->m;
    mst_instance *instance = m->instance;
    const mst_graph_program_step *maker = &r->steps[which->step];
    const int32_t result = r->lives[which->buffer].result;
    const uint32_t operands = mst_step_operands_of(maker, result);
    if (!joins) {
        mst_graph_program_step *made;
        MUSTER_TRY(mst_step_begin_at(m, maker->node, maker->in_count, maker->out_count, &made));
        made->group = maker->group;
        made->again = true;
        for (int32_t i = 0; i < maker->in_count; i++) made->in[i] = maker->in[i] ? &instance->none : NULL;
    }
    mst_graph_program_step *step = &instance->steps[instance->step_count - 1];
    for (int32_t i = 0; i < maker->in_count; i++)
        if (operands >> i & 1) step->in[i] = tensor_at(r, maker->in[i], which->before);
    step->repeats = step->repeats || !is_made_later(&r->lives[which->buffer]);
    step->out[result] = &instance->tensors[place_at(r, (int32_t)(maker->out[result] - instance->tensors), which->before)];
    return MUSTER_OK;
}

/* How many results the step has, and how many of them it makes. */
static void results_count(const mst_recomputing *r, const mst_graph_program_step *step, int32_t *all, int32_t *made) {
    *all = *made = 0;
    for (int32_t o = 0; o < step->out_count; o++) {
        const int32_t buffer = mst_recompute_buffer(r, step->out[o]);
        *all += step->out[o] != &r->m->instance->none;
        *made += step->out[o] != &r->m->instance->none && (buffer < 0 || !is_made_later(&r->lives[buffer]));
    }
}

static bool operands_change(mst_recomputing *r, int32_t s) {
    const mst_graph_program_step *step = &r->steps[s];
    bool changed = false;
    for (int32_t i = 0; i < step->in_count; i++) changed = changed || tensor_at(r, step->in[i], s) != step->in[i];
    return changed;
}

/* The step with the operands and results that it has now. One that makes all its results later is
 * left out. The arrays of the step itself stay as they were. */
static muster_status step_keep(mst_recomputing *r, int32_t s) {
    mst_making *m = r->m;
    const mst_graph_program_step *from = &r->steps[s];
    int32_t all = 0, made = 0;
    if (from->copy_from < 0) results_count(r, from, &all, &made);
    if (all && !made) return MUSTER_OK;
    mst_graph_program_step *step = &m->instance->steps[m->instance->step_count++];
    *step = *from;
    if (step->copy_from >= 0) step->copy_from = place_at(r, step->copy_from, s);
    if (operands_change(r, s)) {
        step->in = mst_arena_take(&m->instance->memory, (size_t)(step->in_count + 1) * sizeof *step->in);
        if (!step->in) return mst_making_failed();
        for (int32_t i = 0; i < step->in_count; i++) step->in[i] = tensor_at(r, from->in[i], s);
    }
    if (made == all) return MUSTER_OK;
    step->out = mst_arena_take(&m->instance->memory, (size_t)step->out_count * sizeof *step->out);
    if (!step->out) return mst_making_failed();
    for (int32_t o = 0; o < step->out_count; o++) {
        const int32_t buffer = mst_recompute_buffer(r, from->out[o]);
        step->out[o] = buffer >= 0 && is_made_later(&r->lives[buffer]) ? &m->instance->none : from->out[o];
    }
    return MUSTER_OK;
}

static int by_place(const void *a, const void *b) {
    const again *x = a, *y = b;
    if (x->before != y->before) return x->before < y->before ? -1 : 1;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

/* What the plans of an instance need. */
typedef struct attempt {
    mst_graph_program_step *steps;
    again *list;
    int32_t *new_number; /* by step: the number that it gets, or that of the next, where it is left out */
    int32_t *origin;     /* by new number: the step */
    int32_t *until;      /* by step */
} attempt;

static muster_status steps_write(mst_recomputing *r, const attempt *a) {
    mst_instance *instance = r->m->instance;
    again *list = a->list;
    int32_t count = 0, next = 0;
    steps_restore(r);
    for (int32_t b = 0; b < r->buffer_count; b++)
        if (r->lives[b].again >= 0) list[count++] = (again){r->lives[b].again, r->lives[b].made, b};
    qsort(list, (size_t)count, sizeof *list, by_place);
    instance->steps = a->steps;
    instance->step_count = instance->repeated_steps = 0;
    for (int32_t s = 0; s < r->step_count; s++) {
        for (; next < count && list[next].before == s; next++) {
            const bool joins = next && list[next - 1].before == s && list[next - 1].step == list[next].step;
            MUSTER_TRY(again_add(r, &list[next], joins));
            a->origin[instance->step_count - 1] = list[next].step;
        }
        a->new_number[s] = instance->step_count;
        a->origin[instance->step_count] = s;
        MUSTER_TRY(step_keep(r, s));
    }
    for (int32_t s = 0; s < instance->step_count; s++) instance->repeated_steps += instance->steps[s].repeats;
    return MUSTER_OK;
}

/* ---- the plan ---- */

static void last_note(mst_making *m, const muster_tensor *tensor, int32_t step) {
    if (!tensor || tensor == &m->instance->none) return;
    const int32_t buffer = m->plan.values[tensor - m->instance->tensors].buffer;
    if (buffer >= 0) m->plan.buffers[buffer].last = step;
}

static muster_status memory_plan(mst_making *m) {
    mst_instance *instance = m->instance;
    for (int32_t b = 0; b < m->plan.buffer_count; b++)
        m->plan.buffers[b] = (mst_plan_buffer){.bytes = m->plan.buffers[b].bytes, .last = -1, .next = -1, .shared = -1};
    for (int32_t s = 0; s < instance->step_count; s++) {
        const mst_graph_program_step *step = &instance->steps[s];
        if (step->copy_from >= 0) last_note(m, &instance->tensors[step->copy_from], s);
        for (int32_t i = 0; i < step->in_count; i++) last_note(m, step->in[i], s);
        for (int32_t o = 0; step->copy_from < 0 && o < step->out_count; o++) last_note(m, step->out[o], s);
    }
    mst_scalars_stay(m);
    instance->dead_count = 0;
    return mst_plan_memory(&m->plan);
}

/* ---- what may be read later ---- */

/* until[s]: no worker makes a value of step s again behind this step, whatever its shapes are. What
 * exchanges must have the same order on all workers, and so must what waits for the last use of a
 * variable. */
static void until_find(mst_recomputing *r, int32_t *until) {
    for (int32_t s = r->step_count - 1; s >= 0; s--) {
        until[s] = s;
        if (!mst_step_is_cheap(&r->steps[s])) continue;
        for (int32_t o = 0; o < r->steps[s].out_count; o++) {
            const int32_t buffer = mst_recompute_buffer(r, r->steps[s].out[o]);
            for (int32_t u = buffer < 0 ? -1 : r->lives[buffer].uses; u >= 0; u = r->uses[u].next)
                if (r->uses[u].step > s && until[r->uses[u].step] > until[s]) until[s] = until[r->uses[u].step];
        }
    }
}

/* A step that makes values again reads what the first step read, so it has the same end: other
 * workers may not make them again. */
static muster_status until_write(mst_recomputing *r, const attempt *a) {
    mst_making *m = r->m;
    m->until = mst_arena_take(&m->instance->memory, (size_t)(m->instance->step_count + 1) * sizeof *m->until);
    if (!m->until) return mst_making_failed();
    for (int32_t s = 0; s < m->instance->step_count; s++) m->until[s] = a->new_number[a->until[a->origin[s]]];
    return MUSTER_OK;
}

/* ---- all of it ---- */

/* The steps as they were, since recomputation saves nothing. */
static muster_status attempts_drop(mst_recomputing *r, const attempt *a) {
    mst_instance *instance = r->m->instance;
    if (instance->steps != a->steps) return MUSTER_OK;
    steps_restore(r);
    memcpy(a->steps, r->steps, (size_t)r->step_count * sizeof *a->steps);
    instance->step_count = r->step_count;
    instance->repeated_steps = 0;
    for (int32_t s = 0; s < r->step_count; s++) a->new_number[s] = a->origin[s] = s;
    return memory_plan(r->m);
}

static muster_status attempts_run(mst_recomputing *r, const attempt *a) {
    mst_instance *instance = r->m->instance;
    int64_t wanted = r->m->limit + mst_recompute_peak(r) - instance->arena_bytes;
    for (int32_t i = 0; i < MOST_PLANS && instance->arena_bytes > r->m->limit; i++) {
        const int64_t before = mst_recompute_peak(r);
        MUSTER_TRY(mst_recompute_choose(r, wanted));
        if (i && mst_recompute_peak(r) == before) break; /* nothing more can be given up */
        MUSTER_TRY(steps_write(r, a));
        MUSTER_TRY(memory_plan(r->m));
        wanted -= instance->arena_bytes - r->m->limit;
    }
    return instance->arena_bytes < instance->unlimited_bytes ? MUSTER_OK : attempts_drop(r, a);
}

static bool recomputing_memory(mst_recomputing *r, attempt *a) {
    const size_t steps = (size_t)r->step_count + 2, buffers = (size_t)r->buffer_count + 1, values = (size_t)r->value_count + 1;
    r->lives = mst_alloc(buffers * sizeof *r->lives);
    r->live = mst_alloc(steps * sizeof *r->live);
    r->stuck = mst_alloc(steps * sizeof *r->stuck);
    r->candidates = mst_alloc(buffers * sizeof *r->candidates);
    r->copies = mst_alloc((2 * buffers + values + 3 * steps) * sizeof *r->copies);
    r->places = r->copies + buffers;
    a->list = mst_alloc(buffers * sizeof *a->list);
    a->new_number = r->places + values;
    a->until = a->new_number + steps;
    a->origin = a->until + steps; /* for a step of each buffer, too */
    a->steps = mst_arena_take(&r->m->instance->memory, (steps + buffers) * sizeof *a->steps);
    return r->lives && r->live && r->stuck && r->candidates && r->copies && a->list && a->steps;
}

static muster_status recompute_run(mst_recomputing *r, const attempt *a) {
    MUSTER_TRY(lives_find(r));
    until_find(r, a->until);
    for (int32_t s = 0; s < r->step_count; s++) a->new_number[s] = a->origin[s] = s;
    if (!r->m->program->unshared) MUSTER_TRY(attempts_run(r, a));
    return until_write(r, a);
}

muster_status mst_recompute(mst_making *m) {
    mst_recomputing r = {.m = m,
                         .steps = m->instance->steps,
                         .step_count = m->instance->step_count,
                         .buffer_count = m->plan.buffer_count,
                         .value_count = m->value_count};
    attempt a = {0};
    m->instance->unlimited_bytes = m->instance->arena_bytes;
    const muster_status status = recomputing_memory(&r, &a) ? recompute_run(&r, &a) : mst_making_failed();
    mst_free(r.lives);
    mst_free(r.live);
    mst_free(r.stuck);
    mst_free(r.candidates);
    mst_free(r.copies);
    mst_free(r.uses);
    mst_free(a.list);
    return status;
}
