/* Page-locked host memory. What is locked are whole pages: two ranges cannot share one, and what
 * lies beside a range in its pages is locked with it. */
#include "state_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER; /* written by what page-locks only */
static sim_locked **ranges;                                /* by address, no page in two of them */
static int count, capacity;

static int upper(const char *address) {
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (ranges[middle]->low > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The first byte of the address's page. */
static char *page_of(const char *address) { return (char *)(uintptr_t)((uintptr_t)address / PAGE * PAGE); }
static char *page_behind(const char *address) { return page_of(address + PAGE - 1); }

/* A page of [low, high) is locked. place: that of upper(low). */
static bool overlaps(int place, const char *low, const char *high) {
    return (place > 0 && ranges[place - 1]->high > low) || (place < count && high > ranges[place]->low);
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
    int place = upper(range->low);
    if (overlaps(place, range->low, range->high)) return SIM_HOST_MEMORY_ALREADY_REGISTERED;
    if (!grow()) return SIM_OUT_OF_MEMORY;
    memmove(ranges + place + 1, ranges + place, sizeof *ranges * (size_t)(count - place));
    ranges[place] = range;
    count++;
    return SIM_OK;
}

sim_result sim_locked_add(int device, void *start, size_t bytes, unsigned flags) {
    sim_locked *range = calloc(1, sizeof *range);
    if (!range) return SIM_OUT_OF_MEMORY;
    range->start = start;
    range->bytes = bytes;
    range->low = page_of(start);
    range->high = page_behind(range->start + bytes);
    range->device = device;
    range->portable = flags & SIM_LOCKED_PORTABLE;
    range->allocated = flags & SIM_LOCKED_ALLOCATED;
    range->read_only = flags & SIM_LOCKED_READ_ONLY;
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
    if (range->allocated) {
        ASAN_UNPOISON_MEMORY_REGION(range->start, (size_t)(range->high - range->start));
        free(range->start);
    }
    free(range);
}

sim_result sim_locked_remove(void *start, bool allocated, const char *symbol) {
    pthread_rwlock_wrlock(&lock);
    int place = upper(start) - 1;
    bool known = place >= 0 && ranges[place]->high > (char *)start;
    sim_locked *range = known && ranges[place]->start == start && ranges[place]->allocated == allocated ? ranges[place] : NULL;
    if (range) take_out(place);
    pthread_rwlock_unlock(&lock);
    if (!range) return allocated || known ? SIM_INVALID_VALUE : SIM_HOST_MEMORY_NOT_REGISTERED;
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
    if (range && (address >= range->high || bytes > (size_t)(range->high - address))) range = NULL;
    if (range && device >= 0 && !range->portable && range->device != device) range = NULL;
    pthread_rwlock_unlock(&lock);
    return range;
}

bool sim_locked_in_part(const void *host, size_t bytes) {
    const char *address = host;
    pthread_rwlock_rdlock(&lock);
    int place = upper(address);
    bool inside = place > 0 && ranges[place - 1]->high > address && bytes <= (size_t)(ranges[place - 1]->high - address);
    bool touches = overlaps(place, page_of(address), page_behind(address + bytes));
    pthread_rwlock_unlock(&lock);
    return touches && !inside;
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

/* ---- how memory is mapped ---- */
sim_mapping sim_mapping_of(const void *start, size_t bytes) {
    const uintptr_t begin = (uintptr_t)start, end = begin + bytes;
    uintptr_t reached = begin; /* all before it is mapped */
    bool writable = true;
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512], rights[8];
    unsigned long low, high;
    while (maps && reached < end && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx %7s", &low, &high, rights) != 3 || high <= reached) continue;
        if (low > reached || rights[0] != 'r') break;
        writable &= rights[1] == 'w';
        reached = high;
    }
    if (maps) fclose(maps);
    return reached < end ? SIM_UNMAPPED : writable ? SIM_WRITABLE : SIM_READ_ONLY;
}
