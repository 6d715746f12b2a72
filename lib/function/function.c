/* Creates and destroys functions, and seals them: sealing allocates the arrays for calls when the
 * description is complete. */
#include "place_private.h"

#include <string.h>

const char *mst_function_name(const muster_function *function) { return function->object.name; }

void mst_host_store_free(mst_store *store) {
    mst_free(store->address);
    *store = (mst_store){0};
}

muster_status mst_host_store_reserve(mst_store *store, int64_t bytes, const char *what) {
    if (bytes <= store->capacity && store->address) return MUSTER_OK;
    void *address = mst_alloc_uninitialised((size_t)bytes);
    if (!address) return mst_out_of_memory(what, bytes);
    mst_free(store->address);
    *store = (mst_store){.address = address, .capacity = bytes};
    return MUSTER_OK;
}

void mst_device_store_free(mst_device *device, mst_store *store) {
    device->memory->release(device, store->address);
    *store = (mst_store){0};
}

muster_status mst_device_store_reserve(mst_device *device, mst_store *store, int64_t bytes) {
    if (bytes <= store->capacity && store->address) return MUSTER_OK;
    void *address;
    /* Nothing uses the old block: every run has waited for its device. A wait here would have no
     * deadline. */
    MUSTER_TRY(device->memory->allocate(device, bytes, &address));
    device->memory->release(device, store->address);
    *store = (mst_store){.address = address, .capacity = bytes};
    return MUSTER_OK;
}

muster_status mst_worker_store_reserve(muster_worker *worker, mst_store *store, int64_t bytes) {
    if (bytes <= store->capacity && store->address) return MUSTER_OK;
    void *address;
    /* Queued work may still use the old block. */
    if (!mst_device_is_host(worker->device) || worker->device->queued) MUSTER_TRY(mst_worker_sync(worker));
    MUSTER_TRY(mst_worker_allocate(worker, bytes, &address));
    worker->device->memory->release(worker->device, store->address);
    *store = (mst_store){.address = address, .capacity = bytes};
    return MUSTER_OK;
}

static void function_free_part(mst_device *device, mst_part *part) {
    mst_device_store_free(device, &part->value);
    mst_device_store_free(device, &part->sum);
    mst_locked_store_free(device, &part->host);
    mst_host_store_free(&part->overflow);
}

static void function_free_rank(muster_function *function, int32_t r) {
    mst_rank *rank = &function->ranks[r];
    mst_device *device = function->object.runtime->devices[r];
    for (int64_t i = 0; rank->staged && i < MST_CHUNKS * function->input_count; i++) mst_device_store_free(device, &rank->staged[i]);
    for (int32_t c = 0; c < MST_CHUNKS; c++) {
        mst_device_event_destroy(rank->come[c]);
        mst_device_event_destroy(rank->used[c]);
    }
    for (int64_t i = 0; rank->pinned_bounce && i < MST_CHUNKS * function->input_count; i++)
        mst_locked_store_free(device, &rank->pinned_bounce[i]);
    for (int64_t i = 0; rank->updates && i < function->use_count; i++) function_free_part(device, &rank->updates[i]);
    for (int64_t i = 0; rank->gathered_rows && i < function->use_count; i++) mst_device_store_free(device, &rank->gathered_rows[i]);
    for (int64_t i = 0; rank->lists && i < function->use_count; i++) mst_device_store_free(device, &rank->lists[i]);
    mst_free(rank->in);
    mst_free(rank->out);
    mst_free(rank->kept_out);
    mst_free(rank->staged);
    mst_free(rank->pinned_bounce);
    mst_free(rank->updates);
    mst_free(rank->gathered_rows);
    mst_free(rank->lists);
    mst_free(rank->views);
    *rank = (mst_rank){0};
}

static void function_free_shards(muster_function *function, mst_logical_shard *shards, int32_t count, int32_t ranks) {
    for (int32_t s = 0; shards && s < count; s++) {
        mst_device *device = function->object.runtime->devices[s / (count / ranks)];
        for (int64_t i = 0; shards[s].parts && i < function->output_count; i++) function_free_part(device, &shards[s].parts[i]);
        mst_free(shards[s].parts);
    }
    mst_free(shards);
}

/* Frees everything that sealing allocated; the description stays. */
static void unseal(muster_function *function) {
    for (int32_t r = 0; function->ranks && r < function->object.runtime->size; r++) function_free_rank(function, r);
    function_free_shards(function, function->shards, function->together.shard_count, function->together.size);
    function_free_shards(function, function->master_shards, function->single.shard_count, 1);
    for (int64_t i = 0; function->results && i < function->output_count; i++) mst_host_store_free(&function->results[i]);
    mst_free(function->ranks);
    mst_free(function->plan.inputs);
    mst_free(function->plan.outputs);
    mst_free(function->plan.addresses);
    mst_free(function->plan.spans);
    mst_free(function->plan.reduced);
    mst_places_free(function);
    mst_free(function->named);
    mst_free(function->results);
    function->ranks = NULL;
    function->shards = function->master_shards = NULL;
    function->plan = (mst_plan){0};
    function->named = NULL;
    function->results = NULL;
}

static void destroy_ports(mst_port *ports, int64_t count) {
    for (int64_t i = 0; i < count; i++) mst_free(ports[i].name);
    mst_free(ports);
}

static void destroy_function(mst_object *object) {
    muster_function *function = (muster_function *)object;
    unseal(function);
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
    MUSTER_TRY(mst_pool_enter(pool, "muster_function_destroy", 0));
    destroy_function(&function->object);
    mst_owned *ended = mst_runtime_take_ended(runtime);
    mst_pool_leave(pool);
    mst_owned_end(ended);
    return MUSTER_OK;
}

/* Allocates the arrays that a rank needs in calls. */
static muster_status function_seal_rank(muster_function *function, mst_rank *rank) {
    const size_t inputs = (size_t)function->input_count, outputs = (size_t)function->output_count, uses = (size_t)function->use_count;
    rank->in = mst_alloc(inputs * sizeof *rank->in);
    rank->out = mst_alloc(outputs * sizeof *rank->out);
    rank->kept_out = mst_alloc(outputs * sizeof *rank->kept_out);
    rank->staged = mst_alloc(MST_CHUNKS * inputs * sizeof *rank->staged);
    rank->pinned_bounce = mst_alloc(MST_CHUNKS * inputs * sizeof *rank->pinned_bounce);
    rank->updates = mst_alloc(uses * sizeof *rank->updates);
    rank->gathered_rows = mst_alloc(uses * sizeof *rank->gathered_rows);
    rank->lists = mst_alloc(uses * sizeof *rank->lists);
    rank->views = mst_alloc(uses * sizeof *rank->views);
    if (rank->in && rank->out && rank->kept_out && rank->staged && rank->pinned_bounce && rank->updates && rank->gathered_rows &&
        rank->lists && rank->views)
        return MUSTER_OK;
    return mst_out_of_memory("muster_function_call: the plan of the function",
                             (int64_t)(inputs + outputs + uses) * (int64_t)sizeof(mst_part));
}

static muster_status function_seal_shards(const muster_function *function, int32_t count, mst_logical_shard **shards) {
    *shards = mst_alloc((size_t)count * sizeof **shards);
    if (!*shards)
        return mst_out_of_memory("muster_function_call: the logical shards of the function", (int64_t)count * (int64_t)sizeof **shards);
    for (int32_t s = 0; s < count; s++) {
        (*shards)[s].parts = mst_alloc((size_t)function->output_count * sizeof(mst_part));
        if (!(*shards)[s].parts)
            return mst_out_of_memory("muster_function_call: the logical shards of the function",
                                     function->output_count * (int64_t)sizeof(mst_part));
    }
    return MUSTER_OK;
}

/* Without logical shards, or with a body that takes its shards together, each rank runs the body
 * for one shard. Otherwise it does so for each of its logical shards. */
static muster_status function_seal_calls(muster_function *function) {
    const muster_runtime *runtime = function->object.runtime;
    const int32_t size = runtime->size, logical_shards = runtime->logical_shards;
    const bool apart = logical_shards && !function->shards_together;
    function->together = (mst_call){
        .function = function, .size = size, .shard_count = apart ? logical_shards : size, .shards_each = apart ? 1 : logical_shards / size};
    function->single =
        (mst_call){.function = function, .size = 1, .shard_count = apart ? logical_shards : 1, .shards_each = apart ? 1 : logical_shards};
    MUSTER_TRY(function_seal_shards(function, function->together.shard_count, &function->shards));
    if (apart && size > 1) MUSTER_TRY(function_seal_shards(function, function->single.shard_count, &function->master_shards));
    function->together.shards = function->shards;
    function->single.shards = function->master_shards ? function->master_shards : function->shards;
    return MUSTER_OK;
}

/* Do the bits of the combined value depend on how the shards are grouped? */
static bool depends_on_grouping(muster_collect_mode mode, muster_dtype dtype) {
    return mst_dtype_is_float(dtype) && (mode == MUSTER_SUM || mode == MUSTER_PROD || mode == MUSTER_AVG);
}

static muster_status check_together(const muster_function *function, const char *where) {
    const char *name = mst_function_name(function);
    for (int64_t i = 0; i < function->output_count; i++)
        if (depends_on_grouping(function->outputs[i].mode, function->outputs[i].dtype))
            return mst_error(MUSTER_UNSUPPORTED,
                             "%s: output '%s' of function '%s': the %s of %s over workers that run their shards together depends on "
                             "their number: combine it in the body with muster_worker_all_reduce_shards and collect it by MUSTER_MASTER, "
                             "or run the body once "
                             "per shard",
                             where, function->outputs[i].name, name, mst_reduction_name(function->outputs[i].mode),
                             muster_dtype_name(function->outputs[i].dtype));
    if (function->slices_variables && !function->scatters)
        return mst_error(MUSTER_UNSUPPORTED,
                         "%s: function '%s' runs its shards together, but nothing that it scatters says which rows are whose: expected a "
                         "scattered input",
                         where, name);
    return MUSTER_OK;
}

static muster_status check_apart(const muster_function *function, const char *where) {
    const char *name = mst_function_name(function);
    for (int64_t u = 0; u < function->use_count; u++) {
        const mst_use *use = &function->uses[u];
        const char *variable = use->variable->object.name;
        if (use->written)
            return mst_error(MUSTER_UNSUPPORTED,
                             "%s: variable '%s' of function '%s': written in place by one shard it would be another value for the "
                             "next: expected an update, or muster_function_set_shards_together",
                             where, variable, name);
        if (use->updated && depends_on_grouping(use->mode, use->variable->dtype))
            return mst_error(MUSTER_UNSUPPORTED,
                             "%s: update of variable '%s' by function '%s': the %s of %s over a worker's shards depends on the number "
                             "of workers: collect it as an output, or use muster_function_set_shards_together",
                             where, variable, name, mst_reduction_name(use->mode), muster_dtype_name(use->variable->dtype));
    }
    return MUSTER_OK;
}

/* In the reproducible mode, refuses functions whose results would depend on the number of
 * devices. */
static muster_status check_reproducible(const muster_function *function, const char *where) {
    if (!function->object.runtime->logical_shards) return MUSTER_OK;
    return function->shards_together ? check_together(function, where) : check_apart(function, where);
}

muster_status mst_function_seal(muster_function *function, const char *where) {
    const int32_t size = function->object.runtime->size;
    MUSTER_TRY(check_reproducible(function, where));
    const size_t inputs = (size_t)function->input_count, outputs = (size_t)function->output_count;
    function->ranks = mst_alloc((size_t)size * sizeof *function->ranks);
    function->plan.inputs = mst_alloc(inputs * sizeof(muster_tensor));
    function->plan.outputs = mst_alloc(outputs * sizeof(muster_tensor));
    function->plan.addresses = mst_alloc((inputs + outputs) * sizeof(void *));
    function->plan.spans = mst_alloc((inputs + outputs) * sizeof(mst_span));
    function->plan.reduced = mst_alloc(outputs * sizeof(bool));
    function->named = mst_alloc((inputs + outputs) * sizeof(muster_tensor));
    function->results = mst_alloc(outputs * sizeof(mst_store));
    muster_status status = MUSTER_OK;
    if (!function->ranks || !function->plan.inputs || !function->plan.outputs || !function->plan.addresses || !function->plan.spans ||
        !function->plan.reduced || !function->named || !function->results)
        status = mst_out_of_memory("muster_function_call: the plan of the function", (int64_t)((inputs + outputs) * sizeof(muster_tensor)));
    for (int32_t r = 0; r < size && !status; r++) status = function_seal_rank(function, &function->ranks[r]);
    if (!status) status = function_seal_calls(function);
    if (status) {
        unseal(function);
        return status;
    }
    function->sealed = true;
    return MUSTER_OK;
}
