/* network.h: the network of the parameter server's samples, as expressions (muster/graph.h). */
#ifndef NETWORK_H
#define NETWORK_H

#include <muster/muster.h>

enum { NETWORK_INPUTS = 784, NETWORK_HIDDEN = 128, NETWORK_CLASSES = 10, NETWORK_VALUES = 4 };

/* weight, bias, weight, bias */
extern const char *const network_names[NETWORK_VALUES];
extern const int32_t network_ndim[NETWORK_VALUES];
extern const int64_t network_shape[NETWORK_VALUES][2];

/* Both take images (rows, 784) and labels (rows), u8. A body runs `gradient` with
 * muster_worker_run. */
typedef struct network {
    muster_function *gradient; /* gives the sum of the losses, and the gradients of their mean */
    muster_function *correct;  /* gives the number of rows that are classified correctly */
} network;
enum { NETWORK_RESULTS = 1 + NETWORK_VALUES };

/* Compiles the network on these variables, which have the names, and the shapes, from above. */
muster_status network_compile(network *n, muster_runtime *runtime, muster_variable *const *parameters);

/* The first parameters of value `index`: He-uniform weights, biases 0. They depend on the seed
 * alone. */
void network_initial(int32_t index, uint64_t seed, float *values);
int64_t network_count(int32_t index);

#endif
