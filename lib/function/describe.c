/* Adds inputs, outputs, variables and updates to the description of a function. */
#include "call_private.h"
#include "hash_impl.h"
#include "owner_impl.h"

#include <string.h>

muster_status mst_describe_open(muster_function *function, const char *where) {
    if (!function) return mst_error_null(where, "function", "a function");
    MUSTER_TRY(mst_pool_enter(function->object.runtime->pool, where, 0));
    if (!function->sealed) return MUSTER_OK;
    mst_pool_leave(function->object.runtime->pool);
    return mst_error(MUSTER_BAD_STATE, "%s: function '%s' has been called: its description is complete", where,
                     mst_function_name(function));
}

muster_status mst_describe_close(muster_function *function, muster_status status) {
    mst_pool_leave(function->object.runtime->pool);
    return status;
}

static muster_status check_port(muster_function *function, const mst_port *ports, int64_t count, const char *name, muster_dtype dtype,
                                int32_t ndim, const char *where) {
    const char *owner = mst_function_name(function);
    if (!name || !*name)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected a string, received %s", where, name ? "an empty one" : "NULL");
    MUSTER_TRY(mst_check_utf8(name, where, "name"));
    const uint32_t hash = mst_text_hash(name, (int64_t)strlen(name));
    for (int64_t i = 0; i < count; i++)
        if (ports[i].hash == hash && strcmp(ports[i].name, name) == 0)
            return mst_error(MUSTER_INVALID_ARGUMENT,
                             "%s: name: expected a new name in function '%s', received '%s', that of position %lld", where, owner, name,
                             (long long)i);
    if (muster_dtype_size(dtype) == 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: dtype of '%s': expected a muster_dtype, received %d", where, name, (int)dtype);
    if (ndim < 0 || ndim > MUSTER_MAX_DIMS)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: ndim of '%s': expected 0 to %d, received %d", where, name, MUSTER_MAX_DIMS,
                         (int)ndim);
    return MUSTER_OK;
}

static muster_status add_port(mst_port **ports, int64_t *count, int64_t *capacity, mst_port port, const char *where) {
    MUSTER_TRY(mst_grow((void **)ports, capacity, *count + 1, sizeof **ports, where));
    const char *name = port.name;
    port.name = mst_strdup(name);
    if (!port.name) return mst_out_of_memory(where, (int64_t)strlen(name) + 1);
    port.hash = mst_text_hash(name, (int64_t)strlen(name));
    (*ports)[(*count)++] = port;
    return MUSTER_OK;
}

muster_status mst_describe_input(muster_function *function, const char *name, muster_dtype dtype, int32_t ndim, muster_input_mode mode,
                                 const char *where) {
    MUSTER_TRY(check_port(function, function->inputs, function->input_count, name, dtype, ndim, where));
    const bool host = mode > 0 && (mode & MUSTER_INPUT_HOST), strided = mode > 0 && (mode & MUSTER_STRIDED);
    if (host) mode -= MUSTER_INPUT_HOST;
    if (strided) mode -= MUSTER_STRIDED;
    if (mode < MUSTER_SCATTER || mode > MUSTER_MINIBATCH)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: mode of '%s': expected MUSTER_SCATTER, MUSTER_BROADCAST or MUSTER_MINIBATCH, received %d%s", where, name,
                         (int)mode, host ? " with MUSTER_INPUT_HOST" : "");
    if (mode != MUSTER_BROADCAST && ndim == 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: ndim of '%s': a scattered input has rows: expected at least 1, received 0", where,
                         name);
    mst_port port = {.name = (char *)name, .dtype = dtype, .ndim = ndim, .mode = mode, .host = host, .strided = strided};
    MUSTER_TRY(add_port(&function->inputs, &function->input_count, &function->input_capacity, port, where));
    function->scatters |= mode != MUSTER_BROADCAST;
    return MUSTER_OK;
}

muster_status muster_function_input(muster_function *function, const char *name, muster_dtype dtype, int32_t ndim, muster_input_mode mode) {
    const char *where = "muster_function_input";
    MUSTER_TRY(mst_describe_open(function, where));
    return mst_describe_close(function, mst_describe_input(function, name, dtype, ndim, mode, where));
}

static muster_status check_mode(muster_collect_mode mode, muster_dtype dtype, bool gather_allowed, const char *name, const char *where) {
    if (mode == MUSTER_MASTER || (gather_allowed && mode == MUSTER_GATHER)) return MUSTER_OK;
    if (mode < MUSTER_SUM || mode > MUSTER_AVG)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: mode of '%s': expected MUSTER_SUM, _PROD, _MAX, _MIN, _AVG%s or _MASTER, received %d", where, name,
                         gather_allowed ? ", _GATHER" : "", (int)mode);
    return mst_reduction_check_as("mode", mode, dtype, where);
}

muster_status mst_describe_output(muster_function *function, const char *name, muster_dtype dtype, int32_t ndim, muster_collect_mode mode,
                                  const char *where) {
    const bool strided = mode > 0 && (mode & MUSTER_STRIDED);
    if (strided) mode -= MUSTER_STRIDED;
    MUSTER_TRY(check_port(function, function->outputs, function->output_count, name, dtype, ndim, where));
    MUSTER_TRY(check_mode(mode, dtype, true, name, where));
    if (mode == MUSTER_GATHER && ndim == 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: ndim of '%s': a gathered output has rows: expected at least 1, received 0", where,
                         name);
    mst_port port = {.name = (char *)name, .dtype = dtype, .ndim = ndim, .mode = mode, .strided = strided};
    return add_port(&function->outputs, &function->output_count, &function->output_capacity, port, where);
}

muster_status muster_function_output(muster_function *function, const char *name, muster_dtype dtype, int32_t ndim,
                                     muster_collect_mode mode) {
    const char *where = "muster_function_output";
    MUSTER_TRY(mst_describe_open(function, where));
    return mst_describe_close(function, mst_describe_output(function, name, dtype, ndim, mode, where));
}

/* Finds or adds the entry of a variable; there is one per variable, whether it is read, updated or
 * both. */
static muster_status describe_find_use(muster_function *function, muster_variable *variable, const char *where, mst_use **use) {
    if (!variable) return mst_error_null(where, "variable", "a variable");
    if (!variable->object.runtime->pool) return mst_pool_ready(NULL, where);
    if (variable->object.runtime != function->object.runtime)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: variable '%s' belongs to another runtime than function '%s'", where,
                         variable->object.name, mst_function_name(function));
    if (variable->portions && (!variable->portions->owner || variable->portions->owner != function->user))
        MUSTER_TRY(mst_variable_refuse_portions(variable, where));
    for (int64_t i = 0; i < function->use_count; i++)
        if (function->uses[i].variable == variable) {
            *use = &function->uses[i];
            return MUSTER_OK;
        }
    MUSTER_TRY(mst_grow((void **)&function->uses, &function->use_capacity, function->use_count + 1, sizeof **use, where));
    *use = &function->uses[function->use_count++];
    **use = (mst_use){.variable = variable};
    variable->users++;
    return MUSTER_OK;
}

muster_status mst_describe_variable(muster_function *function, muster_variable *variable, muster_variable_use kind, const char *where) {
    if (kind < MUSTER_USE_READ || kind > MUSTER_USE_READ_SLICEABLE)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: use: expected MUSTER_USE_READ, MUSTER_USE_READ_WRITE or MUSTER_USE_READ_SLICEABLE, received %d", where,
                         (int)kind);
    if (variable && kind == MUSTER_USE_READ_SLICEABLE && variable->ndim == 0 && variable->object.name)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: variable '%s' has no rows (ndim 0): it cannot be sliceable", where,
                         variable->object.name);
    mst_use *use;
    MUSTER_TRY(describe_find_use(function, variable, where, &use));
    use->sliceable |= kind == MUSTER_USE_READ_SLICEABLE;
    use->written |= kind == MUSTER_USE_READ_WRITE;
    use->read = true;
    function->slices_variables |= use->sliceable;
    return MUSTER_OK;
}

muster_status muster_function_variable(muster_function *function, muster_variable *variable, muster_variable_use use) {
    const char *where = "muster_function_variable";
    MUSTER_TRY(mst_describe_open(function, where));
    return mst_describe_close(function, mst_describe_variable(function, variable, use, where));
}

muster_status mst_describe_update(muster_function *function, muster_variable *variable, muster_collect_mode mode, const char *where) {
    if (variable && variable->object.name) MUSTER_TRY(check_mode(mode, variable->dtype, false, variable->object.name, where));
    mst_use *use;
    MUSTER_TRY(describe_find_use(function, variable, where, &use));
    if (use->updated)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: variable '%s' is updated by function '%s' already", where, variable->object.name,
                         mst_function_name(function));
    use->updated = true;
    use->mode = mode;
    return MUSTER_OK;
}

muster_status muster_function_update(muster_function *function, muster_variable *variable, muster_collect_mode mode) {
    const char *where = "muster_function_update";
    MUSTER_TRY(mst_describe_open(function, where));
    return mst_describe_close(function, mst_describe_update(function, variable, mode, where));
}

muster_status muster_function_set_runs_without_rows(muster_function *function, int32_t runs) {
    MUSTER_TRY(mst_describe_open(function, "muster_function_set_runs_without_rows"));
    function->runs_without_rows = runs != 0;
    return mst_describe_close(function, MUSTER_OK);
}

muster_status mst_function_count_without_rows(muster_function *function) {
    MUSTER_TRY(mst_describe_open(function, "muster_function_set_runs_without_rows"));
    function->runs_without_rows = function->counts_without_rows = true;
    return mst_describe_close(function, MUSTER_OK);
}

muster_status muster_function_set_default_stream(muster_function *function, muster_default_stream mode) {
    static const char where[] = "muster_function_set_default_stream";
    MUSTER_TRY(mst_describe_open(function, where));
    muster_status status = MUSTER_OK;
    if (mode < MUSTER_DEFAULT_STREAM_IGNORED || mode > MUSTER_DEFAULT_STREAM_REFUSED)
        status = mst_error(MUSTER_INVALID_ARGUMENT, "%s: mode: expected MUSTER_DEFAULT_STREAM_IGNORED, _ORDERED or _REFUSED, received %d",
                           where, (int)mode);
    else
        function->default_stream = mode;
    return mst_describe_close(function, status);
}

muster_status muster_function_set_shards_together(muster_function *function, int32_t together) {
    MUSTER_TRY(mst_describe_open(function, "muster_function_set_shards_together"));
    function->shards_together = together != 0;
    function->shards_said = true;
    return mst_describe_close(function, MUSTER_OK);
}
