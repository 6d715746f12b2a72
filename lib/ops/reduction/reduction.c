/* How values of several workers or slices are combined: the one table of dtype x reduction, and its loops. */
#include "../op_impl.h"

#include <math.h>

enum { REDUCTIONS = MUSTER_AVG + 1 };

const char *mst_reduction_name(muster_reduction op) {
    static const char *const names[REDUCTIONS] = {"unknown", "sum", "prod", "max", "min", "avg"};
    return op > 0 && op < REDUCTIONS ? names[op] : names[0];
}

muster_status mst_reduction_check(muster_reduction op, muster_dtype dtype, const char *where) {
    if (op <= 0 || op >= REDUCTIONS)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: op: expected MUSTER_SUM, PROD, MAX, MIN or AVG, received %d", where, op);
    if (dtype <= 0 || dtype >= MUSTER_DTYPE_COUNT) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: dtype: expected a dtype, received %d", where, dtype);
    if (op == MUSTER_AVG && dtype == MUSTER_BOOL) return mst_error(MUSTER_UNSUPPORTED, "%s: avg of bool is refused: copy to a float dtype first", where);
    if (op == MUSTER_AVG && !mst_dtype_is_float(dtype))
        return mst_error(MUSTER_UNSUPPORTED, "%s: avg of %s is refused: an integer average is not exact; use sum and divide", where,
                         muster_dtype_name(dtype));
    if (op == MUSTER_SUM && dtype == MUSTER_BOOL)
        return mst_error(MUSTER_UNSUPPORTED, "%s: sum of bool is refused: copy to an integer dtype first, or use max for or", where);
    return MUSTER_OK;
}

/* Accumulators are in the compute dtype C; op(accumulator a, value v). */
#define LOOP(NAME, T, C, LOAD, EXPRESSION)                                                                               \
    MST_CLONES static void NAME(void *accumulator, const void *values, int64_t count, double scale, bool first) {        \
        C *restrict to = accumulator;                                                                                    \
        const T *restrict from = values;                                                                                 \
        (void)scale;                                                                                                     \
        if (first)                                                                                                       \
            for (int64_t i = 0; i < count; i++) to[i] = (C)LOAD(from[i]);                                                \
        else                                                                                                             \
            for (int64_t i = 0; i < count; i++) {                                                                        \
                C a = to[i], v = (C)LOAD(from[i]);                                                                       \
                to[i] = (C)(EXPRESSION);                                                                                 \
            }                                                                                                            \
    }
/* The scaled value is rounded once, with the sum, so that weights such as 1/3 add up. */
#define AVERAGE(NAME, T, C, LOAD)                                                                                        \
    MST_CLONES static void NAME(void *accumulator, const void *values, int64_t count, double scale, bool first) {        \
        C *restrict to = accumulator;                                                                                    \
        const T *restrict from = values;                                                                                 \
        if (first)                                                                                                       \
            for (int64_t i = 0; i < count; i++) to[i] = (C)(scale * (double)LOAD(from[i]));                              \
        else                                                                                                             \
            for (int64_t i = 0; i < count; i++) to[i] = (C)((double)to[i] + scale * (double)LOAD(from[i]));              \
    }
#define FLOAT_LOOPS(NAME, name, T, C, LOAD, STORE)                \
    LOOP(sum_##name, T, C, LOAD, a + v)                           \
    LOOP(prod_##name, T, C, LOAD, a *v)                           \
    LOOP(max_##name, T, C, LOAD, (v > a || v != v) ? v : a)       \
    LOOP(min_##name, T, C, LOAD, (v < a || v != v) ? v : a)       \
    AVERAGE(avg_##name, T, C, LOAD)
#define INTEGER_LOOPS(NAME, name, T)                                            \
    LOOP(sum_##name, T, T, MST_LOAD_PLAIN, (uint64_t)a + (uint64_t)v)           \
    LOOP(prod_##name, T, T, MST_LOAD_PLAIN, (uint64_t)a *(uint64_t)v)           \
    LOOP(max_##name, T, T, MST_LOAD_PLAIN, v > a ? v : a)                       \
    LOOP(min_##name, T, T, MST_LOAD_PLAIN, v < a ? v : a)
MST_EACH_FLOAT(FLOAT_LOOPS)
MST_EACH_SIGNED(INTEGER_LOOPS)
MST_EACH_UNSIGNED(INTEGER_LOOPS)
LOOP(and_bool, uint8_t, uint8_t, 0 !=, (a != 0) & v)
LOOP(or_bool, uint8_t, uint8_t, 0 !=, (a != 0) | v)

typedef void (*combine)(void *accumulator, const void *values, int64_t count, double scale, bool first);
#define FLOAT_ROW(NAME, name, ...)                                                                                                     \
    [MUSTER_##NAME] = {[MUSTER_SUM] = sum_##name, [MUSTER_PROD] = prod_##name, [MUSTER_MAX] = max_##name, [MUSTER_MIN] = min_##name,   \
                       [MUSTER_AVG] = avg_##name},
#define INTEGER_ROW(NAME, name, T) \
    [MUSTER_##NAME] = {[MUSTER_SUM] = sum_##name, [MUSTER_PROD] = prod_##name, [MUSTER_MAX] = max_##name, [MUSTER_MIN] = min_##name},
static const combine loops[MUSTER_DTYPE_COUNT][REDUCTIONS] = {
    MST_EACH_FLOAT(FLOAT_ROW) MST_EACH_SIGNED(INTEGER_ROW) MST_EACH_UNSIGNED(INTEGER_ROW)
    [MUSTER_BOOL] = {[MUSTER_PROD] = and_bool, [MUSTER_MAX] = or_bool, [MUSTER_MIN] = and_bool}};

void mst_reduction_accumulate(muster_reduction op, muster_dtype dtype, void *accumulator, const void *values, int64_t count, double scale, bool first) {
    loops[dtype][op](accumulator, values, count, scale, first);
}

void mst_reduction_identity(muster_reduction op, muster_dtype compute_dtype, void *accumulator, int64_t count) {
    static const double lowest[MUSTER_DTYPE_COUNT] = {
        [MUSTER_F16] = -INFINITY, [MUSTER_BF16] = -INFINITY, [MUSTER_F32] = -INFINITY, [MUSTER_F64] = -INFINITY,
        [MUSTER_I8] = INT8_MIN,   [MUSTER_I16] = INT16_MIN,  [MUSTER_I32] = INT32_MIN, [MUSTER_I64] = (double)INT64_MIN};
    /* The conversion to integers saturates, and that to bool asks for not 0. */
    double value = op == MUSTER_PROD ? 1 : op == MUSTER_MAX ? lowest[compute_dtype] : op == MUSTER_MIN ? INFINITY : 0;
    uint64_t element = 0;
    mst_convert(compute_dtype, &element, MUSTER_F64, &value, 1);
    int64_t size = muster_dtype_size(compute_dtype);
    for (int64_t i = 0; i < count; i++) __builtin_memcpy((char *)accumulator + i * size, &element, (size_t)size);
}

typedef struct accumulate_parameters {
    void *accumulator, *values;
    int64_t count;
    double scale;
    muster_reduction op;
    muster_dtype dtype;
    bool first;
} accumulate_parameters;

static muster_status accumulate_kernel(const void *parameters) {
    const accumulate_parameters *p = parameters;
    mst_reduction_accumulate(p->op, p->dtype, p->accumulator, p->values, p->count, p->scale, p->first);
    return MUSTER_OK;
}

muster_status mst_worker_accumulate(muster_worker *worker, muster_reduction op, muster_dtype dtype, void *accumulator, const void *values, int64_t count,
                                    double scale, bool first) {
    MUSTER_TRY(mst_reduction_check(op, dtype, "mst_worker_accumulate"));
    if (count == 0) return MUSTER_OK;
    accumulate_parameters p = {accumulator, (void *)values, count, scale, op, dtype, first};
    static const int32_t offsets[] = {offsetof(accumulate_parameters, accumulator), offsetof(accumulate_parameters, values)};
    return mst_op_launch(worker, accumulate_kernel, &p, sizeof p, offsets, 2);
}

typedef struct convert_parameters {
    void *to, *from;
    int64_t count;
    muster_dtype dtype, from_dtype;
} convert_parameters;

static muster_status convert_kernel(const void *parameters) {
    const convert_parameters *p = parameters;
    mst_convert(p->dtype, p->to, p->from_dtype, p->from, p->count);
    return MUSTER_OK;
}

muster_status mst_worker_convert(muster_worker *worker, muster_dtype dtype, void *to, muster_dtype from_dtype, const void *from, int64_t count) {
    if (count == 0) return MUSTER_OK;
    convert_parameters p = {to, (void *)from, count, dtype, from_dtype};
    static const int32_t offsets[] = {offsetof(convert_parameters, to), offsetof(convert_parameters, from)};
    return mst_op_launch(worker, convert_kernel, &p, sizeof p, offsets, 2);
}
