/* Copies. The source of a copy from pageable memory is read before the call returns, and a copy to
 * pageable memory is done when it returns, as the real driver does it by staging; what is
 * page-locked is read and written by the queue, later. */
#include "driver_impl.h"

#include <stdlib.h>
#include <string.h>

typedef struct transfer {
    void *to; /* usable by the stream's thread */
    const void *from;
    void *staged; /* freed with it */
    size_t bytes;
    bool between_devices;
    int peers[2];    /* then: the devices whose memory it uses */
    int value;       /* >= 0: a fill */
    uint64_t traced; /* number of a copy between host and device in the trace, 0: none */
} transfer;

static sim_result run(void *data, sim_stream *stream) {
    const transfer *what = data;
    for (int i = 0; what->between_devices && i < 2; i++) sim_peer_access(stream, what->peers[i]);
    if (what->value >= 0)
        memset(what->to, what->value, what->bytes);
    else
        memmove(what->to, what->from, what->bytes);
    sim_trace_contents(what->traced, what->from, what->bytes);
    return SIM_OK;
}

static void drop(void *data) {
    transfer *what = data;
    free(what->staged);
    free(what);
}

static sim_result queue(const char *symbol, sim_stream *stream, const transfer *wanted, const void *to, const void *from) {
    transfer *what = malloc(sizeof *what);
    if (!what) {
        free(wanted->staged);
        return SIM_OUT_OF_MEMORY;
    }
    *what = *wanted;
    sim_entry entry = {
        .what = symbol, .run = run, .drop = drop, .data = what, .use_count = 2, .uses = {{to, what->bytes}, {from, what->bytes}}};
    sim_result result = sim_stream_push(stream, &entry);
    if (result) drop(what);
    return result;
}

static const void *pointer(mst_cu_address address) { return (const void *)(uintptr_t)address; }

/* The checks that all of them have; 0 bytes end them with success. */
#define COPY_BEGIN(symbol)                                                     \
    sim_stream *on = sim_stream_of(stream);                                    \
    DRIVER_ISSUE(symbol, on);                                                  \
    DRIVER_CONTEXT(context);                                                   \
    (void)context;                                                             \
    if (!on) return MST_CU_INVALID_HANDLE;                                     \
    if (sim_context_error(on->context)) return sim_context_error(on->context); \
    if (bytes == 0) return MST_CU_SUCCESS

mst_cu_result cuMemcpyHtoDAsync_v2(mst_cu_address to, const void *from, size_t bytes, mst_cu_stream stream) {
    COPY_BEGIN(cuMemcpyHtoDAsync_v2);
    transfer what = {.to = sim_memory_alias(-1, pointer(to), bytes), .from = from, .bytes = bytes, .value = -1, .traced = sim_trace_copy()};
    if (!what.to || !from || sim_locked_in_part(from, bytes)) return MST_CU_INVALID_VALUE;
    sim_trace("htod %p %llx %zu %llu", (void *)on, to, bytes, (unsigned long long)what.traced);
    if (!sim_memory_locked(on->device, from, bytes)) {
        what.from = what.staged = malloc(bytes);
        if (!what.staged) return MST_CU_OUT_OF_MEMORY;
        memcpy(what.staged, from, bytes);
        from = NULL;
    }
    return queue("cuMemcpyHtoDAsync", on, &what, pointer(to), from);
}

mst_cu_result cuMemcpyDtoHAsync_v2(void *to, mst_cu_address from, size_t bytes, mst_cu_stream stream) {
    COPY_BEGIN(cuMemcpyDtoHAsync_v2);
    transfer what = {.to = to, .from = sim_memory_alias(-1, pointer(from), bytes), .bytes = bytes, .value = -1, .traced = sim_trace_copy()};
    if (!what.from || !to || sim_locked_in_part(to, bytes)) return MST_CU_INVALID_VALUE;
    sim_count_to_host(bytes);
    sim_trace("dtoh %p %llx %zu %llu", (void *)on, from, bytes, (unsigned long long)what.traced);
    sim_locked *range = sim_locked_find(on->device, to, bytes);
    bool locked = range != NULL;
    if (locked && range->read_only) {
        sim_hazard("cuMemcpyDtoHAsync: device %d: writes %zu bytes of page-locked memory that is registered as read-only", on->device,
                   bytes);
        return MST_CU_INVALID_VALUE;
    }
    sim_result result = queue("cuMemcpyDtoHAsync", on, &what, locked ? to : NULL, pointer(from));
    if (locked || result) return result;
    sim_count_wait("cuMemcpyDtoHAsync to pageable memory");
    sim_stream_wait(on);
    return sim_context_error(on->context);
}

static mst_cu_result copy_on_devices(const char *symbol, sim_stream *on, mst_cu_address to, mst_cu_address from, size_t bytes) {
    transfer what = {
        .to = sim_memory_alias(-1, pointer(to), bytes), .from = sim_memory_alias(-1, pointer(from), bytes), .bytes = bytes, .value = -1};
    if (!what.to || !what.from) return MST_CU_INVALID_VALUE;
    what.between_devices = true;
    what.peers[0] = sim_memory_device(pointer(to));
    what.peers[1] = sim_memory_device(pointer(from));
    if (sim_copies_lie(on->device, what.peers[0])) what.to = sim_memory_mirage(pointer(to));
    if (sim_copies_lie(on->device, what.peers[1])) what.from = sim_memory_mirage(pointer(from));
    sim_trace("dtod %p %llx %llx %zu", (void *)on, to, from, bytes);
    return queue(symbol, on, &what, pointer(to), pointer(from));
}

mst_cu_result cuMemcpyDtoDAsync_v2(mst_cu_address to, mst_cu_address from, size_t bytes, mst_cu_stream stream) {
    COPY_BEGIN(cuMemcpyDtoDAsync_v2);
    return copy_on_devices("cuMemcpyDtoDAsync", on, to, from, bytes);
}

mst_cu_result cuMemcpyPeerAsync(mst_cu_address to, mst_cu_context to_context, mst_cu_address from, mst_cu_context from_context,
                                size_t bytes, mst_cu_stream stream) {
    COPY_BEGIN(cuMemcpyPeerAsync);
    sim_context *of_to = sim_context_of(to_context), *of_from = sim_context_of(from_context);
    if (!of_to || !of_from) return MST_CU_INVALID_CONTEXT;
    if (sim_memory_device(pointer(to)) != of_to->device || sim_memory_device(pointer(from)) != of_from->device) return MST_CU_INVALID_VALUE;
    return copy_on_devices("cuMemcpyPeerAsync", on, to, from, bytes);
}

mst_cu_result cuMemsetD8Async(mst_cu_address to, unsigned char value, size_t bytes, mst_cu_stream stream) {
    COPY_BEGIN(cuMemsetD8Async);
    transfer what = {.to = sim_memory_alias(-1, pointer(to), bytes), .bytes = bytes, .value = value};
    if (!what.to) return MST_CU_INVALID_VALUE;
    sim_trace("memset %p %llx %d %zu", (void *)on, to, value, bytes);
    return queue("cuMemsetD8Async", on, &what, pointer(to), NULL);
}
