/* Variables in portions: of one whole value each device keeps some elements, and no replica is a
 * value. The states of update rules are such variables, where each device updates some elements of
 * all parameters. What no device keeps is 0, so that a new variable takes no memory. */
#include "change_private.h"

#include <string.h>

static mst_portions *portions_make(const char *where, int32_t ndim, const int64_t *shape, const mst_portion *items, int32_t count) {
    mst_portions *made = mst_alloc(sizeof *made + (size_t)count * sizeof *items);
    if (!made) {
        (void)mst_out_of_memory(where, (int64_t)(sizeof *made + (size_t)count * sizeof *items));
        return NULL;
    }
    made->count = count;
    if (ndim) memcpy(made->shape, shape, (size_t)ndim * sizeof *shape);
    if (count) memcpy(made->items, items, (size_t)count * sizeof *items);
    return made;
}

static int64_t elements_of(const mst_portions *portions, int32_t rank) {
    int64_t count = 0;
    for (int32_t i = 0; i < portions->count; i++)
        if (portions->items[i].rank == rank) count += portions->items[i].end - portions->items[i].begin;
    return count;
}

/* A replica says how many elements it has; one of a scalar has room for it everywhere. */
static void replica_shape(const muster_variable *variable, const mst_portions *portions, int32_t rank, int64_t *shape) {
    for (int32_t d = 0; d < variable->ndim; d++) shape[d] = d ? 1 : elements_of(portions, rank);
}

muster_status mst_variable_create_in_portions(const char *where, muster_runtime *runtime, const char *name, muster_dtype dtype,
                                              int32_t ndim, const int64_t *shape, muster_variable **variable) {
    muster_variable *made = mst_alloc(sizeof *made);
    if (!made) return mst_out_of_memory(where, sizeof *made);
    *made = (muster_variable){.object = {.runtime = runtime}, .dtype = dtype, .ndim = ndim};
    atomic_init(&made->split_axis, -1);
    const bool listed = mst_variable_make_replicas(made);
    made->portions = portions_make(where, ndim, shape, NULL, 0);
    muster_status status =
        listed && made->portions ? MUSTER_OK : mst_out_of_memory(where, runtime->total * (int64_t)sizeof *made->replicas);
    if (status == MUSTER_OK) status = mst_pool_enter(runtime->pool, where, 0);
    if (status == MUSTER_OK) {
        status = mst_variable_add(made, name, where);
        mst_pool_leave(runtime->pool);
    }
    if (status == MUSTER_OK)
        *variable = made;
    else
        mst_variable_free(made);
    return status;
}

muster_status mst_variable_refuse_portions(const muster_variable *variable, const char *where) {
    if (!variable->portions) return MUSTER_OK;
    return mst_error(MUSTER_UNSUPPORTED,
                     "%s: variable '%.100s': expected one with a value on each device, received the state of an update rule, of which "
                     "each device keeps what it updates: muster_variable_get_whole and muster_variable_set_whole take all of it",
                     where, variable->object.name);
}

/* ---- the whole value ---- */

/* Contiguous host memory of the whole value: the tensor's own, or other that change->copy keeps. */
static muster_status whole_find(mst_change *change, muster_tensor value, char **address) {
    *address = muster_tensor_address(value);
    if (mst_tensor_contiguous(value)) return MUSTER_OK;
    const int64_t bytes = mst_tensor_bytes(value);
    change->copy = mst_alloc_uninitialised((size_t)bytes + 1);
    *address = change->copy;
    return change->copy ? MUSTER_OK : mst_out_of_memory(change->where, bytes);
}

typedef struct portion_iterator {
    const mst_portions *portions;
    int32_t next;
    int64_t at; /* elements of the rank before it */
} portion_iterator;
static const mst_portion *iterator_next(portion_iterator *iterator, int32_t rank) {
    while (iterator->next < iterator->portions->count) {
        const mst_portion *portion = &iterator->portions->items[iterator->next++];
        if (portion->rank == rank) return portion;
    }
    return NULL;
}

/* Between the worker's portions at `memory` and change->contiguous. */
static muster_status portions_copy(const mst_change *change, muster_worker *worker, const mst_portions *portions, void *memory, bool out) {
    mst_device *device = worker->device;
    const int64_t size = muster_dtype_size(change->variables[0]->dtype);
    portion_iterator iterator = {.portions = portions};
    for (const mst_portion *portion; (portion = iterator_next(&iterator, mst_worker_public_rank(worker)));
         iterator.at += portion->end - portion->begin) {
        char *address = (char *)memory + iterator.at * size, *host = change->contiguous + portion->begin * size;
        const int64_t bytes = (portion->end - portion->begin) * size;
        if (bytes == 0) continue;
        MUSTER_TRY(out ? device->memory->copy_out(device, host, address, bytes) : device->memory->copy_in(device, address, host, bytes));
    }
    return MUSTER_OK;
}

static muster_status get_portions(mst_change *change, muster_worker *worker, int32_t index) {
    const muster_variable *variable = change->variables[index];
    return portions_copy(change, worker, variable->portions, variable->replicas[worker->rank].address, true);
}

static muster_status set_portions(mst_change *change, muster_worker *worker, int32_t index) {
    const muster_variable *variable = change->variables[index];
    return portions_copy(change, worker, variable->portions, variable->replicas[worker->rank].address, false);
}

muster_status mst_change_get_portions(mst_change *change) {
    const muster_variable *variable = change->variables[0];
    const muster_tensor value = change->tensors[0];
    int64_t kept = 0;
    MUSTER_TRY(mst_change_check_shape(change, 0, variable->ndim, variable->portions->shape, "value"));
    MUSTER_TRY(whole_find(change, value, &change->contiguous));
    for (int32_t r = 0; r < change->size; r++) kept += elements_of(variable->portions, r);
    if (kept < muster_tensor_count(value)) memset(change->contiguous, 0, (size_t)mst_tensor_bytes(value));
    change->work = get_portions;
    change->spread = mst_change_spread_portions;
    change->gathers = true;
    MUSTER_TRY(mst_change_run(change, false));
    if (change->copy && mst_tensor_bytes(value) > 0) mst_tensor_unpack(value, change->copy);
    return MUSTER_OK;
}

/* ---- another layout ---- */

/* The rank's part of the value in the new layout, of which change->axis is the axis. */
static muster_tensor value_of(const mst_change *change, int32_t rank) {
    const muster_tensor value = change->tensors[0];
    return change->axis < 0 ? value : mst_variable_part(value, change->axis, change->size, rank);
}

static muster_status lay_values(mst_change *change, muster_worker *worker, int32_t index) {
    return mst_change_put(change, worker, index, value_of(change, mst_worker_public_rank(worker)));
}

/* Elements of the new portions: those of the value, or zeros. */
static muster_status lay_portions(mst_change *change, muster_worker *worker, int32_t index) {
    (void)index;
    const mst_replica *next = &change->next[mst_worker_public_rank(worker)];
    if (change->contiguous) return portions_copy(change, worker, change->portions, next->address, false);
    muster_tensor made = muster_tensor_make(change->variables[0]->dtype, next->address, change->variables[0]->ndim, next->shape);
    made.device = worker->rank;
    return muster_fill(worker, 0, made);
}

static muster_status layout_run(mst_change *change) {
    muster_variable *variable = change->variables[0];
    int64_t shape[MUSTER_MAX_DIMS];
    MUSTER_TRY(mst_change_replicas(change));
    for (int32_t r = 0; r < change->size; r++) {
        if (change->portions)
            replica_shape(variable, change->portions, r, shape);
        else
            mst_change_plan_put(change, 0, r, value_of(change, r));
        mst_change_shape(change, 0, r, change->portions ? shape : value_of(change, r).shape, true);
    }
    change->work = change->portions ? lay_portions : lay_values;
    MUSTER_TRY(mst_change_run(change, false));
    mst_free(variable->portions);
    variable->portions = change->portions;
    change->portions = NULL;
    atomic_store_explicit(&variable->split_axis, change->axis, memory_order_release);
    return MUSTER_OK;
}

muster_status mst_change_set_portions(mst_change *change) {
    const muster_variable *variable = change->variables[0];
    const muster_tensor value = change->tensors[0];
    MUSTER_TRY(mst_change_check_shape(change, 0, variable->ndim, variable->portions->shape, "value"));
    if (!variable->portions->owner) return layout_run(change); /* nothing keeps it yet: from now on all devices */
    MUSTER_TRY(whole_find(change, value, &change->contiguous));
    if (change->copy && mst_tensor_bytes(value) > 0) mst_tensor_pack(change->copy, value);
    change->takes = true;
    change->work = set_portions;
    MUSTER_TRY(mst_change_run(change, false));
    mst_change_note_defined(change);
    return MUSTER_OK;
}

/* `value`: host memory of the whole value, or one zero for all elements. */
static muster_status layout_set(const char *where, muster_variable *variable, muster_tensor value, int32_t axis, mst_portions *portions) {
    mst_change change;
    const muster_status begun = mst_change_begin_any(&change, where, &variable, 1);
    if (begun != MUSTER_OK) {
        mst_free(portions);
        return begun;
    }
    change.tensors = &value;
    change.axis = axis;
    change.portions = portions;
    change.contiguous = portions && mst_tensor_contiguous(value) ? muster_tensor_address(value) : NULL;
    const muster_status status = layout_run(&change);
    mst_free(change.portions);
    return mst_change_end(&change, status);
}

static muster_status layout_change(const char *where, muster_variable *variable, int32_t axis, mst_portions *portions) {
    static const int64_t zero; /* of every dtype */
    int64_t shape[MUSTER_MAX_DIMS];
    mst_variable_whole_shape(variable, shape);
    const muster_tensor scalar = muster_tensor_make(variable->dtype, (void *)(uintptr_t)&zero, 0, NULL);
    if (variable->portions && !variable->portions->owner)
        return layout_set(where, variable, muster_tensor_broadcast(scalar, variable->ndim, shape), axis, portions);
    const int64_t bytes = mst_shape_bytes(variable->dtype, variable->ndim, shape);
    void *memory = mst_alloc_uninitialised((size_t)bytes + 1);
    const muster_tensor value = muster_tensor_make(variable->dtype, memory, variable->ndim, shape);
    muster_status status = memory ? muster_variable_get_whole(variable, value) : mst_out_of_memory(where, bytes);
    if (status == MUSTER_OK)
        status = layout_set(where, variable, value, axis, portions);
    else
        mst_free(portions);
    mst_free(memory);
    return status;
}

muster_status mst_variable_lay_in_portions(const char *where, muster_variable *variable, const mst_portion *items, int32_t count,
                                           const void *owner) {
    int64_t shape[MUSTER_MAX_DIMS];
    if (variable->users > 1)
        return mst_error(MUSTER_BAD_STATE, "%s: variable '%.100s': expected no other function that uses the state of an update rule, %d do",
                         where, variable->object.name, (int)variable->users - 1);
    mst_variable_whole_shape(variable, shape);
    mst_portions *portions = portions_make(where, variable->ndim, shape, items, count);
    if (!portions) return MUSTER_OUT_OF_MEMORY;
    portions->owner = owner;
    return layout_change(where, variable, -1, portions);
}

muster_status mst_variable_lay_whole(const char *where, muster_variable *variable, int32_t axis) {
    if (!variable->portions && mst_variable_split_axis(variable) == axis) return MUSTER_OK;
    return layout_change(where, variable, axis, NULL);
}
