/* The transport by NCCL. NCCL's communicators are one per GPU of ours, each made, used and ended by
 * the thread of its device only. */
#ifndef MST_NCCL_PRIVATE_H
#define MST_NCCL_PRIVATE_H

#include "core/device_staging_private.h"
#include "nccl_api_impl.h"

/* One rank of one NCCL communicator. It lives in the list of its worker, which alone touches it
 * during a run; a communicator of ours only points to it. */
typedef struct mst_nccl_handle {
    mst_nccl_comm comm; /* NULL: aborted */
    bool released, part;
    struct mst_nccl_handle *next;
} mst_nccl_handle;

/* Per-worker state. */
typedef struct mst_nccl_worker {
    _Alignas(MST_CACHE_LINE) struct mst_nccl *nccl;
    muster_worker *worker;
    mst_nccl_handle *handles;
    uint64_t used; /* the newest epoch in which it has issued; 0: none */
    uint32_t polls;
    muster_status (*before)(void *user); /* what the device's interrupt was */
    void *before_user;
    mst_device_staging staging;
} mst_nccl_worker;

/* What the communicators of a world share. */
typedef struct mst_nccl {
    const mst_nccl_api *api;
    muster_communicator *world;
    int32_t size;
    mst_nccl_worker *workers; /* [size] */
    bool watching;            /* the devices' waits ask it */
    _Atomic bool broken;      /* some rank has aborted: all are made anew before the next run */
    _Atomic int32_t released; /* handles that wait for their end */
    _Atomic bool no_parts;    /* NCCL has refused some part */
    int32_t failures;         /* of making them anew, in a row */
    char version[24];
} mst_nccl;

/* State of a communicator of ours. */
typedef struct mst_nccl_state {
    mst_nccl_id id;             /* by which its NCCL communicators find each other */
    mst_nccl_handle *handles[]; /* [size], NULL: none yet */
} mst_nccl_state;

static inline mst_nccl_state *mst_nccl_state_of(const muster_communicator *communicator) { return communicator->state[MST_TRANSPORT_nccl]; }
static inline mst_nccl *mst_nccl_of(const muster_communicator *communicator) { return communicator->world->open[MST_TRANSPORT_nccl]; }
static inline mst_nccl_worker *mst_nccl_worker_of(const muster_communicator *communicator, const muster_worker *worker) {
    return &mst_nccl_of(communicator)->workers[worker->rank];
}

/* nccl_api.c. error: MUSTER_OK also while in progress. */
muster_status mst_nccl_api_get(const mst_nccl_api **api);
muster_status mst_nccl_error(const mst_nccl_api *api, mst_nccl_result result, const char *symbol, const mst_device *device);

/* nccl_comm.c: the life of NCCL's communicators. open: world->open stays NULL, with the reason,
 * where there cannot be any; fails only where memory does. recover: between runs, new
 * communicators for old; what fails is logged. */
muster_status mst_nccl_open(muster_communicator *world);
void mst_nccl_close(muster_communicator *world);
void mst_nccl_recover(muster_communicator *world);
muster_status mst_nccl_create(const char *where, muster_communicator *communicator, const muster_communicator *parent);
void mst_nccl_destroy(muster_communicator *communicator);
void mst_nccl_release(muster_communicator *part, muster_worker *worker);
/* Can this communicator's collectives go by NCCL in this run? The same on every rank of a run that
 * is not aborted. */
bool mst_nccl_ready(const muster_communicator *communicator);
/* After a call: waits until it is no longer in progress, as long as the run is not aborted. After a
 * failure the run is aborted, and this worker's communicators are. */
muster_status mst_nccl_synchronize(mst_nccl_worker *worker, mst_nccl_handle *handle, mst_nccl_result result, const char *symbol);
extern const mst_join_table mst_nccl_join;

/* nccl_run.c. native: does NCCL combine these values in the way that is promised, or is nothing
 * combined? */
bool mst_nccl_native(const mst_view *view, bool fixed_order);
muster_status mst_nccl_prepare(mst_batch *batch);
muster_status mst_nccl_run(const mst_batch *batch);

#endif
