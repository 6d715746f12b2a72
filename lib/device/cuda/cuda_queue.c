/* Streams and the driver's events: waiting, ordering, and adopting a stream of the program's.
 * Nothing here blocks in the driver, because a queue that never drains must not block the
 * thread. */
#include "clock_impl.h"
#include "cuda_device_private.h"

#include <sched.h>
#include <time.h>

enum {
    SPIN_NS = 20 * 1000, /* polls without a pause */
    /* then polls that yield the CPU: in a thread of the program's a sleep takes at least 50 us, by
     * the kernel's usual timer slack */
    YIELD_NS = 200 * 1000,
    SLEEP_NS = 5 * 1000,      /* then sleeps from here ... */
    SLEEP_MAX_NS = 50 * 1000, /* ... to here */
    DRAIN_ERRORS = 3,         /* the number of errors in a row after which draining stops */
};
static const int64_t DRAIN_NS = 2 * 1000000000ll;

/* ---- opening and closing ---- */

muster_status mst_cuda_make_event(mst_cuda *cuda, mst_cu_event *event) {
    return MST_CU(cuda, cuEventCreate, event, MST_CU_EVENT_DISABLE_TIMING);
}

void mst_cuda_end_event(mst_cuda *cuda, mst_cu_event *event) {
    if (*event) (void)cuda->api->cuEventDestroy_v2(*event);
    *event = NULL;
}

muster_status mst_cuda_open_queues(mst_cuda *cuda) {
    MUSTER_TRY(MST_CU(cuda, cuStreamCreate, &cuda->own_stream, MST_CU_STREAM_NON_BLOCKING));
    cuda->compute = cuda->own_stream;
    MUSTER_TRY(MST_CU(cuda, cuStreamCreate, &cuda->copy, MST_CU_STREAM_NON_BLOCKING));
    MUSTER_TRY(MST_CU(cuda, cuStreamCreate, &cuda->exchange, MST_CU_STREAM_NON_BLOCKING));
    MUSTER_TRY(mst_cuda_make_event(cuda, &cuda->finished));
    MUSTER_TRY(mst_cuda_make_event(cuda, &cuda->joined));
    return mst_cuda_make_event(cuda, &cuda->released);
}

void mst_cuda_close_queues(mst_cuda *cuda) {
    mst_cuda_close_events(cuda);
    mst_cuda_end_event(cuda, &cuda->released);
    mst_cuda_end_event(cuda, &cuda->joined);
    mst_cuda_end_event(cuda, &cuda->finished);
    if (cuda->exchange) (void)cuda->api->cuStreamDestroy_v2(cuda->exchange);
    if (cuda->copy) (void)cuda->api->cuStreamDestroy_v2(cuda->copy);
    if (cuda->own_stream) (void)cuda->api->cuStreamDestroy_v2(cuda->own_stream);
    cuda->own_stream = cuda->compute = cuda->copy = cuda->exchange = NULL;
}

/* ---- waiting ---- */

/* Pauses between two polls, for longer the longer the wait has lasted. */
static void back_off(int64_t begin, int64_t *sleep_ns) {
    int64_t waited = mst_now_ns() - begin;
    if (waited < SPIN_NS) {
        for (int i = 0; i < 8; i++) mst_pause();
    } else if (waited < YIELD_NS) {
        sched_yield();
    } else {
        nanosleep(&(struct timespec){.tv_nsec = *sleep_ns}, NULL);
        *sleep_ns = *sleep_ns * 2 < SLEEP_MAX_NS ? *sleep_ns * 2 : SLEEP_MAX_NS;
    }
}

static muster_status ask_interrupt(const mst_cuda *cuda) {
    return cuda->head.interrupt ? cuda->head.interrupt(cuda->head.interrupt_user) : MUSTER_OK;
}

muster_status mst_cuda_wait_event(mst_cuda *cuda, mst_cu_event event) {
    int64_t begin = 0, sleep_ns = SLEEP_NS;
    for (;;) {
        mst_cu_result result = cuda->api->cuEventQuery(event);
        if (result != MST_CU_NOT_READY) return mst_cuda_check(cuda, result, "cuEventQuery");
        if (begin == 0) begin = mst_now_ns();
        MUSTER_TRY(ask_interrupt(cuda));
        back_off(begin, &sleep_ns);
    }
}

/* Waits for the work that is in the queue now: others may add more to an adopted stream
 * meanwhile. */
static muster_status wait_queue(mst_cuda *cuda, mst_cu_stream stream) {
    MUSTER_TRY(MST_CU(cuda, cuEventRecord, cuda->finished, stream));
    return mst_cuda_wait_event(cuda, cuda->finished);
}

muster_status mst_cuda_await_compute(mst_cuda *cuda) {
    MUSTER_TRY(wait_queue(cuda, cuda->compute));
    return cuda->head.exchange_busy ? wait_queue(cuda, cuda->exchange) : MUSTER_OK;
}

static muster_status finish(mst_cuda *cuda) {
    MUSTER_TRY(mst_cuda_await_compute(cuda));
    if (cuda->copy_busy) MUSTER_TRY(wait_queue(cuda, cuda->copy));
    return mst_cuda_deliver(cuda);
}

static void all_is_done(mst_cuda *cuda) {
    cuda->copy_busy = cuda->release_unrecorded = cuda->release_recorded = cuda->released_async = false;
    cuda->released_exchanged = false;
    cuda->head.exchange_busy = mst_device_exchange_goes_on(&cuda->head);
    cuda->async_begin = cuda->async_end = 0;
}

/* After a failure the copies out that are not delivered yet are dropped: their destinations may be
 * gone when the device finishes. */
static muster_status close_sync(mst_cuda *cuda, muster_status status) {
    if (status == MUSTER_OK)
        all_is_done(cuda);
    else
        mst_cuda_discard(cuda);
    return status;
}

muster_status mst_cuda_synchronize(mst_device *device) {
    mst_cuda *cuda = mst_cuda_of(device);
    mst_cuda_scope scope;
    muster_status status = mst_cuda_begin(cuda, &scope);
    if (status != MUSTER_OK) return close_sync(cuda, status);
    return mst_cuda_end(cuda, &scope, close_sync(cuda, finish(cuda)));
}

static muster_status look(mst_cuda *cuda, bool *done) {
    const mst_cu_stream streams[] = {cuda->compute, cuda->copy, cuda->exchange};
    const bool busy[] = {true, cuda->copy_busy, cuda->head.exchange_busy};
    for (int i = 0; i < 3; i++) {
        if (!busy[i]) continue;
        mst_cu_result result = cuda->api->cuStreamQuery(streams[i]);
        if (result == MST_CU_NOT_READY) return MUSTER_OK;
        MUSTER_TRY(mst_cuda_check(cuda, result, "cuStreamQuery"));
    }
    MUSTER_TRY(mst_cuda_deliver(cuda));
    all_is_done(cuda);
    *done = true;
    return MUSTER_OK;
}

muster_status mst_cuda_poll(mst_device *device, bool *done) {
    mst_cuda *cuda = mst_cuda_of(device);
    mst_cuda_scope scope;
    *done = false;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    return mst_cuda_end(cuda, &scope, look(cuda, done));
}

bool mst_cuda_drain_stream(mst_cuda *cuda, mst_cu_stream stream, int64_t limit_ns) {
    int64_t begin = mst_now_ns(), sleep_ns = SLEEP_NS;
    int32_t errors = 0;
    while (mst_now_ns() - begin < limit_ns) {
        mst_cu_result result = cuda->api->cuStreamQuery(stream);
        if (result == MST_CU_SUCCESS) return true;
        if (mst_cuda_error_is_sticky(result)) (void)mst_cuda_failed(cuda, result, "cuStreamQuery");
        errors = result == MST_CU_NOT_READY ? 0 : errors + 1;
        if (mst_cuda_is_lost(cuda) || errors == DRAIN_ERRORS) return false;
        back_off(begin, &sleep_ns);
    }
    return false;
}

bool mst_cuda_drain(mst_cuda *cuda) {
    return (!cuda->compute || mst_cuda_drain_stream(cuda, cuda->compute, DRAIN_NS)) &&
           (!cuda->copy || mst_cuda_drain_stream(cuda, cuda->copy, DRAIN_NS)) &&
           (!cuda->exchange || mst_cuda_drain_stream(cuda, cuda->exchange, DRAIN_NS));
}

/* ---- order ---- */

muster_status mst_cuda_join(mst_cuda *cuda, mst_cu_stream earlier, mst_cu_stream later) {
    MUSTER_TRY(MST_CU(cuda, cuEventRecord, cuda->joined, earlier));
    return MST_CU(cuda, cuStreamWaitEvent, later, cuda->joined, 0);
}

muster_status mst_cuda_join_queues(mst_device *device, mst_queue earlier, mst_queue later) {
    mst_cuda *cuda = mst_cuda_of(device);
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    return mst_cuda_end(cuda, &scope, mst_cuda_join(cuda, mst_cuda_stream_of(cuda, earlier), mst_cuda_stream_of(cuda, later)));
}

muster_status mst_cuda_record_released(mst_cuda *cuda) {
    MUSTER_TRY(MST_CU(cuda, cuEventRecord, cuda->released, cuda->compute));
    cuda->release_unrecorded = false;
    cuda->release_recorded = true;
    return MUSTER_OK;
}

/* ---- a stream of the program's ---- */

static muster_status bind(mst_cuda *cuda, mst_cu_stream stream) {
    MUSTER_TRY(mst_cuda_bind_blas(cuda, stream));
    return mst_cuda_bind_dnn(cuda, stream);
}

static muster_status adopt(mst_cuda *cuda, mst_cu_stream stream) {
    if (stream != cuda->own_stream) MUSTER_TRY(mst_cuda_check_stream(cuda, stream, "mst_cuda_adopt_stream"));
    MUSTER_TRY(mst_cuda_join(cuda, cuda->compute, stream));
    muster_status status = bind(cuda, stream);
    if (status != MUSTER_OK) {
        char reason[MST_MESSAGE_SIZE];
        mst_error_save(reason);
        (void)bind(cuda, cuda->compute);
        return mst_error_restore(status, reason);
    }
    cuda->compute = stream;
    return MUSTER_OK;
}

muster_status mst_cuda_adopt_stream(mst_device *device, void *stream) {
    mst_cuda *cuda = mst_cuda_of(device);
    mst_cu_stream wanted = stream ? stream : cuda->own_stream;
    if (cuda->head.in_flight)
        return mst_error(MUSTER_BAD_STATE, "mst_cuda_adopt_stream: %s: expected to be called between calls, received a call in flight",
                         cuda->label);
    if (stream == MST_CU_STREAM_PER_THREAD)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "mst_cuda_adopt_stream: %s: stream: expected one that is the same in every thread, received the per-thread "
                         "default stream",
                         cuda->label);
    if (wanted == cuda->compute) return MUSTER_OK;
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    return mst_cuda_end(cuda, &scope, adopt(cuda, wanted));
}
