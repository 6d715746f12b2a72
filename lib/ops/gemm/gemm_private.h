/* Declarations that the host's gemm shares with the gemm of other devices. */
#ifndef MST_GEMM_IMPL_H
#define MST_GEMM_IMPL_H

#include "../op_impl.h"

typedef struct mst_gemm_parameters {
    muster_tensor a, b, c;
    void *pack_a, *pack_b, *pack_c; /* used on the host; NULL: the view is passed to BLAS unchanged */
    double alpha, beta;
} mst_gemm_parameters;

/* Runs the device's own gemm. All extents are at least 1. */
muster_status mst_gemm_issue(muster_worker *worker, const void *parameters);

#endif
