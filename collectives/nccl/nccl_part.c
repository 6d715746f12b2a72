/* The state of Muster's communicators, and the NCCL communicators of parts of the world. */
#include "nccl_private.h"

#include <stdio.h>
#include <string.h>

bool mst_nccl_ready(const muster_communicator *communicator) {
    return communicator->state[MST_TRANSPORT_nccl] && !atomic_load_explicit(&mst_nccl_of(communicator)->broken, memory_order_relaxed);
}

muster_status mst_nccl_make_state(const char *where, muster_communicator *communicator) {
    const size_t bytes = sizeof(mst_nccl_state) + (size_t)communicator->size * sizeof(mst_nccl_handle *);
    communicator->state[MST_TRANSPORT_nccl] = mst_alloc(bytes);
    return communicator->state[MST_TRANSPORT_nccl] ? MUSTER_OK : mst_out_of_memory(where, (int64_t)bytes);
}

/* Only logs it, because the split has not failed; the thread's last error does not change. */
static void log_refused_part(const mst_nccl *nccl, mst_nccl_result result) {
    char line[300];
    const char *text = nccl->api->ncclGetErrorString(result);
    snprintf(line, sizeof line, "muster: NCCL: ncclGetUniqueId for a part: received %.120s (%u); its collectives go other ways",
             text ? text : "an unknown result", result);
    mst_nccl_log(nccl, MUSTER_LOG_WARNING, line);
}

/* The world's state is created when NCCL is opened. A part of the world gets an id of its own; if
 * NCCL provides none, the part does without NCCL.
 *
 * ncclCommSplit with splitShare would take less memory, but the parts would share the abort flag of
 * the world (ncclCommInitChildComm in NCCL's init.cc), so the end of a released part could only be
 * ncclCommDestroy, and no part could be given up without the world. */
muster_status mst_nccl_create(const char *where, muster_communicator *communicator, const muster_communicator *parent) {
    mst_nccl *nccl = mst_nccl_of(communicator);
    if (!nccl || !parent || parent != communicator->world || communicator->size == 1) return MUSTER_OK;
    if (!mst_nccl_ready(parent) || atomic_load(&nccl->no_parts)) return MUSTER_OK;
    MUSTER_TRY(mst_nccl_make_state(where, communicator));
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

/* After a failure of NCCL the next split does not use it. */
static muster_status part_made(mst_nccl_worker *nccl_worker, muster_status status) {
    const bool own_memory = status == MUSTER_OUT_OF_MEMORY && !atomic_load(&nccl_worker->nccl->blamed);
    if (status != MUSTER_OK && status != MUSTER_ABORTED && !own_memory) atomic_store(&nccl_worker->nccl->no_parts, true);
    return status;
}

static muster_status nccl_join(muster_communicator *world, muster_worker *worker, const mst_invitation *invitation, void **joined) {
    mst_nccl_worker *nccl_worker = mst_nccl_worker_of(world, worker);
    mst_nccl_handle *made = mst_nccl_add_handle(nccl_worker, true);
    mst_nccl_id id;
    if (!made) {
        mst_out_of_memory("muster_worker_split: NCCL", sizeof *made);
        return mst_nccl_lose(nccl_worker, MUSTER_OUT_OF_MEMORY);
    }
    memcpy(&id, invitation->bytes, sizeof id);
    nccl_worker->function = "muster_worker_split";
    muster_status status = part_made(nccl_worker, mst_nccl_make_handle(nccl_worker, &id, invitation->size, invitation->rank, made));
    if (status == MUSTER_OK)
        *joined = made;
    else
        nccl_abandon(world, worker, made);
    return status;
}

static muster_status nccl_prove(muster_communicator *world, muster_worker *worker, void *joined) {
    mst_nccl_worker *nccl_worker = mst_nccl_worker_of(world, worker);
    return part_made(nccl_worker, mst_nccl_trial(nccl_worker, joined));
}

static void nccl_keep(muster_communicator *part, muster_worker *worker, void *joined) {
    mst_nccl_state_of(part)->handles[mst_communicator_rank(part, worker)] = joined;
}

const mst_join_table mst_nccl_join = {
    .wanted = nccl_wanted, .invite = nccl_invite, .join = nccl_join, .prove = nccl_prove, .keep = nccl_keep, .abandon = nccl_abandon};

void mst_nccl_release(muster_communicator *part, muster_worker *worker) {
    mst_nccl_handle *handle = mst_nccl_state_of(part)->handles[mst_communicator_rank(part, worker)];
    if (handle) nccl_abandon(part->world, worker, handle);
}
