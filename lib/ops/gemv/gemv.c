/* y = alpha A x + beta y, in one pass over A, without BLAS: A is read at the speed of memory, and a
 * small product costs no call into BLAS. If rows are contiguous, each row is a dot product, four
 * rows at a time. If columns are contiguous, four columns are summed at a time. */
#include "../op_impl.h"
#include "gemv_parameters_private.h"

#include <string.h>

/* The tensors are the caller's: a copy of the three costs as much as a small product's sums. */
typedef struct gemv_parameters {
    const muster_tensor *a, *x, *y;
    double alpha, beta;
} gemv_parameters;

enum { BLOCK = 512 };

/* Sums the lanes of each of four vectors at the same time; a transposition costs less than four
 * sums one after the other. */
#if __has_builtin(__builtin_shufflevector)
#define SUM_FOUR_4(s0, s1, s2, s3, sums)                                                                                      \
    do {                                                                                                                      \
        __typeof__(s0) low = __builtin_shufflevector(s0, s1, 0, 4, 1, 5) + __builtin_shufflevector(s0, s1, 2, 6, 3, 7);       \
        __typeof__(s0) high = __builtin_shufflevector(s2, s3, 0, 4, 1, 5) + __builtin_shufflevector(s2, s3, 2, 6, 3, 7);      \
        __typeof__(s0) all = __builtin_shufflevector(low, high, 0, 1, 4, 5) + __builtin_shufflevector(low, high, 2, 3, 6, 7); \
        memcpy(sums, &all, sizeof all);                                                                                       \
    } while (0)
/* Within the halves of the vectors, which one instruction does for both; then the halves. */
#define SUM_FOUR_8(s0, s1, s2, s3, sums)                                                                                                   \
    do {                                                                                                                                   \
        __typeof__(s0) low =                                                                                                               \
            __builtin_shufflevector(s0, s1, 0, 8, 1, 9, 4, 12, 5, 13) + __builtin_shufflevector(s0, s1, 2, 10, 3, 11, 6, 14, 7, 15);       \
        __typeof__(s0) high =                                                                                                              \
            __builtin_shufflevector(s2, s3, 0, 8, 1, 9, 4, 12, 5, 13) + __builtin_shufflevector(s2, s3, 2, 10, 3, 11, 6, 14, 7, 15);       \
        __typeof__(s0) both =                                                                                                              \
            __builtin_shufflevector(low, high, 0, 1, 8, 9, 4, 5, 12, 13) + __builtin_shufflevector(low, high, 2, 3, 10, 11, 6, 7, 14, 15); \
        __auto_type all = __builtin_shufflevector(both, both, 0, 1, 2, 3) + __builtin_shufflevector(both, both, 4, 5, 6, 7);               \
        memcpy(sums, &all, sizeof all);                                                                                                    \
    } while (0)
#else /* for GCC before 12: the same sums in the same order */
#define LANES_4(s) ((s[0] + s[2]) + (s[1] + s[3]))
#define LANES_8(s) (((s[0] + s[2]) + (s[1] + s[3])) + ((s[4] + s[6]) + (s[5] + s[7])))
#define SUM_FOUR_4(s0, s1, s2, s3, sums) (sums[0] = LANES_4(s0), sums[1] = LANES_4(s1), sums[2] = LANES_4(s2), sums[3] = LANES_4(s3))
#define SUM_FOUR_8(s0, s1, s2, s3, sums) (sums[0] = LANES_8(s0), sums[1] = LANES_8(s1), sums[2] = LANES_8(s2), sums[3] = LANES_8(s3))
#endif

#define SUFFIX f32
#define T float
#define LANES 8
#define MASK_LANE int32_t
#define SUM_FOUR SUM_FOUR_8
#include "gemv_loops.h"
#define SUFFIX f64
#define T double
#define LANES 4
#define MASK_LANE int64_t
#define SUM_FOUR SUM_FOUR_4
#include "gemv_loops.h"

static muster_status gemv_host(const void *parameters) {
    const gemv_parameters *p = parameters;
    if (p->a->dtype == MUSTER_F32)
        gemv_f32(p);
    else
        gemv_f64(p);
    return MUSTER_OK;
}

/* Kernels of the device code. */
enum { BY_THREADS, BY_BLOCKS };
static mst_code_kernel gemv_code[] = {{.name = "mst_gemv_threads"}, {.name = "mst_gemv_blocks", .blocks = true}};

/* One thread computes a row if rows are short, or if columns are contiguous and there are many
 * rows; otherwise one block computes a row. */
static muster_status gemv_issue(muster_worker *worker, const void *parameters) {
    enum { SHORT = 32, MANY = 1024 };
    const gemv_parameters *p = parameters;
    mst_gemv_parameters of_code = {.a = muster_tensor_address(*p->a),
                                   .x = muster_tensor_address(*p->x),
                                   .y = muster_tensor_address(*p->y),
                                   .n = p->a->shape[0],
                                   .k = p->a->shape[1],
                                   .row_stride = p->a->strides[0],
                                   .column_stride = p->a->strides[1],
                                   .x_stride = p->x->strides[0],
                                   .y_stride = p->y->strides[0],
                                   .alpha = p->alpha,
                                   .beta = p->beta,
                                   .dtype = p->a->dtype};
    if (of_code.k == 0) of_code.a = of_code.x = NULL, of_code.row_stride = 0; /* they may have no memory */
    bool by_threads = of_code.k <= SHORT || (of_code.row_stride == 1 && of_code.column_stride != 1 && of_code.n >= MANY);
    return mst_op_code(worker, by_threads ? &gemv_code[BY_THREADS] : &gemv_code[BY_BLOCKS], of_code.n, &of_code, sizeof of_code);
}

static MST_ALWAYS_INLINE muster_status gemv_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                                  const char *where) {
    const muster_tensor *a = t[0], *x = t[1], *y = t[2];
    (void)values;
    MUSTER_TRY(mst_op_check(worker, a, where, "a"));
    MUSTER_TRY(mst_op_check(worker, x, where, "x"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    MUSTER_TRY(mst_op_blas_dtype(where, "a", a->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, "x", x->dtype, "a", a->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, "y", y->dtype, "a", a->dtype));
    MUSTER_TRY(mst_op_ndim(where, "a", a, 2));
    MUSTER_TRY(mst_op_shape(where, "x", x, 1, &a->shape[1]));
    MUSTER_TRY(mst_op_shape(where, "y", y, 1, &a->shape[0]));
    return mst_op_check_results(&mst_operation_gemv, t, where);
}

static muster_status gemv_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_gemv(worker, v[0].number, t[0], t[1], v[1].number, t[2]);
}

static const mst_kernel gemv_kernel = {.host = gemv_host, .issue = gemv_issue};

const mst_op_row mst_operation_gemv = {
    MST_OPERATION_ROW(gemv, muster_gemv),
    .operands = {{"a", "nk", MST_IN}, {"x", "k", MST_IN}, {"y", "n", MST_IN_OUT}},
    .attributes = {{"alpha", MST_NUMBER}, {"beta", MST_NUMBER}},
    .dtypes = MST_BLAS_DTYPES,
    .check = gemv_check,
    .run = gemv_run,
    .kernel = &gemv_kernel,
    MST_CODE(gemv_code),
    .error = {[MUSTER_F32] = 1e-6, [MUSTER_F64] = 1e-12},
};

muster_status mst_gemv_launch(muster_worker *worker, const muster_tensor *a, const muster_tensor *x, const muster_tensor *y) {
    const gemv_parameters p = {a, x, y, 1, 0};
    return mst_op_launch(worker, &gemv_kernel, &p, sizeof p);
}

muster_status muster_gemv(muster_worker *worker, double alpha, muster_tensor a, muster_tensor x, double beta, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(gemv_check(worker, MST_TENSORS(&a, &x, &y), NULL, __func__));
    gemv_parameters p = {&a, &x, &y, alpha, beta};
    return mst_op_launch(worker, &gemv_kernel, &p, sizeof p);
}
