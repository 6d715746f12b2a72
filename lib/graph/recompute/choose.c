/* Which values are given up, and made again. At the step where most memory is needed, the values
 * are given up that are not used there, and of which a byte costs least to make again, until enough
 * memory is free; then the same at the step that needs most now. */
#include "recompute_private.h"

#include <stdlib.h>

enum { MOST_DEPTH = 64, MOST_STUCK = 16, LEAST_PART = 4096 };

/* What making a value again before a step costs. */
typedef struct estimate {
    int32_t peak;  /* the step where memory is wanted */
    int64_t kept;  /* bytes of operands that must be kept over the peak */
    int64_t moved; /* bytes read and written */
} estimate;

/* ---- steps ---- */

bool mst_step_is_cheap(const mst_graph_program_step *step) {
    if (step->copy_from >= 0 || step->loop || step->combines || step->by_shard || mst_node_exchanges(step->node)) return false;
    return step->group || step->node->op->elementwise || (step->node->op->flags & MST_OPERATOR_CHEAP);
}

uint32_t mst_step_operands_of(const mst_graph_program_step *step, int32_t result) {
    const mst_fused_group *group = step->group;
    uint32_t operands = 0, members;
    if (!group) return ~0u;
    members = 1u << group->results[result];
    for (int32_t i = group->results[result]; i >= 0; i--)
        for (int32_t k = 0; members >> i & 1 && k < group->members[i]->input_count; k++) {
            const int32_t found = mst_group_find(group, group->members[i]->inputs[k]);
            if (found >= MST_GROUP_MEMBERS)
                operands |= 1u << (found - MST_GROUP_MEMBERS);
            else if (found >= 0)
                members |= 1u << found;
        }
    return operands;
}

/* ---- lifetimes ---- */

static int64_t bytes_of(const mst_recomputing *r, int32_t buffer) { return r->m->plan.buffers[buffer].bytes; }

muster_status mst_lifetime_use_add(mst_recomputing *r, int32_t buffer, int32_t step) {
    MUSTER_TRY(mst_grow((void **)&r->uses, &r->use_capacity, r->use_count + 1, sizeof *r->uses, "muster_function_call"));
    r->uses[r->use_count] = (mst_lifetime_use){step, r->lives[buffer].uses};
    r->lives[buffer].uses = r->use_count++;
    return MUSTER_OK;
}

static bool is_there(const mst_lifetime *life, int32_t step) { return step <= life->last || (life->again >= 0 && step >= life->again); }

static bool can_be_made_again(const mst_recomputing *r, int32_t buffer) {
    const mst_lifetime *life = &r->lives[buffer];
    return life->made >= 0 && !life->stays && mst_step_is_cheap(&r->steps[life->made]);
}

static bool estimate_value(mst_recomputing *r, int32_t buffer, int32_t step, int32_t depth, estimate *e);

/* Adds what it costs that the value is there in this step. */
static bool estimate_operand(mst_recomputing *r, int32_t buffer, int32_t step, int32_t depth, estimate *e) {
    mst_lifetime *life = &r->lives[buffer];
    if (is_there(life, step) || life->seen == r->estimates) return true;
    life->seen = r->estimates;
    if (life->again >= 0) return estimate_value(r, buffer, step, depth + 1, e); /* it is made before this step, not later */
    if (life->last >= e->peak) return true;
    estimate made = {.peak = e->peak};
    if (can_be_made_again(r, buffer) && estimate_value(r, buffer, step, depth + 1, &made) && made.kept < bytes_of(r, buffer)) {
        e->kept += made.kept;
        e->moved += made.moved;
    } else {
        e->kept += bytes_of(r, buffer);
    }
    return true;
}

/* Adds what it costs to make the value before this step. */
static bool estimate_value(mst_recomputing *r, int32_t buffer, int32_t step, int32_t depth, estimate *e) {
    const mst_lifetime *life = &r->lives[buffer];
    const mst_graph_program_step *maker = &r->steps[life->made];
    const uint32_t operands = mst_step_operands_of(maker, life->result);
    if (depth > MOST_DEPTH) return false;
    e->moved += bytes_of(r, buffer);
    for (int32_t i = 0; i < maker->in_count; i++) {
        const int32_t operand = operands >> i & 1 ? mst_recompute_buffer(r, maker->in[i]) : -1;
        if (operand < 0) continue;
        e->moved += bytes_of(r, operand);
        if (!estimate_operand(r, operand, step, depth, e)) return false;
    }
    return true;
}

/* ---- giving up ---- */

static muster_status make_again(mst_recomputing *r, int32_t buffer, int32_t step, int32_t peak, int32_t depth);

/* The value is there in this step. */
static muster_status require(mst_recomputing *r, int32_t buffer, int32_t step, int32_t peak, int32_t depth) {
    mst_lifetime *life = &r->lives[buffer];
    MUSTER_TRY(mst_lifetime_use_add(r, buffer, step));
    if (step <= life->last) return MUSTER_OK;
    if (life->again >= 0) {
        if (step > life->last_again) life->last_again = step;
        return step >= life->again ? MUSTER_OK : make_again(r, buffer, step, peak, depth + 1);
    }
    estimate made = {.peak = peak};
    r->estimates++;
    const bool again = life->last < peak && can_be_made_again(r, buffer) && estimate_value(r, buffer, step, depth + 1, &made);
    if (again && made.kept < bytes_of(r, buffer)) {
        life->last_again = step;
        return make_again(r, buffer, step, peak, depth + 1);
    }
    life->last = step;
    return MUSTER_OK;
}

static muster_status make_again(mst_recomputing *r, int32_t buffer, int32_t step, int32_t peak, int32_t depth) {
    mst_lifetime *life = &r->lives[buffer];
    const mst_graph_program_step *maker = &r->steps[life->made];
    const uint32_t operands = mst_step_operands_of(maker, life->result);
    life->again = step;
    for (int32_t i = 0; i < maker->in_count; i++) {
        const int32_t operand = operands >> i & 1 ? mst_recompute_buffer(r, maker->in[i]) : -1;
        if (operand >= 0) MUSTER_TRY(require(r, operand, step, peak, depth));
    }
    return MUSTER_OK;
}

/* The uses before and behind the step. False: it is used in the step, or can not be given up. */
static bool find_gap(const mst_recomputing *r, int32_t buffer, int32_t step, int32_t *before, int32_t *behind) {
    const mst_lifetime *life = &r->lives[buffer];
    if (life->again >= 0 || life->made >= step || life->last <= step || !can_be_made_again(r, buffer)) return false;
    *before = life->made;
    *behind = life->last;
    for (int32_t u = life->uses; u >= 0; u = r->uses[u].next) {
        if (r->uses[u].step <= step && r->uses[u].step > *before) *before = r->uses[u].step;
        if (r->uses[u].step > step && r->uses[u].step < *behind) *behind = r->uses[u].step;
    }
    return *before < step;
}

/* The bytes that are free in the step if the value is given up there. */
static int64_t saved_by(mst_recomputing *r, int32_t buffer, int32_t step, int32_t behind, int64_t *moved) {
    estimate made = {.peak = step};
    r->estimates++;
    if (!estimate_value(r, buffer, behind, 0, &made)) return 0;
    *moved = made.moved;
    return bytes_of(r, buffer) - made.kept;
}

static int by_worth(const void *a, const void *b) {
    const mst_recompute_candidate *x = a, *y = b;
    if (x->worth != y->worth) return x->worth > y->worth ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->buffer < y->buffer ? -1 : 1;
}

static int32_t candidates_find(mst_recomputing *r, int32_t step, int64_t wanted) {
    int32_t count = 0, before, behind;
    for (int32_t b = 0; b < r->buffer_count; b++) {
        int64_t moved = 0;
        if (!find_gap(r, b, step, &before, &behind)) continue;
        const int64_t saved = saved_by(r, b, step, behind, &moved);
        if (saved <= 0 || saved < wanted / LEAST_PART) continue;
        r->candidates[count++] = (mst_recompute_candidate){.worth = (double)saved / (double)moved, .bytes = saved, .buffer = b};
    }
    qsort(r->candidates, (size_t)count, sizeof *r->candidates, by_worth);
    return count;
}

/* Frees `wanted` bytes in the step, or as many as can be. */
static muster_status free_at(mst_recomputing *r, int32_t step, int64_t wanted, bool *any) {
    const int32_t count = candidates_find(r, step, wanted);
    *any = false;
    for (int32_t i = 0; i < count && wanted > 0; i++) {
        int32_t before, behind;
        int64_t moved;
        mst_lifetime *life = &r->lives[r->candidates[i].buffer];
        if (!find_gap(r, r->candidates[i].buffer, step, &before, &behind)) continue;
        const int64_t saved = saved_by(r, r->candidates[i].buffer, step, behind, &moved);
        if (saved <= 0) continue; /* what was given up before it is one of its operands */
        life->last_again = life->last;
        life->last = before;
        MUSTER_TRY(make_again(r, r->candidates[i].buffer, behind, step, 0));
        wanted -= saved;
        *any = true;
    }
    return MUSTER_OK;
}

/* ---- the peak ---- */

/* What results take over of operands that nothing needs behind the step, as plan.c will place
 * them. */
static int64_t taken_over(const mst_recomputing *r, int32_t s) {
    const mst_graph_program_step *step = &r->steps[s];
    const uint32_t in_place = step->group ? ~0u : step->copy_from < 0 && !step->loop ? step->node->op->in_place : 0;
    uint32_t taken = 0;
    int64_t bytes = 0;
    for (int32_t o = 0; o < step->out_count && (o == 0 || step->group); o++) {
        const int32_t result = mst_recompute_buffer(r, step->out[o]);
        for (int32_t i = 0; result >= 0 && i < step->in_count && i < 32; i++) {
            const int32_t operand = in_place >> i & 1 & ~(taken >> i) ? mst_recompute_buffer(r, step->in[i]) : -1;
            if (operand < 0 || bytes_of(r, operand) != bytes_of(r, result)) continue;
            const mst_lifetime *life = &r->lives[operand];
            if (life->stays || (life->again < 0 || s < life->again ? life->last : life->last_again) != s) continue;
            taken |= 1u << i;
            bytes += bytes_of(r, operand);
            break;
        }
    }
    return bytes;
}

static void live_find(mst_recomputing *r) {
    for (int32_t s = 0; s <= r->step_count + 1; s++) r->live[s] = 0;
    for (int32_t b = 0; b < r->buffer_count; b++) {
        const mst_lifetime *life = &r->lives[b];
        if (life->made < 0) continue;
        r->live[life->made] += bytes_of(r, b);
        r->live[life->last + 1] -= bytes_of(r, b);
        if (life->again < 0) continue;
        r->live[life->again] += bytes_of(r, b);
        r->live[life->last_again + 1] -= bytes_of(r, b);
    }
    for (int32_t s = 1; s < r->step_count; s++) r->live[s] += r->live[s - 1];
    if (!r->m->program->unshared)
        for (int32_t s = 0; s < r->step_count; s++) r->live[s] -= taken_over(r, s);
}

/* The first of the steps that need most, without those that are stuck; -1: there is none. */
static int32_t peak_find(const mst_recomputing *r) {
    int32_t peak = -1;
    for (int32_t s = 0; s < r->step_count; s++)
        if (!r->stuck[s] && (peak < 0 || r->live[s] > r->live[peak])) peak = s;
    return peak;
}

int64_t mst_recompute_peak(mst_recomputing *r) {
    live_find(r);
    int64_t most = 0;
    for (int32_t s = 0; s < r->step_count; s++)
        if (r->live[s] > most) most = r->live[s];
    return most;
}

muster_status mst_recompute_choose(mst_recomputing *r, int64_t bytes) {
    int32_t stuck = 0;
    for (int32_t s = 0; s < r->step_count; s++) r->stuck[s] = false;
    while (stuck < MOST_STUCK) {
        bool any;
        live_find(r);
        const int32_t peak = peak_find(r);
        if (peak < 0 || r->live[peak] <= bytes) return MUSTER_OK;
        MUSTER_TRY(free_at(r, peak, r->live[peak] - bytes, &any));
        if (any) continue;
        r->stuck[peak] = true;
        stuck++;
    }
    return MUSTER_OK;
}
