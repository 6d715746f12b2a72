/* What a function runs, for the module that made it. */
#include "call_private.h"
#include "owner_impl.h"

muster_status mst_function_enter(muster_function *function, muster_body body, const char *where, const char *what, void **user) {
    if (!function) return mst_error_null(where, "function", "a function");
    MUSTER_TRY(mst_runtime_check_open(function->object.runtime, where));
    MUSTER_TRY(mst_pool_enter(function->object.runtime->pool, where, 0));
    if (function->bodies[0] == body) {
        *user = function->user;
        return MUSTER_OK;
    }
    mst_pool_leave(function->object.runtime->pool);
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: function: expected %s, received '%s', which is another", where, what,
                     mst_function_name(function));
}

void mst_function_leave(muster_function *function) { mst_pool_leave(function->object.runtime->pool); }

void mst_function_set_ended(muster_function *function, mst_function_ended ended) { function->ended = ended; }
void mst_function_set_output_rows(muster_function *function, int64_t output) { function->outputs[output].has_rows = true; }
void mst_function_set_dtype_hint(muster_function *function, const char *hint) { function->dtype_hint = hint; }

bool mst_worker_rows_are_own(const muster_worker *worker) {
    const muster_function *function = mst_worker_rank(worker)->call->function;
    for (int64_t i = 0; i < function->input_count; i++)
        if (function->inputs[i].ways == MUSTER_SOURCE_OWN) return function->object.runtime->nodes != NULL;
    return false;
}

static muster_status inside_check(const muster_worker *worker, const char *where) {
    MUSTER_TRY(mst_worker_check(worker, where));
    if (mst_worker_rank(worker)) return MUSTER_OK;
    return mst_error(MUSTER_BAD_STATE, "%s: worker: expected the worker of a running body, received one of another task", where);
}

muster_status mst_function_inside(const muster_worker *worker, const muster_function *function, muster_body body, const char *where,
                                  const char *what, void **user) {
    MUSTER_TRY(inside_check(worker, where));
    if (!function) return mst_error_null(where, "function", "a function");
    if (!function->object.runtime->pool)
        return mst_error(MUSTER_BAD_STATE, "%s: function: expected %s, received one that has been destroyed", where, what);
    if (function->object.runtime->pool != worker->pool)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: function: expected one of the worker's runtime, received '%s' of another", where,
                         mst_function_name(function));
    *user = function->user;
    if (function->bodies[0] == body) return MUSTER_OK;
    return mst_error(MUSTER_UNSUPPORTED, "%s: function: expected %s, received '%s', which is another", where, what,
                     mst_function_name(function));
}

static const char *use_text(const mst_use *use) {
    return !use->read       ? "an update of it alone"
           : use->sliceable ? "MUSTER_USE_READ_SLICEABLE"
           : use->written   ? "MUSTER_USE_READ_WRITE"
                            : "MUSTER_USE_READ";
}

muster_status mst_function_inside_variable(muster_worker *worker, const muster_variable *variable, bool written, const char *where,
                                           const char *does, const char *name, muster_tensor *tensor) {
    MUSTER_TRY(inside_check(worker, where));
    const mst_rank *rank = mst_worker_rank(worker);
    const muster_function *function = rank->call->function;
    const mst_use *use = NULL;
    for (int64_t u = 0; u < function->use_count && !use; u++)
        if (function->uses[u].variable == variable) use = &function->uses[u];
    if (use && use->read && (!written || (use->written && !use->sliceable))) {
        *tensor = rank->views[use - function->uses];
        return MUSTER_OK;
    }
    return mst_error(
        MUSTER_INVALID_ARGUMENT,
        "%s: variable \"%.60s\": expected one that function '%.60s', whose body %s%s%.60s%s, has declared with %s, received %s", where,
        variable->object.name, mst_function_name(function), does, name ? " '" : "", name ? name : "", name ? "'" : "",
        written ? "MUSTER_USE_READ_WRITE" : "muster_function_variable", use ? use_text(use) : "none");
}
