/* Joining pairs of instructions: two cheap operations, of which the second alone uses the value of
 * the first, have one loop. */
#include "tile_making_private.h"

static int32_t made_by(const mst_tile_draft *instruction) { return instruction->values[instruction->operands - 1]; }

/* The only instruction that reads the value, or NULL. */
static mst_tile_draft *only_use(mst_tile_making *m, int32_t value) {
    mst_tile_draft *found = NULL;
    for (int32_t i = 0; i < m->each.count; i++) {
        mst_tile_draft *instruction = &m->each.items[i];
        for (int32_t k = 0; k < instruction->operands - 1; k++) {
            if (instruction->values[k] != value) continue;
            if (found) return NULL;
            found = instruction;
        }
    }
    return found;
}

static mst_iterator_loop pair_loop(const mst_tile_draft *first, const mst_tile_draft *second) {
    const mst_operator *a = first->node->op, *b = second->node->op;
    const bool swapped = second->values[0] != made_by(first);
    return mst_op_pair(first->node->type.dtype, a->elementwise, a->operation, b->elementwise, b->operation, swapped);
}

/* Would an operand that is one element have to be repeated for each tile? That takes as long as the
 * pair saves. */
static bool pair_repeats(const mst_tile_making *m, const mst_tile_draft *instruction) {
    const mst_tile_program *p = m->program;
    for (int32_t k = 0; k < instruction->operands - 1; k++) {
        const mst_tile_value *value = &m->values[instruction->values[k]];
        const bool one = value->changes == MST_TILE_ONE && !value->number;
        if (one && p->shape[p->axis] * p->inside * value->size <= MST_TILE_BYTES) return true;
    }
    return false;
}

/* The loops of pairs take whole tiles only. */
static muster_status pair_operand(mst_tile_making *m, mst_tile_draft *pair, int32_t value) {
    int32_t tile;
    MUSTER_TRY(mst_tile_value_repeated(m, value, &tile));
    mst_tile_instruction_value(m, pair, tile);
    return MUSTER_OK;
}

/* The second instruction becomes the pair; the first one computes nothing any more. */
static muster_status pair_make(mst_tile_making *m, mst_tile_draft *first, mst_tile_draft *second, mst_iterator_loop run) {
    mst_tile_draft pair = {.run = run, .hazard = -1};
    for (int32_t k = 0; k < first->operands - 1; k++) MUSTER_TRY(pair_operand(m, &pair, first->values[k]));
    for (int32_t k = 0; k < second->operands - 1; k++)
        if (second->values[k] != made_by(first)) MUSTER_TRY(pair_operand(m, &pair, second->values[k]));
    mst_tile_instruction_value(m, &pair, made_by(second));
    *second = pair;
    first->run = NULL;
    return MUSTER_OK;
}

muster_status mst_tile_pair(mst_tile_making *m) {
    int32_t kept = 0;
    for (int32_t i = 0; i < m->each.count; i++) {
        mst_tile_draft *first = &m->each.items[i];
        if (!first->node || m->values[made_by(first)].wanted) continue;
        mst_tile_draft *second = only_use(m, made_by(first));
        const mst_iterator_loop run = second && second->node ? pair_loop(first, second) : NULL;
        if (run && !pair_repeats(m, first) && !pair_repeats(m, second)) MUSTER_TRY(pair_make(m, first, second, run));
    }
    for (int32_t i = 0; i < m->each.count; i++)
        if (m->each.items[i].run) m->each.items[kept++] = m->each.items[i];
    m->each.count = kept;
    return MUSTER_OK;
}
