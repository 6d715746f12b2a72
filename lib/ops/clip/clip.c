/* y = x limited to [low, high]. */
#include "../op_impl.h"
#include "clip_parameters_private.h"

#include <math.h>
#include <string.h>

/* In the first bytes: the bounds in the type in which the dtype is computed. */
typedef struct clip_bounds {
    uint64_t low, high;
} clip_bounds;

typedef struct clip_request {
    muster_tensor x, y;
    clip_bounds bounds;
} clip_request;

#define MST_LOOPS "clip/clip_loops.h"
#include "../each_float_loops.h"
#include "../each_integer_loops.h"

#define ROW(NAME, name, ...) [MUSTER_##NAME] = clip_##name,
static const mst_iterator_loop loops[MST_DTYPE_COUNT] = {MST_EACH_FLOAT(ROW) MST_EACH_SIGNED(ROW) MST_EACH_UNSIGNED(ROW)};

static muster_status clip_host(const void *parameters) {
    clip_request p = *(const clip_request *)parameters;
    mst_iterator_run_elements(2, (const muster_tensor *[]){&p.x, &p.y}, loops[p.y.dtype], &p.bounds);
    return MUSTER_OK;
}

static mst_code_kernel clip_code[] = {{.name = "mst_clip"}};

static muster_status clip_issue(muster_worker *worker, const void *parameters) {
    const clip_request *p = parameters;
    mst_clip_parameters of_code = {.count = muster_tensor_count(p->y), .low = p->bounds.low, .high = p->bounds.high, .dtype = p->y.dtype};
    if (of_code.count == 0) return MUSTER_OK;
    mst_iterator_make(&of_code.iterator, p->y.ndim, p->y.shape, 2, (const muster_tensor *[]){&p->x, &p->y});
    return mst_op_code(worker, clip_code, of_code.count, &of_code, sizeof of_code);
}

/* Converts the bounds to the type in which the dtype is computed. False: no value of an integer
 * dtype lies between them. */
static bool clip_convert(muster_dtype dtype, double low, double high, clip_bounds *bounds) {
    const muster_dtype compute = mst_dtype_is_float(dtype) ? mst_dtype_compute(dtype) : dtype;
    double low_held, high_held;
    if (compute == dtype && !mst_dtype_is_float(dtype)) low = ceil(low), high = floor(high);
    mst_convert(compute, &bounds->low, MUSTER_F64, &low, 1);
    mst_convert(compute, &bounds->high, MUSTER_F64, &high, 1);
    if (mst_dtype_is_float(dtype)) return true;
    mst_convert(MUSTER_F64, &low_held, compute, &bounds->low, 1);
    mst_convert(MUSTER_F64, &high_held, compute, &bounds->high, 1);
    return low <= high && low_held >= low && high_held <= high;
}

static muster_status clip_make_bounds(muster_dtype dtype, double low, double high, const char *where, clip_bounds *bounds) {
    if (!(low <= high)) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: low: expected low <= high, received %g and %g", where, low, high);
    if (clip_convert(dtype, low, high, bounds)) return MUSTER_OK;
    return mst_error(MUSTER_OUT_OF_RANGE, "%s: low: expected a value of %s between low and high, received %g and %g", where,
                     muster_dtype_name(dtype), low, high);
}

static muster_status clip_check_bounds(const muster_worker *worker, const muster_tensor *const *t, double low, double high,
                                       const char *where, clip_bounds *bounds) {
    const muster_tensor *x = t[0], *y = t[1];
    MUSTER_TRY(mst_op_check(worker, x, where, "x"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    if (x->dtype == MUSTER_BOOL) return mst_op_refuse_dtype(where, "x", "a number dtype", x->dtype);
    MUSTER_TRY(mst_op_same_dtype(where, "y", y->dtype, "x", x->dtype));
    MUSTER_TRY(clip_make_bounds(x->dtype, low, high, where, bounds));
    MUSTER_TRY(mst_op_broadcasts(where, "x", x, "y", y));
    return mst_op_check_results(&mst_operation_clip, t, where);
}

static muster_status clip_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values, const char *where) {
    clip_bounds bounds;
    return clip_check_bounds(worker, t, values[0].number, values[1].number, where, &bounds);
}

static muster_status clip_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_clip(worker, v[0].number, v[1].number, t[0], t[1]);
}

static muster_status clip_loop(const muster_dtype *dtypes, const mst_op_value *values, mst_op_loop *loop) {
    clip_bounds bounds;
    MUSTER_TRY(mst_op_plain_loop(&mst_operation_clip, dtypes[0], loops[dtypes[0]], loop));
    MUSTER_TRY(clip_make_bounds(dtypes[0], values[0].number, values[1].number, mst_operation_clip.function, &bounds));
    memcpy(loop->context, &bounds, sizeof bounds);
    return MUSTER_OK;
}

static const mst_kernel clip_kernel = {.host = clip_host, .issue = clip_issue};

const mst_op_row mst_operation_clip = {
    MST_OPERATION_ROW(clip, muster_clip),
    .operands = {{"x", "~", MST_IN}, {"y", "*", MST_OUT | MST_IN_PLACE}},
    .attributes = {{"low", MST_NUMBER}, {"high", MST_NUMBER}},
    .dtypes = MST_NUMBER_DTYPES,
    .check = clip_check,
    .run = clip_run,
    .loop = clip_loop,
    .kernel = &clip_kernel,
    MST_CODE(clip_code),
};

muster_status muster_clip(muster_worker *worker, double low, double high, muster_tensor x, muster_tensor y) {
    MST_OP_WORKER(worker);
    clip_request p = {.x = x, .y = y};
    MUSTER_TRY(clip_check_bounds(worker, MST_TENSORS(&x, &y), low, high, __func__, &p.bounds));
    return mst_op_launch(worker, &clip_kernel, &p, sizeof p);
}
