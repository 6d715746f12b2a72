/* A worker and a device that has queues of its own (also a host device while a program runs on it):
 * around every run the device is the thread's, at its end it has done everything, and no wait for
 * it lasts for ever. The device itself asks while it waits (mst_device.interrupt), on the thread
 * that waits. */
#include "locale_impl.h"
#include "pool_state_private.h"

#include <inttypes.h>
#include <stdio.h>

/* To give a device up is for ever: not because of a short deadline on a busy machine. */
static const int64_t LEAST_DRAIN_NS = 2 * 1000000000ll;
enum { DRAINS = 3 };

/* Also outside of runs, where a worker's own numbers may not be set. */
static int32_t public_rank(const mst_worker_state *state) { return state->worker.pool->options.first + state->worker.rank; }

static double seconds(int64_t ns) { return (double)ns * 1e-9; }

/* ---- while a sync waits ---- */

static const char *last_issued(const mst_worker_state *state, char text[160]) {
    return mst_recorder_last(&state->worker.recorder, text, 160);
}

static muster_status report_aborted(mst_worker_state *state) {
    const uint64_t word = atomic_load(&state->worker.pool->failure);
    if (mst_failure_code(word) == MUSTER_CANCELLED) return mst_cancel_refuse(state->worker.device->name);
    return mst_error(MUSTER_ABORTED, "rank %" PRId32 " gave up waiting for its device %s because rank %" PRId32 " failed with %s",
                     public_rank(state), state->worker.device->name, state->worker.pool->options.first + mst_failure_rank(word),
                     muster_status_name(mst_failure_code(word)));
}

static muster_status late(mst_worker_state *state, int64_t waited_ns) {
    char last[160];
    mst_error(MUSTER_TIMEOUT, "rank %" PRId32 " waited %.3g s for its device %s; it issued last: %s", public_rank(state),
              seconds(waited_ns), state->worker.device->name, last_issued(state, last));
    mst_pool_abort(&state->worker, MUSTER_TIMEOUT);
    return MUSTER_TIMEOUT;
}

static void warn(mst_worker_state *state, int64_t waited_ns) {
    char line[200];
    mst_snprintf(line, sizeof(line),
                 "muster: rank %" PRId32 " has waited %.3g s for its device %.60s; the workers did last:", public_rank(state),
                 seconds(waited_ns), state->worker.device->name);
    mst_report_workers(state->worker.pool, line);
    state->device_wait.warned = true;
}

static muster_status give_up(mst_worker_state *state, int64_t waited_ns) {
    state->device_wait.given_up = true;
    return mst_error(MUSTER_DEVICE_LOST, "device %s of rank %" PRId32 " has not finished what was issued %.3g s after its run was aborted",
                     state->worker.device->name, public_rank(state), seconds(waited_ns));
}

/* A wait begins anew with every event of the recorder: what the worker issued before it has then
 * been seen. */
static int64_t waited(mst_worker_state *state) {
    mst_device_wait *wait = &state->device_wait;
    const uint64_t events = mst_recorder_progress(&state->worker.recorder);
    const int64_t now = mst_now_ns();
    if (wait->since_ns == 0 || events != wait->events) {
        wait->since_ns = now;
        wait->events = events;
        wait->warned = false;
    }
    return now - wait->since_ns;
}

static muster_status watch(void *context) {
    mst_worker_state *state = context;
    const mst_pool *pool = state->worker.pool;
    mst_device_wait *wait = &state->device_wait;
    if (state->worker.device->lost) return mst_device_refusal(pool, false);
    if (!wait->in_run) return MUSTER_OK;
    const int64_t waited_ns = waited(state);
    const bool too_long = pool->fail_after_ns >= 0 && waited_ns >= pool->fail_after_ns;
    if (wait->draining) return too_long && waited_ns >= LEAST_DRAIN_NS ? give_up(state, waited_ns) : MUSTER_OK;
    if (mst_pool_aborted(&state->worker)) {
        wait->interrupted = true;
        return report_aborted(state);
    }
    if (!wait->warned && pool->warn_after_ns >= 0 && waited_ns >= pool->warn_after_ns) warn(state, waited_ns);
    if (!too_long) return MUSTER_OK;
    wait->interrupted = true;
    return late(state, waited_ns);
}

void mst_device_watch(mst_worker_state *state) {
    state->worker.device->interrupt_user = state;
    state->worker.device->interrupt = watch;
}

void mst_device_unwatch(mst_worker_state *state) {
    if (state->worker.device->interrupt_user != state) return;
    state->worker.device->interrupt = NULL;
    state->worker.device->interrupt_user = NULL;
}

static muster_status wait_once(mst_worker_state *state) {
    mst_device *device = state->worker.device;
    const bool host = mst_device_is_host(device);
    state->device_wait.since_ns = 0;
    if (host) state->device_wait.in_run = true;
    const muster_status status = device->table->synchronize(device);
    state->device_wait.since_ns = 0;
    if (host) state->device_wait.in_run = false;
    return status;
}

/* A run on a host device costs nothing here until it waits for a program. */
static void begin_late(mst_worker_state *state) {
    if (mst_device_is_host(state->worker.device) && state->device_wait.epoch != state->worker.epoch)
        state->device_wait = (mst_device_wait){.epoch = state->worker.epoch};
}

/* ---- around a run ---- */

muster_status mst_device_begin(mst_worker_state *state) {
    mst_device *device = state->worker.device;
    state->device_wait = (mst_device_wait){.in_run = false};
    const muster_status status = device->queue ? device->queue->enter(device) : MUSTER_OK;
    state->device_wait.in_run = status == MUSTER_OK;
    return status;
}

/* Whether the work has ended is unknown, and so it may still be running. */
static void give_up_unknown(mst_worker_state *state) {
    char last[MST_MESSAGE_SIZE];
    state->device_wait.given_up = true;
    mst_error_save(last);
    mst_error(MUSTER_DEVICE_LOST,
              "device %.60s of rank %" PRId32 " has failed %d waits in a row, so that its work may not have ended: %.300s",
              state->worker.device->name, public_rank(state), DRAINS + 1, last);
}

/* What was issued before a wait for it was broken off may still use memory of the program, and is
 * waited for once more. */
static void drain(mst_worker_state *state) {
    mst_device *device = state->worker.device;
    state->device_wait.draining = true;
    muster_status status = wait_once(state);
    /* A queue may carry a failure of the work or of a call: whether it has ended, only a wait that
     * succeeds tells. */
    for (int again = 0; again < DRAINS && status != MUSTER_OK && status != MUSTER_DEVICE_LOST && !state->device_wait.given_up; again++)
        status = wait_once(state);
    state->device_wait.draining = false;
    if (status != MUSTER_OK && status != MUSTER_DEVICE_LOST && !state->device_wait.given_up) give_up_unknown(state);
    if (state->device_wait.given_up) {
        device->lost = true;
        if (device->table->hardware) device->table->hardware->give_up(device, muster_last_error());
        atomic_fetch_add(&state->worker.pool->lost, 1);
        if (state->worker.pool->alone) state->worker.pool->alone = false; /* on the thread that makes the run */
    }
}

/* The caller that gets an error frees what was copied from or to. So a wait that was interrupted,
 * or that the driver ended with an error, returns only when the device is idle or was given up. */
muster_status mst_worker_sync(muster_worker *worker) {
    mst_worker_state *state = &worker->pool->states[worker->rank];
    begin_late(state);
    muster_status status = wait_once(state);
    if (status == MUSTER_OK || worker->device->lost) return status;
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    drain(state);
    return mst_error_restore(status, message);
}

/* Of two failures the first is kept. */
static muster_status leave_device(mst_device *device, muster_status status) {
    if (!device->queue) return status;
    if (status == MUSTER_OK) return device->queue->leave(device);
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    (void)device->queue->leave(device);
    return mst_error_restore(status, message);
}

/* A run whose wait was interrupted is aborted already, and the reason is recorded: a later wait has
 * nothing to add. */
muster_status mst_device_end(mst_worker_state *state) {
    mst_device *device = state->worker.device;
    begin_late(state);
    muster_status status = state->device_wait.interrupted ? MUSTER_OK : wait_once(state);
    if (!state->device_wait.given_up && (status != MUSTER_OK || state->device_wait.interrupted)) {
        char message[MST_MESSAGE_SIZE];
        mst_error_save(message);
        drain(state);
        if (status != MUSTER_OK) mst_error_restore(status, message);
    }
    state->device_wait.in_run = false;
    return leave_device(device, status);
}

/* Not when a worker ends its own part: what it does last, such as giving scratch back, must not
 * call the driver while other devices still are in a collective. */
void mst_devices_clear_in_flight(mst_pool *pool) {
    for (int32_t rank = 0; rank < pool->size; rank++) pool->states[rank].worker.device->in_flight = false;
}

/* ---- memory ---- */

muster_status mst_worker_allocate(muster_worker *worker, int64_t bytes, void **address) {
    mst_device *device = worker->device;
    const muster_status status = device->memory->allocate(device, bytes, address);
    if (status == MUSTER_OUT_OF_MEMORY && device->in_flight) {
        worker->pool->states[worker->rank].refused += bytes;
        atomic_store(&worker->pool->refused, true);
    }
    return status;
}

/* A device that has no more memory refuses the next allocation, with the sizes. */
void mst_device_reserve_refused(mst_pool *pool) {
    atomic_store(&pool->refused, false);
    for (int32_t rank = 0; rank < pool->size; rank++) {
        mst_worker_state *state = &pool->states[rank];
        mst_device *device = state->worker.device;
        if (state->refused > 0 && !device->lost) device->memory->reserve(device, state->refused);
        state->refused = 0;
    }
}

/* ---- lost devices ---- */

muster_status mst_device_refusal(const mst_pool *pool, bool single) {
    for (int32_t rank = 0; rank < (single ? 1 : pool->size); rank++) {
        const mst_device *device = pool->states[rank].worker.device;
        if (device->lost)
            return mst_error(MUSTER_DEVICE_LOST,
                             "device %s of rank %" PRId32
                             " has not come back from an earlier call and is not used any more: close the runtime",
                             device->name, pool->options.first + rank);
    }
    return MUSTER_OK;
}
