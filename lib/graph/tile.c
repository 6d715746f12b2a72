/* Running a group on a CPU core, tile by tile. */
#include "tile_private.h"

static inline void instruction_run(const mst_tile_program *p, const mst_tile_instruction *instruction, int64_t n) {
    char *at[MST_TILE_LOOP_OPERANDS];
    if (instruction->hazard >= 0 && !p->hazards[instruction->hazard].now) return;
    for (int32_t k = 0; k < instruction->operands; k++) at[k] = p->addresses[instruction->places[k]];
    instruction->run(instruction->context, at, instruction->strides, instruction->single ? 1 : n);
}

/* The instructions from `first` on. A result without a hazard is computed in its memory. */
static void instructions_run(const mst_tile_program *p, int32_t first, int32_t end, int64_t n) {
    for (int32_t h = 0; h < p->hazard_count; h++)
        p->addresses[p->hazards[h].value] = p->hazards[h].now ? p->hazards[h].kept : p->addresses[p->hazards[h].result];
    for (int32_t i = first; i < end; i++) instruction_run(p, &p->instructions[i], n);
}

static void addresses_move(const mst_tile_program *p, int32_t axis, int64_t steps) {
    for (int32_t t = 0; t < p->tensor_count; t++) p->addresses[t] += p->strides[t][axis] * steps;
}

/* All tiles that differ only in the index of p->axis. */
static void line_run(const mst_tile_program *p) {
    const int64_t rows = p->shape[p->axis];
    int64_t row = 0;
    while (row < rows) {
        const int64_t count = rows - row < p->rows ? rows - row : p->rows;
        instructions_run(p, p->shared_count, p->instruction_count, count * p->inside);
        addresses_move(p, p->axis, count);
        row += count;
    }
    addresses_move(p, p->axis, -rows);
}

static void addresses_begin(const mst_tile_program *p) {
    for (int32_t t = 0; t < p->tensor_count; t++) p->addresses[t] = muster_tensor_address(*p->tensors[t]);
    for (int32_t h = 0; h < p->hazard_count; h++) {
        mst_tile_hazard *hazard = &p->hazards[h];
        hazard->now = false;
        for (int32_t o = 0; o < p->operand_count; o++)
            if (hazard->operands >> o & 1) hazard->now |= p->addresses[o] == p->addresses[hazard->result];
    }
}

void mst_tile_run(const mst_tile_program *p) {
    int64_t index[MUSTER_MAX_DIMS] = {0};
    if (p->count == 0) return;
    addresses_begin(p);
    const int64_t most = p->shape[p->axis] < p->rows ? p->shape[p->axis] : p->rows;
    for (bool first = true;; first = false) {
        if (first || !p->shared_once) instructions_run(p, 0, p->shared_count, most * p->inside);
        line_run(p);
        int32_t d = p->axis - 1;
        while (d >= 0 && ++index[d] == p->shape[d]) {
            addresses_move(p, d, 1 - p->shape[d]);
            index[d--] = 0;
        }
        if (d < 0) return;
        addresses_move(p, d, 1);
    }
}

void mst_tile_run_first(mst_tile_program *p, int64_t count) {
    p->count = p->shape[p->axis] = count;
    mst_tile_run(p);
}
