/* What the host's gemm and that of other devices share. */
#ifndef MST_GEMM_IMPL_H
#define MST_GEMM_IMPL_H

#include "../op_impl.h"

typedef struct mst_gemm_parameters {
    muster_tensor a, b, c;
    void *pack_a, *pack_b, *pack_c; /* host: NULL: the view goes to BLAS as it is */
    double alpha, beta;
} mst_gemm_parameters;

/* By the device's own gemm; extents at least 1. */
muster_status mst_gemm_issue(muster_worker *worker, const void *parameters);

#endif
