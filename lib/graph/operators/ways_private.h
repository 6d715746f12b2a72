/* How operators compute distributed results: what the functions mst_operator.distribute share. */
#ifndef MST_WAYS_PRIVATE_H
#define MST_WAYS_PRIVATE_H

#include "graph_private.h"

/* Does the axis have the factor `rows`? */
bool mst_axis_has_rows(const mst_graph *graph, const mst_type *type, int32_t axis);
/* Operands that broadcast to the shape of the result: a cut result from operands cut along the same
 * axis; those without the axis are whole. */
bool mst_distribute_elementwise(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands);
/* The same for a sum of operands: partial sums are the partial sums of the results, too. */
bool mst_distribute_sum(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands);
/* The same for a result that is proportional to operand `linear` alone: operand 1 divides, say. */
bool mst_distribute_scaled(const muster_expr *node, mst_distribution result, int32_t linear, mst_distribution *operands);
/* A product of two operands, of which one may be partial sums. */
bool mst_distribute_product(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands);
/* A result without operands: any axis but those of the mask may be cut. */
bool mst_distribute_leaf(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands);
/* Every operand has the distribution of the result, whose elements along the axes of the mask it
 * mixes. Partial values are combined after the operation as well as before it. */
bool mst_distribute_alike(const muster_expr *node, mst_distribution result, uint32_t mixed, mst_distribution *operands);
/* Operations along the last axis: any other one may be cut. */
bool mst_distribute_along_last(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands);
/* The result has the axes of operand 0 in another order: axis d is axis axes[d] of the operand. */
bool mst_distribute_moved(const muster_expr *node, mst_distribution result, const int64_t *axes, mst_distribution *operands);

/* The distribution of a `result`, of an operation whose first result is in `first`. */
mst_distribution mst_distribution_of_result(const muster_expr *node, mst_distribution first);
/* The first place of the worker's part of the result along the axis; 0 where the worker has all. */
int64_t mst_part_begin(const mst_step_run *run, int32_t axis);

#endif
