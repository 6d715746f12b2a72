/* Reductions over the replicas: all_reduce, reduce, reduce_at, reduce_scatter; and with weights. */
#include "change_private.h"

/* The caller has set op and rank. */
static muster_status plan_reduction(mst_change *change) {
    MUSTER_TRY(mst_change_check_reduction(change));
    MUSTER_TRY(mst_change_check_rank(change, change->rank));
    MUSTER_TRY(mst_change_check_all_defined(change));
    for (int32_t i = 0; i < change->count; i++) {
        MUSTER_TRY(mst_change_check_equal_shapes(change, i));
        mst_change_reserve(change, mst_replica_bytes(change->variables[i], &change->variables[i]->everywhere[0]));
    }
    return mst_change_run(change, false);
}

static muster_status combine_run(const char *where, muster_variable *const *variables, int32_t count, muster_reduction op, int32_t rank,
                                 mst_change_work work) {
    mst_change change;
    MUSTER_TRY(mst_change_begin(&change, where, variables, count));
    if (count == 0) return MUSTER_OK;
    change.op = op;
    change.rank = rank;
    change.work = work;
    return mst_change_end(&change, plan_reduction(&change));
}

static muster_status plan_average(mst_change *change, const double *weights, int32_t weight_count) {
    MUSTER_TRY(mst_change_weights(change, weights, weight_count));
    for (int32_t i = 0; i < change->count; i++)
        mst_change_reserve(change, mst_change_product_bytes(change->variables[i], &change->variables[i]->everywhere[0]));
    return plan_reduction(change);
}

static muster_status average_run(const char *where, muster_variable *const *variables, int32_t count, const double *weights,
                                 int32_t weight_count, int32_t rank, mst_change_work work) {
    mst_change change;
    MUSTER_TRY(mst_change_begin(&change, where, variables, count));
    if (count == 0) return MUSTER_OK;
    change.rank = rank;
    change.work = work;
    return mst_change_end(&change, plan_average(&change, weights, weight_count));
}

static muster_status all_reduce_one(mst_change *change, muster_worker *worker, int32_t index) {
    const muster_variable *variable = change->variables[index];
    const mst_replica *replica = &variable->everywhere[mst_worker_public_rank(worker)];
    const int64_t elements = mst_replica_elements(variable, replica);
    return mst_change_combine(change, worker, index,
                              (mst_request){.collective = MST_ALL_REDUCE,
                                            .reduction = (uint8_t)change->op,
                                            .dtype = (uint8_t)variable->dtype,
                                            .root = -1,
                                            .input = replica->address,
                                            .input_count = elements,
                                            .output = replica->address,
                                            .output_count = elements,
                                            .shards = 1});
}

muster_status muster_variables_all_reduce(muster_variable *const *variables, int32_t count, muster_reduction op) {
    return combine_run("muster_variables_all_reduce", variables, count, op, 0, all_reduce_one);
}

muster_status muster_variables_all_reduce_weighted(muster_variable *const *variables, int32_t count, const double *weights,
                                                   int32_t weight_count) {
    return average_run("muster_variables_all_reduce_weighted", variables, count, weights, weight_count, 0, all_reduce_one);
}

muster_status mst_change_reduce(const mst_change *change, muster_worker *worker, int32_t index, void *output) {
    const muster_variable *variable = change->variables[index];
    const mst_replica *replica = &variable->everywhere[mst_worker_public_rank(worker)];
    const int64_t elements = mst_replica_elements(variable, replica);
    const bool root = mst_worker_public_rank(worker) == change->rank;
    return mst_change_combine(change, worker, index,
                              (mst_request){.collective = MST_REDUCE,
                                            .reduction = (uint8_t)change->op,
                                            .dtype = (uint8_t)variable->dtype,
                                            .root = change->rank,
                                            .input = replica->address,
                                            .input_count = elements,
                                            .output = root ? output : NULL,
                                            .output_count = root ? elements : 0});
}

static muster_status reduce_one(mst_change *change, muster_worker *worker, int32_t index) {
    return mst_change_reduce(change, worker, index, change->variables[index]->everywhere[mst_worker_public_rank(worker)].address);
}

muster_status muster_variables_reduce(muster_variable *const *variables, int32_t count, muster_reduction op) {
    return combine_run("muster_variables_reduce", variables, count, op, 0, reduce_one);
}

muster_status muster_variables_reduce_at(muster_variable *const *variables, int32_t count, muster_reduction op, int32_t rank) {
    return combine_run("muster_variables_reduce_at", variables, count, op, rank, reduce_one);
}

muster_status muster_variables_reduce_weighted_at(muster_variable *const *variables, int32_t count, const double *weights,
                                                  int32_t weight_count, int32_t rank) {
    return average_run("muster_variables_reduce_weighted_at", variables, count, weights, weight_count, rank, reduce_one);
}

static muster_status reduce_scatter_one(mst_change *change, muster_worker *worker, int32_t index) {
    const muster_variable *variable = change->variables[index];
    const mst_replica *replica = &variable->everywhere[mst_worker_public_rank(worker)],
                      *next = &change->next[mst_change_at(change, index, mst_worker_public_rank(worker))];
    return mst_worker_collective_of_all(worker, (mst_request){.collective = MST_REDUCE_SCATTER,
                                                              .reduction = (uint8_t)change->op,
                                                              .dtype = (uint8_t)variable->dtype,
                                                              .root = -1,
                                                              .input = replica->address,
                                                              .input_count = mst_replica_elements(variable, replica),
                                                              .output = next->address,
                                                              .output_count = mst_replica_elements(variable, next)});
}

static muster_status plan_reduce_scatter(mst_change *change) {
    MUSTER_TRY(mst_change_replicas(change));
    for (int32_t i = 0; i < change->count; i++) {
        MUSTER_TRY(mst_change_check_rows(change, i, "scatter"));
        const int64_t rows = change->variables[i]->everywhere[0].shape[0];
        for (int32_t r = 0; r < change->size; r++) mst_change_rows(change, i, r, r, mst_edge_rows(rows, change->size, r));
    }
    change->work = reduce_scatter_one;
    return plan_reduction(change);
}

muster_status muster_variables_reduce_scatter(muster_variable *const *variables, int32_t count, muster_reduction op) {
    mst_change change;
    MUSTER_TRY(mst_change_begin(&change, "muster_variables_reduce_scatter", variables, count));
    if (count == 0) return MUSTER_OK;
    change.op = op;
    return mst_change_end(&change, plan_reduce_scatter(&change));
}
