/* NCCL communicators: one per GPU of ours, each made, used and ended by the thread of its device
 * only. */
#ifndef MST_NCCL_IMPL_H
#define MST_NCCL_IMPL_H

#include "../mover_impl.h"
#include "nccl_api_impl.h"

/* One rank of one NCCL communicator. It lives in the list of its worker, which alone touches it
 * during a run; a communicator of ours only points to it. */
typedef struct mst_nccl_link {
    mst_nccl_comm comm; /* NULL: aborted */
    bool released, part;
    struct mst_nccl_link *next;
} mst_nccl_link;

/* Of one worker. */
typedef struct mst_nccl_seat {
    _Alignas(MST_CACHE_LINE) struct mst_nccl *nccl;
    muster_worker *worker;
    mst_nccl_link *links;
    uint64_t used; /* the newest epoch in which it has issued; 0: none */
    uint32_t looks;
    muster_status (*before)(void *user); /* what the device's interrupt was */
    void *before_user;
} mst_nccl_seat;

/* Of a world. */
typedef struct mst_nccl {
    const mst_nccl_api *api;
    mst_host_communicator *world;
    int32_t size;
    mst_nccl_seat *seats;     /* [size] */
    bool watching;            /* the devices' waits ask it */
    _Atomic bool broken;      /* some rank has aborted: all are made anew before the next run */
    _Atomic int32_t released; /* links that wait for their end */
    _Atomic bool no_parts;    /* NCCL has refused some part */
    int32_t failures;         /* of making them anew, in a row */
    char version[24];
} mst_nccl;

/* Of a communicator of ours: how its NCCL communicators find each other. */
struct mst_nccl_unique_id {
    mst_nccl_id id;
};

/* nccl_api.c. check: MUSTER_OK also while in progress. */
muster_status mst_nccl_api_get(const mst_nccl_api **api);
muster_status mst_nccl_error(const mst_nccl_api *api, mst_nccl_result result, const char *symbol, const mst_device *device);

/* nccl.c. open: *movers->nccl stays NULL, with the reason in movers, where there cannot be one;
 * fails only where memory does. */
muster_status mst_nccl_open(mst_host_communicator *world, mst_movers *movers);
void mst_nccl_close(mst_movers *movers);
/* Can this communicator's collectives go by NCCL in this run? The same on every rank of a run that
 * is not lost. */
bool mst_nccl_ready(const mst_host_communicator *self);
/* Between runs, where `broken`: new communicators for old. What fails is logged, and the others'
 * ways are taken. */
void mst_nccl_mend(mst_nccl *nccl);
static inline bool mst_nccl_wants_mending(const mst_nccl *nccl) {
    return nccl &&
           (atomic_load_explicit(&nccl->broken, memory_order_relaxed) || atomic_load_explicit(&nccl->released, memory_order_relaxed) > 0);
}
/* Of a part that is being split from the world, whose devices are all idle. team: by its leader;
 * stays NULL if NCCL refuses. join: by each member at the same time; a failure loses the run.
 * forget: it is not to be used any more. */
muster_status mst_nccl_unique_id_make(mst_movers *movers, struct mst_nccl_unique_id **unique_id);
muster_status mst_nccl_join(muster_worker *worker, mst_movers *movers, const struct mst_nccl_unique_id *unique_id, int32_t size,
                            int32_t rank, mst_nccl_link **link);
void mst_nccl_forget(muster_worker *worker, mst_movers *movers, mst_nccl_link *link);
/* After a call: waits until it is no longer in progress, as long as the run is not lost. After a
 * failure the run is aborted and this worker's communicators are aborted. */
muster_status mst_nccl_settle(mst_nccl_seat *seat, mst_nccl_link *link, mst_nccl_result result, const char *symbol);
static inline mst_nccl_seat *mst_nccl_seat_of(const mst_movers *movers, const muster_worker *worker) {
    return &movers->nccl->seats[worker->rank];
}

/* nccl_serve.c. native: does NCCL combine these values in the way that is promised, or is nothing
 * combined? room: bytes of device memory that this rank needs if not, as far as it knows before the
 * others have come. serve: the items that go by NCCL. */
bool mst_nccl_native(const mst_view *view, bool fixed_order);
int64_t mst_nccl_room(const mst_host_communicator *self, int32_t rank, const mst_request *request);
muster_status mst_nccl_serve(const mst_items *items, mst_device_aside *aside);

#endif
