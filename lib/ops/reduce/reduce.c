/* Reduction over any set of axes: the checks of the operands, and the choice of the way. The loops
 * of the host are in reduce_host.c, those of devices in reduce.cu. */
#include "reduce_host_private.h"
#include "reduce_issue_private.h"

static muster_status reduce_issue(muster_worker *worker, const void *parameters) {
    const mst_reduce_request *p = parameters;
    return mst_reduce_issue(worker, p->op, &p->x, p->axes, &p->y, p->length, p->divisor);
}

/* Reduces a whole contiguous f32 tensor without the iterator; this keeps mean and sum of small
 * tensors cheap. */
static bool reduce_quickly(const muster_worker *worker, muster_reduction op, const muster_tensor *x, const muster_tensor *y, int64_t count,
                           double divisor) {
    if (x->dtype != MUSTER_F32 || y->dtype != MUSTER_F32 || (op != MUSTER_AVG && op != MUSTER_SUM) || !mst_device_is_host(worker->device) ||
        worker->device->queued)
        return false;
    if (!(x->ndim == 1 && x->strides[0] == 1) && !mst_tensor_contiguous(*x)) return false;
    *(float *)muster_tensor_address(*y) = (float)(mst_reduce_contiguous_f32(muster_tensor_address(*x), count) / divisor);
    return true;
}

/* The shape without the axes, and in *length the number of elements that are combined into each
 * result. */
static MST_ALWAYS_INLINE int32_t reduce_shape(const muster_tensor *x, uint32_t axes, int64_t shape[MUSTER_MAX_DIMS], int64_t *length) {
    int32_t ndim = 0;
    *length = 1;
    for (int32_t d = 0; d < x->ndim; d++) {
        if (axes >> d & 1)
            *length *= x->shape[d];
        else
            shape[ndim++] = x->shape[d];
    }
    return ndim;
}

static MST_ALWAYS_INLINE uint32_t reduce_all_axes(const muster_tensor *x) { return ((uint32_t)1 << x->ndim) - 1; }

static MST_ALWAYS_INLINE muster_status reduce_axis(const char *where, const muster_tensor *x, int32_t axis, uint32_t *axes) {
    *axes = axis < 0 ? reduce_all_axes(x) : (uint32_t)1 << (axis & 31);
    if (__builtin_expect(axis >= -1 && axis < x->ndim, 1)) return MUSTER_OK;
    return mst_error(MUSTER_OUT_OF_RANGE, "%s: axis: expected -1 (all) or an axis of x below %d, received %d", where, x->ndim, axis);
}

muster_dtype mst_dtype_summed(muster_dtype dtype) {
    if (mst_dtype_is_float(dtype)) return dtype;
    return dtype == MUSTER_U8 || dtype == MUSTER_U32 || dtype == MUSTER_U64 ? MUSTER_U64 : MUSTER_I64;
}

/* Sums and products may be stored in the dtype in which they accumulate. */
static muster_status reduce_check_wider(muster_reduction op, muster_dtype x, muster_dtype y, const char *where) {
    const bool sums = op == MUSTER_SUM || op == MUSTER_PROD;
    if (mst_dtype_is_float(x) && (sums || op == MUSTER_AVG) && mst_dtype_is_float(y) && mst_dtype_upcasts(x, y)) return MUSTER_OK;
    if (!mst_dtype_is_float(x) && sums && y == mst_dtype_summed(x)) return MUSTER_OK;
    MUSTER_TRY(mst_reduction_check(op, x, where));
    return mst_op_same_dtype(where, "y", y, "x", x);
}

static MST_ALWAYS_INLINE muster_status reduce_check_operands(const muster_worker *worker, const muster_tensor *x, const muster_tensor *y,
                                                             muster_reduction op, const char *where) {
    MUSTER_TRY(mst_op_check(worker, x, where, "x"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    if (__builtin_expect(y->dtype != x->dtype, 0)) return reduce_check_wider(op, x->dtype, y->dtype, where);
    return mst_reduction_check(op, x->dtype, where);
}

static MST_ALWAYS_INLINE muster_status reduce_check_shapes(const mst_op_row *operation, const muster_tensor *x, const muster_tensor *y,
                                                           muster_reduction op, uint32_t axes, const char *where, int64_t *length) {
    int64_t shape[MUSTER_MAX_DIMS] = {0};
    int32_t ndim = reduce_shape(x, axes, shape, length);
    MUSTER_TRY(mst_op_shape(where, "y", y, ndim, shape));
    if (*length > 0 || op == MUSTER_SUM || op == MUSTER_PROD) return mst_op_check_results(operation, MST_TENSORS(x, y), where);
    char text[128];
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: x: expected at least one element to take the %s of, received shape %s", where,
                     mst_reduction_name(op), mst_shape_text(text, x->ndim, x->shape));
}

muster_status mst_reduce_axes_set(const char *where, const muster_tensor *x, int32_t given, uint32_t *axes) {
    *axes = given == -1 ? reduce_all_axes(x) : (uint32_t)given;
    if ((*axes & ~reduce_all_axes(x)) == 0) return MUSTER_OK;
    return mst_error(MUSTER_OUT_OF_RANGE, "%s: axes: expected -1 (all) or bits 1 << axis of axes of x, which are below %d, received 0x%x",
                     where, x->ndim, (unsigned)given);
}

muster_status mst_reduce_check(const muster_worker *worker, const mst_op_row *operation, const muster_tensor *const *t, muster_reduction op,
                               int32_t given, const char *where, uint32_t *axes, int64_t *length) {
    MUSTER_TRY(reduce_check_operands(worker, t[0], t[1], op, where));
    MUSTER_TRY(mst_reduce_axes_set(where, t[0], given, axes));
    return reduce_check_shapes(operation, t[0], t[1], op, *axes, where, length);
}

static muster_status reduce_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                  const char *where) {
    const muster_reduction op = (muster_reduction)values[0].integer;
    int64_t length;
    uint32_t axes;
    MUSTER_TRY(reduce_check_operands(worker, t[0], t[1], op, where));
    MUSTER_TRY(reduce_axis(where, t[0], (int32_t)values[1].integer, &axes));
    return reduce_check_shapes(&mst_operation_reduce, t[0], t[1], op, axes, where, &length);
}

void mst_reduce_infer(uint32_t axes, muster_tensor *tensors) {
    int64_t shape[MUSTER_MAX_DIMS] = {0}, length;
    int32_t ndim = reduce_shape(&tensors[0], axes, shape, &length);
    tensors[1] = muster_tensor_make(tensors[0].dtype, tensors[1].data, ndim, shape);
}

static muster_status reduce_infer(const mst_op_value *values, muster_tensor *tensors, const char *where) {
    uint32_t axes;
    MUSTER_TRY(reduce_axis(where, &tensors[0], (int32_t)values[1].integer, &axes));
    mst_reduce_infer(axes, tensors);
    return MUSTER_OK;
}

static muster_status reduce_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_reduce(worker, (muster_reduction)v[0].integer, t[0], (int32_t)v[1].integer, t[1]);
}

const char *const mst_reduce_names[] = {"", "sum", "prod", "max", "min", "avg", NULL};

const mst_kernel mst_reduce_kernel = {.host = mst_reduce_host, .issue = reduce_issue};

const mst_op_row mst_operation_reduce = {
    MST_OPERATION_ROW(reduce, muster_reduce),
    .operands = {{"x", "*", MST_IN}, {"y", "?", MST_OUT | MST_IN_PLACE}},
    .attributes = {{"op", MST_CHOICE, mst_reduce_names}, {"axis", MST_INTEGER}},
    .dtypes = MST_ALL_DTYPES,
    .takes = mst_reduce_takes,
    .check = reduce_check,
    .infer = reduce_infer,
    .run = reduce_run,
    .kernel = &mst_reduce_kernel,
    .code = mst_reduce_code,
    .code_count = MST_REDUCE_CODE,
    .error = MST_FLOAT_ERRORS,
};

muster_status mst_reduce_launch(muster_worker *worker, muster_reduction op, const muster_tensor *x, uint32_t axes, const muster_tensor *y,
                                int64_t length, int64_t all) {
    const double divisor = op == MUSTER_AVG ? (double)all : 1;
    if (axes == reduce_all_axes(x) && reduce_quickly(worker, op, x, y, length, divisor)) return MUSTER_OK;
    mst_reduce_request p = {.x = *x, .y = *y, .length = length, .divisor = divisor, .op = op, .axes = axes};
    int64_t results = muster_tensor_count(*y);
    if (results == 0) return MUSTER_OK;
    if (results > 1 && mst_device_is_host(worker->device)) MUSTER_TRY(mst_worker_scratch_bytes(worker, results * 8, &p.sums));
    return mst_op_launch(worker, &mst_reduce_kernel, &p, sizeof p);
}

static MST_ALWAYS_INLINE muster_status reduce(muster_worker *worker, muster_reduction op, const muster_tensor *x, int32_t axis,
                                              const muster_tensor *y, const char *where) {
    int64_t length = 0;
    uint32_t axes;
    MUSTER_TRY(reduce_check_operands(worker, x, y, op, where));
    MUSTER_TRY(reduce_axis(where, x, axis, &axes));
    MUSTER_TRY(reduce_check_shapes(&mst_operation_reduce, x, y, op, axes, where, &length));
    return mst_reduce_launch(worker, op, x, axes, y, length, length);
}

muster_status muster_reduce(muster_worker *worker, muster_reduction op, muster_tensor x, int32_t axis, muster_tensor y) {
    MST_OP_WORKER(worker);
    return reduce(worker, op, &x, axis, &y, __func__);
}

muster_status muster_mean(muster_worker *worker, muster_tensor x, muster_tensor y) {
    MST_OP_WORKER(worker);
    return reduce(worker, MUSTER_AVG, &x, -1, &y, __func__);
}

muster_status muster_sum(muster_worker *worker, muster_tensor x, muster_tensor y) {
    MST_OP_WORKER(worker);
    return reduce(worker, MUSTER_SUM, &x, -1, &y, __func__);
}
