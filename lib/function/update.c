/* Updates. Every slice and every shard sees the variable's value from before the call. The new
 * value is accumulated in other memory. Only after every worker has succeeded does it replace the
 * old one: the two memories are swapped. */
#include "output_private.h"

#include <string.h>

static int64_t replica_count(const muster_variable *variable, int32_t rank) {
    return muster_tensor_count(mst_variable_tensor(variable, rank));
}

void mst_updates_reset(mst_call *call, muster_worker *worker) {
    mst_rank *rank = mst_call_rank(call, worker);
    for (int64_t u = 0; u < call->function->use_count; u++) {
        rank->updates[u].begun = rank->updates[u].touched = false;
        rank->updates[u].weight = 0;
    }
}

void mst_updates_prepare(mst_call *call, muster_worker *worker) {
    mst_rank *rank = mst_call_rank(call, worker);
    for (int64_t u = 0; u < call->function->use_count; u++) rank->updates[u].touched = false;
}

static int64_t update_find_use(const muster_function *function, const muster_variable *variable) {
    for (int64_t u = 0; u < function->use_count; u++)
        if (function->uses[u].variable == variable) return u;
    return -1;
}

/* The failure is also returned by an operation that gets "no tensor". */
static muster_status update_refuse(muster_worker *worker, muster_status status, muster_tensor *tensor) {
    if (worker && worker == mst_current_worker()) mst_worker_keep_failure(worker, status);
    *tensor = muster_tensor_none();
    return status;
}

static muster_status find_declared(muster_worker *worker, const muster_variable *variable, const char *where, int64_t *use) {
    MUSTER_TRY(mst_worker_check(worker, where));
    if (!mst_worker_rank(worker))
        return mst_error(MUSTER_BAD_STATE, "%s: worker: expected the worker of a running body, received one of another task", where);
    if (!variable) return mst_error_null(where, "variable", "a variable");
    const muster_function *function = mst_worker_rank(worker)->call->function;
    *use = update_find_use(function, variable);
    if (*use >= 0) return MUSTER_OK;
    const char *name = muster_variable_name(variable);
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "%s: variable: expected one that function '%.100s' has declared (muster_function_variable or "
                     "muster_function_update), received '%.100s'",
                     where, mst_function_name(function), name ? name : "one that was destroyed");
}

muster_status muster_worker_variable(muster_worker *worker, muster_variable *variable, muster_tensor *tensor) {
    int64_t use;
    if (!tensor) return mst_error_null("muster_worker_variable", "tensor", "the address of a tensor");
    muster_status status = find_declared(worker, variable, "muster_worker_variable", &use);
    if (status != MUSTER_OK) return update_refuse(worker, status, tensor);
    *tensor = mst_worker_rank(worker)->views[use];
    return MUSTER_OK;
}

/* Has another shard of this rank given the MUSTER_MASTER update? The first one gives it, so that
 * the value in rank 0's replica is shard 0's for every number of ranks. */
static bool update_is_taken(const mst_rank *rank, const mst_use *use, const mst_part *part) {
    return use->mode == MUSTER_MASTER && part->begun && part->owner != rank->body.shard;
}

static muster_status prepare_update(muster_worker *worker, muster_variable *variable, muster_tensor *view) {
    const char *where = "muster_worker_update";
    int64_t use;
    MUSTER_TRY(find_declared(worker, variable, where, &use));
    const mst_rank *rank = mst_worker_rank(worker);
    const muster_function *function = rank->call->function;
    if (!function->uses[use].updated)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: variable: function '%s' reads variable '%s' but has declared no update of it", where,
                         mst_function_name(function), variable->object.name);
    mst_part *part = &rank->updates[use];
    const muster_tensor current = mst_variable_tensor(variable, worker->rank);
    void *address;
    /* The value is ignored, and must not overwrite that of an earlier slice. */
    if ((rank->body.rows == 0 && !function->counts_without_rows) || update_is_taken(rank, &function->uses[use], part)) {
        MUSTER_TRY(mst_worker_scratch_bytes(worker, mst_tensor_bytes(current), &address));
    } else {
        MUSTER_TRY(mst_worker_store_reserve(worker, &part->value, mst_tensor_bytes(current)));
        address = part->value.address;
    }
    *view = muster_tensor_make(current.dtype, address, current.ndim, current.shape);
    view->device = worker->rank;
    part->touched = true;
    return MUSTER_OK;
}

muster_status muster_worker_update(muster_worker *worker, muster_variable *variable, muster_tensor *tensor) {
    if (!tensor) return mst_error_null("muster_worker_update", "tensor", "the address of a tensor");
    muster_status status = prepare_update(worker, variable, tensor);
    return status == MUSTER_OK ? MUSTER_OK : update_refuse(worker, status, tensor);
}

muster_status mst_updates_accumulate(mst_call *call, muster_worker *worker) {
    const muster_function *function = call->function;
    mst_rank *rank = mst_call_rank(call, worker);
    for (int64_t u = 0; u < function->use_count; u++) {
        mst_part *part = &rank->updates[u];
        const mst_use *use = &function->uses[u];
        if (!part->touched || update_is_taken(rank, use, part)) continue;
        part->owner = rank->body.shard;
        if (mst_updates_need_no_sum(call))
            part->begun = use->mode != MUSTER_AVG || rank->body.weight > 0;
        else
            MUSTER_TRY(mst_part_accumulate(worker, part, use->mode, use->variable->dtype, replica_count(use->variable, worker->rank)));
    }
    return MUSTER_OK;
}

/* Converts the accumulated values to the variables' dtypes, at part->value. */
muster_status mst_updates_finish(mst_call *call, muster_worker *worker) {
    const muster_function *function = call->function;
    mst_rank *rank = mst_call_rank(call, worker);
    if (mst_updates_need_no_sum(call)) return MUSTER_OK;
    for (int64_t u = 0; u < function->use_count; u++) {
        const mst_part *part = &rank->updates[u];
        const muster_variable *variable = function->uses[u].variable;
        if (!part->begun || function->uses[u].mode == MUSTER_MASTER) continue;
        MUSTER_TRY(mst_worker_convert(worker, variable->dtype, part->value.address, mst_dtype_compute(variable->dtype), part->sum.address,
                                      replica_count(variable, worker->rank)));
    }
    return MUSTER_OK;
}

void mst_updates_apply(mst_call *call) {
    muster_function *function = call->function;
    for (int32_t r = 0; r < call->size; r++) {
        for (int64_t u = 0; u < function->use_count; u++) {
            mst_part *part = &function->ranks[r].updates[u];
            mst_replica *replica = &function->uses[u].variable->replicas[r];
            if (!part->begun) continue;
            mst_store old = {.address = replica->address, .capacity = replica->capacity};
            replica->address = part->value.address;
            replica->capacity = part->value.capacity;
            replica->undefined = false;
            part->value = old;
            part->begun = false;
        }
    }
}
