#include "memory_impl.h"

#include "allocator_private.h"

#include <stdatomic.h>
#include <string.h>

static _Atomic int64_t allocations, fail_at;

void mst_memory_fail_at(int64_t k) { atomic_store(&fail_at, k); }
int64_t mst_memory_count(void) { return atomic_load(&allocations); }
int64_t mst_memory_live(void) { return mst_allocator_live(); }

bool mst_memory_refuse(void) {
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    if (atomic_load_explicit(&fail_at, memory_order_relaxed) == 0) return false;
    return atomic_fetch_sub(&fail_at, 1) == 1;
}

void *mst_alloc_uninitialised(size_t bytes) {
    if (mst_memory_refuse()) return NULL;
    if (bytes > SIZE_MAX - MST_CACHE_LINE) return NULL;
    size_t rounded = bytes == 0 ? MST_CACHE_LINE : (bytes + MST_CACHE_LINE - 1) / MST_CACHE_LINE * MST_CACHE_LINE;
    return mst_allocator_take(rounded);
}

void *mst_alloc(size_t bytes) {
    void *block = mst_alloc_uninitialised(bytes);
    if (block) memset(block, 0, bytes);
    return block;
}

void mst_free(void *block) {
    if (block) mst_allocator_give(block);
}

void mst_retire(void *block) {
    if (block) mst_allocator_retire(block);
}

char *mst_strdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = mst_alloc_uninitialised(bytes);
    if (copy) memcpy(copy, text, bytes);
    return copy;
}

muster_status(mst_out_of_memory)(const char *what, int64_t bytes) {
    return mst_error(MUSTER_OUT_OF_MEMORY, "%s: out of memory, %lld bytes were asked for", what, (long long)bytes);
}

muster_status mst_grow(void **items, int64_t *capacity, int64_t needed, size_t item_size, const char *what) {
    if (needed <= *capacity) return MUSTER_OK;
    int64_t wanted = *capacity > INT64_MAX / 2 || 2 * *capacity < needed ? needed : 2 * *capacity;
    int64_t bytes;
    if (!mst_multiply(wanted, (int64_t)item_size, &bytes))
        return mst_error(MUSTER_OVERFLOW, "%s: %lld items overflow", what, (long long)needed);
    char *grown = mst_alloc((size_t)bytes);
    if (!grown) return mst_out_of_memory(what, bytes);
    if (*items) memcpy(grown, *items, (size_t)*capacity * item_size);
    mst_free(*items);
    *items = grown;
    *capacity = wanted;
    return MUSTER_OK;
}
