/* Creates and destroys functions. */
#include "place_private.h"

#include <string.h>

const char *mst_function_name(const muster_function *function) { return function->object.name; }

static void destroy_ports(mst_port *ports, int64_t count) {
    for (int64_t i = 0; i < count; i++) mst_free(ports[i].name);
    mst_free(ports);
}

static void destroy_function(mst_object *object) {
    muster_function *function = (muster_function *)object;
    mst_function_unseal(function);
    for (int64_t i = 0; i < function->use_count; i++) function->uses[i].variable->users--;
    mst_runtime_remove(object);
    destroy_ports(function->inputs, function->input_count);
    destroy_ports(function->outputs, function->output_count);
    mst_free(function->uses);
    mst_free(function->bodies);
    mst_owned_move(&function->owned, &object->runtime->ended);
    mst_object_retire(object, sizeof *function);
}

static muster_body find_body(const muster_backend_body *bodies, int32_t count, const char *backend) {
    for (int32_t i = 0; i < count; i++)
        if (bodies[i].backend && strcmp(bodies[i].backend, backend) == 0) return bodies[i].body;
    for (int32_t i = 0; i < count; i++)
        if (!bodies[i].backend) return bodies[i].body;
    return NULL;
}

/* What a function is made of: the arguments of create. */
typedef struct function_parts {
    const char *where; /* the public function, for messages */
    const char *name;
    const muster_backend_body *bodies;
    int32_t body_count;
    void *user;
    muster_destroy_function destroy;
} function_parts;

static muster_status function_create(muster_runtime *runtime, const function_parts *parts, muster_function **result) {
    const char *where = parts->where, *name = parts->name;
    muster_function *function = mst_alloc(sizeof *function);
    if (!function) return mst_out_of_memory(where, (int64_t)sizeof *function);
    muster_status status = mst_owned_make(where, parts->destroy, parts->user, &function->owned);
    if (status) goto fail;
    function->user = parts->user;
    function->object.destroy = destroy_function;
    function->bodies = mst_alloc((size_t)runtime->size * sizeof *function->bodies);
    if (!function->bodies) {
        status = mst_out_of_memory(where, (int64_t)runtime->size * (int64_t)sizeof *function->bodies);
        goto fail;
    }
    for (int32_t r = 0; r < runtime->size; r++) {
        const mst_device *device = runtime->devices[r];
        function->on_devices |= !mst_device_is_host(device);
        function->bodies[r] = find_body(parts->bodies, parts->body_count, device->table->backend);
        if (function->bodies[r]) continue;
        status = mst_error(MUSTER_UNSUPPORTED,
                           "%s: bodies: function '%s' has no body for device %d (%s): expected one for backend '%s' or one for every "
                           "backend, received none",
                           where, name, (int)r, device->name, device->table->backend);
        goto fail;
    }
    status = mst_runtime_add(runtime, &function->object, "function", name, where);
    if (status) goto fail;
    *result = function;
    return MUSTER_OK;
fail:
    mst_owned_forget(function->owned);
    mst_free(function->bodies);
    mst_free(function);
    return status;
}

static muster_status function_create_checked(muster_runtime *runtime, const function_parts *parts, muster_function **function) {
    const char *where = parts->where;
    if (!function) return mst_error_null(where, "function", "the address of a pointer");
    *function = NULL;
    if (!runtime) return mst_error_null(where, "runtime", "a runtime");
    if (!parts->name) return mst_error_null(where, "name", "a string");
    if (parts->body_count < 1)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: body_count: expected 1 or more, received %d", where, (int)parts->body_count);
    if (!parts->bodies) return mst_error_null(where, "bodies", "a list of bodies");
    for (int32_t i = 0; i < parts->body_count; i++)
        if (!parts->bodies[i].body)
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: bodies[%d]: expected a function, received NULL", where, (int)i);
    MUSTER_TRY(mst_pool_enter(runtime->pool, where, 0));
    mst_pool_set_absence(runtime->pool, mst_call_explain_absence);
    muster_status status = function_create(runtime, parts, function);
    mst_pool_leave(runtime->pool);
    return status;
}

muster_status muster_function_create(muster_runtime *runtime, const char *name, muster_body body, void *user, muster_function **function) {
    const muster_backend_body everywhere = {NULL, body};
    const function_parts parts = {"muster_function_create", name, &everywhere, 1, user, NULL};
    if (function) *function = NULL;
    if (!body) return mst_error_null(parts.where, "body", "a function");
    return function_create_checked(runtime, &parts, function);
}

muster_status muster_function_create_with(muster_runtime *runtime, const char *name, const muster_backend_body *bodies, int32_t body_count,
                                          void *user, muster_function **function) {
    const function_parts parts = {"muster_function_create_with", name, bodies, body_count, user, NULL};
    return function_create_checked(runtime, &parts, function);
}

muster_status muster_function_create_owned(muster_runtime *runtime, const char *name, const muster_backend_body *bodies, int32_t body_count,
                                           void *user, muster_destroy_function destroy, muster_function **function) {
    const function_parts parts = {"muster_function_create_owned", name, bodies, body_count, user, destroy};
    return mst_owned_refused(function_create_checked(runtime, &parts, function), destroy, user);
}

muster_status muster_function_destroy(muster_function *function) {
    if (!function) return MUSTER_OK;
    muster_runtime *runtime = function->object.runtime;
    mst_pool *pool = runtime->pool;
    MUSTER_TRY(mst_pool_enter_to_end(pool, "muster_function_destroy"));
    destroy_function(&function->object);
    mst_owned *ended = mst_runtime_take_ended(runtime);
    mst_pool_leave(pool);
    mst_owned_end(ended);
    return MUSTER_OK;
}
