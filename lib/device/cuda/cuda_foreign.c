/* Streams and memory of other libraries in the device's primary context. */
#include "cuda_device_private.h"

#include <stdio.h>

/* An event that is recorded in a capturing stream belongs to the graph: a stream that waits for it
 * is captured, too, and its work is not done. */
static muster_status check_capture(mst_cuda *cuda, mst_cu_stream stream, const char *where) {
    unsigned int status = MST_CU_CAPTURE_NONE;
    const mst_cu_result result = cuda->api->cuStreamIsCapturing(stream, &status);
    if (result == MST_CU_STREAM_CAPTURE_IMPLICIT)
        return mst_error(MUSTER_BAD_STATE,
                         "%s: stream: expected no stream capture that CUDA's default stream of %s would wait for, received the default "
                         "stream while the program captures a stream that was not made with CU_STREAM_NON_BLOCKING",
                         where, cuda->label);
    MUSTER_TRY(mst_cuda_check(cuda, result, "cuStreamIsCapturing"));
    if (status == MST_CU_CAPTURE_NONE) return MUSTER_OK;
    return mst_error(MUSTER_BAD_STATE, "%s: stream: expected one that is not being captured into a graph, received one of %s in %s capture",
                     where, cuda->label, status == MST_CU_CAPTURE_ACTIVE ? "an active" : "an invalidated");
}

muster_status mst_cuda_check_stream(mst_cuda *cuda, mst_cu_stream stream, const char *where) {
    mst_cu_context context = NULL;
    MUSTER_TRY(MST_CU(cuda, cuStreamGetCtx, stream, &context));
    if (context == cuda->context) return check_capture(cuda, stream, where);
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: stream: expected one of the primary context of %s, received one of another context",
                     where, cuda->label);
}

/* ---- order ---- */

static muster_status after(mst_cuda *cuda, mst_cu_stream stream, const char *where) {
    MUSTER_TRY(mst_cuda_check_stream(cuda, stream, where));
    return mst_cuda_join(cuda, stream, cuda->compute);
}

static muster_status before(mst_cuda *cuda, mst_cu_stream stream, const char *where) {
    MUSTER_TRY(mst_cuda_check_stream(cuda, stream, where));
    return mst_cuda_join(cuda, cuda->compute, stream);
}

muster_status mst_cuda_after(mst_device *device, void *stream, const char *where) {
    mst_cuda *cuda = mst_cuda_of(device);
    if (stream && stream == cuda->compute) return MUSTER_OK;
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    const muster_status status = after(cuda, stream, where);
    /* The legacy default stream waits for that of each thread, which is a blocking stream. */
    const bool legacy = !stream || stream == MST_CU_STREAM_LEGACY;
    if (status == MUSTER_OK && legacy) cuda->default_awaited = true;
    if (status == MUSTER_OK && (legacy || stream == MST_CU_STREAM_PER_THREAD)) cuda->thread_awaited = true;
    return mst_cuda_end(cuda, &scope, status);
}

muster_status mst_cuda_before(mst_device *device, void *stream, const char *where) {
    mst_cuda *cuda = mst_cuda_of(device);
    if (stream && stream == cuda->compute) return MUSTER_OK;
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    return mst_cuda_end(cuda, &scope, before(cuda, stream, where));
}

void mst_cuda_default_begin(mst_device *device) { mst_cuda_of(device)->default_awaited = mst_cuda_of(device)->thread_awaited = false; }

static muster_status find_forgotten(mst_cuda *cuda, mst_cu_stream stream, bool *forgotten) {
    MUSTER_TRY(check_capture(cuda, stream, "default stream"));
    const mst_cu_result result = cuda->api->cuStreamQuery(stream);
    *forgotten = result == MST_CU_NOT_READY;
    return *forgotten ? MUSTER_OK : mst_cuda_check(cuda, result, "cuStreamQuery");
}

static muster_status default_end(mst_cuda *cuda, bool *forgotten) {
    if (!cuda->default_awaited) MUSTER_TRY(find_forgotten(cuda, MST_CU_STREAM_LEGACY, forgotten));
    if (*forgotten || cuda->thread_awaited) return MUSTER_OK;
    return find_forgotten(cuda, MST_CU_STREAM_PER_THREAD, forgotten);
}

muster_status mst_cuda_default_end(mst_device *device, bool *forgotten) {
    mst_cuda *cuda = mst_cuda_of(device);
    *forgotten = false;
    if (cuda->default_awaited && cuda->thread_awaited) return MUSTER_OK;
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    return mst_cuda_end(cuda, &scope, default_end(cuda, forgotten));
}

/* ---- memory ---- */

static muster_status refuse(const mst_cuda *cuda, const char *where, const char *received, const char *address) {
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: address: expected memory of %s, received %s at %p", where, cuda->label, received,
                     (const void *)address);
}

/* Managed memory is no memory of a device: it moves between the host and the GPUs when they touch
 * it, and kernels of NCCL and of peers would wait for that in the middle of a collective. */
static muster_status check_byte(mst_cuda *cuda, const char *address, const char *which, const char *where) {
    mst_cuda_place place;
    char received[64];
    MUSTER_TRY(mst_cuda_check(cuda, mst_cuda_ask_place(cuda, address, &place), "cuPointerGetAttributes"));
    if (place.type == 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: address: expected memory of %s, received %p, whose %s byte the driver does not know",
                         where, cuda->label, (const void *)address, which);
    if (place.managed) return refuse(cuda, where, "managed memory (cudaMallocManaged), which has no place of its own,", address);
    if (place.type != MST_CU_MEMORY_TYPE_DEVICE) return refuse(cuda, where, "page-locked host memory", address);
    if (place.ordinal == cuda->ordinal) return MUSTER_OK;
    snprintf(received, sizeof received, "memory of cuda:%d", place.ordinal);
    return refuse(cuda, where, received, address);
}

/* Only the two ends are checked. Between them there may be several allocations mapped next to each
 * other, as some allocators do. */
static muster_status check_ends(mst_cuda *cuda, const char *address, int64_t bytes, const char *where) {
    MUSTER_TRY(check_byte(cuda, address, "first", where));
    return check_byte(cuda, address + bytes - 1, "last", where);
}

muster_status mst_cuda_adopt_memory(mst_device *device, const void *address, int64_t bytes, const char *where) {
    MUSTER_TRY(mst_cuda_check_memory(device, address, bytes, where));
    return mst_cuda_after(device, NULL, where);
}

muster_status mst_cuda_check_memory(mst_device *device, const void *address, int64_t bytes, const char *where) {
    mst_cuda *cuda = mst_cuda_of(device);
    if (bytes <= 0) return MUSTER_OK;
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    return mst_cuda_end(cuda, &scope, check_ends(cuda, address, bytes, where));
}
