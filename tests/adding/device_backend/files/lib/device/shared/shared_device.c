/* The table of shared devices, and their queue: a thread per device, which makes the copies. */
#include "shared_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- the queue ---- */

static void *run_queue(void *argument) {
    mst_shared_device *shared = argument;
    pthread_mutex_lock(&shared->lock);
    for (;;) {
        while (shared->finished == shared->issued && !shared->ending) pthread_cond_wait(&shared->changed, &shared->lock);
        if (shared->finished == shared->issued) break;
        const mst_shared_copy copy = shared->queue[shared->finished % MST_SHARED_QUEUE];
        pthread_mutex_unlock(&shared->lock);
        memmove(copy.to, copy.from, (size_t)copy.bytes);
        pthread_mutex_lock(&shared->lock);
        shared->finished++;
        pthread_cond_broadcast(&shared->changed);
    }
    pthread_mutex_unlock(&shared->lock);
    return NULL;
}

/* With the lock: waits until at most `most` copies are left. Asks the device's interrupt from time
 * to time. */
static muster_status wait_for_copies(mst_shared_device *shared, int64_t most) {
    muster_status status = MUSTER_OK;
    while (status == MUSTER_OK && shared->issued - shared->finished > most) {
        struct timespec soon;
        clock_gettime(CLOCK_REALTIME, &soon);
        soon.tv_nsec += 5000000;
        soon.tv_sec += soon.tv_nsec / 1000000000;
        soon.tv_nsec %= 1000000000;
        if (pthread_cond_timedwait(&shared->changed, &shared->lock, &soon) != ETIMEDOUT || !shared->head.interrupt) continue;
        pthread_mutex_unlock(&shared->lock);
        status = shared->head.interrupt(shared->head.interrupt_user);
        pthread_mutex_lock(&shared->lock);
    }
    return status;
}

static muster_status shared_copy(mst_device *device, void *to, const void *from, int64_t bytes) {
    mst_shared_device *shared = (mst_shared_device *)device;
    if (bytes <= 0) return MUSTER_OK;
    pthread_mutex_lock(&shared->lock);
    const muster_status status = wait_for_copies(shared, MST_SHARED_QUEUE - 1);
    if (status == MUSTER_OK) {
        shared->queue[shared->issued++ % MST_SHARED_QUEUE] = (mst_shared_copy){to, from, bytes};
        pthread_cond_broadcast(&shared->changed);
    }
    pthread_mutex_unlock(&shared->lock);
    return status;
}

static muster_status shared_synchronize(mst_device *device) {
    mst_shared_device *shared = (mst_shared_device *)device;
    pthread_mutex_lock(&shared->lock);
    const muster_status status = wait_for_copies(shared, 0);
    pthread_mutex_unlock(&shared->lock);
    return status;
}

/* Nothing to reserve: the system may be asked for memory at any time. */
static muster_status shared_reserve(mst_device *device, int64_t bytes) {
    (void)device, (void)bytes;
    return MUSTER_OK;
}

/* ---- opening and closing ---- */

static muster_status read_ordinal(const char *argument) {
    char *end = NULL;
    errno = 0;
    const long value = strtol(argument, &end, 10);
    if (argument[0] >= '0' && argument[0] <= '9' && *end == '\0' && errno == 0 && value <= INT32_MAX) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "muster_runtime_open: devices: expected shared:<ordinal>, received \"shared:%.100s\"",
                     argument);
}

static muster_status shared_open(const mst_device_table *table, const char *argument, mst_device **device) {
    MUSTER_TRY(read_ordinal(argument));
    mst_shared_device *shared = mst_alloc(sizeof *shared);
    if (!shared) return mst_out_of_memory("muster_runtime_open: shared device", sizeof *shared);
    shared->head = mst_device_head(table);
    shared->process = getpid();
    snprintf(shared->head.name, sizeof shared->head.name, "shared %s", argument);
    pthread_mutex_init(&shared->lock, NULL);
    pthread_cond_init(&shared->changed, NULL);
    const int error = mst_memory_refuse() ? ENOMEM : pthread_create(&shared->thread, NULL, run_queue, shared);
    if (error) {
        pthread_cond_destroy(&shared->changed);
        pthread_mutex_destroy(&shared->lock);
        mst_free(shared);
        return mst_error(error == ENOMEM ? MUSTER_OUT_OF_MEMORY : MUSTER_SYSTEM,
                         "muster_runtime_open: shared device: expected a thread, received \"%s\"", strerror(error));
    }
    *device = &shared->head;
    return MUSTER_OK;
}

/* In a child of fork nobody waits for the thread, which is the parent's. */
static void shared_close(mst_device *device) {
    mst_shared_device *shared = (mst_shared_device *)device;
    if (shared && shared->process == getpid()) {
        pthread_mutex_lock(&shared->lock);
        shared->ending = true;
        pthread_cond_broadcast(&shared->changed);
        pthread_mutex_unlock(&shared->lock);
        pthread_join(shared->thread, NULL);
        pthread_cond_destroy(&shared->changed);
        pthread_mutex_destroy(&shared->lock);
    }
    if (shared) mst_shared_release_all(shared);
    mst_free(shared);
}

static muster_status shared_adopt(mst_device *device, const void *address, int64_t bytes, const char *where) {
    (void)address, (void)bytes;
    return mst_error(MUSTER_UNSUPPORTED, "%s: address: expected memory that %s has allocated, since it knows no other", where,
                     device->name);
}

static const mst_device_memory_table memory = {
    .allocate = mst_shared_allocate,
    .release = mst_shared_release,
    .reserve = shared_reserve,
    .copy_in = shared_copy,
    .copy_out = shared_copy,
    .copy = shared_copy,
    .adopt = shared_adopt,
};

const mst_device_table mst_shared_device_table = {
    .backend = "shared", .open = shared_open, .close = shared_close, .synchronize = shared_synchronize, .memory = &memory};
