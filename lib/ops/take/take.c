/* y[i] = x[indices[i]], whole rows. x may be a part of the rows that the indices count. */
#include "../indices/indices_private.h"
#include "take_parameters_private.h"

#include <string.h>

typedef struct take_request {
    muster_tensor x, indices, y;
    int64_t first, total; /* x has the rows from `first` on, of so many */
} take_request;

static const char take_name[] = "muster_take"; /* in messages of the kernels */

/* As mst_copy_elements, from nowhere. */
static void take_zeros(void *size, char *const *at, const int64_t *stride, int64_t n) {
    for (int64_t i = 0; i < n; i++) memset(at[1] + i * stride[1], 0, *(const size_t *)size);
}

static muster_status take_host(const void *parameters) {
    const take_request *p = parameters;
    const int64_t size = muster_dtype_size(p->x.dtype), n = p->y.shape[0];
    const muster_tensor x = mst_op_row_view(&p->x), y = mst_op_row_view(&p->y);
    MUSTER_TRY(mst_indices_check_host(&p->indices, p->total, take_name, "indices"));
    if (mst_tensor_contiguous(x) && mst_tensor_contiguous(y)) {
        const size_t bytes = (size_t)(muster_tensor_count(y) * size);
        const char *first = muster_tensor_address(x);
        char *to = muster_tensor_address(y);
        for (int64_t i = 0; i < n && bytes; i++) {
            const int64_t from = mst_index_at(&p->indices, i) - p->first;
            if (from >= 0 && from < p->x.shape[0])
                memcpy(to + i * p->y.strides[0] * size, first + from * p->x.strides[0] * size, bytes);
            else
                memset(to + i * p->y.strides[0] * size, 0, bytes);
        }
        return MUSTER_OK;
    }
    mst_iterator row;
    mst_iterator_make(&row, y.ndim, y.shape, 2, (const muster_tensor *[]){&x, &y});
    char *from = row.base[0], *to = row.base[1];
    for (int64_t i = 0; i < n; i++) {
        const int64_t index = mst_index_at(&p->indices, i) - p->first;
        const bool here = index >= 0 && index < p->x.shape[0];
        row.base[0] = from + (here ? index * p->x.strides[0] * size : 0);
        row.base[1] = to + i * p->y.strides[0] * size;
        mst_iterator_run(&row, here ? mst_copy_elements : take_zeros, (void *)&size);
    }
    return MUSTER_OK;
}

static mst_code_kernel take_code[] = {{.name = "mst_take"}};

static muster_status take_issue(muster_worker *worker, const void *parameters) {
    const take_request *p = parameters;
    const int64_t size = muster_dtype_size(p->x.dtype);
    const muster_tensor x = mst_op_row_view(&p->x), y = mst_op_row_view(&p->y);
    MUSTER_TRY(mst_indices_check_device(worker, &p->indices, p->total, take_name, "indices"));
    mst_take_parameters of_code = {.indices = muster_tensor_address(p->indices),
                                   .count = p->y.shape[0],
                                   .first = p->first,
                                   .rows = p->x.shape[0],
                                   .elements = muster_tensor_count(y),
                                   .x_stride = p->x.strides[0] * size,
                                   .y_stride = p->y.strides[0] * size,
                                   .index_stride = p->indices.strides[0],
                                   .element_size = (int32_t)size,
                                   .index_dtype = p->indices.dtype};
    if (of_code.count == 0 || of_code.elements == 0) return MUSTER_OK;
    mst_iterator_make(&of_code.row, y.ndim, y.shape, 2, (const muster_tensor *[]){&x, &y});
    return mst_op_code(worker, take_code, of_code.count * of_code.elements, &of_code, sizeof of_code);
}

static muster_status take_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values, const char *where) {
    (void)values;
    return mst_indices_check_operands(worker, &mst_operation_take, t, 0, where);
}

static muster_status take_infer(const mst_op_value *values, muster_tensor *t, const char *where) {
    int64_t shape[MUSTER_MAX_DIMS];
    (void)values;
    MUSTER_TRY(mst_indices_shape(&t[0], &t[1], where, "x", shape));
    t[2] = muster_tensor_make(t[0].dtype, t[2].data, t[0].ndim, shape);
    return MUSTER_OK;
}

static muster_status take_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    (void)v;
    return muster_take(worker, t[0], t[1], t[2]);
}

static const mst_kernel take_kernel = {.host = take_host, .issue = take_issue};

const mst_op_row mst_operation_take = {
    MST_OPERATION_ROW(take, muster_take),
    .operands = {{"x", "?", MST_IN}, {"indices", "n", MST_IN, MST_INDEX_DTYPES}, {"y", "?", MST_OUT}},
    .dtypes = MST_ALL_DTYPES,
    .check = take_check,
    .infer = take_infer,
    .run = take_run,
    .kernel = &take_kernel,
    MST_CODE(take_code),
};

muster_status muster_take(muster_worker *worker, muster_tensor x, muster_tensor indices, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(take_check(worker, MST_TENSORS(&x, &indices, &y), NULL, __func__));
    take_request p = {x, indices, y, 0, x.shape[0]};
    return mst_op_launch(worker, &take_kernel, &p, sizeof p);
}

muster_status mst_worker_take_part(muster_worker *worker, muster_tensor x, muster_tensor indices, int64_t first, int64_t total,
                                   muster_tensor y) {
    MUSTER_TRY(take_check(worker, MST_TENSORS(&x, &indices, &y), NULL, take_name));
    take_request p = {x, indices, y, first, total};
    return mst_op_launch(worker, &take_kernel, &p, sizeof p);
}
