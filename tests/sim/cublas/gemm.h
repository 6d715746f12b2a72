/* C = alpha op(A) op(B) + beta C, column-major, as the simulated cuBLAS computes it on a stream's
 * thread. */
#ifndef MUSTER_SIM_GEMM_H
#define MUSTER_SIM_GEMM_H

#include "cublas_api_private.h"

typedef struct gemm {
    unsigned transpose_a, transpose_b; /* cublasOperation_t */
    int64_t m, n, k, lda, ldb, ldc;
    unsigned type; /* cudaDataType_t of all three */
    bool same_types;
    unsigned compute; /* cublasComputeType_t */
    double alpha, beta;
    const void *a, *b;
    void *c;
} gemm;

bool gemm_supported(const gemm *g); /* the pairs of types that Muster uses */
size_t gemm_element(unsigned type);
void gemm_scalars(gemm *g, const void *alpha, const void *beta); /* they are of the type that is computed in */
bool gemm_run(const gemm *g);                                    /* false: no memory */

/* Floats of 16 bits; type: MST_CUBLAS_R_16F or _R_16BF. Rounded to nearest, ties to even. */
float gemm_widen(unsigned type, uint16_t bits);
uint16_t gemm_narrow(unsigned type, float value);

#endif
