/* What is known of a program's steps beside their results: names for traces, times, and dumps. */
#ifndef MST_OBSERVE_PRIVATE_H
#define MST_OBSERVE_PRIVATE_H

#include "program_private.h"

/* observe.c. Names the steps for traces, if the runtime writes one or a profiler is attached.
 * Between mst_pool_enter and mst_pool_leave. Errors: OUT_OF_MEMORY. */
muster_status mst_graph_program_name_steps(mst_graph_program *program);
/* The name of a node in traces and dumps. */
static inline const char *mst_node_title(const muster_expr *node) { return node->name ? node->name : node->op->name; }
/* Around each step of a program that is observed. */
typedef struct mst_step_watch {
    uint64_t event, start;
} mst_step_watch;
mst_step_watch mst_step_begin(muster_worker *worker, const mst_graph_program *program, const mst_graph_program_step *step, int32_t index);
/* Errors: those of waiting for the device. */
muster_status mst_step_end(muster_worker *worker, const mst_graph_program *program, mst_graph_program_step *step, mst_step_watch watch);

#endif
