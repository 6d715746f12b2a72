/* The functions with which a body that launches its own CUDA work gets its worker's handles. */
#include "muster/cuda.h"

#include "cuda/cuda_impl.h"
#include "tensor_impl.h"
#include "worker_impl.h"

/* The worker's device; NULL if it is not a GPU. */
static const mst_device *cuda_device(const muster_worker *worker) {
    return worker && mst_device_is_cuda(worker->device) ? worker->device : NULL;
}

void *muster_worker_cuda_stream(const muster_worker *worker) {
    const mst_device *device = cuda_device(worker);
    return device ? mst_cuda_stream(device) : NULL;
}

int32_t muster_worker_cuda_device(const muster_worker *worker) {
    const mst_device *device = cuda_device(worker);
    return device ? mst_cuda_ordinal(device) : -1;
}

void *muster_worker_cublas(const muster_worker *worker) {
    const mst_device *device = cuda_device(worker);
    return device ? mst_cuda_blas(device) : NULL;
}

/* ---- other libraries on the same GPU ---- */

static muster_status cuda_check_worker(const muster_worker *worker, const char *where) {
    if (!worker) return mst_error_null(where, "worker", "the worker of the running function");
    if (mst_current_worker() != worker)
        return mst_error(MUSTER_BAD_STATE,
                         "%s: worker: expected to be called by its own thread while its body runs, received a call from elsewhere", where);
    if (mst_device_is_cuda(worker->device)) return MUSTER_OK;
    return mst_error(MUSTER_UNSUPPORTED, "%s: worker: expected one whose device is a GPU, received rank %d on %s", where,
                     (int)mst_worker_public_rank(worker), worker->device->name);
}

muster_status muster_worker_cuda_after(muster_worker *worker, void *stream) {
    MUSTER_TRY(cuda_check_worker(worker, "muster_worker_cuda_after"));
    return mst_cuda_after(worker->device, stream, "muster_worker_cuda_after");
}

muster_status muster_worker_cuda_before(muster_worker *worker, void *stream) {
    MUSTER_TRY(cuda_check_worker(worker, "muster_worker_cuda_before"));
    return mst_cuda_before(worker->device, stream, "muster_worker_cuda_before");
}

muster_status muster_worker_cuda_tensor(muster_worker *worker, void *address, muster_dtype dtype, int32_t ndim, const int64_t *shape,
                                        muster_tensor *tensor) {
    static const char where[] = "muster_worker_cuda_tensor";
    if (!tensor) return mst_error_null(where, "tensor", "the address of a tensor");
    *tensor = muster_tensor_none();
    MUSTER_TRY(cuda_check_worker(worker, where));
    muster_tensor made = muster_tensor_make(dtype, address, ndim, shape);
    if (dtype == MUSTER_DTYPE_NONE) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: dtype: expected an element type, received none", where);
    MUSTER_TRY(mst_tensor_check(made, where, "tensor"));
    MUSTER_TRY(mst_cuda_check_memory(worker->device, address, mst_tensor_bytes(made), where));
    made.device = worker->rank;
    *tensor = made;
    return MUSTER_OK;
}
