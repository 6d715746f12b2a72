/* Averages of replicas with a weight for each device: the same collectives as for other reductions
 * (combine.c, fetch.c), over products of values and weights. */
#include "change_private.h"

#include <math.h>

/* A wire dtype serves variables whose values are computed in f32. */
static muster_status average_process_weights(mst_change *change) {
    const muster_communicator *all = change->runtime->communicator->global;
    if (!mst_weights_are_shared(all, MUSTER_F32)) return MUSTER_OK;
    const int64_t bytes = all->span->processes * (int64_t)sizeof *change->process_weights;
    change->process_weights = mst_alloc((size_t)bytes);
    if (!change->process_weights) return mst_out_of_memory(change->where, bytes);
    mst_weights_of_processes(all, change->weights, change->total_weight, change->process_weights);
    return MUSTER_OK;
}

muster_status mst_change_weights(mst_change *change, const double *weights, int32_t weight_count) {
    const size_t bytes = (size_t)mst_change_at(change, change->count, 0) * sizeof *change->products;
    double total = 0;
    if (weight_count != change->size)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: weight_count: expected one for each of %d devices, received %d", change->where,
                         change->size, weight_count);
    if (!weights) return mst_error_null(change->where, "weights", "a weight for each device");
    for (int32_t r = 0; r < change->size; r++) {
        if (!isfinite(weights[r]) || weights[r] < 0)
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: weights[%d]: expected a finite number that is not negative, received %g",
                             change->where, r, weights[r]);
        total += weights[r];
    }
    MUSTER_TRY(mst_weights_check(change->where, total));
    change->op = MUSTER_AVG;
    change->weights = weights;
    change->total_weight = total;
    change->products = mst_alloc(bytes);
    return change->products ? average_process_weights(change) : mst_out_of_memory(change->where, (int64_t)bytes);
}

int64_t mst_change_product_bytes(const muster_variable *variable, const mst_replica *replica) {
    return mst_replica_elements(variable, replica) * muster_dtype_size(mst_dtype_compute(variable->dtype));
}

muster_status mst_change_reserve_products(mst_change *change, muster_worker *worker, int32_t index) {
    const muster_variable *variable = change->variables[index];
    return mst_worker_scratch_bytes(worker, mst_change_product_bytes(variable, &variable->everywhere[mst_worker_public_rank(worker)]),
                                    &change->products[mst_change_at(change, index, mst_worker_public_rank(worker))]);
}

/* Sums the products where the request would have combined the replicas. A dtype that is not its
 * compute dtype is converted at the end, on the ranks that get the result. */
static muster_status combine_products(const mst_change *change, muster_worker *worker, int32_t index, mst_request request) {
    const muster_variable *variable = change->variables[index];
    const muster_dtype compute = mst_dtype_compute(variable->dtype);
    void *products = change->products[mst_change_at(change, index, mst_worker_public_rank(worker))], *output = request.output;
    const muster_communicator *all = change->runtime->communicator->global;
    const bool shared = change->process_weights && mst_weights_are_shared(all, compute);
    const double scale = shared ? mst_weights_own(all, change->weights, mst_worker_public_rank(worker))
                                : change->weights[mst_worker_public_rank(worker)] / change->total_weight;
    MUSTER_TRY(mst_worker_weigh(worker, variable->dtype, products, request.input, request.input_count, scale));
    request.input = products;
    request.reduction = MUSTER_SUM;
    request.process_weights = shared ? change->process_weights : NULL;
    request.dtype = (uint8_t)compute;
    const bool convert = output && compute != variable->dtype;
    if (convert) request.output = products;
    MUSTER_TRY(mst_worker_collective_of_all(worker, request));
    if (!convert || request.output_count == 0) return MUSTER_OK;
    return mst_worker_convert(worker, variable->dtype, output, compute, products, request.output_count);
}

muster_status mst_change_combine(const mst_change *change, muster_worker *worker, int32_t index, mst_request request) {
    return change->weights ? combine_products(change, worker, index, request) : mst_worker_collective_of_all(worker, request);
}
