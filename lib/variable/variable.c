/* Creates and destroys variables, and answers queries about them. */
#include "change_private.h"

#include <string.h>

muster_tensor mst_variable_tensor(const muster_variable *variable, int32_t rank) {
    const mst_replica *replica = &variable->replicas[rank];
    muster_tensor tensor = muster_tensor_make(variable->dtype, replica->address, variable->ndim, replica->shape);
    tensor.device = rank;
    return tensor;
}

void mst_variable_set_undefined(muster_variable *variable) {
    for (int32_t r = 0; r < variable->object.runtime->total; r++) variable->everywhere[r].undefined = true;
}

static __attribute__((cold)) muster_status refuse_undefined(const muster_variable *variable, int32_t rank, const char *where) {
    return mst_error(MUSTER_BAD_STATE,
                     "%s: variable '%.200s': expected a defined value, but a call that failed while it updated the variable has left "
                     "its elements on rank %d undefined: set it on all devices again, by muster_variable_set_whole or, if it is the "
                     "state of a rule, muster_function_state_set",
                     where, variable->object.name, (int)(variable->object.runtime->first + rank));
}

muster_status mst_variable_check_defined(const muster_variable *variable, int32_t rank, int32_t count, const char *where) {
    for (int32_t r = rank; r < rank + count; r++)
        if (__builtin_expect(variable->replicas[r].undefined, 0)) return refuse_undefined(variable, r, where);
    return MUSTER_OK;
}

bool mst_variable_make_replicas(muster_variable *variable) {
    const muster_runtime *runtime = variable->object.runtime;
    variable->everywhere = mst_alloc((size_t)runtime->total * sizeof *variable->everywhere);
    if (variable->everywhere) variable->replicas = variable->everywhere + runtime->first;
    return variable->everywhere != NULL;
}

void mst_variable_free(muster_variable *variable) {
    for (int32_t r = 0; variable->replicas && r < variable->object.runtime->size; r++) {
        mst_device *device = variable->object.runtime->devices[r];
        device->memory->release(device, variable->replicas[r].address);
    }
    mst_free(variable->everywhere);
    mst_free(variable->portions);
    mst_object_retire(&variable->object, sizeof *variable);
}

static void destroy_object(mst_object *object) {
    mst_runtime_remove(object);
    mst_variable_free((muster_variable *)object);
}

muster_status mst_variable_add(muster_variable *variable, const char *name, const char *where) {
    variable->object.destroy = destroy_object;
    return mst_runtime_add(variable->object.runtime, &variable->object, "variable", name, where);
}

static muster_status fill_variable(mst_change *change, muster_variable *variable, const char *name) {
    MUSTER_TRY(mst_variable_add(variable, name, change->where));
    muster_status status = mst_change_broadcast_values(change);
    if (status != MUSTER_OK) mst_runtime_remove(&variable->object);
    return status;
}

/* Every replica becomes a copy of `value`. checked: is the value one? If not, the other processes
 * are told: they wait for this one. */
static muster_status create_variable(const char *where, muster_runtime *runtime, const char *name, muster_tensor value,
                                     muster_status checked, muster_variable **variable) {
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    if (checked && !runtime->nodes) return checked;
    if (checked) value = (muster_tensor){.dtype = MUSTER_F32}; /* which is not looked at */
    muster_variable *created = mst_alloc(sizeof *created);
    if (!created) return mst_variables_refuse(runtime, where, name, mst_out_of_memory(where, sizeof *created));
    created->object.runtime = runtime;
    created->dtype = value.dtype;
    created->ndim = value.ndim;
    atomic_init(&created->split_axis, -1);
    mst_change change;
    muster_status status =
        mst_variable_make_replicas(created)
            ? mst_change_begin(&change, where, &created, 1)
            : mst_variables_refuse(runtime, where, name, mst_out_of_memory(where, runtime->total * (int64_t)sizeof *created->replicas));
    if (status == MUSTER_OK) {
        change.tensors = checked ? NULL : &value;
        change.name = name;
        status = mst_change_end(&change, checked ? mst_error_restore(checked, message) : fill_variable(&change, created, name));
    }
    if (status == MUSTER_OK) {
        *variable = created;
    } else {
        mst_variable_free(created);
    }
    return status;
}

/* Are there a runtime, and a place for the variable? */
static muster_status begin_creation(const char *where, muster_runtime *runtime, const char *name, muster_variable **variable) {
    if (variable) *variable = NULL;
    if (!runtime) return mst_error_null(where, "runtime", "a runtime");
    if (variable) return MUSTER_OK;
    return mst_variables_refuse(runtime, where, name, mst_error_null(where, "variable", "the address of a pointer"));
}

muster_status muster_variable_create(muster_runtime *runtime, const char *name, muster_tensor value, muster_variable **variable) {
    static const char where[] = "muster_variable_create";
    MUSTER_TRY(begin_creation(where, runtime, name, variable));
    return create_variable(where, runtime, name, value, mst_tensor_check(value, where, "value"), variable);
}

static muster_status empty_value(const char *where, muster_dtype dtype, int32_t ndim, const int64_t *row_shape, muster_tensor *value) {
    int64_t shape[MUSTER_MAX_DIMS] = {0};
    if (ndim < 1 || ndim > MUSTER_MAX_DIMS)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: ndim: expected 1 to %d, received %d", where, MUSTER_MAX_DIMS, ndim);
    if (row_shape) memcpy(shape + 1, row_shape, (size_t)(ndim - 1) * sizeof *shape);
    if (muster_dtype_size(dtype) == 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: dtype: expected a muster_dtype, received %d", where, (int)dtype);
    *value = muster_tensor_make(dtype, NULL, ndim, shape);
    return mst_tensor_check(*value, where, "row_shape");
}

muster_status muster_variable_create_empty(muster_runtime *runtime, const char *name, muster_dtype dtype, int32_t ndim,
                                           const int64_t *row_shape, muster_variable **variable) {
    static const char where[] = "muster_variable_create_empty";
    muster_tensor value = {0};
    MUSTER_TRY(begin_creation(where, runtime, name, variable));
    const muster_status checked = empty_value(where, dtype, ndim, row_shape, &value);
    return create_variable(where, runtime, name, value, checked, variable);
}

static muster_status variable_enter(const muster_variable *variable, const char *where) {
    if (!variable) return mst_error_null(where, "variable", "a variable");
    return mst_pool_enter(variable->object.runtime->pool, where, 0);
}

muster_status muster_variable_destroy(muster_variable *variable) {
    if (!variable) return MUSTER_OK;
    muster_runtime *runtime = variable->object.runtime;
    MUSTER_TRY(mst_pool_enter_to_end(runtime->pool, "muster_variable_destroy"));
    muster_status status = MUSTER_OK;
    if (variable->users > 0) {
        status = mst_error(MUSTER_BAD_STATE, "muster_variable_destroy: variable '%.200s': expected no function that uses it, %d still do",
                           variable->object.name, variable->users);
    } else {
        destroy_object(&variable->object);
    }
    mst_pool_leave(runtime->pool);
    return status;
}

muster_status muster_variable_find(muster_runtime *runtime, const char *name, muster_variable **variable) {
    static const char where[] = "muster_variable_find";
    mst_object *object = NULL;
    if (!variable) return mst_error_null(where, "variable", "the address of a pointer");
    *variable = NULL;
    if (!runtime || !name) return mst_error_null(where, runtime ? "name" : "runtime", runtime ? "a string" : "a runtime");
    MUSTER_TRY(mst_pool_enter(runtime->pool, where, 0));
    const muster_status status = mst_runtime_find_object(runtime, "variable", name, where, &object);
    mst_pool_leave(runtime->pool);
    *variable = (muster_variable *)object;
    return status;
}

const char *muster_variable_name(const muster_variable *variable) { return variable ? variable->object.name : NULL; }
int32_t muster_variable_ndim(const muster_variable *variable) { return variable ? variable->ndim : -1; }
muster_dtype muster_variable_dtype(const muster_variable *variable) { return variable ? variable->dtype : MUSTER_DTYPE_NONE; }

static muster_status read_shape(const muster_variable *variable, int32_t rank, int32_t ndim, int64_t *shape) {
    int32_t size = variable->object.runtime->total;
    if (rank < 0 || rank >= size) {
        return mst_error(MUSTER_OUT_OF_RANGE, "muster_variable_shape: rank: expected 0 to %d, received %d", size - 1, rank);
    }
    if (ndim != variable->ndim)
        return mst_error(MUSTER_INVALID_ARGUMENT, "muster_variable_shape: ndim: variable '%.100s': expected %d, received %d",
                         variable->object.name, variable->ndim, ndim);
    if (ndim > 0 && !shape) return mst_error_null("muster_variable_shape", "shape", "the address of the sizes");
    if (ndim > 0) memcpy(shape, variable->everywhere[rank].shape, (size_t)ndim * sizeof *shape);
    return MUSTER_OK;
}

muster_status muster_variable_shape(muster_variable *variable, int32_t rank, int32_t ndim, int64_t *shape) {
    MUSTER_TRY(variable_enter(variable, "muster_variable_shape"));
    muster_status status = mst_variable_refuse_portions(variable, "muster_variable_shape");
    if (status == MUSTER_OK) status = read_shape(variable, rank, ndim, shape);
    mst_pool_leave(variable->object.runtime->pool);
    return status;
}

static muster_status read_lengths(const muster_variable *variable, int32_t count, int64_t *lengths) {
    int32_t size = variable->object.runtime->total;
    if (count != size)
        return mst_error(MUSTER_INVALID_ARGUMENT, "muster_variable_lengths: count: variable '%.100s': expected %d, received %d",
                         variable->object.name, size, count);
    if (!lengths) return mst_error_null("muster_variable_lengths", "lengths", "the address of the lengths");
    for (int32_t r = 0; r < size; r++) lengths[r] = variable->ndim == 0 ? 1 : variable->everywhere[r].shape[0];
    return MUSTER_OK;
}

muster_status muster_variable_lengths(muster_variable *variable, int32_t count, int64_t *lengths) {
    MUSTER_TRY(variable_enter(variable, "muster_variable_lengths"));
    muster_status status = mst_variable_refuse_portions(variable, "muster_variable_lengths");
    if (status == MUSTER_OK) status = read_lengths(variable, count, lengths);
    mst_pool_leave(variable->object.runtime->pool);
    return status;
}
