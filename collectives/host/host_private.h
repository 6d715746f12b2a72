/* The transport over host memory, and what `staged`, which serves by the same algorithms, shares
 * with it. */
#ifndef MST_HOST_PRIVATE_H
#define MST_HOST_PRIVATE_H

#include "algorithm_private.h"
#include "core/transport_private.h"

/* Host memory for copies of tensors; grows, and is kept. */
typedef struct mst_staging {
    char *memory;
    int64_t capacity, used;
} mst_staging;

/* What a member keeps between collectives. Written by that member only; the slots are read by the
 * others. */
typedef struct mst_host_member {
    _Alignas(MST_CACHE_LINE) char slots[2][MST_SLOT_BYTES]; /* beside the two flag lines, used in turn like them */
    _Alignas(MST_CACHE_LINE) char chunk[MST_CHUNK_BYTES];
    _Alignas(MST_CACHE_LINE) mst_staging staging, mail; /* of collectives, of messages */
} mst_host_member;

/* host_transport.c: per-member state of a communicator; free also takes NULL. */
muster_status mst_host_members_make(const char *where, int32_t size, mst_host_member **members);
void mst_host_members_free(mst_host_member *members, int32_t size);
/* Its name, for numbers from 0 on. */
const char *mst_host_algorithm_name(int32_t algorithm);

/* host_run.c: what prepare, ends_at_arrival and run do, on these members. select: what serves
 * request i, in_batch as in mst_algorithm_select. offer_slot: where a copy of its input goes,
 * with the counts of an uneven all_to_all put behind it. */
int32_t mst_host_select(const mst_batch *batch, int32_t i, bool in_batch);
char *mst_host_offer_slot(const mst_batch *batch, int32_t i, mst_host_member *member);
bool mst_host_ends_at_arrival(mst_batch *batch);
muster_status mst_host_run(const mst_batch *batch, mst_host_member *members);

/* host_staging.c. begin: gives everything back and makes room for `bytes`, the sum of
 * mst_staging_bytes of what will be taken. */
muster_status mst_staging_begin(mst_staging *staging, int64_t bytes);
int64_t mst_staging_bytes(int64_t bytes);
void *mst_staging_take(mst_staging *staging, int64_t bytes);

#endif
