#include "op_impl.h"

static int64_t step_of(const muster_tensor *tensor, int32_t ndim, int32_t axis, int64_t extent, int64_t size) {
    int32_t own = axis - (ndim - tensor->ndim);
    if (own < 0 || (tensor->shape[own] == 1 && extent != 1)) return 0;
    return tensor->strides[own] * size;
}

void mst_walk_make(mst_walk *walk, int32_t ndim, const int64_t *shape, int32_t operands, const muster_tensor *const *tensors) {
    int64_t sizes[MST_WALK_OPERANDS];
    walk->operands = operands;
    for (int32_t i = 0; i < operands; i++) {
        sizes[i] = muster_dtype_size(tensors[i]->dtype);
        walk->base[i] = muster_tensor_address(*tensors[i]);
    }
    int32_t last = -1;
    for (int32_t d = 0; d < ndim; d++) {
        if (shape[d] == 1) continue;
        int64_t steps[MST_WALK_OPERANDS];
        bool joins = last >= 0;
        for (int32_t i = 0; i < operands; i++) {
            steps[i] = step_of(tensors[i], ndim, d, shape[d], sizes[i]);
            joins = joins && walk->steps[i][last] == steps[i] * shape[d];
        }
        if (!joins) walk->shape[++last] = 1;
        walk->shape[last] *= shape[d];
        for (int32_t i = 0; i < operands; i++) walk->steps[i][last] = steps[i];
    }
    if (last < 0) { /* a single element */
        walk->shape[++last] = 1;
        for (int32_t i = 0; i < operands; i++) walk->steps[i][0] = sizes[i];
    }
    walk->ndim = last + 1;
}

void mst_walk_run(const mst_walk *walk, mst_walk_inner inner, void *context) {
    char *at[MST_WALK_OPERANDS];
    int64_t step[MST_WALK_OPERANDS], index[MUSTER_MAX_DIMS] = {0};
    int32_t last = walk->ndim - 1;
    for (int32_t d = 0; d <= last; d++)
        if (walk->shape[d] == 0) return;
    for (int32_t i = 0; i < walk->operands; i++) {
        at[i] = walk->base[i];
        step[i] = walk->steps[i][last];
    }
    for (;;) {
        inner(context, at, step, walk->shape[last]);
        int32_t d = last - 1;
        while (d >= 0 && ++index[d] == walk->shape[d]) {
            for (int32_t i = 0; i < walk->operands; i++) at[i] -= walk->steps[i][d] * (walk->shape[d] - 1);
            index[d--] = 0;
        }
        if (d < 0) return;
        for (int32_t i = 0; i < walk->operands; i++) at[i] += walk->steps[i][d];
    }
}
