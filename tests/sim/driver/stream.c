/* Streams and events. */
#include "driver_impl.h"

mst_cu_result cuStreamCreate(mst_cu_stream *stream, unsigned int flags) {
    DRIVER_ENTER_DEVICE(cuStreamCreate, sim_current_device());
    DRIVER_CONTEXT(context);
    if (!stream || flags & ~(unsigned)MST_CU_STREAM_NON_BLOCKING) return MST_CU_INVALID_VALUE;
    DRIVER_UNSAFE();
    sim_hazard_creation("cuStreamCreate");
    sim_result result = sim_stream_create(context, !(flags & MST_CU_STREAM_NON_BLOCKING), stream);
    if (!result) sim_trace("stream %d %p", context->device, (void *)*stream);
    return result;
}

mst_cu_result cuStreamDestroy_v2(mst_cu_stream stream) {
    sim_stream *destroyed = stream ? sim_stream_of(stream) : NULL;
    DRIVER_RELEASE(cuStreamDestroy_v2, driver_stream_device(destroyed));
    if (!sim_device_count()) return MST_CU_NOT_INITIALIZED;
    if (!destroyed) return MST_CU_INVALID_HANDLE;
    sim_hazard_creation("cuStreamDestroy");
    sim_result result = sim_context_error(destroyed->context);
    sim_trace("stream_destroy %p", (void *)stream);
    sim_stream_destroy(destroyed);
    return DRIVER_RESULT(result);
}

/* The stream, or the end of the call. */
#define STREAM_CHECK(on)                                                       \
    if (!sim_device_count()) return MST_CU_NOT_INITIALIZED;                    \
    if (!(on)) return stream ? MST_CU_INVALID_HANDLE : MST_CU_INVALID_CONTEXT; \
    if (sim_context_error((on)->context)) return sim_context_error((on)->context)

mst_cu_result cuStreamQuery(mst_cu_stream stream) {
    sim_stream *on = sim_stream_of(stream);
    unsigned injected = sim_enter(&driver_symbols[INDEX_cuStreamQuery], driver_stream_device(on));
    if (injected) return injected;
    STREAM_CHECK(on);
    const sim_result refused = sim_capture_refuse_wait(on);
    if (refused) return refused;
    if (!sim_stream_idle(on)) return MST_CU_NOT_READY;
    return sim_context_error(on->context); /* of what has just been done */
}

mst_cu_result cuStreamSynchronize(mst_cu_stream stream) {
    sim_stream *on = sim_stream_of(stream);
    unsigned injected = sim_enter(&driver_symbols[INDEX_cuStreamSynchronize], driver_stream_device(on));
    if (injected) return injected;
    STREAM_CHECK(on);
    const sim_result refused = sim_capture_refuse_wait(on);
    if (refused) return refused;
    sim_count_wait("cuStreamSynchronize");
    sim_stream_wait(on);
    return sim_context_error(on->context);
}

mst_cu_result cuStreamGetCtx(mst_cu_stream stream, mst_cu_context *context) {
    sim_stream *on = sim_stream_of(stream);
    unsigned injected = sim_enter(&driver_symbols[INDEX_cuStreamGetCtx], driver_stream_device(on));
    if (injected) return injected;
    STREAM_CHECK(on);
    if (!context) return MST_CU_INVALID_VALUE;
    *context = on->context;
    return MST_CU_SUCCESS;
}

mst_cu_result cuStreamWaitEvent(mst_cu_stream stream, mst_cu_event event, unsigned int flags) {
    sim_stream *on = sim_stream_of(stream);
    DRIVER_ISSUE(cuStreamWaitEvent, on);
    STREAM_CHECK(on);
    sim_event *awaited = sim_event_of(event);
    if (!awaited) return MST_CU_INVALID_HANDLE;
    if (flags & ~1u) return MST_CU_INVALID_VALUE;
    sim_trace("wait %p %p", (void *)on, (void *)event);
    return sim_event_wait(awaited, on);
}

enum { EVENT_FLAGS = 7 };

mst_cu_result cuEventCreate(mst_cu_event *event, unsigned int flags) {
    DRIVER_ENTER_DEVICE(cuEventCreate, sim_current_device());
    DRIVER_CONTEXT(context);
    if (!event || flags & ~(unsigned)EVENT_FLAGS) return MST_CU_INVALID_VALUE;
    sim_hazard_creation("cuEventCreate");
    sim_result result = sim_event_create(context, event);
    if (!result) sim_trace("event %d %p", context->device, (void *)*event);
    return result;
}

mst_cu_result cuEventDestroy_v2(mst_cu_event event) {
    sim_event *destroyed = sim_event_of(event);
    DRIVER_RELEASE(cuEventDestroy_v2, destroyed ? destroyed->context->device : -1);
    if (!sim_device_count()) return MST_CU_NOT_INITIALIZED;
    if (!destroyed) return MST_CU_INVALID_HANDLE;
    sim_hazard_creation("cuEventDestroy");
    sim_result result = sim_context_error(destroyed->context);
    sim_trace("event_destroy %p", (void *)event);
    sim_event_destroy(destroyed);
    return DRIVER_RESULT(result);
}

mst_cu_result cuEventRecord(mst_cu_event event, mst_cu_stream stream) {
    sim_stream *on = sim_stream_of(stream);
    DRIVER_ISSUE(cuEventRecord, on);
    STREAM_CHECK(on);
    sim_event *recorded = sim_event_of(event);
    if (!recorded || recorded->context != on->context) return MST_CU_INVALID_HANDLE;
    sim_trace("record %p %p", (void *)event, (void *)on);
    return sim_event_record(recorded, on);
}

mst_cu_result cuEventQuery(mst_cu_event event) {
    sim_event *asked = sim_event_of(event);
    unsigned injected = sim_enter(&driver_symbols[INDEX_cuEventQuery], asked ? asked->context->device : -1);
    if (injected) return injected;
    if (!sim_device_count()) return MST_CU_NOT_INITIALIZED;
    if (!asked) return MST_CU_INVALID_HANDLE;
    if (sim_context_error(asked->context)) return sim_context_error(asked->context);
    const sim_result refused = sim_capture_refuse_event_wait(asked);
    if (refused) return refused;
    if (!sim_event_done(asked)) return MST_CU_NOT_READY;
    return sim_context_error(asked->context); /* of what came before it */
}
