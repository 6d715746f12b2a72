/* What a body that launches CUDA work of its own asks of its worker. */
#include "muster/cuda.h"

#include "cuda/cuda_impl.h"
#include "pool_impl.h"

/* NULL where the worker's device is no GPU. */
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
