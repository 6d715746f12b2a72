/* The discrete device: opening and closing, page-locked memory, and the table. */
#include "device_discrete_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Atomic int64_t live_host_blocks, pinned_ranges;
static _Atomic int32_t chosen_delay_us = -1;
static _Atomic uint64_t chosen_seed;

int64_t mst_discrete_live_host(void) { return atomic_load(&live_host_blocks); }
int64_t mst_discrete_pinned(void) { return atomic_load(&pinned_ranges); }

void mst_discrete_set_delays(int32_t longest_us, uint64_t seed) {
    atomic_store(&chosen_seed, seed);
    atomic_store(&chosen_delay_us, longest_us);
}

void discrete_misuse(const discrete_device *device, const char *sentence) {
    fprintf(stderr, "device %s: %s\n", device->head.name, sentence);
    abort();
}

discrete_device *discrete_begin_issue(mst_device *head) {
    discrete_device *device = (discrete_device *)head;
    if (atomic_flag_test_and_set(&device->issuing)) discrete_misuse(device, "two threads issue at the same time");
    return device;
}

muster_status discrete_end_issue(discrete_device *device, muster_status status) {
    atomic_flag_clear(&device->issuing);
    return status;
}

uint64_t discrete_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1Du;
}

/* ---- opening and closing ---- */

static void choose_delays(discrete_device *device, const char *argument) {
    const char *delay = getenv("MUSTER_DISCRETE_DELAY_US"), *seed = getenv("MUSTER_DISCRETE_SEED");
    bool chosen = atomic_load(&chosen_delay_us) >= 0;
    device->longest_us = chosen ? atomic_load(&chosen_delay_us) : delay ? atoi(delay) : 0;
    uint64_t start = chosen ? atomic_load(&chosen_seed) : seed ? strtoull(seed, NULL, 10) : 0;
    start = (start + strtoull(argument, NULL, 10) + 1) * 0x9E3779B97F4A7C15u;
    for (uint64_t q = 0; q < DISCRETE_QUEUES; q++) device->queues[q].random = (start ^ q << 32) | 1; /* never 0 */
    device->random = (start ^ (uint64_t)DISCRETE_QUEUES << 32) | 1;
}

static muster_status start(discrete_device *device, const char *argument) {
    snprintf(device->head.name, sizeof device->head.name, "discrete %.40s", argument);
    device->process = getpid();
    choose_delays(device, argument);
    device->ordinal = atoi(argument);
    muster_status status = discrete_make_queues(device);
    if (status == MUSTER_OK) status = discrete_find_kernels(device);
    if (status == MUSTER_OK) status = discrete_map_arena(device);
    if (status == MUSTER_OK) {
        status = discrete_start_threads(device);
        if (status == MUSTER_OK) return status;
        discrete_unmap_arena(device);
    }
    mst_free(device->kernels);
    discrete_free_queues(device);
    return status;
}

static muster_status discrete_open(const mst_device_table *table, const char *argument, mst_device **head) {
    if (argument[0] == '\0' || strspn(argument, "0123456789") != strlen(argument)) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "muster_runtime_open: devices: expected discrete:<ordinal>, received \"discrete:%.100s\"",
                         argument);
    }
    discrete_device *device = mst_alloc(sizeof *device);
    if (!device) return mst_out_of_memory("discrete device", sizeof *device);
    device->head = mst_device_head(table);
    muster_status status = start(device, argument);
    if (status == MUSTER_OK)
        *head = &device->head;
    else
        mst_free(device);
    return status;
}

static void discrete_close(mst_device *head) {
    if (!head) return;
    discrete_device *device = discrete_begin_issue(head);
    if (device->process == getpid()) { /* a forked child has no such thread, and its lock may be held for ever */
        discrete_stop_threads(device, DISCRETE_QUEUES);
        if (device->block_count > 0) discrete_misuse(device, "closed while blocks are not released");
        if (device->event_count > 0) discrete_misuse(device, "closed while events are not destroyed");
    }
    discrete_unmap_arena(device);
    discrete_free_blocks(device);
    discrete_free_queues(device);
    mst_free(device->kernels);
    mst_free(device);
}

/* ---- page-locked host memory ---- */

static muster_status discrete_host_allocate(mst_device *head, int64_t bytes, void **address) {
    discrete_device *device = discrete_begin_issue(head);
    if (!discrete_is_idle(device)) discrete_misuse(device, "host memory is made between calls only");
    *address = mst_alloc_uninitialised((size_t)bytes);
    if (*address) atomic_fetch_add(&live_host_blocks, 1);
    return discrete_end_issue(device, *address ? MUSTER_OK : mst_out_of_memory("discrete device: host memory", bytes));
}

static void discrete_host_release(mst_device *head, void *address) {
    discrete_device *device = discrete_begin_issue(head);
    if (!device->head.lost && device->process == getpid() && !discrete_is_idle(device))
        discrete_misuse(device, "host memory is released between calls only");
    if (address) atomic_fetch_sub(&live_host_blocks, 1);
    mst_free(address);
    discrete_end_issue(device, MUSTER_OK);
}

static muster_status discrete_pin(mst_device *head, void *address, int64_t bytes) {
    discrete_device *device = discrete_begin_issue(head);
    if (!discrete_is_idle(device)) discrete_misuse(device, "host memory is pinned between calls only");
    if (mst_memory_refuse() || bytes > DISCRETE_ARENA_BYTES)
        return discrete_end_issue(device, mst_out_of_memory("discrete device: pin", bytes));
    (void)address;
    atomic_fetch_add(&pinned_ranges, 1);
    return discrete_end_issue(device, MUSTER_OK);
}

static void discrete_unpin(mst_device *head, void *address) {
    discrete_device *device = discrete_begin_issue(head);
    (void)address;
    atomic_fetch_sub(&pinned_ranges, 1);
    discrete_end_issue(device, MUSTER_OK);
}

static const mst_device_host_memory_table host_memory = {
    .allocate = discrete_host_allocate,
    .release = discrete_host_release,
    .pin = discrete_pin,
    .unpin = discrete_unpin,
};

static const mst_device_table discrete_table = {
    .backend = "discrete",
    .open = discrete_open,
    .close = discrete_close,
    .synchronize = discrete_synchronize,
    .memory = &discrete_memory,
    .queue = &discrete_queue_table,
    .code = &discrete_code,
    .host_memory = &host_memory,
};

static muster_status register_outcome;
static void register_table(void) { register_outcome = mst_device_register(&discrete_table); }

muster_status mst_discrete_register(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_table);
    return register_outcome;
}
