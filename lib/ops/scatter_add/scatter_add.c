/* y[indices[i]] += x[i], whole rows, one i after the other. y may be a part of the rows that the
 * indices count. */
#include "../binary/binary_private.h"
#include "../indices/indices_private.h"
#include "scatter_add_parameters_private.h"

typedef struct scatter_add_request {
    muster_tensor x, indices, y;
    int64_t first, total; /* y has the rows from `first` on, of so many */
} scatter_add_request;

static const char scatter_add_name[] = "muster_scatter_add"; /* in messages of the kernels */

static muster_status scatter_add_host(const void *parameters) {
    const scatter_add_request *p = parameters;
    const int64_t size = muster_dtype_size(p->x.dtype), n = p->x.shape[0];
    const muster_tensor x = mst_op_row_view(&p->x), y = mst_op_row_view(&p->y);
    MUSTER_TRY(mst_indices_check_host(&p->indices, p->total, scatter_add_name, "indices"));
    mst_iterator row;
    mst_iterator_make(&row, y.ndim, y.shape, 3, (const muster_tensor *[]){&y, &x, &y});
    char *from = row.base[1], *to = row.base[0];
    for (int64_t i = 0; i < n; i++) {
        const int64_t index = mst_index_at(&p->indices, i) - p->first;
        if (index < 0 || index >= p->y.shape[0]) continue;
        row.base[1] = from + i * p->x.strides[0] * size;
        row.base[0] = row.base[2] = to + index * p->y.strides[0] * size;
        mst_iterator_run(&row, mst_binary_loops[p->y.dtype][MUSTER_ADD], NULL);
    }
    return MUSTER_OK;
}

static mst_code_kernel scatter_add_code[] = {{.name = "mst_scatter_add"}};

static muster_status scatter_add_issue(muster_worker *worker, const void *parameters) {
    enum { THREADS = 1 << 15 };
    const scatter_add_request *p = parameters;
    const int64_t size = muster_dtype_size(p->x.dtype), rows = p->y.shape[0];
    const muster_tensor x = mst_op_row_view(&p->x), y = mst_op_row_view(&p->y);
    MUSTER_TRY(mst_indices_check_device(worker, &p->indices, p->total, scatter_add_name, "indices"));
    mst_scatter_add_parameters of_code = {.indices = muster_tensor_address(p->indices),
                                          .count = p->x.shape[0],
                                          .elements = muster_tensor_count(y),
                                          .first = p->first,
                                          .rows = rows,
                                          .x_stride = p->x.strides[0] * size,
                                          .y_stride = p->y.strides[0] * size,
                                          .index_stride = p->indices.strides[0],
                                          .dtype = p->y.dtype,
                                          .index_dtype = p->indices.dtype};
    if (of_code.count == 0 || of_code.elements == 0 || rows == 0) return MUSTER_OK;
    int64_t chunks = THREADS / of_code.elements;
    chunks = chunks < 1 ? 1 : chunks > rows ? rows : chunks;
    of_code.chunk = (rows + chunks - 1) / chunks;
    of_code.chunks = (rows + of_code.chunk - 1) / of_code.chunk;
    mst_iterator_make(&of_code.row, y.ndim, y.shape, 2, (const muster_tensor *[]){&x, &y});
    return mst_op_code(worker, scatter_add_code, of_code.elements * of_code.chunks, &of_code, sizeof of_code);
}

static muster_status scatter_add_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                       const char *where) {
    (void)values;
    return mst_indices_check_operands(worker, &mst_operation_scatter_add, t, 2, where);
}

static muster_status scatter_add_infer(const mst_op_value *values, muster_tensor *t, const char *where) {
    (void)values;
    MUSTER_TRY(mst_op_ndim(where, "indices", &t[1], 1));
    return MUSTER_OK; /* y keeps its shape, which no input determines */
}

static muster_status scatter_add_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    (void)v;
    return muster_scatter_add(worker, t[0], t[1], t[2]);
}

static const mst_kernel scatter_add_kernel = {.host = scatter_add_host, .issue = scatter_add_issue};

const mst_op_row mst_operation_scatter_add = {
    MST_OPERATION_ROW(scatter_add, muster_scatter_add),
    .operands = {{"x", "?", MST_IN}, {"indices", "n", MST_IN, MST_INDEX_DTYPES}, {"y", "?", MST_IN_OUT}},
    .dtypes = MST_NUMBER_DTYPES,
    .check = scatter_add_check,
    .infer = scatter_add_infer,
    .run = scatter_add_run,
    .kernel = &scatter_add_kernel,
    MST_CODE(scatter_add_code),
    .error = MST_FLOAT_ERRORS,
};

muster_status muster_scatter_add(muster_worker *worker, muster_tensor x, muster_tensor indices, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(scatter_add_check(worker, MST_TENSORS(&x, &indices, &y), NULL, __func__));
    scatter_add_request p = {x, indices, y, 0, y.shape[0]};
    return mst_op_launch(worker, &scatter_add_kernel, &p, sizeof p);
}

muster_status mst_worker_scatter_add_part(muster_worker *worker, muster_tensor x, muster_tensor indices, int64_t first, int64_t total,
                                          muster_tensor y) {
    MUSTER_TRY(scatter_add_check(worker, MST_TENSORS(&x, &indices, &y), NULL, scatter_add_name));
    scatter_add_request p = {x, indices, y, first, total};
    return mst_op_launch(worker, &scatter_add_kernel, &p, sizeof p);
}
