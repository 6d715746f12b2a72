/* Declarations that muster_gemm and muster_gemm_batched share, on the host and on other devices. */
#ifndef MST_GEMM_IMPL_H
#define MST_GEMM_IMPL_H

#include "../op_impl.h"

/* On the host `pack` holds the views that BLAS does not take unchanged, or the panels of f16 and
 * bf16; NULL: the view is passed to BLAS as it is. */
typedef struct mst_gemm_parameters {
    muster_tensor a, b, c;
    void *pack_a, *pack_b, *pack_c;
    double alpha, beta;
} mst_gemm_parameters;

/* A matrix as BLAS takes it: element (i, j) at data[i * ld + j], or data[j * ld + i] when
 * transposed. */
typedef struct mst_gemm_operand {
    char *data;
    int64_t ld, size;
    int transpose;
} mst_gemm_operand;
enum { MST_GEMM_ROW_MAJOR = 101, MST_GEMM_NO_TRANSPOSE = 111, MST_GEMM_TRANSPOSE = 112 };

/* UNAVAILABLE where the worker's device is the host and there is no BLAS. */
muster_status mst_gemm_check_blas(const muster_worker *worker, const char *where);
/* Sets the packs from scratch memory. All extents are at least 1. */
muster_status mst_gemm_prepare(muster_worker *worker, mst_gemm_parameters *parameters, const char *where);
/* The product on the host; the parameters are a mst_gemm_parameters. */
muster_status mst_gemm_host(const void *parameters);
/* C = alpha A B + beta C of f32 or f64 by BLAS, whose extents are at most mst_gemm_limit. */
void mst_gemm_by_blas(muster_dtype dtype, int m, int n, int k, double alpha, const mst_gemm_operand *a, const char *at_a,
                      const mst_gemm_operand *b, const char *at_b, double beta, const mst_gemm_operand *c, char *at_c);

/* Products of f16 and bf16 on the host. */
muster_status mst_gemm_prepare_halves(muster_worker *worker, mst_gemm_parameters *parameters);
void mst_gemm_halves(const mst_gemm_parameters *parameters);

/* Can the device's own gemm take the matrix as it is: are its rows or its columns contiguous? For
 * C, which is the output, they must be the rows. */
bool mst_gemm_device_fits(const muster_tensor *matrix, bool output, bool *transpose, int64_t *ld);
/* Runs the device's own gemm. All extents are at least 1. */
muster_status mst_gemm_issue(muster_worker *worker, const void *parameters);

#endif
