/* The step of the loop in an instance, and the instances of the loop itself: one for micro-batches
 * with floor(rows / slices) rows, and one for those with one row more. */
#include "micro_private.h"
#include "variable_impl.h"

enum { BLOCK_ALIGNMENT = 64 };

static int64_t aligned(int64_t bytes) { return (bytes + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT * BLOCK_ALIGNMENT; }

muster_tensor mst_loop_slice(const mst_instance *instance, const muster_expr *node, const muster_tensor *value, int64_t begin,
                             int64_t end) {
    if (!mst_value_has_slices(node)) return *value;
    muster_tensor made = *value;
    const int32_t axis = node->distribution.axis;
    const int64_t rows = instance->sharing.rows, size = mst_dim_value(node->graph, node->type.dims[axis], instance->sizes);
    const int64_t each = rows > 0 ? size / rows : 0;
    made.byte_offset += begin * each * made.strides[axis] * (int64_t)muster_dtype_size(made.dtype);
    made.shape[axis] = (end - begin) * each;
    return made;
}

void mst_loop_edges(const mst_instance *instance, int64_t begin, int64_t end, int64_t *row_edges) {
    const mst_sharing *sharing = &instance->sharing;
    const int64_t first = sharing->row_edges[sharing->rank];
    for (int32_t r = 0; r <= sharing->size; r++) row_edges[r] = first + (r <= sharing->rank ? begin : end);
}

/* What the instances of the loop are made for, and where the sums of small dtypes lie. */
static muster_status run_fill(mst_making *m, const mst_graph_program_step *step, struct mst_loop_run *run) {
    const struct mst_loop *loop = m->program->loop;
    const mst_graph_program *inner = loop->program;
    mst_sharing sharing = m->instance->sharing;
    int64_t *row_edges = mst_arena_take(&m->instance->memory, (size_t)(sharing.size + 1) * sizeof *row_edges);
    if (!row_edges) return mst_making_failed();
    sharing.row_edges = row_edges;
    run->program = m->program;
    run->rows = m->instance->sharing.row_edges[sharing.rank + 1] - m->instance->sharing.row_edges[sharing.rank];
    run->slices = run->rows < loop->micro_batches ? run->rows : loop->micro_batches;
    if (run->slices < 1) run->slices = 1;
    for (int32_t i = 0; i < 2; i++) {
        const int64_t rows = run->rows / run->slices + i;
        if (i && run->rows % run->slices == 0) break;
        for (int32_t g = 0; g < inner->input_count; g++)
            run->given[g] = mst_loop_slice(m->instance, loop->graph.inputs.items[g].node, step->in[g], 0, rows);
        for (int32_t o = 0; o < inner->output_count; o++) {
            run->out[o] = mst_loop_slice(m->instance, loop->graph.outputs.items[o].node, step->out[o], 0, rows);
            if (run->sum_offsets[o] >= 0) run->out[o].dtype = mst_dtype_compute(run->out[o].dtype);
        }
        mst_loop_edges(m->instance, 0, rows, row_edges);
        MUSTER_TRY(
            mst_instance_make_loop(inner, m->rank, &sharing, m->instance->sizes, m->loop_limit, run->given, run->out, &run->instances[i]));
    }
    return MUSTER_OK;
}

static muster_status run_make(mst_making *m, mst_graph_program_step *step, int64_t *bytes) {
    const mst_graph_program *inner = m->program->loop->program;
    mst_arena *memory = &m->instance->memory;
    struct mst_loop_run *run = mst_arena_take(memory, sizeof *run);
    if (!run) return mst_making_failed();
    step->loop = run;
    run->given = mst_arena_take(memory, (size_t)(inner->input_count + 1) * sizeof *run->given);
    run->out = mst_arena_take(memory, (size_t)(inner->output_count + 1) * sizeof *run->out);
    run->sum_offsets = mst_arena_take(memory, (size_t)(inner->output_count + 1) * sizeof *run->sum_offsets);
    if (!run->given || !run->out || !run->sum_offsets) return mst_making_failed();
    for (int32_t o = 0; o < inner->output_count; o++) {
        const muster_dtype dtype = step->out[o]->dtype;
        const bool combined = inner->graph->outputs.items[o].node->distribution.kind == MST_PARTIAL && dtype != MUSTER_DTYPE_NONE;
        run->sum_offsets[o] = combined && mst_dtype_compute(dtype) != dtype ? 0 : -1;
    }
    MUSTER_TRY(run_fill(m, step, run));
    *bytes = 1;
    for (int32_t i = 0; i < 2; i++)
        if (run->instances[i] && run->instances[i]->arena_bytes > *bytes) *bytes = run->instances[i]->arena_bytes;
    for (int32_t o = 0; o < inner->output_count; o++) {
        if (run->sum_offsets[o] < 0) continue;
        run->sum_offsets[o] = aligned(*bytes);
        *bytes = run->sum_offsets[o] + muster_tensor_bytes(run->out[o]);
    }
    return MUSTER_OK;
}

muster_status mst_loop_add(mst_making *m) {
    const mst_graph_program *p = m->program, *inner = p->loop->program;
    const int32_t index = m->instance->step_count, block = mst_value_count(p) - 1;
    mst_graph_program_step *step;
    bool wanted = false;
    int64_t bytes;
    for (int32_t o = 0; o < inner->output_count; o++) wanted = wanted || m->leaves[p->position[inner->graph->outputs.items[o].node->id]];
    if (!wanted) return MUSTER_OK;
    MUSTER_TRY(mst_step_begin_at(m, inner->graph->outputs.items[0].node, inner->input_count, inner->output_count + 1, &step));
    for (int32_t i = 0; i < inner->input_count; i++) {
        const muster_expr *node = inner->graph->inputs.items[i].node;
        step->in[i] = &m->instance->none;
        if (m->needed[p->position[node->id]]) mst_step_operand(m, step, i, node, index);
    }
    for (int32_t o = 0; o < inner->output_count; o++) {
        const int32_t at = p->position[inner->graph->outputs.items[o].node->id];
        if (!m->leaves[at]) continue;
        MUSTER_TRY(mst_instance_shape(m, p->order[at], &m->instance->tensors[at]));
        mst_step_result(m, step, o, at, index);
    }
    MUSTER_TRY(run_make(m, step, &bytes));
    m->instance->tensors[block] = muster_tensor_make(MUSTER_U8, NULL, 1, &bytes);
    mst_step_result(m, step, inner->output_count, block, index);
    step->loop->block = &m->instance->tensors[block];
    return MUSTER_OK;
}

static muster_status combined_add(mst_making *m, int32_t at) {
    const mst_graph_program *p = m->program;
    const int32_t o = p->combined[at], index = m->instance->step_count, extra = p->count + o;
    mst_graph_program_step *step;
    if (o < 0 || m->out[o].dtype == MUSTER_DTYPE_NONE) return MUSTER_OK;
    MUSTER_TRY(mst_step_begin_at(m, p->order[at], 0, 1, &step));
    step->copy_from = at;
    step->combines = p->order[at]->distribution.op;
    m->instance->tensors[extra] = m->out[o];
    m->instance->tensors[extra].byte_offset = 0;
    m->plan.values[extra] = (mst_plan_value){.base = mst_base_output(p, o), .buffer = -1};
    step->out[0] = &m->instance->tensors[extra];
    if (m->plan.values[at].buffer >= 0) m->plan.buffers[m->plan.values[at].buffer].last = index;
    return MUSTER_OK;
}

/* The step of a group stands where its last member does. */
muster_status mst_combined_add(mst_making *m, int32_t at) {
    const mst_graph_program *p = m->program;
    const int32_t number = mst_program_group(p, p->order[at]);
    if (number < 0) return combined_add(m, at);
    const mst_fused_group *group = &p->groups[number];
    if (p->order[at] != group->members[group->member_count - 1]) return MUSTER_OK;
    for (int32_t i = 0; i < group->member_count; i++) MUSTER_TRY(combined_add(m, p->position[group->members[i]->id]));
    return MUSTER_OK;
}

int64_t mst_loop_scratch_bytes(const struct mst_loop_run *run) {
    int64_t bytes = 0;
    for (int32_t i = 0; i < 2; i++)
        if (run->instances[i] && run->instances[i]->scratch_bytes > bytes) bytes = run->instances[i]->scratch_bytes;
    return bytes;
}

int64_t mst_loop_block_bytes(const struct mst_loop_run *run) { return run->block->shape[0]; }

int32_t mst_loop_repeated_steps(const struct mst_loop_run *run) {
    const mst_instance *larger = run->instances[run->instances[1] != NULL];
    return larger->repeated_steps;
}

void mst_loop_run_free(struct mst_loop_run *run) {
    if (!run) return;
    for (int32_t i = 0; i < 2; i++) mst_instance_free(run->instances[i]);
}
