/* The CUDA backend, for the modules that build on lib/device. */
#ifndef MST_CUDA_IMPL_H
#define MST_CUDA_IMPL_H

#include "device_impl.h"

extern const mst_device_table mst_cuda_device_table;

static inline bool mst_device_is_cuda(const mst_device *device) { return device->table == &mst_cuda_device_table; }

/* ---- the part `hardware` of the table ---- */

/* Reports no devices if the GPUs, the driver or one of the libraries are missing. */
void mst_cuda_probe(mst_device_probe *found);
/* id: an ordinal such as "2", a UUID such as "GPU-8f2a..." (a prefix that is unique is enough), or
 * a PCI id such as "0000:3b:00.0"; "MIG-..." names the same 16 bytes. Errors: UNAVAILABLE,
 * INVALID_ARGUMENT, OUT_OF_RANGE. */
muster_status mst_cuda_find(const char *id, int32_t *ordinal);

/* The facts of the table's part `hardware`. Makes no context. */
muster_status mst_cuda_get_facts(int32_t ordinal, mst_device *device, mst_device_facts *facts);
bool mst_cuda_take_notice(char text[MST_MESSAGE_SIZE]);

/* The handles of an open CUDA device. The stream is the one that the COMPUTE queue uses now. */
void *mst_cuda_stream(const mst_device *device);
void *mst_cuda_work_stream(const mst_device *device); /* of the queue that work_queue names */
void *mst_cuda_blas(const mst_device *device);
int32_t mst_cuda_ordinal(const mst_device *device);

/* Text for the runtime's description, of an open CUDA device. The libraries are the same for all
 * devices: "driver for CUDA 12.8 (lazy loading), cuBLAS 12.8.4, NVRTC 12.8, cuDNN 9.19.0", where
 * the last may be "no cuDNN". The device: "cuda:0:
 * compute capability 9.0, 132 multiprocessors, 64 MiB of device memory reserved and 32 MiB for
 * cuBLAS". */
void mst_cuda_describe_libraries(const mst_device *device, char *text, size_t size);
void mst_cuda_describe_blas(const mst_device *device, char *text, size_t size); /* "cuBLAS 12.8.4" */
/* Between calls: the free bytes of the GPU; -1 if the device is lost. */
void mst_cuda_read_free(mst_device *device, int64_t *free_bytes);
/* Between calls: the bytes of the largest block that an allocation gets without the driver. */
int64_t mst_cuda_free_block(const mst_device *device);
/* For libraries that take device memory of their own. From now on the memory that the device holds
 * grows beyond what an allocation needs only if a twentieth of the GPU's memory, at most 1 GiB,
 * stays free. */
void mst_cuda_keep_headroom(mst_device *device);
void mst_cuda_describe_device(const mst_device *device, char *text, size_t size);

/* Between calls. From now on the COMPUTE queue uses `stream`: a CUstream of the device's primary
 * context, borrowed until the next adoption. New work starts after the work that is in the queue
 * and in the stream now. NULL: returns to the device's own stream, in the same order. Errors:
 * INVALID_ARGUMENT if the stream belongs to another context, or is the per-thread default stream;
 * BAD_STATE while it is being captured. */
muster_status mst_cuda_adopt_stream(mst_device *device, void *stream);

/* For streams and memory of other libraries in the device's primary context. stream: NULL and 1
 * are the context's legacy default stream, 2 is the calling thread's (CU_STREAM_PER_THREAD). where:
 * the public function, for messages. Errors: INVALID_ARGUMENT; BAD_STATE while the stream is being
 * captured, or the default stream would wait for one that is. */
/* Work issued in COMPUTE from now on starts after the work that is in `stream` now. */
muster_status mst_cuda_after(mst_device *device, void *stream, const char *where);
/* Work issued in `stream` from now on starts after the work that is in COMPUTE now. */
muster_status mst_cuda_before(mst_device *device, void *stream, const char *where);
/* From begin to end: has the context's legacy default stream, or that of the calling thread, got
 * unfinished work, and has no mst_cuda_after made COMPUTE wait for it? */
void mst_cuda_default_begin(mst_device *device);
muster_status mst_cuda_default_end(mst_device *device, bool *forgotten);
/* Fails unless the first and the last byte are memory of this GPU. */
muster_status mst_cuda_check_memory(mst_device *device, const void *address, int64_t bytes, const char *where);

/* Marks the device as lost because of an error that another library, such as NCCL, met on it. */
void mst_cuda_lose(mst_device *device, const char *reason);
/* Marks the device as lost because its queue does not drain. The work in it may access the memory
 * of all open devices for ever, so none of that memory is freed. */
void mst_cuda_give_up(mst_device *device, const char *reason);
/* For a collective that could not be ended. No device is lost, but the memory of all open devices
 * is kept, as after mst_cuda_give_up. */
void mst_cuda_leave_running(void);

/* How long an attempt to access a peer's memory may take; tests shorten it. */
extern int64_t mst_cuda_probe_ns;

/* For tests that start over with another simulated machine: no device counts as lost any more, and
 * what was noticed once is noticed again. No device may be open. */
void mst_cuda_forget_lost(void);

#endif
