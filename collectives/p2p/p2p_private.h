/* The transport between devices that read and write each other's memory by address. */
#ifndef MST_P2P_PRIVATE_H
#define MST_P2P_PRIVATE_H

#include "core/device_staging_private.h"
#include "p2p_parameters_impl.h"

/* The events of one worker's device. There are two ARRIVED and two ENDED events, which alternate as
 * the flag lines do: a rank records an event again only after all ranks have issued their waits of
 * the previous rendezvous. */
enum { MST_P2P_ARRIVED, MST_P2P_ENDED = 2, MST_P2P_POSTED = 4, MST_P2P_RECEIVED, MST_P2P_EVENTS };

typedef struct mst_p2p_worker {
    _Alignas(MST_CACHE_LINE) mst_device_staging staging;
    pthread_mutex_t recording; /* see mst_p2p_record */
    mst_device_event *events[MST_P2P_EVENTS];
} mst_p2p_worker;

/* The state that all communicators of a world share. A communicator whose members are all peers has
 * it as its own state, too. */
typedef struct mst_p2p {
    int32_t size;
    mst_p2p_worker *workers; /* [size] each used by its own worker only */
    /* [size * size] entry i * size + j: can kernels on worker i's device access the memory of
     * worker j's? */
    bool *access;
} mst_p2p;

static inline mst_p2p *mst_p2p_of(const muster_communicator *communicator) { return communicator->state[MST_TRANSPORT_p2p]; }

/* p2p_run.c. mst_p2p_record records the event at the current end of the queue that this worker's
 * device works in (work_queue). mst_p2p_wait makes that queue wait for the event that member `rank`
 * has recorded last.
 *
 * A member may record an event again, in a rendezvous of another communicator or for the next
 * message, before a slow peer has issued its wait. That wait then covers more work than it needs,
 * but never work that was issued after it, so no cycle arises. A lock serializes recording and
 * waiting. */
muster_status mst_p2p_record(const muster_communicator *communicator, muster_worker *worker, int32_t event);
muster_status mst_p2p_wait(const muster_communicator *communicator, muster_worker *worker, int32_t rank, int32_t event);
muster_status mst_p2p_prepare(mst_batch *batch);
muster_status mst_p2p_run(const mst_batch *batch);
muster_status mst_p2p_finish(const mst_batch *batch);

/* p2p_reduce.c */
muster_status mst_p2p_serve(muster_worker *worker, const mst_view *view);

/* p2p_apply.c. The staging memory that a rank needs for its sums; 0 if it keeps them elsewhere, or
 * if the batch is no all_reduce_apply, which always is a batch by itself. */
int64_t mst_p2p_apply_bytes(const muster_communicator *communicator, int32_t rank, const mst_request *request);
muster_status mst_p2p_apply_reserve(muster_communicator *communicator, muster_worker *worker, const mst_request *request);
muster_status mst_p2p_apply(muster_worker *worker, const mst_view *view, char *staging);

/* p2p_messages.c */
extern const mst_message_table mst_p2p_messages;

#endif
