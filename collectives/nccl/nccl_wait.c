/* Waiting for NCCL. Its communicators are non-blocking, so a worker that waits for a call in
 * progress can poll the run and the clock, and give up. While a device waits, it polls NCCL too. */
#include "nccl_private.h"

#include "clock_impl.h"

#include <sched.h>
#include <time.h>

enum { SPIN_NS = 20 * 1000, YIELD_NS = 500 * 1000, SLEEP_NS = 50 * 1000, POLL_EVERY = 16 };

muster_status mst_nccl_check(mst_nccl_worker *nccl_worker, mst_nccl_result result, const char *symbol) {
    const muster_status status = mst_nccl_error(nccl_worker->nccl->api, result, symbol, nccl_worker->worker->device);
    if (status != MUSTER_OK && status != MUSTER_DEVICE_LOST) atomic_store(&nccl_worker->nccl->blamed, true);
    return status;
}

muster_status mst_nccl_lose(mst_nccl_worker *nccl_worker, muster_status status) {
    char message[MST_MESSAGE_SIZE];
    if (nccl_worker->function) mst_collective_error(nccl_worker->function, status);
    mst_error_save(message);
    mst_pool_abort(nccl_worker->worker, status);
    mst_nccl_abort(nccl_worker);
    return mst_error_restore(status, message);
}

/* ---- waiting ---- */

void mst_nccl_back_off(int64_t waited_ns) {
    if (waited_ns < SPIN_NS)
        mst_pause();
    else if (waited_ns < YIELD_NS)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
}

mst_nccl_result mst_nccl_wait(const mst_nccl_api *api, mst_nccl_comm comm, mst_nccl_result result, const muster_worker *worker,
                              int64_t limit_ns) {
    const int64_t begin = mst_now_ns();
    while (result == MST_NCCL_IN_PROGRESS) {
        mst_nccl_result asked = api->ncclCommGetAsyncError(comm, &result);
        if (asked != MST_NCCL_SUCCESS) return asked;
        if (result != MST_NCCL_IN_PROGRESS || (worker && mst_pool_aborted(worker))) break;
        const int64_t waited_ns = mst_now_ns() - begin;
        if (limit_ns >= 0 && waited_ns >= limit_ns) break;
        mst_nccl_back_off(waited_ns);
    }
    return result;
}

muster_status mst_nccl_synchronize(mst_nccl_worker *nccl_worker, mst_nccl_handle *handle, mst_nccl_result result, const char *symbol,
                                   int64_t limit_ns) {
    result = mst_nccl_wait(nccl_worker->nccl->api, handle->comm, result, nccl_worker->worker, limit_ns);
    if (__builtin_expect(result == MST_NCCL_SUCCESS, 1)) return MUSTER_OK;
    if (result != MST_NCCL_IN_PROGRESS) return mst_nccl_lose(nccl_worker, mst_nccl_check(nccl_worker, result, symbol));
    if (!mst_pool_aborted(nccl_worker->worker))
        return mst_nccl_lose(nccl_worker, mst_error(MUSTER_TIMEOUT, "NCCL: %s: rank %d has been in progress for %.3g s", symbol,
                                                    mst_worker_public_rank(nccl_worker->worker), (double)limit_ns * 1e-9));
    mst_nccl_abort(nccl_worker);
    return mst_error(mst_pool_aborted_status(nccl_worker->worker), "NCCL: %s: rank %d gave it up because the call was aborted", symbol,
                     mst_worker_public_rank(nccl_worker->worker));
}

muster_status mst_nccl_group_end(mst_nccl_worker *nccl_worker, mst_nccl_handle *handle, muster_status status, int64_t limit_ns) {
    char message[MST_MESSAGE_SIZE];
    if (status != MUSTER_OK) mst_error_save(message);
    const mst_nccl_result result = nccl_worker->nccl->api->ncclGroupEnd();
    if (status != MUSTER_OK) return mst_error_restore(status, message);
    return mst_nccl_synchronize(nccl_worker, handle, result, "ncclGroupEnd", limit_ns);
}

/* ---- watching ---- */

/* The device calls this while it waits, on the worker's thread. */
static muster_status watch(void *user) {
    mst_nccl_worker *nccl_worker = user;
    const muster_worker *worker = nccl_worker->worker;
    if (nccl_worker->used != 0 && nccl_worker->used == worker->epoch && mst_current_worker() == worker) {
        if (mst_pool_aborted(worker)) {
            mst_nccl_abort(nccl_worker);
            nccl_worker->used = 0;
        } else if (++nccl_worker->polls % POLL_EVERY == 0) {
            for (mst_nccl_handle *handle = nccl_worker->handles; handle && nccl_worker->used; handle = handle->next) {
                mst_nccl_result result = MST_NCCL_SUCCESS;
                if (!handle->comm) continue;
                mst_nccl_result asked = nccl_worker->nccl->api->ncclCommGetAsyncError(handle->comm, &result);
                muster_status status = mst_nccl_check(nccl_worker, asked != MST_NCCL_SUCCESS ? asked : result, "ncclCommGetAsyncError");
                if (status == MUSTER_OK) continue;
                mst_nccl_lose(nccl_worker, status);
                nccl_worker->used = 0;
            }
        }
    }
    return nccl_worker->before ? nccl_worker->before(nccl_worker->before_user) : MUSTER_OK;
}

void mst_nccl_watch_begin(mst_nccl *nccl) {
    for (int32_t r = 0; r < nccl->size; r++) {
        mst_nccl_worker *nccl_worker = &nccl->workers[r];
        mst_device *device = nccl_worker->worker->device;
        nccl_worker->before = device->interrupt;
        nccl_worker->before_user = device->interrupt_user;
        device->interrupt = watch;
        device->interrupt_user = nccl_worker;
    }
    nccl->watching = true;
}

/* Removes this runtime's functions from the devices' chains of interrupt functions. Other runtimes
 * may have added theirs since. */
void mst_nccl_watch_end(mst_nccl *nccl) {
    for (int32_t r = 0; nccl->watching && r < nccl->size; r++) {
        mst_nccl_worker *nccl_worker = &nccl->workers[r];
        mst_device *device = nccl_worker->worker->device;
        muster_status (**interrupt)(void *) = &device->interrupt;
        void **user = &device->interrupt_user;
        while (*interrupt == watch && *user != nccl_worker) {
            mst_nccl_worker *above = *user;
            interrupt = &above->before;
            user = &above->before_user;
        }
        if (*user != nccl_worker) continue;
        *interrupt = nccl_worker->before;
        *user = nccl_worker->before_user;
    }
}
