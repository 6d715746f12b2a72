/* A network with its training step, for tests of how it is compiled: two layers, dropout, and an
 * operator of the program that works row by row. Everything is f64. */
#ifndef GRAPH_NETWORK_H
#define GRAPH_NETWORK_H

#include "graph_fixture.h"
#include "muster/rule.h"

enum { NETWORK_IN = 6, NETWORK_HIDDEN = 32, NETWORK_OUT = 3, NETWORK_ROWS = 512, NETWORK_PARAMETERS = 3 };

typedef struct network {
    muster_runtime *runtime;
    muster_variable *parameters[NETWORK_PARAMETERS];
    muster_function *function;
} network;

typedef struct network_results {
    double loss, y[NETWORK_ROWS * NETWORK_OUT], largest[NETWORK_OUT], parameters[NETWORK_PARAMETERS][NETWORK_IN * NETWORK_HIDDEN];
} network_results;

/* The application of the operator that fails, from 1, and how many there have been; 0: none fails,
 * and nothing is counted. */
extern int32_t network_fails_at, network_applied;
/* While the network is compiled: the allocation that fails; 0: none. */
extern int64_t network_memory_fails_at;

/* Opens a runtime, and compiles the network there. clip: the norm; 0: none. The status of
 * muster_graph_compile. */
muster_status network_open(network *net, const char *devices, muster_update_rule rule, double clip, const muster_graph_options *options);
/* A training step with so many rows, at most NETWORK_ROWS. */
muster_status network_call(const network *net, int64_t rows, network_results *r);
/* The parameters that the device of the rank has. */
void network_parameters(const network *net, int32_t rank, network_results *r);
/* The largest difference of two elements; NaN if one is NaN. */
double network_distance(const network_results *a, const network_results *b);

#endif
