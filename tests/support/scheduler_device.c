#include "scheduler_device.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static mst_device devices_made[2][PLAIN_DEVICES];
static _Atomic bool sync_fails[PLAIN_DEVICES];
static _Atomic bool allocations_fail;
static _Atomic int64_t live, allocations, syncs;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[16384];

static muster_status plain_allocate(mst_device *device, int64_t bytes, void **address) {
    (void)device;
    *address = atomic_load(&allocations_fail) ? NULL : mst_alloc_uninitialised((size_t)bytes);
    if (!*address) return mst_out_of_memory("plain device", bytes);
    atomic_fetch_add(&live, 1);
    atomic_fetch_add(&allocations, 1);
    return MUSTER_OK;
}

static void plain_release(mst_device *device, void *address) {
    (void)device;
    if (!address) return;
    atomic_fetch_sub(&live, 1);
    mst_free(address);
}

static muster_status plain_copy(mst_device *device, void *to, const void *from, int64_t bytes) {
    (void)device;
    memcpy(to, from, (size_t)bytes);
    return MUSTER_OK;
}

static muster_status plain_sync(mst_device *device) {
    atomic_fetch_add(&syncs, 1);
    int32_t index = (int32_t)(device - devices_made[(device->table->flags & MST_DEVICE_HOST_MEMORY) != 0]);
    return atomic_load(&sync_fails[index]) ? mst_error(MUSTER_DEVICE_LOST, "plain device %d: sync failed", (int)index) : MUSTER_OK;
}

static muster_status plain_reserve(mst_device *device, int64_t bytes) {
    (void)device, (void)bytes;
    return MUSTER_OK;
}

static muster_status plain_adopt(mst_device *device, const void *address, int64_t bytes, const char *where) {
    (void)device, (void)address, (void)bytes, (void)where;
    return MUSTER_OK;
}

static const mst_device_memory_table memory = {
    .allocate = plain_allocate,
    .release = plain_release,
    .reserve = plain_reserve,
    .copy_in = plain_copy,
    .copy_out = plain_copy,
    .copy = plain_copy,
    .adopt = plain_adopt,
};
static const mst_device_table tables[2] = {
    {.backend = "plain", .synchronize = plain_sync, .memory = &memory},
    {.backend = "plain", .flags = MST_DEVICE_HOST_MEMORY, .synchronize = plain_sync, .memory = &memory},
};

void plain_devices(mst_device **devices, int32_t count, bool host_memory) {
    assert_true(count <= PLAIN_DEVICES);
    for (int32_t i = 0; i < count; i++) {
        devices[i] = &devices_made[host_memory][i];
        *devices[i] = mst_device_head(&tables[host_memory]);
        snprintf(devices[i]->name, sizeof devices[i]->name, "plain");
    }
}

int64_t plain_live(void) { return atomic_load(&live); }
int64_t plain_allocations(void) { return atomic_load(&allocations); }
int64_t plain_syncs(void) { return atomic_load(&syncs); }
void plain_fail_sync(int32_t device, bool fail) { atomic_store(&sync_fails[device], fail); }
void plain_fail_allocations(bool fail) { atomic_store(&allocations_fail, fail); }

static void keep_line(void *user, muster_log_level level, const char *line) {
    (void)user, (void)level;
    pthread_mutex_lock(&log_lock);
    size_t used = strlen(log_text);
    snprintf(log_text + used, sizeof(log_text) - used, "%s\n", line);
    pthread_mutex_unlock(&log_lock);
}

const char *plain_log(void) { return log_text; }

mst_pool *plain_pool(int32_t count, int64_t spin_ns, int64_t warn_ns, int64_t fail_ns) {
    mst_device *devices[PLAIN_DEVICES];
    plain_devices(devices, count, true);
    log_text[0] = '\0';
    mst_pool_options options = {.spin_ns = spin_ns, .warn_after_ns = warn_ns, .fail_after_ns = fail_ns, .pin = true, .log = keep_line};
    mst_pool *pool = NULL;
    assert_int_equal(mst_pool_create(&options, devices, count, &pool), MUSTER_OK);
    return pool;
}

void plain_random_hook(void) {
    static _Thread_local uint32_t state;
    if (state == 0) state = (uint32_t)(uintptr_t)&state | 1;
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    if (state % 7 == 0) sched_yield();
    if (state % 31 == 0) nanosleep(&(struct timespec){0, state % 100000}, NULL);
}
