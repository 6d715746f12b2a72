/* Which parts of a device's memory are in use: arithmetic on addresses, which are never read.
 * Single-threaded. */
#ifndef MST_SLAB_IMPL_H
#define MST_SLAB_IMPL_H

#include "memory_impl.h"

enum { MST_SLAB_ALIGNMENT = 256 };

typedef struct mst_slab_piece {
    uint64_t address;
    int64_t bytes;
    bool used, first; /* first: begins a segment, and is never joined to the piece before it */
} mst_slab_piece;

typedef struct mst_slab {
    mst_slab_piece *pieces; /* sorted by address; all memory of all segments, without gaps */
    int64_t count, capacity;
    int64_t total, used;
    const char *what; /* for messages: the list that needs memory; borrowed */
} mst_slab;

/* What an allocation of so many bytes takes: at least one unit, so that addresses differ; -1 if
 * that overflows. */
int64_t mst_slab_round(int64_t bytes);

/* Adds memory: address a multiple of MST_SLAB_ALIGNMENT, bytes likewise. Errors: OUT_OF_MEMORY of
 * the host; nothing has changed. */
muster_status mst_slab_add(mst_slab *slab, uint64_t address, int64_t bytes);
/* The first place that fits `bytes` (as rounded). found: false if there is none. Errors: as add. */
muster_status mst_slab_take(mst_slab *slab, int64_t bytes, uint64_t *address, bool *found);
/* Gives back what take gave, and joins it with its neighbours. The bytes it had; 0: no such address
 * is in use. Needs no memory. */
int64_t mst_slab_give(mst_slab *slab, uint64_t address);
int64_t mst_slab_largest(const mst_slab *slab); /* the largest free piece */
void mst_slab_end(mst_slab *slab);

#endif
