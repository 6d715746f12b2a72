/* Making the program of a group: the axes, the values, and the instructions. */
#include "tile_making_private.h"

#include <string.h>

/* ---- what is needed ---- */

static bool result_wanted(const mst_tile_making *m, int32_t r) { return (m->wanted >> r & 1) != 0; }

static void find_needed(mst_tile_making *m, muster_tensor *const *out) {
    const mst_fused_group *group = m->group;
    for (int32_t r = 0; r < group->result_count; r++) {
        if (out[r]->dtype == MUSTER_DTYPE_NONE) continue;
        m->wanted |= 1u << r;
        m->needed |= 1u << group->results[r];
    }
    for (int32_t i = group->member_count - 1; i >= 0; i--) {
        const muster_expr *node = group->members[i];
        for (int32_t k = 0; (m->needed >> i & 1) && k < node->input_count; k++) {
            if (mst_node_is_number(node->inputs[k])) continue;
            const int32_t found = mst_group_find(group, node->inputs[k]);
            if (found < MST_GROUP_MEMBERS)
                m->needed |= 1u << found;
            else
                m->tensor_of_operand[found - MST_GROUP_MEMBERS] = 0;
        }
    }
}

/* ---- tensors ---- */

static muster_status tensors_make(mst_tile_making *m, const muster_tensor *const *in, muster_tensor *const *out) {
    mst_tile_program *p = m->program;
    p->tensors = mst_arena_take(m->memory, MST_TILE_TENSORS * sizeof *p->tensors);
    p->strides = mst_arena_take(m->memory, MST_TILE_TENSORS * sizeof *p->strides);
    if (!p->tensors || !p->strides) return mst_tile_out_of_memory();
    for (int32_t i = 0; i < m->group->operand_count; i++) {
        if (m->tensor_of_operand[i] < 0) continue;
        m->tensor_of_operand[i] = p->tensor_count;
        p->tensors[p->tensor_count++] = in[i];
    }
    p->operand_count = p->tensor_count;
    for (int32_t r = 0; r < m->group->result_count; r++) {
        m->tensor_of_result[r] = p->tensor_count;
        if (result_wanted(m, r)) p->tensors[p->tensor_count++] = out[r];
    }
    return MUSTER_OK;
}

/* How the elements of a tile lie in a tensor. */
static bool tile_is_single(const mst_tile_program *p, int32_t t) {
    bool single = true;
    for (int32_t d = p->axis; d < p->axis_count; d++) single &= p->strides[t][d] == 0;
    return single;
}
bool mst_tile_is_contiguous(const mst_tile_program *p, int32_t t) {
    int64_t stride = muster_dtype_size(p->tensors[t]->dtype);
    bool contiguous = true;
    for (int32_t d = p->axis_count - 1; d >= p->axis; stride *= p->shape[d--]) contiguous &= p->strides[t][d] == stride;
    return contiguous;
}

/* ---- values and instructions ---- */

int32_t mst_tile_value_new(mst_tile_making *m, mst_tile_variance changes, int64_t size) {
    m->values[m->value_count] = (mst_tile_value){.changes = changes, .size = size, .place = -1, .made = -1, .last = -1};
    return m->value_count++;
}

int32_t mst_tile_place_new(mst_tile_making *m, char *address) {
    m->addresses[m->place_count] = address;
    return m->place_count++;
}

mst_tile_draft *mst_tile_instruction_new(mst_tile_making *m, mst_tile_variance changes, mst_iterator_loop run, void *context) {
    mst_tile_draft_list *list = changes == MST_TILE_EACH ? &m->each : &m->shared;
    mst_tile_draft *instruction = &list->items[list->count++];
    *instruction = (mst_tile_draft){.run = run, .context = context, .hazard = -1, .single = changes == MST_TILE_ONE};
    return instruction;
}

void mst_tile_instruction_operand(mst_tile_draft *instruction, int32_t from, int64_t stride) {
    instruction->strides[instruction->operands] = stride;
    instruction->values[instruction->operands++] = from;
}

void mst_tile_instruction_value(mst_tile_making *m, mst_tile_draft *instruction, int32_t v) {
    const bool repeats = m->values[v].changes == MST_TILE_ONE && !instruction->single;
    mst_tile_instruction_operand(instruction, v, repeats ? 0 : m->values[v].size);
}

static mst_tile_layout *layout_make(mst_tile_making *m, int32_t t) {
    const mst_tile_program *p = m->program;
    mst_tile_layout *layout = mst_arena_take(m->memory, sizeof *layout);
    if (!layout) return NULL;
    layout->axes = p->axis_count - p->axis;
    layout->size = muster_dtype_size(p->tensors[t]->dtype);
    layout->inside = p->inside;
    for (int32_t d = 0; d < layout->axes; d++) {
        layout->shape[d] = p->shape[p->axis + d];
        layout->strides[d] = p->strides[t][p->axis + d];
    }
    return layout;
}

/* The value of an operand: its own memory, or a register that it is loaded into. */
static muster_status operand_value(mst_tile_making *m, int32_t i, int32_t *v) {
    const mst_tile_program *p = m->program;
    const int32_t t = m->tensor_of_operand[i];
    const int64_t size = muster_dtype_size(p->tensors[t]->dtype);
    const bool single = tile_is_single(p, t);
    int32_t *known = &m->value_of[MST_GROUP_MEMBERS + i];
    if (*known < 0) {
        const bool repeats = single || p->strides[t][p->axis] == 0;
        *known = mst_tile_value_new(m, single ? MST_TILE_ONE : repeats ? MST_TILE_SHARED : MST_TILE_EACH, size);
        if (single || mst_tile_is_contiguous(p, t))
            m->values[*known].place = t;
        else {
            mst_tile_layout *layout = layout_make(m, t);
            if (!layout) return mst_tile_out_of_memory();
            mst_tile_draft *load = mst_tile_instruction_new(m, m->values[*known].changes, mst_tile_load, layout);
            mst_tile_instruction_operand(load, MST_TILE_VALUES + t, 0);
            mst_tile_instruction_operand(load, *known, size);
        }
    }
    *v = *known;
    return MUSTER_OK;
}

static muster_status number_value(mst_tile_making *m, const muster_expr *number, int32_t *v) {
    uint64_t *element = mst_arena_take(m->memory, sizeof *element);
    if (!element) return mst_tile_out_of_memory();
    mst_convert(number->type.dtype, element, MUSTER_F64, &number->values[1].number, 1);
    *v = mst_tile_value_new(m, MST_TILE_ONE, muster_dtype_size(number->type.dtype));
    m->values[*v].place = mst_tile_place_new(m, (char *)element);
    m->values[*v].number = element;
    return MUSTER_OK;
}

static muster_status input_value(mst_tile_making *m, const muster_expr *node, int32_t k, int32_t *v) {
    if (mst_node_is_number(node->inputs[k])) return number_value(m, node->inputs[k], v);
    const int32_t found = mst_group_find(m->group, node->inputs[k]);
    if (found >= MST_GROUP_MEMBERS) return operand_value(m, found - MST_GROUP_MEMBERS, v);
    *v = m->value_of[found];
    return MUSTER_OK;
}

static muster_status loop_of(mst_tile_making *m, const muster_expr *node, mst_op_loop **loop) {
    const mst_op_row *row = node->op->elementwise;
    muster_dtype dtypes[MST_OPERANDS];
    mst_op_value attributes[MST_ATTRIBUTES] = {{.integer = node->op->operation}};
    for (int32_t k = 0; k < node->input_count; k++) dtypes[k] = node->inputs[k]->type.dtype;
    dtypes[node->input_count] = node->type.dtype;
    for (int32_t a = 0; row->attributes[a].name; a++)
        if (row->attributes[a].kind == MST_NUMBER) attributes[a].number = node->values[a].number;
    *loop = mst_arena_take(m->memory, sizeof **loop);
    return *loop ? row->loop(dtypes, attributes, *loop) : mst_tile_out_of_memory();
}

static muster_status member_value(mst_tile_making *m, int32_t i) {
    const muster_expr *node = m->group->members[i];
    int32_t inputs[MST_TILE_LOOP_OPERANDS];
    mst_tile_variance changes = MST_TILE_ONE;
    mst_op_loop *loop;
    MUSTER_TRY(loop_of(m, node, &loop));
    for (int32_t k = 0; k < node->input_count; k++) {
        MUSTER_TRY(input_value(m, node, k, &inputs[k]));
        if (m->values[inputs[k]].changes > changes) changes = m->values[inputs[k]].changes;
    }
    m->value_of[i] = mst_tile_value_new(m, changes, muster_dtype_size(node->type.dtype));
    mst_tile_draft *instruction = mst_tile_instruction_new(m, changes, loop->run, loop->context);
    for (int32_t k = 0; k < node->input_count; k++) mst_tile_instruction_value(m, instruction, inputs[k]);
    mst_tile_instruction_value(m, instruction, m->value_of[i]);
    instruction->node = node;
    return MUSTER_OK;
}

/* ---- results ---- */

muster_status mst_tile_value_repeated(mst_tile_making *m, int32_t v, int32_t *tile) {
    const int64_t size = m->values[v].size;
    char *memory;
    *tile = v;
    if (m->values[v].changes != MST_TILE_ONE) return MUSTER_OK;
    *tile = mst_tile_value_new(m, MST_TILE_SHARED, size);
    if (!m->values[v].number) { /* each run has another one */
        mst_tile_draft *repeat = mst_tile_instruction_new(m, MST_TILE_SHARED, mst_tile_repeat, mst_tile_size(size));
        mst_tile_instruction_value(m, repeat, v);
        mst_tile_instruction_value(m, repeat, *tile);
        return MUSTER_OK;
    }
    memory = mst_tile_register_new(m, MST_TILE_REGISTER);
    if (!memory) return mst_tile_out_of_memory();
    memcpy(memory, m->values[v].number, (size_t)size);
    mst_tile_repeat(mst_tile_size(size), (char *[]){memory, memory}, NULL, MST_TILE_BYTES / size);
    m->values[*tile].place = mst_tile_place_new(m, memory);
    return MUSTER_OK;
}

/* Is the result computed in its own memory? */
static bool result_is_direct(const mst_tile_making *m, int32_t r) {
    return m->values[m->value_of[m->group->results[r]]].changes == MST_TILE_EACH &&
           mst_tile_is_contiguous(m->program, m->tensor_of_result[r]);
}

static muster_status result_store(mst_tile_making *m, int32_t r, int32_t hazard) {
    const int32_t t = m->tensor_of_result[r];
    mst_tile_layout *layout = layout_make(m, t);
    if (!layout) return mst_tile_out_of_memory();
    int32_t v;
    MUSTER_TRY(mst_tile_value_repeated(m, m->value_of[m->group->results[r]], &v));
    const bool contiguous = mst_tile_is_contiguous(m->program, t);
    mst_tile_draft *store = contiguous ? mst_tile_instruction_new(m, MST_TILE_EACH, mst_copy_elements, &layout->size)
                                       : mst_tile_instruction_new(m, MST_TILE_EACH, mst_tile_store, layout);
    mst_tile_instruction_value(m, store, v);
    mst_tile_instruction_operand(store, MST_TILE_VALUES + t, layout->size);
    store->hazard = hazard;
    return MUSTER_OK;
}

static muster_status result_place(mst_tile_making *m, int32_t r) {
    mst_tile_program *p = m->program;
    mst_tile_value *v = &m->values[m->value_of[m->group->results[r]]];
    const uint32_t operands = mst_tile_hazard_operands(m, r);
    v->place = m->tensor_of_result[r];
    if (!operands) return MUSTER_OK;
    char *kept = mst_tile_register_new(m, MST_TILE_REGISTER);
    if (!kept) return mst_tile_out_of_memory();
    v->place = mst_tile_place_new(m, NULL);
    v->kept = true;
    p->hazards[p->hazard_count] =
        (mst_tile_hazard){.result = m->tensor_of_result[r], .value = v->place, .kept = kept, .operands = operands};
    return result_store(m, r, p->hazard_count++);
}

static muster_status results_make(mst_tile_making *m) {
    m->program->hazards = mst_arena_take(m->memory, MST_GROUP_RESULTS * sizeof *m->program->hazards);
    if (!m->program->hazards) return mst_tile_out_of_memory();
    mst_tile_lifetimes(m);
    for (int32_t r = 0; r < m->group->result_count; r++)
        if (result_wanted(m, r)) MUSTER_TRY(result_is_direct(m, r) ? result_place(m, r) : result_store(m, r, -1));
    for (int32_t i = 0; i < m->value_count; i++) m->values[i].made = m->values[i].last = -1;
    mst_tile_lifetimes(m);
    return MUSTER_OK;
}

/* ---- all of it ---- */

static muster_status program_fill(mst_tile_making *m, const muster_tensor *const *in, muster_tensor *const *out) {
    find_needed(m, out);
    if (!m->wanted) return MUSTER_OK;
    MUSTER_TRY(tensors_make(m, in, out));
    mst_tile_axes_make(m);
    m->place_count = m->program->tensor_count;
    for (int32_t i = 0; i < m->group->member_count; i++)
        if (m->needed >> i & 1) MUSTER_TRY(member_value(m, i));
    for (int32_t r = 0; r < m->group->result_count; r++)
        if (result_wanted(m, r)) m->values[m->value_of[m->group->results[r]]].wanted = true;
    MUSTER_TRY(mst_tile_pair(m));
    MUSTER_TRY(results_make(m));
    return mst_tile_program_write(m);
}

muster_status mst_tile_make(mst_arena *memory, const mst_fused_group *group, const muster_tensor *const *in, muster_tensor *const *out,
                            mst_tile_program **program) {
    mst_tile_making *m = mst_alloc(sizeof *m);
    *program = mst_arena_take(memory, sizeof **program);
    if (!m || !*program) {
        mst_free(m);
        return mst_tile_out_of_memory();
    }
    m->memory = memory;
    m->group = group;
    m->program = *program;
    for (int32_t i = 0; i < MST_GROUP_OPERANDS; i++) m->tensor_of_operand[i] = -1;
    for (int32_t i = 0; i < MST_GROUP_MEMBERS + MST_GROUP_OPERANDS; i++) m->value_of[i] = -1;
    const muster_status status = program_fill(m, in, out);
    mst_free(m);
    return status;
}
