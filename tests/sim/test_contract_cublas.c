/* What a caller may rely on in cuBLAS. */
#include "base_skip.h"
#include "contract_support.h"

#include <stdio.h>
#include <stdlib.h>

enum { M = 5, N = 4, K = 3, LD = 8, ELEMENTS = LD * LD };
static mst_cublas_handle handle;

static void versions_and_statuses_are_told(void **state) {
    (void)state;
    int version = 0;
    assert_done(blas.cublasGetVersion_v2(handle, &version));
    assert_true(version >= 120000);
    assert_true(strlen(blas.cublasGetStatusString(MST_CUBLAS_SUCCESS)) > 0);
    assert_string_not_equal(blas.cublasGetStatusString(MST_CUBLAS_SUCCESS), blas.cublasGetStatusString(MST_CUBLAS_ALLOC_FAILED));
}

/* ---- element types: small whole numbers are exact in all of them ---- */
typedef struct type {
    unsigned data, compute;
    size_t bytes;
} type;
static const type f32 = {MST_CUBLAS_R_32F, MST_CUBLAS_COMPUTE_32F, 4}, f64 = {MST_CUBLAS_R_64F, MST_CUBLAS_COMPUTE_64F, 8},
                  f16 = {MST_CUBLAS_R_16F, MST_CUBLAS_COMPUTE_32F, 2}, bf16 = {MST_CUBLAS_R_16BF, MST_CUBLAS_COMPUTE_32F, 2};

static void store(const type *of, void *to, int place, double value) {
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, 4);
    if (of->data == MST_CUBLAS_R_64F) ((double *)to)[place] = value;
    if (of->data == MST_CUBLAS_R_32F) ((float *)to)[place] = narrow;
    if (of->data == MST_CUBLAS_R_16BF) ((uint16_t *)to)[place] = (uint16_t)(bits >> 16);
    if (of->data == MST_CUBLAS_R_16F) /* of a normal number, or 0 */
        ((uint16_t *)to)[place] =
            (uint16_t)(value == 0 ? 0 : (bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10) | (bits >> 13 & 1023));
}

static double load(const type *of, const void *from, int place) {
    if (of->data == MST_CUBLAS_R_64F) return ((const double *)from)[place];
    if (of->data == MST_CUBLAS_R_32F) return ((const float *)from)[place];
    uint32_t half = ((const uint16_t *)from)[place];
    uint32_t bits = of->data == MST_CUBLAS_R_16BF ? half << 16
                    : half & 0x7FFF               ? (half & 0x8000) << 16 | ((half >> 10 & 31) + 112) << 23 | (half & 1023) << 13
                                                  : 0;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* ---- one product ---- */
typedef struct matrices {
    mst_cu_address a, b, c;
    double host_a[ELEMENTS], host_b[ELEMENTS], host_c[ELEMENTS];
} matrices;

static mst_cu_address upload(const type *of, const double *values) {
    unsigned char raw[ELEMENTS * 8];
    mst_cu_address address;
    for (int i = 0; i < ELEMENTS; i++) store(of, raw, i, values[i]);
    assert_done(cu.cuMemAlloc_v2(&address, ELEMENTS * of->bytes));
    assert_done(cu.cuMemcpyHtoDAsync_v2(address, raw, ELEMENTS * of->bytes, gpu.stream));
    return address;
}

static void make(matrices *x, const type *of) {
    for (int i = 0; i < ELEMENTS; i++) {
        x->host_a[i] = i % 7 - 3;
        x->host_b[i] = i % 5 - 2;
        x->host_c[i] = i % 3;
    }
    x->a = upload(of, x->host_a);
    x->b = upload(of, x->host_b);
    x->c = upload(of, x->host_c);
}

static void release(matrices *x) {
    assert_done(cu.cuMemFree_v2(x->a));
    assert_done(cu.cuMemFree_v2(x->b));
    assert_done(cu.cuMemFree_v2(x->c));
}

static void *device_pointer(mst_cu_address address) { return (void *)(uintptr_t)address; }

static mst_cublas_status multiply(const type *of, unsigned ta, unsigned tb, const matrices *x, double alpha, double beta, bool wide) {
    float narrow[2] = {(float)alpha, (float)beta};
    const void *pa = of->compute == MST_CUBLAS_COMPUTE_64F ? (void *)&alpha : &narrow[0],
               *pb = of->compute == MST_CUBLAS_COMPUTE_64F ? (void *)&beta : &narrow[1];
    if (wide)
        return blas.cublasGemmEx_64(handle, ta, tb, M, N, K, pa, device_pointer(x->a), of->data, LD, device_pointer(x->b), of->data, LD, pb,
                                    device_pointer(x->c), of->data, LD, of->compute, MST_CUBLAS_GEMM_DEFAULT);
    return blas.cublasGemmEx(handle, ta, tb, M, N, K, pa, device_pointer(x->a), of->data, LD, device_pointer(x->b), of->data, LD, pb,
                             device_pointer(x->c), of->data, LD, of->compute, MST_CUBLAS_GEMM_DEFAULT);
}

static void check(const type *of, unsigned ta, unsigned tb, const matrices *x, double alpha, double beta) {
    unsigned char raw[ELEMENTS * 8];
    /* the same stream: after the product */
    assert_done(cu.cuMemcpyDtoHAsync_v2(raw, x->c, ELEMENTS * of->bytes, gpu.stream));
    for (int j = 0; j < LD; j++)
        for (int i = 0; i < LD; i++) {
            double expected = x->host_c[i + j * LD];
            if (i < M && j < N) {
                double sum = 0;
                for (int l = 0; l < K; l++)
                    sum += (ta ? x->host_a[l + i * LD] : x->host_a[i + l * LD]) * (tb ? x->host_b[j + l * LD] : x->host_b[l + j * LD]);
                expected = alpha * sum + (beta == 0 ? 0 : beta * expected);
            }
            if (load(of, raw, i + j * LD) != expected)
                fail_msg("element (%d, %d): expected %g, received %g", i, j, expected, load(of, raw, i + j * LD));
        }
}

static void multiply_all_ways(const type *of) {
    for (unsigned way = 0; way < 8; way++) {
        unsigned ta = way & 1, tb = way >> 1 & 1;
        bool wide = way >> 2 & 1;
        if (wide && !blas.cublasGemmEx_64) continue;
        matrices x;
        make(&x, of);
        assert_done(multiply(of, ta, tb, &x, 2, 3, wide));
        check(of, ta, tb, &x, 2, 3);
        release(&x);
    }
}

static void f32_products_are_column_major(void **state) {
    (void)state;
    multiply_all_ways(&f32);
}
static void f64_products_are_column_major(void **state) {
    (void)state;
    multiply_all_ways(&f64);
}
static void f16_products_are_column_major(void **state) {
    (void)state;
    multiply_all_ways(&f16);
}
static void bf16_products_are_column_major(void **state) {
    (void)state;
    multiply_all_ways(&bf16);
}

static void nothing_is_read_where_beta_is_zero(void **state) {
    (void)state;
    matrices x;
    make(&x, &f32);
    assert_done(cu.cuMemsetD8Async(x.c, 0xFF, ELEMENTS * 4, gpu.stream)); /* not a number */
    assert_done(multiply(&f32, 0, 0, &x, 1, 0, false));
    float out[ELEMENTS];
    assert_done(cu.cuMemcpyDtoHAsync_v2(out, x.c, sizeof out, gpu.stream));
    for (int j = 0; j < N; j++)
        for (int i = 0; i < M; i++) {
            double sum = 0;
            for (int l = 0; l < K; l++) sum += x.host_a[i + l * LD] * x.host_b[l + j * LD];
            assert_true(out[i + j * LD] == sum);
        }
    release(&x);
}

/* Large enough for whatever a library does only then; whole numbers small enough to be summed
 * exactly. */
static void large_products_are_exact_too(void **state) {
    (void)state;
    enum { ROWS = 120, COLUMNS = 96, DEPTH = 80, A = DEPTH * ROWS, B = DEPTH * COLUMNS, C = ROWS * COLUMNS };
    float *a = malloc(A * sizeof *a), *b = malloc(B * sizeof *b), *c = malloc(C * sizeof *c), one = 1, zero = 0;
    mst_cu_address on_a, on_b, on_c;
    for (int i = 0; i < A; i++) a[i] = (float)(i % 11 - 5);
    for (int i = 0; i < B; i++) b[i] = (float)(i % 13 - 6);
    assert_done(cu.cuMemAlloc_v2(&on_a, A * sizeof *a));
    assert_done(cu.cuMemAlloc_v2(&on_b, B * sizeof *b));
    assert_done(cu.cuMemAlloc_v2(&on_c, C * sizeof *c));
    assert_done(cu.cuMemcpyHtoDAsync_v2(on_a, a, A * sizeof *a, gpu.stream));
    assert_done(cu.cuMemcpyHtoDAsync_v2(on_b, b, B * sizeof *b, gpu.stream));
    assert_done(blas.cublasGemmEx(handle, MST_CUBLAS_T, MST_CUBLAS_N, ROWS, COLUMNS, DEPTH, &one, device_pointer(on_a), f32.data, DEPTH,
                                  device_pointer(on_b), f32.data, DEPTH, &zero, device_pointer(on_c), f32.data, ROWS, f32.compute,
                                  MST_CUBLAS_GEMM_DEFAULT));
    assert_done(cu.cuMemcpyDtoHAsync_v2(c, on_c, C * sizeof *c, gpu.stream));
    for (int j = 0; j < COLUMNS; j++)
        for (int i = 0; i < ROWS; i++) {
            float sum = 0;
            for (int l = 0; l < DEPTH; l++) sum += a[l + i * DEPTH] * b[l + j * DEPTH];
            assert_true(c[i + j * ROWS] == sum);
        }
    assert_done(cu.cuMemFree_v2(on_a));
    assert_done(cu.cuMemFree_v2(on_b));
    assert_done(cu.cuMemFree_v2(on_c));
    free(a);
    free(b);
    free(c);
}

static void bad_arguments_are_refused(void **state) {
    (void)state;
    matrices x;
    float one = 1;
    make(&x, &f32);
    void *a = device_pointer(x.a), *b = device_pointer(x.b), *c = device_pointer(x.c);
    assert_code(blas.cublasGemmEx(handle, 0, 0, M, N, K, &one, a, f32.data, M - 1, b, f32.data, LD, &one, c, f32.data, LD, f32.compute, -1),
                MST_CUBLAS_INVALID_VALUE);
    assert_code(blas.cublasGemmEx(handle, 0, 0, -1, N, K, &one, a, f32.data, LD, b, f32.data, LD, &one, c, f32.data, LD, f32.compute, -1),
                MST_CUBLAS_INVALID_VALUE);
    assert_done(blas.cublasGemmEx(handle, 0, 0, 0, N, K, &one, a, f32.data, LD, b, f32.data, LD, &one, c, f32.data, LD, f32.compute, -1));
    assert_code(blas.cublasSetWorkspace_v2(handle, (char *)a + 1, 16), MST_CUBLAS_INVALID_VALUE);
    assert_code(blas.cublasCreate_v2(NULL), MST_CUBLAS_INVALID_VALUE);
    assert_code(blas.cublasSetStream_v2(NULL, NULL), MST_CUBLAS_NOT_INITIALIZED);
    release(&x);
}

static void a_handle_has_a_stream_a_workspace_and_a_mode(void **state) {
    (void)state;
    enum { WORKSPACE = 4 << 20 };
    mst_cu_address workspace;
    matrices x;
    make(&x, &f32);
    assert_done(cu.cuMemAlloc_v2(&workspace, WORKSPACE));
    assert_done(blas.cublasSetStream_v2(handle, gpu.stream));
    assert_done(blas.cublasSetWorkspace_v2(handle, device_pointer(workspace), WORKSPACE));
    assert_done(blas.cublasSetMathMode(handle, MST_CUBLAS_DEFAULT_MATH | MST_CUBLAS_NO_REDUCED_PRECISION_REDUCTION));
    assert_done(multiply(&f32, 0, 0, &x, 1, 1, false));
    check(&f32, 0, 0, &x, 1, 1);
    assert_done(blas.cublasSetMathMode(handle, MST_CUBLAS_DEFAULT_MATH));
    assert_done(blas.cublasSetStream_v2(handle, gpu.stream)); /* and the workspace is its own again */
    assert_done(cu.cuMemFree_v2(workspace));
    release(&x);
}

static int setup(void **state) {
    if (contract_setup(state)) return -1;
    return blas.cublasCreate_v2(&handle) || blas.cublasSetStream_v2(handle, gpu.stream) ? -1 : 0;
}

static int teardown(void **state) { return blas.cublasDestroy_v2(handle) ? -1 : contract_teardown(state); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_and_statuses_are_told),
        cmocka_unit_test(f32_products_are_column_major),
        cmocka_unit_test(f64_products_are_column_major),
        cmocka_unit_test(f16_products_are_column_major),
        cmocka_unit_test(bf16_products_are_column_major),
        cmocka_unit_test(nothing_is_read_where_beta_is_zero),
        cmocka_unit_test(large_products_are_exact_too),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(a_handle_has_a_stream_a_workspace_and_a_mode),
    };
    if (!contract_open_cuda() || !contract_open_cublas()) return SKIP_SUITE("the CUDA driver or cuBLAS could not be opened");
    return cmocka_run_group_tests(tests, setup, teardown);
}
