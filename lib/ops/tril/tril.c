#include "triangle_private.h"

#include "triangle_parameters_private.h"

#include <string.h>

typedef struct triangle_run {
    const mst_triangle_parameters *p;
    int64_t row; /* of all matrices */
} triangle_run;

static int64_t limit(int64_t value, int64_t highest) { return value < 0 ? 0 : value > highest ? highest : value; }

static void clear(char *y, int64_t stride, int64_t size, int64_t n) {
    if (stride == size)
        memset(y, 0, (size_t)(n * size));
    else
        for (int64_t i = 0; i < n; i++) memset(y + i * stride, 0, (size_t)size);
}

static void triangle_rows(void *context, char *const *at, const int64_t *stride, int64_t n) {
    triangle_run *run = context;
    const mst_triangle_parameters *p = run->p;
    const int64_t length = p->rows.length, *along = p->rows.stride;
    int64_t size = p->element_size;
    for (int64_t r = 0; r < n; r++, run->row++) {
        const int64_t i = run->row % p->height;
        const int64_t begin = p->upper ? limit(i + p->diagonal, length) : 0, end = p->upper ? length : limit(i + p->diagonal + 1, length);
        char *const from = at[0] + r * stride[0], *const to = at[1] + r * stride[1];
        clear(to, along[1], size, begin);
        mst_copy_elements(&size, (char *const[]){from + begin * along[0], to + begin * along[1]}, along, end - begin);
        clear(to + end * along[1], along[1], size, length - end);
    }
}

static muster_status triangle_host(const void *parameters) {
    const mst_triangle_parameters *p = parameters;
    mst_iterator_run(&p->rows.rows, triangle_rows, &(triangle_run){.p = p});
    return MUSTER_OK;
}

mst_code_kernel mst_triangle_code[MST_TRIANGLE_CODE] = {{.name = "mst_triangle"}};

static muster_status triangle_issue(muster_worker *worker, const void *parameters) {
    const mst_triangle_parameters *p = parameters;
    return mst_op_code(worker, mst_triangle_code, p->rows.count * p->rows.length, p, sizeof *p);
}

const mst_kernel mst_triangle_kernel = {.host = triangle_host, .issue = triangle_issue};

muster_status mst_triangle_check(const muster_worker *worker, const mst_op_row *operation, const muster_tensor *const *t,
                                 const char *where) {
    MUSTER_TRY(mst_op_check(worker, t[0], where, "x"));
    MUSTER_TRY(mst_op_check(worker, t[1], where, "y"));
    MUSTER_TRY(mst_op_same_dtype(where, "y", t[1]->dtype, "x", t[0]->dtype));
    MUSTER_TRY(mst_rows_check_axes(where, "x", t[0], 2));
    MUSTER_TRY(mst_op_same_shape(where, "y", t[1], "x", t[0]));
    return mst_op_check_results(operation, t, where);
}

muster_status mst_triangle_launch(muster_worker *worker, bool upper, int64_t diagonal, const muster_tensor *x, const muster_tensor *y) {
    const int64_t height = x->shape[x->ndim - 2], length = x->shape[x->ndim - 1];
    mst_triangle_parameters p = {.height = height, .upper = upper, .element_size = (int32_t)muster_dtype_size(x->dtype)};
    p.diagonal = diagonal < -height ? -height : diagonal > length ? length : diagonal; /* sums of it do not overflow */
    mst_rows_make(&p.rows, x->ndim - 1, 2, MST_TENSORS(x, y));
    return p.rows.count == 0 || length == 0 ? MUSTER_OK : mst_op_launch(worker, &mst_triangle_kernel, &p, sizeof p);
}

static muster_status tril_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values, const char *where) {
    (void)values;
    return mst_triangle_check(worker, &mst_operation_tril, t, where);
}

static muster_status tril_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_tril(worker, t[0], v[0].integer, t[1]);
}

const mst_op_row mst_operation_tril = {
    MST_OPERATION_ROW(tril, muster_tril),
    .operands = {{"x", "*", MST_IN}, {"y", "*", MST_OUT | MST_IN_PLACE}},
    .attributes = {{"k", MST_INTEGER}},
    .dtypes = MST_ALL_DTYPES,
    .check = tril_check,
    .run = tril_run,
    .kernel = &mst_triangle_kernel,
    .code = mst_triangle_code,
    .code_count = MST_TRIANGLE_CODE,
};

muster_status muster_tril(muster_worker *worker, muster_tensor x, int64_t k, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(mst_triangle_check(worker, &mst_operation_tril, MST_TENSORS(&x, &y), __func__));
    return mst_triangle_launch(worker, false, k, &x, &y);
}
