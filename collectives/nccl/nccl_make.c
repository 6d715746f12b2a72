/* Makes NCCL's communicators, and makes them anew after an aborted run: those of the world and of
 * all parts, on all workers at the same time. A communicator counts as made when its trial has
 * ended. */
#include "nccl_private.h"

enum { MOST_FAILURES = 3 };

mst_nccl_handle *mst_nccl_add_handle(mst_nccl_worker *nccl_worker, bool part) {
    mst_nccl_handle *handle = mst_alloc(sizeof *handle);
    if (!handle) return NULL;
    *handle = (mst_nccl_handle){.part = part, .next = nccl_worker->handles};
    return nccl_worker->handles = handle;
}

muster_status mst_nccl_make_handle(mst_nccl_worker *nccl_worker, const mst_nccl_id *id, int32_t size, int32_t rank,
                                   mst_nccl_handle *handle) {
    const int none = MST_NCCL_UNDEFINED;
    const int64_t limit_ns = nccl_worker->nccl->world->nccl_create_ns;
    mst_nccl_config config = {sizeof config, MST_NCCL_MAGIC, MST_NCCL_CONFIG_VERSION, 0, none, none, none, NULL, none};
    mst_nccl_result result = nccl_worker->nccl->api->ncclCommInitRankConfig(&handle->comm, size, *id, rank, &config);
    handle->size = size;
    handle->rank = rank;
    if (handle->comm) return mst_nccl_synchronize(nccl_worker, handle, result, "ncclCommInitRankConfig", limit_ns);
    muster_status status = mst_nccl_check(nccl_worker, result, "ncclCommInitRankConfig");
    if (status == MUSTER_OK) status = mst_error(MUSTER_INTERNAL, "NCCL: ncclCommInitRankConfig: expected a communicator, received none");
    return mst_nccl_lose(nccl_worker, status);
}

/* ---- on all workers ---- */

/* The worker's place for its handle in the communicator; NULL: there is none, or the communicator
 * is used no more, because some member has released it. */
static mst_nccl_handle **place_of(const mst_nccl_worker *nccl_worker, const muster_communicator *communicator) {
    const int32_t rank = mst_communicator_rank(communicator, nccl_worker->worker);
    mst_nccl_state *state = mst_nccl_state_of(communicator);
    return rank < 0 || !state || atomic_load(&communicator->users) < communicator->size ? NULL : &state->handles[rank];
}

static muster_status make_for(mst_nccl_worker *nccl_worker, muster_communicator *communicator) {
    const int32_t rank = mst_communicator_rank(communicator, nccl_worker->worker);
    mst_nccl_handle **handle = place_of(nccl_worker, communicator);
    if (!handle) return MUSTER_OK;
    if (!*handle) *handle = mst_nccl_add_handle(nccl_worker, communicator != nccl_worker->nccl->world);
    if (!*handle) return mst_out_of_memory("NCCL communicator", sizeof **handle);
    return mst_nccl_make_handle(nccl_worker, &mst_nccl_state_of(communicator)->id, communicator->size, rank, *handle);
}

static muster_status try_for(mst_nccl_worker *nccl_worker, muster_communicator *communicator) {
    mst_nccl_handle **handle = place_of(nccl_worker, communicator);
    return handle ? mst_nccl_trial(nccl_worker, *handle) : MUSTER_OK;
}

/* First for the world, then for its parts, in the same order on all workers. */
static muster_status for_each(muster_worker *worker, mst_nccl *nccl, muster_status (*step)(mst_nccl_worker *, muster_communicator *)) {
    mst_nccl_worker *nccl_worker = &nccl->workers[worker->rank];
    nccl_worker->function = NULL; /* the reason why NCCL does not serve begins with NCCL */
    MUSTER_TRY(step(nccl_worker, nccl->world));
    for (muster_communicator *part = nccl->world->parts; part; part = part->next) MUSTER_TRY(step(nccl_worker, part));
    return MUSTER_OK;
}

static muster_status make_task(muster_worker *worker, void *nccl) { return for_each(worker, nccl, make_for); }
static muster_status trial_task(muster_worker *worker, void *nccl) { return for_each(worker, nccl, try_for); }

static muster_status new_id(const mst_nccl *nccl, muster_communicator *communicator) {
    mst_nccl_state *state = mst_nccl_state_of(communicator);
    return state ? mst_nccl_error(nccl->api, nccl->api->ncclGetUniqueId(&state->id), "ncclGetUniqueId", NULL) : MUSTER_OK;
}

static muster_status new_ids(mst_nccl *nccl) {
    MUSTER_TRY(new_id(nccl, nccl->world));
    for (muster_communicator *part = nccl->world->parts; part; part = part->next) MUSTER_TRY(new_id(nccl, part));
    return MUSTER_OK;
}

static muster_status run_all(mst_nccl *nccl, mst_task task) {
    mst_pool *pool = nccl->world->pool;
    if (mst_pool_settings(pool)->fail_after_ns < 0) mst_pool_set_deadlines(pool, 0, nccl->world->nccl_create_ns);
    return mst_pool_run(pool, task, nccl);
}

muster_status mst_nccl_make_all(mst_nccl *nccl) {
    MUSTER_TRY(new_ids(nccl));
    atomic_store(&nccl->broken, false);
    muster_status status = run_all(nccl, make_task);
    if (status == MUSTER_OK) status = run_all(nccl, trial_task);
    for (int32_t r = 0; r < nccl->size; r++) nccl->workers[r].used = 0; /* no call has been served yet */
    if (status == MUSTER_OK) return status;
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    atomic_store(&nccl->broken, true);
    (void)mst_nccl_end_everywhere(nccl, mst_nccl_abort_task);
    return mst_error_restore(status, message);
}

/* ---- making them anew ---- */

/* Ends the released communicators. Nothing is in flight, so each rank aborts its own without the
 * others. */
static muster_status release_task(muster_worker *worker, void *argument) {
    mst_nccl *nccl = argument;
    mst_nccl_worker *nccl_worker = &nccl->workers[worker->rank];
    mst_nccl_end_begin(nccl_worker, MST_NCCL_RELEASED);
    mst_nccl_drop_handles(nccl_worker, true);
    return MUSTER_OK;
}

/* A rank whose device could not be entered still has its released communicators. If the device is
 * lost, they remain until the runtime closes. */
static void end_released(mst_nccl *nccl) {
    if (atomic_exchange(&nccl->released, 0) == 0) return;
    const muster_status status = mst_pool_run(nccl->world->pool, release_task, nccl);
    (void)mst_nccl_end_wait(nccl);
    if (status == MUSTER_OK || status == MUSTER_DEVICE_LOST) return;
    mst_nccl_log_failure(nccl, MUSTER_LOG_WARNING, "NCCL's communicators of released parts could not be ended; the next call tries again");
    atomic_fetch_add(&nccl->released, 1);
}

static void log_refused(const mst_nccl *nccl) {
    if (nccl->failures < MOST_FAILURES)
        mst_nccl_log_failure(nccl, MUSTER_LOG_WARNING,
                             "NCCL's communicators could not be made anew after an aborted call; the next call tries again");
    else
        mst_nccl_log_failure(nccl, MUSTER_LOG_ERROR,
                             "NCCL's communicators could not be made anew, and are not tried any more (" MST_NCCL_HINT ")");
}

/* What the aborted call has left ends first. A call that NCCL itself has failed counts as a
 * failure. */
static void make_anew(mst_nccl *nccl) {
    if (nccl->failures >= MOST_FAILURES) return;
    const bool ended = mst_nccl_end_everywhere(nccl, mst_nccl_abort_task);
    nccl->failures = ended ? nccl->failures + atomic_exchange(&nccl->blamed, false) : MOST_FAILURES;
    if (nccl->failures >= MOST_FAILURES) {
        mst_nccl_log(nccl, MUSTER_LOG_ERROR,
                     ended
                         ? "muster: NCCL has failed in several calls, one after the other, and is not tried any more; collectives go other "
                           "ways (" MST_NCCL_HINT ")"
                         : "muster: NCCL is not tried any more; collectives go other ways");
        return;
    }
    if (mst_nccl_make_all(nccl) == MUSTER_OK) return;
    nccl->failures++;
    atomic_store(&nccl->blamed, false);
    log_refused(nccl);
}

void mst_nccl_recover(muster_communicator *world) {
    mst_nccl *nccl = mst_nccl_of(world);
    if (__builtin_expect(atomic_load_explicit(&nccl->released, memory_order_relaxed) > 0, 0)) end_released(nccl);
    if (__builtin_expect(atomic_load_explicit(&nccl->broken, memory_order_relaxed), 0))
        make_anew(nccl);
    else if (__builtin_expect(nccl->failures > 0, 0) && nccl->workers[0].used != 0)
        nccl->failures = 0; /* NCCL has served a call */
}
