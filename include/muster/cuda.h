/* muster/cuda.h: for bodies that launch CUDA work of their own: the stream, the device and the
 * cuBLAS handle of the worker. It includes no header of NVIDIA. Threads of every function here:
 * worker.
 *
 * While a body runs, the primary context of its GPU is current in its thread, so that the CUDA
 * runtime, cuBLAS and other libraries that use this context can be called directly. Work put into
 * the worker's stream runs in order with the worker's operations.
 *
 * A body must not wait for the device except through Muster (muster_worker_read,
 * muster_worker_write or an output), and must not allocate or free CUDA memory. Both may wait for
 * other devices, which wait for this one in a collective. The same holds for other threads of the
 * program, on the GPUs of a runtime that has several, while one of its calls runs.
 *
 * A program that captures a stream into a graph meanwhile need not fear Muster's calls: they are
 * made in the thread's capture mode "relaxed", which holds in the body, too, and is put back after
 * it.
 *
 * The program must not reset the GPU (cudaDeviceReset, cuDevicePrimaryCtxReset) while a runtime
 * that uses it is open: that destroys the runtime's memory, streams and events. The next call, or
 * the closing of the runtime, finds it and says so (DEVICE_LOST), and the GPU is lost for this
 * process. In the middle of a call nobody looks, and the process may crash. cudaSetDeviceFlags is
 * harmless: Muster polls, however the flags say that threads should wait.
 *
 * For a NULL worker, or one whose device is no GPU, every function gives NULL or -1, or a status
 * that says so. */
#ifndef MUSTER_CUDA_H
#define MUSTER_CUDA_H

#include "muster/tensor.h"
#include "muster/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

/* CUDA's default stream (stream 0, the "legacy" or NULL stream: where a launch without a stream
 * goes, and much code that was written for one GPU) is NOT ordered with the worker's stream. A body
 * that puts work there, and neither waits for it by muster_worker_cuda_after(worker, NULL) nor
 * belongs to a function with MUSTER_DEFAULT_STREAM_ORDERED, reads and writes its tensors at the
 * wrong time. By default nothing looks for that. muster_function_set_default_stream
 * (muster/function.h) takes:
 * - IGNORED, the default.
 * - ORDERED: work that a body puts into the default stream runs after all that the worker has done
 *   before the body, and the worker goes on after it. Within the body the two are not ordered.
 * - REFUSED: a body that returns while its GPU's default stream has unfinished work fails the call
 *   (BAD_STATE), unless it has called muster_worker_cuda_after(worker, NULL). For finding such
 *   work: what has ended by then is not seen, and the work may be another thread's. Code that was
 *   compiled with per-thread default streams (nvcc --default-stream per-thread) puts its work into
 *   a default stream of the calling thread. CUDA orders that one with the legacy default stream, so
 *   that ORDERED holds for it, and REFUSED looks there, too.
 * Virtual devices of one GPU share its default stream. */
typedef int32_t muster_default_stream;
enum muster_default_stream_value {
    MUSTER_DEFAULT_STREAM_IGNORED = 0,
    MUSTER_DEFAULT_STREAM_ORDERED = 1,
    MUSTER_DEFAULT_STREAM_REFUSED = 2
};

/* The CUstream (cudaStream_t) in which this worker's operations run. Valid until the body
 * returns. */
MUSTER_API void *muster_worker_cuda_stream(const muster_worker *worker);

/* The ordinal of the GPU, as cuDeviceGet and cudaSetDevice count. Virtual devices share an
 * ordinal. */
MUSTER_API int32_t muster_worker_cuda_device(const muster_worker *worker);

/* The worker's cublasHandle_t, bound to its stream and to a workspace of its own. It belongs to the
 * cuBLAS that Muster has opened: libcublas.so.13 if it exists and the driver supports it, else
 * libcublas.so.12. A program linked with the other version needs its own handle. A body that
 * changes a setting of the handle must restore it. */
MUSTER_API void *muster_worker_cublas(const muster_worker *worker);

/* These two functions order the work of the worker and of another library's stream by events,
 * without a wait on the host. Without them the two run at the same time. `stream` is a CUstream or
 * cudaStream_t of the same GPU's primary context; it is borrowed for the call. NULL means the
 * legacy default stream, as cudaStreamLegacy does, also in a program compiled with per-thread
 * default streams, whose own NULL is cudaStreamPerThread: pass that for the calling thread's
 * stream. A stream that is being captured into a graph is refused, since its work would not be
 * done.
 * after: work that the worker issues from now on runs after the work that is in `stream` now.
 * before: work issued in `stream` from now on runs after the work that the worker has issued so
 * far.
 * A body that lends its tensors to another library thus calls before, issues the other library's
 * work, and calls after. It does so before it returns, since other calls use the worker's memory
 * then.
 * Errors: INVALID_ARGUMENT (no worker, a stream of another context), UNSUPPORTED (the worker's
 * device is no GPU), BAD_STATE (outside the worker's body; a stream that is being captured; the
 * legacy default stream while a stream is captured that it would wait for), and errors of the
 * driver. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_cuda_after(muster_worker *worker, void *stream);
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_cuda_before(muster_worker *worker, void *stream);

/* Wraps memory of another library on the worker's GPU (a CUdeviceptr, as from cudaMalloc) in a
 * contiguous tensor of this worker, for operations, kernels and collectives. Nothing is copied. The
 * memory still belongs to the other library, and must stay valid until the worker's work on it is
 * done; the two functions above order the accesses. The driver is asked whether the first and the
 * last byte are memory of this GPU.
 * Errors: as above; INVALID_ARGUMENT (no memory of this GPU; managed memory), OVERFLOW. After an
 * error *tensor is "no tensor". */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_cuda_tensor(muster_worker *worker, void *address, muster_dtype dtype, int32_t ndim,
                                                                    const int64_t *shape, muster_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
