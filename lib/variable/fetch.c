/* Copies replicas into host arrays: get, reduce_to, stack, concatenate. */
#include "change_private.h"

#include <string.h>

/* Through the temporary if the view is strided and the device's memory is not host memory. */
muster_status mst_change_fetch(mst_change *change, muster_worker *worker, int32_t index, muster_tensor to, const void *from) {
    mst_device *device = worker->device;
    int64_t bytes = mst_tensor_bytes(to);
    if (bytes == 0) return MUSTER_OK;
    if (mst_tensor_contiguous(to)) {
        void *target = muster_tensor_address(to);
        return target == from ? MUSTER_OK : device->memory->copy_out(device, target, from, bytes);
    }
    if (!mst_device_is_host(worker->device)) {
        void *temporary = change->temporary[mst_change_at(change, index, mst_worker_public_rank(worker))];
        MUSTER_TRY(device->memory->copy_out(device, temporary, from, bytes));
        MUSTER_TRY(mst_worker_sync(worker));
        from = temporary;
    }
    mst_tensor_unpack(to, from);
    return MUSTER_OK;
}

void mst_change_plan_fetch(mst_change *change, int32_t index, int32_t rank, muster_tensor to) {
    if (mst_tensor_contiguous(to) || !mst_change_packs(change, rank)) return;
    mst_change_temporary(change, index, rank, mst_tensor_bytes(to));
}

static muster_status get_one(mst_change *change, muster_worker *worker, int32_t index) {
    if (mst_worker_public_rank(worker) != change->rank) return MUSTER_OK;
    return mst_change_fetch(change, worker, index, change->tensors[index],
                            change->variables[index]->everywhere[mst_worker_public_rank(worker)].address);
}

static muster_status plan_get(mst_change *change) {
    const muster_variable *variable = change->variables[0];
    MUSTER_TRY(mst_change_check_rank(change, change->rank));
    MUSTER_TRY(mst_change_check_defined(change, change->rank));
    MUSTER_TRY(mst_change_check_shape(change, 0, variable->ndim, variable->everywhere[change->rank].shape, "value"));
    mst_change_plan_fetch(change, 0, change->rank, change->tensors[0]);
    change->work = get_one;
    change->spread = mst_change_spread_from;
    return mst_change_run(change, change->rank == 0);
}

muster_status muster_variable_get(muster_variable *variable, int32_t rank, muster_tensor value) {
    static const char where[] = "muster_variable_get";
    mst_change change;
    if (!variable) return mst_error_null(where, "variable", "a variable");
    MUSTER_TRY(mst_change_begin_split(&change, where, &variable, 1));
    change.rank = rank;
    change.tensors = &value;
    return mst_change_end(&change, plan_get(&change));
}

/* Rank 0 reduces into the caller's memory if its device can write there, else into scratch memory
 * on its device. */
static muster_status reserve_result(mst_change *change, muster_worker *worker, int32_t index) {
    muster_tensor result = change->tensors[index];
    if (mst_worker_public_rank(worker) != 0) return MUSTER_OK;
    if (mst_device_is_host(worker->device) && mst_tensor_contiguous(result)) {
        change->device_results[index] = muster_tensor_address(result);
        return MUSTER_OK;
    }
    return mst_worker_scratch_bytes(worker, mst_tensor_bytes(result), &change->device_results[index]);
}

static muster_status reduce_to_one(mst_change *change, muster_worker *worker, int32_t index) {
    /* Rank 0 alone has a place for the result, and writes it down while the others are here. */
    void *output = mst_worker_public_rank(worker) == 0 ? change->device_results[index] : NULL;
    MUSTER_TRY(mst_change_reduce(change, worker, index, output));
    return mst_worker_public_rank(worker) == 0 ? mst_change_fetch(change, worker, index, change->tensors[index], output) : MUSTER_OK;
}

static muster_status plan_reduce_to(mst_change *change) {
    MUSTER_TRY(mst_change_check_all_defined(change));
    MUSTER_TRY(mst_change_check_reduction(change));
    for (int32_t i = 0; i < change->count; i++) {
        const muster_variable *variable = change->variables[i];
        MUSTER_TRY(mst_change_check_equal_shapes(change, i));
        MUSTER_TRY(mst_change_check_shape(change, i, variable->ndim, variable->everywhere[0].shape, "result"));
        mst_change_plan_fetch(change, i, 0, change->tensors[i]);
        mst_change_reserve(change, change->weights ? mst_change_product_bytes(variable, &variable->everywhere[0])
                                                   : mst_tensor_bytes(change->tensors[i]));
    }
    change->device_results = mst_alloc((size_t)change->count * sizeof *change->device_results);
    if (!change->device_results) return mst_out_of_memory(change->where, change->count * (int64_t)sizeof *change->device_results);
    change->scratch = reserve_result;
    change->spread = mst_change_spread_from;
    change->work = reduce_to_one;
    return mst_change_run(change, false);
}

/* The common part of reduce_to, stack and concatenate. Only reduce_to uses op. */
static muster_status fetch_list(const char *where, muster_variable *const *variables, const muster_tensor *results, int32_t count,
                                muster_reduction op, muster_status (*plan)(mst_change *change)) {
    mst_change change;
    MUSTER_TRY(mst_change_begin(&change, where, variables, count));
    if (count == 0) return MUSTER_OK;
    if (!results) return mst_change_end(&change, mst_change_refuse_list(&change, "results"));
    change.tensors = results;
    change.op = op;
    return mst_change_end(&change, plan(&change));
}

muster_status muster_variables_reduce_to(muster_variable *const *variables, const muster_tensor *results, int32_t count,
                                         muster_reduction op) {
    return fetch_list("muster_variables_reduce_to", variables, results, count, op, plan_reduce_to);
}

muster_status muster_variables_reduce_weighted_to(muster_variable *const *variables, const muster_tensor *results, int32_t count,
                                                  const double *weights, int32_t weight_count) {
    static const char where[] = "muster_variables_reduce_weighted_to";
    mst_change change;
    MUSTER_TRY(mst_change_begin(&change, where, variables, count));
    if (count == 0) return MUSTER_OK;
    if (!results) return mst_change_end(&change, mst_change_refuse_list(&change, "results"));
    change.tensors = results;
    const muster_status status = mst_change_weights(&change, weights, weight_count);
    return mst_change_end(&change, status == MUSTER_OK ? plan_reduce_to(&change) : status);
}

/* The part of the result that belongs to a rank, in the shape of its replica. */
static muster_tensor stacked_part(const mst_change *change, int32_t index, int32_t rank) {
    muster_tensor part = change->tensors[index];
    int64_t offset = rank * part.strides[0] * muster_dtype_size(part.dtype);
    part.ndim--;
    memmove(part.shape, part.shape + 1, (size_t)part.ndim * sizeof *part.shape);
    memmove(part.strides, part.strides + 1, (size_t)part.ndim * sizeof *part.strides);
    part.shape[part.ndim] = part.strides[part.ndim] = 0;
    part.byte_offset += offset;
    return part;
}

static muster_tensor concatenated_part(const mst_change *change, int32_t index, int32_t rank) {
    const mst_replica *replicas = change->variables[index]->everywhere;
    int64_t before = 0;
    for (int32_t r = 0; r < rank; r++) before += replicas[r].shape[0];
    return muster_tensor_slice(change->tensors[index], before, before + replicas[rank].shape[0]);
}

static muster_status stack_one(mst_change *change, muster_worker *worker, int32_t index) {
    return mst_change_fetch(change, worker, index, stacked_part(change, index, mst_worker_public_rank(worker)),
                            change->variables[index]->everywhere[mst_worker_public_rank(worker)].address);
}

static muster_status concatenate_one(mst_change *change, muster_worker *worker, int32_t index) {
    return mst_change_fetch(change, worker, index, concatenated_part(change, index, mst_worker_public_rank(worker)),
                            change->variables[index]->everywhere[mst_worker_public_rank(worker)].address);
}

static muster_status plan_stack(mst_change *change) {
    MUSTER_TRY(mst_change_check_all_defined(change));
    for (int32_t i = 0; i < change->count; i++) {
        const muster_variable *variable = change->variables[i];
        int64_t shape[MUSTER_MAX_DIMS + 1] = {change->size};
        if (variable->ndim == MUSTER_MAX_DIMS) {
            return mst_error(MUSTER_SHAPE_MISMATCH, "%s: variable '%.100s': expected at most %d dimensions to stack, received %d",
                             change->where, variable->object.name, MUSTER_MAX_DIMS - 1, variable->ndim);
        }
        memcpy(shape + 1, variable->everywhere[0].shape, (size_t)variable->ndim * sizeof *shape);
        MUSTER_TRY(mst_change_check_equal_shapes(change, i));
        MUSTER_TRY(mst_change_check_shape(change, i, variable->ndim + 1, shape, "result"));
        for (int32_t r = 0; r < change->size; r++) mst_change_plan_fetch(change, i, r, stacked_part(change, i, r));
    }
    change->work = stack_one;
    change->part = stacked_part;
    change->spread = mst_change_spread_parts;
    return mst_change_run(change, false);
}

muster_status muster_variables_stack(muster_variable *const *variables, const muster_tensor *results, int32_t count) {
    return fetch_list("muster_variables_stack", variables, results, count, 0, plan_stack);
}

static muster_status plan_concatenate(mst_change *change) {
    MUSTER_TRY(mst_change_check_all_defined(change));
    for (int32_t i = 0; i < change->count; i++) {
        const muster_variable *variable = change->variables[i];
        int64_t shape[MUSTER_MAX_DIMS];
        memcpy(shape, variable->everywhere[0].shape, sizeof shape);
        MUSTER_TRY(mst_change_total_rows(change, i, &shape[0]));
        MUSTER_TRY(mst_change_check_shape(change, i, variable->ndim, shape, "result"));
        for (int32_t r = 0; r < change->size; r++) mst_change_plan_fetch(change, i, r, concatenated_part(change, i, r));
    }
    change->work = concatenate_one;
    change->part = concatenated_part;
    change->spread = mst_change_spread_parts;
    return mst_change_run(change, false);
}

muster_status muster_variables_concatenate(muster_variable *const *variables, const muster_tensor *results, int32_t count) {
    return fetch_list("muster_variables_concatenate", variables, results, count, 0, plan_concatenate);
}
