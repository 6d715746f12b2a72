/* y[indices[i]] += x[i], whole rows, one i after the other. y may be a part of the rows that the
 * indices count. f16, bf16 and f32 are added up in double and rounded once. */
#include "../binary/binary_private.h"
#include "../indices/indices_private.h"
#include "../sort/sort_private.h"
#include "scatter_add_parameters_private.h"
#include "scatter_add_private.h"

static const char scatter_add_name[] = "muster_scatter_add"; /* in messages of the kernels */

static bool sums_are_wide(muster_dtype dtype) { return mst_dtype_is_float(dtype) && dtype != MUSTER_F64; }

/* f64 and integers, rows that lie contiguous: y[rows[k]] += x[k]. */
typedef struct narrow_rows {
    char *y;
    const char *x;
    int64_t y_stride, x_stride, elements, n;
    const int64_t *rows; /* below 0: left out */
} narrow_rows;

#define NARROW_LOOP(T, elements)                                          \
    for (int64_t k = 0; k < p->n; k++) {                                  \
        if (p->rows[k] < 0) continue;                                     \
        T *y = (T *)(void *)(p->y + p->rows[k] * p->y_stride);            \
        const T *x = (const T *)(const void *)(p->x + k * p->x_stride);   \
        MST_INDEPENDENT                                                   \
        for (int64_t c = 0; c < (elements); c++) y[c] = (T)(y[c] + x[c]); \
    }
#define NARROW(T)                                             \
    MST_CLONES static void narrow_##T(const narrow_rows *p) { \
        if (p->elements == 1)                                 \
            NARROW_LOOP(T, 1)                                 \
        else                                                  \
            NARROW_LOOP(T, p->elements)                       \
    }
NARROW(double)
/* Integers wrap around, whether they have a sign or not. */
NARROW(uint8_t)
NARROW(uint16_t)
NARROW(uint32_t)
NARROW(uint64_t)

static void narrow_run(const mst_scatter_add_request *p, int64_t elements) {
    const int64_t size = muster_dtype_size(p->x.dtype), n = p->x.shape[0];
    void (*const run)(const narrow_rows *) = p->y.dtype == MUSTER_F64 ? narrow_double
                                             : size == 1              ? narrow_uint8_t
                                             : size == 2              ? narrow_uint16_t
                                             : size == 4              ? narrow_uint32_t
                                                                      : narrow_uint64_t;
    int64_t rows[MST_INDICES_BLOCK];
    narrow_rows block = {.y = muster_tensor_address(p->y),
                         .y_stride = p->y.strides[0] * size,
                         .x_stride = p->x.strides[0] * size,
                         .elements = elements,
                         .rows = rows};
    for (int64_t begin = 0; begin < n; begin += block.n) {
        block.n = n - begin < MST_INDICES_BLOCK ? n - begin : MST_INDICES_BLOCK;
        block.x = (const char *)muster_tensor_address(p->x) + begin * block.x_stride;
        mst_indices_read(&p->indices, begin, block.n, p->first, p->y.shape[0], p->first == 0 && p->y.shape[0] == p->total, rows);
        run(&block);
    }
}

static muster_status scatter_add_host(const void *parameters) {
    const mst_scatter_add_request *p = parameters;
    const int64_t size = muster_dtype_size(p->x.dtype), n = p->x.shape[0];
    const muster_tensor x = mst_op_row_view(&p->x), y = mst_op_row_view(&p->y);
    const mst_iterator_loop loop = mst_binary_loops[p->y.dtype][MUSTER_ADD];
    MUSTER_TRY(mst_indices_check_host(&p->indices, p->total, scatter_add_name, "indices"));
    if (p->work) {
        mst_scatter_add_wide_run(p);
        return MUSTER_OK;
    }
    if (mst_tensor_contiguous(x) && mst_tensor_contiguous(y)) {
        narrow_run(p, muster_tensor_count(y));
        return MUSTER_OK;
    }
    mst_iterator row;
    mst_iterator_make(&row, y.ndim, y.shape, 3, (const muster_tensor *[]){&y, &x, &y});
    const int64_t strides[] = {row.strides[0][0], row.strides[1][0], row.strides[2][0]};
    char *from = row.base[1], *to = row.base[0];
    for (int64_t i = 0; i < n; i++) {
        const int64_t index = mst_index_at(&p->indices, i) - p->first;
        if (index < 0 || index >= p->y.shape[0]) continue;
        row.base[1] = from + i * p->x.strides[0] * size;
        row.base[0] = row.base[2] = to + index * p->y.strides[0] * size;
        if (row.ndim == 1)
            loop(NULL, row.base, strides, row.shape[0]);
        else
            mst_iterator_run(&row, loop, NULL);
    }
    return MUSTER_OK;
}

static mst_code_kernel scatter_add_code[] = {{.name = "mst_scatter_add"}};

static muster_status scatter_add_issue(muster_worker *worker, const void *parameters) {
    const mst_scatter_add_request *p = parameters;
    const int64_t size = muster_dtype_size(p->x.dtype);
    const muster_tensor x = mst_op_row_view(&p->x), y = mst_op_row_view(&p->y);
    MUSTER_TRY(mst_indices_check_device(worker, &p->indices, p->total, scatter_add_name, "indices"));
    mst_scatter_add_parameters of_code = {.indices = muster_tensor_address(p->indices),
                                          .order = p->work,
                                          .count = p->x.shape[0],
                                          .elements = muster_tensor_count(y),
                                          .first = p->first,
                                          .rows = p->y.shape[0],
                                          .x_stride = p->x.strides[0] * size,
                                          .y_stride = p->y.strides[0] * size,
                                          .index_stride = p->indices.strides[0],
                                          .dtype = p->y.dtype,
                                          .index_dtype = p->indices.dtype};
    if (!p->work) return MUSTER_OK;
    mst_iterator_make(&of_code.row, y.ndim, y.shape, 2, (const muster_tensor *[]){&x, &y});
    return mst_op_code(worker, scatter_add_code, of_code.elements * of_code.count, &of_code, sizeof of_code);
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

/* The scratch memory: of wide sums on the host; on devices the order of the indices, which brings
 * those of one row together. */
static muster_status scatter_add_launch(muster_worker *worker, mst_scatter_add_request *p) {
    const int64_t n = p->x.shape[0];
    const bool empty = n == 0 || muster_tensor_count(p->y) == 0;
    if (!empty && !mst_device_is_host(worker->device)) {
        MUSTER_TRY(mst_worker_scratch_bytes(worker, n * (int64_t)sizeof(int64_t), &p->work));
        muster_tensor order = muster_tensor_make(MUSTER_I64, p->work, 1, &n);
        order.device = p->indices.device;
        MUSTER_TRY(mst_sort_launch(worker, &p->indices, false, n, NULL, &order));
    } else if (!empty && sums_are_wide(p->y.dtype)) {
        const int64_t mark = muster_worker_scratch_mark(worker);
        mst_scatter_add_wide plan;
        mst_scatter_add_plan(p, &plan);
        MUSTER_TRY(mst_worker_scratch_bytes(worker, plan.bytes, &p->work));
        MUSTER_TRY(mst_op_launch(worker, &scatter_add_kernel, p, sizeof *p));
        return muster_worker_scratch_release(worker, mark); /* the host has computed */
    }
    return mst_op_launch(worker, &scatter_add_kernel, p, sizeof *p);
}

muster_status muster_scatter_add(muster_worker *worker, muster_tensor x, muster_tensor indices, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(scatter_add_check(worker, MST_TENSORS(&x, &indices, &y), NULL, __func__));
    mst_scatter_add_request p = {x, indices, y, 0, y.shape[0], NULL};
    return scatter_add_launch(worker, &p);
}

muster_status mst_worker_scatter_add_part(muster_worker *worker, muster_tensor x, muster_tensor indices, int64_t first, int64_t total,
                                          muster_tensor y) {
    MUSTER_TRY(scatter_add_check(worker, MST_TENSORS(&x, &indices, &y), NULL, scatter_add_name));
    mst_scatter_add_request p = {x, indices, y, first, total, NULL};
    return scatter_add_launch(worker, &p);
}
