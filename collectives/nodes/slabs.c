/* Muster's own memory for the wire. What lost requests may still write into is never freed, but
 * hangs in a list, so that a checker of leaks sees that it is kept on purpose. */
#include "slabs_private.h"

#include "environment_impl.h"
#include "memory_impl.h"

#include <stdatomic.h>

enum { SLABS_PAGE = 4096, SLABS_BYTES = 16 << 20, SLABS_LEAST = 256 << 10 };
static _Atomic int64_t slabs_leaked, slabs_kept_blocks;

/* In front of every block; the wire never gets it. */
typedef struct slabs_head {
    struct slabs_head *next;
} slabs_head;
static _Atomic(slabs_head *) slabs_kept;

void *mst_wire_memory(int64_t bytes, void **block) {
    *block = mst_alloc_uninitialised((size_t)bytes + SLABS_PAGE + sizeof(slabs_head));
    if (!*block) return NULL;
    return (void *)(((uintptr_t)*block + sizeof(slabs_head) + SLABS_PAGE - 1) & ~(uintptr_t)(SLABS_PAGE - 1));
}

void mst_wire_memory_free(void *block, int64_t bytes, bool in_flight) {
    if (!in_flight) {
        mst_free(block);
        return;
    }
    slabs_head *head = block;
    head->next = atomic_load(&slabs_kept);
    while (!atomic_compare_exchange_weak(&slabs_kept, &head->next, head)) {}
    atomic_fetch_add_explicit(&slabs_leaked, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&slabs_kept_blocks, 1, memory_order_relaxed);
}

int64_t mst_slabs_leaked(void) { return atomic_load_explicit(&slabs_leaked, memory_order_relaxed); }
int64_t mst_slabs_kept(void) { return atomic_load_explicit(&slabs_kept_blocks, memory_order_relaxed); }

muster_status mst_slabs_size(int64_t *bytes) {
    bool is_set;
    *bytes = SLABS_BYTES;
    const muster_status status =
        mst_environment_number("MUSTER_WIRE_MEMORY", "bytes, from 262144 to 1073741824", SLABS_LEAST, 1 << 30, bytes, &is_set);
    *bytes = *bytes / 2 / SLABS_PAGE * SLABS_PAGE * 2;
    return status;
}

muster_status mst_slabs_open(mst_slabs *slabs, const char *where, int64_t bytes) {
    *slabs = (mst_slabs){.bytes = bytes / 2};
    for (int i = 0; i < 2; i++) {
        slabs->memory[i] = mst_wire_memory(slabs->bytes, &slabs->blocks[i]);
        if (slabs->memory[i]) continue;
        mst_slabs_close(slabs, false);
        return mst_error(MUSTER_OUT_OF_MEMORY, "%s: the memory for messages between processes needs %lld bytes (MUSTER_WIRE_MEMORY)", where,
                         (long long)bytes);
    }
    return MUSTER_OK;
}

void mst_slabs_close(mst_slabs *slabs, bool in_flight) {
    for (int i = 0; i < 2; i++)
        if (slabs->blocks[i]) mst_wire_memory_free(slabs->blocks[i], slabs->bytes, in_flight);
    *slabs = (mst_slabs){0};
}
