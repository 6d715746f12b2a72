#include "device_far.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

/* One piece of work: a copy, or a kernel with its own parameters. Addresses are already those of the alias. */
typedef struct far_work {
    mst_host_kernel kernel;
    void *to;
    const void *from;
    int64_t bytes;
    _Alignas(64) char parameters[MST_LAUNCH_MAX];
} far_work;

typedef struct far_device {
    mst_device head;
    char *base;  /* what the program sees: PROT_NONE */
    char *alias; /* the same pages, for the device's own thread */
    pid_t process;
    atomic_flag issuing;

    far_block *blocks; /* sorted by offset */
    int64_t block_count, block_capacity;

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    far_work *queue; /* [QUEUE_LENGTH]; the rest of this struct is under `lock` */
    int64_t issued, finished;
    bool closing;
    muster_status failure;
    char message[MST_MESSAGE_SIZE];

    int32_t longest_us;
    uint64_t random;
} far_device;

static _Atomic int64_t live_blocks;
static _Atomic int32_t chosen_delay_us = -1;
static _Atomic uint64_t chosen_seed;

int64_t mst_far_live(void) { return atomic_load(&live_blocks); }

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

/* xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016). */
static void wait_a_little(far_device *far) {
    if (far->longest_us <= 0) return;
    far->random ^= far->random >> 12;
    far->random ^= far->random << 25;
    far->random ^= far->random >> 27;
    usleep((useconds_t)((far->random * 0x2545F4914F6CDD1Du >> 33) % ((uint64_t)far->longest_us + 1)));
}

static muster_status run_work(const far_work *work) {
    if (work->kernel) return work->kernel(work->parameters);
    memcpy(work->to, work->from, (size_t)work->bytes);
    return MUSTER_OK;
}

/* After a failure the rest of the queue is dropped until the next sync, as a host device would not have been given it. */
static void *serve(void *argument) {
    far_device *far = argument;
    pthread_mutex_lock(&far->lock);
    for (;;) {
        while (far->finished == far->issued && !far->closing) pthread_cond_wait(&far->changed, &far->lock);
        if (far->finished == far->issued) break;
        const far_work *work = &far->queue[far->finished % QUEUE_LENGTH];
        bool dropped = far->failure != MUSTER_OK;
        pthread_mutex_unlock(&far->lock);
        wait_a_little(far);
        muster_status status = dropped ? MUSTER_OK : run_work(work);
        pthread_mutex_lock(&far->lock);
        if (status != MUSTER_OK) {
            far->failure = status;
            mst_error_save(far->message);
        }
        far->finished++;
        pthread_cond_broadcast(&far->changed);
    }
    pthread_mutex_unlock(&far->lock);
    return NULL;
}

/* The next free place of the queue; waits while it is full. Only the issuing thread fills it, so that no lock is held meanwhile. */
static far_work *next_work(far_device *far) {
    pthread_mutex_lock(&far->lock);
    while (far->issued - far->finished == QUEUE_LENGTH) pthread_cond_wait(&far->changed, &far->lock);
    far_work *work = &far->queue[far->issued % QUEUE_LENGTH];
    pthread_mutex_unlock(&far->lock);
    return work;
}

static void submit(far_device *far) {
    pthread_mutex_lock(&far->lock);
    far->issued++;
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

static muster_status start_thread(far_device *far) {
    sigset_t all, before;
    sigfillset(&all);
    if (mst_memory_refuse()) return mst_out_of_memory("far device: thread", 0);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are not for this thread */
    int failed = pthread_create(&far->thread, NULL, serve, far);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? mst_error(MUSTER_SYSTEM, "far device: thread: %s", strerror(failed)) : MUSTER_OK;
}

static void choose_delays(far_device *far, const char *argument) {
    const char *delay = getenv("MUSTER_FAR_DELAY_US"), *seed = getenv("MUSTER_FAR_SEED");
    bool chosen = atomic_load(&chosen_delay_us) >= 0;
    far->longest_us = chosen ? atomic_load(&chosen_delay_us) : delay ? atoi(delay) : 0;
    uint64_t start = chosen ? atomic_load(&chosen_seed) : seed ? strtoull(seed, NULL, 10) : 0;
    far->random = (start + strtoull(argument, NULL, 10) + 1) * 0x9E3779B97F4A7C15u | 1; /* never 0 */
}

static muster_status start(far_device *far, const char *argument) {
    snprintf(far->head.name, sizeof far->head.name, "far %.40s", argument);
    far->head.cpu = -1;
    far->process = getpid();
    choose_delays(far, argument);
    far->queue = mst_alloc(QUEUE_LENGTH * sizeof *far->queue);
    if (!far->queue) return mst_out_of_memory("far device: queue", QUEUE_LENGTH * sizeof *far->queue);
    muster_status status = map_arena(far);
    if (status == MUSTER_OK) {
        pthread_mutex_init(&far->lock, NULL);
        pthread_cond_init(&far->changed, NULL);
        status = start_thread(far);
        if (status == MUSTER_OK) return status;
        pthread_cond_destroy(&far->changed);
        pthread_mutex_destroy(&far->lock);
        unmap_arena(far);
    }
    mst_free(far->queue);
    return status;
}

static muster_status far_open(const mst_device_table *table, const char *argument, mst_device **device) {
    if (argument[0] == '\0' || strspn(argument, "0123456789") != strlen(argument)) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "muster_open: devices: expected far:<ordinal>, received \"far:%.100s\"", argument);
    }
    far_device *far = mst_alloc(sizeof *far);
    if (!far) return mst_out_of_memory("far device", sizeof *far);
    far->head.table = table;
    muster_status status = start(far, argument);
    if (status == MUSTER_OK) *device = &far->head;
    else mst_free(far);
    return status;
}

static void stop_thread(far_device *far) {
    pthread_mutex_lock(&far->lock);
    far->closing = true;
    pthread_cond_broadcast(&far->changed);
    pthread_mutex_unlock(&far->lock);
    pthread_join(far->thread, NULL);
    pthread_cond_destroy(&far->changed);
    pthread_mutex_destroy(&far->lock);
}

static void far_close(mst_device *device) {
    if (!device) return;
    far_device *far = begin_issue(device);
    if (far->process == getpid()) { /* a forked child has no such thread, and its lock may be held for ever */
        stop_thread(far);
        if (far->block_count > 0) misuse(far, "closed while blocks are not released");
    } else {
        atomic_fetch_sub(&live_blocks, far->block_count);
    }
    unmap_arena(far);
    mst_free(far->blocks);
    mst_free(far->queue);
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
    if (bytes < 0) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: bytes: expected at least 0, received %lld", far->head.name, (long long)bytes);
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
    bool idle = far->issued == far->finished;
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
    if (far->process == getpid() && !is_idle(far)) misuse(far, "release before sync");
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
    return mst_error(MUSTER_INTERNAL, "%s: address: expected %lld bytes inside an allocated block of this device, received %p", far->head.name,
                     (long long)bytes, address);
}

/* ---- work ---- */

static muster_status enqueue_copy(far_device *far, void *to, const void *from, int64_t bytes) {
    far_work *work = next_work(far);
    work->kernel = NULL;
    work->to = to;
    work->from = from;
    work->bytes = bytes;
    submit(far);
    return MUSTER_OK;
}

static muster_status copy_in(far_device *far, void *to_device, const void *from_host, int64_t bytes) {
    void *to;
    if (bytes <= 0) return MUSTER_OK;
    MUSTER_TRY(translate(far, to_device, bytes, &to));
    return enqueue_copy(far, to, from_host, bytes);
}

static muster_status copy_out(far_device *far, void *to_host, const void *from_device, int64_t bytes) {
    void *from;
    if (bytes <= 0) return MUSTER_OK;
    MUSTER_TRY(translate(far, from_device, bytes, &from));
    return enqueue_copy(far, to_host, from, bytes);
}

static muster_status copy(far_device *far, void *to_device, const void *from_device, int64_t bytes) {
    void *to, *from;
    if (bytes <= 0) return MUSTER_OK;
    MUSTER_TRY(translate(far, to_device, bytes, &to));
    MUSTER_TRY(translate(far, from_device, bytes, &from));
    return enqueue_copy(far, to, from, bytes);
}

static muster_status far_copy_in(mst_device *device, void *to_device, const void *from_host, int64_t bytes) {
    far_device *far = begin_issue(device);
    return end_issue(far, copy_in(far, to_device, from_host, bytes));
}

static muster_status far_copy_out(mst_device *device, void *to_host, const void *from_device, int64_t bytes) {
    far_device *far = begin_issue(device);
    return end_issue(far, copy_out(far, to_host, from_device, bytes));
}

static muster_status far_copy(mst_device *device, void *to_device, const void *from_device, int64_t bytes) {
    far_device *far = begin_issue(device);
    return end_issue(far, copy(far, to_device, from_device, bytes));
}

static muster_status launch(far_device *far, mst_host_kernel kernel, const void *parameters, int64_t parameter_bytes, const int32_t *offsets,
                            int32_t offset_count) {
    if (parameter_bytes < 0 || parameter_bytes > MST_LAUNCH_MAX) {
        return mst_error(MUSTER_INTERNAL, "%s: parameters: expected at most %d bytes, received %lld", far->head.name, MST_LAUNCH_MAX,
                         (long long)parameter_bytes);
    }
    far_work *work = next_work(far); /* filled in place: not the device's before submit */
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
    submit(far);
    return MUSTER_OK;
}

static muster_status far_launch(mst_device *device, mst_host_kernel kernel, const void *parameters, int64_t parameter_bytes,
                                const int32_t *offsets, int32_t offset_count) {
    far_device *far = begin_issue(device);
    return end_issue(far, launch(far, kernel, parameters, parameter_bytes, offsets, offset_count));
}

static muster_status far_sync(mst_device *device) {
    far_device *far = begin_issue(device);
    pthread_mutex_lock(&far->lock);
    while (far->finished != far->issued) pthread_cond_wait(&far->changed, &far->lock);
    muster_status status = far->failure;
    far->failure = MUSTER_OK;
    if (status != MUSTER_OK) mst_error_restore(status, far->message);
    pthread_mutex_unlock(&far->lock);
    return end_issue(far, status);
}

static const mst_device_table far_table = {
    .backend = "far",
    .flags = 0,
    .open = far_open,
    .close = far_close,
    .allocate = far_allocate,
    .release = far_release,
    .copy_in = far_copy_in,
    .copy_out = far_copy_out,
    .copy = far_copy,
    .launch = far_launch,
    .sync = far_sync,
};

static muster_status register_outcome;
static void register_table(void) { register_outcome = mst_device_register(&far_table); }

muster_status mst_far_register(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_table);
    return register_outcome;
}
