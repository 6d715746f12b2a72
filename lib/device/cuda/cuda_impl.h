/* The CUDA backend, for the rooms to the right. */
#ifndef MST_CUDA_IMPL_H
#define MST_CUDA_IMPL_H

#include "device_impl.h"

extern const mst_device_table mst_cuda_device_table;

static inline bool mst_device_is_cuda(const mst_device *device) { return device->table == &mst_cuda_device_table; }

/* ---- the part `hardware` of the table ---- */

/* A machine without GPUs, without the driver or without one of the libraries has none. */
void mst_cuda_probe(mst_device_probe *found);
/* The ordinal of "2", "GPU-8f2a..." (as far as it tells one from all others) or "0000:3b:00.0".
 * Errors: UNAVAILABLE, INVALID_ARGUMENT, OUT_OF_RANGE. */
muster_status mst_cuda_find(const char *id, int32_t *ordinal);

bool mst_cuda_take_notice(char text[MST_MESSAGE_SIZE]);

/* Of an open CUDA device. stream: that of the COMPUTE queue, now. */
void *mst_cuda_stream(const mst_device *device);
void *mst_cuda_blas(const mst_device *device);
int32_t mst_cuda_ordinal(const mst_device *device);

/* For the runtime's description, of an open CUDA device. libraries: "driver for CUDA 12.8, cuBLAS
 * 12.8.4, NVRTC 12.8", the same for all. device: "cuda:0: compute capability
 * 9.0, 132 multiprocessors, 64 MiB of device memory reserved and 32 MiB for cuBLAS". */
void mst_cuda_describe_libraries(const mst_device *device, char *text, size_t size);
void mst_cuda_describe_device(const mst_device *device, char *text, size_t size);

/* Between calls: the COMPUTE queue goes on in `stream` (a CUstream of the device's primary context,
 * borrowed until the next adoption), after what is in the queue now, and the stream's work comes
 * before what is issued from now on. NULL: back to the device's own,
 * likewise. Errors: INVALID_ARGUMENT: a stream of another context. */
muster_status mst_cuda_adopt_stream(mst_device *device, void *stream);

/* Streams and memory of other libraries, of the device's primary context (stream NULL: its default
 * stream). after: what is issued in COMPUTE from now on comes after what is in `stream` now;
 * before: the reverse.
 * check_memory: is all of it this GPU's? where: public function, for messages. Errors:
 * INVALID_ARGUMENT. */
muster_status mst_cuda_after(mst_device *device, void *stream, const char *where);
muster_status mst_cuda_before(mst_device *device, void *stream, const char *where);
muster_status mst_cuda_check_memory(mst_device *device, const void *address, int64_t bytes, const char *where);

/* Marks the device as lost because of an error that another library met on it, such as NCCL's. */
void mst_cuda_lose(mst_device *device, const char *reason);
/* The same because its queue does not end. Nobody knows what it still does: what other devices hold
 * now, it may read and write for ever. */
void mst_cuda_give_up(mst_device *device, const char *reason);
/* For a collective that could not be ended: no device is lost by that, but the memory of those that
 * are open now is kept likewise. */
void mst_cuda_leave_running(void);

/* For tests that begin again with another simulated machine: no device is lost any more. No device
 * may be open. */
void mst_cuda_forget_lost(void);

#endif
