/* The discrete device's memory: an arena that is mapped twice, and its blocks. Host code sees the
 * mapping that it can neither read nor write. */
#include "device_discrete_private.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    FENCE_BYTES = 64, /* behind each block, to notice writes there */
    FRESH = 0xCD,
    STALE = 0xDD,
    FENCE = 0xEE,
};

static _Atomic int64_t live_blocks;
static _Atomic bool strict_in_flight;

int64_t mst_discrete_live(void) { return atomic_load(&live_blocks); }
void mst_discrete_refuse_in_flight(bool refuse) { atomic_store(&strict_in_flight, refuse); }

/* ---- the arena ---- */

static void *map(int file, int64_t bytes, int protection) {
    void *address = mmap(NULL, (size_t)bytes, protection, file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED, file, 0);
    return address == MAP_FAILED ? NULL : address;
}

muster_status discrete_map_arena(discrete_device *device) {
    if (mst_memory_refuse()) return mst_out_of_memory("discrete device: arena", DISCRETE_ARENA_BYTES);
    int file = memfd_create("muster-discrete", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, DISCRETE_ARENA_BYTES) != 0) {
        if (file >= 0) close(file);
        return mst_error(MUSTER_SYSTEM, "discrete device: arena: the system refused a memory file of %d bytes", DISCRETE_ARENA_BYTES);
    }
    device->base = map(file, DISCRETE_ARENA_BYTES, PROT_NONE);
    device->alias = map(file, DISCRETE_ARENA_BYTES, PROT_READ | PROT_WRITE);
    device->allocated = map(-1, DISCRETE_ARENA_BYTES / DISCRETE_ALIGNMENT, PROT_READ | PROT_WRITE);
    close(file);
    if (device->base && device->alias && device->allocated) return MUSTER_OK;
    discrete_unmap_arena(device);
    return mst_error(MUSTER_SYSTEM, "discrete device: arena: the system refused a mapping of %d bytes", DISCRETE_ARENA_BYTES);
}

void discrete_unmap_arena(discrete_device *device) {
    if (device->alias) munmap(device->alias, DISCRETE_ARENA_BYTES);
    if (device->base) munmap(device->base, DISCRETE_ARENA_BYTES);
    if (device->allocated) munmap((void *)device->allocated, DISCRETE_ARENA_BYTES / DISCRETE_ALIGNMENT);
}

void discrete_free_blocks(discrete_device *device) {
    atomic_fetch_sub(&live_blocks, device->block_count);
    mst_free(device->blocks);
}

/* ---- blocks ---- */

/* First fit: the first gap of `span` bytes, before the block `*position`. */
static bool find_gap(const discrete_device *device, int64_t span, int64_t *position, int64_t *offset) {
    *offset = 0;
    for (*position = 0; *position < device->block_count; (*position)++) {
        const discrete_block *block = &device->blocks[*position];
        if (block->offset - *offset >= span) return true;
        *offset = block->offset + block->span;
    }
    return DISCRETE_ARENA_BYTES - *offset >= span;
}

/* The address of a block without bytes is an allocated one, too. */
static void mark_allocated(discrete_device *device, const discrete_block *block, bool allocated) {
    int64_t left = block->bytes > 0 ? block->bytes : 1;
    for (int64_t at = block->offset / DISCRETE_ALIGNMENT; left > 0; at++, left -= DISCRETE_ALIGNMENT) {
        const uint8_t bytes = (uint8_t)(left < DISCRETE_ALIGNMENT ? left : DISCRETE_ALIGNMENT);
        atomic_store_explicit(&device->allocated[at], allocated ? bytes : 0, memory_order_relaxed);
    }
}

static muster_status allocate(discrete_device *device, int64_t bytes, void **address) {
    int64_t position, offset, span;
    if (bytes < 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: bytes: expected at least 0, received %lld", device->head.name, (long long)bytes);
    if (device->head.in_flight && atomic_load(&strict_in_flight)) {
        if (bytes > device->reserved) return mst_out_of_memory(device->head.name, bytes);
        device->reserved -= bytes;
    }
    if (mst_memory_refuse() || bytes > DISCRETE_ARENA_BYTES) return mst_out_of_memory(device->head.name, bytes);
    span = (bytes + DISCRETE_ALIGNMENT - 1) / DISCRETE_ALIGNMENT * DISCRETE_ALIGNMENT + FENCE_BYTES;
    if (!find_gap(device, span, &position, &offset)) return mst_out_of_memory(device->head.name, bytes);
    MUSTER_TRY(mst_grow((void **)&device->blocks, &device->block_capacity, device->block_count + 1, sizeof *device->blocks,
                        "discrete device: blocks"));
    memmove(device->blocks + position + 1, device->blocks + position, (size_t)(device->block_count - position) * sizeof *device->blocks);
    device->blocks[position] = (discrete_block){offset, bytes, span};
    device->block_count++;
    memset(device->alias + offset, FRESH, (size_t)bytes);
    memset(device->alias + offset + bytes, FENCE, (size_t)(span - bytes));
    mark_allocated(device, &device->blocks[position], true);
    atomic_fetch_add(&live_blocks, 1);
    *address = device->base + offset;
    return MUSTER_OK;
}

static void release(discrete_device *device, int64_t index) {
    discrete_block block = device->blocks[index];
    const unsigned char *fence = (const unsigned char *)device->alias + block.offset + block.bytes;
    for (int64_t i = 0; i < block.span - block.bytes; i++) {
        if (fence[i] != FENCE) discrete_misuse(device, "something wrote behind a block");
    }
    mark_allocated(device, &block, false);
    memset(device->alias + block.offset, STALE, (size_t)block.span);
    device->block_count--;
    memmove(device->blocks + index, device->blocks + index + 1, (size_t)(device->block_count - index) * sizeof *device->blocks);
    atomic_fetch_sub(&live_blocks, 1);
}

muster_status discrete_translate(discrete_device *device, const void *address, int64_t bytes, void **alias) {
    uintptr_t offset = (uintptr_t)address - (uintptr_t)device->base; /* huge for an address before the arena */
    for (int64_t i = 0; offset <= DISCRETE_ARENA_BYTES && i < device->block_count; i++) {
        const discrete_block *block = &device->blocks[i];
        if ((int64_t)offset >= block->offset && (int64_t)offset + bytes <= block->offset + block->bytes) {
            *alias = device->alias + offset;
            return MUSTER_OK;
        }
    }
    return mst_error(MUSTER_INTERNAL, "%s: address: expected %lld bytes inside an allocated block of this device, received %p",
                     device->head.name, (long long)bytes, address);
}

void *discrete_alias(const discrete_device *device, const void *address) {
    const uintptr_t offset = (uintptr_t)address - (uintptr_t)device->base;
    if (offset >= DISCRETE_ARENA_BYTES) return NULL;
    const uint8_t bytes = atomic_load_explicit(&device->allocated[offset / DISCRETE_ALIGNMENT], memory_order_relaxed);
    return offset % DISCRETE_ALIGNMENT < bytes ? device->alias + offset : NULL;
}

/* ---- the table ---- */

static muster_status discrete_allocate(mst_device *head, int64_t bytes, void **address) {
    discrete_device *device = discrete_begin_issue(head);
    return discrete_end_issue(device, allocate(device, bytes, address));
}

static void discrete_release(mst_device *head, void *address) {
    if (!address) return;
    discrete_device *device = discrete_begin_issue(head);
    if (device->process == getpid() && !device->head.lost && !discrete_is_idle(device)) discrete_misuse(device, "release before sync");
    int64_t index = 0;
    while (index < device->block_count && device->base + device->blocks[index].offset != (char *)address) index++;
    if (index == device->block_count) discrete_misuse(device, "release of an address that was not allocated");
    release(device, index);
    discrete_end_issue(device, MUSTER_OK);
}

static muster_status discrete_reserve(mst_device *head, int64_t bytes) {
    discrete_device *device = discrete_begin_issue(head);
    if (device->head.in_flight) discrete_misuse(device, "reserve while collectives are in flight");
    if (bytes > device->reserved) device->reserved = bytes;
    return discrete_end_issue(device, MUSTER_OK);
}

static muster_status copy_in(discrete_device *device, void *to_device, const void *from_host, int64_t bytes) {
    void *to;
    if (bytes <= 0) return MUSTER_OK;
    MUSTER_TRY(discrete_translate(device, to_device, bytes, &to));
    return discrete_enqueue_copy(device, MST_QUEUE_COMPUTE, to, from_host, bytes);
}

static muster_status copy_out(discrete_device *device, void *to_host, const void *from_device, int64_t bytes) {
    void *from;
    if (bytes <= 0) return MUSTER_OK;
    MUSTER_TRY(discrete_translate(device, from_device, bytes, &from));
    return discrete_enqueue_copy(device, MST_QUEUE_COMPUTE, to_host, from, bytes);
}

static muster_status copy(discrete_device *device, void *to_device, const void *from_device, int64_t bytes) {
    void *to, *from;
    if (bytes <= 0) return MUSTER_OK;
    MUSTER_TRY(discrete_translate(device, to_device, bytes, &to));
    MUSTER_TRY(discrete_translate(device, from_device, bytes, &from));
    return discrete_enqueue_copy(device, device->head.work_queue, to, from, bytes);
}

static muster_status discrete_copy_in(mst_device *head, void *to_device, const void *from_host, int64_t bytes) {
    discrete_device *device = discrete_begin_issue(head);
    return discrete_end_issue(device, copy_in(device, to_device, from_host, bytes));
}

static muster_status discrete_copy_out(mst_device *head, void *to_host, const void *from_device, int64_t bytes) {
    discrete_device *device = discrete_begin_issue(head);
    return discrete_end_issue(device, copy_out(device, to_host, from_device, bytes));
}

static muster_status discrete_copy(mst_device *head, void *to_device, const void *from_device, int64_t bytes) {
    discrete_device *device = discrete_begin_issue(head);
    return discrete_end_issue(device, copy(device, to_device, from_device, bytes));
}

static muster_status adopt(const discrete_device *device, const void *address, int64_t bytes, const char *where) {
    if (discrete_alias(device, address) && discrete_alias(device, (const char *)address + bytes - 1)) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: address: expected memory of %s, received %p", where, device->head.name, address);
}

static muster_status discrete_adopt(mst_device *head, const void *address, int64_t bytes, const char *where) {
    discrete_device *device = discrete_begin_issue(head);
    return discrete_end_issue(device, adopt(device, address, bytes, where));
}

const mst_device_memory_table discrete_memory = {
    .allocate = discrete_allocate,
    .release = discrete_release,
    .reserve = discrete_reserve,
    .copy_in = discrete_copy_in,
    .copy_out = discrete_copy_out,
    .copy = discrete_copy,
    .adopt = discrete_adopt,
};
