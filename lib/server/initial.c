/* The initial values of the shards. */
#include "server_private.h"

#include <string.h>

/* In blocks, each of which is read before it is written: writing overtakes reading only in the last
 * block. */
void mst_widen_in_place(muster_dtype dtype, void *memory, int64_t count) {
    enum { BLOCK = 512 };
    uint16_t narrow[BLOCK];
    float wide[BLOCK];
    const uint16_t *from = (uint16_t *)memory + count;
    for (int64_t i = 0; i < count; i += BLOCK) {
        const int64_t n = count - i < BLOCK ? count - i : BLOCK;
        memcpy(narrow, from + i, (size_t)n * sizeof *narrow);
        mst_convert(MUSTER_F32, wide, dtype, narrow, n);
        memcpy((float *)memory + i, wide, (size_t)n * sizeof *wide);
    }
}

muster_status mst_initial_tensors(muster_server *server, const muster_tensor *values) {
    for (int32_t i = 0; i < server->count; i++) {
        const mst_rule *copy = mst_rule_find(server, MUSTER_RULE_COPY);
        const mst_operation operation = {.value = &server->values[i], .rule = copy, .memory = muster_tensor_address(values[i])};
        for (int32_t s = 0; s < server->shards; s++) {
            if (server->values[i].shards[s].count > 0) MUSTER_TRY(mst_shard_serve(&server->values[i].shards[s], &operation));
        }
    }
    return MUSTER_OK;
}

/* ---- a worker's tensors, in its body ---- */

static bool is_half(muster_dtype dtype) { return mst_dtype_compute(dtype) != dtype; }

/* On the device: read as the replica of a variable is. */
static muster_status initial_take_shard(muster_worker *worker, const muster_tensor *tensor, mst_shard *shard) {
    const char *from = (const char *)muster_tensor_address(*tensor) + shard->offset;
    const mst_device_memory_table *memory = worker->device->memory;
    const bool on_device = tensor->device != MUSTER_DEVICE_HOST;
    char *to = is_half(shard->dtype) ? shard->memory + shard->bytes : shard->memory;
    if (shard->count == 0) return MUSTER_OK;
    if (on_device)
        MUSTER_TRY(memory->copy_out(worker->device, to, from, shard->bytes));
    else
        memcpy(to, from, (size_t)shard->bytes);
    if (on_device) MUSTER_TRY(mst_worker_sync(worker));
    if (is_half(shard->dtype)) mst_widen_in_place(shard->dtype, shard->memory, shard->count);
    return MUSTER_OK;
}

muster_status mst_initial_of_worker(muster_server *server, muster_worker *worker, const muster_tensor *values, bool per_rank) {
    MUSTER_TRY(mst_worker_drain(worker));
    for (int32_t i = 0; i < server->count; i++) {
        for (int32_t s = 0; s < server->shards; s++) {
            if (per_rank ? s == worker->rank : worker->rank == 0)
                MUSTER_TRY(initial_take_shard(worker, &values[i], &server->values[i].shards[s]));
        }
    }
    return MUSTER_OK;
}

/* ---- variables: each worker reads replicas of its own ---- */

typedef struct reading {
    muster_server *server;
    muster_variable *const *variables;
    bool per_rank; /* shard r comes from rank r; else all shards come from the calling rank */
} reading;

static muster_status initial_read_shard(const reading *r, muster_worker *worker, int32_t index, mst_shard *shard) {
    const int64_t size = muster_dtype_size(shard->dtype);
    const char *from = (const char *)r->variables[index]->replicas[worker->rank].address + shard->first * size;
    char *to = is_half(shard->dtype) ? shard->memory + shard->count * size : shard->memory;
    return shard->count > 0 ? worker->device->memory->copy_out(worker->device, to, from, shard->count * size) : MUSTER_OK;
}

static muster_status initial_read_task(muster_worker *worker, void *argument) {
    const reading *r = argument;
    for (int32_t i = 0; i < r->server->count; i++) {
        for (int32_t s = 0; s < r->server->shards; s++) {
            if (!r->per_rank || s == worker->rank) MUSTER_TRY(initial_read_shard(r, worker, i, &r->server->values[i].shards[s]));
        }
    }
    return mst_worker_sync(worker);
}

muster_status mst_initial_variables(muster_server *server, muster_variable *const *variables, bool per_rank) {
    reading r = {server, variables, per_rank};
    mst_pool *pool = server->runtime->pool;
    MUSTER_TRY(per_rank ? mst_pool_run(pool, initial_read_task, &r) : mst_pool_run_single(pool, initial_read_task, &r));
    for (int32_t i = 0; i < server->count; i++) {
        for (int32_t s = 0; s < server->shards && is_half(server->values[i].dtype); s++) {
            mst_shard *shard = &server->values[i].shards[s];
            mst_widen_in_place(shard->dtype, shard->memory, shard->count);
        }
    }
    return MUSTER_OK;
}

/* ---- a function of the user's ---- */

muster_status mst_initial_function(muster_server *server, const char *where, const muster_server_options *options) {
    for (int32_t i = 0; i < server->count; i++) {
        const muster_dtype held = mst_dtype_compute(server->values[i].dtype);
        for (int32_t s = 0; s < server->shards; s++) {
            mst_shard *shard = &server->values[i].shards[s];
            if (shard->count == 0) continue;
            const uint64_t errors = mst_error_count();
            const char *callback = mst_runtime_callback;
            mst_runtime_callback = "the fill of a server";
            const muster_status status = options->fill(options->fill_user, i, held, shard->memory, shard->first, shard->count);
            mst_runtime_callback = callback;
            if (status == MUSTER_OK) continue;
            if (mst_error_count() != errors) return status;
            return mst_error(status, "%s: fill: failed with %s for value %d and gave no reason", where, muster_status_name(status), (int)i);
        }
    }
    return MUSTER_OK;
}
