/* The memory of shared devices: a memory file per block. */
#include "shared_private.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* A page at least, because an empty file cannot be mapped; -1: more than a file can have. */
static int64_t mapped_bytes(int64_t bytes) {
    const int64_t page = sysconf(_SC_PAGESIZE);
    if (bytes > INT64_MAX - page) return -1;
    return bytes == 0 ? page : (bytes + page - 1) / page * page;
}

static bool map(mst_shared_block *block) {
    block->address = MAP_FAILED;
    block->file = memfd_create("muster-shared", MFD_CLOEXEC);
    if (block->file < 0) return false;
    if (ftruncate(block->file, block->mapped) == 0)
        block->address = mmap(NULL, (size_t)block->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, block->file, 0);
    if (block->address != MAP_FAILED) return true;
    close(block->file);
    return false;
}

muster_status mst_shared_allocate(mst_device *device, int64_t bytes, void **address) {
    mst_shared_device *shared = (mst_shared_device *)device;
    if (bytes < 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: bytes: expected at least 0, received %lld", device->name, (long long)bytes);
    mst_shared_block *block = mst_alloc(sizeof *block);
    if (!block) return mst_out_of_memory(device->name, bytes);
    block->mapped = mapped_bytes(bytes);
    if (block->mapped < 0 || !map(block)) {
        mst_free(block);
        return mst_out_of_memory(device->name, bytes);
    }
    block->next = shared->blocks;
    shared->blocks = block;
    *address = block->address;
    return MUSTER_OK;
}

static void unmap(mst_shared_block *block) {
    munmap(block->address, (size_t)block->mapped);
    close(block->file);
    mst_free(block);
}

/* On a lost device the thread may still use the memory; close releases it. */
void mst_shared_release(mst_device *device, void *address) {
    mst_shared_block **at = &((mst_shared_device *)device)->blocks;
    while (*at && (*at)->address != address) at = &(*at)->next;
    mst_shared_block *block = *at;
    if (!block || device->lost) return;
    *at = block->next;
    unmap(block);
}

void mst_shared_release_all(mst_shared_device *shared) {
    while (shared->blocks) {
        mst_shared_block *block = shared->blocks;
        shared->blocks = block->next;
        unmap(block);
    }
}
