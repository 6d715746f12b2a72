/* Ends NCCL's communicators.
 *
 * The last rank of the process that aborts or destroys a communicator pays for all of them: NCCL
 * then waits in the host for the streams of all ranks, up to the communicator's last kernel, and
 * frees the memory of all ranks (commReclaim in NCCL's init.cc). Two rules keep a worker from
 * waiting for ever in there:
 *
 * - All communicators of a rank are ended in one group. ncclCommAbort tells the kernels to end, and
 *   only ncclGroupEnd waits. One by one, the first wait could be for a kernel that stands in a
 *   stream behind a kernel of a communicator that has not been told yet.
 * - A thread of its own makes these calls. What stands in front of the kernels in a stream may be a
 *   kernel of the program that never ends. The worker goes on, and the thread is waited for between
 *   runs, for a bounded time. */
#include "nccl_private.h"

#include "clock_impl.h"
#include "cuda/cuda_impl.h"
#include "own_thread_impl.h"

#include <pthread.h>
#include <string.h>

enum { ATTEMPTS = 3, MOST = 256 };
static const int64_t END_NS = 5 * 1000000000ll; /* ending takes no time unless something is stuck */
static const int64_t LOST_NS = 200 * 1000000ll; /* the same if a device is lost, whose queue may never end */

typedef struct ended_comm {
    mst_nccl_comm comm;
    bool finalized;
} ended_comm;

struct mst_nccl_ending {
    mst_nccl_ending *next;
    pthread_t thread;
    /* The thread may be stuck when all of this is freed, so it copies what follows first. */
    const mst_nccl_worker *nccl_worker;
    _Atomic bool copied;
    int32_t count;
    ended_comm comms[];
};

/* ---- ending one worker's ---- */

static void end_one(const mst_nccl_api *api, const ended_comm *ended) {
    if (ended->finalized)
        (void)api->ncclCommDestroy(ended->comm);
    else
        (void)api->ncclCommAbort(ended->comm);
}

/* NCCL returns to the current context at the end of a group. Without one it would create that of
 * GPU 0. A lost device cannot be entered, but another one of the world can. */
static void enter_some_device(const mst_nccl_worker *nccl_worker) {
    const mst_nccl *nccl = nccl_worker->nccl;
    const int32_t first = nccl_worker->worker->rank;
    for (int32_t i = 0; i < nccl->size; i++) {
        mst_device *device = nccl->workers[(first + i) % nccl->size].worker->device;
        if (device->queue->enter(device) == MUSTER_OK) return;
    }
}

static void *ending_main(void *argument) {
    mst_nccl_ending *ending = argument;
    const mst_nccl_api *api = ending->nccl_worker->nccl->api;
    const int32_t count = ending->count;
    ended_comm comms[MOST];
    memcpy(comms, ending->comms, (size_t)count * sizeof *comms);
    enter_some_device(ending->nccl_worker);
    atomic_store(&ending->copied, true);
    const bool grouped = api->ncclGroupStart() == MST_NCCL_SUCCESS;
    for (int32_t i = 0; i < count; i++) end_one(api, &comms[i]);
    if (grouped) (void)api->ncclGroupEnd();
    return NULL;
}

static bool is_meant(const mst_nccl_handle *handle, mst_nccl_which which) {
    return handle->comm && (which == MST_NCCL_ALL || handle->released);
}

static mst_nccl_ending *collect(mst_nccl_worker *nccl_worker, mst_nccl_which which, int32_t count) {
    mst_nccl_ending *ending = mst_alloc(sizeof *ending + (size_t)count * sizeof ending->comms[0]);
    if (!ending) return NULL;
    *ending = (mst_nccl_ending){.nccl_worker = nccl_worker};
    for (mst_nccl_handle *handle = nccl_worker->handles; handle; handle = handle->next) {
        if (is_meant(handle, which) && ending->count < count)
            ending->comms[ending->count++] = (ended_comm){handle->comm, handle->finalized};
    }
    return ending;
}

static bool start(mst_nccl_ending *ending) {
    const int error = mst_own_thread_start(&ending->thread, ending_main, ending);
    const int64_t begin = mst_now_ns();
    while (!error && !atomic_load(&ending->copied)) mst_nccl_back_off(mst_now_ns() - begin);
    return !error;
}

/* Without memory or a thread the worker's own thread ends them, and may wait for work that is
 * stuck. */
static void end_here(const mst_nccl_worker *nccl_worker, mst_nccl_which which, int32_t count) {
    const mst_nccl_api *api = nccl_worker->nccl->api;
    const bool grouped = api->ncclGroupStart() == MST_NCCL_SUCCESS;
    for (mst_nccl_handle *handle = nccl_worker->handles; handle && count > 0; handle = handle->next) {
        if (!is_meant(handle, which)) continue;
        end_one(api, &(ended_comm){handle->comm, handle->finalized});
        count--;
    }
    if (grouped) (void)api->ncclGroupEnd();
}

/* Ends the first `count` of these communicators. */
static void begin(mst_nccl_worker *nccl_worker, mst_nccl_which which, int32_t count) {
    mst_nccl_ending *ending = collect(nccl_worker, which, count);
    if (ending && start(ending)) {
        ending->next = nccl_worker->endings;
        nccl_worker->endings = ending;
    } else {
        mst_free(ending);
        end_here(nccl_worker, which, count);
    }
    for (mst_nccl_handle *handle = nccl_worker->handles; handle && count > 0; handle = handle->next) {
        if (!is_meant(handle, which)) continue;
        handle->comm = NULL;
        handle->finalized = false;
        count--;
    }
}

void mst_nccl_end_begin(mst_nccl_worker *nccl_worker, mst_nccl_which which) {
    int32_t count = 0;
    for (const mst_nccl_handle *handle = nccl_worker->handles; handle; handle = handle->next) count += is_meant(handle, which);
    for (; count > 0; count -= MOST) begin(nccl_worker, which, count < MOST ? count : MOST);
}

void mst_nccl_abort(mst_nccl_worker *nccl_worker) {
    mst_nccl_end_begin(nccl_worker, MST_NCCL_ALL);
    atomic_store(&nccl_worker->nccl->broken, true);
}

muster_status mst_nccl_abort_task(muster_worker *worker, void *argument) {
    mst_nccl *nccl = argument;
    mst_nccl_abort(&nccl->workers[worker->rank]);
    return MUSTER_OK;
}

/* ---- waiting for the end ---- */

/* Frees the ending. false: its thread has not ended in time, and is left to itself. */
static bool await(mst_nccl_ending *ending, int64_t end_ns) {
    const int64_t begin_ns = mst_now_ns();
    bool joined;
    while (!(joined = pthread_tryjoin_np(ending->thread, NULL) == 0) && mst_now_ns() < end_ns) mst_nccl_back_off(mst_now_ns() - begin_ns);
    if (!joined) pthread_detach(ending->thread);
    mst_free(ending);
    return joined;
}

static bool any_lost(const mst_nccl *nccl) {
    for (int32_t r = 0; r < nccl->size; r++)
        if (nccl->workers[r].worker->device->lost) return true;
    return false;
}

bool mst_nccl_end_wait(mst_nccl *nccl) {
    const int64_t limit_ns = any_lost(nccl) ? LOST_NS : END_NS, end_ns = mst_now_ns() + limit_ns;
    bool all = true;
    for (int32_t r = 0; nccl->workers && r < nccl->size; r++) {
        mst_nccl_worker *nccl_worker = &nccl->workers[r];
        for (mst_nccl_ending *ending = nccl_worker->endings, *next; ending; ending = next) {
            next = ending->next;
            all = await(ending, end_ns) && all;
        }
        nccl_worker->endings = NULL;
    }
    if (all) return true;
    mst_nccl_log(
        nccl, MUSTER_LOG_WARNING,
        "muster: NCCL's communicators do not end, because work in front of their last collective does not: they, and the memory of "
        "all open GPUs, are kept until the process ends");
    mst_cuda_leave_running();
    return false;
}

/* ---- on all workers ---- */

bool mst_nccl_any_left(const mst_nccl *nccl) {
    for (int32_t r = 0; nccl->workers && r < nccl->size; r++)
        for (const mst_nccl_handle *handle = nccl->workers[r].handles; handle; handle = handle->next)
            if (handle->comm) return true;
    return false;
}

bool mst_nccl_end_everywhere(mst_nccl *nccl, mst_task task) {
    for (int32_t i = 0; i < ATTEMPTS && mst_nccl_any_left(nccl); i++) (void)mst_pool_run(nccl->world->pool, task, nccl);
    /* The workers of lost devices run no task. NCCL frees nothing of the others without them. */
    for (int32_t r = 0; nccl->workers && r < nccl->size; r++) mst_nccl_end_begin(&nccl->workers[r], MST_NCCL_ALL);
    return mst_nccl_end_wait(nccl);
}

void mst_nccl_drop_handles(mst_nccl_worker *nccl_worker, bool only_released) {
    mst_nccl_handle **at = &nccl_worker->handles;
    while (*at) {
        mst_nccl_handle *handle = *at;
        if (only_released && !handle->released) {
            at = &handle->next;
            continue;
        }
        *at = handle->next;
        mst_free(handle);
    }
}
