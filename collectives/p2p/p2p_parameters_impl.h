/* The parameters of the kernels between peers. Both the host's and the device's compiler read this
 * file. */
#ifndef MST_P2P_PARAMETERS_IMPL_H
#define MST_P2P_PARAMETERS_IMPL_H

#include <stdint.h>

enum { MST_P2P_INPUTS = 64, MST_P2P_OUTPUTS = 64 };

/* The kernel combines elements [0, count) of the inputs in their order, rounds each step in the
 * compute dtype, and writes the result to every output. */
typedef struct mst_p2p_reduce_parameters {
    int64_t count;
    double scale;       /* for an average: 1 / number of inputs */
    double alpha, beta; /* for an update */
    void *parameter;    /* in an update the output is parameter + alpha * sum; NULL: the output is the combined value */
    /* With momentum: velocity = beta * velocity + alpha * sum, and the output is parameter +
     * velocity. NULL: no momentum. */
    void *velocity;
    int32_t dtype, op; /* muster_dtype, muster_reduction */
    int32_t inputs, outputs;
    void *input[MST_P2P_INPUTS];
    void *output[MST_P2P_OUTPUTS];
} mst_p2p_reduce_parameters;

#endif
