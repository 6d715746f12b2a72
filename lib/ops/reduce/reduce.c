/* Reduction over any set of axes. The elements are read in the order in which they lie, and each
 * is accumulated into the accumulator of its result; the stride of the accumulators is 0 along the
 * reduced axes. Sums and products of floats accumulate in double, those of integers in 64 bits,
 * which wrap to the same result. The largest and the smallest are kept in the type in which the
 * dtype is computed. */
#include "reduce_private.h"

#include "reduce_issue_private.h"

#include <string.h>

typedef struct reduce_parameters {
    muster_tensor x, y;
    void *sums; /* 8 bytes per result; NULL for a single result */
    int64_t length;
    muster_reduction op;
    uint32_t axes;
} reduce_parameters;

#define MST_INLINE_HALVES
#include "half_impl.h"
#define MST_LOOPS "reduce/reduce_loops.h"
#include "../each_float_loops.h"
#include "../each_integer_loops.h"

#define T uint8_t
#define A uint64_t
#define LOAD 0 !=
#define FUNCTION and_bool
#define RESULT a &v
#include "accumulate_loops.h"
#define FUNCTION or_bool
#define RESULT a | v
#include "accumulate_loops.h"
#undef T
#undef A
#undef LOAD

#define ROW(NAME, name, ...)                        \
    [MUSTER_##NAME] = {[MUSTER_SUM] = sum_##name,   \
                       [MUSTER_AVG] = sum_##name,   \
                       [MUSTER_PROD] = prod_##name, \
                       [MUSTER_MAX] = max_##name,   \
                       [MUSTER_MIN] = min_##name},
static const mst_iterator_loop loops[MST_DTYPE_COUNT][MUSTER_AVG + 1] = {
    MST_EACH_FLOAT(ROW) MST_EACH_SIGNED(ROW)
        MST_EACH_UNSIGNED(ROW)[MUSTER_BOOL] = {[MUSTER_PROD] = and_bool, [MUSTER_MAX] = or_bool, [MUSTER_MIN] = and_bool}};

#define SUFFIX f32
#define T float
#include "contiguous_sum_loops.h"
#define SUFFIX f64
#define T double
#include "contiguous_sum_loops.h"

static void sum_run_f32(void *context, char *const *at, const int64_t *stride, int64_t n) {
    if (stride[0] != sizeof(float) || stride[1] != 0) {
        sum_f32(context, at, stride, n);
        return;
    }
    *(double *)(void *)at[1] += contiguous_f32((const float *)(void *)at[0], n);
}

static void sum_run_f64(void *context, char *const *at, const int64_t *stride, int64_t n) {
    if (stride[0] != sizeof(double) || stride[1] != 0) {
        sum_f64(context, at, stride, n);
        return;
    }
    *(double *)(void *)at[1] += contiguous_f64((const double *)(void *)at[0], n);
}

static mst_iterator_loop loop_of(muster_reduction op, muster_dtype dtype) {
    bool sums = op == MUSTER_SUM || op == MUSTER_AVG;
    if (sums && dtype == MUSTER_F32) return sum_run_f32;
    if (sums && dtype == MUSTER_F64) return sum_run_f64;
    return loops[dtype][op];
}

/* Is the result one of the values, in the type in which the dtype is computed? */
static bool keeps_values(muster_reduction op, muster_dtype dtype) { return (op == MUSTER_MAX || op == MUSTER_MIN) && dtype != MUSTER_BOOL; }

static muster_dtype accumulator_dtype(muster_reduction op, muster_dtype dtype) {
    if (keeps_values(op, dtype)) return mst_dtype_is_float(dtype) ? mst_dtype_compute(dtype) : dtype;
    if (mst_dtype_is_float(dtype)) return MUSTER_F64;
    return dtype == MUSTER_I8 || dtype == MUSTER_I16 || dtype == MUSTER_I32 || dtype == MUSTER_I64 ? MUSTER_I64 : MUSTER_U64;
}

/* Stores the result of one accumulator in y's dtype. 64-bit sums keep their low bits; a conversion
 * would saturate. */
static void store(muster_dtype dtype, char *to, const void *accumulator, double divisor) {
    double value;
    memcpy(&value, accumulator, sizeof value);
    value /= divisor;
    if (dtype == MUSTER_F64)
        *(double *)(void *)to = value;
    else if (dtype == MUSTER_F32)
        *(float *)(void *)to = (float)value;
    else if (dtype == MUSTER_F16)
        *(uint16_t *)(void *)to = muster_f32_to_f16((float)value);
    else if (dtype == MUSTER_BF16)
        *(uint16_t *)(void *)to = muster_f32_to_bf16((float)value);
    else {
        uint64_t bits;
        memcpy(&bits, accumulator, sizeof bits);
        uint8_t low8 = (uint8_t)bits;
        uint16_t low16 = (uint16_t)bits;
        uint32_t low32 = (uint32_t)bits;
        int64_t size = muster_dtype_size(dtype);
        memcpy(to, size == 1 ? (void *)&low8 : size == 2 ? (void *)&low16 : size == 4 ? (void *)&low32 : (void *)&bits, (size_t)size);
    }
}

typedef struct store_state {
    muster_dtype dtype, accumulator;
    double divisor;
    bool keeps_values;
} store_state;

static void store_all(void *context, char *const *at, const int64_t *stride, int64_t n) {
    const store_state *state = context;
    if (state->keeps_values) {
        for (int64_t i = 0; i < n; i++) mst_convert(state->dtype, at[1] + i * stride[1], state->accumulator, at[0] + i * stride[0], 1);
        return;
    }
    for (int64_t i = 0; i < n; i++) store(state->dtype, at[1] + i * stride[1], at[0] + i * stride[0], state->divisor);
}

/* In the order of the strides of x, outermost first, unless that makes inner loops too short to be
 * worth it: then in row-major order. */
static void iterator_of_values(mst_iterator *iterator, const muster_tensor *x, const muster_tensor *accumulators) {
    enum { SHORT = 8 };
    const muster_tensor *const operands[] = {x, accumulators};
    mst_iterator_make(iterator, x->ndim, x->shape, 2, operands);
    mst_iterator ordered = *iterator;
    ordered.ndim = mst_iterator_join_as(x, 2, operands, ordered.shape, ordered.strides);
    if (ordered.shape[ordered.ndim - 1] >= SHORT) *iterator = ordered;
}

static muster_status reduce_host(const void *parameters) {
    const reduce_parameters *p = parameters;
    double single;
    void *sums = p->sums ? p->sums : &single;
    muster_tensor to = muster_tensor_make(accumulator_dtype(p->op, p->x.dtype), sums, p->y.ndim, p->y.shape), along = p->x;
    along.dtype = to.dtype, along.data = sums, along.byte_offset = 0;
    for (int32_t d = 0, y_axis = 0; d < p->x.ndim; d++) along.strides[d] = p->axes >> d & 1 ? 0 : to.strides[y_axis++];
    mst_reduction_identity(p->op, to.dtype, sums, muster_tensor_count(to));
    mst_iterator iterator;
    iterator_of_values(&iterator, &p->x, &along);
    mst_iterator_run(&iterator, loop_of(p->op, p->x.dtype), NULL);
    store_state state = {p->y.dtype, to.dtype, p->op == MUSTER_AVG ? (double)p->length : 1, keeps_values(p->op, p->x.dtype)};
    mst_iterator_make(&iterator, p->y.ndim, p->y.shape, 2, (const muster_tensor *[]){&to, &p->y});
    mst_iterator_run(&iterator, store_all, &state);
    return MUSTER_OK;
}

static muster_status reduce_issue(muster_worker *worker, const void *parameters) {
    const reduce_parameters *p = parameters;
    return mst_reduce_issue(worker, p->op, &p->x, p->axes, &p->y, p->length);
}

/* Reduces a whole contiguous f32 tensor without the iterator; this keeps mean and sum of small
 * tensors cheap. */
static bool reduce_quickly(const muster_worker *worker, muster_reduction op, const muster_tensor *x, const muster_tensor *y,
                           int64_t count) {
    if (x->dtype != MUSTER_F32 || (op != MUSTER_AVG && op != MUSTER_SUM) || !mst_device_is_host(worker->device) || worker->device->queued)
        return false;
    if (!(x->ndim == 1 && x->strides[0] == 1) && !mst_tensor_contiguous(*x)) return false;
    *(float *)muster_tensor_address(*y) =
        (float)(contiguous_f32(muster_tensor_address(*x), count) / (op == MUSTER_AVG ? (double)count : 1));
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

static MST_ALWAYS_INLINE muster_status reduce_check_operands(const muster_worker *worker, const muster_tensor *x, const muster_tensor *y,
                                                             muster_reduction op, const char *where) {
    MUSTER_TRY(mst_op_check(worker, x, where, "x"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    MUSTER_TRY(mst_reduction_check(op, x->dtype, where));
    return mst_op_same_dtype(where, "y", y->dtype, "x", x->dtype);
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

bool mst_reduce_takes(muster_dtype dtype, const mst_op_value *values) { return loops[dtype][values[0].integer] != NULL; }

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

const mst_kernel mst_reduce_kernel = {.host = reduce_host, .issue = reduce_issue};

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
                                int64_t length) {
    if (axes == reduce_all_axes(x) && reduce_quickly(worker, op, x, y, length)) return MUSTER_OK;
    reduce_parameters p = {.x = *x, .y = *y, .length = length, .op = op, .axes = axes};
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
    return mst_reduce_launch(worker, op, x, axes, y, length);
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
