/* Device memory. One reserved range of addresses that nobody can touch holds all devices, and at a
 * constant distance lies its alias, which the threads of streams use. At twice that distance lies
 * what a device sees that has no right access to another's memory. The alias is a private
 * mapping of a file of garbage: what is not allocated reads as garbage, an allocation costs
 * nothing, and what was written is thrown away when it is freed. What the machine itself writes
 * goes past the sanitizers, which shall see only what the program does. */
#include "state_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ALIGNMENT = 256, FENCE = 256, FENCE_BYTE = 0xFD, PAGE = 4096 };
enum { UNIT = 2 << 20, SMALL = 1 << 20 }; /* allocations up to SMALL share units */
/* twice the largest memory: holes between blocks never make it too small */
static const uint64_t device_stride = (uint64_t)8 << 30;
static const uint64_t garbage_bytes = 16 << 20; /* of the file, which is mapped again and again */

typedef struct sim_heap {
    pthread_rwlock_t lock; /* written by what allocates and frees only */
    bool mapped, mirage_mapped;
    uint64_t used, small; /* bytes in units of their own, and of allocations that share units */
    sim_block **blocks;   /* by address */
    int count, capacity;
} sim_heap;

static sim_heap heaps[SIM_DEVICES];
static atomic_ullong allocations; /* of the process */
static uint64_t alias_distance;
static _Atomic uint64_t reserved_start; /* 0: not reserved yet; one thread may ask while another reserves */
static int garbage_file;
static pthread_once_t reserved = PTHREAD_ONCE_INIT;

static uint64_t range_start(void) { return atomic_load_explicit(&reserved_start, memory_order_acquire); }

static uint64_t device_start(int device) { return range_start() + (uint64_t)device * device_stride; }
static void *alias_of(uint64_t address) { return (void *)(uintptr_t)(address + alias_distance); }

static void give_up(const char *what) {
    fprintf(stderr, "simulated GPU: %s: %m\n", what);
    abort();
}

/* Not a number in every float type, and negative in every integer. */
#define UNSEEN __attribute__((no_sanitize("thread"), no_sanitize("address"), noinline))
UNSEEN static void write_garbage(unsigned char *to, uint64_t from, uint64_t bytes) {
    for (uint64_t i = from; i < from + bytes; i++)
        to[i - from] = i % 2 ? 0xFF : (unsigned char)(0xF0 | ((i >> 1) * 0x9E3779B1u >> 13 & 15));
}

static void reserve(void) {
    size_t bytes = (size_t)device_stride * SIM_DEVICES;
    char *range = mmap(NULL, 3 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) give_up("reserving addresses");
    garbage_file = memfd_create("simulated-gpu", MFD_CLOEXEC);
    unsigned char *garbage = garbage_file < 0 || ftruncate(garbage_file, (off_t)garbage_bytes) != 0
                                 ? MAP_FAILED
                                 : mmap(NULL, garbage_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, garbage_file, 0);
    if (garbage == MAP_FAILED) give_up("garbage");
    write_garbage(garbage, 0, garbage_bytes);
    munmap(garbage, garbage_bytes);
    for (int i = 0; i < SIM_DEVICES; i++) pthread_rwlock_init(&heaps[i].lock, NULL);
    alias_distance = bytes;
    atomic_store_explicit(&reserved_start, (uint64_t)(uintptr_t)range, memory_order_release);
}

/* By the system call: the sanitizers need not know. */
static void map_garbage(char *start) {
    for (uint64_t offset = 0; offset < device_stride; offset += garbage_bytes) {
        void *at = start + offset;
        if (syscall(SYS_mmap, at, garbage_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, garbage_file, 0) !=
            (long)(uintptr_t)at)
            give_up("device memory");
    }
}

void *sim_memory_mirage(const void *address) { return (char *)(uintptr_t)address + 2 * alias_distance; }

void *sim_memory_anywhere(uint64_t address) { return alias_of(address); }

uint64_t sim_memory_unalias(const void *alias) {
    if (!range_start()) return 0; /* then the distance is there, too */
    const uint64_t address = (uint64_t)(uintptr_t)alias - alias_distance;
    return sim_memory_is_device_range(address) ? address : 0;
}

bool sim_memory_is_device_range(uint64_t address) { return range_start() && address - range_start() < device_stride * SIM_DEVICES; }

/* The bytes are garbage again: whole pages by forgetting what was written. */
static void forget(uint64_t address, size_t bytes) {
    uint64_t end = address + bytes, first = (address + PAGE - 1) / PAGE * PAGE, last = end / PAGE * PAGE;
    if (first >= last) {
        write_garbage(alias_of(address), address - range_start(), bytes);
        return;
    }
    write_garbage(alias_of(address), address - range_start(), first - address);
    if (madvise(alias_of(first), last - first, MADV_DONTNEED) != 0) give_up("freeing device memory");
    write_garbage(alias_of(last), last - range_start(), end - last);
}

UNSEEN static void write_fence(const sim_block *block) {
    unsigned char *fence = alias_of(block->address);
    for (size_t i = block->bytes; i < block->span; i++) fence[i] = FENCE_BYTE;
}

/* Where the fence is broken, counted from the end of the block; 0: nowhere. */
UNSEEN static size_t broken_fence(const sim_block *block) {
    const unsigned char *fence = alias_of(block->address);
    for (size_t i = block->bytes; i < block->span; i++)
        if (fence[i] != FENCE_BYTE) return i - block->bytes + 1;
    return 0;
}

static void check_fence(int device, const sim_block *block) {
    size_t place = broken_fence(block);
    if (place)
        sim_hazard("device %d: %zu bytes behind the end of an allocation of %zu bytes something was written", device, place, block->bytes);
}

/* ---- blocks ---- */
/* The first block that begins behind the address. */
static int upper(const sim_heap *heap, uint64_t address) {
    int low = 0, high = heap->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (heap->blocks[middle]->address > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static sim_block *find_in(sim_heap *heap, uint64_t address, size_t bytes) {
    pthread_rwlock_rdlock(&heap->lock);
    int i = upper(heap, address) - 1;
    sim_block *block = i >= 0 ? heap->blocks[i] : NULL;
    if (block && (address - block->address >= block->bytes || bytes > block->bytes - (address - block->address))) block = NULL;
    pthread_rwlock_unlock(&heap->lock);
    return block;
}

sim_block *sim_memory_find(int device, uint64_t address, size_t bytes) {
    if (!sim_memory_is_device_range(address)) return NULL;
    int owner = (int)((address - range_start()) / device_stride);
    return device < 0 || device == owner ? find_in(&heaps[owner], address, bytes) : NULL;
}

int sim_memory_device(const void *address) {
    uint64_t number = (uint64_t)(uintptr_t)address;
    return sim_memory_find(-1, number, 1) ? (int)((number - range_start()) / device_stride) : -1;
}

void *sim_memory_alias(int device, const void *address, size_t bytes) {
    uint64_t number = (uint64_t)(uintptr_t)address;
    return sim_memory_find(device, number, bytes) ? alias_of(number) : NULL;
}

/* Where the first gap of `span` bytes is, and the place of a block there. */
static uint64_t find_gap(const sim_heap *heap, int device, size_t span, int *place) {
    uint64_t address = device_start(device) + ALIGNMENT;
    int i = 0;
    while (i < heap->count && heap->blocks[i]->address - address < span) {
        address = heap->blocks[i]->address + heap->blocks[i]->span;
        i++;
    }
    *place = i;
    return address;
}

static bool insert(sim_heap *heap, int place, sim_block *block) {
    if (heap->count == heap->capacity) {
        int capacity = heap->capacity ? 2 * heap->capacity : 64;
        sim_block **larger = realloc(heap->blocks, sizeof *larger * (size_t)capacity);
        if (!larger) return false;
        heap->blocks = larger;
        heap->capacity = capacity;
    }
    memmove(heap->blocks + place + 1, heap->blocks + place, sizeof *heap->blocks * (size_t)(heap->count - place));
    heap->blocks[place] = block;
    heap->count++;
    return true;
}

static uint64_t rounded(size_t bytes) { return ((uint64_t)bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* ---- what an allocation takes of the device ---- */
static uint64_t in_units(uint64_t bytes) { return (bytes + UNIT - 1) / UNIT * UNIT; }
static uint64_t used_of(const sim_heap *heap) { return heap->used + in_units(heap->small); }

static void charge(sim_heap *heap, size_t bytes) {
    if (bytes <= SMALL)
        heap->small += rounded(bytes);
    else
        heap->used += in_units(bytes);
}

static void discharge(sim_heap *heap, size_t bytes) {
    if (bytes <= SMALL)
        heap->small -= rounded(bytes);
    else
        heap->used -= in_units(bytes);
}

static bool fits_in(const sim_heap *heap, size_t bytes) {
    sim_heap after = {.used = heap->used, .small = heap->small};
    charge(&after, bytes);
    return used_of(&after) <= sim_state.options.memory;
}

static bool is_lied_about(int device) {
    for (int i = 0; i < SIM_DEVICES; i++)
        if (sim_kernels_lie(i, device) || sim_copies_lie(i, device)) return true;
    return false;
}

/* Under the lock of the heap. */
static void map_device(int device) {
    sim_heap *heap = &heaps[device];
    if (!heap->mapped) map_garbage(alias_of(device_start(device)));
    heap->mapped = true;
    if (heap->mirage_mapped || !is_lied_about(device)) return;
    map_garbage(sim_memory_mirage((void *)(uintptr_t)device_start(device)));
    heap->mirage_mapped = true;
}

sim_result sim_memory_allocate(int device, size_t bytes, uint64_t *address) {
    pthread_once(&reserved, reserve);
    sim_heap *heap = &heaps[device];
    if (bytes == 0) return SIM_INVALID_VALUE;
    if (bytes > sim_state.options.memory) return SIM_OUT_OF_MEMORY;
    sim_block *block = calloc(1, sizeof *block);
    if (!block) return SIM_OUT_OF_MEMORY;
    int place;
    pthread_rwlock_wrlock(&heap->lock);
    map_device(device);
    block->bytes = bytes;
    block->id = 1 + atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    block->span = (size_t)rounded(bytes) + FENCE;
    block->address = find_gap(heap, device, block->span, &place);
    bool fits = fits_in(heap, bytes) && insert(heap, place, block);
    if (fits) charge(heap, bytes);
    pthread_rwlock_unlock(&heap->lock);
    if (!fits) {
        free(block);
        return SIM_OUT_OF_MEMORY;
    }
    write_fence(block);
    ASAN_UNPOISON_MEMORY_REGION(alias_of(block->address), block->bytes);
    ASAN_POISON_MEMORY_REGION(alias_of(block->address + block->bytes), block->span - block->bytes);
    *address = block->address;
    return SIM_OK;
}

bool sim_memory_take(int device, uint64_t bytes) {
    pthread_once(&reserved, reserve);
    sim_heap *heap = &heaps[device];
    pthread_rwlock_wrlock(&heap->lock);
    const bool fits = heap->used + bytes <= sim_state.options.memory;
    if (fits) heap->used += bytes;
    pthread_rwlock_unlock(&heap->lock);
    return fits;
}

void sim_memory_give(int device, uint64_t bytes) {
    pthread_once(&reserved, reserve);
    sim_heap *heap = &heaps[device];
    pthread_rwlock_wrlock(&heap->lock);
    heap->used -= bytes < heap->used ? bytes : heap->used;
    pthread_rwlock_unlock(&heap->lock);
}

/* What has no entry of a stream any more. */
static void give_back(int device, sim_block *block) {
    check_fence(device, block);
    ASAN_POISON_MEMORY_REGION(alias_of(block->address), block->bytes);
    forget(block->address, block->span);
    free(block);
}

static void report_users(int device, const sim_block *block) {
    if (atomic_load_explicit(&block->users, memory_order_relaxed) && !sim_device_error(device))
        sim_hazard("cuMemFree: device %d: a queue still uses the allocation of %zu bytes", device, block->bytes);
}

/* As the real one, it waits for the whole device before it frees, and for those that have access to
 * its memory. */
sim_result sim_memory_release(uint64_t address) {
    sim_block *block = sim_memory_find(-1, address, 1);
    if (!block || block->address != address) return SIM_INVALID_VALUE;
    int device = (int)((address - range_start()) / device_stride);
    report_users(device, block);
    for (int i = 0; i < SIM_DEVICES; i++)
        if (sim_reaches(i, device)) sim_device_wait(i);
    sim_heap *heap = &heaps[device];
    pthread_rwlock_wrlock(&heap->lock);
    int i = upper(heap, address) - 1;
    bool there = i >= 0 && heap->blocks[i] == block;
    if (there) {
        memmove(heap->blocks + i, heap->blocks + i + 1, sizeof *heap->blocks * (size_t)(heap->count - i - 1));
        heap->count--;
        discharge(heap, block->bytes);
    }
    pthread_rwlock_unlock(&heap->lock);
    if (!there) return SIM_INVALID_VALUE;
    while (atomic_load_explicit(&block->users, memory_order_acquire)) usleep(1000); /* entries of other devices */
    give_back(device, block);
    return SIM_OK;
}

int sim_memory_release_all(int device) {
    sim_heap *heap = &heaps[device];
    if (!range_start()) return 0;
    pthread_rwlock_wrlock(&heap->lock);
    int count = heap->count;
    for (int i = 0; i < count; i++) give_back(device, heap->blocks[i]);
    free(heap->blocks);
    heap->blocks = NULL;
    heap->count = heap->capacity = 0;
    heap->used = heap->small = 0;
    pthread_rwlock_unlock(&heap->lock);
    return count;
}

uint64_t sim_memory_used(int device) {
    if (!range_start()) return 0;
    pthread_rwlock_rdlock(&heaps[device].lock);
    uint64_t used = used_of(&heaps[device]);
    pthread_rwlock_unlock(&heaps[device].lock);
    return used;
}

int sim_memory_count(int device) {
    if (!range_start()) return 0;
    pthread_rwlock_rdlock(&heaps[device].lock);
    int count = heaps[device].count;
    pthread_rwlock_unlock(&heaps[device].lock);
    return count;
}

uint64_t muster_sim_memory_taken(int device) {
    sim_heap *heap = &heaps[device];
    pthread_rwlock_rdlock(&heap->lock);
    const uint64_t taken = heap->used + heap->small;
    pthread_rwlock_unlock(&heap->lock);
    return taken;
}

uint64_t muster_sim_memory_used(int device) { return sim_memory_used(device); }

void sim_memory_end(void) {
    for (int i = 0; i < SIM_DEVICES; i++) {
        sim_memory_release_all(i);
        sim_managed_release_all(i);
        sim_locked_release_all(i);
    }
}
