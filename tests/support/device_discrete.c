#include "device_discrete.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    ARENA_BYTES = 1 << 29, /* virtual: pages exist once they are touched */
    ALIGNMENT = 64,
    FENCE_BYTES = 64, /* behind each block, to notice who writes there */
    QUEUE_LENGTH = 64,
    FRESH = 0xCD,
    STALE = 0xDD,
    FENCE = 0xEE,
};

typedef struct discrete_block {
    int64_t offset, bytes, span; /* span: bytes, rounding and fence */
} discrete_block;

/* One piece of work: a copy, a kernel with its own parameters, or a wait for an event.
 * Addresses are already those of the alias. */
typedef struct discrete_work {
    mst_host_kernel kernel;
    struct discrete_device *awaited; /* a wait, for position `bytes` of its queue `awaited_queue` */
    mst_queue awaited_queue;
    void *to;
    const void *from;
    int64_t bytes;
    _Alignas(64) char parameters[MST_LAUNCH_MAX];
} discrete_work;

enum { QUEUES = 2 };

/* Served by a thread of its own. Under the device's lock, but for works[issued], which belongs to
 * the issuing thread. */
typedef struct discrete_queue {
    struct discrete_device *discrete;
    pthread_t thread;
    discrete_work *works; /* [QUEUE_LENGTH] */
    int64_t issued, finished;
    uint64_t random;
} discrete_queue;

typedef struct discrete_event {
    mst_device_event head;
    mst_queue queue;
    int64_t position;
} discrete_event;

typedef struct discrete_device {
    mst_device head;
    mst_device *previous; /* whose context the thread had before enter */
    int32_t ordinal;
    int64_t reserved;    /* bytes that an allocation in flight may have */
    int64_t event_count; /* created, and not destroyed */
    char *base;          /* what the program sees: PROT_NONE */
    char *alias;         /* the same pages, for the device's own thread */
    pid_t process;
    atomic_flag issuing;

    discrete_block *blocks; /* sorted by offset */
    int64_t block_count, block_capacity;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    discrete_queue queues[QUEUES];
    bool closing;
    muster_status failure;
    char message[MST_MESSAGE_SIZE];

    int32_t longest_us;
} discrete_device;

static _Atomic int64_t live_blocks, live_host_blocks, locked_ranges, async_copies;
static _Atomic int32_t stalled_ordinal = -1;
static _Atomic bool strict_in_flight;
static _Thread_local mst_device *current_context;
static _Atomic int32_t chosen_delay_us = -1;
static _Atomic uint64_t chosen_seed;

int64_t mst_discrete_live(void) { return atomic_load(&live_blocks); }
int64_t mst_discrete_live_host(void) { return atomic_load(&live_host_blocks); }
int64_t mst_discrete_locked(void) { return atomic_load(&locked_ranges); }
int64_t mst_discrete_async_copies(void) { return atomic_load(&async_copies); }
void mst_discrete_stall(int32_t ordinal) { atomic_store(&stalled_ordinal, ordinal); }
void mst_discrete_refuse_in_flight(bool refuse) { atomic_store(&strict_in_flight, refuse); }
mst_device *mst_discrete_context(void) { return current_context; }
void mst_discrete_set_context(mst_device *device) { current_context = device; }

void mst_discrete_set_delays(int32_t longest_us, uint64_t seed) {
    atomic_store(&chosen_seed, seed);
    atomic_store(&chosen_delay_us, longest_us);
}

static void misuse(const discrete_device *discrete, const char *sentence) {
    fprintf(stderr, "device %s: %s\n", discrete->head.name, sentence);
    abort();
}

static discrete_device *begin_issue(mst_device *device) {
    discrete_device *discrete = (discrete_device *)device;
    if (atomic_flag_test_and_set(&discrete->issuing)) misuse(discrete, "two threads issue at the same time");
    return discrete;
}

static muster_status end_issue(discrete_device *discrete, muster_status status) {
    atomic_flag_clear(&discrete->issuing);
    return status;
}

/* ---- the device's own thread ---- */

/* xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled",
 * 2016). */
static void wait_a_little(discrete_queue *queue) {
    const discrete_device *discrete = queue->discrete;
    if (discrete->longest_us <= 0) return;
    queue->random ^= queue->random >> 12;
    queue->random ^= queue->random << 25;
    queue->random ^= queue->random >> 27;
    usleep((useconds_t)((queue->random * 0x2545F4914F6CDD1Du >> 33) % ((uint64_t)discrete->longest_us + 1)));
}

static bool is_closing(discrete_device *discrete) {
    pthread_mutex_lock(&discrete->lock);
    const bool closing = discrete->closing;
    pthread_mutex_unlock(&discrete->lock);
    return closing;
}

/* A stalled device does nothing until the stall or the device ends. */
static void wait_while_stalled(discrete_device *discrete) {
    while (atomic_load(&stalled_ordinal) == discrete->ordinal && !is_closing(discrete)) usleep(500);
}

static muster_status await(const discrete_work *work) {
    discrete_device *of = work->awaited;
    pthread_mutex_lock(&of->lock);
    while (of->queues[work->awaited_queue].finished < work->bytes && !of->closing) pthread_cond_wait(&of->changed, &of->lock);
    pthread_mutex_unlock(&of->lock);
    return MUSTER_OK;
}

static muster_status run_work(const discrete_work *work) {
    if (work->awaited) return await(work);
    if (work->kernel) return work->kernel(work->parameters);
    memcpy(work->to, work->from, (size_t)work->bytes);
    return MUSTER_OK;
}

static void run_next(discrete_queue *queue, const discrete_work *work, bool dropped) {
    discrete_device *discrete = queue->discrete;
    wait_a_little(queue);
    wait_while_stalled(discrete);
    const bool runs = !dropped && !discrete->head.lost;
    muster_status status = runs ? run_work(work) : MUSTER_OK;
    if (runs && queue == &discrete->queues[MST_QUEUE_COPY] && !work->awaited) atomic_fetch_add(&async_copies, 1);
    pthread_mutex_lock(&discrete->lock);
    if (status != MUSTER_OK) {
        discrete->failure = status;
        mst_error_save(discrete->message);
    }
}

/* After a failure the rest of the queues is dropped until the next sync, as a host device would not
 * have been given it. */
static void *serve(void *argument) {
    discrete_queue *queue = argument;
    discrete_device *discrete = queue->discrete;
    pthread_mutex_lock(&discrete->lock);
    for (;;) {
        while (queue->finished == queue->issued && !discrete->closing) pthread_cond_wait(&discrete->changed, &discrete->lock);
        if (queue->finished == queue->issued) break;
        const bool dropped = discrete->failure != MUSTER_OK;
        pthread_mutex_unlock(&discrete->lock);
        run_next(queue, &queue->works[queue->finished % QUEUE_LENGTH], dropped); /* comes back with the lock */
        queue->finished++;
        pthread_cond_broadcast(&discrete->changed);
    }
    pthread_mutex_unlock(&discrete->lock);
    return NULL;
}

/* With the lock: sleeps for a millisecond or until something changes, then calls the interrupt,
 * which may end the wait. */
static muster_status wait_for_change(discrete_device *discrete) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 1000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&discrete->changed, &discrete->lock, &until);
    if (!discrete->head.interrupt) return MUSTER_OK;
    pthread_mutex_unlock(&discrete->lock);
    const muster_status status = discrete->head.interrupt(discrete->head.interrupt_user);
    pthread_mutex_lock(&discrete->lock);
    return status;
}

/* The next free place of the queue; waits while it is full. Only the issuing thread fills it, so
 * that no lock is held meanwhile. */
static muster_status next_work(discrete_device *discrete, mst_queue which, discrete_work **work) {
    discrete_queue *queue = &discrete->queues[which];
    muster_status status = MUSTER_OK;
    pthread_mutex_lock(&discrete->lock);
    while (queue->issued - queue->finished == QUEUE_LENGTH && status == MUSTER_OK) status = wait_for_change(discrete);
    *work = &queue->works[queue->issued % QUEUE_LENGTH];
    pthread_mutex_unlock(&discrete->lock);
    if (status == MUSTER_OK) (*work)->kernel = NULL, (*work)->awaited = NULL;
    return status;
}

static void submit(discrete_device *discrete, mst_queue which) {
    pthread_mutex_lock(&discrete->lock);
    discrete->queues[which].issued++;
    pthread_cond_broadcast(&discrete->changed);
    pthread_mutex_unlock(&discrete->lock);
}

/* ---- opening and closing ---- */

static muster_status map_arena(discrete_device *discrete) {
    if (mst_memory_refuse()) return mst_out_of_memory("discrete device: arena", ARENA_BYTES);
    int file = memfd_create("muster-discrete", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, ARENA_BYTES) != 0) {
        if (file >= 0) close(file);
        return mst_error(MUSTER_SYSTEM, "discrete device: arena: the system refused a memory file of %d bytes", ARENA_BYTES);
    }
    void *base = mmap(NULL, ARENA_BYTES, PROT_NONE, MAP_SHARED, file, 0);
    void *alias = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (base == MAP_FAILED || alias == MAP_FAILED) {
        if (base != MAP_FAILED) munmap(base, ARENA_BYTES);
        if (alias != MAP_FAILED) munmap(alias, ARENA_BYTES);
        return mst_error(MUSTER_SYSTEM, "discrete device: arena: the system refused a mapping of %d bytes", ARENA_BYTES);
    }
    discrete->base = base;
    discrete->alias = alias;
    return MUSTER_OK;
}

static void unmap_arena(discrete_device *discrete) {
    munmap(discrete->alias, ARENA_BYTES);
    munmap(discrete->base, ARENA_BYTES);
}

static muster_status start_thread(discrete_queue *queue) {
    sigset_t all, before;
    sigfillset(&all);
    if (mst_memory_refuse()) return mst_out_of_memory("discrete device: thread", 0);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are not for this thread */
    int failed = pthread_create(&queue->thread, NULL, serve, queue);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? mst_error(MUSTER_SYSTEM, "discrete device: thread: %s", strerror(failed)) : MUSTER_OK;
}

static void stop_threads(discrete_device *discrete, int32_t count) {
    pthread_mutex_lock(&discrete->lock);
    discrete->closing = true;
    pthread_cond_broadcast(&discrete->changed);
    pthread_mutex_unlock(&discrete->lock);
    for (int32_t q = 0; q < count; q++) pthread_join(discrete->queues[q].thread, NULL);
    pthread_cond_destroy(&discrete->changed);
    pthread_mutex_destroy(&discrete->lock);
}

static muster_status start_threads(discrete_device *discrete) {
    pthread_mutex_init(&discrete->lock, NULL);
    pthread_cond_init(&discrete->changed, NULL);
    for (int32_t q = 0; q < QUEUES; q++) {
        discrete->queues[q].discrete = discrete;
        muster_status status = start_thread(&discrete->queues[q]);
        if (status == MUSTER_OK) continue;
        stop_threads(discrete, q);
        return status;
    }
    return MUSTER_OK;
}

static void free_queues(discrete_device *discrete) {
    for (int32_t q = 0; q < QUEUES; q++) mst_free(discrete->queues[q].works);
}

static muster_status make_queues(discrete_device *discrete) {
    for (int32_t q = 0; q < QUEUES; q++) {
        discrete->queues[q].works = mst_alloc(QUEUE_LENGTH * sizeof(discrete_work));
        if (!discrete->queues[q].works) return mst_out_of_memory("discrete device: queue", QUEUE_LENGTH * sizeof(discrete_work));
    }
    return MUSTER_OK;
}

static void choose_delays(discrete_device *discrete, const char *argument) {
    const char *delay = getenv("MUSTER_DISCRETE_DELAY_US"), *seed = getenv("MUSTER_DISCRETE_SEED");
    bool chosen = atomic_load(&chosen_delay_us) >= 0;
    discrete->longest_us = chosen ? atomic_load(&chosen_delay_us) : delay ? atoi(delay) : 0;
    uint64_t start = chosen ? atomic_load(&chosen_seed) : seed ? strtoull(seed, NULL, 10) : 0;
    for (uint64_t q = 0; q < QUEUES; q++) /* never 0 */
        discrete->queues[q].random = ((start + strtoull(argument, NULL, 10) + 1) * 0x9E3779B97F4A7C15u ^ q << 32) | 1;
}

static muster_status start(discrete_device *discrete, const char *argument) {
    snprintf(discrete->head.name, sizeof discrete->head.name, "discrete %.40s", argument);
    discrete->process = getpid();
    choose_delays(discrete, argument);
    discrete->ordinal = atoi(argument);
    muster_status status = make_queues(discrete);
    if (status == MUSTER_OK) status = map_arena(discrete);
    if (status == MUSTER_OK) {
        status = start_threads(discrete);
        if (status == MUSTER_OK) return status;
        unmap_arena(discrete);
    }
    free_queues(discrete);
    return status;
}

static muster_status discrete_open(const mst_device_table *table, const char *argument, mst_device **device) {
    if (argument[0] == '\0' || strspn(argument, "0123456789") != strlen(argument)) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "muster_runtime_open: devices: expected discrete:<ordinal>, received \"discrete:%.100s\"",
                         argument);
    }
    discrete_device *discrete = mst_alloc(sizeof *discrete);
    if (!discrete) return mst_out_of_memory("discrete device", sizeof *discrete);
    discrete->head = mst_device_head(table);
    muster_status status = start(discrete, argument);
    if (status == MUSTER_OK)
        *device = &discrete->head;
    else
        mst_free(discrete);
    return status;
}

static void discrete_close(mst_device *device) {
    if (!device) return;
    discrete_device *discrete = begin_issue(device);
    if (discrete->process == getpid()) { /* a forked child has no such thread, and its lock may be held for ever */
        stop_threads(discrete, QUEUES);
        if (discrete->block_count > 0) misuse(discrete, "closed while blocks are not released");
        if (discrete->event_count > 0) misuse(discrete, "closed while events are not destroyed");
    } else {
        atomic_fetch_sub(&live_blocks, discrete->block_count);
    }
    unmap_arena(discrete);
    mst_free(discrete->blocks);
    free_queues(discrete);
    mst_free(discrete);
}

/* ---- memory ---- */

/* First fit: the first gap of `span` bytes, before the block `*position`. */
static bool find_gap(const discrete_device *discrete, int64_t span, int64_t *position, int64_t *offset) {
    *offset = 0;
    for (*position = 0; *position < discrete->block_count; (*position)++) {
        const discrete_block *block = &discrete->blocks[*position];
        if (block->offset - *offset >= span) return true;
        *offset = block->offset + block->span;
    }
    return ARENA_BYTES - *offset >= span;
}

static muster_status allocate(discrete_device *discrete, int64_t bytes, void **address) {
    int64_t position, offset, span;
    if (bytes < 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: bytes: expected at least 0, received %lld", discrete->head.name, (long long)bytes);
    if (discrete->head.in_flight && atomic_load(&strict_in_flight)) {
        if (bytes > discrete->reserved) return mst_out_of_memory(discrete->head.name, bytes);
        discrete->reserved -= bytes;
    }
    if (mst_memory_refuse() || bytes > ARENA_BYTES) return mst_out_of_memory(discrete->head.name, bytes);
    span = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + FENCE_BYTES;
    if (!find_gap(discrete, span, &position, &offset)) return mst_out_of_memory(discrete->head.name, bytes);
    MUSTER_TRY(mst_grow((void **)&discrete->blocks, &discrete->block_capacity, discrete->block_count + 1, sizeof *discrete->blocks,
                        "discrete device: blocks"));
    memmove(discrete->blocks + position + 1, discrete->blocks + position,
            (size_t)(discrete->block_count - position) * sizeof *discrete->blocks);
    discrete->blocks[position] = (discrete_block){offset, bytes, span};
    discrete->block_count++;
    memset(discrete->alias + offset, FRESH, (size_t)bytes);
    memset(discrete->alias + offset + bytes, FENCE, (size_t)(span - bytes));
    atomic_fetch_add(&live_blocks, 1);
    *address = discrete->base + offset;
    return MUSTER_OK;
}

static muster_status discrete_allocate(mst_device *device, int64_t bytes, void **address) {
    discrete_device *discrete = begin_issue(device);
    return end_issue(discrete, allocate(discrete, bytes, address));
}

static bool is_idle(discrete_device *discrete) {
    pthread_mutex_lock(&discrete->lock);
    bool idle = true;
    for (int32_t q = 0; q < QUEUES; q++) idle = idle && discrete->queues[q].issued == discrete->queues[q].finished;
    pthread_mutex_unlock(&discrete->lock);
    return idle;
}

static void release(discrete_device *discrete, int64_t index) {
    discrete_block block = discrete->blocks[index];
    const unsigned char *fence = (const unsigned char *)discrete->alias + block.offset + block.bytes;
    for (int64_t i = 0; i < block.span - block.bytes; i++) {
        if (fence[i] != FENCE) misuse(discrete, "something wrote behind a block");
    }
    memset(discrete->alias + block.offset, STALE, (size_t)block.span);
    discrete->block_count--;
    memmove(discrete->blocks + index, discrete->blocks + index + 1, (size_t)(discrete->block_count - index) * sizeof *discrete->blocks);
    atomic_fetch_sub(&live_blocks, 1);
}

static void discrete_release(mst_device *device, void *address) {
    if (!address) return;
    discrete_device *discrete = begin_issue(device);
    if (discrete->process == getpid() && !discrete->head.lost && !is_idle(discrete)) misuse(discrete, "release before sync");
    int64_t index = 0;
    while (index < discrete->block_count && discrete->base + discrete->blocks[index].offset != (char *)address) index++;
    if (index == discrete->block_count) misuse(discrete, "release of an address that was not allocated");
    release(discrete, index);
    end_issue(discrete, MUSTER_OK);
}

/* The alias of [address, address + bytes) if it lies in one block. */
static muster_status translate(discrete_device *discrete, const void *address, int64_t bytes, void **alias) {
    uintptr_t offset = (uintptr_t)address - (uintptr_t)discrete->base; /* huge for an address before the arena */
    for (int64_t i = 0; offset <= ARENA_BYTES && i < discrete->block_count; i++) {
        const discrete_block *block = &discrete->blocks[i];
        if ((int64_t)offset >= block->offset && (int64_t)offset + bytes <= block->offset + block->bytes) {
            *alias = discrete->alias + offset;
            return MUSTER_OK;
        }
    }
    return mst_error(MUSTER_INTERNAL, "%s: address: expected %lld bytes inside an allocated block of this device, received %p",
                     discrete->head.name, (long long)bytes, address);
}

/* ---- work ---- */

static muster_status enqueue_copy(discrete_device *discrete, mst_queue queue, void *to, const void *from, int64_t bytes) {
    discrete_work *work;
    MUSTER_TRY(next_work(discrete, queue, &work));
    work->to = to;
    work->from = from;
    work->bytes = bytes;
    submit(discrete, queue);
    return MUSTER_OK;
}

static muster_status copy_in(discrete_device *discrete, mst_queue queue, void *to_device, const void *from_host, int64_t bytes) {
    void *to;
    if (bytes <= 0) return MUSTER_OK;
    MUSTER_TRY(translate(discrete, to_device, bytes, &to));
    return enqueue_copy(discrete, queue, to, from_host, bytes);
}

static muster_status copy_out(discrete_device *discrete, void *to_host, const void *from_device, int64_t bytes) {
    void *from;
    if (bytes <= 0) return MUSTER_OK;
    MUSTER_TRY(translate(discrete, from_device, bytes, &from));
    return enqueue_copy(discrete, MST_QUEUE_COMPUTE, to_host, from, bytes);
}

static muster_status copy(discrete_device *discrete, void *to_device, const void *from_device, int64_t bytes) {
    void *to, *from;
    if (bytes <= 0) return MUSTER_OK;
    MUSTER_TRY(translate(discrete, to_device, bytes, &to));
    MUSTER_TRY(translate(discrete, from_device, bytes, &from));
    return enqueue_copy(discrete, MST_QUEUE_COMPUTE, to, from, bytes);
}

static muster_status discrete_copy_in(mst_device *device, void *to_device, const void *from_host, int64_t bytes) {
    discrete_device *discrete = begin_issue(device);
    return end_issue(discrete, copy_in(discrete, MST_QUEUE_COMPUTE, to_device, from_host, bytes));
}

static muster_status discrete_copy_in_async(mst_device *device, void *to_device, const void *from_host, int64_t bytes) {
    discrete_device *discrete = begin_issue(device);
    return end_issue(discrete, copy_in(discrete, MST_QUEUE_COPY, to_device, from_host, bytes));
}

static muster_status discrete_copy_out(mst_device *device, void *to_host, const void *from_device, int64_t bytes) {
    discrete_device *discrete = begin_issue(device);
    return end_issue(discrete, copy_out(discrete, to_host, from_device, bytes));
}

static muster_status discrete_copy(mst_device *device, void *to_device, const void *from_device, int64_t bytes) {
    discrete_device *discrete = begin_issue(device);
    return end_issue(discrete, copy(discrete, to_device, from_device, bytes));
}

static muster_status launch(discrete_device *discrete, mst_host_kernel kernel, const void *parameters, int64_t parameter_bytes,
                            const int32_t *offsets, int32_t offset_count) {
    if (parameter_bytes < 0 || parameter_bytes > MST_LAUNCH_MAX) {
        return mst_error(MUSTER_INTERNAL, "%s: parameters: expected at most %d bytes, received %lld", discrete->head.name, MST_LAUNCH_MAX,
                         (long long)parameter_bytes);
    }
    discrete_work *work; /* filled in place: not the device's before submit */
    MUSTER_TRY(next_work(discrete, MST_QUEUE_COMPUTE, &work));
    if (parameter_bytes > 0) memcpy(work->parameters, parameters, (size_t)parameter_bytes);
    for (int32_t i = 0; i < offset_count; i++) {
        void *address;
        if (offsets[i] < 0 || offsets[i] + (int64_t)sizeof address > parameter_bytes) {
            return mst_error(MUSTER_INTERNAL, "%s: offsets: expected an address inside %lld bytes of parameters, received offset %d",
                             discrete->head.name, (long long)parameter_bytes, (int)offsets[i]);
        }
        memcpy(&address, work->parameters + offsets[i], sizeof address);
        if (!address) continue;
        MUSTER_TRY(translate(discrete, address, 0, &address));
        memcpy(work->parameters + offsets[i], &address, sizeof address);
    }
    work->kernel = kernel;
    submit(discrete, MST_QUEUE_COMPUTE);
    return MUSTER_OK;
}

static muster_status discrete_launch(mst_device *device, mst_host_kernel kernel, const void *parameters, int64_t parameter_bytes,
                                     const int32_t *offsets, int32_t offset_count) {
    discrete_device *discrete = begin_issue(device);
    return end_issue(discrete, launch(discrete, kernel, parameters, parameter_bytes, offsets, offset_count));
}

/* With the lock: the failure of what has been done, once. */
static muster_status take_failure(discrete_device *discrete) {
    const muster_status status = discrete->failure;
    discrete->failure = MUSTER_OK;
    return status == MUSTER_OK ? MUSTER_OK : mst_error_restore(status, discrete->message);
}

static bool all_done(const discrete_device *discrete) {
    return discrete->queues[MST_QUEUE_COMPUTE].finished == discrete->queues[MST_QUEUE_COMPUTE].issued &&
           discrete->queues[MST_QUEUE_COPY].finished == discrete->queues[MST_QUEUE_COPY].issued;
}

static muster_status discrete_synchronize(mst_device *device) {
    discrete_device *discrete = begin_issue(device);
    muster_status status = MUSTER_OK;
    pthread_mutex_lock(&discrete->lock);
    while (status == MUSTER_OK && !all_done(discrete)) status = wait_for_change(discrete);
    if (status == MUSTER_OK) status = take_failure(discrete);
    pthread_mutex_unlock(&discrete->lock);
    return end_issue(discrete, status);
}

static muster_status discrete_poll(mst_device *device, bool *done) {
    discrete_device *discrete = begin_issue(device);
    pthread_mutex_lock(&discrete->lock);
    *done = all_done(discrete);
    const muster_status status = *done ? take_failure(discrete) : MUSTER_OK;
    pthread_mutex_unlock(&discrete->lock);
    return end_issue(discrete, status);
}

/* ---- events ---- */

static discrete_device *event_device(mst_device_event *event) { return (discrete_device *)event->device; }

static muster_status discrete_event_create(mst_device *device, mst_device_event **event) {
    discrete_device *discrete = begin_issue(device);
    if (discrete->head.in_flight) misuse(discrete, "an event is made while collectives are in flight");
    discrete_event *made = mst_alloc(sizeof *made);
    *event = made ? &made->head : NULL;
    if (!made) return end_issue(discrete, mst_out_of_memory("discrete device: event", sizeof *made));
    *made = (discrete_event){.head.device = device};
    discrete->event_count++;
    return end_issue(discrete, MUSTER_OK);
}

static void discrete_event_destroy(mst_device_event *event) {
    discrete_device *discrete = begin_issue(event->device);
    discrete->event_count--;
    mst_free(event);
    end_issue(discrete, MUSTER_OK);
}

static muster_status discrete_event_record(mst_device_event *event, mst_queue queue) {
    discrete_device *discrete = begin_issue(event->device);
    discrete_event *recorded = (discrete_event *)event;
    recorded->queue = queue;
    recorded->position = discrete->queues[queue].issued;
    return end_issue(discrete, MUSTER_OK);
}

static muster_status discrete_event_wait(mst_device *device, mst_queue queue, mst_device_event *event) {
    discrete_device *discrete = begin_issue(device);
    const discrete_event *awaited = (const discrete_event *)event;
    discrete_work *work;
    muster_status status = next_work(discrete, queue, &work);
    if (status != MUSTER_OK) return end_issue(discrete, status);
    work->awaited = event_device(event);
    work->awaited_queue = awaited->queue;
    work->bytes = awaited->position;
    submit(discrete, queue);
    return end_issue(discrete, MUSTER_OK);
}

static muster_status discrete_event_query(mst_device_event *event, bool *done) {
    discrete_device *discrete = begin_issue(event->device);
    const discrete_event *asked = (const discrete_event *)event;
    pthread_mutex_lock(&discrete->lock);
    *done = discrete->queues[asked->queue].finished >= asked->position;
    pthread_mutex_unlock(&discrete->lock);
    return end_issue(discrete, MUSTER_OK);
}

/* ---- contexts and host memory ---- */

static muster_status discrete_enter(mst_device *device) {
    ((discrete_device *)device)->previous = current_context;
    current_context = device;
    return MUSTER_OK;
}

static muster_status discrete_leave(mst_device *device) {
    discrete_device *discrete = (discrete_device *)device;
    if (current_context != device) misuse(discrete, "left where it was not entered");
    current_context = discrete->previous;
    return MUSTER_OK;
}

static muster_status discrete_reserve(mst_device *device, int64_t bytes) {
    discrete_device *discrete = begin_issue(device);
    if (discrete->head.in_flight) misuse(discrete, "reserve while collectives are in flight");
    if (bytes > discrete->reserved) discrete->reserved = bytes;
    return end_issue(discrete, MUSTER_OK);
}

static muster_status discrete_host_allocate(mst_device *device, int64_t bytes, void **address) {
    discrete_device *discrete = begin_issue(device);
    if (!is_idle(discrete)) misuse(discrete, "host memory is made between calls only");
    *address = mst_alloc_uninitialised((size_t)bytes);
    if (*address) atomic_fetch_add(&live_host_blocks, 1);
    return end_issue(discrete, *address ? MUSTER_OK : mst_out_of_memory("discrete device: host memory", bytes));
}

static void discrete_host_release(mst_device *device, void *address) {
    discrete_device *discrete = begin_issue(device);
    if (!discrete->head.lost && discrete->process == getpid() && !is_idle(discrete))
        misuse(discrete, "host memory is released between calls only");
    if (address) atomic_fetch_sub(&live_host_blocks, 1);
    mst_free(address);
    end_issue(discrete, MUSTER_OK);
}

static muster_status discrete_pin(mst_device *device, void *address, int64_t bytes) {
    discrete_device *discrete = begin_issue(device);
    if (!is_idle(discrete)) misuse(discrete, "host memory is locked between calls only");
    if (mst_memory_refuse() || bytes > ARENA_BYTES) return end_issue(discrete, mst_out_of_memory("discrete device: lock", bytes));
    (void)address;
    atomic_fetch_add(&locked_ranges, 1);
    return end_issue(discrete, MUSTER_OK);
}

static void discrete_unpin(mst_device *device, void *address) {
    discrete_device *discrete = begin_issue(device);
    (void)address;
    atomic_fetch_sub(&locked_ranges, 1);
    end_issue(discrete, MUSTER_OK);
}

static const mst_device_memory_table memory = {
    .allocate = discrete_allocate,
    .release = discrete_release,
    .reserve = discrete_reserve,
    .copy_in = discrete_copy_in,
    .copy_out = discrete_copy_out,
    .copy = discrete_copy,
};

static const mst_device_queue_table queue = {
    .enter = discrete_enter,
    .leave = discrete_leave,
    .poll = discrete_poll,
    .copy_in_async = discrete_copy_in_async,
    .event_create = discrete_event_create,
    .event_destroy = discrete_event_destroy,
    .event_record = discrete_event_record,
    .event_wait = discrete_event_wait,
    .event_query = discrete_event_query,
};

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
    .launch = discrete_launch,
    .memory = &memory,
    .queue = &queue,
    .host_memory = &host_memory,
};

static muster_status register_outcome;
static void register_table(void) { register_outcome = mst_device_register(&discrete_table); }

muster_status mst_discrete_register(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_table);
    return register_outcome;
}
