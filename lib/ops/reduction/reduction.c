/* Combines the values of several workers or slices: the only table of dtype x reduction, and its
 * loops. */
#include "../op_impl.h"
#include "half_impl.h"
#include "reduction_parameters_private.h"

#include <math.h>

enum { REDUCTIONS = MUSTER_AVG + 1 };

const char *mst_reduction_name(muster_reduction op) {
    static const char *const names[REDUCTIONS] = {"unknown", "sum", "prod", "max", "min", "avg"};
    return op > 0 && op < REDUCTIONS ? names[op] : names[0];
}

muster_status mst_reduction_check(muster_reduction op, muster_dtype dtype, const char *where) {
    return mst_reduction_check_as("op", op, dtype, where);
}

muster_status mst_reduction_check_as(const char *what, muster_reduction op, muster_dtype dtype, const char *where) {
    if (op <= 0 || op >= REDUCTIONS)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected MUSTER_SUM, PROD, MAX, MIN or AVG, received %d", where, what, op);
    if (dtype <= 0 || dtype >= MST_DTYPE_COUNT)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: dtype: expected a dtype, received %d", where, dtype);
    if (op == MUSTER_AVG && dtype == MUSTER_BOOL)
        return mst_error(MUSTER_UNSUPPORTED, "%s: %s: avg of bool is refused: expected a float dtype, received bool: copy to one first",
                         where, what);
    if (op == MUSTER_AVG && !mst_dtype_is_float(dtype))
        return mst_error(
            MUSTER_UNSUPPORTED,
            "%s: %s: avg of %s is refused: expected a float dtype, received %s: an integer average is not exact; use sum and divide", where,
            what, muster_dtype_name(dtype), muster_dtype_name(dtype));
    if (op == MUSTER_SUM && dtype == MUSTER_BOOL)
        return mst_error(MUSTER_UNSUPPORTED,
                         "%s: %s: sum of bool is refused: expected a dtype of numbers, received bool: copy to one first, or use max for or",
                         where, what);
    return MUSTER_OK;
}

/* Stores two cache lines with stores that bypass the cache, or with ordinary stores if the target
 * has no such stores. */
enum { STREAM_BYTES = 128 };
#if defined(__SSE2__)
#include <emmintrin.h>
static inline __attribute__((always_inline)) void stream(void *to, const void *from) {
    __m128i *lines = to;
    const __m128i *values = from;
    for (int i = 0; i < STREAM_BYTES / 16; i++) _mm_stream_si128(lines + i, _mm_load_si128(values + i));
}
static void stream_end(void) { _mm_sfence(); }
#else
static void stream(void *to, const void *from) { __builtin_memcpy(to, from, STREAM_BYTES); }
static void stream_end(void) {}
#endif

/* This file is compiled without contraction to fused multiply-adds, so the results have the same
 * bits on every processor and in every loop with the same formula. */
#define MST_LOOPS "each_reduction_loops.h"
#define MST_REDUCTION "reduction/combine_loops.h"
#define MST_INLINE_HALVES
#include "../each_float_loops.h"
#include "../each_integer_loops.h"
#undef MST_LOOPS
#undef MST_REDUCTION

#define T uint8_t
#define C uint8_t
#define LOAD 0 !=
#define STORE MST_STORE_PLAIN
#define FUNCTION and_bool
#define FIRST u
#define NEXT (a != 0) & v
#include "combine_loops.h"
#define FUNCTION or_bool
#define FIRST u
#define NEXT (a != 0) | v
#include "combine_loops.h"
#undef T
#undef C
#undef LOAD
#undef STORE

typedef struct combine {
    void (*accumulate)(void *accumulator, const void *values, int64_t count, double scale, bool first);
    void (*pair)(void *x, void *y, const void *first, const void *second, int64_t count, double scale);
    void (*stream)(void *x, void *y, const void *first, const void *second, int64_t count, double scale);
} combine;
#define ENTRY(name) \
    { name, name##_pair, name##_stream }
#define FLOAT_ROW(NAME, name, ...)                         \
    [MUSTER_##NAME] = {[MUSTER_SUM] = ENTRY(sum_##name),   \
                       [MUSTER_PROD] = ENTRY(prod_##name), \
                       [MUSTER_MAX] = ENTRY(max_##name),   \
                       [MUSTER_MIN] = ENTRY(min_##name),   \
                       [MUSTER_AVG] = ENTRY(avg_##name)},
#define INTEGER_ROW(NAME, name, T)                         \
    [MUSTER_##NAME] = {[MUSTER_SUM] = ENTRY(sum_##name),   \
                       [MUSTER_PROD] = ENTRY(prod_##name), \
                       [MUSTER_MAX] = ENTRY(max_##name),   \
                       [MUSTER_MIN] = ENTRY(min_##name)},
static const combine loops[MST_DTYPE_COUNT][REDUCTIONS] = {
    MST_EACH_FLOAT(FLOAT_ROW) MST_EACH_SIGNED(INTEGER_ROW) MST_EACH_UNSIGNED(INTEGER_ROW)[MUSTER_BOOL] = {
        [MUSTER_PROD] = ENTRY(and_bool), [MUSTER_MAX] = ENTRY(or_bool), [MUSTER_MIN] = ENTRY(and_bool)}};

void mst_reduction_accumulate(muster_reduction op, muster_dtype dtype, void *accumulator, const void *values, int64_t count, double scale,
                              bool first) {
    loops[dtype][op].accumulate(accumulator, values, count, scale, first);
}

void mst_reduction_pair(muster_reduction op, muster_dtype dtype, void *x, void *y, const void *a, const void *b, int64_t count,
                        double scale) {
    loops[dtype][op].pair(x, y, a, b, count, scale);
}

void mst_reduction_pair_stream(muster_reduction op, muster_dtype dtype, void *x, void *y, const void *a, const void *b, int64_t count,
                               double scale) {
    loops[dtype][op].stream(x, y, a, b, count, scale);
    stream_end();
}

#define MST_LOOPS "reduction/update_loops.h"
#include "../each_float_loops.h"

typedef struct update {
    void (*momentum)(void *x, const void *parameter, void *velocity, const void *sum, int64_t count, double alpha, double beta);
    void (*sum)(void *x, const void *parameter, const void *sum, int64_t count, double alpha);
    void (*pair)(void *x, void *y, const void *parameter, const void *first, const void *second, int64_t count, double alpha);
    void (*stream)(void *x, void *y, const void *parameter, const void *first, const void *second, int64_t count, double alpha);
    void (*momentum_pair)(void *x, void *y, const void *parameter, void *velocity, const void *first, const void *second, int64_t count,
                          double alpha, double beta);
    void (*momentum_stream)(void *x, void *y, const void *parameter, void *velocity, const void *first, const void *second, int64_t count,
                            double alpha, double beta);
} update;
#define UPDATE_ROW(NAME, name, ...) \
    [MUSTER_##                      \
        NAME] = {momentum_##name, update_##name, update_pair_##name, update_stream_##name, momentum_pair_##name, momentum_stream_##name},
static const update updates[MST_DTYPE_COUNT] = {MST_EACH_FLOAT(UPDATE_ROW)};

void mst_reduction_update(muster_dtype dtype, void *x, const void *parameter, const void *sum, int64_t count, double alpha) {
    updates[dtype].sum(x, parameter, sum, count, alpha);
}

void mst_reduction_momentum(muster_dtype dtype, void *x, const void *parameter, void *velocity, const void *sum, int64_t count,
                            double alpha, double beta) {
    updates[dtype].momentum(x, parameter, velocity, sum, count, alpha, beta);
}

void mst_reduction_momentum_pair(muster_dtype dtype, void *x, void *y, const void *parameter, void *velocity, const void *a, const void *b,
                                 int64_t count, double alpha, double beta) {
    updates[dtype].momentum_pair(x, y, parameter, velocity, a, b, count, alpha, beta);
}

void mst_reduction_momentum_stream(muster_dtype dtype, void *x, void *y, const void *parameter, void *velocity, const void *a,
                                   const void *b, int64_t count, double alpha, double beta) {
    updates[dtype].momentum_stream(x, y, parameter, velocity, a, b, count, alpha, beta);
    stream_end();
}

void mst_reduction_update_pair(muster_dtype dtype, void *x, void *y, const void *parameter, const void *a, const void *b, int64_t count,
                               double alpha) {
    updates[dtype].pair(x, y, parameter, a, b, count, alpha);
}

void mst_reduction_update_stream(muster_dtype dtype, void *x, void *y, const void *parameter, const void *a, const void *b, int64_t count,
                                 double alpha) {
    updates[dtype].stream(x, y, parameter, a, b, count, alpha);
    stream_end();
}

double mst_reduction_identity_number(muster_reduction op, muster_dtype dtype) {
    static const double lowest[MST_DTYPE_COUNT] = {
        [MUSTER_F16] = -INFINITY, [MUSTER_BF16] = -INFINITY, [MUSTER_F32] = -INFINITY, [MUSTER_F64] = -INFINITY,
        [MUSTER_I8] = INT8_MIN,   [MUSTER_I16] = INT16_MIN,  [MUSTER_I32] = INT32_MIN, [MUSTER_I64] = (double)INT64_MIN};
    /* The conversion to integers saturates; the conversion to bool gives 1 for every value but
     * 0. */
    return op == MUSTER_PROD ? 1 : op == MUSTER_MAX ? lowest[dtype] : op == MUSTER_MIN ? INFINITY : 0;
}

void mst_reduction_identity(muster_reduction op, muster_dtype compute_dtype, void *accumulator, int64_t count) {
    const double value = mst_reduction_identity_number(op, compute_dtype);
    uint64_t element = 0;
    mst_convert(compute_dtype, &element, MUSTER_F64, &value, 1);
    int64_t size = muster_dtype_size(compute_dtype);
    for (int64_t i = 0; i < count; i++) __builtin_memcpy((char *)accumulator + i * size, &element, (size_t)size);
}

static muster_status accumulate_kernel(const void *parameters) {
    const mst_accumulate_parameters *p = parameters;
    mst_reduction_accumulate(p->op, p->dtype, p->accumulator, p->values, p->count, p->scale, p->first);
    return MUSTER_OK;
}

static int64_t accumulate_work(const void *parameters) { return ((const mst_accumulate_parameters *)parameters)->count; }

muster_status mst_worker_accumulate(muster_worker *worker, muster_reduction op, muster_dtype dtype, void *accumulator, const void *values,
                                    int64_t count, double scale, bool first) {
    static mst_code_kernel code = {.name = "mst_accumulate"};
    static const mst_kernel kernel = {.host = accumulate_kernel, .code = &code, .work = accumulate_work};
    MUSTER_TRY(mst_reduction_check(op, dtype, "mst_worker_accumulate"));
    if (count == 0) return MUSTER_OK;
    mst_accumulate_parameters p = {accumulator, (void *)values, count, scale, op, dtype, first};
    return mst_op_launch(worker, &kernel, &p, sizeof p);
}

static muster_status update_kernel(const void *parameters) {
    const mst_update_parameters *p = parameters;
    if (p->velocity)
        mst_reduction_momentum(p->dtype, p->x, p->parameter, p->velocity, p->sum, p->count, p->alpha, p->beta);
    else
        mst_reduction_update(p->dtype, p->x, p->parameter, p->sum, p->count, p->alpha);
    return MUSTER_OK;
}

static int64_t update_work(const void *parameters) { return ((const mst_update_parameters *)parameters)->count; }

muster_status mst_worker_update(muster_worker *worker, muster_dtype dtype, void *x, const void *parameter, void *velocity, const void *sum,
                                int64_t count, double alpha, double beta) {
    static mst_code_kernel code = {.name = "mst_update"};
    static const mst_kernel kernel = {.host = update_kernel, .code = &code, .work = update_work};
    if (count == 0) return MUSTER_OK;
    mst_update_parameters p = {x, (void *)parameter, velocity, (void *)sum, count, alpha, beta, dtype};
    return mst_op_launch(worker, &kernel, &p, sizeof p);
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

/* Converts a row with the kernel of copy. Even bool to bool is converted, which turns every byte
 * but 0 into 1. */
static muster_status convert_issue(muster_worker *worker, const void *parameters) {
    static mst_code_kernel code = {.name = "mst_copy"};
    const convert_parameters *p = parameters;
    muster_tensor from = muster_tensor_make(p->from_dtype, p->from, 1, &p->count), to = muster_tensor_make(p->dtype, p->to, 1, &p->count);
    bool same = p->dtype == p->from_dtype && p->dtype != MUSTER_BOOL;
    return mst_op_elements(
        worker, &code,
        &(mst_element_parameters){.dtype = p->dtype, .op = same ? 0 : p->from_dtype, .element = (uint64_t)muster_dtype_size(p->dtype)}, 2,
        (const muster_tensor *[]){&from, &to});
}

muster_status mst_worker_convert(muster_worker *worker, muster_dtype dtype, void *to, muster_dtype from_dtype, const void *from,
                                 int64_t count) {
    static const mst_kernel kernel = {.host = convert_kernel, .issue = convert_issue};
    if (count == 0) return MUSTER_OK;
    convert_parameters p = {to, (void *)from, count, dtype, from_dtype};
    return mst_op_launch(worker, &kernel, &p, sizeof p);
}
