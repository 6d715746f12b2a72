/* Page-locked host memory, known by its range. */
#include "state_impl.h"

#include <stdlib.h>
#include <string.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER; /* written by what page-locks only */
static sim_locked **ranges;                                /* by start, apart from each other */
static int count, capacity;

static int upper(const char *address) {
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (ranges[middle]->start > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool overlaps(int place, const char *start, size_t bytes) {
    if (place > 0 && ranges[place - 1]->start + ranges[place - 1]->bytes > start) return true;
    return place < count && start + bytes > ranges[place]->start;
}

static bool grow(void) {
    if (count < capacity) return true;
    int larger = capacity ? 2 * capacity : 64;
    sim_locked **moved = realloc(ranges, sizeof *moved * (size_t)larger);
    if (!moved) return false;
    ranges = moved;
    capacity = larger;
    return true;
}

static sim_result insert(sim_locked *range) {
    int place = upper(range->start);
    if (overlaps(place, range->start, range->bytes)) return SIM_HOST_MEMORY_ALREADY_REGISTERED;
    if (!grow()) return SIM_OUT_OF_MEMORY;
    memmove(ranges + place + 1, ranges + place, sizeof *ranges * (size_t)(count - place));
    ranges[place] = range;
    count++;
    return SIM_OK;
}

sim_result sim_locked_add(int device, void *start, size_t bytes, bool portable, bool allocated) {
    sim_locked *range = calloc(1, sizeof *range);
    if (!range) return SIM_OUT_OF_MEMORY;
    range->start = start;
    range->bytes = bytes;
    range->device = device;
    range->portable = portable;
    range->allocated = allocated;
    pthread_rwlock_wrlock(&lock);
    sim_result result = insert(range);
    pthread_rwlock_unlock(&lock);
    if (result) free(range);
    return result;
}

static void take_out(int place) {
    memmove(ranges + place, ranges + place + 1, sizeof *ranges * (size_t)(count - place - 1));
    count--;
}

static void give_back(sim_locked *range) {
    if (range->allocated) free(range->start);
    free(range);
}

sim_result sim_locked_remove(void *start, bool allocated, const char *symbol) {
    pthread_rwlock_wrlock(&lock);
    int place = upper(start) - 1;
    sim_locked *range = place >= 0 && ranges[place]->start == start && ranges[place]->allocated == allocated ? ranges[place] : NULL;
    if (range) take_out(place);
    pthread_rwlock_unlock(&lock);
    if (!range) return allocated ? SIM_INVALID_VALUE : SIM_HOST_MEMORY_NOT_REGISTERED;
    int users = atomic_load_explicit(&range->users, memory_order_relaxed);
    if (users && !sim_device_error(range->device))
        sim_hazard("%s: a queued copy still uses the page-locked memory of %zu bytes", symbol, range->bytes);
    if (users) sim_count_wait(symbol);
    for (int i = 0; users && i < SIM_DEVICES; i++) sim_device_wait(i);
    give_back(range);
    return SIM_OK;
}

sim_locked *sim_locked_find(int device, const void *host, size_t bytes) {
    const char *address = host;
    pthread_rwlock_rdlock(&lock);
    int place = upper(address) - 1;
    sim_locked *range = place >= 0 ? ranges[place] : NULL;
    if (range && ((size_t)(address - range->start) >= range->bytes || bytes > range->bytes - (size_t)(address - range->start)))
        range = NULL;
    if (range && device >= 0 && !range->portable && range->device != device) range = NULL;
    pthread_rwlock_unlock(&lock);
    return range;
}

bool sim_memory_locked(int device, const void *host, size_t bytes) { return sim_locked_find(device, host, bytes) != NULL; }

int sim_locked_count(int device, bool allocated) {
    int found = 0;
    pthread_rwlock_rdlock(&lock);
    for (int i = 0; i < count; i++) found += ranges[i]->device == device && ranges[i]->allocated == allocated;
    pthread_rwlock_unlock(&lock);
    return found;
}

int sim_locked_release_all(int device) {
    int found = 0;
    pthread_rwlock_wrlock(&lock);
    for (int i = count - 1; i >= 0; i--) {
        if (ranges[i]->device != device) continue;
        sim_locked *range = ranges[i];
        take_out(i);
        give_back(range);
        found++;
    }
    if (!count) {
        free(ranges);
        ranges = NULL;
        capacity = 0;
    }
    pthread_rwlock_unlock(&lock);
    return found;
}
