#include "allocator_private.h"

#include "memory_impl.h"
#include "muster/allocator.h"
#include "options_impl.h"
#include "owned_impl.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { RETIRED = 256, HEADER = MST_CACHE_LINE };

/* Every block counts in `held` from before it is allocated until after it is released. The
 * allocator changes only while `held` is 0, and with CHANGING in it nothing is allocated: so each
 * block goes back to the allocator that gave it, and reading the allocator needs no lock. */
#define CHANGING (INT64_C(1) << 62)
static _Atomic int64_t held;
static muster_allocator_options allocator; /* allocate NULL: the C library */

static void hold(void) {
    while (atomic_fetch_add(&held, 1) & CHANGING) {
        atomic_fetch_sub(&held, 1);
        while (atomic_load(&held) & CHANGING) sched_yield();
    }
}

/* The header of a block of the program's allocator holds its size, which release is told. */
static void *take_from(const muster_allocator_options *from, size_t bytes) {
    if (bytes > SIZE_MAX - HEADER) return NULL;
    bytes += HEADER;
    char *block = from->allocate(from->user, bytes, MST_CACHE_LINE);
    if (!block) return NULL;
    if ((uintptr_t)block % MST_CACHE_LINE != 0) {
        from->release(from->user, block, bytes, MST_CACHE_LINE);
        return NULL;
    }
    *(size_t *)block = bytes;
    return block + HEADER;
}

static void give_to(const muster_allocator_options *to, char *block) {
    char *begin = block - HEADER;
    to->release(to->user, begin, *(size_t *)begin, MST_CACHE_LINE);
}

void *mst_allocator_take(size_t bytes) {
    hold();
    void *block = allocator.allocate ? take_from(&allocator, bytes) : aligned_alloc(MST_CACHE_LINE, bytes);
    if (!block) atomic_fetch_sub(&held, 1);
    return block;
}

void mst_allocator_give(void *block) {
    if (allocator.allocate)
        give_to(&allocator, block);
    else
        free(block);
    atomic_fetch_sub(&held, 1);
}

/* ---- blocks that are given later ---- */

static struct {
    pthread_mutex_t lock;
    void *blocks[RETIRED];
    uint32_t next;
    _Atomic int64_t count;
} retired = {.lock = PTHREAD_MUTEX_INITIALIZER};

void mst_allocator_retire(void *block) {
    pthread_mutex_lock(&retired.lock);
    void *oldest = retired.blocks[retired.next];
    retired.blocks[retired.next] = block;
    retired.next = (retired.next + 1) % RETIRED;
    if (!oldest) atomic_fetch_add(&retired.count, 1);
    pthread_mutex_unlock(&retired.lock);
    if (oldest) mst_allocator_give(oldest);
}

int64_t mst_allocator_live(void) { return (atomic_load(&held) & ~CHANGING) - atomic_load(&retired.count); }

/* Under the lock of the retired blocks. */
static void give_retired(void) {
    for (uint32_t i = 0; i < RETIRED; i++) {
        if (retired.blocks[i]) mst_allocator_give(retired.blocks[i]);
        retired.blocks[i] = NULL;
    }
    atomic_store(&retired.count, 0);
}

/* ---- another allocator ---- */

void muster_allocator_options_init_sized(muster_allocator_options *options, size_t size) { mst_options_init(options, size); }

static const char *const where = "muster_allocator_set";

/* malloc aligns small blocks by chance, but none that is as large as the last of these. */
static muster_status try_allocator(const muster_allocator_options *one) {
    static const size_t sizes[] = {2 * MST_CACHE_LINE, 4096, 1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *block = one->allocate(one->user, sizes[i], MST_CACHE_LINE);
        if (!block)
            return mst_error(MUSTER_OUT_OF_MEMORY, "%s: options: allocate: expected %zu bytes of memory, received NULL", where, sizes[i]);
        one->release(one->user, block, sizes[i], MST_CACHE_LINE);
        if ((uintptr_t)block % MST_CACHE_LINE != 0)
            return mst_error(MUSTER_INVALID_ARGUMENT,
                             "%s: options: allocate: expected an address that is a multiple of the alignment %d, received %p for %zu bytes",
                             where, (int)MST_CACHE_LINE, block, sizes[i]);
    }
    return MUSTER_OK;
}

static muster_status check_allocator(const muster_allocator_options *one) {
    if (!one->allocate && !one->release) return MUSTER_OK;
    if (!one->allocate) return mst_error_null(where, "options: allocate", "a function, as release is one");
    if (!one->release) return mst_error_null(where, "options: release", "a function, as allocate is one");
    return try_allocator(one);
}

/* Under the lock of the retired blocks. *replaced: the allocator that has served until now. */
static muster_status change(const muster_allocator_options *to, muster_allocator_options *replaced) {
    const int64_t count = atomic_load(&retired.count);
    int64_t found = count;
    if (!atomic_compare_exchange_strong(&held, &found, count | CHANGING))
        return mst_error(MUSTER_BAD_STATE, "%s: expected no memory of the library in use, received %lld blocks", where,
                         (long long)((found & ~CHANGING) - count));
    give_retired();
    *replaced = allocator;
    allocator = *to;
    atomic_fetch_sub(&held, CHANGING);
    return MUSTER_OK;
}

static muster_status set_allocator(const muster_allocator_options *to) {
    muster_allocator_options replaced = {0};
    MUSTER_TRY(check_allocator(to));
    pthread_mutex_lock(&retired.lock);
    const muster_status status = change(to, &replaced);
    pthread_mutex_unlock(&retired.lock);
    mst_owned_call(replaced.destroy, replaced.user);
    return status;
}

muster_status muster_allocator_set(const muster_allocator_options *options) {
    muster_allocator_options known;
    muster_status status = mst_options_read(where, "muster_allocator_options", options, &known, sizeof known);
    if (status == MUSTER_OK) status = set_allocator(&known);
    return mst_owned_refused(status, known.destroy, known.user);
}
