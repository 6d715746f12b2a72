/* Creates, recovers and ends NCCL communicators. They are non-blocking, so a worker that waits for
 * a call in progress can poll the run and the clock, and give up.
 *
 * When a run is aborted, each worker that has issued NCCL calls in it aborts its own communicators
 * from its own thread, at the latest when it waits for its device. Before the next run all
 * communicators are created anew, on all workers at the same time. */
#include "nccl_private.h"

#include "clock_impl.h"
#include "cuda/cuda_impl.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MOST_FAILURES = 3, ATTEMPTS = 3, SPIN_NS = 20 * 1000, YIELD_NS = 500 * 1000, SLEEP_NS = 50 * 1000, POLL_EVERY = 16 };
static const int64_t END_NS = 5 * 1000000000ll; /* for ending a communicator, which takes no time */

static void log_line(const mst_nccl *nccl, muster_log_level level, const char *line) {
    const mst_pool_options *settings = mst_pool_settings(nccl->world->pool);
    settings->log(settings->log_user, level, line);
}

static void log_failure(const mst_nccl *nccl, muster_log_level level, const char *what) {
    char message[MST_MESSAGE_SIZE], line[MST_MESSAGE_SIZE + 200];
    mst_error_save(message);
    snprintf(line, sizeof line, "muster: %s: %s", what, message);
    log_line(nccl, level, line);
}

/* ---- ending one worker's ---- */

static void abort_all(mst_nccl_worker *nccl_worker) {
    for (mst_nccl_handle *handle = nccl_worker->handles; handle; handle = handle->next) {
        mst_nccl_comm comm = handle->comm;
        handle->comm = NULL;
        if (comm) (void)nccl_worker->nccl->api->ncclCommAbort(comm);
    }
    atomic_store(&nccl_worker->nccl->broken, true);
}

/* Aborts the run and this worker's communicators because of the thread's last error. */
static muster_status lose(mst_nccl_worker *nccl_worker, muster_status status) {
    char message[MST_MESSAGE_SIZE];
    if (nccl_worker->function) mst_collective_error(nccl_worker->function, status);
    mst_error_save(message);
    mst_pool_abort(nccl_worker->worker, status);
    abort_all(nccl_worker);
    return mst_error_restore(status, message);
}

/* ---- waiting ---- */

static void back_off(int64_t waited_ns) {
    if (waited_ns < SPIN_NS)
        mst_pause();
    else if (waited_ns < YIELD_NS)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
}

/* Waits until the communicator is no longer in progress, and returns its result. Returns
 * IN_PROGRESS after the deadline, or, if `worker` is given, when its run is aborted. */
static mst_nccl_result wait_while_in_progress(const mst_nccl_api *api, mst_nccl_comm comm, mst_nccl_result result,
                                              const muster_worker *worker, int64_t limit_ns) {
    const int64_t begin = mst_now_ns();
    while (result == MST_NCCL_IN_PROGRESS) {
        mst_nccl_result asked = api->ncclCommGetAsyncError(comm, &result);
        if (asked != MST_NCCL_SUCCESS) return asked;
        if (result != MST_NCCL_IN_PROGRESS || (worker && mst_pool_aborted(worker))) break;
        const int64_t waited_ns = mst_now_ns() - begin;
        if (limit_ns >= 0 && waited_ns >= limit_ns) break;
        back_off(waited_ns);
    }
    return result;
}

static muster_status synchronize(mst_nccl_worker *nccl_worker, mst_nccl_handle *handle, mst_nccl_result result, const char *symbol,
                                 int64_t limit_ns) {
    result = wait_while_in_progress(nccl_worker->nccl->api, handle->comm, result, nccl_worker->worker, limit_ns);
    if (__builtin_expect(result == MST_NCCL_SUCCESS, 1)) return MUSTER_OK;
    if (result != MST_NCCL_IN_PROGRESS)
        return lose(nccl_worker, mst_nccl_error(nccl_worker->nccl->api, result, symbol, nccl_worker->worker->device));
    if (!mst_pool_aborted(nccl_worker->worker))
        return lose(nccl_worker, mst_error(MUSTER_TIMEOUT, "NCCL: %s: rank %d has been in progress for %.3g s", symbol,
                                           nccl_worker->worker->rank, (double)limit_ns * 1e-9));
    abort_all(nccl_worker);
    return mst_error(MUSTER_ABORTED, "NCCL: %s: rank %d gave it up because the call was aborted", symbol, nccl_worker->worker->rank);
}

muster_status mst_nccl_synchronize(mst_nccl_worker *nccl_worker, mst_nccl_handle *handle, mst_nccl_result result, const char *symbol) {
    return synchronize(nccl_worker, handle, result, symbol, mst_pool_settings(nccl_worker->worker->pool)->fail_after_ns);
}

/* The device calls this while it waits, on the worker's thread. */
static muster_status watch(void *user) {
    mst_nccl_worker *nccl_worker = user;
    const muster_worker *worker = nccl_worker->worker;
    if (nccl_worker->used != 0 && nccl_worker->used == worker->epoch && mst_current_worker() == worker) {
        if (mst_pool_aborted(worker)) {
            abort_all(nccl_worker);
            nccl_worker->used = 0;
        } else if (++nccl_worker->polls % POLL_EVERY == 0) {
            for (mst_nccl_handle *handle = nccl_worker->handles; handle && nccl_worker->used; handle = handle->next) {
                mst_nccl_result result = MST_NCCL_SUCCESS;
                if (!handle->comm) continue;
                mst_nccl_result asked = nccl_worker->nccl->api->ncclCommGetAsyncError(handle->comm, &result);
                muster_status status = mst_nccl_error(nccl_worker->nccl->api, asked != MST_NCCL_SUCCESS ? asked : result,
                                                      "ncclCommGetAsyncError", worker->device);
                if (status == MUSTER_OK) continue;
                lose(nccl_worker, status);
                nccl_worker->used = 0;
            }
        }
    }
    return nccl_worker->before ? nccl_worker->before(nccl_worker->before_user) : MUSTER_OK;
}

static void begin_watching(mst_nccl *nccl) {
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
static void end_watching(mst_nccl *nccl) {
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
    nccl->watching = false;
}

/* ---- making ---- */

static muster_status make_handle(mst_nccl_worker *nccl_worker, const mst_nccl_id *id, int32_t size, int32_t rank, mst_nccl_handle *handle) {
    const int none = MST_NCCL_UNDEFINED;
    mst_nccl_config config = {sizeof config, MST_NCCL_MAGIC, MST_NCCL_CONFIG_VERSION, 0, none, none, none, NULL, none};
    mst_nccl_result result = nccl_worker->nccl->api->ncclCommInitRankConfig(&handle->comm, size, *id, rank, &config);
    if (handle->comm) return synchronize(nccl_worker, handle, result, "ncclCommInitRankConfig", nccl_worker->nccl->world->nccl_create_ns);
    muster_status status = mst_nccl_error(nccl_worker->nccl->api, result, "ncclCommInitRankConfig", nccl_worker->worker->device);
    if (status == MUSTER_OK) status = mst_error(MUSTER_INTERNAL, "NCCL: ncclCommInitRankConfig: expected a communicator, received none");
    return lose(nccl_worker, status);
}

static mst_nccl_handle *add_handle(mst_nccl_worker *nccl_worker, bool part) {
    mst_nccl_handle *handle = mst_alloc(sizeof *handle);
    if (!handle) return NULL;
    *handle = (mst_nccl_handle){.part = part, .next = nccl_worker->handles};
    return nccl_worker->handles = handle;
}

/* Creates an NCCL communicator for this worker. Runs on all workers at the same time: first for the
 * world, then for its parts, in the same order everywhere. */
static muster_status make_for(mst_nccl_worker *nccl_worker, muster_communicator *communicator) {
    const int32_t rank = mst_communicator_rank(communicator, nccl_worker->worker);
    mst_nccl_state *state = mst_nccl_state_of(communicator);
    /* a part that some member has released is used no more */
    if (rank < 0 || !state || atomic_load(&communicator->users) < communicator->size) return MUSTER_OK;
    mst_nccl_handle **handle = &state->handles[rank];
    if (!*handle) *handle = add_handle(nccl_worker, communicator != nccl_worker->nccl->world);
    if (!*handle) return mst_out_of_memory("NCCL communicator", sizeof **handle);
    return make_handle(nccl_worker, &state->id, communicator->size, rank, *handle);
}

static muster_status make_task(muster_worker *worker, void *argument) {
    mst_nccl *nccl = argument;
    mst_nccl_worker *nccl_worker = &nccl->workers[worker->rank];
    nccl_worker->function = NULL; /* the reason why NCCL does not serve begins with NCCL */
    MUSTER_TRY(make_for(nccl_worker, nccl->world));
    for (muster_communicator *part = nccl->world->parts; part; part = part->next) MUSTER_TRY(make_for(nccl_worker, part));
    return MUSTER_OK;
}

static muster_status abort_task(muster_worker *worker, void *argument) {
    mst_nccl *nccl = argument;
    abort_all(&nccl->workers[worker->rank]);
    return MUSTER_OK;
}

static bool any_left(const mst_nccl *nccl) {
    for (int32_t r = 0; nccl->workers && r < nccl->size; r++)
        for (const mst_nccl_handle *handle = nccl->workers[r].handles; handle; handle = handle->next)
            if (handle->comm) return true;
    return false;
}

/* Runs a task that ends communicators, again if necessary until none is left. If a worker's device
 * could not be entered, the worker has not run the task and still has its communicators. No
 * communicator is ended twice. */
static bool end_everywhere(mst_nccl *nccl, mst_task task) {
    for (int32_t i = 0; i < ATTEMPTS && any_left(nccl); i++) (void)mst_pool_run(nccl->world->pool, task, nccl);
    return !any_left(nccl);
}

static void drop_handles(mst_nccl_worker *nccl_worker, bool only_released) {
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

/* Ends the released communicators. Each rank can abort its own without the others, because nothing
 * is in flight. */
static muster_status release_task(muster_worker *worker, void *argument) {
    mst_nccl *nccl = argument;
    mst_nccl_worker *nccl_worker = &nccl->workers[worker->rank];
    for (mst_nccl_handle *handle = nccl_worker->handles; handle; handle = handle->next) {
        if (!handle->released || !handle->comm) continue;
        (void)nccl->api->ncclCommAbort(handle->comm);
        handle->comm = NULL;
    }
    drop_handles(nccl_worker, true);
    return MUSTER_OK;
}

static muster_status new_id(const mst_nccl *nccl, muster_communicator *communicator) {
    mst_nccl_state *state = mst_nccl_state_of(communicator);
    return state ? mst_nccl_error(nccl->api, nccl->api->ncclGetUniqueId(&state->id), "ncclGetUniqueId", NULL) : MUSTER_OK;
}

static muster_status new_ids(mst_nccl *nccl) {
    MUSTER_TRY(new_id(nccl, nccl->world));
    for (muster_communicator *part = nccl->world->parts; part; part = part->next) MUSTER_TRY(new_id(nccl, part));
    return MUSTER_OK;
}

static muster_status make_all(mst_nccl *nccl) {
    MUSTER_TRY(new_ids(nccl));
    atomic_store(&nccl->broken, false);
    muster_status status = mst_pool_run(nccl->world->pool, make_task, nccl);
    if (status == MUSTER_OK) return status;
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    atomic_store(&nccl->broken, true);
    (void)end_everywhere(nccl, abort_task);
    return mst_error_restore(status, message);
}

/* A rank whose device could not be entered still has its released communicators. If the device is
 * lost, they remain until the runtime closes. */
static void end_released(mst_nccl *nccl) {
    if (atomic_exchange(&nccl->released, 0) == 0) return;
    const muster_status status = mst_pool_run(nccl->world->pool, release_task, nccl);
    if (status == MUSTER_OK || status == MUSTER_DEVICE_LOST) return;
    log_failure(nccl, MUSTER_LOG_WARNING, "NCCL's communicators of released parts could not be ended; the next call tries again");
    atomic_fetch_add(&nccl->released, 1);
}

static void make_anew(mst_nccl *nccl) {
    if (!atomic_load(&nccl->broken) || nccl->failures >= MOST_FAILURES) return;
    const muster_status status = end_everywhere(nccl, abort_task) ? make_all(nccl) : MUSTER_SYSTEM;
    nccl->failures = status == MUSTER_OK ? 0 : nccl->failures + 1;
    if (status == MUSTER_OK) return;
    if (nccl->failures < MOST_FAILURES)
        log_failure(nccl, MUSTER_LOG_WARNING,
                    "NCCL's communicators could not be made anew after an aborted call; the next call tries again");
    else
        log_failure(nccl, MUSTER_LOG_ERROR, "NCCL's communicators could not be made anew, and are not tried any more");
}

void mst_nccl_recover(muster_communicator *world) {
    mst_nccl *nccl = mst_nccl_of(world);
    if (__builtin_expect(atomic_load_explicit(&nccl->released, memory_order_relaxed) > 0, 0)) end_released(nccl);
    if (__builtin_expect(atomic_load_explicit(&nccl->broken, memory_order_relaxed), 0)) make_anew(nccl);
}

bool mst_nccl_ready(const muster_communicator *communicator) {
    return communicator->state[MST_TRANSPORT_nccl] && !atomic_load_explicit(&mst_nccl_of(communicator)->broken, memory_order_relaxed);
}

/* ---- opening and closing ---- */

/* Why NCCL cannot serve these devices; NULL if it can. */
static const char *why_unfit(const muster_communicator *world) {
    if (!mst_devices_move_tensors(world->pool)) return "they are not all GPUs";
    for (int32_t i = 0; i < world->size; i++) {
        const mst_device *device = mst_pool_worker(world->pool, i)->device;
        if (strcmp(device->table->backend, "cuda") != 0 || device->physical == 0) return "NCCL is for CUDA devices";
        for (int32_t j = 0; j < i; j++)
            if (mst_pool_worker(world->pool, j)->device->physical == device->physical)
                return "NCCL takes each GPU once, and there are several devices on one";
    }
    return world->size == 1 ? "one rank needs no NCCL" : NULL;
}

static muster_status make_state(const char *where, muster_communicator *communicator) {
    const size_t bytes = sizeof(mst_nccl_state) + (size_t)communicator->size * sizeof(mst_nccl_handle *);
    communicator->state[MST_TRANSPORT_nccl] = mst_alloc(bytes);
    return communicator->state[MST_TRANSPORT_nccl] ? MUSTER_OK : mst_out_of_memory(where, (int64_t)bytes);
}

static muster_status make_workers(mst_nccl *nccl) {
    nccl->workers = mst_alloc((size_t)nccl->size * sizeof *nccl->workers);
    if (!nccl->workers) return mst_out_of_memory("muster_runtime_open: NCCL", nccl->size * (int64_t)sizeof *nccl->workers);
    for (int32_t r = 0; r < nccl->size; r++)
        nccl->workers[r] = (mst_nccl_worker){.nccl = nccl, .worker = mst_pool_worker(nccl->world->pool, r)};
    MUSTER_TRY(make_state("muster_runtime_open: NCCL", nccl->world));
    int version = 0;
    MUSTER_TRY(mst_nccl_error(nccl->api, nccl->api->ncclGetVersion(&version), "ncclGetVersion", NULL));
    snprintf(nccl->version, sizeof nccl->version, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    return MUSTER_OK;
}

static muster_status make_first(mst_nccl *nccl) {
    MUSTER_TRY(make_workers(nccl));
    MUSTER_TRY(mst_pool_enter(nccl->world->pool, "muster_runtime_open", 0));
    muster_status status = make_all(nccl);
    mst_pool_leave(nccl->world->pool);
    if (status == MUSTER_OK) begin_watching(nccl);
    return status;
}

static void end(mst_nccl *nccl) {
    end_watching(nccl);
    for (int32_t r = 0; nccl->workers && r < nccl->size; r++) {
        drop_handles(&nccl->workers[r], false);
        mst_device_staging_free(nccl->workers[r].worker->device, &nccl->workers[r].staging);
    }
    mst_free(nccl->workers);
    mst_nccl_destroy(nccl->world);
    nccl->world->open[MST_TRANSPORT_nccl] = NULL;
    mst_free(nccl);
}

muster_status mst_nccl_open(muster_communicator *world) {
    const mst_nccl_api *api;
    char message[MST_MESSAGE_SIZE];
    const char *reason = why_unfit(world);
    if (reason) return mst_transport_refuse(world, &mst_transport_nccl, reason);
    if (mst_nccl_api_get(&api) != MUSTER_OK) {
        mst_error_save(message);
        return mst_transport_refuse(world, &mst_transport_nccl, message);
    }
    mst_nccl *nccl = mst_alloc(sizeof *nccl);
    if (!nccl) return mst_out_of_memory("muster_runtime_open: NCCL", sizeof *nccl);
    *nccl = (mst_nccl){.api = api, .world = world, .size = world->size};
    world->open[MST_TRANSPORT_nccl] = nccl;
    muster_status status = make_first(nccl);
    if (status == MUSTER_OK) return status;
    mst_error_save(message);
    const muster_status kept = mst_transport_refuse(world, &mst_transport_nccl, message);
    log_failure(nccl, MUSTER_LOG_WARNING, "NCCL's communicators could not be made; collectives go other ways");
    if (any_left(nccl))
        log_line(nccl, MUSTER_LOG_WARNING, "muster: NCCL's communicators of a GPU that cannot be entered are kept until the process ends");
    end(nccl);
    return status == MUSTER_OUT_OF_MEMORY ? mst_error_restore(status, message) : kept;
}

/* All ranks of the world finalize at the same time. Some members of a part may have released it, so
 * each rank aborts its communicator of the part. */
static void end_handle(mst_nccl_worker *nccl_worker, mst_nccl_handle *handle) {
    const mst_nccl_api *api = nccl_worker->nccl->api;
    mst_nccl_comm comm = handle->comm;
    handle->comm = NULL;
    if (!comm) return;
    bool finalizes = !handle->part && !atomic_load(&nccl_worker->nccl->broken);
    if (finalizes) finalizes = wait_while_in_progress(api, comm, api->ncclCommFinalize(comm), NULL, END_NS) == MST_NCCL_SUCCESS;
    if (finalizes)
        (void)api->ncclCommDestroy(comm);
    else
        (void)api->ncclCommAbort(comm);
}

static muster_status end_task(muster_worker *worker, void *argument) {
    mst_nccl *nccl = argument;
    mst_nccl_worker *nccl_worker = &nccl->workers[worker->rank];
    for (mst_nccl_handle *handle = nccl_worker->handles; handle; handle = handle->next) end_handle(nccl_worker, handle);
    return MUSTER_OK;
}

void mst_nccl_close(muster_communicator *world) {
    mst_nccl *nccl = world->open[MST_TRANSPORT_nccl];
    if (!nccl) return;
    const muster_status status = mst_pool_enter(world->pool, "muster_runtime_close", 0);
    bool ended = false;
    if (status == MUSTER_OK) {
        ended = end_everywhere(nccl, end_task);
        mst_pool_leave(world->pool);
    }
    if (!ended) {
        log_failure(nccl, MUSTER_LOG_WARNING, "NCCL's communicators are kept until the process ends");
        /* After an aborted collective the kernels of the other ranks may wait for ever for the rank
         * whose communicator was not ended. */
        if (atomic_load(&nccl->broken)) mst_cuda_leave_running();
    }
    end(nccl);
}

/* ---- communicators ---- */

/* Only logs it, because the split has not failed; the thread's last error does not change. */
static void log_refused_part(const mst_nccl *nccl, mst_nccl_result result) {
    char line[300];
    const char *text = nccl->api->ncclGetErrorString(result);
    snprintf(line, sizeof line, "muster: NCCL: ncclGetUniqueId for a part: received %.120s (%u); its collectives go other ways",
             text ? text : "an unknown result", result);
    log_line(nccl, MUSTER_LOG_WARNING, line);
}

/* The world's state is created when NCCL is opened. A part of the world gets an id of its own; if
 * NCCL provides none, the part does without NCCL. */
muster_status mst_nccl_create(const char *where, muster_communicator *communicator, const muster_communicator *parent) {
    mst_nccl *nccl = mst_nccl_of(communicator);
    if (!nccl || !parent || parent != communicator->world || communicator->size == 1) return MUSTER_OK;
    if (!mst_nccl_ready(parent) || atomic_load(&nccl->no_parts)) return MUSTER_OK;
    MUSTER_TRY(make_state(where, communicator));
    const mst_nccl_result result = nccl->api->ncclGetUniqueId(&mst_nccl_state_of(communicator)->id);
    if (result == MST_NCCL_SUCCESS) return MUSTER_OK;
    mst_nccl_destroy(communicator);
    log_refused_part(nccl, result);
    return MUSTER_OK;
}

void mst_nccl_destroy(muster_communicator *communicator) {
    mst_free(communicator->state[MST_TRANSPORT_nccl]);
    communicator->state[MST_TRANSPORT_nccl] = NULL;
}

static bool nccl_wanted(const muster_communicator *world) { return mst_nccl_ready(world); }

static bool nccl_invite(const muster_communicator *part, const muster_worker *worker, mst_invitation *invitation) {
    (void)worker;
    _Static_assert(sizeof(mst_nccl_id) <= sizeof invitation->bytes, "an id travels in an invitation");
    memcpy(invitation->bytes, &mst_nccl_state_of(part)->id, sizeof(mst_nccl_id));
    return true;
}

/* The communicator is ended between runs. */
static void nccl_abandon(muster_communicator *world, muster_worker *worker, void *joined) {
    mst_nccl_handle *handle = joined;
    (void)worker;
    handle->released = true;
    atomic_fetch_add(&mst_nccl_of(world)->released, 1);
}

static muster_status nccl_join(muster_communicator *world, muster_worker *worker, const mst_invitation *invitation, void **joined) {
    mst_nccl_worker *nccl_worker = mst_nccl_worker_of(world, worker);
    mst_nccl_handle *made = add_handle(nccl_worker, true);
    mst_nccl_id id;
    if (!made) {
        mst_out_of_memory("muster_worker_split: NCCL", sizeof *made);
        return lose(nccl_worker, MUSTER_OUT_OF_MEMORY);
    }
    memcpy(&id, invitation->bytes, sizeof id);
    nccl_worker->function = "muster_worker_split";
    muster_status status = make_handle(nccl_worker, &id, invitation->size, invitation->rank, made);
    if (status == MUSTER_OK)
        *joined = made;
    else if (status != MUSTER_ABORTED && status != MUSTER_OUT_OF_MEMORY)
        atomic_store(&nccl_worker->nccl->no_parts, true); /* the next split does not use NCCL */
    if (status != MUSTER_OK) nccl_abandon(world, worker, made);
    return status;
}

static void nccl_keep(muster_communicator *part, muster_worker *worker, void *joined) {
    mst_nccl_state_of(part)->handles[mst_communicator_rank(part, worker)] = joined;
}

const mst_join_table mst_nccl_join = {
    .wanted = nccl_wanted, .invite = nccl_invite, .join = nccl_join, .keep = nccl_keep, .abandon = nccl_abandon};

void mst_nccl_release(muster_communicator *part, muster_worker *worker) {
    mst_nccl_handle *handle = mst_nccl_state_of(part)->handles[mst_communicator_rank(part, worker)];
    if (handle) nccl_abandon(part->world, worker, handle);
}
