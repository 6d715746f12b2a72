/* The steps of an instance: views where layouts allow them, groups, and where outputs and updates
 * are written. */
#include "instance_private.h"

/* Another worker computes the operand of a node that is placed there. */
bool mst_value_comes_from_elsewhere(const mst_making *m, const muster_expr *node) {
    return mst_node_is(node, MST_OPERATOR_place) && mst_place_rank(node) != node->graph->runtime->first + m->rank;
}

/* ---- steps ---- */

static int32_t new_buffer(mst_making *m, const muster_tensor *tensor) {
    mst_plan_buffer *made = &m->plan.buffers[m->plan.buffer_count];
    *made = (mst_plan_buffer){.bytes = muster_tensor_bytes(*tensor), .last = -1, .next = -1, .shared = -1};
    return m->plan.buffer_count++;
}

void mst_step_operand(mst_making *m, mst_graph_program_step *step, int32_t i, const muster_expr *operand, int32_t index) {
    const int32_t at = m->program->position[operand->id];
    const mst_plan_value *value = &m->plan.values[at];
    step->in[i] = &m->instance->tensors[at];
    if (value->buffer >= 0) m->plan.buffers[value->buffer].last = index;
}

muster_status mst_step_begin_at(mst_making *m, const muster_expr *node, int32_t operands, int32_t results, mst_graph_program_step **step) {
    mst_arena *memory = &m->instance->memory;
    *step = &m->instance->steps[m->instance->step_count++];
    **step = (mst_graph_program_step){.node = node, .copy_from = -1, .in_count = operands, .out_count = results};
    (*step)->in = mst_arena_take(memory, (size_t)(operands + 1) * sizeof *(*step)->in);
    (*step)->out = mst_arena_take(memory, (size_t)results * sizeof *(*step)->out);
    if (!(*step)->in || !(*step)->out) return mst_making_failed();
    for (int32_t r = 0; r < results; r++) (*step)->out[r] = &m->instance->none;
    return MUSTER_OK;
}

void mst_step_result(mst_making *m, mst_graph_program_step *step, int32_t r, int32_t at, int32_t index) {
    m->plan.values[at] = (mst_plan_value){.base = MST_BASE_ARENA, .buffer = new_buffer(m, &m->instance->tensors[at])};
    m->plan.buffers[m->plan.values[at].buffer].last = index;
    step->out[r] = &m->instance->tensors[at];
}

static muster_status step_add(mst_making *m, const muster_expr *node, int32_t at) {
    const int32_t index = m->instance->step_count;
    mst_graph_program_step *step;
    MUSTER_TRY(mst_step_begin_at(m, node, node->input_count, MST_RESULTS, &step));
    step->by_shard = mst_step_is_by_shard(node, mst_instance_sharing(m->instance));
    for (int32_t r = 0; r < MST_RESULTS; r++) {
        const int32_t made = r == 0 ? at : m->program->results[at][r];
        if (made < 0 || !(r == 0 || m->needed[made])) continue;
        if (r) MUSTER_TRY(mst_instance_shape(m, m->program->order[made], &m->instance->tensors[made]));
        mst_step_result(m, step, r, made, index);
    }
    for (int32_t i = 0; i < node->input_count; i++)
        if (!mst_operand_is_number(node, i) && !mst_value_comes_from_elsewhere(m, node))
            mst_step_operand(m, step, i, node->inputs[i], index);
    return MUSTER_OK;
}

/* The members that are not needed by this call are left out by the loops of the group. Operands
 * that only they have may be values that nobody made: they have no tensor. */
static muster_status group_add(mst_making *m, const mst_fused_group *group) {
    const mst_graph_program *p = m->program;
    const int32_t index = m->instance->step_count;
    mst_graph_program_step *step;
    MUSTER_TRY(mst_step_begin_at(m, group->members[group->member_count - 1], group->operand_count, group->result_count, &step));
    step->group = group;
    for (int32_t r = 0; r < group->result_count; r++) {
        const int32_t at = p->position[group->members[group->results[r]]->id];
        if (m->needed[at] != MST_USED_OUTSIDE) continue;
        MUSTER_TRY(mst_instance_shape(m, p->order[at], &m->instance->tensors[at]));
        mst_step_result(m, step, r, at, index);
    }
    for (int32_t i = 0; i < group->operand_count; i++) {
        step->in[i] = &m->instance->none;
        if (m->needed[p->position[group->operands[i]->id]]) mst_step_operand(m, step, i, group->operands[i], index);
    }
    return MUSTER_OK;
}

/* The step of a group stands where its last member does. */
static muster_status group_member_add(mst_making *m, int32_t at) {
    const mst_fused_group *group = &m->program->groups[mst_program_group(m->program, m->program->order[at])];
    bool any = false;
    if (m->program->order[at] != group->members[group->member_count - 1]) return MUSTER_OK;
    for (int32_t i = 0; i < group->member_count; i++) any = any || m->needed[m->program->position[group->members[i]->id]];
    return any ? group_add(m, group) : MUSTER_OK;
}

/* The result of a node as a view of its first operand. */
static bool view_make(mst_making *m, const muster_expr *node, int32_t at) {
    if (!node->op->view) return false;
    if (m->program->checked && node->op->id == MST_OPERATORS) return false; /* guard.c compares it with the body */
    const int32_t from = m->program->position[node->inputs[0]->id];
    const muster_tensor *x = &m->instance->tensors[from];
    muster_tensor result = m->instance->tensors[at];
    result.byte_offset = x->byte_offset;
    const mst_step_run run = {.node = node, .in = &x, .sizes = m->instance->sizes, .sharing = mst_instance_sharing(m->instance)};
    if (!node->op->view(&run, &result)) return false;
    m->instance->tensors[at] = result;
    m->plan.values[at] = m->plan.values[from];
    return true;
}

muster_status mst_value_make(mst_making *m, int32_t at, const muster_tensor *given) {
    const mst_graph_program *p = m->program;
    const muster_expr *node = p->order[at];
    muster_tensor *tensor = &m->instance->tensors[at];
    const int32_t number = mst_program_given(p, node);
    if (number >= 0) {
        *tensor = given[number];
        tensor->byte_offset = 0;
        m->plan.values[at] = (mst_plan_value){.base = mst_base_input(p, number), .buffer = -1};
        return MUSTER_OK;
    }
    if (mst_node_is(node, MST_OPERATOR_result)) return MUSTER_OK; /* made with the others of its operation */
    if (mst_program_group(p, node) >= 0) return group_member_add(m, at);
    MUSTER_TRY(mst_instance_shape(m, node, tensor));
    return view_make(m, node, at) ? MUSTER_OK : step_add(m, node, at);
}

/* ---- outputs and updates ---- */

static bool same_shape(const muster_tensor *a, const muster_tensor *b) {
    bool same = a->dtype == b->dtype && a->ndim == b->ndim;
    for (int32_t d = 0; same && d < a->ndim; d++) same = a->shape[d] == b->shape[d];
    return same;
}

/* With MUSTER_PER_WORKER a value of each row is averaged over the workers, which few programs
 * want. */
static bool averages_rows(const mst_making *m, const mst_graph_port *port, const char *kind) {
    const mst_type *type = &port->node->type;
    return !m->program->distributed && *kind == 'o' && port->mode == MUSTER_AUTO && type->ndim &&
           mst_dim_is_rows(m->program->graph, type->dims[0]) && m->program->graph->runtime->total > 1;
}

static muster_status target_check(const mst_making *m, const mst_graph_port *port, const char *kind, const muster_tensor *target) {
    const muster_tensor *value = &m->instance->tensors[m->program->position[port->node->id]];
    char received[MST_NODE_TEXT], expected[MST_NODE_TEXT];
    if (same_shape(value, target)) return MUSTER_OK;
    if (averages_rows(m, port, kind))
        return mst_error(MUSTER_SHAPE_MISMATCH,
                         "%s \"%.60s\": expected shape %s, that of the rows of each worker, since MUSTER_AUTO averages the values of "
                         "workers with MUSTER_PER_WORKER (MUSTER_GATHER collects all rows), received %s",
                         kind, port->name, mst_shape_print(m, value, false, expected), mst_shape_print(m, target, false, received));
    const bool by_rows = *kind == 'o' && (port->mode == MUSTER_GATHER || port->node->distribution.kind == MST_CUT);
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s \"%.60s\": expected shape %s, received %s", kind, port->name,
                     mst_shape_print(m, value, by_rows, expected), mst_shape_print(m, target, by_rows, received));
}

/* Without gaps and in row-major order, or, of a loop, as the value around it lies. */
static bool lies_alike(const mst_making *m, int32_t at, const muster_tensor *target) {
    const muster_tensor *value = &m->instance->tensors[at];
    if (muster_tensor_is_contiguous(*value)) return muster_tensor_is_contiguous(*target);
    bool alike = m->program->channels_last && m->program->channels_last[m->program->order[at]->id];
    for (int32_t d = 0; alike && d < value->ndim; d++) alike = value->strides[d] == target->strides[d];
    return alike;
}

/* Can the value share memory with others that come before it? What may be a view can, but for a
 * reshape that had to copy, since the layout of its operand allows no view. */
static bool may_be_view(const mst_making *m, const muster_expr *node, int32_t at) {
    if (!node->op->view) return false;
    if (!mst_node_is(node, MST_OPERATOR_reshape)) return true;
    for (int32_t k = 0; k < at; k++)
        if (m->plan.values[k].base == MST_BASE_ARENA && m->plan.values[k].buffer == m->plan.values[at].buffer) return true;
    return false;
}

/* The value is written where it belongs at once, or copied there by a last step. */
static muster_status target_add(mst_making *m, const mst_graph_port *port, const muster_tensor *target, int32_t base, int32_t extra) {
    const int32_t at = m->program->position[port->node->id];
    mst_plan_value *value = &m->plan.values[at];
    if (value->base == MST_BASE_ARENA && lies_alike(m, at, target) &&
        (!may_be_view(m, port->node, at) || mst_program_phase(m->program, port->node) == MST_PHASE_LOOP)) {
        m->plan.buffers[value->buffer].bytes = 0;
        const int32_t buffer = value->buffer;
        for (int32_t k = 0; k < m->program->count; k++) /* and the views of it */
            if (m->plan.values[k].base == MST_BASE_ARENA && m->plan.values[k].buffer == buffer)
                m->plan.values[k] = (mst_plan_value){.base = base, .buffer = -1};
        return MUSTER_OK;
    }
    const int32_t index = m->instance->step_count;
    mst_graph_program_step *step;
    MUSTER_TRY(mst_step_begin_at(m, port->node, 0, 1, &step));
    step->copy_from = at;
    m->instance->tensors[extra] = *target;
    m->instance->tensors[extra].byte_offset = 0;
    m->plan.values[extra] = (mst_plan_value){.base = base, .buffer = -1};
    step->out[0] = &m->instance->tensors[extra];
    if (value->buffer >= 0) m->plan.buffers[value->buffer].last = index;
    return MUSTER_OK;
}

muster_status mst_targets_make(mst_making *m) {
    const mst_graph_program *p = m->program;
    int32_t extra = p->count;
    for (int32_t o = 0; o < p->output_count; o++, extra++) {
        if (m->out[o].dtype == MUSTER_DTYPE_NONE) continue;
        if (p->combined && p->combined[p->position[p->graph->outputs.items[o].node->id]] == o) continue; /* by a step already */
        MUSTER_TRY(target_check(m, &p->graph->outputs.items[o], "output", &m->out[o]));
        MUSTER_TRY(target_add(m, &p->graph->outputs.items[o], &m->out[o], mst_base_output(p, o), extra));
    }
    for (int32_t u = 0; u < p->update_count; u++, extra++) {
        if (m->updates[u].dtype == MUSTER_DTYPE_NONE) continue; /* a state, which one pass updates */
        MUSTER_TRY(target_check(m, &p->graph->updates.items[u], "new value of", &m->updates[u]));
        MUSTER_TRY(target_add(m, &p->graph->updates.items[u], &m->updates[u], mst_base_update(p, u), extra));
    }
    return MUSTER_OK;
}
