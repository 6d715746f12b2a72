/* Making expressions again with other operands, or by rules: one sweep over the nodes in the order
 * of their numbers, so that the operands of a node have been made again before it. */
#ifndef MST_REWRITE_PRIVATE_H
#define MST_REWRITE_PRIVATE_H

#include "graph_private.h"

/* An equivalent node, or NULL: the rule does not apply. The operands have been rewritten. */
typedef muster_expr *(*mst_rewrite_rule)(muster_expr *node, void *context);

typedef struct mst_rewrite {
    mst_graph *graph;
    int32_t count;          /* of nodes when the sweep begins */
    bool *used;             /* by id: what is to be made again; the operands of used nodes are used */
    muster_expr **replaced; /* by id: the node to take in place of this one; set before the sweep or by it */
    mst_rewrite_rule rule;  /* NULL: only operands change */
    void *context;
} mst_rewrite;

/* rewrite.c. Errors: OUT_OF_MEMORY, which the graph keeps. */
muster_status mst_rewrite_begin(mst_rewrite *rewrite, mst_graph *graph);
void mst_rewrite_use(mst_rewrite *rewrite, const muster_expr *root);
/* A rule is applied to a node, and to what came of it, until none applies; at most 8 times. What
 * replaces a node gets its places in the program, and its name if it has none. */
muster_status mst_rewrite_sweep(mst_rewrite *rewrite);
void mst_rewrite_end(mst_rewrite *rewrite);

/* stable.c. A form of the node whose numbers are closer to the true ones, such as log_softmax(x)
 * for log(softmax(x)); NULL: none is known. *x becomes the operand of the new form: the nodes
 * between the two are passed over. */
muster_expr *mst_stable_form(muster_expr *node, muster_expr **x);

/* simplify.c. The nodes that outputs and updates need become simpler ones, which compute the same
 * bits or closer numbers; `off`: they are as the program wrote them. Errors: OUT_OF_MEMORY. */
muster_status mst_graph_simplify(mst_graph *graph, bool off);
/* Replaces one node; NULL: it stays. */
muster_expr *mst_simplify_node(muster_expr *node, void *context);
/* simplify_parts.c. For a sum: of two parts of zeros that lie side by side, one part, put together
 * from both; -0 stays, to which the sum would add 0. For a reshape, of transposed values that are
 * put together: they are put together transposed, so that no copy follows. NULL: it stays. */
muster_expr *mst_sum_of_parts(muster_expr *node);
muster_expr *mst_transposed_parts(muster_expr *node);
/* The uniform value of a constant; false: the elements differ, or only a call knows them. */
bool mst_constant_value(const muster_expr *node, double *value);

#endif
