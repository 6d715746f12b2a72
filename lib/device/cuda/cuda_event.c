/* Events: points in a queue. A device keeps its events until it closes, and reuses them. A
 * destroyed event may still be in a queue, so the driver's event is destroyed only when the queues
 * are empty. */
#include "cuda_device_private.h"

struct mst_cuda_event {
    mst_device_event head;
    mst_cu_event handle;
    bool used; /* created and not destroyed since */
    mst_cuda_event *next;
};

static mst_cuda_event *cuda_event_of(mst_device_event *event) { return (mst_cuda_event *)event; }

/* ---- making and ending ---- */

/* *found: a destroyed event that is complete, and so behaves like one that was never recorded;
 * NULL: there is none. */
static muster_status find_unused(mst_cuda *cuda, mst_cuda_event **found) {
    *found = NULL;
    for (mst_cuda_event *event = cuda->events; event; event = event->next) {
        if (event->used) continue;
        const mst_cu_result result = cuda->api->cuEventQuery(event->handle);
        if (result == MST_CU_NOT_READY) continue;
        MUSTER_TRY(mst_cuda_check(cuda, result, "cuEventQuery"));
        *found = event;
        return MUSTER_OK;
    }
    return MUSTER_OK;
}

static muster_status make_or_find(mst_cuda *cuda, mst_cuda_event **made) {
    MUSTER_TRY(find_unused(cuda, made));
    if (*made) return MUSTER_OK;
    mst_cuda_event *event = mst_alloc(sizeof *event);
    if (!event) return mst_out_of_memory("cuda device: event", sizeof *event);
    *event = (mst_cuda_event){.head.device = &cuda->head, .next = cuda->events};
    const muster_status status = mst_cuda_make_event(cuda, &event->handle);
    if (status != MUSTER_OK) {
        mst_free(event);
        return status;
    }
    *made = cuda->events = event;
    return MUSTER_OK;
}

muster_status mst_cuda_event_create(mst_device *device, mst_device_event **event) {
    mst_cuda *cuda = mst_cuda_of(device);
    mst_cuda_scope scope;
    *event = NULL;
    MUSTER_TRY(mst_cuda_check_between_calls(cuda, "event_create"));
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    mst_cuda_event *made;
    MUSTER_TRY(mst_cuda_end(cuda, &scope, make_or_find(cuda, &made)));
    made->used = true;
    *event = &made->head;
    return MUSTER_OK;
}

void mst_cuda_event_destroy(mst_device_event *event) { cuda_event_of(event)->used = false; }

void mst_cuda_close_events(mst_cuda *cuda) {
    for (mst_cuda_event *event = cuda->events; event; event = event->next) mst_cuda_end_event(cuda, &event->handle);
}

void mst_cuda_forget_events(mst_cuda *cuda) {
    while (cuda->events) {
        mst_cuda_event *next = cuda->events->next;
        mst_free(cuda->events);
        cuda->events = next;
    }
}

/* ---- using ---- */

muster_status mst_cuda_event_record(mst_device_event *event, mst_queue queue) {
    mst_cuda *cuda = mst_cuda_of(event->device);
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    return mst_cuda_end(cuda, &scope, MST_CU(cuda, cuEventRecord, cuda_event_of(event)->handle, mst_cuda_stream_of(cuda, queue)));
}

muster_status mst_cuda_event_wait(mst_device *device, mst_queue queue, mst_device_event *event) {
    mst_cuda *cuda = mst_cuda_of(device);
    if (!mst_device_is_cuda(event->device))
        return mst_error(MUSTER_UNSUPPORTED, "%s: event: expected one of a device of the backend \"cuda\", received one of \"%s\"",
                         cuda->label, event->device->table->backend);
    const mst_cuda *other = mst_cuda_of(event->device);
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    muster_status status = mst_cuda_is_lost(other)
                               ? mst_cuda_report_lost(other)
                               : MST_CU(cuda, cuStreamWaitEvent, mst_cuda_stream_of(cuda, queue), cuda_event_of(event)->handle, 0);
    return mst_cuda_end(cuda, &scope, status);
}

muster_status mst_cuda_event_query(mst_device_event *event, bool *done) {
    mst_cuda *cuda = mst_cuda_of(event->device);
    mst_cuda_scope scope;
    *done = false;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    const mst_cu_result result = cuda->api->cuEventQuery(cuda_event_of(event)->handle);
    *done = result == MST_CU_SUCCESS;
    return mst_cuda_end(cuda, &scope, result == MST_CU_NOT_READY ? MUSTER_OK : mst_cuda_check(cuda, result, "cuEventQuery"));
}
