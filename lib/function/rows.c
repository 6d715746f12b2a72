/* What a body can ask its worker about the rows that it computes. Outside a call each worker has
 * one row, as in a call that scatters nothing. */
#include "processes_private.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* The rows of the call in progress; NULL: the worker is outside a call. */
static const mst_body_rows *rows_of(const muster_worker *worker) {
    const mst_rank *rank = mst_worker_rank(worker);
    return rank ? &rank->body : NULL;
}

/* NULL outside the reproducible mode. */
static const mst_body_rows *shards_of(const muster_worker *worker) {
    const mst_body_rows *rows = worker ? rows_of(worker) : NULL;
    return rows && rows->shards ? rows : NULL;
}

int64_t muster_worker_first_row(const muster_worker *worker) {
    if (!worker) return -1;
    const mst_body_rows *rows = rows_of(worker);
    return rows ? rows->first_row : muster_worker_rank(worker);
}

int64_t muster_worker_rows(const muster_worker *worker) {
    if (!worker) return -1;
    const mst_body_rows *rows = rows_of(worker);
    return rows ? rows->rows : 1;
}

int64_t muster_worker_total_rows(const muster_worker *worker) {
    if (!worker) return -1;
    const mst_body_rows *rows = rows_of(worker);
    return rows ? rows->total_rows : muster_worker_size(worker);
}

int64_t muster_worker_slice(const muster_worker *worker) {
    if (!worker) return -1;
    const mst_body_rows *rows = rows_of(worker);
    return rows ? rows->slice : 0;
}

int64_t muster_worker_slices(const muster_worker *worker) {
    if (!worker) return -1;
    const mst_body_rows *rows = rows_of(worker);
    return rows ? rows->slices : 1;
}

int32_t muster_worker_shard(const muster_worker *worker) {
    const mst_body_rows *rows = shards_of(worker);
    return rows ? rows->shard : muster_worker_rank(worker);
}

int32_t muster_worker_shards(const muster_worker *worker) {
    const mst_body_rows *rows = shards_of(worker);
    return rows ? rows->shards : muster_worker_size(worker);
}

int32_t muster_worker_shards_here(const muster_worker *worker) {
    const mst_body_rows *rows = shards_of(worker);
    if (rows) return rows->shards_here;
    return worker ? 1 : -1;
}

double muster_worker_weight(const muster_worker *worker) {
    if (!worker) return 0;
    const mst_body_rows *rows = rows_of(worker);
    return rows ? rows->weight : 1;
}

muster_status muster_worker_set_weight(muster_worker *worker, double weight) {
    const char *where = "muster_worker_set_weight";
    MUSTER_TRY(mst_worker_check(worker, where));
    if (!isfinite(weight) || weight < 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: weight: expected a finite number that is not negative, received %g", where, weight);
    mst_rank *rank = mst_worker_rank(worker);
    if (!rank) return mst_error(MUSTER_BAD_STATE, "%s: worker: expected the worker of a running body, received one outside a call", where);
    rank->body.weight = weight;
    return MUSTER_OK;
}

static double weight_of_rank(const muster_function *function, int32_t rank) {
    return function->ranks ? function->ranks[rank].body.weight : 0;
}

/* Those of other processes travel. */
static muster_status gather_weights(const muster_function *function, const char *where, muster_status status, double *weights) {
    const muster_runtime *runtime = function->object.runtime;
    mst_nodes *nodes = runtime->nodes;
    mst_round round = {.where = where, .status = status, .rank = -1};
    mst_processes_let_end(function, &round);
    int64_t *bytes = mst_alloc((size_t)nodes->processes * sizeof *bytes);
    if (!status && !bytes) round.status = mst_out_of_memory(where, nodes->processes * (int64_t)sizeof *bytes);
    snprintf(round.text, sizeof round.text, "the weights of function '%.100s'", mst_function_name(function));
    round.signature = mst_processes_name_hash(function);
    status = mst_nodes_begin(nodes, &round);
    for (int32_t p = 0; !status && p < nodes->processes; p++) bytes[p] = (nodes->first[p + 1] - nodes->first[p]) * (int64_t)sizeof *weights;
    for (int32_t r = 0; !status && r < runtime->size; r++) weights[mst_nodes_first(nodes) + r] = weight_of_rank(function, r);
    if (!status) status = mst_nodes_all_gather(nodes, where, weights, bytes);
    mst_free(bytes);
    return status;
}

muster_status muster_function_weights(muster_function *function, int32_t count, double *weights) {
    const char *where = "muster_function_weights";
    if (!function) return mst_error_null(where, "function", "a function");
    const muster_runtime *runtime = function->object.runtime;
    mst_pool *pool = runtime->pool;
    MUSTER_TRY(mst_pool_enter(pool, where, 0));
    const int32_t size = runtime->nodes ? mst_nodes_total(runtime->nodes) : runtime->size;
    muster_status status = MUSTER_OK;
    if (count != size)
        status = mst_error(MUSTER_INVALID_ARGUMENT, "%s: count: function '%s': expected %" PRId32 ", received %" PRId32, where,
                           mst_function_name(function), size, count);
    else if (!weights)
        status = mst_error_null(where, "weights", "the address of the weights");
    if (runtime->nodes) status = gather_weights(function, where, status, weights);
    for (int32_t r = 0; r < size && !status && !runtime->nodes; r++) weights[r] = weight_of_rank(function, r);
    mst_pool_leave(pool);
    return status;
}

/* Rows begin where shards do: the rule of all edges. */
static int64_t shard_edge(const mst_body_rows *rows, int32_t shard) { return (int64_t)((__int128)rows->total_rows * shard / rows->shards); }

muster_status muster_worker_shard_rows(const muster_worker *worker, int32_t shard_in_rank, int64_t *first_row, int64_t *rows) {
    const char *where = "muster_worker_shard_rows";
    MUSTER_TRY(mst_worker_check(worker, where));
    const int32_t here = muster_worker_shards_here(worker);
    if (!first_row || !rows) return mst_error_null(where, first_row ? "rows" : "first_row", "the address of a number");
    if (shard_in_rank < 0 || shard_in_rank >= here)
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: shard_in_rank: expected 0 to %" PRId32 ", received %" PRId32, where, here - 1,
                         shard_in_rank);
    if (here == 1) {
        *first_row = 0;
        *rows = muster_worker_rows(worker);
        return MUSTER_OK;
    }
    const mst_body_rows *body = rows_of(worker);
    *first_row = shard_edge(body, body->shard + shard_in_rank) - body->first_row;
    *rows = shard_edge(body, body->shard + shard_in_rank + 1) - body->first_row - *first_row;
    return MUSTER_OK;
}
