#include "slab_private.h"

#include <string.h>

int64_t mst_slab_round(int64_t bytes) {
    if (bytes > INT64_MAX - MST_SLAB_ALIGNMENT) return -1;
    return bytes == 0 ? MST_SLAB_ALIGNMENT : (bytes + MST_SLAB_ALIGNMENT - 1) / MST_SLAB_ALIGNMENT * MST_SLAB_ALIGNMENT;
}

/* The first block at or behind the address. */
static int64_t find(const mst_slab *slab, uint64_t address) {
    int64_t low = 0, high = slab->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (slab->blocks[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The list has capacity for one more block. */
static void insert(mst_slab *slab, int64_t at, mst_slab_block block) {
    memmove(&slab->blocks[at + 1], &slab->blocks[at], (size_t)(slab->count - at) * sizeof *slab->blocks);
    slab->blocks[at] = block;
    slab->count++;
}

static void erase(mst_slab *slab, int64_t at) {
    slab->count--;
    memmove(&slab->blocks[at], &slab->blocks[at + 1], (size_t)(slab->count - at) * sizeof *slab->blocks);
}

static muster_status grow(mst_slab *slab) {
    return mst_grow((void **)&slab->blocks, &slab->capacity, slab->count + 1, sizeof *slab->blocks,
                    slab->what ? slab->what : "the list of the blocks of device memory");
}

muster_status mst_slab_add(mst_slab *slab, uint64_t address, int64_t bytes) {
    MUSTER_TRY(grow(slab));
    insert(slab, find(slab, address), (mst_slab_block){.address = address, .bytes = bytes, .first = true});
    slab->total += bytes;
    return MUSTER_OK;
}

muster_status mst_slab_take(mst_slab *slab, int64_t bytes, uint64_t *address, bool *found) {
    *found = false;
    int64_t at = 0;
    while (at < slab->count && (slab->blocks[at].used || slab->blocks[at].bytes < bytes)) at++;
    if (at == slab->count) return MUSTER_OK;
    int64_t rest = slab->blocks[at].bytes - bytes;
    if (rest > 0) {
        MUSTER_TRY(grow(slab));
        insert(slab, at + 1, (mst_slab_block){.address = slab->blocks[at].address + (uint64_t)bytes, .bytes = rest});
    }
    slab->blocks[at].bytes = bytes;
    slab->blocks[at].used = true;
    slab->used += bytes;
    *address = slab->blocks[at].address;
    *found = true;
    return MUSTER_OK;
}

/* Joins the block with the next one if both are free and belong to one segment. */
static void join(mst_slab *slab, int64_t at) {
    if (at < 0 || at + 1 >= slab->count) return;
    mst_slab_block *block = &slab->blocks[at], *next = block + 1;
    if (block->used || next->used || next->first) return;
    block->bytes += next->bytes;
    erase(slab, at + 1);
}

int64_t mst_slab_give(mst_slab *slab, uint64_t address) {
    int64_t at = find(slab, address);
    if (at == slab->count || slab->blocks[at].address != address || !slab->blocks[at].used) return 0;
    int64_t bytes = slab->blocks[at].bytes;
    slab->blocks[at].used = false;
    slab->used -= bytes;
    join(slab, at);
    join(slab, at - 1);
    return bytes;
}

int64_t mst_slab_largest(const mst_slab *slab) {
    int64_t largest = 0;
    for (int64_t i = 0; i < slab->count; i++) {
        if (!slab->blocks[i].used && slab->blocks[i].bytes > largest) largest = slab->blocks[i].bytes;
    }
    return largest;
}

void mst_slab_end(mst_slab *slab) {
    mst_free(slab->blocks);
    *slab = (mst_slab){0};
}
