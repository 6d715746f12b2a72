/* muster/cuda.h: what a body that launches CUDA work of its own needs: the stream, the device and the cuBLAS handle of its worker. No header of NVIDIA's is needed to
 * include it. Threads of every function here: worker.
 *
 * While a body runs, the primary context of its GPU is current in its thread, so that the CUDA runtime, cuBLAS and what else lives in that context can be called as they
 * are. Work put into the worker's stream is done in order with the worker's operations. A body must not wait for the device except through Muster (muster_worker_read
 * and muster_worker_write, or an output), and must not allocate or free CUDA memory: both may wait for other devices, which wait for this one in a collective. The same holds
 * for other threads of the program, on the GPUs of a runtime with several, while one of its calls runs.
 * Every function asked of NULL, or of a worker whose device is no GPU, gives NULL or -1. */
#ifndef MUSTER_CUDA_H
#define MUSTER_CUDA_H

#include "muster/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The CUstream (cudaStream_t) in which this worker's operations run. Valid until the body returns. */
MUSTER_API void *muster_worker_cuda_stream(const muster_worker *worker);

/* The ordinal of the GPU, as cuDeviceGet and cudaSetDevice count. Virtual devices share one. */
MUSTER_API int32_t muster_worker_cuda_device(const muster_worker *worker);

/* The worker's cublasHandle_t, bound to its stream and to a workspace of its own. It belongs to the cuBLAS that Muster has opened (libcublas.so.13 where there is one and the
 * driver serves it, else libcublas.so.12): a program linked with the other one needs a handle of its own. A body that changes a setting must put it back. */
MUSTER_API void *muster_worker_cublas(const muster_worker *worker);

#ifdef __cplusplus
}
#endif
#endif
