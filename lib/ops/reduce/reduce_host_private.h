/* Reductions on the host, for reduce.c. */
#ifndef MST_REDUCE_HOST_PRIVATE_H
#define MST_REDUCE_HOST_PRIVATE_H

#include "reduce_private.h"

typedef struct mst_reduce_request {
    muster_tensor x, y;
    void *sums; /* 8 bytes per result; NULL for a single result */
    int64_t length;
    double divisor; /* of an average */
    muster_reduction op;
    uint32_t axes;
} mst_reduce_request;

/* The host's function of the kernel; the parameters are a request. */
muster_status mst_reduce_host(const void *parameters);
/* The sum of n elements that lie one behind the other. */
double mst_reduce_contiguous_f32(const float *x, int64_t n);

#endif
