/* The public collectives of a worker: what can be wrong on one rank is refused here, before any peer is met. */
#include "group_impl.h"

static muster_status check_worker(const muster_worker *worker, const char *where) {
    if (!worker) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: worker: expected the worker that the body received, received NULL", where);
    return MUSTER_OK;
}

/* "No tensor" from a failed scratch request carries that failure: its message is still this thread's last error. */
static muster_status check_tensor(const muster_worker *worker, muster_tensor tensor, const char *where, const char *what) {
    if (tensor.dtype == MUSTER_DTYPE_NONE && worker->scratch_status != MUSTER_OK) return worker->scratch_status;
    MUSTER_TRY(mst_tensor_check(tensor, where, what));
    bool reachable = tensor.device == worker->rank || (tensor.device == MUSTER_DEVICE_HOST && mst_device_is_host(worker->device));
    if (!reachable) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected a tensor in the memory of device %d, received one of device %d", where, what,
                         worker->rank, tensor.device);
    }
    if (!mst_tensor_contiguous(tensor)) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected a contiguous tensor, received a strided one", where, what);
    }
    return MUSTER_OK;
}

static bool overlap(const char *a, const char *b, int64_t bytes) { return a < b + bytes && b < a + bytes; }

static muster_status check_pair(muster_tensor input, muster_tensor output, const char *where) {
    if (output.dtype != input.dtype) {
        return mst_error(MUSTER_DTYPE_MISMATCH, "%s: output: expected dtype %s as the input, received %s", where, muster_dtype_name(input.dtype),
                         muster_dtype_name(output.dtype));
    }
    if (muster_tensor_count(output) != muster_tensor_count(input)) {
        return mst_error(MUSTER_SHAPE_MISMATCH, "%s: output: expected %lld elements as the input, received %lld", where,
                         (long long)muster_tensor_count(input), (long long)muster_tensor_count(output));
    }
    const void *from = muster_tensor_address(input), *to = muster_tensor_address(output);
    if (from != to && overlap(from, to, mst_tensor_bytes(input))) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: output: expected the input's memory or memory apart from it, received an overlap", where);
    }
    return MUSTER_OK;
}

muster_status muster_worker_all_reduce(muster_worker *worker, muster_reduction op, muster_tensor input, muster_tensor output) {
    static const char where[] = "muster_worker_all_reduce";
    MUSTER_TRY(check_worker(worker, where));
    MUSTER_TRY(check_tensor(worker, input, where, "input"));
    MUSTER_TRY(check_tensor(worker, output, where, "output"));
    MUSTER_TRY(mst_reduction_check(op, input.dtype, where));
    MUSTER_TRY(check_pair(input, output, where));
    mst_communicator *communicator = mst_worker_communicator(worker);
    return communicator->table->all_reduce(communicator, worker, op, input.dtype, muster_tensor_address(input), muster_tensor_address(output),
                                           muster_tensor_count(input));
}

muster_status muster_worker_broadcast(muster_worker *worker, int32_t root, muster_tensor tensor) {
    static const char where[] = "muster_worker_broadcast";
    MUSTER_TRY(check_worker(worker, where));
    if (root < 0 || root >= worker->size) {
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: root: expected a rank from 0 to %d, received %d", where, worker->size - 1, root);
    }
    MUSTER_TRY(check_tensor(worker, tensor, where, "tensor"));
    mst_communicator *communicator = mst_worker_communicator(worker);
    return communicator->table->broadcast(communicator, worker, muster_tensor_address(tensor), mst_tensor_bytes(tensor), root);
}

muster_status muster_worker_barrier(muster_worker *worker) {
    MUSTER_TRY(check_worker(worker, "muster_worker_barrier"));
    mst_communicator *communicator = mst_worker_communicator(worker);
    return communicator->table->barrier(communicator, worker);
}
