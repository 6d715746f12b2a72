/* What the driver knows about an address: memory of a GPU, page-locked host memory, managed memory,
 * or nothing. */
#include "cuda_device_private.h"

enum {
    ASK_FROM = 64 * 1024, /* for less memory the query costs as much as staging */
    ASK_AGAIN = 32,       /* copies of one range for which one answer serves */
};

mst_cu_result mst_cuda_ask_place(const mst_cuda *cuda, const void *address, mst_cuda_place *place) {
    unsigned int attributes[] = {MST_CU_POINTER_MEMORY_TYPE, MST_CU_POINTER_IS_MANAGED, MST_CU_POINTER_DEVICE_ORDINAL,
                                 MST_CU_POINTER_RANGE_START, MST_CU_POINTER_RANGE_BYTES};
    unsigned int type = 0, managed = 0;
    int ordinal = -1;
    mst_cu_address begin = 0;
    size_t bytes = 0;
    void *values[] = {&type, &managed, &ordinal, &begin, &bytes};
    const unsigned int count = sizeof attributes / sizeof *attributes;
    const mst_cu_result result = cuda->api->cuPointerGetAttributes(count, attributes, values, (mst_cu_address)(uintptr_t)address);
    *place = (mst_cuda_place){0};
    /* the two with which the driver may answer for an address that it does not know */
    if (result == MST_CU_INVALID_VALUE || result == MST_CU_INVALID_CONTEXT) return MST_CU_SUCCESS;
    if (result != MST_CU_SUCCESS || type == 0) return result;
    *place = (mst_cuda_place){type, managed != 0, ordinal, begin, bytes};
    return MST_CU_SUCCESS;
}

bool mst_cuda_place_is_locked(const mst_cuda_place *place, uintptr_t begin, uintptr_t end) {
    return place->type == MST_CU_MEMORY_TYPE_HOST && !place->managed && place->begin <= begin && end - place->begin <= place->bytes;
}

/* ---- ranges that were not locked when the driver was asked ---- */

/* The driver is asked about a range again after some copies, since the program may lock the memory
 * later. Until then the range is staged, which is right for every memory. */
static bool remembered(mst_cuda *cuda, uintptr_t begin, int64_t bytes) {
    mst_cuda_unlocked *entry = &cuda->unlocked[begin / MST_CACHE_LINE % MST_CUDA_UNLOCKED];
    if (entry->uses_left == 0 || entry->begin != begin || entry->bytes != bytes) return false;
    entry->uses_left--;
    return true;
}

static void remember(mst_cuda *cuda, uintptr_t begin, int64_t bytes) {
    cuda->unlocked[begin / MST_CACHE_LINE % MST_CUDA_UNLOCKED] = (mst_cuda_unlocked){begin, bytes, ASK_AGAIN - 1};
}

static muster_status refuse_managed(const mst_cuda *cuda, const void *address) {
    return mst_error(MUSTER_UNSUPPORTED,
                     "%s: copy: host memory: expected memory that the CPU may access while the GPU works, received managed memory at %p, "
                     "which only one of them may access at a time on this machine (CONCURRENT_MANAGED_ACCESS is 0)",
                     cuda->label, address);
}

muster_status mst_cuda_find_locked(mst_cuda *cuda, const void *address, int64_t bytes, bool written, bool *locked) {
    const uintptr_t begin = (uintptr_t)address, end = begin + (uintptr_t)bytes;
    const mst_cuda_listed listed = mst_cuda_find_listed(begin, end);
    mst_cuda_place place;
    *locked = listed == MST_CUDA_LISTED || (listed == MST_CUDA_LISTED_READ_ONLY && !written);
    if (listed != MST_CUDA_UNLISTED) return MUSTER_OK;
    if (!cuda->exclusive_managed && (bytes < ASK_FROM || remembered(cuda, begin, bytes))) return MUSTER_OK;
    if (mst_cuda_ask_place(cuda, address, &place) != MST_CU_SUCCESS) return MUSTER_OK; /* staging is right for every memory */
    if (place.managed && cuda->exclusive_managed) return refuse_managed(cuda, address);
    *locked = mst_cuda_place_is_locked(&place, begin, end);
    if (!*locked) remember(cuda, begin, bytes);
    return MUSTER_OK;
}
