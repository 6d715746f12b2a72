/* Moves rows between the replicas: all_gather, gather_at, scatter_from, all_to_all. */
#include "change_private.h"

#include <string.h>

/* Trailing dimensions are equal on all ranks. */
static int64_t bytes_of_rows(const muster_variable *variable, int64_t rows) {
    int64_t shape[MUSTER_MAX_DIMS];
    memcpy(shape, variable->everywhere[0].shape, sizeof shape);
    shape[0] = rows;
    return mst_shape_bytes(variable->dtype, variable->ndim, shape);
}

static muster_status exchange_run(const char *where, muster_variable *const *variables, int32_t count, int32_t rank,
                                  muster_status (*plan_one)(mst_change *change, int32_t index), mst_change_work work) {
    mst_change change;
    MUSTER_TRY(mst_change_begin(&change, where, variables, count));
    if (count == 0) return MUSTER_OK;
    change.rank = rank;
    change.work = work;
    muster_status status = mst_change_check_rank(&change, rank);
    if (status == MUSTER_OK) status = mst_change_replicas(&change);
    for (int32_t i = 0; status == MUSTER_OK && i < count; i++) status = plan_one(&change, i);
    return mst_change_end(&change, status == MUSTER_OK ? mst_change_run(&change, false) : status);
}

/* The number of rows of all replicas, which are read. Refuses a number whose size in bytes
 * overflows. */
static muster_status total_rows(const mst_change *change, int32_t index, int64_t *rows) {
    const muster_variable *variable = change->variables[index];
    MUSTER_TRY(mst_change_check_defined_of(change, index, 0, change->size));
    MUSTER_TRY(mst_change_total_rows(change, index, rows));
    if (*rows == 0) return MUSTER_OK;
    int64_t row_bytes = bytes_of_rows(variable, 1), bytes;
    if (mst_multiply(row_bytes, *rows, &bytes)) return MUSTER_OK;
    return mst_error(MUSTER_OVERFLOW, "%s: variable '%.100s': the size of all replicas together overflows 64 bits", change->where,
                     variable->object.name);
}

static mst_request request_of(const mst_change *change, const muster_worker *worker, int32_t index, mst_collective collective) {
    const muster_variable *variable = change->variables[index];
    const mst_replica *replica = &variable->everywhere[mst_worker_public_rank(worker)],
                      *next = &change->next[mst_change_at(change, index, mst_worker_public_rank(worker))];
    return (mst_request){.collective = (uint8_t)collective,
                         .dtype = (uint8_t)variable->dtype,
                         .root = -1,
                         .input = replica->address,
                         .input_count = mst_replica_elements(variable, replica),
                         .output = next->address,
                         .output_count = mst_replica_elements(variable, next)};
}

/* ---- all_gather ---- */

static muster_status all_gather_one(mst_change *change, muster_worker *worker, int32_t index) {
    return mst_worker_collective_of_all(worker, request_of(change, worker, index, MST_ALL_GATHER));
}

static muster_status plan_all_gather(mst_change *change, int32_t index) {
    int64_t rows;
    MUSTER_TRY(total_rows(change, index, &rows));
    for (int32_t r = 0; r < change->size; r++) mst_change_rows(change, index, r, r, rows);
    return MUSTER_OK;
}

muster_status muster_variables_all_gather(muster_variable *const *variables, int32_t count) {
    return exchange_run("muster_variables_all_gather", variables, count, 0, plan_all_gather, all_gather_one);
}

/* ---- gather_at ---- */

static muster_status gather_one(mst_change *change, muster_worker *worker, int32_t index) {
    mst_request request = request_of(change, worker, index, MST_GATHER);
    request.root = change->rank;
    if (mst_worker_public_rank(worker) != change->rank) {
        request.output = NULL;
        request.output_count = 0;
    }
    return mst_worker_collective_of_all(worker, request);
}

static muster_status plan_gather(mst_change *change, int32_t index) {
    int64_t rows;
    MUSTER_TRY(total_rows(change, index, &rows));
    mst_change_rows(change, index, change->rank, change->rank, rows);
    return MUSTER_OK;
}

muster_status muster_variables_gather_at(muster_variable *const *variables, int32_t count, int32_t rank) {
    return exchange_run("muster_variables_gather_at", variables, count, rank, plan_gather, gather_one);
}

/* ---- scatter_from ---- */

static muster_status scatter_one(mst_change *change, muster_worker *worker, int32_t index) {
    mst_request request = request_of(change, worker, index, MST_SCATTER);
    request.root = change->rank;
    if (mst_worker_public_rank(worker) != change->rank) {
        request.input = NULL;
        request.input_count = 0;
    }
    return mst_worker_collective_of_all(worker, request);
}

static muster_status exchange_plan_scatter(mst_change *change, int32_t index) {
    const int64_t rows = change->variables[index]->everywhere[change->rank].shape[0];
    MUSTER_TRY(mst_change_check_rows(change, index, "scatter"));
    MUSTER_TRY(mst_change_check_defined_of(change, index, change->rank, 1));
    for (int32_t r = 0; r < change->size; r++) mst_change_rows(change, index, r, change->rank, mst_edge_rows(rows, change->size, r));
    return MUSTER_OK;
}

muster_status muster_variables_scatter_from(muster_variable *const *variables, int32_t count, int32_t rank) {
    return exchange_run("muster_variables_scatter_from", variables, count, rank, exchange_plan_scatter, scatter_one);
}

/* ---- all_to_all ---- */

/* The number of rows that one rank sends to another. */
static int64_t rows_between(const muster_variable *variable, int32_t size, int32_t from, int32_t to) {
    return mst_edge_rows(variable->everywhere[from].shape[0], size, to);
}

static int64_t elements_between(const muster_variable *variable, int32_t size, int32_t from, int32_t to) {
    return bytes_of_rows(variable, rows_between(variable, size, from, to)) / muster_dtype_size(variable->dtype);
}

/* The two lists of counts are in the worker's temporary. */
static muster_status all_to_all_one(mst_change *change, muster_worker *worker, int32_t index) {
    const muster_variable *variable = change->variables[index];
    int64_t *sent = change->temporary[mst_change_at(change, index, mst_worker_public_rank(worker))], *received = sent + change->size;
    for (int32_t r = 0; r < change->size; r++) {
        sent[r] = elements_between(variable, change->size, mst_worker_public_rank(worker), r);
        received[r] = elements_between(variable, change->size, r, mst_worker_public_rank(worker));
    }
    mst_request request = request_of(change, worker, index, MST_ALL_TO_ALL);
    request.send_counts = sent;
    request.recv_counts = received;
    return mst_worker_collective_of_all(worker, request);
}

static muster_status plan_all_to_all(mst_change *change, int32_t index) {
    const muster_variable *variable = change->variables[index];
    int64_t all;
    MUSTER_TRY(mst_change_check_rows(change, index, "exchange"));
    MUSTER_TRY(total_rows(change, index, &all));
    for (int32_t r = 0; r < change->size; r++) {
        int64_t rows = 0;
        for (int32_t from = 0; from < change->size; from++) rows += rows_between(variable, change->size, from, r);
        mst_change_rows(change, index, r, r, rows);
        mst_change_temporary(change, index, r, 2 * change->size * (int64_t)sizeof(int64_t));
    }
    return MUSTER_OK;
}

muster_status muster_variables_all_to_all(muster_variable *const *variables, int32_t count) {
    return exchange_run("muster_variables_all_to_all", variables, count, 0, plan_all_to_all, all_to_all_one);
}
