/* Page-locked host memory of the process: ranges that devices allocated, ranges that the program
 * asked to pin, and how often. A range is pinned for all devices at once, so one list serves them
 * all. Pinning and unpinning wait for devices, so they never happen while a call is in flight. A
 * range that is given back in flight is kept until the next opportunity.
 *
 * Pinning makes copies faster and changes nothing else. So memory that the driver cannot pin is
 * kept in the list as not locked, its copies are staged, and a notice says why. */
#include "cuda_device_private.h"

#include <pthread.h>
#include <stdio.h>

typedef struct locked_range {
    uintptr_t begin, end;
    int64_t users;                 /* 0: it was given back at a time when it could not be unpinned */
    const mst_cuda *given_back_by; /* the device that gave it back then */
    /* FOREIGN: the program had pinned it already, and unpins it itself. READ_ONLY: registered, but
     * the device must not write it. UNLOCKED: it could not be pinned. */
    enum { ALLOCATED, REGISTERED, READ_ONLY, FOREIGN, UNLOCKED } kind;
} locked_range;

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static locked_range *ranges; /* sorted, disjoint */
static int64_t range_count, range_capacity;
static int64_t given_back; /* the number of ranges with 0 users */

/* The place of the first range that ends behind the address. */
static int64_t find(uintptr_t address) {
    int64_t low = 0, high = range_count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (ranges[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static muster_status make_place(void) {
    return mst_grow((void **)&ranges, &range_capacity, range_count + 1, sizeof *ranges, "the list of locked host memory");
}

static void insert(locked_range range) {
    int64_t at = find(range.begin);
    for (int64_t i = range_count; i > at; i--) ranges[i] = ranges[i - 1];
    ranges[at] = range;
    range_count++;
}

/* The process keeps no memory for an empty list. */
static void drop_empty_list(void) {
    if (range_count > 0) return;
    mst_free(ranges);
    ranges = NULL;
    range_capacity = 0;
}

static void erase(int64_t at) {
    range_count--;
    for (int64_t i = at; i < range_count; i++) ranges[i] = ranges[i + 1];
    drop_empty_list();
}

/* ---- look-up ---- */

mst_cuda_listed mst_cuda_find_listed(uintptr_t begin, uintptr_t end) {
    pthread_rwlock_rdlock(&lock);
    const int64_t at = find(begin);
    const locked_range *range = at < range_count ? &ranges[at] : NULL;
    const bool inside = range && range->begin <= begin && range->end >= end && range->users > 0 && range->kind != UNLOCKED;
    const mst_cuda_listed listed = !inside ? MST_CUDA_UNLISTED : range->kind == READ_ONLY ? MST_CUDA_LISTED_READ_ONLY : MST_CUDA_LISTED;
    pthread_rwlock_unlock(&lock);
    return listed;
}

/* ---- unpinning; call these with the lock held for writing and the context current ---- */

static void end_range(const mst_cuda *cuda, int64_t at) {
    locked_range range = ranges[at];
    erase(at);
    if (range.kind == ALLOCATED) (void)cuda->api->cuMemFreeHost((void *)range.begin);
    if (range.kind == REGISTERED || range.kind == READ_ONLY) (void)cuda->api->cuMemHostUnregister((void *)range.begin);
}

static void end_given_back(const mst_cuda *cuda) {
    for (int64_t i = range_count; given_back > 0 && i-- > 0;) {
        if (ranges[i].users > 0) continue;
        end_range(cuda, i);
        given_back--;
    }
}

void mst_cuda_end_host(const mst_cuda *cuda) {
    pthread_rwlock_wrlock(&lock);
    end_given_back(cuda);
    pthread_rwlock_unlock(&lock);
}

/* A device that can no longer unpin anything leaves the memory page-locked. */
void mst_cuda_forget_host(const mst_cuda *cuda) {
    pthread_rwlock_wrlock(&lock);
    for (int64_t i = range_count; given_back > 0 && i-- > 0;) {
        if (ranges[i].users > 0 || ranges[i].given_back_by != cuda) continue;
        erase(i);
        given_back--;
    }
    pthread_rwlock_unlock(&lock);
}

static void give_back(mst_device *device, void *address) {
    mst_cuda *cuda = mst_cuda_of(device);
    mst_cuda_scope scope;
    bool usable = !cuda->head.in_flight && !mst_cuda_may_be_used(cuda) && mst_cuda_begin(cuda, &scope) == MUSTER_OK;
    pthread_rwlock_wrlock(&lock);
    int64_t at = find((uintptr_t)address);
    if (at < range_count && ranges[at].begin <= (uintptr_t)address && ranges[at].users > 0 && --ranges[at].users == 0) {
        ranges[at].given_back_by = cuda;
        given_back++;
        if (usable) end_given_back(cuda);
    }
    pthread_rwlock_unlock(&lock);
    if (mst_cuda_is_lost(cuda)) mst_cuda_forget_host(cuda);
    if (usable) (void)mst_cuda_end(cuda, &scope, MUSTER_OK);
}

void mst_cuda_host_release(mst_device *device, void *address) {
    if (address) give_back(device, address);
}

void mst_cuda_unpin(mst_device *device, void *address) {
    if (address) give_back(device, address);
}

/* ---- pinning ---- */

static muster_status allocate_locked(mst_cuda *cuda, int64_t bytes, void **address) {
    end_given_back(cuda);
    MUSTER_TRY(make_place());
    MUSTER_TRY(MST_CU(cuda, cuMemHostAlloc, address, (size_t)bytes, MST_CU_HOST_ALLOC_PORTABLE));
    uintptr_t begin = (uintptr_t)*address;
    insert((locked_range){.begin = begin, .end = begin + (uintptr_t)bytes, .users = 1, .kind = ALLOCATED});
    return MUSTER_OK;
}

muster_status mst_cuda_host_allocate(mst_device *device, int64_t bytes, void **address) {
    mst_cuda *cuda = mst_cuda_of(device);
    *address = NULL;
    MUSTER_TRY(mst_cuda_check_between_calls(cuda, "allocation of host memory"));
    if (bytes < 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: locked host memory: expected a size from 0 up, received %lld bytes", cuda->label,
                         (long long)bytes);
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    pthread_rwlock_wrlock(&lock);
    muster_status status = allocate_locked(cuda, bytes > 0 ? bytes : MST_CACHE_LINE, address);
    drop_empty_list();
    pthread_rwlock_unlock(&lock);
    status = mst_cuda_end(cuda, &scope, status);
    if (status == MUSTER_OK || !*address) return status;
    mst_cuda_host_release(device, *address);
    *address = NULL;
    return status;
}

/* ---- what the driver cannot pin ---- */

enum { REASONS = 8 };
static mst_cu_result noticed[REASONS]; /* one notice for each error; under the lock */
static int32_t noticed_count;

void mst_cuda_forget_unpinned(void) {
    pthread_rwlock_wrlock(&lock);
    noticed_count = 0;
    pthread_rwlock_unlock(&lock);
}

static void notice_unlocked(mst_cuda *cuda, const locked_range *range, mst_cu_result result) {
    char text[MST_MESSAGE_SIZE], before[MST_MESSAGE_SIZE];
    for (int32_t i = 0; i < noticed_count; i++)
        if (noticed[i] == result) return;
    if (noticed_count < REASONS) noticed[noticed_count++] = result;
    mst_error_save(before);
    (void)mst_cuda_error(cuda->api, result, "cuMemHostRegister_v2", cuda->label);
    snprintf(text, sizeof text,
             "host memory of %lld bytes at %p could not be page-locked, so GPUs copy it through Muster's own page-locked memory, which is "
             "slower; other memory with the same error is not reported: %.300s",
             (long long)(range->end - range->begin), (void *)range->begin, muster_last_error());
    (void)mst_error_restore(MUSTER_OK, before);
    mst_cuda_add_notice(text);
}

/* ---- pinning what the program has ---- */

enum { PAGE = 4096 }; /* the smallest on any machine with a GPU: larger pages only find fewer neighbours */

/* Does a page of the range also hold memory of a range that Muster has pinned? That page is
 * unlocked together with the other range, whenever that is. */
static bool has_page_in_common(uintptr_t begin, uintptr_t end) {
    const uintptr_t low = begin / PAGE * PAGE, high = (end + PAGE - 1) / PAGE * PAGE;
    for (int64_t at = find(low); at < range_count && ranges[at].begin < high; at++)
        if (ranges[at].kind != UNLOCKED && ranges[at].kind != FOREIGN) return true;
    return false;
}

static bool program_has_locked(const mst_cuda *cuda, uintptr_t begin, uintptr_t end) {
    mst_cuda_place place;
    return !has_page_in_common(begin, end) && mst_cuda_ask_place(cuda, (void *)begin, &place) == MST_CU_SUCCESS &&
           mst_cuda_place_is_locked(&place, begin, end);
}

/* Memory that is mapped for reading only needs a flag, and without it the driver fails in ways that
 * differ between its versions. */
static mst_cu_result register_pages(const mst_cuda *cuda, locked_range *range) {
    const size_t bytes = (size_t)(range->end - range->begin);
    mst_cu_result result = cuda->api->cuMemHostRegister_v2((void *)range->begin, bytes, MST_CU_HOST_REGISTER_PORTABLE);
    if (result == MST_CU_SUCCESS || result == MST_CU_OUT_OF_MEMORY || result == MST_CU_HOST_MEMORY_ALREADY_REGISTERED ||
        mst_cuda_error_is_sticky(result))
        return result;
    range->kind = READ_ONLY;
    const mst_cu_result again =
        cuda->api->cuMemHostRegister_v2((void *)range->begin, bytes, MST_CU_HOST_REGISTER_PORTABLE | MST_CU_HOST_REGISTER_READ_ONLY);
    return again == MST_CU_SUCCESS || mst_cuda_error_is_sticky(again) ? again : result;
}

/* Pins a range that is not in the list. */
static muster_status register_range(mst_cuda *cuda, uintptr_t begin, uintptr_t end) {
    MUSTER_TRY(make_place());
    locked_range range = {.begin = begin, .end = end, .users = 1, .kind = REGISTERED};
    const mst_cu_result result = register_pages(cuda, &range);
    if (result == MST_CU_OUT_OF_MEMORY || mst_cuda_error_is_sticky(result)) return mst_cuda_failed(cuda, result, "cuMemHostRegister_v2");
    if (result == MST_CU_HOST_MEMORY_ALREADY_REGISTERED && program_has_locked(cuda, begin, end))
        range.kind = FOREIGN;
    else if (result != MST_CU_SUCCESS)
        range.kind = UNLOCKED;
    if (range.kind == UNLOCKED) notice_unlocked(cuda, &range, result);
    insert(range);
    return MUSTER_OK;
}

static muster_status lock_range(mst_cuda *cuda, uintptr_t begin, uintptr_t end) {
    end_given_back(cuda);
    int64_t at = find(begin);
    if (at == range_count || ranges[at].begin >= end) return register_range(cuda, begin, end);
    if (ranges[at].begin > begin || ranges[at].end < end)
        return mst_error(
            MUSTER_UNSUPPORTED,
            "%s: locking host memory: expected memory that is not locked, or inside what is, received %lld bytes of which a part is",
            cuda->label, (long long)(end - begin));
    ranges[at].users++;
    return MUSTER_OK;
}

muster_status mst_cuda_pin(mst_device *device, void *address, int64_t bytes) {
    mst_cuda *cuda = mst_cuda_of(device);
    MUSTER_TRY(mst_cuda_check_between_calls(cuda, "pinning of host memory"));
    if (!address || bytes <= 0)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: locking host memory: expected an address and a size above 0, received %lld bytes at %p", cuda->label,
                         (long long)bytes, address);
    uintptr_t begin = (uintptr_t)address, end = begin + (uintptr_t)bytes;
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    pthread_rwlock_wrlock(&lock);
    muster_status status = lock_range(cuda, begin, end);
    drop_empty_list();
    pthread_rwlock_unlock(&lock);
    muster_status ended = mst_cuda_end(cuda, &scope, status);
    if (status == MUSTER_OK && ended != MUSTER_OK) mst_cuda_unpin(device, address);
    return ended;
}
