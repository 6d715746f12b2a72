/* The transport `nccl`. Each worker has an NCCL communicator of its own for its GPU; only the
 * worker's thread creates, uses and ends it. */
#ifndef MST_NCCL_PRIVATE_H
#define MST_NCCL_PRIVATE_H

#include "core/device_staging_private.h"
#include "nccl_api_private.h"

/* One rank of an NCCL communicator. It is an element of its worker's list, and only that worker
 * accesses it during a run. Muster's communicators only point to it. */
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
    uint64_t used; /* the latest epoch in which the worker has issued NCCL calls; 0: none */
    uint32_t polls;
    muster_status (*before)(void *user); /* the interrupt function that the device had before */
    void *before_user;
    mst_device_staging staging;
    const char *function; /* the public function that calls NCCL, for messages; NULL: none yet */
} mst_nccl_worker;

/* The state that all communicators of a world share. */
typedef struct mst_nccl {
    const mst_nccl_api *api;
    muster_communicator *world;
    int32_t size;
    mst_nccl_worker *workers; /* [size] */
    bool watching;            /* the devices' waits poll NCCL for errors */
    _Atomic bool broken;      /* some rank has aborted its communicators: all are created anew before the next run */
    _Atomic int32_t released; /* released handles that still have to be ended */
    _Atomic bool no_parts;    /* NCCL could not create a communicator for some part */
    int32_t failures;         /* successive failures to create them anew */
    char version[24];
} mst_nccl;

/* The state of one Muster communicator. */
typedef struct mst_nccl_state {
    mst_nccl_id id;             /* by which its ranks find each other in NCCL */
    mst_nccl_handle *handles[]; /* [size] NULL: none yet */
} mst_nccl_state;

static inline mst_nccl_state *mst_nccl_state_of(const muster_communicator *communicator) { return communicator->state[MST_TRANSPORT_nccl]; }
static inline mst_nccl *mst_nccl_of(const muster_communicator *communicator) { return communicator->world->open[MST_TRANSPORT_nccl]; }
static inline mst_nccl_worker *mst_nccl_worker_of(const muster_communicator *communicator, const muster_worker *worker) {
    return &mst_nccl_of(communicator)->workers[worker->rank];
}

/* nccl_api.c. mst_nccl_error returns MUSTER_OK also for a call that is in progress. */
muster_status mst_nccl_api_get(const mst_nccl_api **api);
muster_status mst_nccl_error(const mst_nccl_api *api, mst_nccl_result result, const char *symbol, const mst_device *device);

/* nccl_comm.c: creates and ends NCCL's communicators. If there cannot be any, mst_nccl_open leaves
 * world->open[] NULL and sets the reason; it fails only if memory is exhausted. mst_nccl_recover
 * creates new communicators between runs and logs a failure. */
muster_status mst_nccl_open(muster_communicator *world);
void mst_nccl_close(muster_communicator *world);
void mst_nccl_recover(muster_communicator *world);
muster_status mst_nccl_create(const char *where, muster_communicator *communicator, const muster_communicator *parent);
void mst_nccl_destroy(muster_communicator *communicator);
void mst_nccl_release(muster_communicator *part, muster_worker *worker);
/* Can this communicator use NCCL in this run? All ranks get the same answer unless the run is
 * aborted. */
bool mst_nccl_ready(const muster_communicator *communicator);
/* Follows each NCCL call: waits until the call is no longer in progress or the run is aborted. A
 * failure aborts the run and this worker's NCCL communicators. */
muster_status mst_nccl_synchronize(mst_nccl_worker *worker, mst_nccl_handle *handle, mst_nccl_result result, const char *symbol);
extern const mst_join_table mst_nccl_join;

/* nccl_run.c. mst_nccl_native: does NCCL combine these values as the interface promises, or does
 * the collective combine none? */
bool mst_nccl_native(const mst_view *view, bool fixed_order);
muster_status mst_nccl_prepare(mst_batch *batch);
muster_status mst_nccl_run(const mst_batch *batch);

#endif
