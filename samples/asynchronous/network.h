/* network.h: the network of the parameter server's samples, in worker operations. It takes its
 * memory once for a whole training: scratch memory stays until the body returns, so a body that
 * runs for long must not request more in each step. */
#ifndef NETWORK_H
#define NETWORK_H

#include <muster/muster.h>

enum { NETWORK_INPUTS = 784, NETWORK_HIDDEN = 128, NETWORK_CLASSES = 10, NETWORK_VALUES = 4 };

/* weight, bias, weight, bias */
extern const int32_t network_ndim[NETWORK_VALUES];
extern const int64_t network_shape[NETWORK_VALUES][2];

typedef struct network {
    muster_tensor pixels, hidden, hidden_gradient, logits; /* one row for each row of a batch */
    muster_tensor gradients[NETWORK_VALUES];
    muster_tensor loss, correct;
} network;

/* Takes scratch memory for batches of `rows` rows. */
muster_status network_open(network *n, muster_worker *w, int64_t rows);
/* Writes the gradient of the mean loss over images (rows, 784) and labels (rows) into n->gradients,
 * and the sum of the losses into n->loss. */
muster_status network_gradient(network *n, muster_worker *w, const muster_tensor *parameters, muster_tensor images, muster_tensor labels);
/* correct (i64, a scalar) = the number of rows that are classified correctly. */
muster_status network_correct(network *n, muster_worker *w, const muster_tensor *parameters, muster_tensor images, muster_tensor labels,
                              muster_tensor correct);

/* The first parameters of value `index`: He-uniform weights, biases 0. They depend on the seed
 * alone. */
void network_initial(int32_t index, uint64_t seed, float *values);
int64_t network_count(int32_t index);

#endif
