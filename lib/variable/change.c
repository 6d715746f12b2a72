#include "change_private.h"

#include <string.h>

int64_t mst_shape_bytes(muster_dtype dtype, int32_t ndim, const int64_t *shape) {
    int64_t bytes = muster_dtype_size(dtype);
    for (int32_t d = ndim - 1; d >= 0; d--) {
        if (shape[d] == 0) return 0; /* first look for a 0: the product of the other sizes may overflow */
    }
    for (int32_t d = 0; d < ndim; d++) bytes *= shape[d];
    return bytes;
}

static muster_status check_list(const char *where, muster_variable *const *variables, int32_t count) {
    if (count < 0) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: count: expected 0 or more, received %d", where, count);
    if (count > 0 && !variables)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: variables: expected a list of %d, received NULL", where, count);
    for (int32_t i = 0; i < count; i++) {
        if (!variables[i]) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: variables[%d]: expected a variable, received NULL", where, i);
        if (!variables[i]->object.runtime->pool) return mst_pool_ready(NULL, where);
        if (variables[i]->object.runtime != variables[0]->object.runtime) {
            return mst_error(MUSTER_INVALID_ARGUMENT,
                             "%s: variables[%d]: expected a variable of the same runtime, received '%.200s' of another", where, i,
                             variables[i]->object.name);
        }
        for (int32_t j = 0; j < i; j++) {
            if (variables[j] != variables[i]) continue;
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: variables[%d]: expected every variable once, received '%.200s' again", where, i,
                             variables[i]->object.name);
        }
    }
    return MUSTER_OK;
}

static muster_status allocate_plan(mst_change *change) {
    size_t cells = (size_t)change->count * (size_t)change->size;
    change->temporary_bytes = mst_alloc(cells * sizeof *change->temporary_bytes);
    if (!change->temporary_bytes) return mst_out_of_memory(change->where, (int64_t)(cells * sizeof *change->temporary_bytes));
    change->temporary = mst_alloc(cells * sizeof *change->temporary);
    return change->temporary ? MUSTER_OK : mst_out_of_memory(change->where, (int64_t)(cells * sizeof *change->temporary));
}

/* Of a list that is refused, so that any entry may be NULL. */
static muster_status refuse_variables(const char *where, muster_variable *const *variables, int32_t count, muster_status refused) {
    for (int32_t i = 0; variables && i < count; i++)
        if (variables[i] && variables[i]->object.runtime->pool)
            return mst_variables_refuse(variables[i]->object.runtime, where, variables[i]->object.name, refused);
    return refused;
}

muster_status mst_change_begin_any(mst_change *change, const char *where, muster_variable *const *variables, int32_t count) {
    const muster_status listed = check_list(where, variables, count);
    if (listed != MUSTER_OK) return refuse_variables(where, variables, count, listed);
    *change = (mst_change){.where = where, .variables = variables, .count = count};
    if (count == 0) return MUSTER_OK;
    change->runtime = variables[0]->object.runtime;
    change->size = change->runtime->total;
    MUSTER_TRY(mst_pool_enter(change->runtime->pool, where, 0));
    muster_status status = allocate_plan(change);
    return status == MUSTER_OK ? MUSTER_OK : mst_change_end(change, status);
}

muster_status mst_change_begin_split(mst_change *change, const char *where, muster_variable *const *variables, int32_t count) {
    MUSTER_TRY(mst_change_begin_any(change, where, variables, count));
    muster_status status = MUSTER_OK;
    for (int32_t i = 0; i < count && status == MUSTER_OK; i++) status = mst_variable_refuse_portions(variables[i], where);
    return status == MUSTER_OK ? MUSTER_OK : mst_change_end(change, status);
}

static muster_status refuse_split(const mst_change *change) {
    for (int32_t i = 0; i < change->count; i++) {
        const int32_t axis = mst_variable_split_axis(change->variables[i]);
        if (axis < 0) continue;
        return mst_error(MUSTER_UNSUPPORTED,
                         "%s: variable '%.100s': expected one that is not split, received one split along axis %d: "
                         "muster_variable_get_whole and muster_variable_set_whole take all of it, muster_variable_join makes every "
                         "replica whole again",
                         change->where, change->variables[i]->object.name, axis);
    }
    return MUSTER_OK;
}

muster_status mst_change_begin(mst_change *change, const char *where, muster_variable *const *variables, int32_t count) {
    MUSTER_TRY(mst_change_begin_split(change, where, variables, count));
    if (count == 0) return MUSTER_OK;
    muster_status status = refuse_split(change);
    return status == MUSTER_OK ? MUSTER_OK : mst_change_end(change, status);
}

muster_status mst_change_end(mst_change *change, muster_status status) {
    status = mst_change_refused(change, status);
    if (change->temporary) {
        for (int64_t cell = 0; cell < mst_change_at(change, change->count, 0); cell++) mst_free(change->temporary[cell]);
    }
    for (int32_t r = 0; change->parts && r < change->runtime->size; r++)
        change->runtime->devices[r]->memory->release(change->runtime->devices[r], change->parts[change->runtime->first + r]);
    mst_free(change->parts);
    mst_free(change->buffer);
    mst_free(change->block_bytes);
    mst_free(change->copy);
    mst_free(change->products);
    mst_free(change->process_weights);
    mst_free(change->device_results);
    mst_free(change->temporary);
    mst_free(change->temporary_bytes);
    mst_free(change->next);
    if (change->runtime) mst_pool_leave(change->runtime->pool);
    return status;
}

muster_status mst_variables_refuse(muster_runtime *runtime, const char *where, const char *name, muster_status refused) {
    char message[MST_MESSAGE_SIZE];
    if (!runtime->pool || !runtime->nodes) return refused;
    mst_error_save(message);
    MUSTER_TRY(mst_pool_enter(runtime->pool, where, 0));
    mst_change change = {.where = where, .runtime = runtime, .size = runtime->total, .name = name ? name : ""};
    return mst_change_end(&change, mst_error_restore(refused, message));
}

muster_status mst_change_refuse_list(const mst_change *change, const char *what) {
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected %d tensors, received NULL", change->where, what, (int)change->count);
}

muster_status mst_change_replicas(mst_change *change) {
    size_t bytes = (size_t)mst_change_at(change, change->count, 0) * sizeof *change->next;
    change->next = mst_alloc(bytes);
    if (!change->next) return mst_out_of_memory(change->where, (int64_t)bytes);
    for (int32_t i = 0; i < change->count; i++) {
        memcpy(&change->next[mst_change_at(change, i, 0)], change->variables[i]->everywhere, (size_t)change->size * sizeof *change->next);
    }
    return MUSTER_OK;
}

void mst_change_shape(mst_change *change, int32_t index, int32_t rank, const int64_t *shape, bool fresh) {
    const muster_variable *variable = change->variables[index];
    mst_replica *next = &change->next[mst_change_at(change, index, rank)];
    memcpy(next->shape, shape, (size_t)variable->ndim * sizeof *shape);
    next->undefined = false;
    int64_t bytes = mst_shape_bytes(variable->dtype, variable->ndim, shape);
    if (!fresh && next->address && bytes <= next->capacity) return;
    next->address = NULL;
    next->capacity = bytes;
}

void mst_change_rows(mst_change *change, int32_t index, int32_t rank, int32_t like, int64_t rows) {
    int64_t shape[MUSTER_MAX_DIMS];
    memcpy(shape, change->variables[index]->everywhere[like].shape, sizeof shape);
    shape[0] = rows;
    mst_change_shape(change, index, rank, shape, change->size > 1);
    mst_change_reserve(change, mst_replica_bytes(change->variables[index], &change->variables[index]->everywhere[rank]));
    mst_change_reserve(change, mst_replica_bytes(change->variables[index], &change->next[mst_change_at(change, index, rank)]));
}

void mst_change_temporary(mst_change *change, int32_t index, int32_t rank, int64_t bytes) {
    change->temporary_bytes[mst_change_at(change, index, rank)] = bytes;
}

/* Scratch memory belongs to one run. */
static muster_status take_scratch(mst_change *change, muster_worker *worker, int32_t index) {
    if (change->weights) MUSTER_TRY(mst_change_reserve_products(change, worker, index));
    return change->scratch ? change->scratch(change, worker, index) : MUSTER_OK;
}

static muster_status allocate_one(mst_change *change, muster_worker *worker, int32_t index) {
    int64_t cell = mst_change_at(change, index, mst_worker_public_rank(worker)), bytes = change->temporary_bytes[cell];
    mst_replica *next = change->next ? &change->next[cell] : NULL;
    if (next && !next->address) MUSTER_TRY(mst_worker_allocate(worker, next->capacity, &next->address));
    if (bytes > 0) {
        change->temporary[cell] = mst_alloc_uninitialised((size_t)bytes);
        if (!change->temporary[cell]) return mst_out_of_memory(change->where, bytes);
    }
    MUSTER_TRY(take_scratch(change, worker, index));
    return change->prepare ? change->prepare(change, worker, index) : MUSTER_OK;
}

static bool allocates(const mst_change *change) {
    if (change->prepare || change->scratch || change->weights || change->runtime->nodes ||
        (change->reserve > 0 && mst_worker_reserves(mst_pool_worker(change->runtime->pool, 0))))
        return true;
    for (int64_t cell = 0; cell < mst_change_at(change, change->count, 0); cell++) {
        if (change->temporary_bytes[cell] > 0 || (change->next && !change->next[cell].address)) return true;
    }
    return false;
}

static muster_status allocate_task(muster_worker *worker, void *argument) {
    mst_change *change = argument;
    for (int32_t i = 0; i < change->count; i++) MUSTER_TRY(allocate_one(change, worker, i));
    if (change->reserve > 0) MUSTER_TRY(mst_worker_reserve_of_all(worker, change->reserve));
    return mst_worker_collective(worker, (mst_request){.collective = MST_BARRIER, .root = -1});
}

static muster_status change_task(muster_worker *worker, void *argument) {
    mst_change *change = argument;
    for (int32_t i = 0; i < change->count; i++) MUSTER_TRY(change->work(change, worker, i));
    return mst_worker_sync(worker);
}

/* The run before has shown that there is memory, and left it to the worker. */
static muster_status change_again_task(muster_worker *worker, void *argument) {
    mst_change *change = argument;
    for (int32_t i = 0; i < change->count; i++) MUSTER_TRY(take_scratch(change, worker, i));
    return change_task(worker, argument);
}

static muster_status allocate_and_change_task(muster_worker *worker, void *argument) {
    MUSTER_TRY(allocate_task(worker, argument));
    return change_task(worker, argument);
}

/* Commits or rolls back. Of the two storages of each replica one is released: the old one after
 * success, the new one after failure. */
static void change_commit(mst_change *change, bool success) {
    for (int32_t i = 0; i < change->count; i++) {
        for (int32_t r = 0; r < change->size; r++) {
            mst_replica *current = &change->variables[i]->everywhere[r], *next = &change->next[mst_change_at(change, i, r)];
            /* the addresses of other processes are not known here */
            mst_device *device = current->address != next->address ? change->runtime->devices[r - change->runtime->first] : NULL;
            if (device) device->memory->release(device, success ? current->address : next->address);
            if (success) *current = *next;
        }
    }
}

static muster_status change_alone(mst_change *change, bool master_only) {
    mst_pool *pool = change->runtime->pool;
    mst_communicator_ready(change->runtime->communicator);
    const mst_task task = allocates(change) ? allocate_and_change_task : change_task;
    return master_only ? mst_pool_run_single(pool, task, change) : mst_pool_run(pool, task, change);
}

/* No process writes before all have allocated. */
static muster_status change_together(mst_change *change) {
    mst_pool *pool = change->runtime->pool;
    MUSTER_TRY(mst_change_agree(change));
    mst_communicator_ready(change->runtime->communicator);
    MUSTER_TRY(mst_change_finish(change, mst_pool_run(pool, allocate_task, change)));
    MUSTER_TRY(mst_change_agree(change));
    MUSTER_TRY(mst_change_finish(change, mst_pool_run(pool, change_again_task, change)));
    return change->spread ? change->spread(change) : MUSTER_OK;
}

muster_status mst_change_run(mst_change *change, bool master_only) {
    muster_status status = change->runtime->nodes ? change_together(change) : change_alone(change, master_only);
    if (!change->next) return status;
    char message[MST_MESSAGE_SIZE];
    if (status != MUSTER_OK) mst_error_save(message);
    change_commit(change, status == MUSTER_OK);
    return status == MUSTER_OK ? MUSTER_OK : mst_error_restore(status, message);
}
