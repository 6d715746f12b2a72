/* Making the program of a group: the axes, the instructions, and the registers. */
#include "tile_private.h"

#include <string.h>

/* How much of a value changes from tile to tile. */
typedef enum variance {
    CONSTANT_ELEMENT, /* one element, which all tiles of a line share; a line is the tiles that differ only in `axis` */
    CONSTANT_TILE,    /* a tile, which all tiles of a line share */
    EACH_TILE,
} variance;

enum {
    VALUES = 4 * MST_GROUP_MEMBERS,
    INSTRUCTIONS = 4 * MST_GROUP_MEMBERS,
    REGISTER_SPACE = MST_TILE_BYTES + 2 * MST_CACHE_LINE, /* not a power of 2, so that registers do not share cache sets */
};

typedef struct value {
    variance changes;
    int64_t size;       /* of an element */
    int32_t place;      /* -1: not given yet */
    int32_t made, last; /* the instructions that make it and that use it last, among those of each tile */
    bool kept;          /* its register serves no other value */
} value;

/* The operands are values, or VALUES + a tensor. */
typedef struct draft_instruction {
    mst_iterator_loop run;
    void *context;
    int32_t operands, hazard;
    int32_t values[MST_TILE_LOOP_OPERANDS];
    int64_t strides[MST_TILE_LOOP_OPERANDS];
    bool single, in_place; /* in_place: the result may have the register of an operand */
} draft_instruction;

typedef struct draft_list {
    draft_instruction items[INSTRUCTIONS];
    int32_t count;
} draft_list;

typedef struct making {
    mst_arena *memory;
    const mst_fused_group *group;
    mst_tile_program *program;
    uint32_t needed, wanted;                       /* members; results */
    int32_t tensor_of_operand[MST_GROUP_OPERANDS]; /* -1: not needed */
    int32_t tensor_of_result[MST_GROUP_RESULTS];
    int32_t value_of[MST_GROUP_MEMBERS + MST_GROUP_OPERANDS]; /* by mst_group_find */
    value values[VALUES];
    int32_t value_count, place_count;
    draft_list shared, each;
    char *addresses[VALUES + MST_TILE_TENSORS];
} making;

static muster_status making_failed(void) { return mst_out_of_memory("muster_function_call", REGISTER_SPACE); }

/* ---- what is needed ---- */

static bool result_wanted(const making *m, int32_t r) { return (m->wanted >> r & 1) != 0; }

static void find_needed(making *m, muster_tensor *const *out) {
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

/* ---- axes ---- */

static muster_status tensors_make(making *m, const muster_tensor *const *in, muster_tensor *const *out) {
    mst_tile_program *p = m->program;
    p->tensors = mst_arena_take(m->memory, MST_TILE_TENSORS * sizeof *p->tensors);
    p->strides = mst_arena_take(m->memory, MST_TILE_TENSORS * sizeof *p->strides);
    if (!p->tensors || !p->strides) return making_failed();
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

/* The axis along which tiles follow each other, and the size of a tile. */
static void axes_make(making *m) {
    mst_tile_program *p = m->program;
    const muster_tensor *shape = p->tensors[p->operand_count];
    int64_t widest = 1;
    for (int32_t i = 0; i < m->group->member_count; i++) {
        const int64_t size = muster_dtype_size(m->group->members[i]->type.dtype);
        if ((m->needed >> i & 1) && size > widest) widest = size;
    }
    for (int32_t t = 0; t < p->operand_count; t++)
        if (muster_dtype_size(p->tensors[t]->dtype) > widest) widest = muster_dtype_size(p->tensors[t]->dtype);
    const int64_t most = MST_TILE_BYTES / widest;
    p->count = muster_tensor_count(*shape);
    p->axis_count = mst_iterator_join(shape->ndim, shape->shape, p->tensor_count, p->tensors, p->shape, p->strides);
    p->axis = p->axis_count - 1;
    p->inside = 1;
    while (p->axis > 0 && p->shape[p->axis] * p->inside <= MST_TILE_ROW) p->inside *= p->shape[p->axis--];
    p->rows = p->inside ? most / p->inside : 0;
}

/* How the elements of a tile lie in a tensor. */
static bool tile_is_single(const mst_tile_program *p, int32_t t) {
    bool single = true;
    for (int32_t d = p->axis; d < p->axis_count; d++) single &= p->strides[t][d] == 0;
    return single;
}
static bool tile_is_contiguous(const mst_tile_program *p, int32_t t) {
    int64_t stride = muster_dtype_size(p->tensors[t]->dtype);
    bool contiguous = true;
    for (int32_t d = p->axis_count - 1; d >= p->axis; stride *= p->shape[d--]) contiguous &= p->strides[t][d] == stride;
    return contiguous;
}

/* ---- values and instructions ---- */

static int32_t value_new(making *m, variance changes, int64_t size) {
    m->values[m->value_count] = (value){.changes = changes, .size = size, .place = -1, .made = -1, .last = -1};
    return m->value_count++;
}

static int32_t place_new(making *m, char *address) {
    m->addresses[m->place_count] = address;
    return m->place_count++;
}

/* Appends an instruction that makes or stores values of this variance. */
static draft_instruction *instruction_new(making *m, variance changes, mst_iterator_loop run, void *context) {
    draft_list *list = changes == EACH_TILE ? &m->each : &m->shared;
    draft_instruction *instruction = &list->items[list->count++];
    *instruction = (draft_instruction){.run = run, .context = context, .hazard = -1, .single = changes == CONSTANT_ELEMENT};
    return instruction;
}

static void instruction_operand(draft_instruction *instruction, int32_t from, int64_t stride) {
    instruction->strides[instruction->operands] = stride;
    instruction->values[instruction->operands++] = from;
}

static void instruction_value(making *m, draft_instruction *instruction, int32_t v) {
    const bool repeats = m->values[v].changes == CONSTANT_ELEMENT && !instruction->single;
    instruction_operand(instruction, v, repeats ? 0 : m->values[v].size);
}

static mst_tile_layout *layout_make(making *m, int32_t t) {
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
static muster_status operand_value(making *m, int32_t i, int32_t *v) {
    const mst_tile_program *p = m->program;
    const int32_t t = m->tensor_of_operand[i];
    const int64_t size = muster_dtype_size(p->tensors[t]->dtype);
    const bool single = tile_is_single(p, t);
    int32_t *known = &m->value_of[MST_GROUP_MEMBERS + i];
    if (*known < 0) {
        const bool repeats = single || p->strides[t][p->axis] == 0;
        *known = value_new(m, single ? CONSTANT_ELEMENT : repeats ? CONSTANT_TILE : EACH_TILE, size);
        if (single || tile_is_contiguous(p, t))
            m->values[*known].place = t;
        else {
            mst_tile_layout *layout = layout_make(m, t);
            if (!layout) return making_failed();
            draft_instruction *load = instruction_new(m, m->values[*known].changes, mst_tile_load, layout);
            instruction_operand(load, VALUES + t, 0);
            instruction_operand(load, *known, size);
        }
    }
    *v = *known;
    return MUSTER_OK;
}

static muster_status number_value(making *m, const muster_expr *number, int32_t *v) {
    uint64_t *element = mst_arena_take(m->memory, sizeof *element);
    if (!element) return making_failed();
    mst_convert(number->type.dtype, element, MUSTER_F64, &number->values[1].number, 1);
    *v = value_new(m, CONSTANT_ELEMENT, muster_dtype_size(number->type.dtype));
    m->values[*v].place = place_new(m, (char *)element);
    return MUSTER_OK;
}

static muster_status input_value(making *m, const muster_expr *node, int32_t k, int32_t *v) {
    if (mst_node_is_number(node->inputs[k])) return number_value(m, node->inputs[k], v);
    const int32_t found = mst_group_find(m->group, node->inputs[k]);
    if (found >= MST_GROUP_MEMBERS) return operand_value(m, found - MST_GROUP_MEMBERS, v);
    *v = m->value_of[found];
    return MUSTER_OK;
}

static muster_status loop_of(making *m, const muster_expr *node, mst_op_loop **loop) {
    const mst_op_row *row = node->op->elementwise;
    muster_dtype dtypes[MST_OPERANDS];
    mst_op_value attributes[MST_ATTRIBUTES] = {{.integer = node->op->operation}};
    for (int32_t k = 0; k < node->input_count; k++) dtypes[k] = node->inputs[k]->type.dtype;
    dtypes[node->input_count] = node->type.dtype;
    for (int32_t a = 0; row->attributes[a].name; a++)
        if (row->attributes[a].kind == MST_NUMBER) attributes[a].number = node->values[a].number;
    *loop = mst_arena_take(m->memory, sizeof **loop);
    return *loop ? row->loop(dtypes, attributes, *loop) : making_failed();
}

static muster_status member_value(making *m, int32_t i) {
    const muster_expr *node = m->group->members[i];
    int32_t inputs[MST_TILE_LOOP_OPERANDS];
    variance changes = CONSTANT_ELEMENT;
    mst_op_loop *loop;
    MUSTER_TRY(loop_of(m, node, &loop));
    for (int32_t k = 0; k < node->input_count; k++) {
        MUSTER_TRY(input_value(m, node, k, &inputs[k]));
        if (m->values[inputs[k]].changes > changes) changes = m->values[inputs[k]].changes;
    }
    m->value_of[i] = value_new(m, changes, muster_dtype_size(node->type.dtype));
    draft_instruction *instruction = instruction_new(m, changes, loop->run, loop->context);
    for (int32_t k = 0; k < node->input_count; k++) instruction_value(m, instruction, inputs[k]);
    instruction_value(m, instruction, m->value_of[i]);
    instruction->in_place = node->op->elementwise != &mst_operation_copy; /* which reads ahead */
    return MUSTER_OK;
}

/* ---- results ---- */

/* A whole tile of a value that is one element. The size must stay where it is. */
static int32_t value_repeated(making *m, int32_t v, int64_t *size) {
    if (m->values[v].changes != CONSTANT_ELEMENT) return v;
    const int32_t tile = value_new(m, CONSTANT_TILE, m->values[v].size);
    draft_instruction *copy = instruction_new(m, CONSTANT_TILE, mst_copy_elements, size);
    instruction_value(m, copy, v);
    instruction_value(m, copy, tile);
    return tile;
}

/* Is the result computed in its own memory? */
static bool result_is_direct(const making *m, int32_t r) {
    return m->values[m->value_of[m->group->results[r]]].changes == EACH_TILE && tile_is_contiguous(m->program, m->tensor_of_result[r]);
}

static muster_status result_store(making *m, int32_t r, int32_t hazard) {
    const int32_t t = m->tensor_of_result[r];
    mst_tile_layout *layout = layout_make(m, t);
    if (!layout) return making_failed();
    const int32_t v = value_repeated(m, m->value_of[m->group->results[r]], &layout->size);
    const bool contiguous = tile_is_contiguous(m->program, t);
    draft_instruction *store = contiguous ? instruction_new(m, EACH_TILE, mst_copy_elements, &layout->size)
                                          : instruction_new(m, EACH_TILE, mst_tile_store, layout);
    instruction_value(m, store, v);
    instruction_operand(store, VALUES + t, layout->size);
    store->hazard = hazard;
    return MUSTER_OK;
}

/* ---- lifetimes ---- */

static void lifetimes_find(making *m) {
    for (int32_t i = 0; i < m->each.count; i++) {
        const draft_instruction *instruction = &m->each.items[i];
        for (int32_t k = 0; k < instruction->operands; k++) {
            if (instruction->values[k] >= VALUES) continue;
            value *v = &m->values[instruction->values[k]];
            if (v->made < 0) v->made = i;
            v->last = i;
        }
    }
}

/* The operands that are read after the result is made, and may have its memory. */
static uint32_t hazard_operands(const making *m, int32_t r) {
    const mst_tile_program *p = m->program;
    const int32_t t = m->tensor_of_result[r], made = m->values[m->value_of[m->group->results[r]]].made;
    uint32_t operands = 0;
    for (int32_t i = 0; i < m->group->operand_count; i++) {
        const int32_t o = m->tensor_of_operand[i];
        if (o < 0 || m->values[m->value_of[MST_GROUP_MEMBERS + i]].last <= made || p->tensors[o]->dtype != p->tensors[t]->dtype) continue;
        if (memcmp(p->strides[o], p->strides[t], (size_t)p->axis_count * sizeof **p->strides) == 0) operands |= 1u << o;
    }
    return operands;
}

static char *register_new(making *m, int64_t bytes) {
    char *memory = mst_arena_take(m->memory, (size_t)bytes + MST_CACHE_LINE);
    return memory ? memory + (MST_CACHE_LINE - (uintptr_t)memory % MST_CACHE_LINE) % MST_CACHE_LINE : NULL;
}

static muster_status result_place(making *m, int32_t r) {
    mst_tile_program *p = m->program;
    value *v = &m->values[m->value_of[m->group->results[r]]];
    const uint32_t operands = hazard_operands(m, r);
    v->place = m->tensor_of_result[r];
    if (!operands) return MUSTER_OK;
    char *kept = register_new(m, REGISTER_SPACE);
    if (!kept) return making_failed();
    v->place = place_new(m, NULL);
    v->kept = true;
    p->hazards[p->hazard_count] =
        (mst_tile_hazard){.result = m->tensor_of_result[r], .value = v->place, .kept = kept, .operands = operands};
    return result_store(m, r, p->hazard_count++);
}

static muster_status results_make(making *m) {
    m->program->hazards = mst_arena_take(m->memory, MST_GROUP_RESULTS * sizeof *m->program->hazards);
    if (!m->program->hazards) return making_failed();
    lifetimes_find(m);
    for (int32_t r = 0; r < m->group->result_count; r++)
        if (result_wanted(m, r)) MUSTER_TRY(result_is_direct(m, r) ? result_place(m, r) : result_store(m, r, -1));
    for (int32_t i = 0; i < m->value_count; i++) m->values[i].made = m->values[i].last = -1;
    lifetimes_find(m);
    return MUSTER_OK;
}

/* ---- registers ---- */

/* Gives the results of the shared instructions registers of their own. */
static muster_status shared_places(making *m) {
    for (int32_t i = 0; i < m->shared.count; i++) {
        const draft_instruction *instruction = &m->shared.items[i];
        value *made = &m->values[instruction->values[instruction->operands - 1]];
        char *memory = register_new(m, made->changes == CONSTANT_ELEMENT ? made->size : REGISTER_SPACE);
        if (!memory) return making_failed();
        made->place = place_new(m, memory);
        made->kept = true;
    }
    return MUSTER_OK;
}

typedef struct free_registers {
    int32_t places[VALUES];
    int32_t count;
} free_registers;

/* Puts the registers of the operands that this instruction uses last on the list. */
static void registers_release(const making *m, const draft_instruction *instruction, int32_t i, free_registers *list) {
    for (int32_t k = 0; k < instruction->operands - 1; k++) {
        if (instruction->values[k] >= VALUES) continue;
        const value *v = &m->values[instruction->values[k]];
        bool twice = false;
        for (int32_t j = 0; j < k; j++) twice |= instruction->values[j] == instruction->values[k];
        if (!twice && v->last == i && !v->kept && v->changes == EACH_TILE && v->place >= m->program->tensor_count)
            list->places[list->count++] = v->place;
    }
}

/* May the result have the register of an operand that ends here? */
static bool instruction_in_place(const making *m, const draft_instruction *instruction) {
    const int64_t size = m->values[instruction->values[instruction->operands - 1]].size;
    bool fits = instruction->in_place;
    for (int32_t k = 0; k < instruction->operands - 1; k++)
        fits = fits && instruction->values[k] < VALUES && m->values[instruction->values[k]].size == size;
    return fits;
}

static muster_status each_places(making *m) {
    free_registers unused = {.count = 0};
    for (int32_t i = 0; i < m->each.count; i++) {
        const draft_instruction *instruction = &m->each.items[i];
        const int32_t made = instruction->values[instruction->operands - 1];
        const bool in_place = instruction_in_place(m, instruction);
        if (in_place) registers_release(m, instruction, i, &unused);
        if (made < VALUES && m->values[made].place < 0) {
            if (!unused.count) {
                char *memory = register_new(m, REGISTER_SPACE);
                if (!memory) return making_failed();
                unused.places[unused.count++] = place_new(m, memory);
            }
            m->values[made].place = unused.places[--unused.count];
        }
        if (!in_place) registers_release(m, instruction, i, &unused);
    }
    return MUSTER_OK;
}

/* ---- all of it ---- */

static void instructions_write(const making *m, const draft_list *list, mst_tile_instruction *to) {
    for (int32_t i = 0; i < list->count; i++) {
        const draft_instruction *from = &list->items[i];
        to[i] = (mst_tile_instruction){
            .run = from->run, .context = from->context, .operands = from->operands, .single = from->single, .hazard = from->hazard};
        for (int32_t k = 0; k < from->operands; k++) {
            to[i].places[k] = from->values[k] < VALUES ? m->values[from->values[k]].place : from->values[k] - VALUES;
            to[i].strides[k] = from->strides[k];
        }
    }
}

/* Do the shared instructions read the same for every line? */
static bool shared_is_constant(const making *m) {
    const mst_tile_program *p = m->program;
    bool constant = true;
    for (int32_t t = 0; t < p->operand_count; t++)
        for (int32_t d = 0; d < p->axis && p->strides[t][p->axis] == 0; d++) constant &= p->strides[t][d] == 0;
    return constant;
}

static muster_status program_write(making *m) {
    mst_tile_program *p = m->program;
    p->shared_count = m->shared.count;
    p->instruction_count = m->shared.count + m->each.count;
    p->instructions = mst_arena_take(m->memory, (size_t)p->instruction_count * sizeof *p->instructions);
    p->addresses = mst_arena_take(m->memory, (size_t)m->place_count * sizeof *p->addresses);
    if (!p->instructions || !p->addresses) return making_failed();
    memcpy(p->addresses, m->addresses, (size_t)m->place_count * sizeof *p->addresses);
    instructions_write(m, &m->shared, p->instructions);
    instructions_write(m, &m->each, p->instructions + p->shared_count);
    p->shared_once = shared_is_constant(m);
    return MUSTER_OK;
}

static muster_status program_fill(making *m, const muster_tensor *const *in, muster_tensor *const *out) {
    find_needed(m, out);
    if (!m->wanted) return MUSTER_OK;
    MUSTER_TRY(tensors_make(m, in, out));
    axes_make(m);
    m->place_count = m->program->tensor_count;
    for (int32_t i = 0; i < m->group->member_count; i++)
        if (m->needed >> i & 1) MUSTER_TRY(member_value(m, i));
    MUSTER_TRY(results_make(m));
    MUSTER_TRY(shared_places(m));
    MUSTER_TRY(each_places(m));
    return program_write(m);
}

muster_status mst_tile_make(mst_arena *memory, const mst_fused_group *group, const muster_tensor *const *in, muster_tensor *const *out,
                            mst_tile_program **program) {
    making *m = mst_alloc(sizeof *m);
    *program = mst_arena_take(memory, sizeof **program);
    if (!m || !*program) {
        mst_free(m);
        return making_failed();
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
