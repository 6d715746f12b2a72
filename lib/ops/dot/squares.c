/* The sum of squares, in f64 whatever the elements are. */
#include "../op_impl.h"
#include "../squares_impl.h"
#include "dot_private.h"

/* Independent lanes: an addition does not wait for the one before. The square of an f32 is exact in
 * a double. */
enum { LANES = 16 };
#define SQUARES(name, T)                                                                         \
    MST_CLONES static double squares_##name(const T *x, int64_t n) {                             \
        double lanes[LANES] = {0}, sum = 0;                                                      \
        int64_t i = 0;                                                                           \
        for (; i + LANES <= n; i += LANES)                                                       \
            for (int32_t k = 0; k < LANES; k++) lanes[k] += (double)x[i + k] * (double)x[i + k]; \
        for (; i < n; i++) sum += (double)x[i] * (double)x[i];                                   \
        for (int32_t k = 0; k < LANES; k++) sum += lanes[k];                                     \
        return sum;                                                                              \
    }
SQUARES(f32, float)
SQUARES(f64, double)

double mst_squares_sum(muster_dtype dtype, const void *x, int64_t count) {
    return dtype == MUSTER_F64 ? squares_f64(x, count) : squares_f32(x, count);
}

/* Of an iterator over one operand; context: the sum. */
#define STRIDED(name, T)                                                                           \
    static void strided_##name(void *context, char *const *at, const int64_t *stride, int64_t n) { \
        double *sum = context;                                                                     \
        if (*stride == sizeof(T)) {                                                                \
            *sum += squares_##name((const T *)(const void *)*at, n);                               \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const double x = (double)*(const T *)(const void *)(*at + i * *stride);                \
            *sum += x * x;                                                                         \
        }                                                                                          \
    }
STRIDED(f32, float)
STRIDED(f64, double)

typedef struct squares_parameters {
    muster_tensor x, result;
} squares_parameters;

static muster_status squares_host(const void *parameters) {
    const squares_parameters *p = parameters;
    mst_iterator iterator;
    double sum = 0;
    mst_iterator_make(&iterator, p->x.ndim, p->x.shape, 1, MST_TENSORS(&p->x));
    mst_iterator_run(&iterator, p->x.dtype == MUSTER_F64 ? strided_f64 : strided_f32, &sum);
    *(double *)muster_tensor_address(p->result) = sum;
    return MUSTER_OK;
}

/* Device code reads elements at one stride. */
static muster_status squares_issue(muster_worker *worker, const void *parameters) {
    const squares_parameters *p = parameters;
    int64_t shape[MUSTER_MAX_DIMS], stride[1][MUSTER_MAX_DIMS], count = muster_tensor_count(p->x);
    const int64_t mark = muster_worker_scratch_mark(worker);
    muster_tensor x = p->x;
    if (count && mst_iterator_join(x.ndim, x.shape, 1, MST_TENSORS(&x), shape, stride) > 1) {
        MUSTER_TRY(muster_worker_scratch(worker, x.dtype, x.ndim, x.shape, &x));
        MUSTER_TRY(mst_op_check(worker, &x, "muster_function_call", "scratch memory for a sum of squares"));
        MUSTER_TRY(muster_copy(worker, p->x, x));
        stride[0][0] = (int64_t)muster_dtype_size(x.dtype);
    }
    x.strides[0] = count ? stride[0][0] / (int64_t)muster_dtype_size(x.dtype) : 1;
    x.shape[0] = count;
    x.ndim = 1;
    MUSTER_TRY(mst_dot_issue(worker, &x, &x, &p->result));
    return muster_worker_scratch_release(worker, mark);
}

static const mst_kernel squares_kernel = {.host = squares_host, .issue = squares_issue};

muster_status mst_squares_launch(muster_worker *worker, const muster_tensor *x, const muster_tensor *result) {
    squares_parameters p = {*x, *result};
    return mst_op_launch(worker, &squares_kernel, &p, sizeof p);
}
