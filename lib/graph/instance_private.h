/* An instance while it is made: what the files that make it share. */
#ifndef MST_INSTANCE_PRIVATE_H
#define MST_INSTANCE_PRIVATE_H

#include "program_private.h"

typedef struct mst_making {
    const mst_graph_program *program;
    int32_t rank;
    mst_instance *instance;
    const muster_tensor *out, *updates;
    const mst_sharing *sharing; /* of a distributed program */
    const int64_t *sizes;       /* of a loop; NULL: the inputs' shapes say them */
    int64_t limit, loop_limit;  /* of the block, and of that of a micro-batch, in bytes; 0: none */
    int32_t value_count;        /* of the plan, with those that are made again */
    int32_t *until;             /* by step: behind it, no worker reads what the step reads to make its values again; NULL: it is the step */
    uint8_t *needed;            /* by position: 0, or MST_USED, which an operation of another step makes MST_USED_OUTSIDE */
    bool *leaves; /* by position, of a program with a loop: all rows of the value are needed behind the loop, or are an output */
    mst_plan plan;
} mst_making;

enum { MST_USED = 1, MST_USED_OUTSIDE = 2 };

/* OUT_OF_MEMORY, with its message. */
muster_status mst_making_failed(void);
/* The values are those of the plan: the nodes' and, behind them, the outputs', the updates', and
 * the block of a loop. */
static inline int32_t mst_value_count(const mst_graph_program *p) {
    return p->count + p->output_count + p->update_count + (p->loop != NULL);
}

/* instance.c. The numbers that the rules of a pass need stay until the end. */
void mst_scalars_stay(mst_making *m);
/* recompute/recompute.c. The plan is that of all steps: if it needs more than the limit, steps that
 * make values again are added, and memory is planned anew. Errors: OUT_OF_MEMORY, OVERFLOW. */
muster_status mst_recompute(mst_making *m);

/* instance_sizes.c. The shape of a tensor as text. by_rows: axis 0 has the worker's part of the
 * rows of a call; the text has all of them, as the caller knows the tensor. */
const char *mst_shape_print(const mst_making *m, const muster_tensor *t, bool by_rows, char text[MST_NODE_TEXT]);
/* The named sizes, from the shapes of inputs and variables. Errors: SHAPE_MISMATCH. */
muster_status mst_instance_sizes(const mst_making *m, const muster_tensor *given);
/* The shape of the worker's own value of the node, without gaps. Errors: OVERFLOW. */
muster_status mst_instance_shape(const mst_making *m, const muster_expr *node, muster_tensor *tensor);

/* instance_steps.c. Does another worker compute the operand of a node that is placed there? */
bool mst_value_comes_from_elsewhere(const mst_making *m, const muster_expr *node);
/* The steps and the tensors of the value at a position. Errors: OUT_OF_MEMORY, OVERFLOW. */
muster_status mst_value_make(mst_making *m, int32_t at, const muster_tensor *given);
/* A step with so many operands and results, which are "no tensor" at first. Errors:
 * OUT_OF_MEMORY. */
muster_status mst_step_begin_at(mst_making *m, const muster_expr *node, int32_t operands, int32_t results, mst_graph_program_step **step);
/* Operand i of step `index` is the value of this node; result r is made at this position. */
void mst_step_operand(mst_making *m, mst_graph_program_step *step, int32_t i, const muster_expr *operand, int32_t index);
void mst_step_result(mst_making *m, mst_graph_program_step *step, int32_t r, int32_t at, int32_t index);
/* Values go to outputs and updates. Errors: SHAPE_MISMATCH, OUT_OF_MEMORY. */
muster_status mst_targets_make(mst_making *m);

/* micro/loop_instance.c. The step of the loop over micro-batches. Errors: as mst_instance_make. */
muster_status mst_loop_add(mst_making *m);
/* In the program of a loop: adds the steps that combine the partial values made up to this position
 * with those of earlier micro-batches. Only values that leave the loop need that. */
muster_status mst_combined_add(mst_making *m, int32_t at);
/* The scratch memory that steps of the loop may take. */
int64_t mst_loop_scratch_bytes(const struct mst_loop_run *run);
/* The memory of a micro-batch, and how many of its steps make values again. */
int64_t mst_loop_block_bytes(const struct mst_loop_run *run);
int32_t mst_loop_repeated_steps(const struct mst_loop_run *run);

#endif
