#include "../op_impl.h"
#include "../reduce/reduce_issue_private.h"
#include "dot_parameters_private.h"
#include "dot_private.h"

typedef struct dot_parameters {
    muster_tensor x, y, result;
} dot_parameters;

#define SUFFIX f32
#define T float
#include "dot_loops.h"
#define SUFFIX f64
#define T double
#include "dot_loops.h"

double mst_dot_host(muster_dtype dtype, const void *x, int64_t x_stride, const void *y, int64_t y_stride, int64_t n) {
    return dtype == MUSTER_F32 ? dot_f32(x, x_stride, y, y_stride, n) : dot_f64(x, x_stride, y, y_stride, n);
}

static muster_status dot_host(const void *parameters) {
    const dot_parameters *p = parameters;
    const void *x = muster_tensor_address(p->x), *y = muster_tensor_address(p->y);
    void *result = muster_tensor_address(p->result);
    const double sum = mst_dot_host(p->x.dtype, x, p->x.strides[0], y, p->y.strides[0], p->x.shape[0]);
    if (p->x.dtype == MUSTER_F32)
        *(float *)result = (float)sum;
    else
        *(double *)result = sum;
    return MUSTER_OK;
}

static mst_code_kernel dot_code[] = {{.name = "mst_dot", .blocks = true}};

muster_status mst_dot_issue(muster_worker *worker, const muster_tensor *x, const muster_tensor *y, const muster_tensor *result) {
    enum { MOST_BLOCKS = 1024, BLOCK_ELEMENTS = 4096 };
    mst_dot_parameters of_code = {.x_stride = x->strides[0], .y_stride = y->strides[0], .length = x->shape[0], .dtype = x->dtype};
    if (of_code.length > 0) of_code.x = muster_tensor_address(*x), of_code.y = muster_tensor_address(*y);
    of_code.chunks = mst_reduce_cut(of_code.length, BLOCK_ELEMENTS, MOST_BLOCKS, &of_code.chunk);
    void *partials;
    MUSTER_TRY(mst_worker_scratch_bytes(worker, of_code.chunks * (int64_t)sizeof(double), &partials));
    of_code.partials = partials;
    MUSTER_TRY(mst_op_code(worker, dot_code, of_code.chunks, &of_code, sizeof of_code));
    return mst_reduce_sum_partials(worker, partials, of_code.chunks, result);
}

static muster_status dot_issue(muster_worker *worker, const void *parameters) {
    const dot_parameters *p = parameters;
    return mst_dot_issue(worker, &p->x, &p->y, &p->result);
}

static MST_ALWAYS_INLINE muster_status dot_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                                 const char *where) {
    const muster_tensor *x = t[0], *y = t[1], *result = t[2];
    (void)values;
    MUSTER_TRY(mst_op_check(worker, x, where, "x"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    MUSTER_TRY(mst_op_check(worker, result, where, "result"));
    MUSTER_TRY(mst_op_blas_dtype(where, "x", x->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, "y", y->dtype, "x", x->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, "result", result->dtype, "x", x->dtype));
    MUSTER_TRY(mst_op_ndim(where, "x", x, 1));
    MUSTER_TRY(mst_op_same_shape(where, "y", y, "x", x));
    MUSTER_TRY(mst_op_ndim(where, "result", result, 0));
    return mst_op_check_results(&mst_operation_dot, t, where);
}

static muster_status dot_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    (void)v;
    return muster_dot(worker, t[0], t[1], t[2]);
}

static const mst_kernel dot_kernel = {.host = dot_host, .issue = dot_issue};

const mst_op_row mst_operation_dot = {
    MST_OPERATION_ROW(dot, muster_dot),
    .operands = {{"x", "n", MST_IN}, {"y", "n", MST_IN}, {"result", "", MST_OUT}},
    .dtypes = MST_BLAS_DTYPES,
    .check = dot_check,
    .run = dot_run,
    .kernel = &dot_kernel,
    MST_CODE(dot_code),
    .error = {[MUSTER_F32] = 1e-6, [MUSTER_F64] = 1e-12},
};

muster_status muster_dot(muster_worker *worker, muster_tensor x, muster_tensor y, muster_tensor result) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(dot_check(worker, MST_TENSORS(&x, &y, &result), NULL, __func__));
    dot_parameters p = {x, y, result};
    return mst_op_launch(worker, &dot_kernel, &p, sizeof p);
}
