/* Groups: elementwise operations that one step computes together, part by part, so that the values
 * between them never go to memory. */
#ifndef MST_FUSE_PRIVATE_H
#define MST_FUSE_PRIVATE_H

#include "graph_private.h"

enum { MST_GROUP_MEMBERS = 32, MST_GROUP_OPERANDS = 12, MST_GROUP_RESULTS = 8 };

/* The members are elementwise nodes of one shape, to which every operand broadcasts. A member's
 * operand is a plain number (mst_node_is_number), an earlier member, or an operand of the group.
 * The dtypes may differ. */
typedef struct mst_fused_group {
    muster_expr *members[MST_GROUP_MEMBERS];
    muster_expr *operands[MST_GROUP_OPERANDS];
    int32_t results[MST_GROUP_RESULTS]; /* the members that are needed outside of the group, ascending */
    int32_t member_count, operand_count, result_count;
} mst_fused_group;

/* The index of a member, or MST_GROUP_MEMBERS + the index of an operand, or -1. */
static inline int32_t mst_group_find(const mst_fused_group *group, const muster_expr *node) {
    for (int32_t i = 0; i < group->member_count; i++)
        if (group->members[i] == node) return i;
    for (int32_t i = 0; i < group->operand_count; i++)
        if (group->operands[i] == node) return MST_GROUP_MEMBERS + i;
    return -1;
}

/* ---- tile.c: a group on CPU cores ---- */

/* The loops of a group, for operands and results of certain shapes and strides. */
typedef struct mst_tile_program mst_tile_program;
/* in[i] is operand i, out[r] result r; a result "no tensor" is not wanted, and what only it needs
 * is not computed: an operand that only that has may be "no tensor". A result may have the memory
 * of an operand, if both have the same dtype and strides. The tensors are kept: each run reads
 * their addresses. All memory comes from the arena. Errors: OUT_OF_MEMORY. */
muster_status mst_tile_make(mst_arena *memory, const mst_fused_group *group, const muster_tensor *const *in, muster_tensor *const *out,
                            mst_tile_program **program);
void mst_tile_run(const mst_tile_program *program);
/* The same for a group over vectors without gaps: their first `count` elements, at most as many as
 * it was made for. */
void mst_tile_run_first(mst_tile_program *program, int64_t count);

#endif
