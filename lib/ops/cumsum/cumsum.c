/* y[..., i, ...] = x[..., 0, ...] + ... + x[..., i, ...] along an axis. */
#include "../rows_private.h"

/* ADJACENT rows at a time, whose sums stay in the first cache; by themselves if they are fewer than
 * FEWEST. */
enum { ADJACENT = 256, FEWEST = 8 };

#define MST_INLINE_HALVES
#include "half_impl.h"

/* Sums of halves and of f32 in a wider dtype. */
static inline void cumsum_store_float(muster_dtype dtype, char *to, double sum) {
    if (dtype == MUSTER_F64)
        *(double *)(void *)to = sum;
    else
        *(float *)(void *)to = (float)sum;
}

/* The low bits. */
static inline void cumsum_store_integer(muster_dtype dtype, char *to, uint64_t sum) {
    switch (dtype) {
    case MUSTER_I64:
    case MUSTER_U64:
        *(uint64_t *)(void *)to = sum;
        break;
    case MUSTER_I32:
    case MUSTER_U32:
        *(uint32_t *)(void *)to = (uint32_t)sum;
        break;
    case MUSTER_I16:
        *(uint16_t *)(void *)to = (uint16_t)sum;
        break;
    default:
        *(uint8_t *)(void *)to = (uint8_t)sum;
    }
}

#define MST_LOOPS "cumsum/cumsum_loops.h"
#include "../each_float_loops.h"
#include "../each_integer_loops.h"

static void wide_bool(void *context, char *const *at, const int64_t *stride, int64_t n) {
    const mst_rows_parameters *p = context;
    for (int64_t i = 0; i < n; i++) {
        const char *x = at[0] + i * stride[0];
        char *y = at[1] + i * stride[1];
        uint64_t sum = 0;
        for (int64_t j = 0; j < p->length; j++) {
            sum += x[j * p->stride[0]] != 0;
            cumsum_store_integer(p->result, y + j * p->stride[1], sum);
        }
    }
}

static muster_status cumsum_host(const void *parameters) {
    mst_rows_parameters p = *(const mst_rows_parameters *)parameters;
#define ROW(NAME, name, ...) [MUSTER_##NAME] = rows_##name,
    static const mst_iterator_loop loops[MST_DTYPE_COUNT] = {MST_EACH_FLOAT(ROW) MST_EACH_SIGNED(ROW) MST_EACH_UNSIGNED(ROW)};
#undef ROW
#define ROW(NAME, name, ...) [MUSTER_##NAME] = wide_##name,
    static const mst_iterator_loop wide[MST_DTYPE_COUNT] = {MST_EACH_FLOAT(ROW) MST_EACH_SIGNED(ROW) MST_EACH_UNSIGNED(ROW)
                                                                ROW(BOOL, bool)};
#undef ROW
    mst_iterator_run(&p.rows, p.dtype == p.result ? loops[p.dtype] : wide[p.dtype], &p);
    return MUSTER_OK;
}

/* Kernels of the device code. */
enum { CHUNKS, OFFSETS, WRITE };
static mst_code_kernel cumsum_code[] = {
    [CHUNKS] = {.name = "mst_cumsum_chunks"}, [OFFSETS] = {.name = "mst_cumsum_offsets"}, [WRITE] = {.name = "mst_cumsum"}};

/* A long row is cut into chunks, each of which a thread sums: about as many as a chunk has
 * elements, but no more than fill a device. */
static muster_status cumsum_issue(muster_worker *worker, const void *parameters) {
    enum { LEAST = 64, MOST_THREADS = 1 << 16 };
    mst_rows_parameters p = *(const mst_rows_parameters *)parameters;
    p.chunk = LEAST;
    while (p.chunk * p.chunk < p.length || p.count * ((p.length + p.chunk - 1) / p.chunk) > MOST_THREADS) {
        if (p.chunk >= p.length) break;
        p.chunk *= 2;
    }
    p.chunks = (p.length + p.chunk - 1) / p.chunk;
    if (p.chunks > 1) {
        MUSTER_TRY(mst_worker_scratch_bytes(worker, p.count * p.chunks * 8, &p.work));
        MUSTER_TRY(mst_op_code(worker, &cumsum_code[CHUNKS], p.count * p.chunks, &p, sizeof p));
        MUSTER_TRY(mst_op_code(worker, &cumsum_code[OFFSETS], p.count, &p, sizeof p));
    }
    return mst_op_code(worker, &cumsum_code[WRITE], p.count * p.chunks, &p, sizeof p);
}

static const mst_kernel cumsum_kernel = {.host = cumsum_host, .issue = cumsum_issue};

/* y may have the dtype in which the sums are computed. */
static muster_status cumsum_check_dtypes(const char *where, muster_dtype x, muster_dtype y) {
    char text[128];
    const bool is_float = mst_dtype_is_float(x);
    if (is_float ? mst_dtype_is_float(y) && mst_dtype_upcasts(x, y) : y == mst_dtype_summed(x)) return MUSTER_OK;
    if (x == MUSTER_BOOL) return mst_op_refuse_dtype(where, "x", mst_dtypes_text(text, MST_NUMBER_DTYPES), x);
    return mst_op_same_dtype(where, "y", y, "x", x);
}

static muster_status cumsum_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                  const char *where) {
    const muster_tensor *x = t[0], *y = t[1];
    MUSTER_TRY(mst_op_check(worker, x, where, "x"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    MUSTER_TRY(cumsum_check_dtypes(where, x->dtype, y->dtype));
    MUSTER_TRY(mst_rows_check_axes(where, "x", x, 1));
    if (values[0].integer < 0 || values[0].integer >= x->ndim)
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: axis: expected an axis of x, 0 or more and below %d, received %lld", where, x->ndim,
                         (long long)values[0].integer);
    MUSTER_TRY(mst_op_same_shape(where, "y", y, "x", x));
    return mst_op_check_results(&mst_operation_cumsum, t, where);
}

static muster_status cumsum_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_cumsum(worker, t[0], (int32_t)v[0].integer, t[1]);
}

const mst_op_row mst_operation_cumsum = {
    MST_OPERATION_ROW(cumsum, muster_cumsum),
    .operands = {{"x", "*", MST_IN}, {"y", "*", MST_OUT | MST_IN_PLACE}},
    .attributes = {{"axis", MST_INTEGER}},
    .dtypes = MST_NUMBER_DTYPES,
    .check = cumsum_check,
    .run = cumsum_run,
    .kernel = &cumsum_kernel,
    MST_CODE(cumsum_code),
    .error = MST_FLOAT_ERRORS,
};

muster_status mst_cumsum_launch(muster_worker *worker, const muster_tensor *x, int32_t axis, const muster_tensor *y) {
    mst_rows_parameters p = {0};
    mst_rows_make(&p, axis, 2, MST_TENSORS(x, y));
    p.result = y->dtype;
    return p.count == 0 || p.length == 0 ? MUSTER_OK : mst_op_launch(worker, &cumsum_kernel, &p, sizeof p);
}

muster_status muster_cumsum(muster_worker *worker, muster_tensor x, int32_t axis, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(cumsum_check(worker, MST_TENSORS(&x, &y), (const mst_op_value[]){{.integer = axis}}, __func__));
    return mst_cumsum_launch(worker, &x, axis, &y);
}
