/* The life of NCCL communicators. They do not block, so that a call in progress can be left:
 * whoever waits looks at the run and at the clock.
 *
 * When a run is aborted, each worker that has issued in it aborts its own communicators, from its
 * own thread, at the latest when it waits for its device. Before the next run all of them are made
 * anew, on all workers at the same time. */
#include "clock_impl.h"
#include "cuda/cuda_impl.h"
#include "nccl_impl.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MOST_FAILURES = 3, ATTEMPTS = 3, SPIN_NS = 20 * 1000, YIELD_NS = 500 * 1000, SLEEP_NS = 50 * 1000, LOOK_EVERY = 16 };
/* Making communicators has taken a minute on machines of 8 GPUs; ending one takes none. */
static const int64_t MAKE_NS = 300 * 1000000000ll, END_NS = 5 * 1000000000ll;

static void say(const mst_nccl *nccl, const char *line) {
    const mst_pool_options *settings = mst_pool_settings(nccl->world->pool);
    settings->log(settings->log_user, line);
}

static void say_failure(const mst_nccl *nccl, const char *what) {
    char message[MST_MESSAGE_SIZE], line[MST_MESSAGE_SIZE + 200];
    mst_error_save(message);
    snprintf(line, sizeof line, "muster: %s: %s", what, message);
    say(nccl, line);
}

/* ---- ending one worker's ---- */

static void abort_all(mst_nccl_seat *seat) {
    for (mst_nccl_link *link = seat->links; link; link = link->next) {
        mst_nccl_comm comm = link->comm;
        link->comm = NULL;
        if (comm) (void)seat->nccl->api->ncclCommAbort(comm);
    }
    atomic_store(&seat->nccl->broken, true);
}

/* The thread's last error is why. */
static muster_status lose(mst_nccl_seat *seat, muster_status status) {
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    mst_pool_abort(seat->worker, status);
    abort_all(seat);
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

/* Until the communicator is no longer in progress: SUCCESS, or what it is; IN_PROGRESS: the
 * deadline, or, where `worker` is given, the loss of its run. */
static mst_nccl_result wait_settled(const mst_nccl_api *api, mst_nccl_comm comm, mst_nccl_result result, const muster_worker *worker,
                                    int64_t limit_ns) {
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

static muster_status settle(mst_nccl_seat *seat, mst_nccl_link *link, mst_nccl_result result, const char *symbol, int64_t limit_ns) {
    result = wait_settled(seat->nccl->api, link->comm, result, seat->worker, limit_ns);
    if (__builtin_expect(result == MST_NCCL_SUCCESS, 1)) return MUSTER_OK;
    if (result != MST_NCCL_IN_PROGRESS) return lose(seat, mst_nccl_error(seat->nccl->api, result, symbol, seat->worker->device));
    if (!mst_pool_aborted(seat->worker))
        return lose(seat, mst_error(MUSTER_TIMEOUT, "NCCL: %s: rank %d has been in progress for %.3g s", symbol, seat->worker->rank,
                                    (double)limit_ns * 1e-9));
    abort_all(seat);
    return mst_error(MUSTER_ABORTED, "NCCL: %s: rank %d gave it up because the call was lost", symbol, seat->worker->rank);
}

muster_status mst_nccl_settle(mst_nccl_seat *seat, mst_nccl_link *link, mst_nccl_result result, const char *symbol) {
    return settle(seat, link, result, symbol, mst_pool_settings(seat->worker->pool)->fail_after_ns);
}

/* What the device asks while it waits, on the worker's thread. */
static muster_status watch(void *user) {
    mst_nccl_seat *seat = user;
    const muster_worker *worker = seat->worker;
    if (seat->used != 0 && seat->used == worker->epoch && mst_current_worker() == worker) {
        if (mst_pool_aborted(worker)) {
            abort_all(seat);
            seat->used = 0;
        } else if (++seat->looks % LOOK_EVERY == 0) {
            for (mst_nccl_link *link = seat->links; link && seat->used; link = link->next) {
                mst_nccl_result result = MST_NCCL_SUCCESS;
                if (!link->comm) continue;
                mst_nccl_result asked = seat->nccl->api->ncclCommGetAsyncError(link->comm, &result);
                muster_status status =
                    mst_nccl_error(seat->nccl->api, asked != MST_NCCL_SUCCESS ? asked : result, "ncclCommGetAsyncError", worker->device);
                if (status == MUSTER_OK) continue;
                lose(seat, status);
                seat->used = 0;
            }
        }
    }
    return seat->before ? seat->before(seat->before_user) : MUSTER_OK;
}

static void begin_watching(mst_nccl *nccl) {
    for (int32_t r = 0; r < nccl->size; r++) {
        mst_nccl_seat *seat = &nccl->seats[r];
        mst_device *device = seat->worker->device;
        seat->before = device->interrupt;
        seat->before_user = device->interrupt_user;
        device->interrupt = watch;
        device->interrupt_user = seat;
    }
    nccl->watching = true;
}

/* Others of these may have come between. */
static void end_watching(mst_nccl *nccl) {
    for (int32_t r = 0; nccl->watching && r < nccl->size; r++) {
        mst_nccl_seat *seat = &nccl->seats[r];
        mst_device *device = seat->worker->device;
        muster_status (**interrupt)(void *) = &device->interrupt;
        void **user = &device->interrupt_user;
        while (*interrupt == watch && *user != seat) {
            mst_nccl_seat *above = *user;
            interrupt = &above->before;
            user = &above->before_user;
        }
        if (*user != seat) continue;
        *interrupt = seat->before;
        *user = seat->before_user;
    }
    nccl->watching = false;
}

/* ---- making ---- */

static muster_status make_link(mst_nccl_seat *seat, const mst_nccl_id *id, int32_t size, int32_t rank, mst_nccl_link *link) {
    const int none = MST_NCCL_UNDEFINED;
    mst_nccl_config config = {sizeof config, MST_NCCL_MAGIC, MST_NCCL_CONFIG_VERSION, 0, none, none, none, NULL, none};
    mst_nccl_result result = seat->nccl->api->ncclCommInitRankConfig(&link->comm, size, *id, rank, &config);
    if (link->comm) return settle(seat, link, result, "ncclCommInitRankConfig", MAKE_NS);
    muster_status status = mst_nccl_error(seat->nccl->api, result, "ncclCommInitRankConfig", seat->worker->device);
    if (status == MUSTER_OK) status = mst_error(MUSTER_INTERNAL, "NCCL: ncclCommInitRankConfig: expected a communicator, received none");
    return lose(seat, status);
}

static mst_nccl_link *add_link(mst_nccl_seat *seat, bool part) {
    mst_nccl_link *link = mst_alloc(sizeof *link);
    if (!link) return NULL;
    *link = (mst_nccl_link){.part = part, .next = seat->links};
    return seat->links = link;
}

/* Runs on every worker at the same time: the world's, then those of its parts, in one order. */
static muster_status make_for(mst_nccl_seat *seat, mst_host_communicator *self) {
    int32_t rank = mst_communicator_rank(&self->base, seat->worker);
    /* a part that a member has released is over */
    if (rank < 0 || !self->unique_id || atomic_load(&self->users) < self->base.size) return MUSTER_OK;
    mst_nccl_link **link = &self->members[rank].link;
    if (!*link) *link = add_link(seat, self != seat->nccl->world);
    if (!*link) return mst_out_of_memory("NCCL communicator", sizeof **link);
    return make_link(seat, &self->unique_id->id, self->base.size, rank, *link);
}

static muster_status make_task(muster_worker *worker, void *argument) {
    mst_nccl *nccl = argument;
    mst_nccl_seat *seat = &nccl->seats[worker->rank];
    MUSTER_TRY(make_for(seat, nccl->world));
    for (mst_host_communicator *part = nccl->world->parts; part; part = part->next) MUSTER_TRY(make_for(seat, part));
    return MUSTER_OK;
}

static muster_status abort_task(muster_worker *worker, void *argument) {
    mst_nccl *nccl = argument;
    abort_all(&nccl->seats[worker->rank]);
    return MUSTER_OK;
}

static bool any_left(const mst_nccl *nccl) {
    for (int32_t r = 0; nccl->seats && r < nccl->size; r++)
        for (const mst_nccl_link *link = nccl->seats[r].links; link; link = link->next)
            if (link->comm) return true;
    return false;
}

/* Runs a task that ends communicators until none is left. A worker whose device could not be
 * entered has not run the task, and its communicators would be lost with it: so it is run again. A
 * communicator that has ended does not end twice. */
static bool end_everywhere(mst_nccl *nccl, mst_task task) {
    for (int32_t i = 0; i < ATTEMPTS && any_left(nccl); i++) (void)mst_pool_run(nccl->world->pool, task, nccl);
    return !any_left(nccl);
}

static void drop_links(mst_nccl_seat *seat, bool only_released) {
    mst_nccl_link **at = &seat->links;
    while (*at) {
        mst_nccl_link *link = *at;
        if (only_released && !link->released) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        mst_free(link);
    }
}

/* Those that were released: an abort is one rank's own affair, and nothing is in flight. */
static muster_status release_task(muster_worker *worker, void *argument) {
    mst_nccl *nccl = argument;
    mst_nccl_seat *seat = &nccl->seats[worker->rank];
    for (mst_nccl_link *link = seat->links; link; link = link->next) {
        if (!link->released || !link->comm) continue;
        (void)nccl->api->ncclCommAbort(link->comm);
        link->comm = NULL;
    }
    drop_links(seat, true);
    return MUSTER_OK;
}

static muster_status new_ids(mst_nccl *nccl) {
    MUSTER_TRY(mst_nccl_error(nccl->api, nccl->api->ncclGetUniqueId(&nccl->world->unique_id->id), "ncclGetUniqueId", NULL));
    for (mst_host_communicator *part = nccl->world->parts; part; part = part->next)
        if (part->unique_id)
            MUSTER_TRY(mst_nccl_error(nccl->api, nccl->api->ncclGetUniqueId(&part->unique_id->id), "ncclGetUniqueId", NULL));
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

/* A rank whose device could not be entered still has what it was to end. Of a lost device that is
 * left to the end of the runtime. */
static void end_released(mst_nccl *nccl) {
    if (atomic_exchange(&nccl->released, 0) == 0) return;
    const muster_status status = mst_pool_run(nccl->world->pool, release_task, nccl);
    if (status == MUSTER_OK || status == MUSTER_DEVICE_LOST) return;
    say_failure(nccl, "NCCL's communicators of released parts could not be ended; the next call tries again");
    atomic_fetch_add(&nccl->released, 1);
}

void mst_nccl_mend(mst_nccl *nccl) {
    end_released(nccl);
    if (!atomic_load(&nccl->broken) || nccl->failures >= MOST_FAILURES) return;
    const muster_status status = end_everywhere(nccl, abort_task) ? make_all(nccl) : MUSTER_SYSTEM;
    nccl->failures = status == MUSTER_OK ? 0 : nccl->failures + 1;
    if (status == MUSTER_OK) return;
    say_failure(nccl, nccl->failures < MOST_FAILURES
                          ? "NCCL's communicators could not be made anew after a lost call; the next call tries again"
                          : "NCCL's communicators could not be made anew, and are not tried any more");
}

bool mst_nccl_ready(const mst_host_communicator *self) {
    return self->unique_id && !atomic_load_explicit(&self->movers->nccl->broken, memory_order_relaxed);
}

/* ---- opening and closing ---- */

static const char *unfit(const mst_movers *movers) {
    for (int32_t i = 0; i < movers->size; i++) {
        const mst_device *device = mst_pool_worker(movers->pool, i)->device;
        if (strcmp(device->table->backend, "cuda") != 0 || device->physical == 0) return "NCCL is for CUDA devices";
        for (int32_t j = 0; j < i; j++)
            if (mst_pool_worker(movers->pool, j)->device->physical == device->physical)
                return "NCCL takes each GPU once, and there are several devices on one";
    }
    return NULL;
}

static muster_status build(mst_nccl *nccl) {
    nccl->seats = mst_alloc((size_t)nccl->size * sizeof *nccl->seats);
    if (!nccl->seats) return mst_out_of_memory("muster_runtime_open: NCCL", nccl->size * (int64_t)sizeof *nccl->seats);
    for (int32_t r = 0; r < nccl->size; r++)
        nccl->seats[r] = (mst_nccl_seat){.nccl = nccl, .worker = mst_pool_worker(nccl->world->pool, r)};
    nccl->world->unique_id = mst_alloc(sizeof *nccl->world->unique_id);
    if (!nccl->world->unique_id) return mst_out_of_memory("muster_runtime_open: NCCL", sizeof *nccl->world->unique_id);
    int version = 0;
    MUSTER_TRY(mst_nccl_error(nccl->api, nccl->api->ncclGetVersion(&version), "ncclGetVersion", NULL));
    snprintf(nccl->version, sizeof nccl->version, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    return MUSTER_OK;
}

static muster_status make_first(mst_nccl *nccl) {
    MUSTER_TRY(build(nccl));
    MUSTER_TRY(mst_pool_enter(nccl->world->pool, "muster_runtime_open", 0));
    muster_status status = make_all(nccl);
    mst_pool_leave(nccl->world->pool);
    if (status == MUSTER_OK) begin_watching(nccl);
    return status;
}

static void end(mst_nccl *nccl) {
    end_watching(nccl);
    for (int32_t r = 0; nccl->seats && r < nccl->size; r++) drop_links(&nccl->seats[r], false);
    mst_free(nccl->seats);
    mst_free(nccl->world->unique_id);
    nccl->world->unique_id = NULL;
    for (int32_t r = 0; r < nccl->size; r++) nccl->world->members[r].link = NULL;
    mst_free(nccl);
}

muster_status mst_nccl_open(mst_host_communicator *world, mst_movers *movers) {
    const mst_nccl_api *api;
    const char *reason = unfit(movers);
    if (reason || world->base.size == 1) {
        snprintf(movers->reason, sizeof movers->reason, "%s", reason ? reason : "one rank needs no NCCL");
        return MUSTER_OK;
    }
    if (mst_nccl_api_get(&api) != MUSTER_OK) {
        mst_error_save(movers->reason);
        return MUSTER_OK;
    }
    mst_nccl *nccl = mst_alloc(sizeof *nccl);
    if (!nccl) return mst_out_of_memory("muster_runtime_open: NCCL", sizeof *nccl);
    *nccl = (mst_nccl){.api = api, .world = world, .size = world->base.size};
    movers->nccl = nccl;
    muster_status status = make_first(nccl);
    if (status == MUSTER_OK) return status;
    mst_error_save(movers->reason);
    say_failure(nccl, "NCCL's communicators could not be made; collectives go other ways");
    if (any_left(nccl)) say(nccl, "muster: NCCL's communicators of a GPU that cannot be entered are kept until the process ends");
    end(nccl);
    movers->nccl = NULL;
    return status == MUSTER_OUT_OF_MEMORY ? mst_error_restore(status, movers->reason) : MUSTER_OK;
}

/* All ranks finalize at the same time; a part may have lost some of its members, so that each of
 * its ranks goes by itself. */
static void end_link(mst_nccl_seat *seat, mst_nccl_link *link) {
    const mst_nccl_api *api = seat->nccl->api;
    mst_nccl_comm comm = link->comm;
    link->comm = NULL;
    if (!comm) return;
    bool whole = !link->part && !atomic_load(&seat->nccl->broken);
    if (whole) whole = wait_settled(api, comm, api->ncclCommFinalize(comm), NULL, END_NS) == MST_NCCL_SUCCESS;
    if (whole)
        (void)api->ncclCommDestroy(comm);
    else
        (void)api->ncclCommAbort(comm);
}

static muster_status end_task(muster_worker *worker, void *argument) {
    mst_nccl *nccl = argument;
    mst_nccl_seat *seat = &nccl->seats[worker->rank];
    for (mst_nccl_link *link = seat->links; link; link = link->next) end_link(seat, link);
    return MUSTER_OK;
}

void mst_nccl_close(mst_movers *movers) {
    mst_nccl *nccl = movers->nccl;
    if (!nccl) return;
    const muster_status status = mst_pool_enter(movers->pool, "muster_runtime_close", 0);
    bool ended = false;
    if (status == MUSTER_OK) {
        ended = end_everywhere(nccl, end_task);
        mst_pool_leave(movers->pool);
    }
    if (!ended) {
        say_failure(nccl, "NCCL's communicators are kept until the process ends");
        /* Of a collective that was broken off, the others' kernels may wait for ever for the rank
         * that was not ended. */
        if (atomic_load(&nccl->broken)) mst_cuda_leave_running();
    }
    end(nccl);
    movers->nccl = NULL;
}

/* ---- parts ---- */

muster_status mst_nccl_unique_id_make(mst_movers *movers, struct mst_nccl_unique_id **unique_id) {
    *unique_id = NULL;
    if (!movers->nccl || atomic_load(&movers->nccl->no_parts)) return MUSTER_OK;
    struct mst_nccl_unique_id *made = mst_alloc(sizeof *made);
    if (!made) return mst_out_of_memory("muster_worker_split: NCCL", sizeof *made);
    if (movers->nccl->api->ncclGetUniqueId(&made->id) == MST_NCCL_SUCCESS)
        *unique_id = made;
    else
        mst_free(made);
    return MUSTER_OK;
}

muster_status mst_nccl_join(muster_worker *worker, mst_movers *movers, const struct mst_nccl_unique_id *unique_id, int32_t size,
                            int32_t rank, mst_nccl_link **link) {
    mst_nccl_seat *seat = mst_nccl_seat_of(movers, worker);
    mst_nccl_link *made = add_link(seat, true);
    if (!made) {
        mst_out_of_memory("muster_worker_split: NCCL", sizeof *made);
        return lose(seat, MUSTER_OUT_OF_MEMORY);
    }
    muster_status status = make_link(seat, &unique_id->id, size, rank, made);
    if (status == MUSTER_OK)
        *link = made;
    else if (status != MUSTER_ABORTED && status != MUSTER_OUT_OF_MEMORY)
        atomic_store(&movers->nccl->no_parts, true); /* the next split does without */
    if (status != MUSTER_OK) made->released = true;
    return status;
}

void mst_nccl_forget(muster_worker *worker, mst_movers *movers, mst_nccl_link *link) {
    (void)worker;
    if (!link) return;
    link->released = true;
    atomic_fetch_add(&movers->nccl->released, 1);
}
