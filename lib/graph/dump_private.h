/* Dumps of graphs and of compiled functions: what the files of dump.c share. */
#ifndef MST_DUMP_PRIVATE_H
#define MST_DUMP_PRIVATE_H

#include "observe_private.h"

#include <stdio.h>

typedef struct mst_dump {
    FILE *file;
    const mst_graph *graph;
    const mst_graph_program *program; /* NULL: the graph as it was written */
    const mst_instance *instance;     /* of the master's latest call; NULL: there was none */
    bool dot;
    bool *used;       /* by id */
    int32_t *steps;   /* by position: the step that computes it, -1: none; NULL without an instance */
    int32_t *again;   /* by position: the step that computes it again, or -1 */
    int32_t *bases;   /* by position: the base that holds it, or MST_BASE_NONE */
    int64_t *offsets; /* by position: from the base, in bytes */
} mst_dump;

/* ---- dump_line.c ---- */

/* In DOT, within quotes. */
void mst_dump_text(const mst_dump *d, const char *text);
/* Is it a number, which stands where it is used? */
bool mst_dump_is_inline(const muster_expr *node);
/* A number, or the name of a node, such as %7. */
void mst_dump_operand(const mst_dump *d, const muster_expr *node);
/* The bytes that each worker receives where the value of the node is brought to the distribution,
 * on average. Of a dump with an instance. */
double mst_dump_received(const mst_dump *d, const muster_expr *node, mst_distribution to);
/* The line of a node; in DOT also the lines from its operands. */
void mst_dump_node(const mst_dump *d, const muster_expr *node);

#endif
