/* Making an instance: the sizes from the inputs' shapes, the steps that the wanted outputs need,
 * views where layouts allow them, and the place of every value. */
#include "program_private.h"

#include <stdio.h>
#include <string.h>

typedef struct making {
    const mst_graph_program *program;
    int32_t rank;
    mst_instance *instance;
    const muster_tensor *out, *updates;
    uint8_t *needed; /* by position: 0, or USED, which an operation of another step makes USED_OUTSIDE */
    mst_plan plan;
} making;

enum { USED = 1, USED_OUTSIDE = 2 };

static muster_status making_failed(void) { return mst_out_of_memory("muster_function_call", (int64_t)sizeof(mst_instance)); }

/* ---- sizes ---- */

static const char *shape_print(const muster_tensor *t, char text[MST_NODE_TEXT]) {
    size_t length = (size_t)snprintf(text, MST_NODE_TEXT, "(");
    for (int32_t d = 0; d < t->ndim && length < 120; d++)
        length += (size_t)snprintf(text + length, MST_NODE_TEXT - length, d ? ", %lld" : "%lld", (long long)t->shape[d]);
    snprintf(text + length, MST_NODE_TEXT - length, t->ndim == 1 ? ",)" : ")");
    return text;
}

/* The size that a monomial consists of, or -1. */
static int32_t single_size(const mst_graph *graph, mst_dim dim) {
    const mst_monomial *m = &graph->dims[dim];
    int32_t found = -1;
    if (m->factor != 1) return -1;
    for (int32_t s = 0; s < MST_SIZES; s++) {
        if (!m->powers[s]) continue;
        if (found >= 0 || m->powers[s] != 1) return -1;
        found = s;
    }
    return found;
}

static const mst_graph_port *given_port(const mst_graph_program *program, int32_t i) {
    return i < program->input_count ? &program->graph->inputs.items[i] : &program->graph->variables.items[i - program->input_count];
}

static muster_status sizes_refuse(const mst_graph_program *program, int32_t i, const muster_tensor *given) {
    char received[MST_NODE_TEXT], expected[MST_NODE_TEXT];
    const mst_graph_port *port = given_port(program, i);
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s \"%.60s\": expected %s, received %s", i < program->input_count ? "input" : "variable",
                     port->name, mst_type_text(program->graph, &port->node->type, expected), shape_print(given, received));
}

/* Of a distributed program the rows are those of all workers, and each has its part of what is cut.
 * */
static void local_shape(const mst_graph_program *program, const mst_instance *instance, const muster_expr *node, int64_t *shape) {
    mst_local_shape(program->graph, &node->type, node->distribution, instance->sizes, &instance->sharing, shape);
}

/* The first use of a size gives its value; all others are compared. */
static muster_status bind_sizes(const mst_graph_program *program, const muster_tensor *given, mst_instance *instance) {
    const mst_graph *graph = program->graph;
    int64_t *sizes = instance->sizes;
    const int32_t count = program->input_count + program->variable_count;
    for (int32_t s = 0; s < MST_SIZES; s++) sizes[s] = -1;
    if (program->distributed) sizes[MST_SIZE_ROWS] = instance->sharing.row_edges[instance->sharing.size];
    for (int32_t i = 0; i < count; i++) {
        const mst_type *type = &given_port(program, i)->node->type;
        if (given[i].ndim != type->ndim) return sizes_refuse(program, i, &given[i]);
        for (int32_t d = 0; d < type->ndim; d++) {
            const int32_t size = single_size(graph, type->dims[d]);
            if (size >= 0 && sizes[size] < 0) sizes[size] = given[i].shape[d];
        }
    }
    for (int32_t i = 0; i < count; i++) {
        const mst_type *type = &given_port(program, i)->node->type;
        int64_t expects[MUSTER_MAX_DIMS];
        local_shape(program, instance, given_port(program, i)->node, expects);
        for (int32_t d = 0; d < type->ndim; d++) {
            if (expects[d] == given[i].shape[d]) continue;
            const int32_t size = single_size(graph, type->dims[d]);
            if (size < 0) return sizes_refuse(program, i, &given[i]);
            char received[MST_NODE_TEXT], expected[MST_NODE_TEXT];
            return mst_error(MUSTER_SHAPE_MISMATCH, "%s \"%.60s\": expected %s with %s = %lld, as in an input before it, received %s",
                             i < program->input_count ? "input" : "variable", given_port(program, i)->name,
                             mst_type_text(graph, type, expected), graph->size_names[size], (long long)sizes[size],
                             shape_print(&given[i], received));
        }
    }
    return MUSTER_OK;
}

/* ---- which values are needed, and where they lie ---- */

/* Another worker computes the operand of a node that is placed there. */
static bool value_comes_from_elsewhere(const making *m, const muster_expr *node) {
    return mst_node_is(node, MST_OPERATOR_place) && mst_place_rank(node) != m->rank;
}

static void find_needed(making *m) {
    const mst_graph_program *p = m->program;
    for (int32_t o = 0; o < p->output_count; o++)
        if (m->instance->targets[o].dtype != MUSTER_DTYPE_NONE) m->needed[p->position[p->graph->outputs.items[o].node->id]] = USED_OUTSIDE;
    for (int32_t u = 0; u < p->update_count; u++)
        if (p->graph->updates.items[u].node) m->needed[p->position[p->graph->updates.items[u].node->id]] = USED_OUTSIDE;
    for (int32_t i = 0; i < p->graph->scalars.count; i++) m->needed[p->position[p->graph->scalars.items[i].node->id]] = USED_OUTSIDE;
    for (int32_t at = p->count - 1; at >= 0; at--) {
        const muster_expr *node = p->order[at];
        for (int32_t i = 0; m->needed[at] && i < node->input_count; i++) {
            if (mst_program_operand_is_number(p, node, i) || value_comes_from_elsewhere(m, node)) continue;
            const bool inside = mst_program_group(p, node) >= 0 && mst_program_group(p, node) == mst_program_group(p, node->inputs[i]);
            uint8_t *needed = &m->needed[p->position[node->inputs[i]->id]];
            if (*needed != USED_OUTSIDE) *needed = inside ? USED : USED_OUTSIDE;
        }
    }
}

/* A partial value for each logical shard, along a new first axis. */
static bool shape_by_shard(muster_tensor *tensor, int32_t shards, int64_t *elements) {
    for (int32_t d = tensor->ndim++; d > 0; d--) {
        tensor->shape[d] = tensor->shape[d - 1];
        tensor->strides[d] = tensor->strides[d - 1];
    }
    tensor->shape[0] = shards;
    tensor->strides[0] = *elements;
    return mst_multiply(*elements, shards, elements);
}

static muster_status shape_of(const making *m, const muster_expr *node, muster_tensor *tensor) {
    const mst_type *type = &node->type;
    int64_t elements = 1;
    *tensor = (muster_tensor){.dtype = type->dtype, .ndim = type->ndim, .device = MUSTER_DEVICE_HOST};
    bool fits = true;
    const int32_t shards = m->instance->sharing.shards_here;
    local_shape(m->program, m->instance, node, tensor->shape);
    for (int32_t d = type->ndim - 1; d >= 0; d--) {
        tensor->strides[d] = elements;
        fits = fits && tensor->shape[d] >= 0 && mst_multiply(elements, tensor->shape[d] > 0 ? tensor->shape[d] : 1, &elements);
    }
    if (shards && node->distribution.kind == MST_PARTIAL) fits = fits && shape_by_shard(tensor, shards, &elements);
    if (fits && elements <= INT64_MAX / 16) return MUSTER_OK;
    char text[MST_NODE_TEXT];
    return mst_error(MUSTER_OVERFLOW, "a value of shape %s has more elements than 64 bits count",
                     mst_type_text(m->program->graph, type, text));
}

static bool same_shape(const muster_tensor *a, const muster_tensor *b) {
    bool same = a->dtype == b->dtype && a->ndim == b->ndim;
    for (int32_t d = 0; same && d < a->ndim; d++) same = a->shape[d] == b->shape[d];
    return same;
}

static int32_t new_buffer(making *m, const muster_tensor *tensor) {
    mst_plan_buffer *made = &m->plan.buffers[m->plan.buffer_count];
    *made = (mst_plan_buffer){.bytes = muster_tensor_bytes(*tensor), .last = -1, .next = -1, .shared = -1};
    return m->plan.buffer_count++;
}

static void step_operand(making *m, mst_graph_program_step *step, int32_t i, const muster_expr *operand, int32_t index) {
    const int32_t at = m->program->position[operand->id];
    const mst_plan_value *value = &m->plan.values[at];
    step->in[i] = &m->instance->tensors[at];
    if (value->buffer >= 0) m->plan.buffers[value->buffer].last = index;
}

static muster_status step_begin(making *m, const muster_expr *node, int32_t operands, int32_t results, mst_graph_program_step **step) {
    mst_arena *memory = &m->instance->memory;
    *step = &m->instance->steps[m->instance->step_count++];
    **step = (mst_graph_program_step){.node = node, .copy_from = -1, .in_count = operands, .out_count = results};
    (*step)->in = mst_arena_take(memory, (size_t)(operands + 1) * sizeof *(*step)->in);
    (*step)->out = mst_arena_take(memory, (size_t)results * sizeof *(*step)->out);
    if (!(*step)->in || !(*step)->out) return making_failed();
    for (int32_t r = 0; r < results; r++) (*step)->out[r] = &m->instance->none;
    return MUSTER_OK;
}

static void step_result(making *m, mst_graph_program_step *step, int32_t r, int32_t at, int32_t index) {
    m->plan.values[at] = (mst_plan_value){.base = MST_BASE_ARENA, .buffer = new_buffer(m, &m->instance->tensors[at])};
    m->plan.buffers[m->plan.values[at].buffer].last = index;
    step->out[r] = &m->instance->tensors[at];
}

static muster_status step_add(making *m, const muster_expr *node, int32_t at) {
    const int32_t index = m->instance->step_count;
    mst_graph_program_step *step;
    MUSTER_TRY(step_begin(m, node, node->input_count, MST_RESULTS, &step));
    step->by_shard = mst_step_is_by_shard(node, mst_instance_sharing(m->instance));
    for (int32_t r = 0; r < MST_RESULTS; r++) {
        const int32_t made = r == 0 ? at : m->program->results[at][r];
        if (made < 0 || !(r == 0 || m->needed[made])) continue;
        if (r) MUSTER_TRY(shape_of(m, m->program->order[made], &m->instance->tensors[made]));
        step_result(m, step, r, made, index);
    }
    for (int32_t i = 0; i < node->input_count; i++)
        if (!mst_operand_is_number(node, i) && !value_comes_from_elsewhere(m, node)) step_operand(m, step, i, node->inputs[i], index);
    return MUSTER_OK;
}

/* The members that are not needed by this call are left out by the loops of the group. Operands
 * that only they have may be values that nobody made: they have no tensor. */
static muster_status group_add(making *m, const mst_fused_group *group) {
    const mst_graph_program *p = m->program;
    const int32_t index = m->instance->step_count;
    mst_graph_program_step *step;
    MUSTER_TRY(step_begin(m, group->members[group->member_count - 1], group->operand_count, group->result_count, &step));
    step->group = group;
    for (int32_t r = 0; r < group->result_count; r++) {
        const int32_t at = p->position[group->members[group->results[r]]->id];
        if (m->needed[at] != USED_OUTSIDE) continue;
        MUSTER_TRY(shape_of(m, p->order[at], &m->instance->tensors[at]));
        step_result(m, step, r, at, index);
    }
    for (int32_t i = 0; i < group->operand_count; i++) {
        step->in[i] = &m->instance->none;
        if (m->needed[p->position[group->operands[i]->id]]) step_operand(m, step, i, group->operands[i], index);
    }
    return MUSTER_OK;
}

/* The step of a group stands where its last member does. */
static muster_status group_member_add(making *m, int32_t at) {
    const mst_fused_group *group = &m->program->groups[mst_program_group(m->program, m->program->order[at])];
    bool any = false;
    if (m->program->order[at] != group->members[group->member_count - 1]) return MUSTER_OK;
    for (int32_t i = 0; i < group->member_count; i++) any = any || m->needed[m->program->position[group->members[i]->id]];
    return any ? group_add(m, group) : MUSTER_OK;
}

/* The result of a node as a view of its first operand. */
static bool view_make(making *m, const muster_expr *node, int32_t at) {
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

static muster_status value_make(making *m, int32_t at, const muster_tensor *given) {
    const mst_graph_program *p = m->program;
    const muster_expr *node = p->order[at];
    muster_tensor *tensor = &m->instance->tensors[at];
    if (mst_node_is(node, MST_OPERATOR_result)) return MUSTER_OK; /* made with the others of its operation */
    const bool input = mst_node_is(node, MST_OPERATOR_input);
    if (input || mst_node_is(node, MST_OPERATOR_parameter)) {
        *tensor = given[input ? node->at : p->input_count + node->at];
        tensor->byte_offset = 0;
        m->plan.values[at] = (mst_plan_value){.base = input ? mst_base_input(p, node->at) : mst_base_variable(p, node->at), .buffer = -1};
        return MUSTER_OK;
    }
    if (mst_program_group(p, node) >= 0) return group_member_add(m, at);
    MUSTER_TRY(shape_of(m, node, tensor));
    return view_make(m, node, at) ? MUSTER_OK : step_add(m, node, at);
}

/* ---- outputs and updates ---- */

static muster_status target_check(const making *m, const mst_graph_port *port, const char *kind, const muster_tensor *target) {
    const muster_tensor *value = &m->instance->tensors[m->program->position[port->node->id]];
    char received[MST_NODE_TEXT], expected[MST_NODE_TEXT];
    if (same_shape(value, target)) return MUSTER_OK;
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s \"%.60s\": expected shape %s, received %s", kind, port->name, shape_print(value, expected),
                     shape_print(target, received));
}

/* The value is written where it belongs at once, or copied there by a last step. */
static muster_status target_add(making *m, const mst_graph_port *port, const muster_tensor *target, int32_t base, int32_t extra) {
    const int32_t at = m->program->position[port->node->id];
    mst_plan_value *value = &m->plan.values[at];
    if (value->base == MST_BASE_ARENA && muster_tensor_is_contiguous(*target) && muster_tensor_is_contiguous(m->instance->tensors[at]) &&
        !port->node->op->view) {
        m->plan.buffers[value->buffer].bytes = 0;
        const int32_t buffer = value->buffer;
        for (int32_t k = 0; k < m->program->count; k++) /* and the views of it */
            if (m->plan.values[k].base == MST_BASE_ARENA && m->plan.values[k].buffer == buffer)
                m->plan.values[k] = (mst_plan_value){.base = base, .buffer = -1};
        return MUSTER_OK;
    }
    const int32_t index = m->instance->step_count;
    mst_graph_program_step *step;
    MUSTER_TRY(step_begin(m, port->node, 0, 1, &step));
    step->copy_from = at;
    m->instance->tensors[extra] = *target;
    m->instance->tensors[extra].byte_offset = 0;
    m->plan.values[extra] = (mst_plan_value){.base = base, .buffer = -1};
    step->out[0] = &m->instance->tensors[extra];
    if (value->buffer >= 0) m->plan.buffers[value->buffer].last = index;
    return MUSTER_OK;
}

static muster_status targets_make(making *m) {
    const mst_graph_program *p = m->program;
    int32_t extra = p->count;
    for (int32_t o = 0; o < p->output_count; o++, extra++) {
        if (m->out[o].dtype == MUSTER_DTYPE_NONE) continue;
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

/* ---- the list of addresses ---- */

static int32_t value_count(const mst_graph_program *p) { return p->count + p->output_count + p->update_count; }

static int64_t value_offset(const making *m, int32_t at) {
    const int32_t buffer = m->plan.values[at].buffer;
    const int64_t within = m->instance->tensors[at].byte_offset;
    if (buffer < 0) return within;
    int32_t root = buffer;
    while (m->plan.buffers[root].shared >= 0) root = m->plan.buffers[root].shared;
    return m->plan.buffers[root].offset + within;
}

/* Sorted by base, by counting. */
static void places_make(making *m) {
    mst_instance *instance = m->instance;
    const int32_t bases = m->program->base_count, values = value_count(m->program);
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

static bool instance_memory(making *m) {
    const mst_graph_program *p = m->program;
    mst_arena *memory = &m->instance->memory;
    const size_t values = (size_t)value_count(p), bases = (size_t)p->base_count;
    int64_t *row_edges = NULL;
    if (p->distributed) {
        const mst_sharing *sharing = &p->ranks[m->rank].sharing;
        const size_t edges = (size_t)sharing->size + 1 + (sharing->shards_here ? (size_t)sharing->shards_here + 1 : 0);
        if (!(row_edges = mst_arena_take(memory, edges * sizeof *row_edges))) return false;
        memcpy(row_edges, sharing->row_edges, edges * sizeof *row_edges);
        m->instance->sharing = *sharing;
        m->instance->sharing.row_edges = row_edges;
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
    m->plan.values = mst_alloc((values + 1) * sizeof *m->plan.values);
    m->plan.buffers = mst_alloc((values + 1) * sizeof *m->plan.buffers);
    return m->instance->given && m->instance->targets && m->instance->tensors && m->instance->steps && m->instance->places &&
           m->instance->first_place && m->instance->addresses && (m->instance->dead || !p->checked) && m->needed && m->plan.values &&
           m->plan.buffers;
}

static muster_status group_prepare(const making *m, mst_graph_program_step *step) {
    const mst_graph_program *p = m->program;
    mst_arena *memory = &m->instance->memory;
    const int32_t number = (int32_t)(step->group - p->groups);
    MUSTER_TRY(mst_fused_launch_make(memory, p->fused, m->rank, number, step->group, step->in, step->out, &step->launch));
    return step->launch ? MUSTER_OK : mst_tile_make(memory, step->group, step->in, step->out, &step->tile);
}

/* A device must not allocate memory while a collective is in flight on it, so the scratch memory of
 * all steps is taken before the first: an exchange needs copies of its operand and of its result,
 * and so do other operations, which may compute in a wider dtype. */
static void scratch_find(making *m) {
    enum { COPIES = 2, SLACK = 4096 };
    mst_instance *instance = m->instance;
    if (!(m->program->exchanges || m->program->pass) || mst_device_is_host(m->program->graph->runtime->devices[m->rank])) return;
    for (int32_t s = 0; s < instance->step_count; s++) {
        const mst_graph_program_step *step = &instance->steps[s];
        int64_t bytes = SLACK;
        for (int32_t i = 0; i < step->in_count; i++)
            if (step->in[i]) bytes += COPIES * muster_tensor_bytes(*step->in[i]);
        for (int32_t r = 0; r < step->out_count; r++) bytes += COPIES * muster_tensor_bytes(*step->out[r]);
        if (bytes > instance->scratch_bytes) instance->scratch_bytes = bytes;
    }
    instance->exchanged = instance->scratch_bytes;
    for (int32_t u = 0; u < m->program->update_count; u++)
        if (m->program->graph->updates.items[u].pass == MST_PORT_GRADIENT) instance->exchanged += muster_tensor_bytes(m->updates[u]);
}

static muster_status instance_fill(making *m, const muster_tensor *given) {
    const mst_graph_program *p = m->program;
    mst_instance *instance = m->instance;
    MUSTER_TRY(bind_sizes(p, given, instance));
    for (int32_t i = 0; i < p->input_count + p->variable_count; i++) instance->given[i] = given[i];
    for (int32_t o = 0; o < p->output_count; o++) instance->targets[o] = m->out[o];
    for (int32_t u = 0; u < p->update_count; u++) instance->targets[p->output_count + u] = m->updates[u];
    for (int32_t at = 0; at < value_count(p); at++) m->plan.values[at] = (mst_plan_value){.base = MST_BASE_NONE, .buffer = -1};
    find_needed(m);
    for (int32_t at = 0; at < p->count; at++)
        if (m->needed[at] || mst_program_group(p, p->order[at]) >= 0) MUSTER_TRY(value_make(m, at, given));
    MUSTER_TRY(targets_make(m));
    for (int32_t i = 0; i < p->graph->scalars.count; i++) { /* until the end */
        const int32_t buffer = m->plan.values[p->position[p->graph->scalars.items[i].node->id]].buffer;
        if (buffer >= 0) m->plan.buffers[buffer].last = instance->step_count;
    }
    MUSTER_TRY(mst_plan_memory(&m->plan));
    places_make(m);
    for (int32_t s = 0; s < instance->step_count; s++) {
        mst_graph_program_step *step = &instance->steps[s];
        if (step->group) MUSTER_TRY(group_prepare(m, step));
    }
    scratch_find(m);
    return mst_pass_prepare(p, m->rank, instance);
}

muster_status mst_instance_make(const mst_graph_program *program, int32_t rank, const muster_tensor *given, const muster_tensor *out,
                                const muster_tensor *updates, mst_instance **instance) {
    making m = {.program = program, .rank = rank, .out = out, .updates = updates, .instance = mst_alloc(sizeof(mst_instance))};
    if (!m.instance) return making_failed();
    m.plan.program = program;
    m.plan.instance = m.instance;
    const muster_status status = instance_memory(&m) ? instance_fill(&m, given) : making_failed();
    mst_free(m.needed);
    mst_free(m.plan.values);
    mst_free(m.plan.buffers);
    if (status != MUSTER_OK) {
        mst_instance_free(m.instance);
        return status;
    }
    *instance = m.instance;
    return MUSTER_OK;
}

void mst_instance_free(mst_instance *instance) {
    if (!instance) return;
    for (int32_t s = 0; s < instance->step_count; s++)
        if (instance->steps[s].state) instance->steps[s].node->op->release(instance->steps[s].state);
    mst_arena_free(&instance->memory);
    mst_free(instance);
}
