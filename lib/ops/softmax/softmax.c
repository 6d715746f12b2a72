/* y = exp(x - top) / sum(exp(x - top)) along the last axis, where top is the row's largest element.
 * logsumexp = top + log(sum), and log_softmax = (x - top) - log(sum). */
#include "softmax_private.h"

#include "../half_blocks_private.h"
#include "../vector_math_private.h"

#include <math.h>

/* ADJACENT: so many rows that lie beside each other are computed at a time, so that their sums stay
 * in the second cache and memory is read in its order; fewer than FEWEST by themselves. The
 * scratch memory has so many numbers for each of them: lanes of sums, a sum of them, and others. */
enum { BLOCK = 256, LANES = 16, ADJACENT = 1024, FEWEST = 8 };
enum { SUMS_AT = LANES + 1, LOGARITHM_AT, TOP_AT, FACTOR_AT, VALUES_AT, NUMBERS };

#define MST_INLINE_HALVES
#include "half_impl.h"
#define EXP(value) _Generic((value), float : mst_vector_expf, double : exp)(value)
#define MST_LOOPS "softmax/softmax_loops.h"
#include "../each_float_loops.h"

static muster_status softmax_host(const void *parameters) {
    mst_rows_parameters p = *(const mst_rows_parameters *)parameters;
#define ROW(NAME, name, ...) [MUSTER_##NAME] = rows_##name,
    static const mst_iterator_loop loops[MST_DTYPE_COUNT] = {MST_EACH_FLOAT(ROW)};
#undef ROW
    mst_iterator_run(&p.rows, loops[p.dtype], &p);
    return MUSTER_OK;
}

/* Kernels of the device code. */
enum { BY_THREADS, BY_BLOCKS };
mst_code_kernel mst_softmax_code[MST_SOFTMAX_CODE] = {
    [BY_THREADS] = {.name = "mst_softmax_rows_threads"}, [BY_BLOCKS] = {.name = "mst_softmax_rows_blocks", .blocks = true}};

static muster_status softmax_issue(muster_worker *worker, const void *parameters) {
    enum { FEW = 64 };
    const mst_rows_parameters *p = parameters;
    return mst_op_code(worker, &mst_softmax_code[p->length <= FEW ? BY_THREADS : BY_BLOCKS], p->count, p, sizeof *p);
}

const mst_kernel mst_softmax_kernel = {.host = softmax_host, .issue = softmax_issue};

static bool rows_are_adjacent(const mst_rows_parameters *p) {
    const int64_t size = muster_dtype_size(p->dtype);
    const int32_t last = p->rows.ndim - 1;
    return p->rows.strides[0][last] == size && p->stride[0] != size && p->rows.shape[last] >= FEWEST;
}

muster_status mst_softmax_launch(muster_worker *worker, mst_softmax_op op, int32_t operands, const muster_tensor *const *tensors) {
    mst_rows_parameters p = {.op = op};
    mst_rows_make(&p, tensors[0]->ndim - 1, operands, tensors);
    if (p.count == 0 || (p.length == 0 && op != MST_LOGSUMEXP)) return MUSTER_OK;
    const int64_t mark = muster_worker_scratch_mark(worker);
    if (mst_device_is_host(worker->device) && op < MST_SOFTMAX_GRADIENT && rows_are_adjacent(&p))
        MUSTER_TRY(mst_worker_scratch_bytes(worker, NUMBERS * ADJACENT * (int64_t)sizeof(double), &p.work));
    MUSTER_TRY(mst_op_launch(worker, &mst_softmax_kernel, &p, sizeof p));
    return p.work ? muster_worker_scratch_release(worker, mark) : MUSTER_OK;
}

/* One operand that has the dtype and the shape of the first. */
static muster_status check_like(const muster_tensor *x, const char *other_what, const muster_tensor *other, const char *where,
                                const char *what) {
    MUSTER_TRY(mst_op_same_dtype(where, what, x->dtype, other_what, other->dtype));
    return mst_op_same_shape(where, what, x, other_what, other);
}

muster_status mst_softmax_check(const muster_worker *worker, const mst_op_row *operation, const muster_tensor *const *t,
                                const char *where) {
    MUSTER_TRY(mst_op_check(worker, t[0], where, "x"));
    MUSTER_TRY(mst_op_check(worker, t[1], where, "y"));
    MUSTER_TRY(mst_op_float_dtype(where, "x", t[0]->dtype));
    MUSTER_TRY(mst_rows_check_axes(where, "x", t[0], 1));
    MUSTER_TRY(check_like(t[1], "x", t[0], where, "y"));
    return mst_op_check_results(operation, t, where);
}

muster_status mst_softmax_gradient_check(const muster_worker *worker, const mst_op_row *operation, const muster_tensor *const *t,
                                         const char *where) {
    MUSTER_TRY(mst_op_check(worker, t[0], where, "y"));
    MUSTER_TRY(mst_op_check(worker, t[1], where, "dy"));
    MUSTER_TRY(mst_op_check(worker, t[2], where, "dx"));
    MUSTER_TRY(mst_op_float_dtype(where, "y", t[0]->dtype));
    MUSTER_TRY(mst_rows_check_axes(where, "y", t[0], 1));
    MUSTER_TRY(check_like(t[1], "y", t[0], where, "dy"));
    MUSTER_TRY(check_like(t[2], "y", t[0], where, "dx"));
    return mst_op_check_results(operation, t, where);
}

static muster_status softmax_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                   const char *where) {
    (void)values;
    return mst_softmax_check(worker, &mst_operation_softmax, t, where);
}

static muster_status softmax_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    (void)v;
    return muster_softmax(worker, t[0], t[1]);
}

const mst_op_row mst_operation_softmax = {
    MST_OPERATION_ROW(softmax, muster_softmax),
    .operands = {{"x", "*", MST_IN}, {"y", "*", MST_OUT | MST_IN_PLACE}},
    .dtypes = MST_FLOAT_DTYPES,
    .check = softmax_check,
    .run = softmax_run,
    .kernel = &mst_softmax_kernel,
    .code = mst_softmax_code,
    .code_count = MST_SOFTMAX_CODE,
    .error = MST_FLOAT_ERRORS,
};

muster_status muster_softmax(muster_worker *worker, muster_tensor x, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(mst_softmax_check(worker, &mst_operation_softmax, MST_TENSORS(&x, &y), __func__));
    return mst_softmax_launch(worker, MST_SOFTMAX, 2, MST_TENSORS(&x, &y));
}
