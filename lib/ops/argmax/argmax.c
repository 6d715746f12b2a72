#include "../op_impl.h"
#include "argmax_parameters_private.h"

typedef struct argmax_parameters {
    muster_tensor x, index;
} argmax_parameters;

#define FUNCTION MST_JOIN(argmax_, SUFFIX)
#define MST_LOOPS "argmax/argmax_loops.h"
#include "../each_float_loops.h"
#include "../each_integer_loops.h"
#undef FUNCTION

#define FUNCTION argmax_bool
#define IS_FLOAT 0
#define T uint8_t
#define C uint8_t
#define LOAD 0 !=
#include "argmax_loops.h"
#undef IS_FLOAT
#undef T
#undef C
#undef LOAD

static muster_status argmax_host(const void *parameters) {
#define ROW(NAME, name, ...) [MUSTER_##NAME] = argmax_##name,
    static int64_t (*const loops[MST_DTYPE_COUNT])(const char *row, int64_t stride, int64_t k) = {
        MST_EACH_FLOAT(ROW) MST_EACH_SIGNED(ROW) MST_EACH_UNSIGNED(ROW)[MUSTER_BOOL] = argmax_bool};
    const argmax_parameters *p = parameters;
    const char *x = muster_tensor_address(p->x);
    int64_t *index = muster_tensor_address(p->index), size = muster_dtype_size(p->x.dtype);
    for (int64_t i = 0; i < p->x.shape[0]; i++)
        index[i * p->index.strides[0]] = loops[p->x.dtype](x + i * p->x.strides[0] * size, p->x.strides[1] * size, p->x.shape[1]);
    return MUSTER_OK;
}

/* Kernels of the device code. */
enum { BY_THREADS, BY_BLOCKS };
static mst_code_kernel argmax_code[] = {{.name = "mst_argmax_threads"}, {.name = "mst_argmax_blocks", .blocks = true}};

static muster_status argmax_issue(muster_worker *worker, const void *parameters) {
    enum { SHORT = 64 };
    const argmax_parameters *p = parameters;
    mst_argmax_parameters of_code = {.x = muster_tensor_address(p->x),
                                     .index = muster_tensor_address(p->index),
                                     .n = p->x.shape[0],
                                     .k = p->x.shape[1],
                                     .row_stride = p->x.strides[0],
                                     .column_stride = p->x.strides[1],
                                     .index_stride = p->index.strides[0],
                                     .dtype = p->x.dtype};
    return mst_op_code(worker, of_code.k <= SHORT ? &argmax_code[BY_THREADS] : &argmax_code[BY_BLOCKS], of_code.n, &of_code,
                       sizeof of_code);
}

static MST_ALWAYS_INLINE muster_status argmax_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                                    const char *where) {
    const muster_tensor *x = t[0], *index = t[1];
    (void)values;
    MUSTER_TRY(mst_op_check(worker, x, where, "x"));
    MUSTER_TRY(mst_op_check(worker, index, where, "index"));
    if (index->dtype != MUSTER_I64)
        return mst_error(MUSTER_DTYPE_MISMATCH, "%s: index: expected i64, received %s", where, muster_dtype_name(index->dtype));
    MUSTER_TRY(mst_op_ndim(where, "x", x, 2));
    MUSTER_TRY(mst_op_shape(where, "index", index, 1, &x->shape[0]));
    if (x->shape[1] == 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: x: expected at least one column, received shape (%lld, 0)", where,
                         (long long)x->shape[0]);
    return mst_op_check_results(&mst_operation_argmax, t, where);
}

static muster_status argmax_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    (void)v;
    return muster_argmax(worker, t[0], t[1]);
}

static const mst_kernel argmax_kernel = {.host = argmax_host, .issue = argmax_issue};

const mst_op_row mst_operation_argmax = {
    MST_OPERATION_ROW(argmax, muster_argmax),
    .operands = {{"x", "nk", MST_IN}, {"index", "n", MST_OUT, MST_DTYPE_BIT(MUSTER_I64)}},
    .dtypes = MST_ALL_DTYPES,
    .check = argmax_check,
    .run = argmax_run,
    .kernel = &argmax_kernel,
    MST_CODE(argmax_code),
};

muster_status muster_argmax(muster_worker *worker, muster_tensor x, muster_tensor index) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(argmax_check(worker, MST_TENSORS(&x, &index), NULL, __func__));
    argmax_parameters p = {x, index};
    return mst_op_launch(worker, &argmax_kernel, &p, sizeof p);
}
