#include "device_far.h"

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

typedef struct far_block {
    int64_t offset, bytes, span; /* span: bytes, rounding and fence */
} far_block;

/* One piece of work: a copy, a kernel with its own parameters, or a wait for an event.
 * Addresses are already those of the alias. */
typedef struct far_work {
    mst_host_kernel kernel;
    struct far_device *awaited; /* a wait, for position `bytes` of its queue `awaited_queue` */
    mst_queue awaited_queue;
    void *to;
    const void *from;
    int64_t bytes;
    _Alignas(64) char parameters[MST_LAUNCH_MAX];
} far_work;

enum { QUEUES = 2 };

/* Served by a thread of its own. Under the device's lock, but for works[issued], which belongs to
 * the issuing thread. */
typedef struct far_queue {
    struct far_device *far;
    pthread_t thread;
    far_work *works; /* [QUEUE_LENGTH] */
    int64_t issued, finished;
    uint64_t random;
} far_queue;

typedef struct far_event {
    mst_device_event head;
    mst_queue queue;
    int64_t position;
} far_event;

typedef struct far_device {
    mst_device head;
    mst_device *previous; /* whose context the thread had before enter */
    int32_t ordinal;
    int64_t reserved;    /* bytes that an allocation in flight may have */
    int64_t event_count; /* created, and not destroyed */
    char *base;          /* what the program sees: PROT_NONE */
    char *alias;         /* the same pages, for the device's own thread */
    pid_t process;
    atomic_flag issuing;

    far_block *blocks; /* sorted by offset */
    int64_t block_count, block_capacity;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    far_queue queues[QUEUES];
    bool closing;
    muster_status failure;
    char message[MST_MESSAGE_SIZE];

    int32_t longest_us;
} far_device;

static _Atomic int64_t live_blocks, live_host_blocks, locked_ranges, async_copies;
static _Atomic int32_t stalled_ordinal = -1;
static _Atomic bool strict_in_flight;
static _Thread_local mst_device *current_context;
static _Atomic int32_t chosen_delay_us = -1;
static _Atomic uint64_t chosen_seed;

int64_t mst_far_live(void) { return atomic_load(&live_blocks); }
int64_t mst_far_live_host(void) { return atomic_load(&live_host_blocks); }
int64_t mst_far_locked(void) { return atomic_load(&locked_ranges); }
int64_t mst_far_async_copies(void) { return atomic_load(&async_copies); }
void mst_far_stall(int32_t ordinal) { atomic_store(&stalled_ordinal, ordinal); }
void mst_far_refuse_in_flight(bool refuse) { atomic_store(&strict_in_flight, refuse); }
mst_device *mst_far_context(void) { return current_context; }
void mst_far_set_context(mst_device *device) { current_context = device; }

void mst_far_set_delays(int32_t longest_us, uint64_t seed) {
    atomic_store(&chosen_seed, seed);
    atomic_store(&chosen_delay_us, longest_us);
}

static void misuse(const far_device *far, const char *sentence) {
    fprintf(stderr, "device %s: %s\n", far->head.name, sentence);
    abort();
}

static far_device *begin_issue(mst_device *device) {
    far_device *far = (far_device *)device;
    if (atomic_flag_test_and_set(&far->issuing)) misuse(far, "two threads issue at the same time");
    return far;
}

static muster_status end_issue(far_device *far, muster_status status) {
    atomic_flag_clear(&far->issuing);
    return status;
}

/* ---- the device's own thread ---- */

/* xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled",
 * 2016). */
static void wait_a_little(far_queue *queue) {
    const far_device *far = queue->far;
    if (far->longest_us <= 0) return;
    queue->random ^= queue->random >> 12;
    queue->random ^= queue->random << 25;
    queue->random ^= queue->random >> 27;
    usleep((useconds_t)((queue->random * 0x2545F4914F6CDD1Du >> 33) % ((uint64_t)far->longest_us + 1)));
}

static bool is_closing(far_device *far) {
    pthread_mutex_lock(&far->lock);
    const bool closing = far->closing;
    pthread_mutex_unlock(&far->lock);
    return closing;
}

/* A stalled device does nothing until the stall or the device ends. */
static void wait_while_stalled(far_device *far) {
    while (atomic_load(&stalled_ordinal) == far->ordinal && !is_closing(far)) usleep(500);
}

static muster_status await(const far_work *work) {
    far_device *of = work->awaited;
    pthread_mutex_lock(&of->lock);
    while (of->queues[work->awaited_queue].finished < work->bytes && !of->closing) pthread_cond_wait(&of->changed, &of->lock);
    pthread_mutex_unlock(&of->lock);
    return MUSTER_OK;
}

static muster_status run_work(const far_work *work) {
    if (work->awaited) return await(work);
    if (work->kernel) return work->kernel(work->parameters);
    memcpy(work->to, work->from, (size_t)work->bytes);
    return MUSTER_OK;
}

static void run_next(far_queue *queue, const far_work *work, bool dropped) {
    far_device *far = queue->far;
    wait_a_little(queue);
    wait_while_stalled(far);
    const bool runs = !dropped && !far->head.lost;
    muster_status status = runs ? run_work(work) : MUSTER_OK;
    if (runs && queue == &far->queues[MST_QUEUE_COPY] && !work->awaited) atomic_fetch_add(&async_copies, 1);
    pthread_mutex_lock(&far->lock);
    if (status != MUSTER_OK) {
        far->failure = status;
        mst_error_save(far->message);
    }
}

/* After a failure the rest of the queues is dropped until the next sync, as a host device would not
 * have been given it. */
static void *serve(void *argument) {
    far_queue *queue = argument;
    far_device *far = queue->far;
    pthread_mutex_lock(&far->lock);
    for (;;) {
        while (queue->finished == queue->issued && !far->closing) pthread_cond_wait(&far->changed, &far->lock);
        if (queue->finished == queue->issued) break;
        const bool dropped = far->failure != MUSTER_OK;
        pthread_mutex_unlock(&far->lock);
        run_next(queue, &queue->works[queue->finished % QUEUE_LENGTH], dropped); /* comes back with the lock */
        queue->finished++;
        pthread_cond_broadcast(&far->changed);
    }
    pthread_mutex_unlock(&far->lock);
    return NULL;
}

/* With the lock: sleeps for a millisecond or until something changes, then lets whoever watches the
 * wait end it. */
static muster_status wait_for_change(far_device *far) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 1000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&far->changed, &far->lock, &until);
    if (!far->head.interrupt) return MUSTER_OK;
    pthread_mutex_unlock(&far->lock);
    const muster_status status = far->head.interrupt(far->head.interrupt_user);
    pthread_mutex_lock(&far->lock);
    return status;
}

/* The next free place of the queue; waits while it is full. Only the issuing thread fills it, so
 * that no lock is held meanwhile. */
static muster_status next_work(far_device *far, mst_queue which, far_work **work) {
    far_queue *queue = &far->queues[which];
    muster_status status = MUSTER_OK;
    pthread_mutex_lock(&far->lock);
    while (queue->issued - queue->finished == QUEUE_LENGTH && status == MUSTER_OK) status = wait_for_change(far);
    *work = &queue->works[queue->issued % QUEUE_LENGTH];
    pthread_mutex_unlock(&far->lock);
    if (status == MUSTER_OK) (*work)->kernel = NULL, (*work)->awaited = NULL;
    return status;
}

static void submit(far_device *far, mst_queue which) {
    pthread_mutex_lock(&far->lock);
    far->queues[which].issued++;
    pthread_cond_broadcast(&far->changed);
    pthread_mutex_unlock(&far->lock);
}

/* ---- opening and closing ---- */

static muster_status map_arena(far_device *far) {
    if (mst_memory_refuse()) return mst_out_of_memory("far device: arena", ARENA_BYTES);
    int file = memfd_create("muster-far", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, ARENA_BYTES) != 0) {
        if (file >= 0) close(file);
        return mst_error(MUSTER_SYSTEM, "far device: arena: the system refused a memory file of %d bytes", ARENA_BYTES);
    }
    void *base = mmap(NULL, ARENA_BYTES, PROT_NONE, MAP_SHARED, file, 0);
    void *alias = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (base == MAP_FAILED || alias == MAP_FAILED) {
        if (base != MAP_FAILED) munmap(base, ARENA_BYTES);
        if (alias != MAP_FAILED) munmap(alias, ARENA_BYTES);
        return mst_error(MUSTER_SYSTEM, "far device: arena: the system refused a mapping of %d bytes", ARENA_BYTES);
    }
    far->base = base;
    far->alias = alias;
    return MUSTER_OK;
}

static void unmap_arena(far_device *far) {
    munmap(far->alias, ARENA_BYTES);
    munmap(far->base, ARENA_BYTES);
}

static muster_status start_thread(far_queue *queue) {
    sigset_t all, before;
    sigfillset(&all);
    if (mst_memory_refuse()) return mst_out_of_memory("far device: thread", 0);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are not for this thread */
    int failed = pthread_create(&queue->thread, NULL, serve, queue);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? mst_error(MUSTER_SYSTEM, "far device: thread: %s", strerror(failed)) : MUSTER_OK;
}

static void stop_threads(far_device *far, int32_t count) {
    pthread_mutex_lock(&far->lock);
    far->closing = true;
    pthread_cond_broadcast(&far->changed);
    pthread_mutex_unlock(&far->lock);
    for (int32_t q = 0; q < count; q++) pthread_join(far->queues[q].thread, NULL);
    pthread_cond_destroy(&far->changed);
    pthread_mutex_destroy(&far->lock);
}

static muster_status start_threads(far_device *far) {
    pthread_mutex_init(&far->lock, NULL);
    pthread_cond_init(&far->changed, NULL);
    for (int32_t q = 0; q < QUEUES; q++) {
        far->queues[q].far = far;
        muster_status status = start_thread(&far->queues[q]);
        if (status == MUSTER_OK) continue;
        stop_threads(far, q);
        return status;
    }
    return MUSTER_OK;
}

static void free_queues(far_device *far) {
    for (int32_t q = 0; q < QUEUES; q++) mst_free(far->queues[q].works);
}

static muster_status make_queues(far_device *far) {
    for (int32_t q = 0; q < QUEUES; q++) {
        far->queues[q].works = mst_alloc(QUEUE_LENGTH * sizeof(far_work));
        if (!far->queues[q].works) return mst_out_of_memory("far device: queue", QUEUE_LENGTH * sizeof(far_work));
    }
    return MUSTER_OK;
}

static void choose_delays(far_device *far, const char *argument) {
    const char *delay = getenv("MUSTER_FAR_DELAY_US"), *seed = getenv("MUSTER_FAR_SEED");
    bool chosen = atomic_load(&chosen_delay_us) >= 0;
    far->longest_us = chosen ? atomic_load(&chosen_delay_us) : delay ? atoi(delay) : 0;
    uint64_t start = chosen ? atomic_load(&chosen_seed) : seed ? strtoull(seed, NULL, 10) : 0;
    for (uint64_t q = 0; q < QUEUES; q++) /* never 0 */
        far->queues[q].random = ((start + strtoull(argument, NULL, 10) + 1) * 0x9E3779B97F4A7C15u ^ q << 32) | 1;
}

static muster_status start(far_device *far, const char *argument) {
    snprintf(far->head.name, sizeof far->head.name, "far %.40s", argument);
    far->process = getpid();
    choose_delays(far, argument);
    far->ordinal = atoi(argument);
    muster_status status = make_queues(far);
    if (status == MUSTER_OK) status = map_arena(far);
    if (status == MUSTER_OK) {
        status = start_threads(far);
        if (status == MUSTER_OK) return status;
        unmap_arena(far);
    }
    free_queues(far);
    return status;
}

static muster_status far_open(const mst_device_table *table, const char *argument, mst_device **device) {
    if (argument[0] == '\0' || strspn(argument, "0123456789") != strlen(argument)) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "muster_runtime_open: devices: expected far:<ordinal>, received \"far:%.100s\"",
                         argument);
    }
    far_device *far = mst_alloc(sizeof *far);
    if (!far) return mst_out_of_memory("far device", sizeof *far);
    far->head = mst_device_head(table);
    muster_status status = start(far, argument);
    if (status == MUSTER_OK)
        *device = &far->head;
    else
        mst_free(far);
    return status;
}

static void far_close(mst_device *device) {
    if (!device) return;
    far_device *far = begin_issue(device);
    if (far->process == getpid()) { /* a forked child has no such thread, and its lock may be held for ever */
        stop_threads(far, QUEUES);
        if (far->block_count > 0) misuse(far, "closed while blocks are not released");
        if (far->event_count > 0) misuse(far, "closed while events are not destroyed");
    } else {
        atomic_fetch_sub(&live_blocks, far->block_count);
    }
    unmap_arena(far);
    mst_free(far->blocks);
    free_queues(far);
    mst_free(far);
}

/* ---- memory ---- */

/* First fit: the first gap of `span` bytes, before the block `*position`. */
static bool find_gap(const far_device *far, int64_t span, int64_t *position, int64_t *offset) {
    *offset = 0;
    for (*position = 0; *position < far->block_count; (*position)++) {
        const far_block *block = &far->blocks[*position];
        if (block->offset - *offset >= span) return true;
        *offset = block->offset + block->span;
    }
    return ARENA_BYTES - *offset >= span;
}

static muster_status allocate(far_device *far, int64_t bytes, void **address) {
    int64_t position, offset, span;
    if (bytes < 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: bytes: expected at least 0, received %lld", far->head.name, (long long)bytes);
    if (far->head.in_flight && atomic_load(&strict_in_flight)) {
        if (bytes > far->reserved) return mst_out_of_memory(far->head.name, bytes);
        far->reserved -= bytes;
    }
    if (mst_memory_refuse() || bytes > ARENA_BYTES) return mst_out_of_memory(far->head.name, bytes);
    span = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + FENCE_BYTES;
    if (!find_gap(far, span, &position, &offset)) return mst_out_of_memory(far->head.name, bytes);
    MUSTER_TRY(mst_grow((void **)&far->blocks, &far->block_capacity, far->block_count + 1, sizeof *far->blocks, "far device: blocks"));
    memmove(far->blocks + position + 1, far->blocks + position, (size_t)(far->block_count - position) * sizeof *far->blocks);
    far->blocks[position] = (far_block){offset, bytes, span};
    far->block_count++;
    memset(far->alias + offset, FRESH, (size_t)bytes);
    memset(far->alias + offset + bytes, FENCE, (size_t)(span - bytes));
    atomic_fetch_add(&live_blocks, 1);
    *address = far->base + offset;
    return MUSTER_OK;
}

static muster_status far_allocate(mst_device *device, int64_t bytes, void **address) {
    far_device *far = begin_issue(device);
    return end_issue(far, allocate(far, bytes, address));
}

static bool is_idle(far_device *far) {
    pthread_mutex_lock(&far->lock);
    bool idle = true;
    for (int32_t q = 0; q < QUEUES; q++) idle = idle && far->queues[q].issued == far->queues[q].finished;
    pthread_mutex_unlock(&far->lock);
    return idle;
}

static void release(far_device *far, int64_t index) {
    far_block block = far->blocks[index];
    const unsigned char *fence = (const unsigned char *)far->alias + block.offset + block.bytes;
    for (int64_t i = 0; i < block.span - block.bytes; i++) {
        if (fence[i] != FENCE) misuse(far, "something wrote behind a block");
    }
    memset(far->alias + block.offset, STALE, (size_t)block.span);
    far->block_count--;
    memmove(far->blocks + index, far->blocks + index + 1, (size_t)(far->block_count - index) * sizeof *far->blocks);
    atomic_fetch_sub(&live_blocks, 1);
}

static void far_release(mst_device *device, void *address) {
    if (!address) return;
    far_device *far = begin_issue(device);
    if (far->process == getpid() && !far->head.lost && !is_idle(far)) misuse(far, "release before sync");
    int64_t index = 0;
    while (index < far->block_count && far->base + far->blocks[index].offset != (char *)address) index++;
    if (index == far->block_count) misuse(far, "release of an address that was not allocated");
    release(far, index);
    end_issue(far, MUSTER_OK);
}

/* The alias of [address, address + bytes) if it lies in one block. */
static muster_status translate(far_device *far, const void *address, int64_t bytes, void **alias) {
    uintptr_t offset = (uintptr_t)address - (uintptr_t)far->base; /* huge for an address before the arena */
    for (int64_t i = 0; offset <= ARENA_BYTES && i < far->block_count; i++) {
        const far_block *block = &far->blocks[i];
        if ((int64_t)offset >= block->offset && (int64_t)offset + bytes <= block->offset + block->bytes) {
            *alias = far->alias + offset;
            return MUSTER_OK;
        }
    }
    return mst_error(MUSTER_INTERNAL, "%s: address: expected %lld bytes inside an allocated block of this device, received %p",
                     far->head.name, (long long)bytes, address);
}

/* ---- work ---- */

static muster_status enqueue_copy(far_device *far, mst_queue queue, void *to, const void *from, int64_t bytes) {
    far_work *work;
    MUSTER_TRY(next_work(far, queue, &work));
    work->to = to;
    work->from = from;
    work->bytes = bytes;
    submit(far, queue);
    return MUSTER_OK;
}

static muster_status copy_in(far_device *far, mst_queue queue, void *to_device, const void *from_host, int64_t bytes) {
    void *to;
    if (bytes <= 0) return MUSTER_OK;
    MUSTER_TRY(translate(far, to_device, bytes, &to));
    return enqueue_copy(far, queue, to, from_host, bytes);
}

static muster_status copy_out(far_device *far, void *to_host, const void *from_device, int64_t bytes) {
    void *from;
    if (bytes <= 0) return MUSTER_OK;
    MUSTER_TRY(translate(far, from_device, bytes, &from));
    return enqueue_copy(far, MST_QUEUE_COMPUTE, to_host, from, bytes);
}

static muster_status copy(far_device *far, void *to_device, const void *from_device, int64_t bytes) {
    void *to, *from;
    if (bytes <= 0) return MUSTER_OK;
    MUSTER_TRY(translate(far, to_device, bytes, &to));
    MUSTER_TRY(translate(far, from_device, bytes, &from));
    return enqueue_copy(far, MST_QUEUE_COMPUTE, to, from, bytes);
}

static muster_status far_copy_in(mst_device *device, void *to_device, const void *from_host, int64_t bytes) {
    far_device *far = begin_issue(device);
    return end_issue(far, copy_in(far, MST_QUEUE_COMPUTE, to_device, from_host, bytes));
}

static muster_status far_copy_in_async(mst_device *device, void *to_device, const void *from_host, int64_t bytes) {
    far_device *far = begin_issue(device);
    return end_issue(far, copy_in(far, MST_QUEUE_COPY, to_device, from_host, bytes));
}

static muster_status far_copy_out(mst_device *device, void *to_host, const void *from_device, int64_t bytes) {
    far_device *far = begin_issue(device);
    return end_issue(far, copy_out(far, to_host, from_device, bytes));
}

static muster_status far_copy(mst_device *device, void *to_device, const void *from_device, int64_t bytes) {
    far_device *far = begin_issue(device);
    return end_issue(far, copy(far, to_device, from_device, bytes));
}

static muster_status launch(far_device *far, mst_host_kernel kernel, const void *parameters, int64_t parameter_bytes,
                            const int32_t *offsets, int32_t offset_count) {
    if (parameter_bytes < 0 || parameter_bytes > MST_LAUNCH_MAX) {
        return mst_error(MUSTER_INTERNAL, "%s: parameters: expected at most %d bytes, received %lld", far->head.name, MST_LAUNCH_MAX,
                         (long long)parameter_bytes);
    }
    far_work *work; /* filled in place: not the device's before submit */
    MUSTER_TRY(next_work(far, MST_QUEUE_COMPUTE, &work));
    if (parameter_bytes > 0) memcpy(work->parameters, parameters, (size_t)parameter_bytes);
    for (int32_t i = 0; i < offset_count; i++) {
        void *address;
        if (offsets[i] < 0 || offsets[i] + (int64_t)sizeof address > parameter_bytes) {
            return mst_error(MUSTER_INTERNAL, "%s: offsets: expected an address inside %lld bytes of parameters, received offset %d",
                             far->head.name, (long long)parameter_bytes, (int)offsets[i]);
        }
        memcpy(&address, work->parameters + offsets[i], sizeof address);
        if (!address) continue;
        MUSTER_TRY(translate(far, address, 0, &address));
        memcpy(work->parameters + offsets[i], &address, sizeof address);
    }
    work->kernel = kernel;
    submit(far, MST_QUEUE_COMPUTE);
    return MUSTER_OK;
}

static muster_status far_launch(mst_device *device, mst_host_kernel kernel, const void *parameters, int64_t parameter_bytes,
                                const int32_t *offsets, int32_t offset_count) {
    far_device *far = begin_issue(device);
    return end_issue(far, launch(far, kernel, parameters, parameter_bytes, offsets, offset_count));
}

/* With the lock: the failure of what has been done, once. */
static muster_status take_failure(far_device *far) {
    const muster_status status = far->failure;
    far->failure = MUSTER_OK;
    return status == MUSTER_OK ? MUSTER_OK : mst_error_restore(status, far->message);
}

static bool all_done(const far_device *far) {
    return far->queues[MST_QUEUE_COMPUTE].finished == far->queues[MST_QUEUE_COMPUTE].issued &&
           far->queues[MST_QUEUE_COPY].finished == far->queues[MST_QUEUE_COPY].issued;
}

static muster_status far_synchronize(mst_device *device) {
    far_device *far = begin_issue(device);
    muster_status status = MUSTER_OK;
    pthread_mutex_lock(&far->lock);
    while (status == MUSTER_OK && !all_done(far)) status = wait_for_change(far);
    if (status == MUSTER_OK) status = take_failure(far);
    pthread_mutex_unlock(&far->lock);
    return end_issue(far, status);
}

static muster_status far_poll(mst_device *device, bool *done) {
    far_device *far = begin_issue(device);
    pthread_mutex_lock(&far->lock);
    *done = all_done(far);
    const muster_status status = *done ? take_failure(far) : MUSTER_OK;
    pthread_mutex_unlock(&far->lock);
    return end_issue(far, status);
}

/* ---- events ---- */

static far_device *event_device(mst_device_event *event) { return (far_device *)event->device; }

static muster_status far_event_create(mst_device *device, mst_device_event **event) {
    far_device *far = begin_issue(device);
    if (far->head.in_flight) misuse(far, "an event is made while collectives are in flight");
    far_event *made = mst_alloc(sizeof *made);
    *event = made ? &made->head : NULL;
    if (!made) return end_issue(far, mst_out_of_memory("far device: event", sizeof *made));
    *made = (far_event){.head.device = device};
    far->event_count++;
    return end_issue(far, MUSTER_OK);
}

static void far_event_destroy(mst_device_event *event) {
    far_device *far = begin_issue(event->device);
    far->event_count--;
    mst_free(event);
    end_issue(far, MUSTER_OK);
}

static muster_status far_event_record(mst_device_event *event, mst_queue queue) {
    far_device *far = begin_issue(event->device);
    far_event *recorded = (far_event *)event;
    recorded->queue = queue;
    recorded->position = far->queues[queue].issued;
    return end_issue(far, MUSTER_OK);
}

static muster_status far_event_wait(mst_device *device, mst_queue queue, mst_device_event *event) {
    far_device *far = begin_issue(device);
    const far_event *awaited = (const far_event *)event;
    far_work *work;
    muster_status status = next_work(far, queue, &work);
    if (status != MUSTER_OK) return end_issue(far, status);
    work->awaited = event_device(event);
    work->awaited_queue = awaited->queue;
    work->bytes = awaited->position;
    submit(far, queue);
    return end_issue(far, MUSTER_OK);
}

static muster_status far_event_query(mst_device_event *event, bool *done) {
    far_device *far = begin_issue(event->device);
    const far_event *asked = (const far_event *)event;
    pthread_mutex_lock(&far->lock);
    *done = far->queues[asked->queue].finished >= asked->position;
    pthread_mutex_unlock(&far->lock);
    return end_issue(far, MUSTER_OK);
}

/* ---- contexts and host memory ---- */

static muster_status far_enter(mst_device *device) {
    ((far_device *)device)->previous = current_context;
    current_context = device;
    return MUSTER_OK;
}

static muster_status far_leave(mst_device *device) {
    far_device *far = (far_device *)device;
    if (current_context != device) misuse(far, "left where it was not entered");
    current_context = far->previous;
    return MUSTER_OK;
}

static muster_status far_reserve(mst_device *device, int64_t bytes) {
    far_device *far = begin_issue(device);
    if (far->head.in_flight) misuse(far, "reserve while collectives are in flight");
    if (bytes > far->reserved) far->reserved = bytes;
    return end_issue(far, MUSTER_OK);
}

static muster_status far_host_allocate(mst_device *device, int64_t bytes, void **address) {
    far_device *far = begin_issue(device);
    if (!is_idle(far)) misuse(far, "host memory is made between calls only");
    *address = mst_alloc_uninitialised((size_t)bytes);
    if (*address) atomic_fetch_add(&live_host_blocks, 1);
    return end_issue(far, *address ? MUSTER_OK : mst_out_of_memory("far device: host memory", bytes));
}

static void far_host_release(mst_device *device, void *address) {
    far_device *far = begin_issue(device);
    if (!far->head.lost && far->process == getpid() && !is_idle(far)) misuse(far, "host memory is released between calls only");
    if (address) atomic_fetch_sub(&live_host_blocks, 1);
    mst_free(address);
    end_issue(far, MUSTER_OK);
}

static muster_status far_pin(mst_device *device, void *address, int64_t bytes) {
    far_device *far = begin_issue(device);
    if (!is_idle(far)) misuse(far, "host memory is locked between calls only");
    if (mst_memory_refuse() || bytes > ARENA_BYTES) return end_issue(far, mst_out_of_memory("far device: lock", bytes));
    (void)address;
    atomic_fetch_add(&locked_ranges, 1);
    return end_issue(far, MUSTER_OK);
}

static void far_unpin(mst_device *device, void *address) {
    far_device *far = begin_issue(device);
    (void)address;
    atomic_fetch_sub(&locked_ranges, 1);
    end_issue(far, MUSTER_OK);
}

static const mst_device_memory_table memory = {
    .allocate = far_allocate,
    .release = far_release,
    .reserve = far_reserve,
    .copy_in = far_copy_in,
    .copy_out = far_copy_out,
    .copy = far_copy,
};

static const mst_device_queue_table queue = {
    .enter = far_enter,
    .leave = far_leave,
    .poll = far_poll,
    .copy_in_async = far_copy_in_async,
    .event_create = far_event_create,
    .event_destroy = far_event_destroy,
    .event_record = far_event_record,
    .event_wait = far_event_wait,
    .event_query = far_event_query,
};

static const mst_device_host_memory_table host_memory = {
    .allocate = far_host_allocate,
    .release = far_host_release,
    .pin = far_pin,
    .unpin = far_unpin,
};

static const mst_device_table far_table = {
    .backend = "far",
    .open = far_open,
    .close = far_close,
    .synchronize = far_synchronize,
    .launch = far_launch,
    .memory = &memory,
    .queue = &queue,
    .host_memory = &host_memory,
};

static muster_status register_outcome;
static void register_table(void) { register_outcome = mst_device_register(&far_table); }

muster_status mst_far_register(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_table);
    return register_outcome;
}
