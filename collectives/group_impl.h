/* The communicator over all workers of a pool, as the files of this room share it. A table of collectives moves data; the staging layer in front
 * of it brings device memory that host code cannot read through host memory. */
#ifndef MST_GROUP_IMPL_H
#define MST_GROUP_IMPL_H

#include "communicator_impl.h"

enum { MST_CHUNK_BYTES = 16384 }; /* of an accumulator: stays in the first-level cache beside the inputs it is fed from */

/* What a rank keeps between collectives; touched by that rank only. */
typedef struct mst_rank_memory {
    _Alignas(MST_CACHE_LINE) void *bounce; /* host memory that stands in for device memory */
    int64_t bounce_capacity;
    _Alignas(MST_CACHE_LINE) char chunk[MST_CHUNK_BYTES];
} mst_rank_memory;

typedef struct mst_group {
    mst_communicator base; /* first */
    mst_pool *pool;
    mst_party *party;
    mst_rank_memory *ranks; /* [size] */
} mst_group;

static inline mst_group *mst_group_of(mst_communicator *communicator) { return (mst_group *)communicator; }

/* All ranks on host memory; its callers give host addresses. */
extern const mst_communicator_table mst_host_table;
/* Devices of any kind: through bounce memory where needed, then mst_host_table. */
extern const mst_communicator_table mst_staged_table;
/* One rank: a copy on its device. */
extern const mst_communicator_table mst_single_table;

#endif
