/* Random numbers of both distributions, for the rows random_uniform and random_normal. */
#ifndef MST_RANDOM_PRIVATE_H
#define MST_RANDOM_PRIVATE_H

#include "../op_impl.h"
#include "random_parameters_private.h"

typedef struct mst_random_request {
    muster_tensor y;
    uint64_t seed, first;
    double mean, deviation;
    bool normal;
} mst_random_request;

extern mst_code_kernel mst_random_code[1];
muster_status mst_random_host(const void *request);
muster_status mst_random_issue(muster_worker *worker, const void *request);
static inline muster_status mst_random_launch(muster_worker *worker, const mst_kernel *kernel, const mst_random_request *request) {
    return mst_op_launch(worker, kernel, request, sizeof *request);
}

#endif
