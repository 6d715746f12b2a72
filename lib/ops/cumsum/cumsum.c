/* y[..., i, ...] = x[..., 0, ...] + ... + x[..., i, ...] along an axis. */
#include "../rows_private.h"

#define MST_INLINE_HALVES
#include "half_impl.h"
#define MST_LOOPS "cumsum/cumsum_loops.h"
#include "../each_float_loops.h"
#include "../each_integer_loops.h"

static muster_status cumsum_host(const void *parameters) {
    mst_rows_parameters p = *(const mst_rows_parameters *)parameters;
#define ROW(NAME, name, ...) [MUSTER_##NAME] = rows_##name,
    static const mst_iterator_loop loops[MST_DTYPE_COUNT] = {MST_EACH_FLOAT(ROW) MST_EACH_SIGNED(ROW) MST_EACH_UNSIGNED(ROW)};
#undef ROW
    mst_iterator_run(&p.rows, loops[p.dtype], &p);
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

static muster_status cumsum_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                  const char *where) {
    const muster_tensor *x = t[0], *y = t[1];
    char text[128];
    MUSTER_TRY(mst_op_check(worker, x, where, "x"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    if (x->dtype == MUSTER_BOOL) return mst_op_refuse_dtype(where, "x", mst_dtypes_text(text, MST_NUMBER_DTYPES), x->dtype);
    MUSTER_TRY(mst_op_same_dtype(where, "y", y->dtype, "x", x->dtype));
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

muster_status muster_cumsum(muster_worker *worker, muster_tensor x, int32_t axis, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(cumsum_check(worker, MST_TENSORS(&x, &y), (const mst_op_value[]){{.integer = axis}}, __func__));
    mst_rows_parameters p = {0};
    mst_rows_make(&p, axis, 2, MST_TENSORS(&x, &y));
    return p.count == 0 || p.length == 0 ? MUSTER_OK : mst_op_launch(worker, &cumsum_kernel, &p, sizeof p);
}
