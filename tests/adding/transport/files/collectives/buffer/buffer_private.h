/* The transport `buffer` between ranks on host memory: each rank offers a copy of its input in a
 * buffer of its own, and computes its own output from the copies. No rank accesses a tensor of
 * another rank, as between processes that share nothing but the buffers. */
#ifndef MST_BUFFER_PRIVATE_H
#define MST_BUFFER_PRIVATE_H

#include "host/host_private.h"

/* Per-member state. Only the member writes it; the other members read the buffer. */
typedef struct mst_buffer_member {
    _Alignas(MST_CACHE_LINE) char chunk[MST_CHUNK_BYTES]; /* scratch memory of the algorithms */
    _Alignas(MST_CACHE_LINE) mst_staging buffer;
} mst_buffer_member;

static inline mst_buffer_member *mst_buffer_members(const muster_communicator *communicator) {
    return communicator->state[MST_TRANSPORT_buffer];
}

/* buffer_run.c */
muster_status mst_buffer_prepare(mst_batch *batch);
muster_status mst_buffer_run(const mst_batch *batch);

#endif
