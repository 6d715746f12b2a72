/* The host backend: a device is a CPU core or a group of cores, and its memory is the program's.
 * The issuing thread does all work at once, except programs, which OpenCL runs on its own
 * threads. */
#include "opencl/opencl_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Below this size a page fault is cheaper than the search for a free huge page. */
enum { HUGE_PAGE_THRESHOLD = 4 << 20 };

typedef struct host_device {
    mst_device head;
    mst_opencl_slot opencl;
} host_device;

static mst_opencl_slot *slot_of(mst_device *device) { return &((host_device *)device)->opencl; }

static muster_status read_ordinal(const char *argument, int32_t *ordinal) {
    char *end = NULL;
    errno = 0;
    long value = strtol(argument, &end, 10);
    if (argument[0] < '0' || argument[0] > '9' || *end != '\0' || errno != 0 || value > INT32_MAX) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "muster_runtime_open: devices: expected host:<ordinal>, received \"host:%.100s\"",
                         argument);
    }
    *ordinal = (int32_t)value;
    return MUSTER_OK;
}

static muster_status host_open(const mst_device_table *table, const char *argument, mst_device **device) {
    int32_t ordinal = 0;
    MUSTER_TRY(read_ordinal(argument, &ordinal));
    host_device *opened = mst_alloc(sizeof *opened);
    if (!opened) return mst_out_of_memory("muster_runtime_open: host device", sizeof *opened);
    opened->head = mst_device_head(table);
    opened->opencl.ordinal = ordinal;
    snprintf(opened->head.name, sizeof opened->head.name, "host cpu %d", (int)ordinal);
    *device = &opened->head;
    return MUSTER_OK;
}

static void host_close(mst_device *device) {
    if (device) mst_opencl_end(slot_of(device));
    mst_free(device);
}

/* Only a hint, for the whole pages inside the block. Where it is refused (no transparent huge
 * pages), only the speed differs. */
static void advise_huge_pages(void *address, int64_t bytes) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)address + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)address + (uintptr_t)bytes) / page * page;
    if (end > begin) (void)madvise((char *)address + (begin - (uintptr_t)address), end - begin, MADV_HUGEPAGE);
}

static muster_status host_allocate(mst_device *device, int64_t bytes, void **address) {
    if (bytes < 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: bytes: expected at least 0, received %lld", device->name, (long long)bytes);
    void *block = mst_alloc_uninitialised((size_t)bytes);
    if (!block) return mst_out_of_memory(device->name, bytes);
    if (bytes >= HUGE_PAGE_THRESHOLD) advise_huge_pages(block, bytes);
    *address = block;
    return MUSTER_OK;
}

/* On a lost device a kernel that never ends may still use the memory. */
static void host_release(mst_device *device, void *address) {
    if (!device->lost) mst_free(address);
}

static muster_status host_synchronize(mst_device *device);

/* Nothing to reserve: the system's allocator may be called at any time. */
static muster_status host_reserve(mst_device *device, int64_t bytes) {
    (void)device, (void)bytes;
    return MUSTER_OK;
}

/* Copies after the programs that were launched before. */
static muster_status host_copy(mst_device *device, void *to, const void *from, int64_t bytes) {
    if (__builtin_expect(device->queued, 0)) MUSTER_TRY(host_synchronize(device));
    if (bytes > 0) memcpy(to, from, (size_t)bytes);
    return MUSTER_OK;
}

/* Only a program's failure is still unknown here: all other functions return their failures
 * directly. */
static muster_status host_synchronize(mst_device *device) {
    if (__builtin_expect(!device->queued, 1)) return MUSTER_OK;
    const muster_status status = mst_opencl_wait(device, slot_of(device));
    if (status == MUSTER_OK) device->queued = false;
    return status;
}

/* ---- programs ---- */

static muster_status host_program_language(mst_device *device, int32_t *language) {
    (void)device;
    *language = MST_LANGUAGE_OPENCL;
    return mst_opencl_probe();
}

static muster_status host_program_open(mst_device *device, const mst_program_request *request, mst_program **program, char **log) {
    return mst_opencl_open(device, slot_of(device), request, program, log);
}

static void host_program_close(mst_device *device, mst_program *program) {
    (void)device;
    mst_opencl_close(program);
}

static muster_status host_program_limits(mst_device *device, const mst_program *program, int32_t kernel, mst_program_limits *limits) {
    (void)device;
    return mst_opencl_limits(program, kernel, limits);
}

static muster_status host_program_launch(mst_device *device, mst_program *program, int32_t kernel, const mst_program_grid *grid,
                                         const mst_program_value *values) {
    MUSTER_TRY(mst_opencl_launch(program, kernel, grid, values));
    device->queued = true;
    return MUSTER_OK;
}

/* ---- memory of other libraries ---- */

static muster_status host_check_byte(const mst_device *device, const char *address, const char *which, const char *where) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    unsigned char resident;
    if (mincore((void *)((uintptr_t)address / page * page), 1, &resident) == 0 || errno != ENOMEM) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: address: expected memory of %s, received %p, whose %s byte is not mapped", where,
                     device->name, (const void *)address, which);
}

static muster_status host_adopt(mst_device *device, const void *address, int64_t bytes, const char *where) {
    MUSTER_TRY(host_check_byte(device, address, "first", where));
    return host_check_byte(device, (const char *)address + bytes - 1, "last", where);
}

static const mst_device_memory_table memory = {
    .allocate = host_allocate,
    .release = host_release,
    .reserve = host_reserve,
    .copy_in = host_copy,
    .copy_out = host_copy,
    .copy = host_copy,
    .adopt = host_adopt,
};

static const mst_device_program_table program = {
    .language = host_program_language,
    .open = host_program_open,
    .close = host_program_close,
    .limits = host_program_limits,
    .launch = host_program_launch,
};

const mst_device_table mst_host_device_table = {
    .backend = "host",
    .flags = MST_DEVICE_HOST_MEMORY,
    .open = host_open,
    .close = host_close,
    .synchronize = host_synchronize,
    .memory = &memory,
    .program = &program,
};
