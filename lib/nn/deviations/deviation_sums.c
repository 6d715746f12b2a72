/* Sums of squared deviations, and of products with deviations. */
#include "deviation_sums_impl.h"

#include "op_impl.h"

/* ---- on CPU cores ---- */

/* Independent lanes: an addition does not wait for the one before. */
enum { LANES = 16 };

#define T float
#define SUFFIX f32
#include "deviation_sums_loops.h"
#undef T
#undef SUFFIX

/* Squares of f32 that lie behind each other. A block whose sum is not in the range where f32 keeps
 * its digits is summed in f64. */
MST_CLONES static double quick_squares(const float *x, int64_t n) {
    enum { BLOCK = 1024 };
    double total = 0;
    for (int64_t begin = 0; begin < n; begin += BLOCK) {
        const int64_t count = n - begin < BLOCK ? n - begin : BLOCK;
        float lanes[LANES] = {0}, sum = 0;
        int64_t i = 0;
        for (; i + LANES <= count; i += LANES)
            for (int32_t k = 0; k < LANES; k++) lanes[k] += x[begin + i + k] * x[begin + i + k];
        for (; i < count; i++) sum += x[begin + i] * x[begin + i];
        for (int32_t half = LANES / 2; half > 0; half /= 2)
            for (int32_t k = 0; k < half; k++) lanes[k] += lanes[k + half];
        sum += lanes[0];
        total += sum > 0x1p-80f && sum < 0x1p127f ? (double)sum : one_sum_f32(x + begin, NULL, count, 0);
    }
    return total;
}

static void quick_sums(void *context, char *const *at, const int64_t *stride, int64_t n) {
    if (stride[0] != sizeof(float) || stride[2] != 0) {
        sums_f32(context, at, stride, n);
        return;
    }
    *(double *)(void *)at[2] += quick_squares((const float *)(const void *)at[0], n);
}

#define T double
#define SUFFIX f64
#include "deviation_sums_loops.h"
#undef T
#undef SUFFIX

typedef struct deviations_call {
    muster_tensor x, center, sums, factor; /* sums: with stride 0 along the axes that are summed */
    bool has_factor, quick;
} deviations_call;

/* In the order of the strides of x, outermost first, unless that makes inner loops too short to be
 * worth it: then in row-major order. */
static muster_status sums_host(const void *parameters) {
    enum { SHORT = 8 };
    const deviations_call *call = parameters;
    const muster_tensor *const operands[] = {&call->x, &call->center, &call->sums, &call->factor};
    const int32_t count = call->has_factor ? 4 : 3;
    mst_iterator iterator, ordered;
    mst_iterator_make(&iterator, call->x.ndim, call->x.shape, count, operands);
    ordered = iterator;
    ordered.ndim = mst_iterator_join_as(&call->x, count, operands, ordered.shape, ordered.strides);
    if (ordered.shape[ordered.ndim - 1] >= SHORT) iterator = ordered;
    mst_iterator_run(&iterator,
                     call->x.dtype == MUSTER_F64 ? sums_f64
                     : call->quick               ? quick_sums
                                                 : sums_f32,
                     call->has_factor ? &iterator : NULL);
    return MUSTER_OK;
}

static muster_status sums_on_host(muster_worker *worker, const muster_tensor *x, const muster_tensor *center, const muster_tensor *factor,
                                  uint32_t axes, bool quick, const muster_tensor *y) {
    static const mst_kernel kernel = {.host = sums_host};
    deviations_call call = {.x = *x, .center = *center, .sums = *x, .has_factor = factor != NULL, .quick = quick};
    if (factor) call.factor = *factor;
    call.sums.data = y->data;
    call.sums.byte_offset = y->byte_offset;
    call.sums.dtype = y->dtype;
    for (int32_t d = 0, kept = 0; d < x->ndim; d++) call.sums.strides[d] = axes >> d & 1 ? 0 : y->strides[kept++];
    MUSTER_TRY(muster_fill(worker, 0, *y));
    return mst_op_launch(worker, &kernel, &call, sizeof call);
}

/* ---- on other devices ---- */

static muster_status converted(muster_worker *worker, const muster_tensor *from, muster_tensor *copy) {
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F64, from->ndim, from->shape, copy));
    return muster_copy(worker, *from, *copy);
}

static muster_status sums_on_device(muster_worker *worker, const muster_tensor *x, const muster_tensor *center, const muster_tensor *factor,
                                    uint32_t axes, bool quick, const muster_tensor *y) {
    muster_tensor deviation, by;
    (void)quick;
    MUSTER_TRY(converted(worker, x, &deviation));
    MUSTER_TRY(muster_binary_op(worker, MUSTER_SUB, deviation, *center, deviation));
    by = deviation;
    if (factor) MUSTER_TRY(converted(worker, factor, &by));
    MUSTER_TRY(muster_binary_op(worker, MUSTER_MUL, by, deviation, deviation));
    return muster_reduce_axes(worker, MUSTER_SUM, deviation, (int32_t)axes, *y);
}

muster_status mst_deviation_sums(muster_worker *worker, const muster_tensor *x, const muster_tensor *center, const muster_tensor *factor,
                                 uint32_t axes, bool quick, const muster_tensor *y) {
    const int64_t mark = muster_worker_scratch_mark(worker);
    if (!muster_tensor_count(*y)) return MUSTER_OK;
    if (!muster_tensor_count(*x)) return muster_fill(worker, 0, *y);
    MUSTER_TRY((mst_device_is_host(worker->device) ? sums_on_host : sums_on_device)(worker, x, center, factor, axes, quick, y));
    return muster_worker_scratch_release(worker, mark);
}
