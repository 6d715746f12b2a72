/* Groups on CPU cores: how a group becomes a list of loops over tiles. A tile is a part of the
 * group's elements that is small enough for the cache next to the core; all instructions run on it
 * before the next one begins. */
#ifndef MST_TILE_PRIVATE_H
#define MST_TILE_PRIVATE_H

#include "fuse_private.h"
#include "op_impl.h"

enum {
    MST_TILE_BYTES = 4096, /* of the widest value of a tile */
    MST_TILE_ROW = 256,    /* shorter rows, in elements, are put together in one tile */
    MST_TILE_LOOP_OPERANDS = 4,
    MST_TILE_TENSORS = MST_GROUP_OPERANDS + MST_GROUP_RESULTS,
};

/* A place is an index into the program's table of addresses. First come the tensors, whose
 * addresses move from tile to tile, then registers and numbers, whose addresses stay. */
typedef struct mst_tile_instruction {
    mst_iterator_loop run;
    void *context;
    int32_t operands; /* the last one is written */
    bool single;      /* computes one element, whatever the size of the tile */
    int32_t hazard;   /* runs only if this result has the memory of an operand; -1: always */
    int32_t places[MST_TILE_LOOP_OPERANDS];
    int64_t strides[MST_TILE_LOOP_OPERANDS];
} mst_tile_instruction;

/* A result whose memory may be that of an operand which is read after the result is written. If it
 * is, the result is computed in a register, and stored at the end of the tile. */
typedef struct mst_tile_hazard {
    int32_t result, value; /* places: of the result's tensor; that the instructions use */
    char *kept;            /* the register */
    uint32_t operands;     /* a mask of the operands that could have its memory */
    bool now;              /* in this run */
} mst_tile_hazard;

/* The elements of a tile, as a strided operand has them; for loads and stores. */
typedef struct mst_tile_layout {
    int32_t axes;
    int64_t size;                                             /* of an element */
    int64_t inside;                                           /* elements for each index of the first axis */
    int64_t shape[MUSTER_MAX_DIMS], strides[MUSTER_MAX_DIMS]; /* of the first axis only the stride counts */
} mst_tile_layout;

struct mst_tile_program {
    int64_t count;      /* elements of the group */
    int32_t axis_count; /* the joined axes of the group */
    int32_t axis;       /* a tile has some indices of this axis, and all of those behind it */
    int64_t rows;       /* how many indices */
    int64_t inside;     /* elements for each of them */
    int64_t shape[MUSTER_MAX_DIMS];
    int64_t (*strides)[MUSTER_MAX_DIMS]; /* [tensor_count], in bytes */
    const muster_tensor **tensors;       /* [tensor_count]: operands, then results */
    int32_t tensor_count, operand_count;
    char **addresses; /* by place */
    /* The first ones compute what all tiles share that differ only in `axis`. */
    mst_tile_instruction *instructions;
    int32_t shared_count, instruction_count;
    bool shared_once; /* nothing that they read changes with the axes before `axis` */
    mst_tile_hazard *hazards;
    int32_t hazard_count;
};

/* tile_move.c: loops of one operand and one result. The context is a layout: of the operand, or of
 * the result; the other one is a register. */
void mst_tile_load(void *layout, char *const *at, const int64_t *stride, int64_t n);
void mst_tile_store(void *layout, char *const *at, const int64_t *stride, int64_t n);
/* One element, n times; the result may begin with it. The context is the element's size, as
 * mst_tile_size has it. */
void mst_tile_repeat(void *size, char *const *at, const int64_t *stride, int64_t n);
void *mst_tile_size(int64_t size);

#endif
