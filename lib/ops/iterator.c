#include "op_impl.h"

#include <stdlib.h>

static int64_t stride_of(const muster_tensor *tensor, int32_t ndim, int32_t axis, int64_t extent, int64_t size) {
    int32_t tensor_axis = axis - (ndim - tensor->ndim);
    if (tensor_axis < 0 || (tensor->shape[tensor_axis] == 1 && extent != 1)) return 0;
    return tensor->strides[tensor_axis] * size;
}

muster_tensor mst_op_row_view(const muster_tensor *tensor) {
    muster_tensor row = *tensor;
    row.ndim--;
    for (int32_t d = 0; d <= row.ndim; d++) {
        row.shape[d] = d < row.ndim ? tensor->shape[d + 1] : 0;
        row.strides[d] = d < row.ndim ? tensor->strides[d + 1] : 0;
    }
    return row;
}

/* `order`: the axes, outermost first. */
static int32_t axes_join(int32_t ndim, const int64_t *shape, const int32_t *order, int32_t operands, const muster_tensor *const *tensors,
                         int64_t *joined, int64_t (*strides)[MUSTER_MAX_DIMS]) {
    int32_t last = -1;
    for (int32_t k = 0; k < ndim; k++) {
        const int32_t d = order[k];
        if (shape[d] == 1) continue;
        bool joins = last >= 0;
        for (int32_t i = 0; i < operands; i++) {
            strides[i][last + 1] = stride_of(tensors[i], ndim, d, shape[d], muster_dtype_size(tensors[i]->dtype));
            joins = joins && strides[i][last] == strides[i][last + 1] * shape[d];
        }
        if (joins) {
            joined[last] *= shape[d];
            for (int32_t i = 0; i < operands; i++) strides[i][last] = strides[i][last + 1];
        } else
            joined[++last] = shape[d];
    }
    if (last < 0) { /* a single element */
        joined[++last] = 1;
        for (int32_t i = 0; i < operands; i++) strides[i][0] = muster_dtype_size(tensors[i]->dtype);
    }
    return last + 1;
}

int32_t mst_iterator_join(int32_t ndim, const int64_t *shape, int32_t operands, const muster_tensor *const *tensors, int64_t *joined,
                          int64_t (*strides)[MUSTER_MAX_DIMS]) {
    int32_t order[MUSTER_MAX_DIMS];
    for (int32_t d = 0; d < ndim; d++) order[d] = d;
    return axes_join(ndim, shape, order, operands, tensors, joined, strides);
}

int32_t mst_iterator_join_as(const muster_tensor *like, int32_t operands, const muster_tensor *const *tensors, int64_t *joined,
                             int64_t (*strides)[MUSTER_MAX_DIMS]) {
    int32_t order[MUSTER_MAX_DIMS];
    for (int32_t d = 0; d < like->ndim; d++) {
        int32_t k = d;
        for (; k > 0 && llabs(like->strides[order[k - 1]]) < llabs(like->strides[d]); k--) order[k] = order[k - 1];
        order[k] = d;
    }
    return axes_join(like->ndim, like->shape, order, operands, tensors, joined, strides);
}

void mst_iterator_make_elements(mst_iterator *iterator, int32_t operands, const muster_tensor *const *tensors) {
    iterator->operands = operands;
    for (int32_t i = 0; i < operands; i++) iterator->base[i] = muster_tensor_address(*tensors[i]);
    iterator->ndim = mst_iterator_join_as(tensors[operands - 1], operands, tensors, iterator->shape, iterator->strides);
}

void mst_iterator_make(mst_iterator *iterator, int32_t ndim, const int64_t *shape, int32_t operands, const muster_tensor *const *tensors) {
    iterator->operands = operands;
    for (int32_t i = 0; i < operands; i++) iterator->base[i] = muster_tensor_address(*tensors[i]);
    iterator->ndim = mst_iterator_join(ndim, shape, operands, tensors, iterator->shape, iterator->strides);
}

void mst_iterator_run(const mst_iterator *iterator, mst_iterator_loop inner, void *context) {
    char *at[MST_ITERATOR_OPERANDS];
    int64_t stride[MST_ITERATOR_OPERANDS], index[MUSTER_MAX_DIMS] = {0};
    int32_t last = iterator->ndim - 1;
    for (int32_t d = 0; d <= last; d++)
        if (iterator->shape[d] == 0) return;
    for (int32_t i = 0; i < iterator->operands; i++) {
        at[i] = iterator->base[i];
        stride[i] = iterator->strides[i][last];
    }
    for (;;) {
        inner(context, at, stride, iterator->shape[last]);
        int32_t d = last - 1;
        while (d >= 0 && ++index[d] == iterator->shape[d]) {
            for (int32_t i = 0; i < iterator->operands; i++) at[i] -= iterator->strides[i][d] * (iterator->shape[d] - 1);
            index[d--] = 0;
        }
        if (d < 0) return;
        for (int32_t i = 0; i < iterator->operands; i++) at[i] += iterator->strides[i][d];
    }
}
