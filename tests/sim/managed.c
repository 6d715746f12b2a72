/* Managed memory: the host and all GPUs use it by the same address. Here it is host memory that
 * kernels may touch. */
#include "state_impl.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, MOST = 64 };

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER; /* written by what allocates and frees only */
static sim_managed blocks[MOST];
static int count;

void *sim_managed_allocate(int device, size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, PAGE, (bytes + PAGE - 1) / PAGE * PAGE) != 0) return NULL;
    memset(memory, 0xFF, bytes);
    pthread_rwlock_wrlock(&lock);
    const bool fits = count < MOST;
    if (fits) blocks[count++] = (sim_managed){.start = memory, .bytes = bytes, .device = device};
    pthread_rwlock_unlock(&lock);
    if (fits) return memory;
    free(memory);
    return NULL;
}

/* The place of the block that begins there; -1: there is none. Under the lock. */
static int place_of(const void *start) {
    for (int i = 0; i < count; i++)
        if (blocks[i].start == start) return i;
    return -1;
}

bool sim_managed_release(void *start) {
    pthread_rwlock_wrlock(&lock);
    const int place = place_of(start);
    if (place >= 0) blocks[place] = blocks[--count];
    pthread_rwlock_unlock(&lock);
    if (place < 0) return false;
    for (int i = 0; i < SIM_DEVICES; i++) sim_device_wait(i);
    free(start);
    return true;
}

bool sim_managed_find(const void *address, size_t bytes, sim_managed *found) {
    bool known = false;
    pthread_rwlock_rdlock(&lock);
    for (int i = 0; i < count && !known; i++) {
        const size_t offset = (size_t)((const char *)address - blocks[i].start);
        known = offset < blocks[i].bytes && bytes <= blocks[i].bytes - offset;
        *found = blocks[i];
    }
    pthread_rwlock_unlock(&lock);
    return known;
}

bool sim_managed_touches(const void *address, size_t bytes) {
    bool touches = false;
    pthread_rwlock_rdlock(&lock);
    for (int i = 0; i < count; i++)
        touches |= (const char *)address < blocks[i].start + blocks[i].bytes && blocks[i].start < (const char *)address + bytes;
    pthread_rwlock_unlock(&lock);
    return touches;
}

int sim_managed_count(int device) {
    int found = 0;
    pthread_rwlock_rdlock(&lock);
    for (int i = 0; i < count; i++) found += blocks[i].device == device;
    pthread_rwlock_unlock(&lock);
    return found;
}

int sim_managed_release_all(int device) {
    int released = 0;
    pthread_rwlock_wrlock(&lock);
    for (int i = count; i-- > 0;) {
        if (blocks[i].device != device) continue;
        free(blocks[i].start);
        blocks[i] = blocks[--count];
        released++;
    }
    pthread_rwlock_unlock(&lock);
    return released;
}
