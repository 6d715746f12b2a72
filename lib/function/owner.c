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
