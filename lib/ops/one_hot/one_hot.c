/* y[i, j] = 1 where labels[i] is j, else 0. */
#include "../indices/indices_private.h"
#include "one_hot_parameters_private.h"

#include <string.h>

typedef struct one_hot_request {
    muster_tensor labels, y;
} one_hot_request;

static const char one_hot_name[] = "muster_one_hot"; /* in messages of the kernels */

static muster_status one_hot_host(const void *parameters) {
    const one_hot_request *p = parameters;
    const int64_t size = muster_dtype_size(p->y.dtype), n = p->y.shape[0], k = p->y.shape[1];
    const double number = 1;
    uint64_t one;
    MUSTER_TRY(mst_indices_check_host(&p->labels, k, one_hot_name, "labels"));
    mst_convert(p->y.dtype, &one, MUSTER_F64, &number, 1);
    for (int64_t i = 0; i < n; i++) {
        char *row = (char *)muster_tensor_address(p->y) + i * p->y.strides[0] * size;
        const int64_t stride = p->y.strides[1] * size;
        if (stride == size)
            memset(row, 0, (size_t)(k * size));
        else
            for (int64_t j = 0; j < k; j++) memset(row + j * stride, 0, (size_t)size);
        memcpy(row + mst_index_at(&p->labels, i) * stride, &one, (size_t)size);
    }
    return MUSTER_OK;
}

static mst_code_kernel one_hot_code[] = {{.name = "mst_one_hot"}};

static muster_status one_hot_issue(muster_worker *worker, const void *parameters) {
    const one_hot_request *p = parameters;
    const double number = 1;
    MUSTER_TRY(mst_indices_check_device(worker, &p->labels, p->y.shape[1], one_hot_name, "labels"));
    mst_one_hot_parameters of_code = {.labels = muster_tensor_address(p->labels),
                                      .y = muster_tensor_address(p->y),
                                      .n = p->y.shape[0],
                                      .k = p->y.shape[1],
                                      .label_stride = p->labels.strides[0],
                                      .row_stride = p->y.strides[0],
                                      .column_stride = p->y.strides[1],
                                      .element_size = (int32_t)muster_dtype_size(p->y.dtype),
                                      .label_dtype = p->labels.dtype};
    mst_convert(p->y.dtype, &of_code.one, MUSTER_F64, &number, 1);
    return mst_op_code(worker, one_hot_code, of_code.n * of_code.k, &of_code, sizeof of_code);
}

static muster_status one_hot_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values,
                                   const char *where) {
    const muster_tensor *labels = t[0], *y = t[1];
    MUSTER_TRY(mst_op_check(worker, labels, where, "labels"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    MUSTER_TRY(mst_index_dtype(where, "labels", labels->dtype));
    MUSTER_TRY(mst_op_ndim(where, "labels", labels, 1));
    if (values[0].integer < 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: k: expected 0 or more, received %lld", where, (long long)values[0].integer);
    MUSTER_TRY(mst_op_shape(where, "y", y, 2, (const int64_t[]){labels->shape[0], values[0].integer}));
    return mst_op_check_results(&mst_operation_one_hot, t, where);
}

static muster_status one_hot_infer(const mst_op_value *values, muster_tensor *t, const char *where) {
    MUSTER_TRY(mst_op_ndim(where, "labels", &t[0], 1));
    t[1] = muster_tensor_make(t[1].dtype, t[1].data, 2, (const int64_t[]){t[0].shape[0], values[0].integer});
    return MUSTER_OK;
}

static muster_status one_hot_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    return muster_one_hot(worker, t[0], v[0].integer, t[1]);
}

static const mst_kernel one_hot_kernel = {.host = one_hot_host, .issue = one_hot_issue};

const mst_op_row mst_operation_one_hot = {
    MST_OPERATION_ROW(one_hot, muster_one_hot),
    .operands = {{"labels", "n", MST_IN, MST_INDEX_DTYPES}, {"y", "?", MST_OUT}},
    .attributes = {{"k", MST_INTEGER}},
    .dtypes = MST_ALL_DTYPES,
    .check = one_hot_check,
    .infer = one_hot_infer,
    .run = one_hot_run,
    .kernel = &one_hot_kernel,
    MST_CODE(one_hot_code),
};

muster_status muster_one_hot(muster_worker *worker, muster_tensor labels, int64_t k, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(one_hot_check(worker, MST_TENSORS(&labels, &y), (const mst_op_value[]){{.integer = k}}, __func__));
    one_hot_request p = {labels, y};
    return mst_op_launch(worker, &one_hot_kernel, &p, sizeof p);
}
