/* Creating servers: the checks of the arguments, and what is made in which order. */
#include "create_private.h"
#include "options_impl.h"
#include "topology_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SHARDS = 4096, MAX_PROGRESS = 64 };

void muster_server_options_init_sized(muster_server_options *options, size_t size) { mst_options_init(options, size); }

static bool server_knows_dtype(muster_dtype dtype) { return mst_dtype_is_float(dtype) || dtype == MUSTER_I64; }

static muster_status server_check_dtype(const mst_creation *c, const char *what, int32_t index, muster_dtype dtype) {
    if (server_knows_dtype(dtype)) return MUSTER_OK;
    return mst_error(MUSTER_UNSUPPORTED, "%s: %s[%" PRId32 "]: expected f16, bf16, f32, f64 or i64, received %s", c->where, what, index,
                     muster_dtype_name(dtype));
}

static muster_status server_check_tensor(const mst_creation *c, int32_t index) {
    char what[32];
    snprintf(what, sizeof what, "values[%" PRId32 "]", index);
    MUSTER_TRY(mst_tensor_check(c->tensors[index], c->where, what));
    MUSTER_TRY(server_check_dtype(c, "values", index, c->tensors[index].dtype));
    const int32_t device = c->tensors[index].device;
    if (device != MUSTER_DEVICE_HOST && !(c->worker && device == c->worker->rank))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected %s, received device %" PRId32, c->where, what,
                         c->worker ? "host memory or that of the worker's device" : "host memory", device);
    if (!mst_tensor_contiguous(c->tensors[index]))
        return mst_error(MUSTER_UNSUPPORTED, "%s: %s: expected contiguous elements, received strided ones", c->where, what);
    return MUSTER_OK;
}

static muster_status server_check_variable(const mst_creation *c, int32_t index) {
    const muster_variable *variable = c->variables[index];
    if (!variable)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: variables[%" PRId32 "]: expected a variable, received NULL", c->where, index);
    if (variable->object.runtime != c->runtime)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: variables[%" PRId32 "]: expected a variable of the runtime, received '%.200s' of another runtime", c->where,
                         index, variable->object.name);
    return server_check_dtype(c, "variables", index, variable->dtype);
}

static muster_status server_check_options(mst_creation *c) {
    muster_server_options *o = &c->options;
    const int32_t devices = muster_runtime_size(c->runtime);
    MUSTER_TRY(mst_options_check_reserved(c->where, o->reserved));
    if (o->shards < 0 || o->shards > MAX_SHARDS)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: shards: expected 0 to %d, received %" PRId32, c->where, MAX_SHARDS, o->shards);
    if (o->shards == 0) o->shards = devices;
    if (o->initial != MUSTER_INITIAL_MASTER && o->initial != MUSTER_INITIAL_OWN)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: initial: expected MUSTER_INITIAL_MASTER or MUSTER_INITIAL_OWN, received %" PRId32,
                         c->where, o->initial);
    if (o->initial == MUSTER_INITIAL_OWN && (c->variables || c->worker) && o->shards != devices)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: shards: expected one per device (%" PRId32 ") with MUSTER_INITIAL_OWN, received %" PRId32, c->where, devices,
                         o->shards);
    if (o->progress > MAX_PROGRESS)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: progress: expected at most %d threads, received %" PRId32, c->where, MAX_PROGRESS,
                         o->progress);
    return MUSTER_OK;
}

muster_status mst_creation_check(mst_creation *c, const char *list, const void *values) {
    if (!c->runtime) return mst_error_null(c->where, "runtime", "a runtime");
    MUSTER_TRY(mst_runtime_check_open(c->runtime, c->where));
    if (mst_server_in_rule) return mst_server_refuse_in_rule(c->where);
    if (!c->name || !*c->name)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected a name that is not empty, received %s", c->where,
                         c->name ? "\"\"" : "NULL");
    MUSTER_TRY(mst_check_utf8(c->name, c->where, "name"));
    if (c->count < 1) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: count: expected 1 or more, received %" PRId32, c->where, c->count);
    if (!values) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected %" PRId32 ", received NULL", c->where, list, c->count);
    for (int32_t i = 0; i < c->count; i++) MUSTER_TRY(c->variables ? server_check_variable(c, i) : server_check_tensor(c, i));
    return server_check_options(c);
}

/* For variables, between mst_pool_enter and leave: functions may change their shapes. */
static muster_status server_count_elements(const mst_creation *c, int32_t index, int64_t *elements) {
    if (!c->variables) {
        *elements = muster_tensor_count(c->tensors[index]);
        return MUSTER_OK;
    }
    const int32_t axis = mst_variable_split_axis(c->variables[index]);
    MUSTER_TRY(mst_variable_refuse_portions(c->variables[index], c->where));
    if (axis >= 0)
        return mst_error(MUSTER_UNSUPPORTED,
                         "%s: variables[%" PRId32 "]: expected a variable that is not split, received '%.100s', split along axis %" PRId32
                         ": muster_variable_get_whole has the value for a server of tensors",
                         c->where, index, c->variables[index]->object.name, axis);
    if (!c->options.fill)
        MUSTER_TRY(
            mst_variable_check_defined(c->variables[index], 0, c->options.initial == MUSTER_INITIAL_OWN ? c->runtime->size : 1, c->where));
    *elements = muster_tensor_count(mst_variable_tensor(c->variables[index], 0));
    for (int32_t r = 1; r < c->runtime->size && c->options.initial == MUSTER_INITIAL_OWN && !c->options.fill; r++) {
        const int64_t other = muster_tensor_count(mst_variable_tensor(c->variables[index], r));
        if (other != *elements)
            return mst_error(MUSTER_INVALID_ARGUMENT,
                             "%s: variables[%" PRId32 "]: expected %" PRId64 " elements on rank %" PRId32
                             " as on rank 0, received %" PRId64,
                             c->where, index, *elements, r, other);
    }
    return MUSTER_OK;
}

/* The first n mod s shards have one element more. */
static muster_status server_open_value(const mst_creation *c, int32_t index) {
    muster_server *server = c->server;
    mst_value *value = &server->values[index];
    value->dtype = c->variables ? c->variables[index]->dtype : c->tensors[index].dtype;
    value->misaligned = (uintptr_t)muster_dtype_size(value->dtype) - 1;
    MUSTER_TRY(server_count_elements(c, index, &value->elements));
    value->bytes = value->elements * muster_dtype_size(value->dtype);
    value->shards = mst_alloc((size_t)server->shards * sizeof *value->shards);
    if (!value->shards) return mst_out_of_memory(c->where, server->shards * (int64_t)sizeof *value->shards);
    const int64_t each = value->elements / server->shards, more = value->elements % server->shards;
    int64_t first = 0;
    for (int32_t s = 0; s < server->shards; s++) {
        const int64_t count = each + (s < more);
        MUSTER_TRY(mst_shard_open_local(&value->shards[s], c->where, value->dtype, first, count));
        first += count;
    }
    return MUSTER_OK;
}

static muster_status server_open_workers(const mst_creation *c) {
    muster_server *server = c->server;
    server->runtime_size = c->runtime->size;
    server->workers = mst_alloc((size_t)c->runtime->size * sizeof *server->workers);
    if (!server->workers) return mst_out_of_memory(c->where, c->runtime->size * (int64_t)sizeof *server->workers);
    for (int32_t r = 0; r < c->runtime->size; r++) {
        muster_client *client = &server->workers[r];
        client->server = server;
        client->worker = mst_pool_worker(c->runtime->pool, r);
        client->first_shard = r % server->shards;
        if (!c->worker) MUSTER_TRY(mst_client_staging_open(client, c->where, false));
    }
    return MUSTER_OK;
}

/* One thread if the process may use more CPUs than there are workers. */
int32_t mst_creation_progress_threads(const mst_creation *c) {
    if (c->options.progress != 0) return c->options.progress < 0 ? 0 : c->options.progress;
    return mst_topology_allowed() > c->runtime->size ? 1 : 0;
}

muster_status mst_creation_build(mst_creation *c) {
    muster_server *server = c->server = mst_alloc(sizeof *server);
    if (!server) return mst_out_of_memory(c->where, sizeof *server);
    server->runtime = c->runtime;
    server->forks = mst_server_forks();
    server->shards = c->options.shards;
    server->cpus = mst_topology_allowed();
    atomic_store(&server->references, 1);
    atomic_store(&server->client_count, c->runtime->size);
    server->name = mst_strdup(c->name);
    if (!server->name) return mst_out_of_memory(c->where, (int64_t)strlen(c->name) + 1);
    if (mst_memory_refuse() || pthread_mutex_init(&server->lock, NULL) != 0) return mst_out_of_memory(c->where, sizeof server->lock);
    pthread_mutex_init(&server->ending, NULL);
    server->locked = true;
    server->values = mst_alloc((size_t)c->count * sizeof *server->values);
    if (!server->values) return mst_out_of_memory(c->where, c->count * (int64_t)sizeof *server->values);
    server->count = c->count;
    for (int32_t i = 0; i < c->count; i++) MUSTER_TRY(server_open_value(c, i));
    return server_open_workers(c);
}

static muster_status server_build_entered(mst_creation *c) {
    MUSTER_TRY(mst_server_list_get(c->runtime, c->where, &c->list));
    mst_server_sweep(c->list);
    MUSTER_TRY(mst_creation_build(c));
    if (!c->variables || c->options.fill) return MUSTER_OK;
    return mst_initial_variables(c->server, c->variables, c->options.initial == MUSTER_INITIAL_OWN);
}

static muster_status server_fill_and_list(mst_creation *c) {
    if (c->options.fill)
        MUSTER_TRY(mst_initial_function(c->server, c->where, &c->options));
    else if (!c->variables)
        MUSTER_TRY(mst_initial_tensors(c->server, c->tensors));
    MUSTER_TRY(mst_progress_start(c->server, c->where, mst_creation_progress_threads(c)));
    return mst_server_enlist(c->list, c->server, c->where);
}

void mst_server_dismantle(muster_server *server) {
    mst_progress_stop(server);
    if (server->workers && mst_server_stages(server) && mst_pool_enter_to_end(server->runtime->pool, "muster_server_create") == MUSTER_OK) {
        mst_client_staging_close_all(server);
        mst_pool_leave(server->runtime->pool);
    }
    mst_server_close_shards(server);
    mst_server_free(server);
}

static muster_status server_create(mst_creation *c, const void *values, muster_server **server) {
    char message[MST_MESSAGE_SIZE];
    MUSTER_TRY(mst_runtime_refuse_nodes(c->runtime, c->where, "parameter server"));
    MUSTER_TRY(mst_creation_check(c, c->variables ? "variables" : "values", values));
    MUSTER_TRY(mst_pool_enter(c->runtime->pool, c->where, 0));
    muster_status status = server_build_entered(c);
    mst_owned *ended = mst_runtime_take_ended(c->runtime); /* of servers that the sweep has ended */
    mst_pool_leave(c->runtime->pool);
    mst_owned_end(ended);
    if (status == MUSTER_OK) status = server_fill_and_list(c);
    if (status == MUSTER_OK) {
        *server = c->server;
        return MUSTER_OK;
    }
    mst_error_save(message);
    if (c->server) mst_server_dismantle(c->server);
    return mst_error_restore(status, message);
}

muster_status mst_creation_begin(mst_creation *c, const muster_server_options *options, muster_server **server) {
    if (server) *server = NULL;
    MUSTER_TRY(mst_options_read(c->where, "muster_server_options", options, &c->options, sizeof c->options));
    return server ? MUSTER_OK : mst_error_null(c->where, "server", "the address of a pointer");
}

muster_status mst_creation_end(mst_creation *c, muster_status status) {
    mst_owned_call(c->options.fill_destroy, c->options.fill_user);
    return status;
}

muster_status muster_server_create(muster_runtime *runtime, const char *name, const muster_tensor *values, int32_t count,
                                   const muster_server_options *options, muster_server **server) {
    mst_creation c = {.where = "muster_server_create", .runtime = runtime, .name = name, .tensors = values, .count = count};
    muster_status status = mst_creation_begin(&c, options, server);
    if (status == MUSTER_OK) status = server_create(&c, values, server);
    return mst_creation_end(&c, status);
}

muster_status muster_server_create_from(muster_runtime *runtime, const char *name, muster_variable *const *variables, int32_t count,
                                        const muster_server_options *options, muster_server **server) {
    mst_creation c = {.where = "muster_server_create_from", .runtime = runtime, .name = name, .variables = variables, .count = count};
    muster_status status = mst_creation_begin(&c, options, server);
    if (status == MUSTER_OK && !variables) status = mst_error_null(c.where, "variables", "1 or more");
    if (status == MUSTER_OK) status = server_create(&c, variables, server);
    return mst_creation_end(&c, status);
}
