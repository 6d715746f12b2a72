/* Staging buffers in host memory for copies of tensors. */
#include "host_private.h"

int64_t mst_staging_bytes(int64_t bytes) { return (bytes + MST_CACHE_LINE - 1) & -(int64_t)MST_CACHE_LINE; }

muster_status mst_staging_begin(mst_staging *staging, int64_t bytes) {
    staging->used = 0;
    if (bytes <= staging->capacity) return MUSTER_OK;
    char *grown = mst_alloc_uninitialised((size_t)bytes);
    if (!grown) return mst_out_of_memory("host memory for copies", bytes);
    mst_free(staging->memory);
    staging->memory = grown;
    staging->capacity = bytes;
    return MUSTER_OK;
}

void *mst_staging_take(mst_staging *staging, int64_t bytes) {
    void *address = staging->memory + staging->used;
    staging->used += mst_staging_bytes(bytes);
    return address;
}
