/* The average over the ranks with a weight for each rank. Each rank multiplies its values by its
 * part of the total weight, in the compute dtype, and the ranks sum the products: what the call of
 * a function does with its averaged outputs. Where values travel in a wire dtype, the part is that
 * of the weights of its process. */
#include "worker_entrance_private.h"

#include <math.h>

muster_status mst_worker_weigh(muster_worker *worker, muster_dtype dtype, void *to, const void *from, int64_t count, double scale) {
    if (scale > 0) return mst_worker_accumulate(worker, MUSTER_AVG, dtype, to, from, count, scale, true);
    muster_tensor zeros = muster_tensor_make(mst_dtype_compute(dtype), to, 1, &count);
    zeros.device = worker->rank;
    return muster_fill(worker, 0, zeros);
}

muster_status mst_weights_check(const char *where, double total) {
    if (total > 0 && isfinite(total)) return MUSTER_OK;
    if (total > 0) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: the sum of the weights overflows", where);
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: the weights of all ranks are 0: there is nothing to average", where);
}

/* ---- with a wire dtype ---- */

bool mst_weights_are_shared(const muster_communicator *communicator, muster_dtype dtype) {
    return communicator->span && communicator->world->wire_dtype && mst_dtype_is_float(dtype) && mst_dtype_compute(dtype) == MUSTER_F32;
}

static double weight_of_process(const mst_rank_span *span, const double *weights, int32_t process) {
    double sum = 0;
    for (int32_t r = 0; r < span->size; r++) sum += span->process_of[r] == process ? weights[r] : 0;
    return sum;
}

void mst_weights_of_processes(const muster_communicator *communicator, const double *weights, double total, double *process_weights) {
    for (int32_t p = 0; p < communicator->span->processes; p++)
        process_weights[p] = weight_of_process(communicator->span, weights, p) / total;
}

double mst_weights_own(const muster_communicator *communicator, const double *weights, int32_t rank) {
    return weights[rank] > 0 ? weights[rank] / weight_of_process(communicator->span, weights, communicator->span->process_of[rank]) : 0;
}

/* all[ranks] = the weights of all ranks. */
static muster_status gather_weights(muster_worker *worker, muster_communicator *communicator, double weight, double *all) {
    const int64_t one = 1, size = mst_communicator_total(communicator);
    const muster_tensor mine = muster_tensor_make(MUSTER_F64, &weight, 1, &one), weights = muster_tensor_make(MUSTER_F64, all, 1, &size);
    if (mst_device_is_host(worker->device)) return muster_worker_all_gather(worker, communicator, mine, weights);
    muster_tensor from, to;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F64, 1, &one, &from));
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F64, 1, &size, &to));
    MUSTER_TRY(muster_worker_write(worker, mine, from));
    MUSTER_TRY(muster_worker_all_gather(worker, communicator, from, to));
    return muster_worker_read(worker, to, weights);
}

/* ---- averages ---- */

/* *total = the sum of the weights of all ranks. The number travels as a tensor, which on a GPU lies
 * in scratch memory. */
static muster_status sum_weights(muster_worker *worker, muster_communicator *communicator, double weight, double *total) {
    const int64_t one = 1;
    const muster_tensor mine = muster_tensor_make(MUSTER_F64, &weight, 1, &one), sum = muster_tensor_make(MUSTER_F64, total, 1, &one);
    if (mst_device_is_host(worker->device)) return muster_worker_all_reduce(worker, communicator, MUSTER_SUM, mine, sum);
    muster_tensor there;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F64, 1, &one, &there));
    MUSTER_TRY(muster_worker_write(worker, mine, there));
    MUSTER_TRY(muster_worker_all_reduce(worker, communicator, MUSTER_SUM, there, there));
    return muster_worker_read(worker, there, sum);
}

/* process_weights: of the processes; NULL: their sums are added up as they are. */
static muster_status add_products(muster_worker *worker, muster_communicator *communicator, const double *process_weights,
                                  muster_tensor products) {
    mst_entrance e;
    mst_request r = {.collective = MST_ALL_REDUCE, .reduction = MUSTER_SUM, .root = -1, .shards = 1, .process_weights = process_weights};
    if (!process_weights) return muster_worker_all_reduce(worker, communicator, MUSTER_SUM, products, products);
    MUSTER_TRY(mst_entrance_open(&e, "muster_worker_all_reduce", worker, communicator));
    MUSTER_TRY(mst_entrance_check_both(&e, &r, &products, &products));
    return mst_entrance_submit(&e, r);
}

/* The products are in the output, if that has the compute dtype, else in scratch memory. */
static muster_status sum_products(muster_worker *worker, muster_communicator *communicator, double scale, const double *process_weights,
                                  muster_tensor input, muster_tensor output) {
    const muster_dtype compute = mst_dtype_compute(input.dtype);
    const int64_t count = muster_tensor_count(input);
    muster_tensor products = muster_tensor_make(compute, muster_tensor_address(output), 1, &count);
    products.device = worker->rank;
    if (compute != input.dtype) MUSTER_TRY(muster_worker_scratch(worker, compute, 1, &count, &products));
    MUSTER_TRY(mst_worker_weigh(worker, input.dtype, products.data, muster_tensor_address(input), count, scale));
    MUSTER_TRY(add_products(worker, communicator, process_weights, products));
    if (compute == input.dtype || count == 0) return MUSTER_OK;
    return mst_worker_convert(worker, output.dtype, muster_tensor_address(output), compute, products.data, count);
}

/* What one rank can check alone. The average takes several collectives, so no group may be open. */
static muster_status check_average(const char *where, muster_worker *worker, muster_communicator *communicator, const muster_tensor *input,
                                   const muster_tensor *output) {
    mst_entrance e;
    mst_request r = {.collective = MST_ALL_REDUCE, .root = -1};
    MUSTER_TRY(mst_entrance_open(&e, where, worker, communicator));
    MUSTER_TRY(mst_entrance_check_no_group(&e, "communicator"));
    MUSTER_TRY(mst_entrance_check_both(&e, &r, input, output));
    MUSTER_TRY(mst_reduction_check(MUSTER_AVG, input->dtype, where));
    return mst_entrance_check_whole(&e, &r);
}

static muster_status average_by_total(const char *where, muster_worker *worker, muster_communicator *communicator, double weight,
                                      muster_tensor input, muster_tensor output) {
    double total = 0;
    MUSTER_TRY(sum_weights(worker, communicator, weight, &total));
    MUSTER_TRY(mst_weights_check(where, total));
    return sum_products(worker, communicator, weight / total, NULL, input, output);
}

static muster_status average_by_process(const char *where, muster_worker *worker, muster_communicator *communicator, double weight,
                                        muster_tensor input, muster_tensor output) {
    muster_communicator *over = communicator ? communicator : mst_worker_communicator(worker);
    const int32_t rank = mst_communicator_public(over, mst_communicator_rank(over, worker)), size = mst_communicator_total(over);
    const int64_t bytes = (size + (int64_t)over->span->processes) * (int64_t)sizeof(double);
    double total = 0, *weights = mst_alloc((size_t)bytes), *process_weights = weights + size;
    if (!weights) return mst_out_of_memory(where, bytes);
    muster_status status = gather_weights(worker, over, weight, weights);
    for (int32_t r = 0; r < size; r++) total += weights[r];
    if (status == MUSTER_OK) status = mst_weights_check(where, total);
    if (status == MUSTER_OK) {
        mst_weights_of_processes(over, weights, total, process_weights);
        status = sum_products(worker, over, mst_weights_own(over, weights, rank), process_weights, input, output);
    }
    mst_free(weights);
    return status;
}

muster_status muster_worker_all_reduce_weighted(muster_worker *worker, muster_communicator *communicator, double weight,
                                                muster_tensor input, muster_tensor output) {
    static const char where[] = "muster_worker_all_reduce_weighted";
    MUSTER_TRY(check_average(where, worker, communicator, &input, &output));
    if (!isfinite(weight) || weight < 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: weight: expected a finite number that is not negative, received %g", where, weight);
    const int64_t mark = muster_worker_scratch_mark(worker);
    const bool shared = mst_weights_are_shared(communicator ? communicator : mst_worker_communicator(worker), input.dtype);
    MUSTER_TRY((shared ? average_by_process : average_by_total)(where, worker, communicator, weight, input, output));
    return muster_worker_scratch_release(worker, mark);
}
