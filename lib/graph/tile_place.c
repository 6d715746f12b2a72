/* Where the values of a program lie, and how long: their registers, and the finished program. */
#include "tile_making_private.h"

#include <string.h>

/* ---- lifetimes ---- */

void mst_tile_lifetimes(mst_tile_making *m) {
    for (int32_t i = 0; i < m->each.count; i++) {
        const mst_tile_draft *instruction = &m->each.items[i];
        for (int32_t k = 0; k < instruction->operands; k++) {
            if (instruction->values[k] >= MST_TILE_VALUES) continue;
            mst_tile_value *v = &m->values[instruction->values[k]];
            if (v->made < 0) v->made = i;
            v->last = i;
        }
    }
}

uint32_t mst_tile_hazard_operands(const mst_tile_making *m, int32_t r) {
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

char *mst_tile_register_new(mst_tile_making *m, int64_t bytes) {
    char *memory = mst_arena_take(m->memory, (size_t)bytes + MST_CACHE_LINE);
    return memory ? memory + (MST_CACHE_LINE - (uintptr_t)memory % MST_CACHE_LINE) % MST_CACHE_LINE : NULL;
}

/* ---- registers ---- */

/* Gives the results of the shared instructions registers of their own. */
static muster_status shared_places(mst_tile_making *m) {
    for (int32_t i = 0; i < m->shared.count; i++) {
        const mst_tile_draft *instruction = &m->shared.items[i];
        mst_tile_value *made = &m->values[instruction->values[instruction->operands - 1]];
        char *memory = mst_tile_register_new(m, made->changes == MST_TILE_ONE ? made->size : MST_TILE_REGISTER);
        if (!memory) return mst_tile_out_of_memory();
        made->place = mst_tile_place_new(m, memory);
        made->kept = true;
    }
    return MUSTER_OK;
}

typedef struct free_registers {
    int32_t places[MST_TILE_VALUES];
    int32_t count;
} free_registers;

/* Puts the registers of the operands that this instruction uses last on the list. */
static void registers_release(const mst_tile_making *m, const mst_tile_draft *instruction, int32_t i, free_registers *list) {
    for (int32_t k = 0; k < instruction->operands - 1; k++) {
        if (instruction->values[k] >= MST_TILE_VALUES) continue;
        const mst_tile_value *v = &m->values[instruction->values[k]];
        bool twice = false;
        for (int32_t j = 0; j < k; j++) twice |= instruction->values[j] == instruction->values[k];
        if (!twice && v->last == i && !v->kept && v->changes == MST_TILE_EACH && v->place >= m->program->tensor_count)
            list->places[list->count++] = v->place;
    }
}

/* May the result have the register of an operand that ends here? The loops allow it where all
 * elements have the same size. */
static bool instruction_in_place(const mst_tile_making *m, const mst_tile_draft *instruction) {
    const int32_t made = instruction->values[instruction->operands - 1];
    bool fits = made < MST_TILE_VALUES;
    for (int32_t k = 0; k < instruction->operands - 1 && fits; k++)
        fits = instruction->values[k] < MST_TILE_VALUES && m->values[instruction->values[k]].size == m->values[made].size;
    return fits;
}

static muster_status each_places(mst_tile_making *m) {
    free_registers unused = {.count = 0};
    for (int32_t i = 0; i < m->each.count; i++) {
        const mst_tile_draft *instruction = &m->each.items[i];
        const int32_t made = instruction->values[instruction->operands - 1];
        const bool in_place = instruction_in_place(m, instruction);
        if (in_place) registers_release(m, instruction, i, &unused);
        if (made < MST_TILE_VALUES && m->values[made].place < 0) {
            if (!unused.count) {
                char *memory = mst_tile_register_new(m, MST_TILE_REGISTER);
                if (!memory) return mst_tile_out_of_memory();
                unused.places[unused.count++] = mst_tile_place_new(m, memory);
            }
            m->values[made].place = unused.places[--unused.count];
        }
        if (!in_place) registers_release(m, instruction, i, &unused);
    }
    return MUSTER_OK;
}

/* ---- the program ---- */

static void instructions_write(const mst_tile_making *m, const mst_tile_draft_list *list, mst_tile_instruction *to) {
    for (int32_t i = 0; i < list->count; i++) {
        const mst_tile_draft *from = &list->items[i];
        to[i] = (mst_tile_instruction){
            .run = from->run, .context = from->context, .operands = from->operands, .single = from->single, .hazard = from->hazard};
        for (int32_t k = 0; k < from->operands; k++) {
            to[i].places[k] = from->values[k] < MST_TILE_VALUES ? m->values[from->values[k]].place : from->values[k] - MST_TILE_VALUES;
            to[i].strides[k] = from->strides[k];
        }
    }
}

/* Do the shared instructions read the same for every line? */
static bool shared_is_constant(const mst_tile_making *m) {
    const mst_tile_program *p = m->program;
    bool constant = true;
    for (int32_t t = 0; t < p->operand_count; t++)
        for (int32_t d = 0; d < p->axis && p->strides[t][p->axis] == 0; d++) constant &= p->strides[t][d] == 0;
    return constant;
}

muster_status mst_tile_program_write(mst_tile_making *m) {
    mst_tile_program *p = m->program;
    MUSTER_TRY(shared_places(m));
    MUSTER_TRY(each_places(m));
    p->shared_count = m->shared.count;
    p->instruction_count = m->shared.count + m->each.count;
    p->instructions = mst_arena_take(m->memory, (size_t)p->instruction_count * sizeof *p->instructions);
    p->addresses = mst_arena_take(m->memory, (size_t)m->place_count * sizeof *p->addresses);
    if (!p->instructions || !p->addresses) return mst_tile_out_of_memory();
    memcpy(p->addresses, m->addresses, (size_t)m->place_count * sizeof *p->addresses);
    instructions_write(m, &m->shared, p->instructions);
    instructions_write(m, &m->each, p->instructions + p->shared_count);
    p->shared_once = shared_is_constant(m);
    return MUSTER_OK;
}
