/* Compiled graphs that run inside the bodies of other functions: what the suites of them share. */
#ifndef GRAPH_INSIDE_H
#define GRAPH_INSIDE_H

#include "graph_fixture.h"
#include "muster/operator.h"

enum { ROWS = 64, K = 5, M = 4, MACHINES = 5, MOST_DEVICES = 3, INSIDE_OUTPUTS = 4 };
extern const char *const inside_machines[MACHINES];

/* Small integers, and quarters and eighths, whose sums are exact. */
void inside_fill(float x[ROWS][K], float w[K][M], float b[M]);
muster_graph *inside_graph(muster_runtime *runtime, const char *name);
/* Compiles, and destroys the graph. */
muster_function *inside_compile_with(muster_graph *graph, muster_graph_options options);
muster_graph_options inside_per_worker(void);
/* With MUSTER_PER_WORKER. */
muster_function *inside_compile(muster_graph *graph);
/* The input "x" (rows, columns). */
muster_expr *inside_rows(muster_graph *graph, int64_t columns);
/* A function "outer" with the input "x". */
muster_function *inside_outer(muster_runtime *runtime, muster_body body, void *user);
muster_variable *inside_variable(muster_runtime *runtime, const char *name, muster_tensor value);
/* A layer, its loss, a gradient, and dropout. */
muster_function *inside_layer(muster_runtime *runtime, muster_variable *weights, muster_variable *bias, muster_graph_options options);
/* A body: the layer, which is `user`. */
muster_status inside_run_whole(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user);
/* An operator with one operand. */
void inside_operator(muster_runtime *runtime, const char *name, muster_operator_body body, void *user);
/* A body: the function at *user gives the output from the input. */
muster_status inside_run_one(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user);

#endif
