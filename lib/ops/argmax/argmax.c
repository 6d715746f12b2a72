#include "argmax_private.h"

#include "argmax_parameters_private.h"

#define MST_INLINE_HALVES
#include "half_impl.h"
#define LARGEST MST_JOIN(argmax_, SUFFIX)
#define SMALLEST MST_JOIN(argmin_, SUFFIX)
#define MST_LOOPS "argmax/argmax_loops.h"
#include "../each_float_loops.h"
#include "../each_integer_loops.h"

#define IS_FLOAT 0
#define SUFFIX boolean
#define T uint8_t
#define C uint8_t
#define LOAD 0 !=
#include "argmax_loops.h"
#undef IS_FLOAT
#undef SUFFIX
#undef T
#undef C
#undef LOAD

static muster_status argmax_host(const void *parameters) {
#define ROW(NAME, name, ...) [MUSTER_##NAME] = {argmax_##name, argmin_##name},
    static int64_t (*const loops[MST_DTYPE_COUNT][2])(const char *row, int64_t stride, int64_t k) = {
        MST_EACH_FLOAT(ROW) MST_EACH_SIGNED(ROW) MST_EACH_UNSIGNED(ROW) ROW(BOOL, boolean)};
    const mst_argmax_request *p = parameters;
    const char *x = muster_tensor_address(p->x);
    int64_t *index = muster_tensor_address(p->index), size = muster_dtype_size(p->x.dtype);
    for (int64_t i = 0; i < p->x.shape[0]; i++)
        index[i * p->index.strides[0]] =
            loops[p->x.dtype][p->smallest](x + i * p->x.strides[0] * size, p->x.strides[1] * size, p->x.shape[1]);
    return MUSTER_OK;
}

/* Kernels of the device code. */
enum { BY_THREADS, BY_BLOCKS };
mst_code_kernel mst_argmax_code[MST_ARGMAX_CODE] = {
    [BY_THREADS] = {.name = "mst_argmax_threads"}, [BY_BLOCKS] = {.name = "mst_argmax_blocks", .blocks = true}};

static muster_status argmax_issue(muster_worker *worker, const void *parameters) {
    enum { SHORT = 64 };
    const mst_argmax_request *p = parameters;
    mst_argmax_parameters of_code = {.x = muster_tensor_address(p->x),
                                     .index = muster_tensor_address(p->index),
                                     .n = p->x.shape[0],
                                     .k = p->x.shape[1],
                                     .row_stride = p->x.strides[0],
                                     .column_stride = p->x.strides[1],
                                     .index_stride = p->index.strides[0],
                                     .dtype = p->x.dtype,
                                     .smallest = p->smallest};
    return mst_op_code(worker, &mst_argmax_code[of_code.k <= SHORT ? BY_THREADS : BY_BLOCKS], of_code.n, &of_code, sizeof of_code);
}

const mst_kernel mst_argmax_kernel = {.host = argmax_host, .issue = argmax_issue};

muster_status mst_argmax_check(const muster_worker *worker, const mst_op_row *operation, const muster_tensor *const *t, const char *where) {
    const muster_tensor *x = t[0], *index = t[1];
    MUSTER_TRY(mst_op_check(worker, x, where, "x"));
    MUSTER_TRY(mst_op_check(worker, index, where, "index"));
    if (index->dtype != MUSTER_I64)
        return mst_error(MUSTER_DTYPE_MISMATCH, "%s: index: expected i64, received %s", where, muster_dtype_name(index->dtype));
    MUSTER_TRY(mst_op_ndim(where, "x", x, 2));
    MUSTER_TRY(mst_op_shape(where, "index", index, 1, &x->shape[0]));
    if (x->shape[1] == 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: x: expected at least one column, received shape (%lld, 0)", where,
                         (long long)x->shape[0]);
    return mst_op_check_results(operation, t, where);
}

static muster_status argmax_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                  const char *where) {
    (void)values;
    return mst_argmax_check(worker, &mst_operation_argmax, t, where);
}

static muster_status argmax_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    (void)v;
    return muster_argmax(worker, t[0], t[1]);
}

const mst_op_row mst_operation_argmax = {
    MST_OPERATION_ROW(argmax, muster_argmax),
    .operands = {{"x", "nk", MST_IN}, {"index", "n", MST_OUT, MST_DTYPE_BIT(MUSTER_I64)}},
    .dtypes = MST_ALL_DTYPES,
    .check = argmax_check,
    .run = argmax_run,
    .kernel = &mst_argmax_kernel,
    .code = mst_argmax_code,
    .code_count = MST_ARGMAX_CODE,
};

muster_status muster_argmax(muster_worker *worker, muster_tensor x, muster_tensor index) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(mst_argmax_check(worker, &mst_operation_argmax, MST_TENSORS(&x, &index), __func__));
    mst_argmax_request p = {.x = x, .index = index, .smallest = false};
    return mst_op_launch(worker, &mst_argmax_kernel, &p, sizeof p);
}
