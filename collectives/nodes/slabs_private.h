/* Muster's own memory for the wire. MPI reads and writes nothing else, so that a request that is
 * never done cannot write into memory of the program, and an MPI that pins memory does it once. */
#ifndef MST_SLABS_PRIVATE_H
#define MST_SLABS_PRIVATE_H

#include "muster/status.h"

#include <stdbool.h>

/* Two halves: while one travels, the other is filled or emptied. */
typedef struct mst_slabs {
    char *memory[2]; /* aligned to 4096 bytes */
    int64_t bytes;   /* of each; the smallest number of all processes, when they have joined */
    void *blocks[2];
} mst_slabs;

/* The bytes of the slabs of a process, both together: MUSTER_WIRE_MEMORY, or 16 MiB. Errors:
 * INVALID_ARGUMENT (the variable). */
muster_status mst_slabs_size(int64_t *bytes);
/* Takes the memory: bytes / 2 for each slab. Errors: OUT_OF_MEMORY. where: for the message. */
muster_status mst_slabs_open(mst_slabs *slabs, const char *where, int64_t bytes);
/* Frees them. in_flight: the wire may still use them, so they are leaked, and counted. Accepts
 * slabs that are all zeros. */
void mst_slabs_close(mst_slabs *slabs, bool in_flight);

/* One block aligned to 4096 bytes for the wire; *block is what mst_wire_memory_free takes. NULL
 * when out of memory. */
void *mst_wire_memory(int64_t bytes, void **block);
void mst_wire_memory_free(void *block, int64_t bytes, bool in_flight);
/* The bytes that this program has leaked, because lost requests may still use them. Threads:
 * any. */
int64_t mst_slabs_leaked(void);
/* In how many blocks of memory_impl.h they are. Threads: any. */
int64_t mst_slabs_kept(void);

#endif
