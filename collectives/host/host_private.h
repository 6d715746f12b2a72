/* The transport `host` between ranks on host memory. The transport `staged` uses the same
 * algorithms and shares these declarations. */
#ifndef MST_HOST_PRIVATE_H
#define MST_HOST_PRIVATE_H

#include "algorithm_private.h"
#include "core/transport_private.h"

/* A staging buffer in host memory for copies of tensors. It only grows. */
typedef struct mst_staging {
    char *memory;
    int64_t capacity, used;
} mst_staging;

/* Per-member state that lives between collectives. Only the member writes it; the other members
 * read the slots. */
typedef struct mst_host_member {
    _Alignas(MST_CACHE_LINE) char slots[2][MST_SLOT_BYTES]; /* one per flag line; they alternate as the flag lines do */
    _Alignas(MST_CACHE_LINE) char chunk[MST_CHUNK_BYTES];
    _Alignas(MST_CACHE_LINE) mst_staging staging, mail; /* for collectives; for messages */
} mst_host_member;

/* host_transport.c: the per-member state of a communicator. mst_host_members_free accepts NULL. */
muster_status mst_host_members_make(const char *where, int32_t size, mst_host_member **members);
void mst_host_members_free(mst_host_member *members, int32_t size);
/* The name of algorithm 0, 1, ...; NULL after the last one. */
const char *mst_host_algorithm_name(int32_t algorithm);

/* host_run.c: the steps of the transport's table. mst_host_select returns the algorithm for request
 * i, with `in_batch` as in mst_algorithm_select. mst_host_offer_slot returns where the copy of
 * request i's input goes, and puts the counts of an uneven all_to_all behind it. */
int32_t mst_host_select(const mst_batch *batch, int32_t i, bool in_batch);
char *mst_host_offer_slot(const mst_batch *batch, int32_t i, mst_host_member *member);
bool mst_host_ends_at_arrival(mst_batch *batch);
muster_status mst_host_run(const mst_batch *batch, mst_host_member *members, char *sums);

/* host_staging.c. mst_staging_begin gives everything back and makes room for `bytes`, the sum of
 * mst_staging_bytes over the buffers that will be taken. */
muster_status mst_staging_begin(mst_staging *staging, int64_t bytes);
int64_t mst_staging_bytes(int64_t bytes);
void *mst_staging_take(mst_staging *staging, int64_t bytes);

#endif
