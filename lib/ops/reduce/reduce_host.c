/* Reduction over any set of axes. The elements are read in the order in which they lie, and each
 * is accumulated into the accumulator of its result; the stride of the accumulators is 0 along the
 * reduced axes. Sums and products of floats accumulate in double, those of integers in 64 bits,
 * which wrap to the same result. The largest and the smallest are kept in the type in which the
 * dtype is computed. */
#include "reduce_host_private.h"

#include <string.h>

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
#define FUNCTION sum_bool
#define RESULT a + v
#include "accumulate_loops.h"
#undef A
#define A double
#define FUNCTION sum_f64_bool
#define RESULT a + v
#include "accumulate_loops.h"
#define FUNCTION prod_f64_bool
#define RESULT a *v
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
    MST_EACH_FLOAT(ROW) MST_EACH_SIGNED(ROW) MST_EACH_UNSIGNED(ROW)[MUSTER_BOOL] = {
        [MUSTER_SUM] = sum_bool, [MUSTER_PROD] = and_bool, [MUSTER_MAX] = or_bool, [MUSTER_MIN] = and_bool}};

/* Integers and truth values whose result is f64. */
#define ROW_F64(NAME, name, ...) [MUSTER_##NAME] = {[MUSTER_SUM] = sum_f64_##name, [MUSTER_PROD] = prod_f64_##name},
static const mst_iterator_loop loops_f64[MST_DTYPE_COUNT][MUSTER_PROD + 1] = {MST_EACH_SIGNED(ROW_F64) MST_EACH_UNSIGNED(ROW_F64)
                                                                                  ROW_F64(BOOL, bool)};

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

static mst_iterator_loop loop_of(muster_reduction op, muster_dtype dtype, muster_dtype result) {
    if (!mst_dtype_is_float(dtype) && mst_dtype_is_float(result)) return loops_f64[dtype][op];
    bool sums = op == MUSTER_SUM || op == MUSTER_AVG;
    if (sums && dtype == MUSTER_F32) return sum_run_f32;
    if (sums && dtype == MUSTER_F64) return sum_run_f64;
    return loops[dtype][op];
}

/* True if the result is one of the values, as max and min are. */
static bool keeps_values(muster_reduction op, muster_dtype dtype) { return (op == MUSTER_MAX || op == MUSTER_MIN) && dtype != MUSTER_BOOL; }

static muster_dtype accumulator_dtype(muster_reduction op, muster_dtype dtype, muster_dtype result) {
    if (keeps_values(op, dtype)) return mst_dtype_is_float(dtype) ? mst_dtype_compute(dtype) : dtype;
    if (mst_dtype_is_float(dtype) || mst_dtype_is_float(result)) return MUSTER_F64;
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

muster_status mst_reduce_host(const void *parameters) {
    const mst_reduce_request *p = parameters;
    double single;
    void *sums = p->sums ? p->sums : &single;
    muster_tensor to = muster_tensor_make(accumulator_dtype(p->op, p->x.dtype, p->y.dtype), sums, p->y.ndim, p->y.shape), along = p->x;
    along.dtype = to.dtype, along.data = sums, along.byte_offset = 0;
    for (int32_t d = 0, y_axis = 0; d < p->x.ndim; d++) along.strides[d] = p->axes >> d & 1 ? 0 : to.strides[y_axis++];
    mst_reduction_identity(p->op, to.dtype, sums, muster_tensor_count(to));
    mst_iterator iterator;
    iterator_of_values(&iterator, &p->x, &along);
    mst_iterator_run(&iterator, loop_of(p->op, p->x.dtype, p->y.dtype), NULL);
    store_state state = {p->y.dtype, to.dtype, p->divisor, keeps_values(p->op, p->x.dtype)};
    mst_iterator_make(&iterator, p->y.ndim, p->y.shape, 2, (const muster_tensor *[]){&to, &p->y});
    mst_iterator_run(&iterator, store_all, &state);
    return MUSTER_OK;
}

bool mst_reduce_takes(muster_dtype dtype, const mst_op_value *values) {
    const bool counts = dtype == MUSTER_BOOL && values[0].integer == MUSTER_SUM; /* which are no truth values */
    return loops[dtype][values[0].integer] && !counts;
}

double mst_reduce_contiguous_f32(const float *x, int64_t n) { return contiguous_f32(x, n); }
