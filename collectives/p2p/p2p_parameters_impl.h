/* Parameters of the kernels between peers: the same text for the host's compiler and the
 * device's. */
#ifndef MST_P2P_PARAMETERS_IMPL_H
#define MST_P2P_PARAMETERS_IMPL_H

enum { MST_P2P_INPUTS = 64, MST_P2P_OUTPUTS = 64 };

/* Elements [0, count) of every address: combined from the inputs in their order, each step rounded
 * in the compute dtype, and written to every output. */
typedef struct mst_p2p_reduce_parameters {
    int64_t count;
    double scale;       /* of an average: 1 / number of inputs */
    double alpha, beta; /* of an update */
    void *parameter;    /* UPDATE: the output is parameter + alpha * sum; NULL: the combination itself */
    /* with momentum: velocity = beta * velocity + alpha * sum, and the output parameter + velocity;
     * else NULL */
    void *velocity;
    int32_t dtype, op; /* muster_dtype, muster_reduction */
    int32_t inputs, outputs;
    void *input[MST_P2P_INPUTS];
    void *output[MST_P2P_OUTPUTS];
} mst_p2p_reduce_parameters;

#endif
