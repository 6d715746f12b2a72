/* Stream capture: what Muster asks about it, and what programs call. */
#include "driver_impl.h"

mst_cu_result cuThreadExchangeStreamCaptureMode(unsigned int *mode) {
    DRIVER_ENTER(cuThreadExchangeStreamCaptureMode);
    if (!sim_device_count()) return MST_CU_NOT_INITIALIZED;
    if (!mode || *mode > MST_CU_CAPTURE_RELAXED) return MST_CU_INVALID_VALUE;
    *mode = sim_capture_exchange_mode(*mode);
    return MST_CU_SUCCESS;
}

/* The stream, or the end of the call. */
#define CAPTURE_STREAM(symbol)                                               \
    sim_stream *on = sim_stream_of(stream);                                  \
    DRIVER_ENTER_DEVICE(symbol, driver_stream_device(on));                   \
    if (!sim_device_count()) return MST_CU_NOT_INITIALIZED;                  \
    if (!on) return stream ? MST_CU_INVALID_HANDLE : MST_CU_INVALID_CONTEXT; \
    if (sim_context_error(on->context)) return sim_context_error(on->context)

mst_cu_result cuStreamIsCapturing(mst_cu_stream stream, unsigned int *status) {
    CAPTURE_STREAM(cuStreamIsCapturing);
    return status ? sim_capture_status(on, status) : MST_CU_INVALID_VALUE;
}

mst_cu_result cuStreamBeginCapture_v2(mst_cu_stream stream, unsigned int mode) {
    CAPTURE_STREAM(cuStreamBeginCapture_v2);
    return sim_capture_begin(on, mode);
}

mst_cu_result cuStreamEndCapture(mst_cu_stream stream, mst_cu_graph *graph) {
    void *ended = NULL;
    CAPTURE_STREAM(cuStreamEndCapture);
    if (!graph) return MST_CU_INVALID_VALUE;
    const sim_result result = sim_capture_end(on, &ended);
    *graph = ended;
    return result;
}

mst_cu_result cuGraphDestroy(mst_cu_graph graph) {
    DRIVER_ENTER(cuGraphDestroy);
    return graph ? MST_CU_SUCCESS : MST_CU_INVALID_VALUE;
}
