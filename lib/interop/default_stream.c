/* CUDA's default stream beside the worker's stream, which is not ordered with it by itself. */
#include "default_stream_impl.h"

#include "cuda/cuda_impl.h"

muster_status mst_default_stream_begin(muster_worker *worker, muster_default_stream mode) {
    if (!mst_device_is_cuda(worker->device)) return MUSTER_OK;
    mst_cuda_default_begin(worker->device);
    return mode == MUSTER_DEFAULT_STREAM_ORDERED ? mst_cuda_before(worker->device, NULL, "default stream") : MUSTER_OK;
}

muster_status mst_default_stream_end(muster_worker *worker, muster_default_stream mode) {
    bool forgotten = false;
    if (!mst_device_is_cuda(worker->device)) return MUSTER_OK;
    if (mode == MUSTER_DEFAULT_STREAM_ORDERED) return mst_cuda_after(worker->device, NULL, "default stream");
    MUSTER_TRY(mst_cuda_default_end(worker->device, &forgotten));
    if (!forgotten) return MUSTER_OK;
    return mst_error(MUSTER_BAD_STATE,
                     "the body left work in CUDA's default stream of %s, which is not ordered with the worker's stream: "
                     "expected muster_worker_cuda_stream, muster_worker_cuda_after or MUSTER_DEFAULT_STREAM_ORDERED",
                     worker->device->name);
}
