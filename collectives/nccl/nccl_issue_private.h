/* What the files of the transport share that issue NCCL's calls for a batch. */
#ifndef MST_NCCL_ISSUE_PRIVATE_H
#define MST_NCCL_ISSUE_PRIVATE_H

#include "nccl_private.h"

typedef struct mst_nccl_issue {
    const mst_batch *batch;
    muster_worker *worker;
    mst_nccl_worker *nccl_worker;
    mst_nccl_handle *handle;
    const mst_nccl_api *api;
    struct CUstream_st *stream;
    mst_device_staging *staging;
    int32_t size, rank;
} mst_nccl_issue;

/* nccl_native.c: collectives that NCCL does by itself. */
bool mst_nccl_combines(const mst_request *r);
/* Of a request that combines: does NCCL compute the reduction as the interface promises? */
bool mst_nccl_sums(const mst_request *r, bool fixed_order);
muster_status mst_nccl_do_natively(const mst_nccl_issue *c, const mst_view *view);

static inline muster_status mst_nccl_send(const mst_nccl_issue *c, const void *from, int64_t bytes, int32_t peer) {
    return bytes == 0 ? MUSTER_OK : MST_NCCL_CALL(c, ncclSend, from, (size_t)bytes, MST_NCCL_UINT8, peer, c->handle->comm, c->stream);
}
static inline muster_status mst_nccl_receive(const mst_nccl_issue *c, void *to, int64_t bytes, int32_t peer) {
    return bytes == 0 ? MUSTER_OK : MST_NCCL_CALL(c, ncclRecv, to, (size_t)bytes, MST_NCCL_UINT8, peer, c->handle->comm, c->stream);
}

/* nccl_combine.c: reductions in rank order by the kernel of p2p. Exchange and spread belong into a
 * group each, combine between them. `slots` is the staging memory of this request. */
int64_t mst_nccl_slots_bytes(const mst_view *view);
/* The staging memory that the request needs, as far as this rank can tell before the others have
 * arrived. */
int64_t mst_nccl_expected_bytes(const muster_communicator *communicator, int32_t rank, const mst_request *r);
muster_status mst_nccl_exchange(const mst_nccl_issue *c, const mst_view *view, char *slots);
muster_status mst_nccl_combine(const mst_nccl_issue *c, const mst_view *view, char *slots);
/* Sends the combined segments to all ranks, or to the root. */
muster_status mst_nccl_spread(const mst_nccl_issue *c, const mst_view *view, char *slots);

/* nccl_apply.c: what these three do for an all_reduce_apply; the rule follows the sums. */
int64_t mst_nccl_apply_bytes(const mst_view *view);
muster_status mst_nccl_apply_exchange(const mst_nccl_issue *c, const mst_view *view, char *slots);
muster_status mst_nccl_apply_rule(const mst_nccl_issue *c, const mst_view *view, char *slots);
muster_status mst_nccl_apply_spread(const mst_nccl_issue *c, const mst_view *view);

#endif
