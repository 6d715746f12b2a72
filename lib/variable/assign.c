/* Copies one value into replicas, from the host or from a replica: broadcast, scatter, set. */
#include "change_private.h"

#include <string.h>

static bool plain_rows(const muster_selection *selection, muster_tensor value) {
    return mst_tensor_contiguous(value) && (!selection || selection->kind != MUSTER_SELECT_LIST);
}

/* Copies rows [begin, end) of the selection to the worker's replica: in one copy, or gathered
 * straight into host memory, or through the temporary. */
static muster_status put_rows(mst_change *change, muster_worker *worker, int32_t index, int64_t begin, int64_t end) {
    mst_device *device = worker->device;
    muster_tensor value = change->tensors[index];
    int64_t cell = mst_change_at(change, index, mst_worker_public_rank(worker)),
            row_bytes = mst_tensor_bytes(muster_tensor_slice(value, 0, 1));
    void *address = change->next[cell].address;
    if (plain_rows(change->selection, value)) {
        const char *from = (const char *)muster_tensor_address(value) + mst_selection_row(change->selection, begin) * row_bytes;
        return device->memory->copy_in(device, address, from, (end - begin) * row_bytes);
    }
    void *target = mst_device_is_host(device) ? address : change->temporary[cell];
    mst_selection_pack(change->selection, value, begin, end, target);
    return target == address ? MUSTER_OK : device->memory->copy_in(device, address, target, (end - begin) * row_bytes);
}

static void plan_rows(mst_change *change, int32_t index, int32_t rank, int64_t rows) {
    muster_tensor value = change->tensors[index];
    if (value.ndim > 0) value.shape[0] = rows;
    mst_change_shape(change, index, rank, value.shape, false);
    if (!plain_rows(change->selection, change->tensors[index]) && mst_change_packs(change, rank)) {
        mst_change_temporary(change, index, rank, mst_shape_bytes(value.dtype, value.ndim, value.shape));
    }
}

void mst_change_plan_put(mst_change *change, int32_t index, int32_t rank, muster_tensor value) {
    mst_change_shape(change, index, rank, value.shape, false);
    if (!mst_tensor_contiguous(value) && mst_change_packs(change, rank)) mst_change_temporary(change, index, rank, mst_tensor_bytes(value));
}

muster_status mst_change_put(mst_change *change, muster_worker *worker, int32_t index, muster_tensor value) {
    mst_device *device = worker->device;
    int64_t cell = mst_change_at(change, index, mst_worker_public_rank(worker)), bytes = mst_tensor_bytes(value);
    void *address = change->next[cell].address;
    if (mst_tensor_contiguous(value)) return device->memory->copy_in(device, address, muster_tensor_address(value), bytes);
    void *target = mst_device_is_host(device) ? address : change->temporary[cell];
    if (bytes > 0) mst_tensor_pack(target, value);
    return target == address ? MUSTER_OK : device->memory->copy_in(device, address, target, bytes);
}

static muster_status put_whole(mst_change *change, muster_worker *worker, int32_t index) {
    return mst_change_put(change, worker, index, change->tensors[index]);
}

muster_status mst_change_broadcast_values(mst_change *change) {
    for (int32_t i = 0; i < change->count; i++) MUSTER_TRY(mst_change_check_tensor(change, i, change->variables[i]->ndim, "value"));
    MUSTER_TRY(mst_change_replicas(change));
    for (int32_t i = 0; i < change->count; i++) {
        for (int32_t r = 0; r < change->size; r++) mst_change_plan_put(change, i, r, change->tensors[i]);
    }
    change->takes = true;
    change->work = put_whole;
    return mst_change_run(change, false);
}

static muster_status broadcast_replica(mst_change *change, muster_worker *worker, int32_t index) {
    const muster_variable *variable = change->variables[index];
    const mst_replica *next = &change->next[mst_change_at(change, index, mst_worker_public_rank(worker))];
    const int64_t elements = mst_replica_elements(variable, next);
    const bool root = mst_worker_public_rank(worker) == change->rank;
    return mst_worker_collective_of_all(worker, (mst_request){.collective = MST_BROADCAST,
                                                              .dtype = (uint8_t)variable->dtype,
                                                              .root = change->rank,
                                                              .input = root ? next->address : NULL,
                                                              .input_count = root ? elements : 0,
                                                              .output = next->address,
                                                              .output_count = elements});
}

static muster_status plan_broadcast_replicas(mst_change *change) {
    MUSTER_TRY(mst_change_check_rank(change, change->rank));
    MUSTER_TRY(mst_change_check_defined(change, change->rank));
    MUSTER_TRY(mst_change_replicas(change));
    for (int32_t i = 0; i < change->count; i++) {
        const muster_variable *variable = change->variables[i];
        const mst_replica *root = &variable->everywhere[change->rank];
        for (int32_t r = 0; r < change->size; r++) {
            if (r != change->rank) mst_change_shape(change, i, r, root->shape, false);
        }
        mst_change_reserve(change, mst_replica_bytes(variable, root));
    }
    change->work = broadcast_replica;
    return mst_change_run(change, false);
}

muster_status muster_variables_broadcast(muster_variable *const *variables, const muster_tensor *values, int32_t count) {
    mst_change change;
    MUSTER_TRY(mst_change_begin(&change, "muster_variables_broadcast", variables, count));
    if (count == 0) return MUSTER_OK;
    change.tensors = values;
    return mst_change_end(&change, values ? mst_change_broadcast_values(&change) : plan_broadcast_replicas(&change));
}

muster_status muster_variables_broadcast_from(muster_variable *const *variables, int32_t count, int32_t rank) {
    mst_change change;
    MUSTER_TRY(mst_change_begin(&change, "muster_variables_broadcast_from", variables, count));
    if (count == 0) return MUSTER_OK;
    change.rank = rank;
    return mst_change_end(&change, plan_broadcast_replicas(&change));
}

/* The number of selected rows. The selection has been checked against every value, and the number
 * depends on the value only if all rows are selected. */
static int64_t assign_selected_rows(const mst_change *change, int32_t index) {
    const muster_selection *selection = change->selection;
    if (!selection || selection->kind == MUSTER_SELECT_ALL) return muster_tensor_rows(change->tensors[index]);
    if (selection->kind == MUSTER_SELECT_LIST) return selection->index_count;
    return selection->stop - (selection->kind == MUSTER_SELECT_RANGE ? selection->start : 0);
}

static muster_status scatter_rows(mst_change *change, muster_worker *worker, int32_t index) {
    int64_t rows = assign_selected_rows(change, index);
    int64_t begin = mst_edge(rows, change->size, mst_worker_public_rank(worker)),
            end = mst_edge(rows, change->size, mst_worker_public_rank(worker) + 1);
    return begin < end ? put_rows(change, worker, index, begin, end) : MUSTER_OK;
}

static muster_status check_scatter(const mst_change *change, int32_t index) {
    const muster_variable *variable = change->variables[index];
    int64_t rows;
    MUSTER_TRY(mst_change_check_rows(change, index, "scatter"));
    MUSTER_TRY(mst_change_check_tensor(change, index, variable->ndim, "value"));
    return mst_selection_check(change->selection, change->tensors[index].shape[0], change->where, "selection", &rows);
}

static muster_status assign_plan_scatter(mst_change *change) {
    for (int32_t i = 0; i < change->count; i++) MUSTER_TRY(check_scatter(change, i));
    MUSTER_TRY(mst_change_replicas(change));
    for (int32_t i = 0; i < change->count; i++) {
        int64_t rows = assign_selected_rows(change, i);
        for (int32_t r = 0; r < change->size; r++) plan_rows(change, i, r, mst_edge_rows(rows, change->size, r));
    }
    change->takes = true;
    change->work = scatter_rows;
    return mst_change_run(change, false);
}

muster_status muster_variables_scatter(muster_variable *const *variables, const muster_tensor *values, int32_t count,
                                       const muster_selection *selection) {
    static const char where[] = "muster_variables_scatter";
    mst_change change;
    MUSTER_TRY(mst_change_begin(&change, where, variables, count));
    if (count == 0) return MUSTER_OK;
    if (!values) return mst_change_end(&change, mst_change_refuse_list(&change, "values"));
    change.tensors = values;
    change.selection = selection;
    return mst_change_end(&change, assign_plan_scatter(&change));
}

/* ---- set ---- */

static muster_status set_one_rank(mst_change *change, muster_worker *worker, int32_t index) {
    if (mst_worker_public_rank(worker) != change->rank) return MUSTER_OK;
    if (!change->selection) return put_whole(change, worker, index);
    const int64_t rows = assign_selected_rows(change, index);
    return rows > 0 ? put_rows(change, worker, index, 0, rows) : MUSTER_OK;
}

/* The replica of a split variable keeps the shape of its part. */
static muster_status check_part(const mst_change *change) {
    const muster_variable *variable = change->variables[0];
    const mst_replica *part = &variable->everywhere[change->rank], *next = &change->next[change->rank];
    const int32_t axis = mst_variable_split_axis(variable);
    char expected[128], received[128];
    if (axis < 0 || memcmp(next->shape, part->shape, (size_t)variable->ndim * sizeof *part->shape) == 0) return MUSTER_OK;
    return mst_error(MUSTER_UNSUPPORTED,
                     "%s: value of variable '%.100s': expected shape %s, the part of rank %d of a variable split along axis %d, received "
                     "%s: muster_variable_set_whole takes a value of another shape",
                     change->where, variable->object.name, mst_shape_text(expected, variable->ndim, part->shape), change->rank, axis,
                     mst_shape_text(received, variable->ndim, next->shape));
}

static muster_status plan_set(mst_change *change) {
    const muster_tensor value = change->tensors[0];
    int64_t rows = 0;
    MUSTER_TRY(mst_change_check_rank(change, change->rank));
    if (change->selection) MUSTER_TRY(mst_change_check_rows(change, 0, "select"));
    MUSTER_TRY(mst_change_check_tensor(change, 0, change->variables[0]->ndim, "value"));
    if (change->selection) MUSTER_TRY(mst_selection_check(change->selection, value.shape[0], change->where, "selection", &rows));
    MUSTER_TRY(mst_change_replicas(change));
    plan_rows(change, 0, change->rank, change->selection ? rows : muster_tensor_rows(value));
    MUSTER_TRY(check_part(change));
    change->takes = true;
    change->work = set_one_rank;
    return mst_change_run(change, change->rank == 0);
}

static muster_status assign_set(const char *where, muster_variable *variable, int32_t rank, muster_tensor value,
                                const muster_selection *selection) {
    mst_change change;
    if (!variable) return mst_error_null(where, "variable", "a variable");
    MUSTER_TRY(mst_change_begin_split(&change, where, &variable, 1));
    change.rank = rank;
    change.tensors = &value;
    change.selection = selection;
    return mst_change_end(&change, plan_set(&change));
}

muster_status muster_variable_set(muster_variable *variable, int32_t rank, muster_tensor value) {
    return assign_set("muster_variable_set", variable, rank, value, NULL);
}

muster_status muster_variable_set_selected(muster_variable *variable, int32_t rank, muster_tensor value,
                                           const muster_selection *selection) {
    return assign_set("muster_variable_set_selected", variable, rank, value, selection);
}
