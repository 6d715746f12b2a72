/* Fused groups made by hand: every elementwise operation in every dtype that it takes. */
#ifndef GRAPH_GROUPS_H
#define GRAPH_GROUPS_H

#include "fuse_private.h"
#include "graph_fixture.h"

enum { ROW_GROUPS_MAX = 160 };
/* A row is an operation with the dtype of its operand; a conversion counts once for each pair of
 * dtypes. The groups hold 8 rows each, all of them results; some take the row before as an operand,
 * some a number. */
typedef struct row_groups {
    muster_graph *graph;
    mst_fused_group groups[ROW_GROUPS_MAX];
    int32_t count, rows;
} row_groups;
void row_groups_make(muster_runtime *runtime, row_groups *made);

/* The dtypes of operands for which the elementwise operator is a node of its own: + of truth values
 * is logical_or, and / of integers a quotient in f64. */
uint32_t group_dtypes(const mst_operator *op);
/* Adds the node, and those of its operands that are neither numbers nor members. */
void group_add_member(mst_fused_group *group, muster_expr *node, bool result);

#endif
