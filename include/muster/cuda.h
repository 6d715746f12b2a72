/* muster/cuda.h: what a body that launches CUDA work of its own needs: the stream, the device and
 * the cuBLAS handle of its worker. No header of NVIDIA's is needed to include it. Threads of every
 * function here: worker.
 *
 * While a body runs, the primary context of its GPU is current in its thread, so that the CUDA
 * runtime, cuBLAS and what else lives in that context can be called as they are. Work put into the
 * worker's stream is done in order with the worker's operations. A body must not wait for the
 * device except through Muster (muster_worker_read and muster_worker_write, or an output), and must
 * not allocate or free CUDA
 * memory: both may wait for other devices, which wait for this one in a collective. The same holds
 * for other threads of the program, on the GPUs of a runtime with several, while one of its calls
 * runs. Every function asked of NULL, or of a worker whose device is no GPU, gives NULL or -1, or a
 * status that says so. */
#ifndef MUSTER_CUDA_H
#define MUSTER_CUDA_H

#include "muster/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The CUstream (cudaStream_t) in which this worker's operations run. Valid until the body
 * returns. */
MUSTER_API void *muster_worker_cuda_stream(const muster_worker *worker);

/* The ordinal of the GPU, as cuDeviceGet and cudaSetDevice count. Virtual devices share one. */
MUSTER_API int32_t muster_worker_cuda_device(const muster_worker *worker);

/* The worker's cublasHandle_t, bound to its stream and to a workspace of its own. It belongs to the
 * cuBLAS that Muster has opened (libcublas.so.13 where there is one and the driver serves it, else
 * libcublas.so.12): a program linked with the other one needs a handle of its own. A body that
 * changes a setting must put it back. */
MUSTER_API void *muster_worker_cublas(const muster_worker *worker);

/* A body and another library that has a stream of its own (a CUstream or cudaStream_t of the same
 * GPU's primary context; NULL: its default stream): order between the two, by events, without a
 * wait in the host. after: what the worker issues from now on comes after what is in `stream` now.
 * before: what is issued in `stream` from now on comes after what the worker has issued so far.
 * Without them the two run at
 * the same time. So: before, then the other library's work on the worker's tensors, then after, and
 * that before the body returns, since the worker's memory serves other calls then. `stream` is
 * borrowed for the call.
 * Errors: INVALID_ARGUMENT (no worker, a stream of another context), UNSUPPORTED (the worker's
 * device is no GPU), BAD_STATE (outside the worker's body), what the driver says. */
MUSTER_API muster_status muster_worker_cuda_after(muster_worker *worker, void *stream);
MUSTER_API muster_status muster_worker_cuda_before(muster_worker *worker, void *stream);

/* Memory of another library's on the worker's GPU (a CUdeviceptr, what cudaMalloc gave) as a
 * contiguous tensor of this worker, which operations, kernels and collectives take. It stays whose
 * it was, and has to be there until the worker's work on it has been done. The driver is asked
 * whether its first and last byte are memory of this GPU; nothing is copied. Order it by the two
 * functions above.
 * Errors: as above; INVALID_ARGUMENT (no memory of this GPU), OVERFLOW; then *tensor is "no
 * tensor". */
MUSTER_API muster_status muster_worker_cuda_tensor(muster_worker *worker, void *address, muster_dtype dtype, int32_t ndim,
                                                   const int64_t *shape, muster_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
