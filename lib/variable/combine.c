/* Replicas with each other: all_reduce, reduce, all_gather. */
#include "change_impl.h"

static muster_status plan_reduction(mst_change *change) {
    MUSTER_TRY(mst_change_check_reduction(change));
    for (int32_t i = 0; i < change->count; i++) {
        const muster_variable *variable = change->variables[i];
        MUSTER_TRY(mst_change_check_equal_shapes(change, i));
        int64_t bytes = mst_shape_bytes(variable->dtype, variable->ndim, variable->replicas[0].shape);
        if (bytes > change->reserve) change->reserve = bytes;
    }
    return mst_change_run(change, false);
}

static muster_status all_reduce_one(mst_change *change, muster_worker *worker, int32_t index) {
    const muster_variable *variable = change->variables[index];
    mst_communicator *communicator = mst_worker_communicator(worker);
    muster_tensor replica = mst_variable_tensor(variable, worker->rank);
    return communicator->table->all_reduce(communicator, worker, change->op, variable->dtype, replica.data, replica.data,
                                           muster_tensor_count(replica));
}

muster_status muster_variables_all_reduce(muster_variable *const *variables, int32_t count, muster_reduction op) {
    mst_change change;
    MUSTER_TRY(mst_change_begin(&change, "muster_variables_all_reduce", variables, count));
    if (count == 0) return MUSTER_OK;
    change.op = op;
    change.work = all_reduce_one;
    return mst_change_end(&change, plan_reduction(&change));
}

static muster_status reduce_one(mst_change *change, muster_worker *worker, int32_t index) {
    const muster_variable *variable = change->variables[index];
    mst_communicator *communicator = mst_worker_communicator(worker);
    muster_tensor replica = mst_variable_tensor(variable, worker->rank);
    void *output = worker->rank == 0 ? replica.data : NULL;
    return communicator->table->reduce(communicator, worker, change->op, variable->dtype, replica.data, output, muster_tensor_count(replica), 0);
}

muster_status muster_variables_reduce(muster_variable *const *variables, int32_t count, muster_reduction op) {
    mst_change change;
    MUSTER_TRY(mst_change_begin(&change, "muster_variables_reduce", variables, count));
    if (count == 0) return MUSTER_OK;
    change.op = op;
    change.work = reduce_one;
    return mst_change_end(&change, plan_reduction(&change));
}

static muster_status all_gather_one(mst_change *change, muster_worker *worker, int32_t index) {
    const muster_variable *variable = change->variables[index];
    mst_communicator *communicator = mst_worker_communicator(worker);
    int64_t cell = mst_change_at(change, index, worker->rank);
    return communicator->table->all_gather(communicator, worker, variable->dtype, variable->replicas[worker->rank].address,
                                           change->next[cell].address, &change->gather_counts[mst_change_at(change, index, 0)]);
}

static muster_status plan_gather_of(mst_change *change, int32_t index) {
    const muster_variable *variable = change->variables[index];
    int64_t shape[MUSTER_MAX_DIMS] = {0}, bytes = muster_dtype_size(variable->dtype);
    MUSTER_TRY(mst_change_total_rows(change, index, &shape[0]));
    for (int32_t d = 1; d < variable->ndim; d++) shape[d] = variable->replicas[0].shape[d];
    for (int32_t d = variable->ndim - 1; d >= 0; d--) {
        if (!mst_multiply(bytes, shape[d], &bytes)) {
            return mst_error(MUSTER_OVERFLOW, "%s: variable '%.100s': the size of all replicas together overflows 64 bits", change->where,
                             variable->object.name);
        }
    }
    if (bytes > change->reserve) change->reserve = bytes;
    for (int32_t r = 0; r < change->size; r++) {
        change->gather_counts[mst_change_at(change, index, r)] = muster_tensor_count(mst_variable_tensor(variable, r));
        /* fresh: the peers read the old storage while the new one fills */
        mst_change_shape(change, index, r, shape, true);
    }
    return MUSTER_OK;
}

static muster_status plan_all_gather(mst_change *change) {
    int64_t bytes = mst_change_at(change, change->count, 0) * (int64_t)sizeof *change->gather_counts;
    MUSTER_TRY(mst_change_replicas(change));
    change->gather_counts = mst_alloc((size_t)bytes);
    if (!change->gather_counts) return mst_out_of_memory(change->where, bytes);
    for (int32_t i = 0; i < change->count; i++) MUSTER_TRY(plan_gather_of(change, i));
    change->work = all_gather_one;
    return mst_change_run(change, false);
}

muster_status muster_variables_all_gather(muster_variable *const *variables, int32_t count) {
    mst_change change;
    MUSTER_TRY(mst_change_begin(&change, "muster_variables_all_gather", variables, count));
    if (count == 0) return MUSTER_OK;
    return mst_change_end(&change, plan_all_gather(&change));
}
