/* Opens and closes the transport. */
#include "nccl_private.h"

#include "cuda/cuda_impl.h"

#include <stdio.h>
#include <string.h>

static const int64_t FINALIZE_NS = 5 * 1000000000ll; /* which takes no time when nothing is in flight */

void mst_nccl_log(const mst_nccl *nccl, muster_log_level level, const char *line) {
    const mst_pool_options *settings = mst_pool_settings(nccl->world->pool);
    settings->log(settings->log_user, level, line);
}

void mst_nccl_log_failure(const mst_nccl *nccl, muster_log_level level, const char *what) {
    char message[MST_MESSAGE_SIZE], line[MST_MESSAGE_SIZE + 300];
    mst_error_save(message);
    snprintf(line, sizeof line, "muster: %s: %s", what, message);
    mst_nccl_log(nccl, level, line);
}

/* ---- opening ---- */

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

static muster_status make_workers(mst_nccl *nccl) {
    nccl->workers = mst_alloc((size_t)nccl->size * sizeof *nccl->workers);
    if (!nccl->workers) return mst_out_of_memory("muster_runtime_open: NCCL", nccl->size * (int64_t)sizeof *nccl->workers);
    for (int32_t r = 0; r < nccl->size; r++)
        nccl->workers[r] = (mst_nccl_worker){.nccl = nccl, .worker = mst_pool_worker(nccl->world->pool, r)};
    MUSTER_TRY(mst_nccl_make_state("muster_runtime_open: NCCL", nccl->world));
    int version = 0;
    MUSTER_TRY(mst_nccl_error(nccl->api, nccl->api->ncclGetVersion(&version), "ncclGetVersion", NULL));
    snprintf(nccl->version, sizeof nccl->version, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    return MUSTER_OK;
}

/* The devices' waits poll NCCL from the trial on. */
static muster_status make_entered(mst_nccl *nccl) {
    MUSTER_TRY(mst_nccl_trial_open(nccl));
    mst_nccl_watch_begin(nccl);
    return mst_nccl_make_all(nccl);
}

static muster_status make_first(mst_nccl *nccl) {
    MUSTER_TRY(make_workers(nccl));
    MUSTER_TRY(mst_pool_enter(nccl->world->pool, "muster_runtime_open", 0));
    const muster_status status = make_entered(nccl);
    mst_pool_leave(nccl->world->pool);
    return status;
}

static void end(mst_nccl *nccl) {
    mst_nccl_watch_end(nccl);
    if (nccl->workers) mst_nccl_trial_close(nccl);
    for (int32_t r = 0; nccl->workers && r < nccl->size; r++) {
        mst_nccl_drop_handles(&nccl->workers[r], false);
        mst_device_staging_free(nccl->workers[r].worker->device, &nccl->workers[r].staging);
    }
    mst_free(nccl->workers);
    mst_nccl_destroy(nccl->world);
    nccl->world->open[MST_TRANSPORT_nccl] = NULL;
    mst_free(nccl);
}

/* Only a lack of memory that is Muster's own fails the opening. */
static muster_status give_up(mst_nccl *nccl, muster_status status) {
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    const bool own_memory = status == MUSTER_OUT_OF_MEMORY && !atomic_load(&nccl->blamed);
    const muster_status kept = mst_transport_refuse(nccl->world, &mst_transport_nccl, message);
    mst_nccl_log_failure(nccl, MUSTER_LOG_WARNING, "NCCL's communicators could not be made; collectives go other ways (" MST_NCCL_HINT ")");
    end(nccl);
    return own_memory ? mst_error_restore(status, message) : kept;
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
    const muster_status status = make_first(nccl);
    if (status != MUSTER_OK) return give_up(nccl, status);
    for (int32_t r = 0; r < nccl->size; r++) mst_cuda_keep_headroom(nccl->workers[r].worker->device);
    return MUSTER_OK;
}

/* ---- closing ---- */

/* All ranks of the world finalize at the same time. Some members of a part may have released it, so
 * each rank aborts its communicator of the part. */
static void finalize(const mst_nccl *nccl, mst_nccl_handle *handle) {
    if (!handle->comm || handle->part || atomic_load(&nccl->broken)) return;
    const mst_nccl_result result = nccl->api->ncclCommFinalize(handle->comm);
    handle->finalized = mst_nccl_wait(nccl->api, handle->comm, result, NULL, FINALIZE_NS) == MST_NCCL_SUCCESS;
}

static muster_status end_task(muster_worker *worker, void *argument) {
    mst_nccl *nccl = argument;
    mst_nccl_worker *nccl_worker = &nccl->workers[worker->rank];
    for (mst_nccl_handle *handle = nccl_worker->handles; handle; handle = handle->next) finalize(nccl, handle);
    mst_nccl_end_begin(nccl_worker, MST_NCCL_ALL);
    return MUSTER_OK;
}

void mst_nccl_close(muster_communicator *world) {
    mst_nccl *nccl = world->open[MST_TRANSPORT_nccl];
    if (!nccl) return;
    const muster_status status = mst_pool_enter_to_end(world->pool, "muster_runtime_close");
    if (status == MUSTER_OK) {
        (void)mst_nccl_end_everywhere(nccl, end_task);
        mst_pool_leave(world->pool);
    } else {
        (void)mst_nccl_end_wait(nccl);
    }
    if (mst_nccl_any_left(nccl)) {
        mst_nccl_log_failure(nccl, MUSTER_LOG_WARNING, "NCCL's communicators are kept until the process ends");
        /* After an aborted collective the kernels of the other ranks may wait for ever for the rank
         * whose communicator was not ended. */
        if (atomic_load(&nccl->broken)) mst_cuda_leave_running();
    }
    end(nccl);
}
