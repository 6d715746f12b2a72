/* How a group becomes a program: tile_make.c writes the instructions on values, tile_pair.c joins
 * some of them, and tile_place.c gives the values their places. */
#ifndef MST_TILE_MAKING_PRIVATE_H
#define MST_TILE_MAKING_PRIVATE_H

#include "tile_private.h"

/* How much of a value changes from tile to tile. A line is the tiles that differ only in the index
 * of the program's axis. */
typedef enum mst_tile_variance {
    MST_TILE_ONE,    /* one element, which all tiles of a line share */
    MST_TILE_SHARED, /* a tile, which all tiles of a line share */
    MST_TILE_EACH,
} mst_tile_variance;

enum {
    MST_TILE_VALUES = 6 * MST_GROUP_MEMBERS,
    MST_TILE_INSTRUCTIONS = 6 * MST_GROUP_MEMBERS,
    MST_TILE_REGISTER = MST_TILE_BYTES + 2 * MST_CACHE_LINE, /* no power of 2: registers at the same offset share no cache sets */
};

typedef struct mst_tile_value {
    mst_tile_variance changes;
    int64_t size;       /* of an element */
    int32_t place;      /* -1: not given yet */
    int32_t made, last; /* the instructions that make it and that use it last, among those of each tile */
    bool kept;          /* its register serves no other value */
    bool wanted;        /* a result of the group */
    const void *number; /* a plain number: its element */
} mst_tile_value;

/* The operands are values, or MST_TILE_VALUES + a tensor. */
typedef struct mst_tile_draft {
    const muster_expr *node; /* the member that it computes; NULL: it is no member, or two of them */
    mst_iterator_loop run;
    void *context;
    int32_t operands, hazard;
    int32_t values[MST_TILE_LOOP_OPERANDS];
    int64_t strides[MST_TILE_LOOP_OPERANDS];
    bool single;
} mst_tile_draft;

typedef struct mst_tile_draft_list {
    mst_tile_draft items[MST_TILE_INSTRUCTIONS];
    int32_t count;
} mst_tile_draft_list;

typedef struct mst_tile_making {
    mst_arena *memory;
    const mst_fused_group *group;
    mst_tile_program *program;
    uint32_t needed, wanted;                       /* members; results */
    int32_t tensor_of_operand[MST_GROUP_OPERANDS]; /* -1: not needed */
    int32_t tensor_of_result[MST_GROUP_RESULTS];
    int32_t value_of[MST_GROUP_MEMBERS + MST_GROUP_OPERANDS]; /* by mst_group_find */
    mst_tile_value values[MST_TILE_VALUES];
    int32_t value_count, place_count;
    mst_tile_draft_list shared, each;
    char *addresses[MST_TILE_VALUES + MST_TILE_TENSORS];
} mst_tile_making;

static inline muster_status mst_tile_out_of_memory(void) { return mst_out_of_memory("muster_function_call", MST_TILE_REGISTER); }

/* tile_axes.c. The axes of the group, and which of them a tile has. The tensors are known. */
void mst_tile_axes_make(mst_tile_making *making);

/* tile_make.c. Is a tile of the tensor a contiguous block? */
bool mst_tile_is_contiguous(const mst_tile_program *program, int32_t tensor);
int32_t mst_tile_value_new(mst_tile_making *making, mst_tile_variance changes, int64_t size);
int32_t mst_tile_place_new(mst_tile_making *making, char *address);
/* Appends an instruction that makes or stores values of this variance. */
mst_tile_draft *mst_tile_instruction_new(mst_tile_making *making, mst_tile_variance changes, mst_iterator_loop run, void *context);
/* Appends an operand to an instruction. */
void mst_tile_instruction_operand(mst_tile_draft *instruction, int32_t from, int64_t stride);
void mst_tile_instruction_value(mst_tile_making *making, mst_tile_draft *instruction, int32_t value);
/* *tile becomes a whole tile of a value that is one element; other values stay. Errors:
 * OUT_OF_MEMORY. */
muster_status mst_tile_value_repeated(mst_tile_making *making, int32_t value, int32_t *tile);

/* tile_pair.c. Joins pairs of instructions that have one loop together. Errors: OUT_OF_MEMORY. */
muster_status mst_tile_pair(mst_tile_making *making);

/* tile_place.c. The first and the last instruction of each value. */
void mst_tile_lifetimes(mst_tile_making *making);
/* The operands that are read after the result is made, and may have its memory. */
uint32_t mst_tile_hazard_operands(const mst_tile_making *making, int32_t result);
/* A block of memory on cache lines of its own; NULL: out of memory. */
char *mst_tile_register_new(mst_tile_making *making, int64_t bytes);
/* Gives each value its place, and writes the finished program. Errors: OUT_OF_MEMORY. */
muster_status mst_tile_program_write(mst_tile_making *making);

#endif
