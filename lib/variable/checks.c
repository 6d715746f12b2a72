/* What the operations on lists of variables check. */
#include "change_private.h"

#include <string.h>

muster_status mst_change_check_reduction(const mst_change *change) {
    for (int32_t i = 0; i < change->count; i++) MUSTER_TRY(mst_reduction_check(change->op, change->variables[i]->dtype, change->where));
    return MUSTER_OK;
}

muster_status mst_change_check_equal_shapes(const mst_change *change, int32_t index) {
    const muster_variable *variable = change->variables[index];
    for (int32_t r = 1; r < change->size; r++) {
        const int64_t *first = variable->everywhere[0].shape, *shape = variable->everywhere[r].shape;
        if (memcmp(shape, first, (size_t)variable->ndim * sizeof *shape) == 0) continue;
        char shape_text[128], first_text[128];
        return mst_error(MUSTER_SHAPE_MISMATCH, "%s: variable '%.100s': rank %d has shape %s, rank 0 has %s", change->where,
                         variable->object.name, r, mst_shape_text(shape_text, variable->ndim, shape),
                         mst_shape_text(first_text, variable->ndim, first));
    }
    return MUSTER_OK;
}

/* Each process knows of its own replicas whether they are defined; a refusal is one of all. */
muster_status mst_change_check_defined_of(const mst_change *change, int32_t index, int32_t rank, int32_t count) {
    int32_t begin = rank - change->runtime->first, end = begin + count;
    if (begin < 0) begin = 0;
    if (end > change->runtime->size) end = change->runtime->size;
    return begin < end ? mst_variable_check_defined(change->variables[index], begin, end - begin, change->where) : MUSTER_OK;
}

muster_status mst_change_check_defined(const mst_change *change, int32_t rank) {
    for (int32_t i = 0; i < change->count; i++) MUSTER_TRY(mst_change_check_defined_of(change, i, rank, 1));
    return MUSTER_OK;
}

muster_status mst_change_check_all_defined(const mst_change *change) {
    for (int32_t i = 0; i < change->count; i++) MUSTER_TRY(mst_change_check_defined_of(change, i, 0, change->size));
    return MUSTER_OK;
}

void mst_change_note_defined(const mst_change *change) {
    for (int32_t i = 0; i < change->count; i++)
        for (int32_t r = 0; r < change->size; r++) change->variables[i]->everywhere[r].undefined = false;
}

muster_status mst_change_check_rank(const mst_change *change, int32_t rank) {
    if (rank >= 0 && rank < change->size) return MUSTER_OK;
    return mst_error(MUSTER_OUT_OF_RANGE, "%s: rank: expected 0 to %d, received %d", change->where, change->size - 1, rank);
}

muster_status mst_change_check_tensor(const mst_change *change, int32_t index, int32_t ndim, const char *what) {
    const muster_variable *variable = change->variables[index];
    muster_tensor tensor = change->tensors[index];
    const char *name = variable->object.name;
    MUSTER_TRY(mst_tensor_check(tensor, change->where, what));
    if (tensor.device != MUSTER_DEVICE_HOST) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s of variable '%.100s': expected a host tensor, received one of device %d",
                         change->where, what, name, tensor.device);
    }
    if (tensor.dtype != variable->dtype) {
        return mst_error(MUSTER_DTYPE_MISMATCH, "%s: %s of variable '%.100s': expected dtype %s, received %s", change->where, what, name,
                         muster_dtype_name(variable->dtype), muster_dtype_name(tensor.dtype));
    }
    if (tensor.ndim != ndim) {
        return mst_error(MUSTER_SHAPE_MISMATCH, "%s: %s of variable '%.100s': expected %d dimensions, received %d", change->where, what,
                         name, ndim, tensor.ndim);
    }
    return MUSTER_OK;
}

muster_status mst_change_check_shape(const mst_change *change, int32_t index, int32_t ndim, const int64_t *shape, const char *what) {
    MUSTER_TRY(mst_change_check_tensor(change, index, ndim, what));
    const int64_t *given = change->tensors[index].shape;
    if (memcmp(given, shape, (size_t)ndim * sizeof *shape) == 0) return MUSTER_OK;
    char expected[128], received[128];
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s: %s of variable '%.100s': expected shape %s, received %s", change->where, what,
                     change->variables[index]->object.name, mst_shape_text(expected, ndim, shape), mst_shape_text(received, ndim, given));
}

muster_status mst_change_check_rows(const mst_change *change, int32_t index, const char *verb) {
    if (change->variables[index]->ndim > 0) return MUSTER_OK;
    return mst_error(MUSTER_SHAPE_MISMATCH, "%s: variable '%.100s': expected at least 1 dimension to %s along, received a scalar",
                     change->where, change->variables[index]->object.name, verb);
}

muster_status mst_change_total_rows(const mst_change *change, int32_t index, int64_t *rows) {
    const muster_variable *variable = change->variables[index];
    const char *name = variable->object.name;
    int64_t total = 0;
    MUSTER_TRY(mst_change_check_rows(change, index, "concatenate"));
    for (int32_t r = 0; r < change->size; r++) {
        const int64_t *first = variable->everywhere[0].shape, *shape = variable->everywhere[r].shape;
        if (memcmp(shape + 1, first + 1, (size_t)(variable->ndim - 1) * sizeof *shape) != 0) {
            char shape_text[128], first_text[128];
            return mst_error(MUSTER_SHAPE_MISMATCH,
                             "%s: variable '%.100s': rank %d has shape %s, rank 0 has %s: all but the first size must be equal",
                             change->where, name, r, mst_shape_text(shape_text, variable->ndim, shape),
                             mst_shape_text(first_text, variable->ndim, first));
        }
        if (__builtin_add_overflow(total, shape[0], &total)) {
            return mst_error(MUSTER_OVERFLOW, "%s: variable '%.100s': the rows of all ranks overflow 64 bits", change->where, name);
        }
    }
    *rows = total;
    return MUSTER_OK;
}
