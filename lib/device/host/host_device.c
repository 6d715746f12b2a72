/* The host backend: a device is a CPU core (or a group), its memory is the program's, and all work is done at once by the
 * issuing thread. */
#include "device_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Below this a page fault is cheaper than the search for a free huge page. */
enum { HUGE_PAGE_THRESHOLD = 4 << 20 };

static muster_status read_ordinal(const char *argument, int32_t *ordinal) {
    char *end = NULL;
    errno = 0;
    long value = strtol(argument, &end, 10);
    if (argument[0] < '0' || argument[0] > '9' || *end != '\0' || errno != 0 || value > INT32_MAX) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "muster_runtime_open: devices: expected host:<ordinal>, received \"host:%.100s\"", argument);
    }
    *ordinal = (int32_t)value;
    return MUSTER_OK;
}

static muster_status host_open(const mst_device_table *table, const char *argument, mst_device **device) {
    int32_t ordinal = 0;
    MUSTER_TRY(read_ordinal(argument, &ordinal));
    mst_device *opened = mst_alloc(sizeof *opened);
    if (!opened) return mst_out_of_memory("muster_runtime_open: host device", sizeof *opened);
    opened->table = table;
    opened->cpu = -1;
    snprintf(opened->name, sizeof opened->name, "host cpu %d", (int)ordinal);
    *device = opened;
    return MUSTER_OK;
}

static void host_close(mst_device *device) { mst_free(device); }

/* A hint only: whole pages inside the block, and a refusal (no transparent huge pages) changes nothing but speed. */
static void advise_huge_pages(void *address, int64_t bytes) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)address + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)address + (uintptr_t)bytes) / page * page;
    if (end > begin) (void)madvise((char *)address + (begin - (uintptr_t)address), end - begin, MADV_HUGEPAGE);
}

static muster_status host_allocate(mst_device *device, int64_t bytes, void **address) {
    if (bytes < 0) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: bytes: expected at least 0, received %lld", device->name, (long long)bytes);
    void *block = mst_alloc_uninitialised((size_t)bytes);
    if (!block) return mst_out_of_memory(device->name, bytes);
    if (bytes >= HUGE_PAGE_THRESHOLD) advise_huge_pages(block, bytes);
    *address = block;
    return MUSTER_OK;
}

static void host_release(mst_device *device, void *address) {
    (void)device;
    mst_free(address);
}

static muster_status host_copy(mst_device *device, void *to, const void *from, int64_t bytes) {
    (void)device;
    if (bytes > 0) memcpy(to, from, (size_t)bytes);
    return MUSTER_OK;
}

/* The addresses are readable as they are, and the kernel ends before this returns: no copy of the parameters is needed. */
static muster_status host_launch(mst_device *device, mst_host_kernel kernel, const void *parameters, int64_t parameter_bytes,
                                 const int32_t *offsets, int32_t offset_count) {
    (void)device, (void)parameter_bytes, (void)offsets, (void)offset_count;
    return kernel(parameters);
}

/* Every failure was returned where it happened, so nothing is kept. */
static muster_status host_sync(mst_device *device) {
    (void)device;
    return MUSTER_OK;
}

const mst_device_table mst_host_device_table = {
    .backend = "host",
    .flags = MST_DEVICE_HOST_MEMORY,
    .open = host_open,
    .close = host_close,
    .allocate = host_allocate,
    .release = host_release,
    .copy_in = host_copy,
    .copy_out = host_copy,
    .copy = host_copy,
    .launch = host_launch,
    .sync = host_sync,
};
