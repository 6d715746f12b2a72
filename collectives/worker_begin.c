/* Collectives that only begin. The device works on them in its queue EXCHANGE, beside what the
 * worker issues next in COMPUTE. */
#include "worker_entrance_private.h"

/* On host memory, and where copies in host memory serve, the collective itself does all the
 * work. */
static muster_status begin_enter(const char *where, muster_worker *worker, muster_communicator *communicator) {
    mst_entrance e;
    MUSTER_TRY(mst_entrance_open(&e, where, worker, communicator));
    MUSTER_TRY(mst_entrance_check_no_group(&e, "communicator"));
    return mst_communicator_begins(e.communicator) ? mst_device_exchange_enter(worker->device) : MUSTER_OK;
}

static muster_status begin_leave(muster_worker *worker, muster_status status) {
    mst_device_exchange_leave(worker->device);
    return status;
}

muster_status mst_worker_all_reduce_begin(muster_worker *worker, muster_communicator *communicator, muster_reduction op,
                                          muster_tensor input, muster_tensor output) {
    MUSTER_TRY(begin_enter("muster_worker_all_reduce", worker, communicator));
    return begin_leave(worker, muster_worker_all_reduce(worker, communicator, op, input, output));
}

muster_status mst_worker_reduce_scatter_begin(muster_worker *worker, muster_communicator *communicator, muster_reduction op,
                                              muster_tensor input, muster_tensor output) {
    MUSTER_TRY(begin_enter("muster_worker_reduce_scatter", worker, communicator));
    return begin_leave(worker, muster_worker_reduce_scatter(worker, communicator, op, input, output));
}

muster_status mst_worker_all_gather_begin(muster_worker *worker, muster_communicator *communicator, muster_tensor input,
                                          muster_tensor output) {
    MUSTER_TRY(begin_enter("muster_worker_all_gather", worker, communicator));
    return begin_leave(worker, muster_worker_all_gather(worker, communicator, input, output));
}

muster_status mst_worker_apply_sum_begin(muster_worker *worker, muster_communicator *communicator, const mst_apply_request *apply,
                                         int32_t bucket) {
    MUSTER_TRY(begin_enter("all_reduce_apply", worker, communicator));
    return begin_leave(worker, mst_worker_apply_sum(worker, communicator, apply, bucket));
}

muster_status mst_worker_apply_begin(muster_worker *worker, muster_communicator *communicator, const mst_apply_request *apply,
                                     int32_t bucket) {
    MUSTER_TRY(begin_enter("all_reduce_apply", worker, communicator));
    return begin_leave(worker, mst_worker_apply_bucket(worker, communicator, apply, bucket));
}

muster_status mst_worker_exchange_end(muster_worker *worker) { return mst_device_exchange_end(worker->device); }
