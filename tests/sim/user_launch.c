/* A launch of a kernel of the user's: its parameters by their declared types, its accesses to
 * memory, and the threads that run its blocks.
 * */
#include "user_impl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_THREAD__
void __tsan_read_range(void *address, long bytes);
void __tsan_write_range(void *address, long bytes);

static void watch(const void *address, unsigned long bytes, int writes) {
    (writes ? __tsan_write_range : __tsan_read_range)((void *)(uintptr_t)address, (long)bytes);
}
void (*const user_watch)(const void *, unsigned long, int) = watch;
#else
void (*const user_watch)(const void *, unsigned long, int) = NULL;
#endif

/* ---- accesses ---- */
static sim_result illegal(const user_launch *what, const void *address, size_t bytes, bool writes, sim_result code, const char *why) {
    sim_hazard("device %d: kernel %s: illegal %s of %zu bytes at %p: %s", what->device, what->name, writes ? "write" : "read", bytes,
               address, why);
    return code;
}

/* `at`: within the alias range, for the device address. */
static sim_result access_device(const user_launch *what, mst_program_here *here, uintptr_t at, uint64_t address, size_t bytes,
                                size_t alignment, bool writes) {
    const void *shown = (const void *)(uintptr_t)address;
    sim_block *block = sim_memory_find(-1, address, bytes);
    if (!block) return illegal(what, shown, bytes, writes, SIM_ILLEGAL_ADDRESS, "not within an allocation");
    if (!sim_reaches(what->device, sim_memory_device(shown)))
        return illegal(what, shown, bytes, writes, SIM_ILLEGAL_ADDRESS, "of a device that it may not reach");
    if (at % alignment) return illegal(what, shown, bytes, writes, SIM_MISALIGNED_ADDRESS, "misaligned");
    mst_program_range *place = &here->seen[here->next++ % MST_PROGRAM_SEEN];
    *place = (mst_program_range){at - (address - block->address), block->bytes};
    if (user_watch) user_watch((const void *)at, bytes, writes);
    return SIM_OK;
}

sim_result user_access(user_launch *what, mst_program_here *here, const void *address, size_t bytes, size_t alignment, bool writes) {
    uintptr_t at = (uintptr_t)address, local = (uintptr_t)here + (uintptr_t)what->program->local_offset;
    if (at - local < what->program->local_bytes || at - what->program->image < what->program->image_bytes) return SIM_OK;
    uint64_t device_address = sim_memory_unalias(address);
    if (device_address) return access_device(what, here, at, device_address, bytes, alignment, writes);
    if (sim_memory_is_device_range(at))
        return illegal(what, address, bytes, writes, SIM_ILLEGAL_ADDRESS, "simulated kernels know device addresses only as parameters");
    if (sim_memory_locked(what->device, address, bytes)) return SIM_OK;
    return illegal(what, address, bytes, writes, SIM_ILLEGAL_ADDRESS, at < 4096 ? "NULL" : "no device memory");
}

/* ---- parameters ---- */
/* Device addresses become what the stream's threads use; whether they are in an allocation shows
 * when they are used. */
static void translate(user_launch *what) {
    for (int i = 0; i < what->kernel->parameter_count; i++) {
        unsigned char *place = what->packed + what->kernel->parameters[i].offset;
        uint64_t address;
        if (!what->kernel->parameters[i].pointer) continue;
        memcpy(&address, place, sizeof address);
        if (!sim_memory_is_device_range(address)) continue;
        void *alias = sim_memory_anywhere(address);
        memcpy(place, &alias, sizeof alias);
    }
}

/* From either way to pass them; false: neither, or both, or fewer bytes. */
static bool pack(const mst_program_kernel *kernel, void **parameters, void **extra, unsigned char *packed) {
    if (parameters) {
        for (int i = 0; i < kernel->parameter_count; i++) {
            if (!parameters[i]) return false;
            memcpy(packed + kernel->parameters[i].offset, parameters[i], kernel->parameters[i].bytes);
        }
        return !extra;
    }
    const void *buffer = NULL;
    size_t bytes = 0;
    if (kernel->parameter_count == 0) return true;
    /* CU_LAUNCH_PARAM_END is NULL, BUFFER_POINTER 1, BUFFER_SIZE 2 */
    for (int i = 0; extra && extra[i] != NULL; i += 2) {
        if (extra[i] == (void *)1)
            buffer = extra[i + 1];
        else if (extra[i] == (void *)2)
            bytes = *(const size_t *)extra[i + 1];
        else
            return false;
    }
    if (!buffer || bytes < kernel->packed_bytes) return false;
    memcpy(packed, buffer, kernel->packed_bytes);
    return true;
}

/* ---- the run ---- */
void user_fail(user_launch *what, sim_result why) {
    unsigned none = 0;
    atomic_compare_exchange_strong_explicit(&what->failed, &none, why, memory_order_relaxed, memory_order_relaxed);
}

static void *help(void *what) {
    user_blocks_run(what);
    return NULL;
}

static uint64_t threads_of(const mst_program_position *p) { return (uint64_t)p->x * p->y * p->z; }

static void look_for_races(user_launch *what) {
    uint64_t seed, threads = threads_of(&what->threads);
    if (user_races_wanted(threads * threads_of(&what->blocks), &seed)) what->races = user_races_begin((int)threads, seed);
}

/* Blocks of a large launch run in several threads, so that what they do to one address races as on
 * a GPU. Not under ThreadSanitizer, which would report what is legal there: the same value written
 * twice. */
enum { HELPERS = 2, HELPED_THREADS = 2048 };
static sim_result run(void *data, sim_stream *stream) {
    user_launch *what = data;
    pthread_t helpers[HELPERS];
    int count = 0;
    what->device = sim_stream_device(stream);
    what->stream = stream;
    translate(what);
    look_for_races(what);
#ifndef __SANITIZE_THREAD__
    uint64_t blocks = threads_of(&what->blocks), threads = threads_of(&what->threads);
    while (!what->races && count < HELPERS && blocks > 1 && blocks * threads >= HELPED_THREADS &&
           pthread_create(&helpers[count], NULL, help, what) == 0)
        count++;
#else
    (void)help;
#endif
    user_blocks_run(what);
    for (int i = 0; i < count; i++) pthread_join(helpers[i], NULL);
    user_races_end(what->races);
    sim_result failed = atomic_load_explicit(&what->failed, memory_order_relaxed);
    if (!failed) sim_launch_count(what->name);
    return failed;
}

static void drop(void *data) {
    user_launch *what = data;
    atomic_fetch_sub_explicit(&what->module->users, 1, memory_order_relaxed);
    sim_program_release(what->program);
    free(what);
}

sim_result sim_program_launch(sim_function *function, sim_stream *stream, const unsigned grid[3], const unsigned block[3], unsigned shared,
                              void **parameters, void **extra) {
    const mst_program_kernel *kernel = function->user;
    sim_program *program = function->module->program;
    if ((uint64_t)block[0] * block[1] * block[2] > (uint64_t)kernel->threads) return SIM_INVALID_VALUE;
    user_launch *what = calloc(1, sizeof *what + kernel->packed_bytes);
    if (!what) return SIM_OUT_OF_MEMORY;
    if (!pack(kernel, parameters, extra, what->packed)) {
        free(what);
        return SIM_INVALID_VALUE;
    }
    what->module = function->module;
    what->program = program;
    what->kernel = kernel;
    what->name = function->name;
    what->blocks = (mst_program_position){grid[0], grid[1], grid[2]};
    what->threads = (mst_program_position){block[0], block[1], block[2]};
    what->shared = shared;
    atomic_int *users[SIM_LAUNCH_USERS];
    int count = sim_launch_users(what->packed, kernel->packed_bytes, users);
    atomic_fetch_add_explicit(&what->module->users, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&program->references, 1, memory_order_relaxed);
    sim_result result =
        sim_stream_push_users(stream, &(sim_entry){.what = "cuLaunchKernel", .run = run, .drop = drop, .data = what}, users, count);
    if (result) drop(what);
    return result;
}
