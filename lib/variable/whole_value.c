/* The whole value of a variable: of one that is split, all its parts; else the master's replica. */
#include "change_private.h"

#include <string.h>

int32_t muster_variable_split_axis(const muster_variable *variable) { return variable ? mst_variable_split_axis(variable) : -1; }

void mst_variable_whole_shape(const muster_variable *variable, int64_t *shape) {
    const int32_t axis = mst_variable_split_axis(variable);
    memcpy(shape, variable->portions ? variable->portions->shape : variable->everywhere[0].shape, (size_t)variable->ndim * sizeof *shape);
    for (int32_t r = 1; axis >= 0 && r < variable->object.runtime->total; r++) shape[axis] += variable->everywhere[r].shape[axis];
}

static muster_status read_whole_shape(const muster_variable *variable, const char *where, int32_t ndim, int64_t *shape) {
    if (ndim != variable->ndim)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: ndim: variable '%.100s': expected %d, received %d", where, variable->object.name,
                         variable->ndim, ndim);
    if (ndim > 0 && !shape) return mst_error_null(where, "shape", "the address of the sizes");
    if (ndim > 0) mst_variable_whole_shape(variable, shape);
    return MUSTER_OK;
}

muster_status muster_variable_whole_shape(muster_variable *variable, int32_t ndim, int64_t *shape) {
    static const char where[] = "muster_variable_whole_shape";
    if (!variable) return mst_error_null(where, "variable", "a variable");
    MUSTER_TRY(mst_pool_enter(variable->object.runtime->pool, where, 0));
    const muster_status status = read_whole_shape(variable, where, ndim, shape);
    mst_pool_leave(variable->object.runtime->pool);
    return status;
}

/* The rank's part of the caller's tensor. */
static muster_tensor part_of(const mst_change *change, int32_t index, int32_t rank) {
    (void)index;
    return mst_variable_part(change->tensors[0], change->axis, change->size, rank);
}

/* ---- get ---- */

static muster_status get_part(mst_change *change, muster_worker *worker, int32_t index) {
    if (change->axis < 0 && mst_worker_public_rank(worker) != 0) return MUSTER_OK;
    const muster_tensor to = change->axis < 0 ? change->tensors[0] : part_of(change, 0, mst_worker_public_rank(worker));
    return mst_change_fetch(change, worker, index, to, change->variables[index]->everywhere[mst_worker_public_rank(worker)].address);
}

static muster_status plan_get(mst_change *change) {
    const muster_variable *variable = change->variables[0];
    int64_t shape[MUSTER_MAX_DIMS];
    MUSTER_TRY(mst_change_check_defined_of(change, 0, 0, change->axis < 0 && !variable->portions ? 1 : change->size));
    mst_variable_whole_shape(variable, shape);
    if (variable->portions) return mst_change_get_portions(change);
    MUSTER_TRY(mst_change_check_shape(change, 0, variable->ndim, shape, "value"));
    if (change->axis < 0) mst_change_plan_fetch(change, 0, 0, change->tensors[0]);
    for (int32_t r = 0; change->axis >= 0 && r < change->size; r++) mst_change_plan_fetch(change, 0, r, part_of(change, 0, r));
    change->work = get_part;
    change->part = part_of;
    change->spread = change->axis < 0 ? mst_change_spread_from : mst_change_spread_parts;
    return mst_change_run(change, change->axis < 0);
}

/* ---- set ---- */

static muster_status set_part(mst_change *change, muster_worker *worker, int32_t index) {
    return mst_change_put(change, worker, index, part_of(change, 0, mst_worker_public_rank(worker)));
}

static muster_status plan_set(mst_change *change) {
    if (change->variables[0]->portions) return mst_change_set_portions(change);
    if (change->axis < 0) return mst_change_broadcast_values(change);
    MUSTER_TRY(mst_change_check_tensor(change, 0, change->variables[0]->ndim, "value"));
    MUSTER_TRY(mst_change_replicas(change));
    for (int32_t r = 0; r < change->size; r++) mst_change_plan_put(change, 0, r, part_of(change, 0, r));
    change->takes = true;
    change->work = set_part;
    return mst_change_run(change, false);
}

static muster_status whole_run(const char *where, muster_variable *variable, muster_tensor value,
                               muster_status (*plan)(mst_change *change)) {
    mst_change change;
    if (!variable) return mst_error_null(where, "variable", "a variable");
    MUSTER_TRY(mst_change_begin_any(&change, where, &variable, 1));
    change.tensors = &value;
    change.axis = mst_variable_split_axis(variable);
    return mst_change_end(&change, plan(&change));
}

muster_status muster_variable_get_whole(muster_variable *variable, muster_tensor value) {
    return whole_run("muster_variable_get_whole", variable, value, plan_get);
}

muster_status muster_variable_set_whole(muster_variable *variable, muster_tensor value) {
    return whole_run("muster_variable_set_whole", variable, value, plan_set);
}
