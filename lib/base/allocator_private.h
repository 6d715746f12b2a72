/* Where blocks of memory come from and go to: the C library, or the program's functions
 * (muster/allocator.h). */
#ifndef MST_ALLOCATOR_PRIVATE_H
#define MST_ALLOCATOR_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

/* Allocates a block, aligned to a cache line. `bytes` is a multiple of a cache line. NULL: out of
 * memory. */
void *mst_allocator_take(size_t bytes);
void mst_allocator_give(void *block);
/* Gives the block when 256 others have been retired after it, or when the allocator changes. */
void mst_allocator_retire(void *block);
/* The blocks that have been taken, but neither given nor retired. */
int64_t mst_allocator_live(void);

#endif
