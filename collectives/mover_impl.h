/* What moves the data of a round whose ranks are all on devices with memory of their own, without a
 * copy in host memory. The round has met, and its requests agree; each rank issues its part on the
 * COMPUTE queue of its own device and waits for nothing: what others have issued before the round
 * comes before it, and what they issue after the round comes behind it. */
#ifndef MST_PEER_IMPL_H
#define MST_PEER_IMPL_H

#include "host/host_impl.h"
#include "host/view_impl.h"
#include "p2p/p2p_parameters_impl.h"

/* The events of one worker's device. There are two of the first and of the second kind, used in turn
 * like the lines of the team: a rank records one again only after everybody has issued the waits of
 * the round before. */
enum { MST_PEER_ARRIVED, MST_PEER_ENDED = 2, MST_PEER_POSTED = 4, MST_PEER_RECEIVED, MST_PEER_EVENTS };

/* Memory of one worker's device for copies; grows, and is kept. Shared by all communicators of the
 * worker: whatever uses it is done, in the order of its queue and of the events it waits for, before
 * the next collective of the worker begins. */
typedef struct mst_device_aside {
    _Alignas(MST_CACHE_LINE) char *memory;
    int64_t capacity, used;
    pthread_mutex_t recording; /* see mst_peer_event_record */
    mst_device_event *events[MST_PEER_EVENTS];
} mst_device_aside;

/* What the communicators of one pool share: of the world, borrowed by its parts. */
struct mst_movers {
    mst_pool *pool;
    int32_t size;             /* workers */
    bool fixed_order;         /* no sums in an order that NCCL chooses */
    mst_device_aside *asides; /* [size], each of its worker only */
    /* [size * size]: does the code of worker i's device use the memory of worker j's? */
    bool *reaches;
    struct mst_nccl *nccl;         /* NULL: not on these devices, or not on this machine */
    char reason[MST_MESSAGE_SIZE]; /* why there is no NCCL */
};

/* mover.c. open: for the communicator of all workers, between runs; *movers stays NULL where the
 * devices have no such memory. Errors: what was asked for by name
 * is not there. close: also of NULL. */
muster_status mst_movers_open(mst_host_communicator *world, bool fixed_order);
void mst_movers_close(mst_host_communicator *world);
/* A part, or rank 0 alone, gets what its world has; NCCL apart. */
void mst_movers_share(mst_host_communicator *part, const mst_host_communicator *world);

/* The items of a round as all ranks see them. */
typedef struct mst_items {
    mst_host_communicator *self;
    muster_worker *worker;
    int32_t rank, count;
    uint64_t tag;
} mst_items;
mst_view mst_items_view(const mst_items *items, int32_t item); /* round.c; until the next one is asked for */

/* mover.c: does this item go by NCCL? */
bool mst_mover_is_nccl(const mst_items *items, const mst_view *view);

/* record: the end of COMPUTE of this worker's device. wait: COMPUTE goes on after what member `rank`
 * has recorded last. A member may record an event again, in a round of another communicator or for
 * the next message, before a slow peer has issued its wait. That wait then waits for somewhat more
 * than it needs, but never for anything that was issued after it, so that there is no cycle. A lock
 * keeps the two apart. */
muster_status mst_peer_event_record(const mst_host_communicator *self, muster_worker *worker, int32_t event);
muster_status mst_peer_event_wait(const mst_host_communicator *self, muster_worker *worker, int32_t rank, int32_t event);

/* Before the arrival: room on the device, a copy of an input that its own rank overwrites, and the
 * event that others wait for. offered: [count], as the others will see them. */
muster_status mst_movers_offer(const mst_items *items, mst_request *offered);
/* After it, inside a section. *staged: some item is served by neither, the same answer on every
 * rank, and nothing has been done; *recorded: the second events are to be waited for. */
muster_status mst_movers_serve(const mst_items *items, bool *staged, bool *recorded);
/* After everybody has left: what this rank issues from now on comes after what others do for it. */
muster_status mst_movers_end(const mst_items *items);

/* Room for `bytes`, of which `take` gives parts, aligned; what was taken before is given back. */
muster_status mst_device_aside_begin(muster_worker *worker, mst_device_aside *aside, int64_t bytes);
int64_t mst_device_aside_bytes(int64_t bytes);
void *mst_device_aside_take(mst_device_aside *aside, int64_t bytes);

/* Peers that reach each other's memory: p2p/p2p.c. serves: can it do this at all? */
bool mst_p2p_serves(const mst_view *view);
muster_status mst_p2p_serve(muster_worker *worker, const mst_view *view);
/* The kernel's parameters but for count and addresses; inputs: of all ranks together. */
mst_p2p_reduce_parameters mst_p2p_parameters(const mst_view *view);
int64_t mst_p2p_inputs(const mst_view *view);
/* With count, inputs, outputs, and of updates the parameter (which is where this rank's own lies)
 * at element `begin`. */
muster_status mst_p2p_launch(muster_worker *worker, const mst_view *view, mst_p2p_reduce_parameters *p, int64_t begin);

#endif
