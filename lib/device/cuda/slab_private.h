/* Which parts of a device's memory are in use: arithmetic on addresses that are never dereferenced.
 * One thread at a time. */
#ifndef MST_SLAB_PRIVATE_H
#define MST_SLAB_PRIVATE_H

#include "memory_impl.h"

enum { MST_SLAB_ALIGNMENT = 256 };

typedef struct mst_slab_block {
    uint64_t address;
    int64_t bytes;
    bool used, first; /* first: the block begins a segment and is never joined with the block before it */
} mst_slab_block;

typedef struct mst_slab {
    mst_slab_block *blocks; /* sorted by address; together they cover all segments without gaps */
    int64_t count, capacity;
    int64_t total, used;
    const char *what; /* for messages: names the list that needs memory; borrowed */
} mst_slab;

/* The size that an allocation of `bytes` bytes takes: at least one unit, so that addresses differ.
 * -1 if the rounding overflows. */
int64_t mst_slab_round(int64_t bytes);

/* Adds a segment. address and bytes are multiples of MST_SLAB_ALIGNMENT. Errors: OUT_OF_MEMORY of
 * the host; then nothing has changed. */
muster_status mst_slab_add(mst_slab *slab, uint64_t address, int64_t bytes);
/* Takes the first free block of at least `bytes` bytes (already rounded). *found is false if there
 * is none. Errors: as mst_slab_add. */
muster_status mst_slab_take(mst_slab *slab, int64_t bytes, uint64_t *address, bool *found);
/* Releases an address that take returned, and joins the block with its free neighbours. Returns the
 * size of the block, or 0 if no such address is in use. Needs no memory. */
int64_t mst_slab_give(mst_slab *slab, uint64_t address);
int64_t mst_slab_largest(const mst_slab *slab); /* bytes of the largest free block */
void mst_slab_end(mst_slab *slab);

#endif
