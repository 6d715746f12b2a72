/* A request: a send or receive from its beginning at the shards until its owner has learnt its
 * outcome. */
#ifndef MST_REQUEST_PRIVATE_H
#define MST_REQUEST_PRIVATE_H

#include "runtime_impl.h"
#include "shard_private.h"

/* `done` is this and the number of shards served, so that it passes `target` when all are. Without
 * it, while the program wants to be told of the end: the thread that serves the last shard then
 * adds it when it has read whom to tell. Until then nobody ends the request. */
#define MST_REQUEST_UNWATCHED ((uint64_t)1 << 40)

struct muster_request {
    muster_client *client;
    muster_request *next_free, *next_made;
    mst_operation operation;
    _Atomic uint64_t done;     /* shards served; with a tensor on a device, one more for its copy */
    uint64_t target;           /* the value of `done` at which the request is finished */
    mst_completion completion; /* set before `done` says so */
    _Atomic int32_t status;    /* the first failure of a shard */
    _Atomic bool failing;      /* a thread sets, or has set, status and message */
    char *copy;                /* for MUSTER_SEND_COPY; kept for the next request */
    int64_t copy_bytes;
    _Atomic bool leaving; /* its client waits until no combiner serves it */
    bool live;            /* taken, and not given back; the program may have its handle */
    bool left;            /* its call was ended: it goes on, and the end of the run gives it back */
    bool drains;          /* a wait for it does not end with the run */
    bool begun;           /* counted in the server's `begun` */
    /* stage.c */
    muster_request *next_waiting;
    bool waiting;          /* has begun at no shard yet: waits for its copy from the device */
    struct mst_slot *slot; /* for a tensor on a device; NULL: host memory */
    void *device_address;
    char message[MST_MESSAGE_SIZE];
    mst_node nodes[]; /* one for each shard */
};

/* request.c. take and give: from and to the client's free list, where one that was left does not
 * come yet. */
muster_request *mst_request_take(muster_client *client);
void mst_request_give(muster_request *request);
void mst_request_fail(muster_request *request, muster_status status);
/* Memory for a copy of its tensor, in `copy`. */
muster_status mst_request_reserve_copy(muster_request *request, const char *where, int64_t bytes);
void mst_request_count_begun(muster_request *request);
/* So many more shards have been served, by any thread. After the last one the owner may free the
 * request. */
void mst_request_add_done(muster_request *request, uint64_t shards);
/* Enters the client of a request that is not NULL. Refuses a copy of one that has ended. */
muster_status mst_request_enter(muster_request **request, const char *where);
/* Has the completion called when the request ends. false: it has ended, and nothing is called. */
bool mst_request_watch(muster_request *request, mst_completion completion);
static inline bool mst_request_finished(const muster_request *request) {
    return atomic_load(&((muster_request *)request)->done) >= request->target;
}
/* Applies the request to every free shard and queues it at the others; lazily: queues it at all.
 * from: the tensor itself, where operation.memory is a copy, which is made only for a queue. */
void mst_request_begin(muster_request *request, const char *from, bool lazily);

/* wait.c. progress: becomes the combiner of shards that have none and in whose queue the request
 * waits. */
void mst_request_progress(muster_request *request);
/* Waits until the request is finished, and makes progress meanwhile; *status: its outcome. A wait
 * that fails cancels what has not been applied, which finishes the request. A wait that times out
 * does so only if `cancel`; otherwise it returns false, and the request goes on. Where the call is
 * ended (CANCELLED), a send goes on: it is left, and needs nothing of the caller any more. */
bool mst_request_finish(muster_request *request, const char *where, bool cancel, muster_status *status);

#endif
