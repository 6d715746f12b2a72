/* The backend "shared": a device whose memory lies in memory files (memfd_create), so that another
 * process that has the file can map the same memory. Copies run in the order of issue on a thread
 * of the device. It has no kernels, no programs and no events. */
#ifndef MST_SHARED_PRIVATE_H
#define MST_SHARED_PRIVATE_H

#include "device_impl.h"

#include <pthread.h>
#include <sys/types.h>

/* One block of memory: a file of its own, mapped once. */
typedef struct mst_shared_block {
    struct mst_shared_block *next;
    void *address;
    int64_t mapped;
    int file;
} mst_shared_block;

typedef struct mst_shared_copy {
    void *to;
    const void *from;
    int64_t bytes;
} mst_shared_copy;

enum { MST_SHARED_QUEUE = 64 };

typedef struct mst_shared_device {
    mst_device head;
    pid_t process; /* that has the thread: a child of fork has not */
    mst_shared_block *blocks;
    pthread_t thread;
    pthread_mutex_t lock; /* protects what follows */
    pthread_cond_t changed;
    mst_shared_copy queue[MST_SHARED_QUEUE];
    int64_t issued, finished;
    bool ending;
} mst_shared_device;

/* shared_memory.c. mst_shared_release_all is for a device that is closed. */
muster_status mst_shared_allocate(mst_device *device, int64_t bytes, void **address);
void mst_shared_release(mst_device *device, void *address);
void mst_shared_release_all(mst_shared_device *shared);

#endif
