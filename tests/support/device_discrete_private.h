/* What the files of the discrete device share. */
#ifndef MST_DEVICE_DISCRETE_PRIVATE_H
#define MST_DEVICE_DISCRETE_PRIVATE_H

#include "code_impl.h"
#include "device_discrete.h"
#include "shim/mst_shim.h"

#include <pthread.h>
#include <sys/types.h>

enum {
    DISCRETE_ARENA_BYTES = 1 << 29, /* virtual: pages exist once they are touched */
    DISCRETE_ALIGNMENT = 64,
    DISCRETE_QUEUE_LENGTH = 64,
    DISCRETE_QUEUES = MST_QUEUES,
};

typedef struct discrete_device discrete_device;
typedef struct discrete_work discrete_work;

typedef struct discrete_block {
    int64_t offset, bytes, span; /* span: bytes, rounding and fence */
} discrete_block;

/* One entry of a queue: a function that the device's thread runs, and its arguments. `bytes` is the
 * size of a copy, or the position that an awaited queue has to reach. */
typedef muster_status (*discrete_run)(discrete_device *device, const discrete_work *work);
struct discrete_work {
    discrete_run run;
    void *to; /* addresses of copies: as the device's thread uses them */
    const void *from;
    int64_t bytes;
    discrete_device *awaited;
    mst_queue awaited_queue;
    const mst_shim_entry *kernel;
    int64_t blocks;
    mst_discrete_function function;
    void *user;
    _Alignas(64) char parameters[MST_CODE_PARAMETERS_MAX]; /* of a kernel or of a matrix product */
};

/* Served by a thread of its own. Guarded by the device's lock, except works[issued], which belongs
 * to the issuing thread. */
typedef struct discrete_queue {
    discrete_device *device;
    pthread_t thread;
    discrete_work *works; /* [DISCRETE_QUEUE_LENGTH] */
    int64_t issued, finished;
    uint64_t random;
} discrete_queue;

struct discrete_device {
    mst_device head;
    mst_device *previous; /* whose context the thread had before enter */
    int32_t ordinal;
    int64_t reserved;    /* bytes that an allocation in flight may have */
    int64_t event_count; /* created, and not destroyed */
    char *base;          /* the device addresses: PROT_NONE */
    char *alias;         /* the same pages, for the device's own threads */
    /* For each 64 bytes of the arena: how many of them are allocated. The device's threads read it.
     * */
    _Atomic uint8_t *allocated;
    pid_t process;
    atomic_flag issuing;

    discrete_block *blocks; /* sorted by offset */
    int64_t block_count, block_capacity;

    const mst_shim_entry **kernels; /* the built-in kernels, by their place */
    int32_t kernel_count;
    uint64_t random; /* of the number of blocks in a launch */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    discrete_queue queues[DISCRETE_QUEUES];
    bool closing;
    muster_status failure;
    char message[MST_MESSAGE_SIZE];

    int32_t longest_us;
};

/* ---- device_discrete.c ---- */
void discrete_misuse(const discrete_device *device, const char *sentence);
discrete_device *discrete_begin_issue(mst_device *device);
muster_status discrete_end_issue(discrete_device *device, muster_status status);
/* The next number of an xorshift64* generator (Vigna, "An experimental exploration of Marsaglia's
 * xorshift generators, scrambled", 2016), whose state is not 0. */
uint64_t discrete_random(uint64_t *state);

/* ---- device_discrete_memory.c ---- */
extern const mst_device_memory_table discrete_memory;
muster_status discrete_map_arena(discrete_device *device);
void discrete_unmap_arena(discrete_device *device);
/* Frees the list of blocks; some of them may be live in a child process. */
void discrete_free_blocks(discrete_device *device);
/* Issuing thread: sets *alias to where the device's thread finds [address, address + bytes), which
 * must lie in one block. */
muster_status discrete_translate(discrete_device *device, const void *address, int64_t bytes, void **alias);
/* Any thread: the alias of an allocated address; NULL if the address is not allocated. */
void *discrete_alias(const discrete_device *device, const void *address);

/* ---- device_discrete_queue.c ---- */
extern const mst_device_queue_table discrete_queue_table;
muster_status discrete_make_queues(discrete_device *device);
void discrete_free_queues(discrete_device *device);
muster_status discrete_start_threads(discrete_device *device);
void discrete_stop_threads(discrete_device *device, int32_t count);
/* Sets *work to the next free place of the queue, cleared except for its parameters; waits while
 * the queue is full. Only the issuing thread fills places, so that no lock is held meanwhile. */
muster_status discrete_next_work(discrete_device *device, mst_queue queue, discrete_run run, discrete_work **work);
void discrete_submit(discrete_device *device, mst_queue queue);
bool discrete_is_idle(discrete_device *device);
muster_status discrete_synchronize(mst_device *device);
muster_status discrete_enqueue_copy(discrete_device *device, mst_queue queue, void *to, const void *from, int64_t bytes);

/* ---- device_discrete_code.c ---- */
extern const mst_device_code_table discrete_code;
muster_status discrete_find_kernels(discrete_device *device);

#endif
