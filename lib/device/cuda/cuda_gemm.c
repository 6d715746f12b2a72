/* Matrix products by cuBLAS, which stores matrices by column: the row-major C = A B is the
 * column-major C' = B' A' in the same memory. */
#include "cuda_device_private.h"
#include "environment_impl.h"

#include <limits.h>
#include <string.h>

enum {
    WORKSPACE = 4 << 20,
    WORKSPACE_HOPPER = 32 << 20, /* NVIDIA's recommendation for compute capability 9.0 */
    PLENTY = 1 << 30,            /* the free memory from which on that much is taken */
    PART = 1 << 30,              /* the size of the parts of an extent that does not fit an int */
    WARM = 16,                   /* the extents of the first products */
    WARM_BYTES = WARM * WARM * 8,
};

/* ---- the handle ---- */

/* Setting the stream resets the workspace, so both are always set together. */
muster_status mst_cuda_bind_blas(mst_cuda *cuda, mst_cu_stream stream) {
    MUSTER_TRY(MST_CUBLAS(cuda, cublasSetStream_v2, cuda->blas, stream));
    return MST_CUBLAS(cuda, cublasSetWorkspace_v2, cuda->blas, (void *)(uintptr_t)cuda->blas_workspace, cuda->blas_workspace_bytes);
}

void mst_cuda_close_blas(mst_cuda *cuda) {
    if (cuda->blas) (void)cuda->blas_api->cublasDestroy_v2(cuda->blas);
    if (cuda->blas_workspace) (void)cuda->api->cuMemFree_v2(cuda->blas_workspace);
    cuda->blas = NULL;
    cuda->blas_workspace = 0;
}

/* ---- products ---- */

typedef struct product_type {
    unsigned int data, compute;
} product_type;

static bool find_type(const mst_cuda *cuda, muster_dtype dtype, product_type *type) {
    switch (dtype) {
    case MUSTER_F16:
        *type = (product_type){MST_CUBLAS_R_16F, MST_CUBLAS_COMPUTE_32F};
        return true;
    case MUSTER_BF16:
        *type = (product_type){MST_CUBLAS_R_16BF, MST_CUBLAS_COMPUTE_32F};
        return true;
    case MUSTER_F32:
        *type = (product_type){MST_CUBLAS_R_32F, cuda->tf32 ? MST_CUBLAS_COMPUTE_32F_FAST_TF32 : MST_CUBLAS_COMPUTE_32F};
        return true;
    case MUSTER_F64:
        *type = (product_type){MST_CUBLAS_R_64F, MST_CUBLAS_COMPUTE_64F};
        return true;
    default:
        return false;
    }
}

static bool fits_int(const mst_gemm *g) {
    return g->m <= INT_MAX && g->n <= INT_MAX && g->k <= INT_MAX && g->lda <= INT_MAX && g->ldb <= INT_MAX && g->ldc <= INT_MAX;
}

static unsigned int operation(bool transpose) { return transpose ? MST_CUBLAS_T : MST_CUBLAS_N; }

static muster_status call_product(mst_cuda *cuda, const mst_gemm *g, const product_type *type) {
    const mst_cuda_factor alpha = mst_cuda_make_factor(g->alpha, g->dtype), beta = mst_cuda_make_factor(g->beta, g->dtype);
    return MST_CUBLAS(cuda, cublasGemmEx, cuda->blas, operation(g->transpose_b), operation(g->transpose_a), (int)g->n, (int)g->m, (int)g->k,
                      &alpha, g->b, type->data, (int)g->ldb, g->a, type->data, (int)g->lda, &beta, g->c, type->data, (int)g->ldc,
                      type->compute, MST_CUBLAS_GEMM_DEFAULT);
}

static muster_status call_long_product(mst_cuda *cuda, const mst_gemm *g, const product_type *type) {
    const mst_cuda_factor alpha = mst_cuda_make_factor(g->alpha, g->dtype), beta = mst_cuda_make_factor(g->beta, g->dtype);
    return MST_CUBLAS(cuda, cublasGemmEx_64, cuda->blas, operation(g->transpose_b), operation(g->transpose_a), g->n, g->m, g->k, &alpha,
                      g->b, type->data, g->ldb, g->a, type->data, g->lda, &beta, g->c, type->data, g->ldc, type->compute,
                      MST_CUBLAS_GEMM_DEFAULT);
}

/* The shape fits an int, or cuBLAS has cublasGemmEx_64. */
static muster_status multiply(mst_cuda *cuda, const mst_gemm *g, const product_type *type) {
    const mst_cuda_product product = mst_cuda_product_of(g);
    MUSTER_TRY(mst_cuda_before_product(cuda, &product));
    MUSTER_TRY(fits_int(g) ? call_product(cuda, g, type) : call_long_product(cuda, g, type));
    mst_cuda_note_product(cuda, &product);
    return MUSTER_OK;
}

/* ---- opening ---- */

static muster_status warm_up_type(mst_cuda *cuda, muster_dtype dtype, const void *operands) {
    product_type type;
    char before[MST_MESSAGE_SIZE];
    if (!find_type(cuda, dtype, &type)) return MUSTER_OK;
    const char *a = operands, *b = a + WARM_BYTES, *c = b + WARM_BYTES;
    const mst_gemm g = {.dtype = dtype,
                        .m = WARM,
                        .n = WARM,
                        .k = WARM,
                        .lda = WARM,
                        .ldb = WARM,
                        .ldc = WARM,
                        .alpha = 1,
                        .a = a,
                        .b = b,
                        .c = (void *)(uintptr_t)c};
    mst_error_save(before);
    const muster_status status = call_product(cuda, &g, &type);
    /* A GPU may lack an element type. Later products of that type then fail. */
    return status == MUSTER_UNSUPPORTED ? mst_error_restore(MUSTER_OK, before) : status;
}

/* Multiplies once in each type: cuBLAS prepares itself at the first product, and that must not
 * happen while GPUs wait for each other in a collective. What other products need is loaded later
 * (mst_cuda_before_product). The operands lie behind the workspace, which is smaller for now. */
static muster_status warm_up(mst_cuda *cuda) {
    const size_t left = cuda->blas_workspace_bytes - 3 * WARM_BYTES;
    const mst_cu_address operands = cuda->blas_workspace + left;
    MUSTER_TRY(MST_CUBLAS(cuda, cublasSetStream_v2, cuda->blas, cuda->compute));
    MUSTER_TRY(MST_CUBLAS(cuda, cublasSetWorkspace_v2, cuda->blas, (void *)(uintptr_t)cuda->blas_workspace, left));
    MUSTER_TRY(MST_CU(cuda, cuMemsetD8Async, operands, 0, 3 * WARM_BYTES, cuda->compute));
    for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++)
        MUSTER_TRY(warm_up_type(cuda, dtype, (const void *)(uintptr_t)operands));
    return MUSTER_OK;
}

muster_status mst_cuda_open_blas(mst_cuda *cuda) {
    const char *tf32 = mst_environment_get("MUSTER_TF32");
    cuda->tf32 = cuda->settings.tf32 ? cuda->settings.tf32 > 0 : tf32 && strcmp(tf32, "0") != 0;
    cuda->blas_workspace_bytes = cuda->architecture >= 90 && cuda->free_seen >= PLENTY ? WORKSPACE_HOPPER : WORKSPACE;
    MUSTER_TRY(MST_CU(cuda, cuMemAlloc_v2, &cuda->blas_workspace, cuda->blas_workspace_bytes));
    MUSTER_TRY(MST_CUBLAS(cuda, cublasCreate_v2, &cuda->blas));
    /* f16 and bf16 are summed in f32, even if cuBLAS splits the sum. */
    MUSTER_TRY(MST_CUBLAS(cuda, cublasSetMathMode, cuda->blas, MST_CUBLAS_DEFAULT_MATH | MST_CUBLAS_NO_REDUCED_PRECISION_REDUCTION));
    MUSTER_TRY(warm_up(cuda));
    return mst_cuda_bind_blas(cuda, cuda->compute);
}

/* ---- products of any size ---- */

static int64_t part_of(int64_t extent, int64_t begin) { return extent - begin < PART ? extent - begin : PART; }

static const void *behind(const void *base, int64_t elements, int64_t bytes) { return (const char *)base + elements * bytes; }

/* The part of `g` that begins at row i and column j, and in the sums at p. */
static mst_gemm block_of(const mst_gemm *g, int64_t i, int64_t j, int64_t p, int64_t bytes) {
    mst_gemm block = *g;
    block.m = part_of(g->m, i);
    block.n = part_of(g->n, j);
    block.k = part_of(g->k, p);
    block.a = behind(g->a, g->transpose_a ? p * g->lda + i : i * g->lda + p, bytes);
    block.b = behind(g->b, g->transpose_b ? j * g->ldb + p : p * g->ldb + j, bytes);
    block.c = (void *)behind(g->c, i * g->ldc + j, bytes);
    if (p > 0) block.beta = 1;
    return block;
}

static muster_status multiply_in_parts(mst_cuda *cuda, const mst_gemm *g, const product_type *type) {
    if (g->lda > INT_MAX || g->ldb > INT_MAX || g->ldc > INT_MAX)
        return mst_error(
            MUSTER_UNSUPPORTED,
            "%s: gemm: expected rows at most %d elements apart with a cuBLAS that lacks cublasGemmEx_64, received %lld, %lld and %lld",
            cuda->label, INT_MAX, (long long)g->lda, (long long)g->ldb, (long long)g->ldc);
    for (int64_t i = 0; i < g->m; i += PART) {
        for (int64_t j = 0; j < g->n; j += PART) {
            int64_t p = 0;
            do { /* once even if k is 0: C is still scaled */
                const mst_gemm block = block_of(g, i, j, p, muster_dtype_size(g->dtype));
                MUSTER_TRY(multiply(cuda, &block, type));
            } while ((p += PART) < g->k);
        }
    }
    return MUSTER_OK;
}

static muster_status issue(mst_cuda *cuda, const mst_gemm *g, const product_type *type) {
    MUSTER_TRY(mst_cuda_before_compute(cuda));
    return fits_int(g) || cuda->blas_api->cublasGemmEx_64 ? multiply(cuda, g, type) : multiply_in_parts(cuda, g, type);
}

/* cuBLAS requires the distance between rows to be at least their length, even for a single row or
 * empty rows. */
static int64_t stride_of(int64_t stride, int64_t rows, int64_t columns) {
    if (rows > 1 && columns > 0) return stride;
    int64_t least = columns > 1 ? columns : 1;
    return stride > least ? stride : least;
}

muster_status mst_cuda_gemm(mst_device *device, const mst_gemm *gemm) {
    mst_cuda *cuda = mst_cuda_of(device);
    product_type type;
    if (!find_type(cuda, gemm->dtype, &type))
        return mst_error(MUSTER_UNSUPPORTED, "%s: gemm: expected f16, bf16, f32 or f64, received the element type %d", cuda->label,
                         (int)gemm->dtype);
    if (gemm->m <= 0 || gemm->n <= 0) return mst_cuda_is_lost(cuda) ? mst_cuda_report_lost(cuda) : MUSTER_OK;
    mst_gemm g = *gemm;
    g.lda = g.transpose_a ? stride_of(g.lda, g.k, g.m) : stride_of(g.lda, g.m, g.k);
    g.ldb = g.transpose_b ? stride_of(g.ldb, g.n, g.k) : stride_of(g.ldb, g.k, g.n);
    g.ldc = stride_of(g.ldc, g.m, g.n);
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    return mst_cuda_end(cuda, &scope, issue(cuda, &g, &type));
}
