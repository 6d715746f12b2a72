/* An instance while it is made: what the files that make it share. */
#ifndef MST_INSTANCE_PRIVATE_H
#define MST_INSTANCE_PRIVATE_H

#include "program_private.h"

typedef struct mst_making {
    const mst_graph_program *program;
    int32_t rank;
    mst_instance *instance;
    const muster_tensor *out, *updates;
    uint8_t *needed; /* by position: 0, or MST_USED, which an operation of another step makes MST_USED_OUTSIDE */
    mst_plan plan;
} mst_making;

enum { MST_USED = 1, MST_USED_OUTSIDE = 2 };

/* OUT_OF_MEMORY, with its message. */
muster_status mst_making_failed(void);
/* The values are those of the plan: the nodes' and, behind them, the outputs' and the updates'. */
static inline int32_t mst_value_count(const mst_graph_program *p) { return p->count + p->output_count + p->update_count; }

/* instance_sizes.c. The shape of a tensor as text. */
const char *mst_shape_print(const muster_tensor *t, char text[MST_NODE_TEXT]);
/* The named sizes, from the shapes of inputs and variables. Errors: SHAPE_MISMATCH. */
muster_status mst_instance_sizes(const mst_graph_program *program, const muster_tensor *given, mst_instance *instance);
/* The shape of the worker's own value of the node, without gaps. Errors: OVERFLOW. */
muster_status mst_instance_shape(const mst_making *m, const muster_expr *node, muster_tensor *tensor);

/* instance_steps.c. Does another worker compute the operand of a node that is placed there? */
bool mst_value_comes_from_elsewhere(const mst_making *m, const muster_expr *node);
/* The steps and the tensors of the value at a position. Errors: OUT_OF_MEMORY, OVERFLOW. */
muster_status mst_value_make(mst_making *m, int32_t at, const muster_tensor *given);
/* Values go to outputs and updates. Errors: SHAPE_MISMATCH, OUT_OF_MEMORY. */
muster_status mst_targets_make(mst_making *m);

#endif
