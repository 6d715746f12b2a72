/* Micro-batches: the rows of a worker in several parts, one after the other. A part of the program,
 * the loop, runs once for each; what is behind it needs the values of all rows. Only values that
 * leave the loop have memory for all rows. How workers share a value (distribution_private.h) says
 * how micro-batches do: values that are cut at the rows are computed for the rows of the
 * micro-batch, partial values are combined, and those that every worker has do not depend on it. */
#ifndef MST_MICRO_PRIVATE_H
#define MST_MICRO_PRIVATE_H

#include "../instance_private.h"

/* The loop of a program. */
struct mst_loop {
    int64_t micro_batches;
    /* The loop as a program of its own: the values that it takes are its inputs, those that leave
     * it its outputs. Its nodes are those of the graph; `graph` has other ports. */
    mst_graph graph;
    mst_graph_program *program;
    int32_t *combined; /* by position in the loop: the number of the output, which is a partial value; else -1 */
};

/* Is the value in parts at the rows, so that a micro-batch takes a part of it? */
static inline bool mst_value_has_slices(const muster_expr *node) {
    return node->distribution.kind == MST_CUT && mst_axis_has_rows(node->graph, &node->type, node->distribution.axis);
}

/* ---- loop_instance.c ---- */

/* The loop of an instance. */
struct mst_loop_run {
    const mst_graph_program *program; /* with the loop */
    int64_t rows, slices;             /* of the worker; slices: 1 or more */
    mst_instance *instances[2];       /* for micro-batches with floor(rows / slices) rows, and for those with one row more */
    muster_tensor *given, *out;       /* [inputs], [outputs] of the loop's program */
    /* By output: partial values of f16 and bf16 are summed in f32, in the block; -1: it is none. */
    int64_t *sum_offsets;
    muster_tensor *block; /* the memory of a micro-batch */
};
/* The rows from `begin` up to `end`, counted from the worker's first, of a value of the node in
 * this instance; the value itself, if it has no rows. */
muster_tensor mst_loop_slice(const mst_instance *instance, const muster_expr *node, const muster_tensor *value, int64_t begin, int64_t end);
/* row_edges[workers + 1]: as if the worker had these rows, and no other. */
void mst_loop_edges(const mst_instance *instance, int64_t begin, int64_t end, int64_t *row_edges);

#endif
